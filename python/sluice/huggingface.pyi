import os
from typing import Any, Union

def to_sluice(dataset: Any, folder: Union[str, os.PathLike[str]], image: str = "image",
              label: str = "label") -> int: ...
