from typing import Any

from sluice._batches import Batches, _Source

class Loader(Batches[tuple[Any, ...]]):
    num_outputs: int
    def __init__(self, source: _Source, batch_size: int, *,
                 sample_ids: bool = False, **options: Any) -> None: ...

def external_source(loader: Loader, **options: Any) -> list[Any]: ...
