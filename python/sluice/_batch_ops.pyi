from typing import Any, Callable, NamedTuple, Optional, Sequence, Union

FILL_OP: int
MAX_FILL: int

class BatchKey(NamedTuple):
    seed: int
    epoch: int
    index: int
    rank: int
    ids: Sequence[int]
    draw_epochs: Sequence[int]

class Mix:
    def __init__(self, mixup: float = 0.0, cutmix: float = 0.0, p: float = 1.0, switch_p: float = 0.5,
                 label_smoothing: float = 0.0, pairing: str = "timm", num_classes: Optional[int] = None) -> None: ...

class RandomErasing:
    def __init__(self, p: float = 0.5, scale: tuple[float, float] = ..., ratio: tuple[float, float] = ...,
                 fill: Union[str, float, Sequence[float]] = 0) -> None: ...

def of_part(recipe: Any, batch_ops: Sequence[Any], part: str, mix: type[Mix],
            erasing: type[RandomErasing]) -> tuple[Any, list[Any]]: ...
def words_of(value: int) -> tuple[int, int]: ...
def round_keys(key: Sequence[int]) -> list[tuple[int, int]]: ...
def philox(keys: Any, counter: Sequence[Any], multiplied: Callable[[Any, int], tuple[Any, Any]]) -> tuple[Any, Any, Any, Any]: ...
def quantiles() -> bytes: ...
