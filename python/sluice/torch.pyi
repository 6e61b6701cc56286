import os
from typing import Any, Callable, Optional, Sequence, Union

import torch

from sluice._batches import Batches, _Source
from sluice._torch_batch import Mix as Mix, RandomErasing as RandomErasing
from sluice.lend import Owner
from sluice._dataset import Dataset as Dataset, IterableDataset as IterableDataset

class Loader(Batches[tuple[Any, ...]]):
    lend: Optional[Owner]
    def __init__(self, source: _Source, batch_size: int, *,
                 targets: bool = False,
                 fields: Union[bool, Sequence[str]] = False, sample_ids: bool = False, paths: bool = False, geometry: bool = False, annotations: str = "row",
                 min_box: tuple[float, float] = (1, 1), mask_fill: int = 255,
                 rank: Optional[int] = None,
                 world_size: Optional[int] = None,
                 device: Union[None, str, int, torch.device] = None,
                 dtype: Optional[torch.dtype] = None, channels_last: bool = False,
                 normalize: Optional[bool] = None,
                 transform: Optional[Callable[[torch.Tensor], Any]] = None,
                 target_transform: Optional[Callable[[torch.Tensor], Any]] = None,
                 pin_memory: bool = False, gpu_decode: Optional[str] = None,
                 gpu_memory: Union[None, str, int] = None, recipe: Any = None,
                 batch_ops: Sequence[Union[Mix, RandomErasing]] = (), seed: int = 0,
                 lend: Union[None, str, os.PathLike[str]] = None, lend_share: Union[str, float] = "always",
                 lend_allow: Sequence[int] = (), lend_at_most_ms: Optional[int] = None,
                 python_tail: Optional[Callable[..., Any]] = None,
                 python_tail_shape: Optional[Sequence[int]] = None, python_tail_dtype: Any = None,
                 python_tail_workers: Optional[int] = None, **options: Any) -> None: ...

def pad(images: Sequence[torch.Tensor], multiple: int = 1,
        size: Optional[tuple[int, int]] = None) -> tuple[torch.Tensor, torch.Tensor]: ...
def patchify(images: Sequence[torch.Tensor], size: int,
             num_patches: Optional[int] = None) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]: ...
