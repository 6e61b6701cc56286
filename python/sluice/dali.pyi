import os
from typing import Any, Union

from sluice._batches import Batches

class Loader(Batches[tuple[Any, ...]]):
    num_outputs: int
    def __init__(self, source: Union[str, os.PathLike[str]], batch_size: int, *,
                 sample_ids: bool = False, **options: Any) -> None: ...

def external_source(loader: Loader, **options: Any) -> list[Any]: ...
