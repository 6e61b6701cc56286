from typing import Any

import jax

from sluice import _batch_ops
from sluice._batch_ops import BatchKey as BatchKey

class Mix(_batch_ops.Mix):
    def draws(self, key: BatchKey, height: int, width: int) -> dict[str, Any]: ...
    def apply(self, images: jax.Array, labels: jax.Array, draws: dict[str, Any], num_classes: int,
              num_added: int = 0) -> tuple[jax.Array, jax.Array]: ...
    def __call__(self, images: jax.Array, labels: jax.Array, key: BatchKey,
                 num_classes: int) -> tuple[jax.Array, jax.Array]: ...

class RandomErasing(_batch_ops.RandomErasing):
    def draws(self, key: BatchKey, height: int, width: int) -> dict[str, Any]: ...
    def apply(self, images: jax.Array, labels: jax.Array, draws: dict[str, Any], num_classes: int,
              num_added: int = 0) -> tuple[jax.Array, jax.Array]: ...
    def __call__(self, images: jax.Array, labels: jax.Array, key: BatchKey,
                 num_classes: int) -> tuple[jax.Array, jax.Array]: ...
