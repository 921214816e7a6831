"""A sweep in sentences: which strategy up to which value, what is not told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from advisor import units
from advisor.profiles.schema import Predicted, Profile
from advisor.profiles.sweeps import SweepResults, Value, WorkloadResults, is_number
from advisor.report import words
from advisor.report.blocks import NOTHING, Column, Row, Table, TableCell, Tone, Verdict
from advisor.report.recommendations import FIRST_FRAMES, HOST_ONLY, uncapitalised, with_gain
from advisor.strategies.registry import BASELINE
from advisor.verdicts import tracks
from advisor.verdicts.reasons import Doubt

_MOST_PARTS = 6
_FINER = 5
"""Number of values to refine with between two neighbours; more where values between them tie."""


def sweep_verdict(track: tracks.Track, parameter: str, confidence: float | None = None) -> Verdict:
    """The verdict over all values on one device. `parameter` is its name as it is shown.

    With the `confidence` of the intervals, one choice for all values and its cost; else the best at each.
    """
    optima = [stop.optima for stop in track.stops]
    spans = tracks.runs(optima) if _ordered(track) else ()
    changed = tracks.changes(optima, spans)
    one = tracks.one_for_all(track.stops, confidence) if confidence else None
    headline = best_by_value(track, parameter, spans)
    remark = f"Best: {headline}" if one and {s.chosen for s in optima if s.chosen} != {one.strategy} else ""
    headline = _for_range(track, parameter, one) if one else headline
    predicted, undecided = track.basis == "predicted", any(s.rivals for s in optima)
    sentence = f"Predicted: {headline}" if predicted else headline[:1].upper() + headline[1:]
    tone: Tone = "clear"
    if not headline and not undecided:
        tone = "none"
    elif any(s.likely or (s.rivals and not s.best) for s in optima):
        tone = "inconclusive"
    elif all(s.rivals for s in optima if s.best):
        tone = "tie"
    sentence = sentence if headline else _nothing(track, parameter)
    reason = " ".join((*_changes(track, parameter, changed), *_remarks(track, parameter)))
    step = _narrower(track, parameter, changed)
    device = words.name(track.device.name)
    if not (headline or undecided):
        return Verdict("nothing", tone, device, sentence, reason, step, remark)
    return Verdict("predicted" if predicted else "measured", tone, device, sentence, reason, step, remark)


def _ordered(track: tracks.Track) -> bool:
    return all(is_number(stop.value) for stop in track.stops)


def _for_range(track: tracks.Track, parameter: str, one: tracks.OneForAll) -> str:
    """One strategy for all values, and what it costs at the value where it is the worst choice."""
    stops = [stop for stop in track.stops if stop.known]
    first, last, worst = (words.value(stop.value) for stop in (stops[0], stops[-1], track.stops[one.device]))
    where = f"{parameter} = {first} to {last}" if _ordered(track) else f"all values of {parameter}"
    likely = any(stop.optima.likely for stop in stops)
    cost = words.at_most(one.cost, f"at {parameter} = {worst}")
    return f"{'likely' if likely else 'use'} {words.code(one.strategy)} for {where}: {cost}"


def best_by_value(track: tracks.Track, parameter: str, ranges: Sequence[tracks.Run]) -> str:
    """The best strategy by ranges of the parameter, or at each value if these have no order."""
    if not _ordered(track):
        parts = []
        for strategy, where in tracks.group([stop.optima for stop in track.stops]).items():
            stops = [track.stops[i] for i in where]
            likely = "likely " * any(stop.optima.likely for stop in stops)
            parts.append(f"{likely}{words.code(strategy)} at {at(parameter, stops)}")
        return "; ".join(parts)
    parts = [_part(track, parameter, ranges, i) for i in range(len(ranges))]
    if (omitted := len(parts) - _MOST_PARTS + 1) > 1:
        parts[_MOST_PARTS - 2 : -1] = [words.count(omitted, "more range")]
    return ", ".join(parts)


def crossings(track: tracks.Track, parameter: str) -> Iterator[tuple[tracks.Stop, tracks.Stop, str]]:
    """The values between which the best strategy changes, and from which to which."""
    if not _ordered(track):
        return
    optima = [stop.optima for stop in track.stops]
    for change in tracks.changes(optima, tracks.runs(optima)):
        low, high = track.stops[change.low], track.stops[change.high]
        between = f"between {parameter} = {words.value(low.value)} and {words.value(high.value)}"
        likely = "likely " * change.likely
        text = f"{likely}{change.before.strategy} to {change.after.strategy}, {between}"
        yield low, high, text


def at(parameter: str, stops: Sequence[tracks.Stop]) -> str:
    """n = 1024 and 4096; more than six are counted."""
    return f"{parameter} = {words.listing([words.value(stop.value) for stop in stops])}"


def _part(track: tracks.Track, parameter: str, parts: Sequence[tracks.Run], index: int) -> str:
    run = parts[index]
    first, last = (words.value(track.stops[i].value) for i in (run.values[0], run.values[-1]))
    alone = len(run.values) == 1
    if len(parts) == 1 and not alone:
        tested = len(run.values) == len(track.stops)
        many = "every value tested" if tested else f"{len(run.values)} values"
        where = f"at {many}, {parameter} = {first} to {last}"
    elif index == 0:
        where = f"{'at' if alone else 'up to'} {parameter} = {last}"
    elif index == len(parts) - 1:
        where = f"from {first} on"
    else:
        where = f"at {first}" if first == last else f"from {first} to {last}"
    return f"{'likely ' * run.likely}{words.code(run.strategy)} {where}"


def _nothing(track: tracks.Track, parameter: str) -> str:
    doubts = {stop.doubt for stop in track.stops if stop.results}
    if len(doubts) == 1 and doubts != {""}:
        return _against(track, doubts.pop())
    if any(stop.optima.rivals for stop in track.stops):
        return f"The best strategy is undecided at every value of {parameter}"
    return f"No recommendation at any value of {parameter}"


def _against(track: tracks.Track, doubt: Doubt) -> str:
    if doubt == "failed":
        return f"No recommendation: {uncapitalised(FIRST_FRAMES)}"
    if doubt == "host only":
        return HOST_ONLY
    done = "was predicted" if track.basis == "predicted" else "was run"
    return f"Only {words.listing(map(words.code, track.with_figures))} {done}: nothing was compared"


def _changes(track: tracks.Track, parameter: str, changed: Sequence[tracks.Change]) -> Iterator[str]:
    for change in changed[:_MOST_PARTS]:
        before, after = (words.code(run.strategy) for run in (change.before, change.after))
        low, high = track.stops[change.low], track.stops[change.high]
        yield (
            f"The best strategy {'likely ' * change.likely}changes from {before} to {after} between "
            f"{parameter} = {words.value(low.value)} and {words.value(high.value)}, two of the tested values."
        )
        if not high.seconds(change.before.strategy):
            yield f"{before} has no figures at {words.value(high.value)}."


def _remarks(track: tracks.Track, parameter: str) -> Iterator[str]:
    """Ties, undecided values, overlaps and values without a recommendation, alike ones together."""
    profiled = [stop for stop in track.stops if stop.results]
    rivals = [stop for stop in track.stops if stop.optima.rivals]
    for tied, verb in ((True, "tie"), (False, "cannot be distinguished")):
        stops = [stop for stop in rivals if bool(stop.optima.best) is tied]
        for among, where in words.grouped(stops, lambda stop: frozenset(stop.optima.rivals)).items():
            names = words.listing(words.code(name) for name in track.strategies if name in among)
            yield f"{names or 'The best strategies'} {verb} at {at(parameter, where)}."
    overlapping = sum(bool(stop.optima.overlaps) for stop in track.stops)
    if overlapping:
        likely = ": likely, not certain" * any(stop.optima.likely for stop in track.stops)
        yield f"Predicted ranges overlap at {overlapping} of {words.count(len(profiled), 'value')}{likely}."
    silent = [stop for stop in profiled if not stop.known]
    if len(silent) < len(profiled):
        for doubt, where in words.grouped(silent, lambda stop: stop.doubt).items():
            place = at(parameter, where)
            yield f"At {place}: {_against(track, doubt)}." if doubt else f"No recommendation at {place}."


def _narrower(track: tracks.Track, parameter: str, changed: Sequence[tracks.Change]) -> str:
    """A command that refines the first change with values between that were not tested.

    `--sweep` makes of LOW..HIGH:COUNT values a constant factor apart, whole if the two are.
    """
    tested = {stop.value for stop in track.stops}
    for change in changed:
        low, high = track.stops[change.low].value, track.stops[change.high].value
        texts = words.value(low), words.value(high)
        count = _FINER if change.high - change.low == 1 else 2 * (change.high - change.low) + 1
        if float(low) <= 0 or texts[0] == texts[1]:
            continue
        factor = (float(high) / float(low)) ** (1 / (count - 1))
        values: list[float] = [float(low) * factor**i for i in range(1, count - 1)]
        if isinstance(low, int) and isinstance(high, int):
            values = [round(value) for value in values]
        if set(values) - tested:
            return f"Refine: `--sweep {parameter}={texts[0]}..{texts[1]}:{count}`."
    return ""


def cell(stop: tracks.Stop, strategy: str) -> TableCell:
    """The time of a strategy at one value or on one device, marked where it is the best there.

    Else failed, skipped or not predicted; a dash where the strategy was not asked for.
    """
    figures, row = stop.seconds(strategy), stop.results.get(strategy)
    if row is None:
        return TableCell(NOTHING)
    if figures is None:
        predicted = any(isinstance(result, Predicted) for result in stop.results.values())
        return TableCell("not predicted" if predicted and row.status == "skipped" else row.status)
    middle, low, high = figures
    mark = "rival" if strategy in stop.optima.rivals else ""
    if strategy == stop.optima.chosen:
        mark = "chosen"
    return TableCell(units.seconds(middle), words.seconds_between(low, high) * (low < high), mark=mark)


def best_table(results: SweepResults, devices: Sequence[tracks.Track], names: str) -> Table:
    """The recommended strategy at each value, or of each workload, on each device, and its gain."""
    heads = (
        Column(words.name(t.device.name), figures=False, notes="interval", basis=t.basis) for t in devices
    )
    rows = []
    for i, point in enumerate(results.points):
        cells = tuple(_advised(point.profile, track.stops[i], track) for track in devices if point.profile)
        missing = "" if point.profile else f"{point.status}: {words.line(point.reason, 200)}"
        rows.append(Row(words.value(point.value), cells, href=point.href, missing=missing))
    caption = "The recommended strategy, and its gain over the baseline."
    title = "Recommended, with the gain over the baseline:"
    table = Table("sweep best", names, tuple(heads), tuple(rows), caption, title)
    return replace(table, codes=isinstance(results, WorkloadResults), left_out="device", whole=True)


def _advised(profile: Profile | None, stop: tracks.Stop, track: tracks.Track) -> TableCell:
    advice = profile.recommendation if profile else None
    if profile and track.basis == "measured":
        advice = advice and with_gain(advice, profile)
    elif profile:
        advice = next(p.recommendation for p in profile.predictions if p.device.name == track.device.name)
    if not stop.optima.chosen or advice is None:
        return TableCell("undecided" if stop.optima.rivals else NOTHING)
    likely = "likely " * stop.optima.likely
    if advice.strategy == BASELINE:
        return TableCell(f"{likely}keep {BASELINE}")
    gain = f", {units.ratio(advice.speedup)}" if advice.speedup else ""
    between = words.gain_between(*advice.interval) if advice.interval else ""
    return TableCell(f"{likely}{words.name(stop.optima.chosen)}{gain}", between)


def grid_tables(track: tracks.Track, sweep: SweepResults, confidence: float | None) -> Iterator[Table]:
    """The best strategies; then, for forms that show no notes, the one choice relative to them."""
    one = tracks.one_for_all(track.stops, confidence) if confidence else None
    safe, device = one.strategy if one else "", words.name(track.device.name)
    prefix = "Predicted best" if track.basis == "predicted" else "Best"
    cells = _grid_table(track, sweep, f"{prefix} strategy on {device}:", lambda stop: best(stop, safe))
    below = f", with its time per frame and that of {words.code(safe)} relative to it" if safe else ""
    yield replace(cells, caption=f"{prefix} strategy on {device}{below}.")
    if safe:
        title = f"Time of {words.code(safe)} relative to the fastest:"
        yield _grid_table(track, sweep, title, lambda stop: TableCell(relative(stop, safe)))


def _grid_table(
    track: tracks.Track, sweep: SweepResults, title: str, cell_of: Callable[[tracks.Stop], TableCell]
) -> Table:
    first, second = map(words.name, sweep.grid)
    rows, columns = (_values(sweep, i) for i in (0, 1))
    cells = {
        point.cell: cell_of(stop) if point.profile else TableCell(point.status)
        for point, stop in zip(sweep.points, track.stops, strict=True)
    }
    absent = TableCell(NOTHING)
    heads = tuple(Column(f"{second} = {words.value(across)}", figures=False) for across in columns)
    lines = (Row(words.value(v), tuple(cells.get((v, across), absent) for across in columns)) for v in rows)
    table = Table("sweep best", first, heads, tuple(lines), title=title, codes=False, whole=True)
    return replace(table, predicted=track.basis == "predicted", brief_notes=False)


def _values(sweep: SweepResults, part: int) -> list[Value]:
    values = list(dict.fromkeys(point.cell[part] for point in sweep.points))
    return sorted(values, key=float) if all(map(is_number, values)) else values


def best(stop: tracks.Stop, safe: str) -> TableCell:
    chosen = stop.optima.chosen
    least = tracks.fastest(stop)
    if not chosen or not least:
        return TableCell("undecided" if stop.optima.rivals else NOTHING)
    if stop.optima.overlaps and (safely := stop.seconds(safe)) and safely[0] <= least:
        chosen = safe  # ranges overlap, and the choice for all pairs is the fastest here
    cost = f", {words.name(safe)} {relative(stop, safe)}" if safe not in ("", chosen) else ""
    return TableCell(words.name(chosen), f"{units.seconds(least)}{cost}")


def relative(stop: tracks.Stop, strategy: str) -> str:
    figures, least = stop.seconds(strategy), tracks.fastest(stop)
    return units.ratio(figures[0] / least) if figures and least else NOTHING


def span(sweep: SweepResults) -> str:
    """n = 1 to 64 and uses = 1, 10."""
    ranges = []
    for part, name in enumerate(sweep.grid):
        values = _values(sweep, part)
        texts = list(map(words.value, values))
        short = len(values) > 2 and all(map(is_number, values))
        ranges.append(f"{words.name(name)} = {f'{texts[0]} to {texts[-1]}' if short else ', '.join(texts)}")
    return " and ".join(ranges)
