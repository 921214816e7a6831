"""A sweep in sentences: which strategy up to which value, and what the figures do not tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from advisor import units
from advisor.profiles.sweeps import Value, is_number
from advisor.report import words
from advisor.report.blocks import Fact, Verdict
from advisor.report.failures import FIRST_FRAMES, HOST_ONLY, Doubt
from advisor.report.tracks import Stop, Track
from advisor.verdicts.crossings import Change, Stretch, changes, group, runs, stretches

_MOST_PARTS = 6
_FINER = 5
"""Values of a closer look between two neighbours; more where it spans values that tie."""


def sweep_verdict(track: Track, parameter: str) -> Verdict:
    """The verdict over all values on one device. `parameter` is its name as it is shown."""
    ordered = all(is_number(stop.value) for stop in track.stops)
    standings = [stop.standing for stop in track.stops]
    found = runs(standings) if ordered else ()
    changed = changes(standings, found)
    told = stretches(standings, found, changed)
    headline = _in_order(track, parameter, told) if ordered else _by_value(track, parameter)
    predicted, undecided = track.basis == "predicted", any(stop.standing.rivals for stop in track.stops)
    return Verdict(
        basis=("predicted" if predicted else "measured") if headline or undecided else "nothing",
        tone=_tone(track) if headline or undecided else "none",
        device=words.name(track.device.name),
        headline=f"{'Predicted: ' * predicted}{headline}" if headline else _nothing(track, parameter),
        reason=" ".join((*_changes(track, parameter, changed), *_remarks(track, parameter))),
        next_step=_narrower(track, parameter, changed),
        facts=tuple(_facts(track, parameter)) if ordered else (),
    )


def at(parameter: str, stops: Sequence[Stop]) -> str:
    """n = 1024 and 4096; more than six are counted."""
    return f"{parameter} = {words.listing([words.value(stop.value) for stop in stops])}"


def _tone(track: Track) -> Literal["clear", "tie", "inconclusive"]:
    standings = [stop.standing for stop in track.stops]
    if any(s.likely or (s.rivals and not s.best) for s in standings):
        return "inconclusive"
    return "tie" if all(s.rivals for s in standings if s.best) else "clear"


def _in_order(track: Track, parameter: str, found: Sequence[Stretch]) -> str:
    if len(found) == 1:
        return f"{_strategy(found[0])} at {_everywhere(track, parameter, found[0])}{_tied(found[0])}"
    parts = [_part(track, parameter, found, i) for i in range(len(found))]
    if len(parts) > _MOST_PARTS:
        shown = parts[: _MOST_PARTS - 2]
        left = words.count(len(parts) - len(shown) - 1, "more stretch")
        parts = [*shown, left, parts[-1]]
    return ", ".join(parts)


def _everywhere(track: Track, parameter: str, run: Stretch) -> str:
    told = [track.stops[i] for i in run.values]
    if len(told) == 1:
        return at(parameter, told)
    ends = f"{parameter} = {words.value(told[0].value)} to {words.value(told[-1].value)}"
    return f"every value tested, {ends}" if len(told) == len(track.stops) else f"{len(told)} values, {ends}"


def _part(track: Track, parameter: str, found: Sequence[Stretch], index: int) -> str:
    run = found[index]
    first, last = (words.value(track.stops[i].value) for i in (run.values[0], run.values[-1]))
    if index == 0:
        where = f"{'at' if len(run.values) == 1 else 'up to'} {parameter} = {last}"
    elif index == len(found) - 1:
        where = f"from {first} on"
    else:
        where = f"at {first}" if first == last else f"from {first} to {last}"
    return f"{_strategy(run)} {where}{_tied(run)}"


def _strategy(run: Stretch) -> str:
    return f"{'likely ' * run.likely}{words.listing(map(words.code, run.strategies), 'or')}"


def _tied(run: Stretch) -> str:
    return f" (tied with {words.listing(map(words.code, sorted(run.tied_with)))})" if run.tied_with else ""


def _by_value(track: Track, parameter: str) -> str:
    """For values without an order: each strategy with the values at which it is recommended."""
    found = group([stop.standing for stop in track.stops])
    return "; ".join(
        f"{'likely ' * any(track.stops[i].standing.likely for i in where)}{words.code(strategy)} at "
        f"{at(parameter, [track.stops[i] for i in where])}"
        for strategy, where in found.items()
    )


def _nothing(track: Track, parameter: str) -> str:
    doubts = {stop.doubt for stop in track.stops if stop.results}
    if len(doubts) == 1 and doubts != {""}:
        return _against(track, doubts.pop())
    if any(stop.standing.rivals for stop in track.stops):
        return f"The best strategy cannot be told at any value of {parameter}"
    return f"No recommendation at any value of {parameter}"


def _against(track: Track, doubt: Doubt) -> str:
    """Why nothing is recommended, as a sentence without its end."""
    if doubt == "failed":
        return f"No recommendation: {FIRST_FRAMES[:1].lower()}{FIRST_FRAMES[1:]}"
    if doubt == "host only":
        return HOST_ONLY
    done = "was predicted" if track.basis == "predicted" else "was run"
    return f"Only {words.listing(map(words.code, track.with_figures))} {done}: nothing was compared"


def _changes(track: Track, parameter: str, changed: Sequence[Change]) -> Iterator[str]:
    for change in changed[:_MOST_PARTS]:
        before, after = (words.code(run.strategy) for run in (change.before, change.after))
        low, high = track.stops[change.low], track.stops[change.high]
        yield (
            f"The best strategy {'likely ' * change.likely}changes from {before} to {after} between "
            f"{parameter} = {words.value(low.value)} and {words.value(high.value)}, two of the values tested."
        )
        if not high.seconds(change.before.strategy):
            yield f"{before} has no figures at {words.value(high.value)}."


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
    bets = [stop for stop in track.stops if stop.standing.overlaps]
    if bets:
        likely = ": likely, not certain" * any(stop.standing.likely for stop in track.stops)
        of = f"{len(bets)} of {words.count(len(profiled), 'value')}"
        yield f"Predicted ranges overlap at {of}{likely}."
    silent = [stop for stop in profiled if not stop.standing.best and not stop.standing.rivals]
    for doubt in dict.fromkeys(stop.doubt for stop in silent if len(silent) < len(profiled)):
        place = at(parameter, [stop for stop in silent if stop.doubt == doubt])
        yield f"At {place}: {_against(track, doubt)}." if doubt else f"No recommendation at {place}."


def _names(track: Track, names: frozenset[str]) -> str:
    return words.listing(words.code(name) for name in track.strategies if name in names) or "The best"


def _narrower(track: Track, parameter: str, changed: Sequence[Change]) -> str:
    """How to look closer at the first change, where there is room for a value that was not tested."""
    tested = {stop.value for stop in track.stops}
    for change in changed:
        low, high = track.stops[change.low].value, track.stops[change.high].value
        texts = words.value(low), words.value(high)
        count = _FINER if change.high - change.low == 1 else 2 * (change.high - change.low) + 1
        if float(low) > 0 and texts[0] != texts[1] and _between(low, high, count) - tested:
            return f"Look closer: `--sweep {parameter}={texts[0]}..{texts[1]}:{count}`."
    return ""


def _between(low: Value, high: Value, count: int) -> set[Value]:
    """What `--sweep` makes of LOW..HIGH:COUNT between the two: a constant factor apart, whole if they are."""
    factor = (float(high) / float(low)) ** (1 / (count - 1))
    values = [float(low) * factor**i for i in range(1, count - 1)]
    whole = isinstance(low, int) and isinstance(high, int)
    return {round(value) if whole else value for value in values}


def _facts(track: Track, parameter: str) -> Iterator[Fact]:
    """The time of the recommended strategy at both ends."""
    told = [stop for stop in track.stops if stop.standing.chosen and stop.seconds(stop.standing.chosen)]
    word = "Predicted at" if track.basis == "predicted" else "At"
    for stop in (*told[:1], *told[1:][-1:]):
        chosen = stop.standing.chosen or ""
        middle, low, high = stop.seconds(chosen) or (0.0, 0.0, 0.0)
        yield Fact(
            f"{word} {parameter} = {words.value(stop.value)}",
            units.seconds(middle),
            f"{words.code(chosen)}, {words.seconds_between(low, high)}",
        )
