from typing import Any, Optional

import numpy
import numpy.typing

from sluice._batches import Batches, _Source

class Loader(Batches[tuple[Any, ...]]):
    def __init__(self, source: _Source, batch_size: int, *,
                 sample_ids: bool = False, targets: bool = False, geometry: bool = False,
                 **options: Any) -> None: ...

def normalization(loader: Batches[Any]) -> Optional[numpy.typing.NDArray[numpy.float32]]: ...
