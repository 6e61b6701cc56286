from typing import NamedTuple, Optional, Sequence, Union

import torch

class BatchKey(NamedTuple):
    seed: int
    epoch: int
    index: int
    rank: int
    ids: Sequence[int]
    draw_epochs: Sequence[int]

class Mix:
    def __init__(self, mixup: float = 0.0, cutmix: float = 0.0, p: float = 1.0, switch_p: float = 0.5,
                 label_smoothing: float = 0.0, pairing: str = "timm", num_classes: Optional[int] = None) -> None: ...
    def __call__(self, images: torch.Tensor, labels: torch.Tensor, key: BatchKey,
                 num_classes: int) -> tuple[torch.Tensor, torch.Tensor]: ...

class RandomErasing:
    def __init__(self, p: float = 0.5, scale: tuple[float, float] = ..., ratio: tuple[float, float] = ...,
                 fill: Union[str, float, Sequence[float]] = 0) -> None: ...
    def __call__(self, images: torch.Tensor, labels: torch.Tensor, key: BatchKey,
                 num_classes: int) -> tuple[torch.Tensor, torch.Tensor]: ...
