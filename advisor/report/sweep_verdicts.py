"""A sweep in sentences: which strategy up to which value, and what the figures do not tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

from advisor import units
from advisor.report import words
from advisor.report.tracks import Stop, Track
from advisor.report.verdicts import Fact, Verdict
from advisor.series import Value, is_number
from advisor.verdicts.crossings import Stretch, group, stretches


def sweep_verdict(track: Track, parameter: str) -> Verdict:
    """The verdict over all values on one device. `parameter` is its name as it is shown."""
    ordered = all(is_number(stop.value) for stop in track.stops)
    standings = [stop.standing for stop in track.stops]
    found = stretches(standings) if ordered else ()
    headline = _in_order(track, parameter, found) if ordered else _by_value(track, parameter)
    predicted, undecided = track.basis == "predicted", any(stop.standing.rivals for stop in track.stops)
    return Verdict(
        basis=("predicted" if predicted else "measured") if headline or undecided else "nothing",
        tone=_tone(track) if headline or undecided else "none",
        device=words.name(track.device.name),
        headline=f"{'Predicted: ' * predicted}{headline}" if headline else _nothing(parameter, undecided),
        reason=" ".join((*_changes(track, parameter, found), *_remarks(track, parameter))),
        next_step=_narrower(track, parameter, found),
        facts=tuple(_facts(track, parameter)) if ordered else (),
    )


def value_text(value: Value) -> str:
    """A value of the parameter as one types it."""
    return words.name(f"{value:.6g}" if isinstance(value, float) else str(value), 40)


def at(parameter: str, stops: Sequence[Stop]) -> str:
    """n = 1024 and 4096; more than six are counted."""
    return f"{parameter} = {words.listing([value_text(stop.value) for stop in stops])}"


def _tone(track: Track) -> Literal["clear", "tie", "inconclusive"]:
    standings = [stop.standing for stop in track.stops]
    if any(s.likely or (s.rivals and not s.best) for s in standings):
        return "inconclusive"
    return "tie" if all(s.rivals for s in standings if s.best) else "clear"


def _in_order(track: Track, parameter: str, found: Sequence[Stretch]) -> str:
    if len(found) == 1:
        told = [stop for stop in track.stops if stop.standing.best]
        where = at(parameter, told)
        if len(told) > 1:
            ends = f"{parameter} = {value_text(told[0].value)} to {value_text(told[-1].value)}"
            where = (
                f"every value tested, {ends}"
                if len(told) == len(track.stops)
                else f"{len(told)} values, {ends}"
            )
        return f"{_likely(found[0])} at {where}"
    return ", ".join(_part(track, parameter, found, i) for i in range(len(found)))


def _part(track: Track, parameter: str, found: Sequence[Stretch], index: int) -> str:
    stretch = found[index]
    first, last = (value_text(track.stops[i].value) for i in (stretch.first, stretch.last))
    if index == 0:
        where = f"{'at' if stretch.last == 0 else 'up to'} {parameter} = {last}"
    elif index == len(found) - 1:
        where = f"from {first} on"
    else:
        where = f"at {first}" if first == last else f"from {first} to {last}"
    return f"{_likely(stretch)} {where}"


def _likely(stretch: Stretch) -> str:
    return f"{'likely ' * stretch.likely}{words.code(stretch.strategy)}"


def _by_value(track: Track, parameter: str) -> str:
    """For values without an order: each strategy with the values at which it is recommended."""
    found = group([stop.standing for stop in track.stops])
    return "; ".join(
        f"{'likely ' * any(track.stops[i].standing.likely for i in where)}{words.code(strategy)} at "
        f"{at(parameter, [track.stops[i] for i in where])}"
        for strategy, where in found.items()
    )


def _nothing(parameter: str, undecided: bool) -> str:
    if undecided:
        return f"The best strategy cannot be told at any value of {parameter}"
    return f"No recommendation at any value of {parameter}"


def _changes(track: Track, parameter: str, found: Sequence[Stretch]) -> Iterator[str]:
    for before, after in pairwise(found):
        low, high = track.stops[before.last], track.stops[after.first]
        likely = "likely " * (before.likely or after.likely)
        yield (
            f"The best strategy {likely}changes from {words.code(before.strategy)} to "
            f"{words.code(after.strategy)} between {parameter} = {value_text(low.value)} and "
            f"{value_text(high.value)}, two of the values tested."
        )
        if not high.seconds(before.strategy):
            yield f"{words.code(before.strategy)} has no figures at {value_text(high.value)}."


def _remarks(track: Track, parameter: str) -> Iterator[str]:
    """Ties, undecided values, bets and values without a recommendation, alike ones together."""
    profiled = [stop for stop in track.stops if stop.results]
    tied: dict[frozenset[str], list[Stop]] = {}
    unclear: dict[frozenset[str], list[Stop]] = {}
    for stop in track.stops:
        if stop.standing.rivals:
            kind = tied if stop.standing.best else unclear
            kind.setdefault(frozenset(stop.standing.rivals), []).append(stop)
    for names, where in tied.items():
        yield f"{_names(track, names)} tie at {at(parameter, where)}."
    for names, where in unclear.items():
        yield f"{_names(track, names)} cannot be told apart at {at(parameter, where)}."
    bets = [stop for stop in track.stops if stop.standing.likely]
    if bets:
        of = f"{len(bets)} of {words.count(len(profiled), 'value')}"
        yield f"Predicted ranges overlap at {of}: likely, not certain."
    silent = [stop for stop in profiled if not stop.standing.best and not stop.standing.rivals]
    if silent and len(silent) < len(profiled):
        yield f"No recommendation at {at(parameter, silent)}."


def _names(track: Track, names: frozenset[str]) -> str:
    return words.listing(words.code(name) for name in track.strategies if name in names) or "The best"


def _narrower(track: Track, parameter: str, found: Sequence[Stretch]) -> str:
    """How to look closer at the first change, where there is room for another value."""
    for before, after in pairwise(found):
        low, high = track.stops[before.last].value, track.stops[after.first].value
        room = isinstance(low, float) or isinstance(high, float) or int(high) - int(low) > 1
        if room and float(low) > 0:
            return f"Look closer: `--sweep {parameter}={value_text(low)}..{value_text(high)}`."
    return ""


def _facts(track: Track, parameter: str) -> Iterator[Fact]:
    """The time of the recommended strategy at both ends."""
    told = [stop for stop in track.stops if stop.standing.chosen and stop.seconds(stop.standing.chosen)]
    word = "Predicted at" if track.basis == "predicted" else "At"
    for stop in (*told[:1], *told[1:][-1:]):
        chosen = stop.standing.chosen or ""
        middle, low, high = stop.seconds(chosen) or (0.0, 0.0, 0.0)
        yield Fact(
            f"{word} {parameter} = {value_text(stop.value)}",
            units.seconds(middle),
            f"{words.code(chosen)}, {words.seconds_between(low, high)}",
        )
