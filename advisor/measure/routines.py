"""What library routines read again of memory that the GPU does not cache: routines.toml, which is data.

The counts are of mapped host memory over a link. What they mean for a device is the model's affair.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from advisor.profiles.base import Record
from advisor.profiles.toml_files import parse_toml

PATH = Path(__file__).parent / "routines.toml"

Array = npt.NDArray[Any]
TRANSPOSE, TAKE = "transpose", "take"
L1_BYTES = 1 << 16
"""Every GPU's L1 holds so much of an operand until it is read again; nothing of twice as much."""
_COPIES = frozenset(("copy", "ascontiguousarray", "array", "astype", "flatten", "ravel"))


class Reread(NamedTuple):
    """What a call reads again: bytes that no L1 holds, and those that each multiprocessor reads for itself,
    with the number of blocks that do."""

    bytes: float = 0.0
    shared_bytes: float = 0.0
    readers: float = 1.0


class Routine(Record):
    """One kind of call."""

    calls: Annotated[tuple[str, ...], Field(strict=False)]
    dtypes: Annotated[tuple[str, ...], Field(strict=False)] = ()
    again_of: Literal["operand", "gathered"] = "operand"
    points: Annotated[tuple[Annotated[tuple[float, float], Field(strict=False)], ...], Field(strict=False)]

    def passes(self, uses: float) -> float:
        """How often the operand crosses the link where each of its values is used so often."""
        known, passes = np.log(self.points).T
        return float(np.exp(np.interp(np.log(max(uses, 1.0)), known, passes)))

    def readers(self, uses: float) -> float:
        """How many blocks read each value: beyond the last point a block's tile grows no further."""
        last, passes = self.points[-1]
        return max(self.passes(uses), uses * passes / last if last > 1 else 1.0)


@lru_cache(maxsize=1)
def routines() -> tuple[Routine, ...]:
    """All of the file."""
    content = parse_toml(PATH.read_text(encoding="utf-8"))
    return tuple(Routine.model_validate(row) for row in content["routines"])


def passes(call: str, dtype: np.dtype[Any], uses: float = 1.0) -> float:
    """How often the routine of that name reads its operand; once where nothing was measured."""
    chosen = _routine(call, dtype)
    return 1.0 if chosen is None else chosen.passes(uses)


def _routine(call: str, dtype: np.dtype[Any]) -> Routine | None:
    named = [r for r in routines() if call in r.calls]
    own = [r for r in named if dtype.name in r.dtypes]
    return next(iter(own or [r for r in named if not r.dtypes]), None)


def beyond(
    call: str, operand: Array, counted: float, multiplications: float = 0.0, largest: int = 0
) -> Reread:
    """What the routine reads of an operand beyond `counted` passes.

    `multiplications`: of a contraction, in all; `largest`: elements of its largest operand.
    """
    if call in _COPIES:
        call = TRANSPOSE if is_transposed(operand) else call
    uses = multiplications / operand.size if operand.size else 1.0
    routine = _routine(call, operand.dtype)
    if routine is None:
        return Reread()
    again = max(routine.passes(uses) - counted, 0.0) * operand.nbytes * past_the_l1(operand)
    if uses <= 1:
        return Reread(again)
    # Of a matrix and a vector each value of the matrix is used once, and every block, down to one for each
    # row, reads all of the vector.
    vector = operand.size < largest and multiplications <= largest
    return Reread(again, operand.nbytes, uses if vector else routine.readers(uses))


def broadcast(operand: Array, result: tuple[int, ...]) -> Reread:
    """What an elementwise call reads again of an operand that it repeats along leading axes: every
    multiprocessor runs blocks that read all of it."""
    own = (1,) * (len(result) - operand.ndim) + operand.shape
    along = next((axis for axis, n in enumerate(own) if n > 1), len(own))
    readers = float(np.prod(result[:along], dtype=np.float64))
    return Reread(0.0, operand.nbytes, readers) if readers > 1 and operand.size > 1 else Reread()


def past_the_l1(operand: Array) -> float:
    """How much of an operand an L1 does not hold until it is read again."""
    return min(max(operand.nbytes / L1_BYTES - 1, 0.0), 1.0)


def is_transposed(array: Array) -> bool:
    """Whether neighbours along the last axis are further apart in memory than along another one."""
    axes = [(abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1]
    return len(axes) > 1 and axes[-1][0] > min(stride for stride, _ in axes)
