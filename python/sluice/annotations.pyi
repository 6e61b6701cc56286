from collections.abc import Iterable
from typing import Any, Sequence

import numpy
from numpy.typing import ArrayLike, NDArray

def ragged(arrays: Iterable[ArrayLike]) -> tuple[NDArray[numpy.float32], NDArray[numpy.int64]]: ...
def move_boxes(geometry: Any, size: Sequence[int], boxes: ArrayLike, offsets: ArrayLike, *, min_size: float = 1,
               min_area: float = 1,
               by_center: bool = False) -> tuple[NDArray[numpy.float32], NDArray[numpy.int64],
                                                 NDArray[numpy.int64]]: ...
def move_keypoints(geometry: Any, size: Sequence[int], points: ArrayLike,
                   offsets: ArrayLike) -> NDArray[numpy.float32]: ...
