import os
from typing import Any, Optional, Sequence, Union

def to_sluice(dataset: Any, folder: Union[str, os.PathLike[str]], image: str = "image",
              label: str = "label", shard_bytes: Optional[int] = None,
              fields: Sequence[str] = ()) -> int: ...
