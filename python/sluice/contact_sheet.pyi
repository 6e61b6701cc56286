from os import PathLike
from typing import Any, Optional, Sequence, Union

class Page(str):
    def _repr_html_(self) -> str: ...

def preview(source: Union[str, PathLike[str], Sequence[Union[str, PathLike[str]]]], recipe: Any, num: int = 6,
            draws: int = 4, seed: int = 0, part: str = "train",
            out: Union[None, str, PathLike[str]] = None) -> Page: ...
def main() -> None: ...
