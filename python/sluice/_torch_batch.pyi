import torch

from sluice import _batch_ops
from sluice._batch_ops import BatchKey as BatchKey

class Mix(_batch_ops.Mix):
    def __call__(self, images: torch.Tensor, labels: torch.Tensor, key: BatchKey,
                 num_classes: int) -> tuple[torch.Tensor, torch.Tensor]: ...

class RandomErasing(_batch_ops.RandomErasing):
    def __call__(self, images: torch.Tensor, labels: torch.Tensor, key: BatchKey,
                 num_classes: int) -> tuple[torch.Tensor, torch.Tensor]: ...
