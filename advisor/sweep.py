"""`--sweep n=2**10..2**24`: the same workload at several values of one parameter."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from advisor.errors import UsageError
from advisor.parameters import parse_assignments, parse_number
from advisor.series import Value
from advisor.settings import Settings

MOST_STEPS = 7
_NAME_LENGTH = 120
_FORMS = "Write --sweep n=2**10..2**24, --sweep n=1..64:4 (four values), or --sweep n=1,2,8,64."


@dataclass(frozen=True)
class Step:
    """One value of the sweep: `label` is `n=1024`, `directory` the folder of its own report."""

    label: str
    directory: str
    parameter: str
    value: Value
    settings: Settings


@dataclass(frozen=True)
class Sweep:
    """One parameter and its values, as `--set` takes them."""

    parameter: str
    values: tuple[str, ...]

    def steps(self, base: Settings) -> Iterator[Step]:
        """Each value with its settings. Raises `UsageError` where `--set` fixes the parameter as well."""
        if self.parameter in base.assignments:
            raise UsageError(
                f"--sweep {self.parameter} and --set {self.parameter} contradict one another",
                next_step="Leave one of them out.",
            )
        for text in self.values:
            label = f"{self.parameter}={_plain(text)}"
            assignments = {**base.assignments, self.parameter: text}
            at_value = replace(base, assignments=assignments)
            yield Step(label, _folder(label), self.parameter, _plain(text), at_value)


def parse_sweep(texts: Sequence[str]) -> Sweep | None:
    """What `--sweep` was given; None where it was not. Raises `UsageError`."""
    if len(texts) > 1:
        raise UsageError(
            f"--sweep was given {len(texts)} times: {', '.join(texts)}",
            next_step="Sweep one parameter; give the others with --set.",
        )
    return _parse(texts[0]) if texts else None


def _parse(text: str) -> Sweep:
    """A list of values, or a range whose ends are included and whose values lie a constant factor apart.

    Doublings by default, wider steps where that gives more than eight values.
    """
    ((name, values),) = parse_assignments([text], "--sweep").items()
    low, dots, high = values.partition("..")
    chosen = _range(text, low, high) if dots else tuple(v.strip() for v in values.split(",") if v.strip())
    distinct = tuple({_plain(value): value for value in reversed(chosen)}.values())[::-1]
    if len(distinct) < 2:
        raise UsageError(f"--sweep {text} has fewer than two values", next_step=_FORMS)
    return Sweep(name, distinct)


def _range(text: str, low: str, high: str) -> tuple[str, ...]:
    high, colon, count = high.partition(":")
    try:
        first, last = parse_number(low), parse_number(high)
        rising = 0 < first < last < math.inf
        steps = int(count) - 1 if colon else _steps(first, last) if rising else 0
    except (ValueError, OverflowError):
        raise UsageError(f"--sweep {text} is no range of numbers", next_step=_FORMS) from None
    if not rising or not 1 <= steps < 100:
        raise UsageError(
            f"--sweep {text}: the range must rise from above 0, with 2 to 100 values", next_step=_FORMS
        )
    factor = (last / first) ** (1 / steps) if colon else _factor(first, last)
    middle = [first * factor**i for i in range(1, steps)]
    whole = isinstance(first, int) and isinstance(last, int)
    return (str(first), *(str(round(v)) if whole else f"{v:.6g}" for v in middle), str(last))


def _factor(first: float, last: float) -> float:
    """The least power of two that takes the range in so many steps."""
    doublings = math.log2(last / first)
    return 2.0 ** max(1, math.ceil(doublings / MOST_STEPS - 1e-9))


def _steps(first: float, last: float) -> int:
    """Steps of that factor, the last one cut short where the range ends between two."""
    return max(1, math.ceil(math.log2(last / first) / math.log2(_factor(first, last)) - 1e-9))


def _plain(text: str) -> Value:
    """The number that a text is, so that 2**10 and 1024 are the same value; other text as it is."""
    try:
        number = parse_number(text)
    except (ValueError, OverflowError):
        return text
    return number if math.isfinite(number) else text


def _folder(label: str) -> str:
    """A name of one folder, whatever the value holds."""
    name = quote(label, safe="=+, ")
    if len(name) <= _NAME_LENGTH:
        return name
    return f"{name[: _NAME_LENGTH - 9]}~{hashlib.sha256(label.encode()).hexdigest()[:8]}"
