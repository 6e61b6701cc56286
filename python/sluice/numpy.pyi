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
