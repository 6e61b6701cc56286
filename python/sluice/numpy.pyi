from typing import Any, Optional, Sequence, Union

import numpy
import numpy.typing

from sluice._batches import Batches, _Source

class Loader(Batches[tuple[Any, ...]]):
    def __init__(self, source: _Source, batch_size: int, *,
                 sample_ids: bool = False, targets: bool = False,
                 fields: Union[bool, Sequence[str]] = False, geometry: bool = False, annotations: str = "row",
                 min_box: tuple[float, float] = (1, 1), mask_fill: int = 255,
                 **options: Any) -> None: ...

def normalization(loader: Batches[Any]) -> Optional[numpy.typing.NDArray[numpy.float32]]: ...
def pad(images: Sequence[numpy.typing.NDArray[Any]], multiple: int = 1,
        size: Optional[tuple[int, int]] = None) -> tuple[numpy.typing.NDArray[Any], numpy.typing.NDArray[numpy.bool_]]: ...
def patchify(images: Sequence[numpy.typing.NDArray[Any]], size: int, num_patches: Optional[int] = None
             ) -> tuple[numpy.typing.NDArray[Any], numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int64]]: ...
