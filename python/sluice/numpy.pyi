import os
from typing import Any, Optional, Union

import numpy
import numpy.typing

from sluice._batches import Batches

class Loader(Batches[tuple[numpy.typing.NDArray[Any], ...]]):
    def __init__(self, source: Union[str, os.PathLike[str]], batch_size: int, *,
                 sample_ids: bool = False, **options: Any) -> None: ...

def normalization(loader: Batches[Any]) -> Optional[numpy.typing.NDArray[numpy.float32]]: ...
