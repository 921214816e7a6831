"""Words and figures for every form of the report: cut to length, cleaned, with their units.

Text in a view is plain. A name between backticks is to be set as code; `spans` finds them, and each
template escapes what it prints.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from advisor import units
from advisor.profiles.sweeps import Values, pair
from advisor.stats import Ratio
from advisor.verdicts import reasons

Item = TypeVar("Item")
Key = TypeVar("Key")

NAME_LENGTH = 60
PROSE_LENGTH = 1_000
BLOCK_LENGTH = 6_000
_MOST_NAMED = 6
"""Devices."""

# Control characters, the marks that make text read otherwise than it is, and lone surrogates, which cannot be
# encoded.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_SPACE = re.compile(r"\s+")
_CODE = re.compile(r"`([^`]+)`")
_SENTENCE = re.compile(r"(?<=[.?!]) (?=[A-Z`])")


def spans(prose: str) -> list[tuple[str, bool]]:
    """Prose cut at its `names`, which are marked as code; a backtick without a partner stays as it is."""
    return [(piece, i % 2 == 1) for i, piece in enumerate(_CODE.split(prose)) if piece]


def sentences(prose: str) -> list[str]:
    return _SENTENCE.split(prose)


def line(text: str, limit: int = PROSE_LENGTH) -> str:
    """Text on one line, printable, cut to `limit` characters with a mark that says how much is gone."""
    # Cut roughly first: collapsing the space of a very long text is slow.
    flat = _SPACE.sub(" ", _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text[: 4 * limit])).strip()
    if len(flat) <= limit and len(text) <= 4 * limit:
        return flat
    mark = f" … [{len(text) - limit:,} more characters]" if limit >= 2 * NAME_LENGTH else "…"
    return flat[: limit - 1 if mark == "…" else limit].rstrip() + mark


def name(text: str, limit: int = NAME_LENGTH) -> str:
    """A name on one line without backticks, so that it can be set as code."""
    return line(text.replace("`", "'"), limit) or "(no name)"


def code(text: str, limit: int = NAME_LENGTH) -> str:
    return f"`{name(text, limit)}`"


def block(text: str, limit: int = BLOCK_LENGTH) -> str:
    """Several lines, printable; of a long text the end is kept, where a traceback says what happened."""
    printable = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text[-limit:].replace("\r\n", "\n"))
    is_diff = printable.startswith("--- ")  # whose tabs are the file's
    body = (printable if is_diff else textwrap.dedent(printable.expandtabs(4))).strip("\n")
    return f"[{len(text) - limit:,} characters cut] …\n{body}" if len(text) > limit else body


def listing(items: Iterable[str], limit: int = 6) -> str:
    """a, b and c; after `limit` items only how many more there are."""
    texts = list(items)
    if len(texts) > limit:
        texts = [*texts[: limit - 1], f"{len(texts) - limit + 1} more"]
    return reasons.listing(texts)


def stated(sentence: str, predicted: bool) -> str:
    return f"Predicted: {sentence}" if predicted else sentence[:1].upper() + sentence[1:]


def at_most(cost: Ratio, where: str) -> str:
    """The cost of one strategy for all devices or values, where it is the worst choice."""
    if cost.high <= 1:
        return "the fastest everywhere"
    most, between = units.ratio(cost.value), ratio_between(cost.low, cost.high)
    where = f"{between}, {where}" if between != most else where
    if most == units.ratio(1.0):
        return "as fast as the best everywhere" + f" ({where})" * (between != most)
    return f"at most {most} the best time ({where})"


def one_for_all(strategy: str, cost: Ratio, device: str) -> str:
    """One strategy for all devices: pinned, at most 2.5× the best time (on A)."""
    return f"One strategy for all: {name(strategy)}, {at_most(cost, f'on {name(device)}')}"


def on_devices(phrases: Iterable[tuple[str, str]], of: int = 0) -> str:
    """`pinned` on A and B; `zero-copy` on C: from pairs of a text and its device, `of` so many."""
    alike = grouped(phrases, lambda pair: pair[0]).items()
    return "; ".join(f"{text} on {devices([device for _, device in same], of)}" for text, same in alike)


def devices(names: Sequence[str], of: int = 0) -> str:
    """A and B; both devices; all 3 devices, where these are all that there are."""
    if len(names) == of > 1:
        return "both devices" if of == 2 else f"all {of} devices"
    return listing(names) if len(names) <= _MOST_NAMED else count(len(names), "device")


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun if number == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """frames, copies, processes, stretches."""
    if noun.endswith("y"):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("ss", "ch")) else f"{noun}s"


_UNKNOWN = 1e3
"""An interval whose ends differ by more than this factor is called unknown: it has too few figures."""


def known(low: float, high: float) -> bool:
    return high <= _UNKNOWN * low


def seconds_between(low: float, high: float) -> str:
    """19.9 to 20.1 ms: one unit where both ends share it, more digits where three cannot tell them apart."""
    return _between(low, high, units.seconds) if known(low, high) else "interval unknown"


def ratio_between(low: float, high: float) -> str:
    """1.98× to 2.02×."""
    if not known(low, high):
        return "unknown"
    return _between(low, high, lambda value, digits: f"{units.digits(value, digits)}×")


def gain_between(low: float, high: float) -> str:
    """1.6 to 1.8: as few digits as tell the ends apart, two at least; empty where an end is unknown."""
    return _between(low, high, lambda value, n: units.digits(value, n - 1)) if known(low, high) else ""


def slower(ratio: Ratio) -> str:
    """slower by 7.0 % (5.1 to 8.9), faster by 20 % (18 to 22), or slower by a factor of 2.4 (2.2 to 2.6)."""
    word, ends = ("slower" if ratio.value >= 1 else "faster"), (ratio.value, ratio.low, ratio.high)
    if 0.5 < ratio.value < 2:
        sign = 1 if ratio.value >= 1 else -1
        shares = [100 * sign * (end - 1) for end in ends]
        by, unit = "", " %"
    else:
        shares = [end if ratio.value >= 1 else 1 / end for end in ends]
        by, unit = "a factor of ", ""
    written = ([units.digits(share, digits) for share in shares] for digits in (2, 3, 4, 5))
    share, *others = next((t for t in written if len(set(t)) == 3), [f"{s:.3g}" for s in shares])
    low, high = others if ratio.value >= 1 else reversed(others)
    interval = f" ({low} to {high})" * (ratio.low < ratio.high)
    return f"{word} by {by}{share}{unit}{interval}"


def _between(low: float, high: float, write: Callable[[float, int], str]) -> str:
    texts = next((pair for d in (3, 4, 5) if len(set(pair := (write(low, d), write(high, d)))) == 2), None)
    if texts is None:
        return write(low, 3)
    (first, _, first_unit), (_, _, second_unit) = (text.partition(" ") for text in texts)
    return f"{first} to {texts[1]}" if first_unit == second_unit else " to ".join(texts)


def places(lines: Iterable[str]) -> str:
    """camera.py:12, 13 and 20; filters.py:4."""
    by_file = grouped(lines, lambda line: line.rpartition(":")[0])
    numbers = {file: [line.rpartition(":")[2] for line in same] for file, same in by_file.items()}
    return "; ".join(f"{file}:{listing(each, limit=5)}" for file, each in numbers.items())


def created(text: str) -> str:
    """`2026-01-02T03:04:05+00:00` as `2026-01-02 03:04 UTC`; any other form as it is."""
    day, separator, time = text.partition("T")
    utc = time.endswith(("+00:00", "Z"))
    return name(f"{day} {time[:5]} UTC" if separator and utc else text)


def value(of: Values) -> str:
    if isinstance(of, tuple):
        return name(pair(map(value, of)), 40)
    return name(f"{of:.6g}" if isinstance(of, float) else str(of), 40)
