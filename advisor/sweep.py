"""`--sweep n=2**10..2**24`: the same workload at several values of one parameter."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from advisor.errors import UsageError
from advisor.parameters import parse_assignments, parse_number
from advisor.settings import Settings

MOST_STEPS = 7
_FORMS = "Write --sweep n=2**10..2**24, --sweep n=1..64:4 (four values), or --sweep n=1,2,8,64."


@dataclass(frozen=True)
class Sweep:
    """One parameter and its values, as `--set` takes them."""

    parameter: str
    values: tuple[str, ...]

    def settings(self, base: Settings) -> Iterator[tuple[str, Settings]]:
        """A label such as `n=1024` and the settings of each value."""
        for value in self.values:
            assignments = {**base.assignments, self.parameter: value}
            yield f"{self.parameter}={value}", replace(base, assignments=assignments)


def parse_sweep(text: str) -> Sweep:
    """A list of values, or a range whose ends are included and whose values lie a constant factor apart.

    Doublings by default, wider steps where that gives more than eight values. Raises `UsageError`.
    """
    ((name, values),) = parse_assignments([text], "--sweep").items()
    low, dots, high = values.partition("..")
    chosen = _range(text, low, high) if dots else tuple(v.strip() for v in values.split(",") if v.strip())
    if len(chosen) < 2:
        raise UsageError(f"--sweep {text} has fewer than two values", next_step=_FORMS)
    return Sweep(name, tuple(dict.fromkeys(chosen)))


def _range(text: str, low: str, high: str) -> tuple[str, ...]:
    high, colon, count = high.partition(":")
    try:
        first, last = parse_number(low), parse_number(high)
        steps = int(count) - 1 if colon else _steps(first, last)
    except (ValueError, OverflowError):
        raise UsageError(f"--sweep {text} is no range of numbers", next_step=_FORMS) from None
    if not 0 < first < last < math.inf or not 1 <= steps < 100:
        raise UsageError(
            f"--sweep {text}: the range must rise from above 0, with 2 to 100 values", next_step=_FORMS
        )
    factor = (last / first) ** (1 / steps)
    middle = [first * factor**i for i in range(1, steps)]
    whole = isinstance(first, int) and isinstance(last, int)
    return (str(first), *(str(round(v)) if whole else f"{v:.6g}" for v in middle), str(last))


def _steps(first: float, last: float) -> int:
    doublings = math.log2(last / first)
    return max(1, math.ceil(doublings / max(1, math.ceil(doublings / MOST_STEPS)) - 1e-9))
