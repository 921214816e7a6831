"""The page of a sweep: one choice for its range, the best at each value, a chart and a table by device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from advisor import units
from advisor.profiles.schema import Failed, Profile, Skipped
from advisor.profiles.sweeps import ProfileSet, Value, Values, are_numbers
from advisor.report import blocks, words
from advisor.report.blocks import NOTHING, Column, Table, TableCell, Verdict, columns, row
from advisor.report.charts import HEIGHT, LOW, Crossover, LineChart, Style, line_chart, styles
from advisor.report.machine import method, pairs, workload
from advisor.report.page import MARKED, Page, Section, around, circumstances, filled, lead, legend, panels
from advisor.report.recommendations import (
    CONFIRM,
    FIGURES,
    FIRST_FRAMES,
    HOST_ONLY,
    nothing,
    sweep_failures,
    uncapitalised,
)
from advisor.report.several_pages import best_table, cell, point_rows
from advisor.report.tables import memory_sentence, merged
from advisor.strategies.registry import BASELINE
from advisor.verdicts import tracks
from advisor.verdicts.reasons import Doubt
from advisor.verdicts.tracks import Stop, Track

_MOST_PARTS = 6
_FINER = 5
"""Number of values to refine with between two neighbours; more where values between them tie."""
_WORKLOAD = ("File", "SHA-256", "Frame")
_METHOD = ("Order", "Time limit", "Figures", "Set-up")
_VALUES = "each value is a separate run, one after the other; no values in between were tested"
_CHANGES = (
    "a change is reported only between values with different recommendations; ties and undecided values "
    "are not changes"
)


def sweep_page(sweep: ProfileSet) -> Page:
    """Everything a sweep says: where the best strategy changes, and the times of all at each value."""
    first, parameter = next(iter(sweep.profiles), None), words.name(sweep.parameter, 40)
    devices = [track for track in tracks.tracks(sweep.points) if track.basis != "cpu"]
    parameters = first.workload.parameters if first else {}
    fixed = pairs({name: value for name, value in parameters.items() if name not in sweep.parameters})
    basis = blocks.basis_of([track.basis for track in devices]) if first else "measured"
    machines = sweep.machines
    names = words.name(machines[0][0].name) if len(machines) == 1 else words.count(len(machines), "device")
    on_device = f" on {names}" if first and basis == "measured" else ""
    created = words.created(first.created) if first else ""
    limits, notes = tuple(words.line(note, 500) for note in sweep.notes), tuple(_notes(sweep, parameter))
    timed = [track for track in devices if track.with_figures]
    alone = len(timed) < 2 and not sweep.is_grid
    grids = []
    for i, track in enumerate(timed if sweep.is_grid else ()):  # for forms without panels
        tables, name = tuple(grid_tables(track, sweep, _confidence(sweep))), words.name(track.device.name)
        brief = tables[: len(tables) if len(timed) == 1 else 1]  # a screen has the first of each device
        grids.append(Section(f"grid-{i}", name, brief, brief=True, forms="md txt"))
        grids.append(Section(f"grid-times-{i}", name, tables[len(brief) :], forms="md txt"))
    best = () if alone or sweep.is_grid else (best_table(sweep, timed, parameter),)
    sections = (
        _lead(sweep, devices, parameter, limits, notes),
        *grids,
        Section("best", "At each value", best, nav="At each value", brief=True),
        *(_device(track, parameter, i, alone=alone) for i, track in enumerate(devices, 1)),
        _circumstances(sweep, first, fixed, limits + notes),
    )
    page = Page(
        "sweep",
        "memory strategy sweep",
        words.name(sweep.workload),
        sections,
        basis=basis,
        where=f"over {_span(sweep, parameter)}{on_device}",
        created=created,
        summary=words.line(first.workload.summary, 300) if first else "",
        meta=tuple(filter(None, (f"`{fixed}`" if fixed else "", created))),
    )
    return replace(page, tool=f"advisor {words.name(first.tool.version)}") if first else page


def _lead(
    sweep: ProfileSet,
    devices: Sequence[Track],
    parameter: str,
    limits: tuple[str, ...],
    notes: tuple[str, ...],
) -> Section:
    confidence = _confidence(sweep)
    verdicts = tuple(sweep_verdict(track, parameter, confidence) for track in devices)
    if len(verdicts) > 1 or sweep.is_grid:  # a table says what is the best where
        verdicts = tuple(replace(verdict, remark="") for verdict in verdicts)
    predicted = any(track.basis == "predicted" for track in devices)
    confirm = {verdict.basis for verdict in verdicts} - {"nothing"} == {"predicted"}
    what = f"Nothing could be measured or predicted at any value of {parameter}"
    failures = sweep_failures(sweep, parameter)  # each with its next step
    none = nothing("", what, next_step="" if failures else "Fix the errors in the rows and run again.")
    figures: list[tuple[blocks.Block, ...]] = []
    looks = styles(list(dict.fromkeys(name for track in devices for name in track.strategies)))
    for track in devices:
        if not track.with_figures:
            figures.append(())
        elif sweep.is_grid:  # a table of two parameters, a chart of one
            figures.append((next(grid_tables(track, sweep, confidence)),))
        else:
            height = HEIGHT if len(devices) == 1 else LOW
            figures.append((_chart(track, parameter, looks, height),))
    following = blocks.Prose(CONFIRM * confirm, label="Next", kind="next together")
    answer = panels(verdicts or (none,), figures or [()], named=predicted)
    return lead(
        replace(following, forms="html"),  # below the charts it would not be on the first screen
        *around(blocks.Failures(failures), *answer, drawn=any(figures)),
        replace(following, forms="md txt"),
        blocks.Banners("note", limits, forms="html txt"),
        blocks.Banners("note", notes, forms="html"),
    )


def _confidence(sweep: ProfileSet) -> float | None:
    """Confidence of the intervals; None where times alone do not decide."""
    first = next(iter(sweep.profiles), None)
    return first.method.confidence if first and first.preferences.by_time else None


def _circumstances(sweep: ProfileSet, first: Profile | None, fixed: str, notes: tuple[str, ...]) -> Section:
    ran = [fact for fact in workload(first) if fact.label in _WORKLOAD] if first else []
    ran += [blocks.Fact("Other parameters", fixed)] * bool(fixed)
    facts = [fact for fact in method(first) if fact.label in _METHOD] if first else []
    facts = [blocks.Fact("Values", _VALUES), *facts, blocks.Fact("Changes", _CHANGES)]
    machine = first if len(sweep.machines) == 1 else None
    return circumstances(machine, command=sweep.command, method=facts, ran=ran, notes=notes)


def _span(sweep: ProfileSet, parameter: str) -> str:
    """Names and values as text: n = 1 to 64; with two parameters, n = 1 to 64, uses = 1 and 10."""
    values = list(dict.fromkeys(point.value for point in sweep.points))
    swept: list[tuple[str, Sequence[Values]]] = [(parameter, values)]
    if sweep.is_grid:
        swept = [(words.name(name), _values(sweep, part)) for part, name in enumerate(sweep.parameters)]
    return ", ".join(f"{name} = {listed(values)}" for name, values in swept)


def listed(values: Sequence[Values]) -> str:
    """1 and 4; 1 to 64 where they are more, and numbers in their order."""
    texts = list(map(words.value, values))
    in_order = are_numbers(values) and sorted(values) == list(values)
    return f"{texts[0]} to {texts[-1]}" if len(texts) > 2 and in_order else words.listing(texts)


def sweep_verdict(track: Track, parameter: str, confidence: float | None = None) -> Verdict:
    """The verdict over all values on one device. `parameter` is its name as it is shown.

    With the `confidence` of the intervals, one choice for all values and its cost; else the best at each.
    """
    optima = [stop.optima for stop in track.stops]
    one = tracks.one_for_all(track.stops, confidence) if confidence else None
    best = best_by_value(track, parameter)
    remark = (
        f"Value by value: {best}" if one and {s.chosen for s in optima if s.chosen} != {one.strategy} else ""
    )
    headline = _for_range(track, parameter, one) if one else best
    basis: blocks.Basis = "predicted" if track.basis == "predicted" else "measured"
    tone: blocks.Tone = "clear"
    if not headline and not any(s.rivals for s in optima):
        basis, tone = "nothing", "none"
    elif any(s.likely or (s.rivals and not s.best) for s in optima):
        tone = "inconclusive"
    elif all(s.rivals for s in optima if s.best):
        tone = "tie"
    sentence = words.stated(headline, basis == "predicted") if headline else _nothing(track, parameter)
    reason, step = " ".join(_remarks(track, parameter)), _narrower(track, parameter)
    return Verdict(basis, tone, words.name(track.device.name), sentence, reason, step, remark)


def _for_range(track: Track, parameter: str, one: tracks.OneForAll) -> str:
    """One strategy for all values, and what it costs at the value where it is the worst choice."""
    stops = [stop for stop in track.stops if stop.known]
    first, last, worst = (words.value(stop.value) for stop in (stops[0], stops[-1], track.stops[one.device]))
    known, every = len(stops), len(track.stops)
    some = "all values" if known == every else f"{known} of {every} values"
    where = f"{parameter} = {first} to {last}" if _runs(track) else f"{some} of {parameter}"
    likely = any(stop.optima.likely for stop in stops)
    cost = words.at_most(one.cost, f"at {parameter} = {worst}")
    return f"{'likely' if likely else 'use'} {words.code(one.strategy)} for {where}: {cost}"


def best_by_value(track: Track, parameter: str) -> str:
    """The best strategy by ranges of the parameter, or at each value if these have no order."""
    optima, parts = [stop.optima for stop in track.stops], []
    places: Iterable[tuple[str, Sequence[int]]] = [(run.strategy, run.values) for run in _runs(track)]
    known = [i for i, each in enumerate(optima) if each.chosen]
    for strategy, where in places or words.grouped(known, lambda i: str(optima[i].chosen)).items():
        likely = "likely " * any(optima[i].likely for i in where)
        values = listed([track.stops[i].value for i in where])
        parts.append(f"{likely}{words.code(strategy)} at {parameter} = {values}")
    if (omitted := len(parts) - _MOST_PARTS + 1) > 1:
        parts[_MOST_PARTS - 2 : -1] = [words.count(omitted, "more range")]
    return ", ".join(parts)


def _runs(track: Track) -> tuple[tracks.Run, ...]:
    """Ranges of one recommended strategy, where the values have an order."""
    has_order = are_numbers([stop.value for stop in track.stops])
    return tracks.runs([stop.optima for stop in track.stops]) if has_order else ()


def _changes(track: Track) -> tuple[tracks.Change, ...]:
    return tracks.changes([stop.optima for stop in track.stops], _runs(track))


def at(parameter: str, stops: Sequence[Stop]) -> str:
    """n = 1024 and 4096; more than six are counted."""
    return f"{parameter} = {words.listing([words.value(stop.value) for stop in stops])}"


def _nothing(track: Track, parameter: str) -> str:
    doubts = {stop.doubt for stop in track.stops if stop.results}
    if len(doubts) == 1 and doubts != {""}:
        return _against(track, doubts.pop())
    if any(stop.optima.rivals for stop in track.stops):
        return f"The best strategy is undecided at every value of {parameter}"
    return f"No recommendation at any value of {parameter}"


def _against(track: Track, doubt: Doubt) -> str:
    if doubt == "failed":
        return f"No recommendation: {uncapitalised(FIRST_FRAMES)}"
    if doubt == "host only":
        return HOST_ONLY
    done = "was predicted" if track.basis == "predicted" else "was run"
    return f"Only {words.listing(map(words.code, track.with_figures))} {done}: nothing was compared"


def _remarks(track: Track, parameter: str) -> Iterator[str]:
    """Undecided values, overlaps and values without a recommendation, alike ones together."""
    profiled = [stop for stop in track.stops if stop.results]
    undecided = [stop for stop in profiled if stop.optima.rivals and not stop.optima.best]
    for among, where in words.grouped(undecided, lambda stop: frozenset(stop.optima.rivals)).items():
        names = words.listing(words.code(name) for name in track.strategies if name in among)
        yield f"{names or 'The best strategies'} cannot be distinguished at {at(parameter, where)}."
    if overlapping := sum(stop.optima.overlaps for stop in track.stops):
        likely = ": likely, not certain" * any(stop.optima.likely for stop in track.stops)
        yield f"Predicted ranges overlap at {overlapping} of {words.count(len(profiled), 'value')}{likely}."
    silent = [stop for stop in profiled if not stop.known]
    if len(silent) < len(profiled):
        for doubt, where in words.grouped(silent, lambda stop: stop.doubt).items():
            place = at(parameter, where)
            yield f"At {place}: {_against(track, doubt)}." if doubt else f"No recommendation at {place}."


def _narrower(track: Track, parameter: str) -> str:
    """A command that refines the first change with values between that were not tested.

    `--sweep` makes of LOW..HIGH:COUNT values a constant factor apart, whole if the two are.
    """
    tested = [stop.value for stop in track.stops]
    if not are_numbers(tested):
        return ""
    for change in _changes(track):
        low, high = tested[change.low], tested[change.high]
        texts = words.value(low), words.value(high)
        count = _FINER if change.high - change.low == 1 else 2 * (change.high - change.low) + 1
        if low <= 0 or texts[0] == texts[1]:
            continue
        factor = (high / low) ** (1 / (count - 1))
        values: list[float] = [low * factor**i for i in range(1, count - 1)]
        if isinstance(low, int) and isinstance(high, int):
            values = [round(value) for value in values]
        if set(values) - set(tested):
            return f"Refine: `--sweep {parameter}={texts[0]}..{texts[1]}:{count}`."
    return ""


def _device(track: Track, parameter: str, number: int, *, alone: bool) -> Section:
    """One device over all values: its table, and what has no figures, once for each reason."""
    device, profiled = words.name(track.device.name), sum(bool(stop.results) for stop in track.stops)
    results = ((stop, stop.results.get(name)) for name in track.strategies for stop in track.stops)
    without = [(stop, row) for stop, row in results if isinstance(row, (Failed, Skipped))]
    single = []
    alike = words.grouped(without, lambda pair: (pair[1].strategy, pair[1].status, pair[1].reason))
    for (strategy, status, reason), where in alike.items():
        label = "not predicted" if track.basis == "predicted" else status
        place = "" if len(where) == profiled else f" (at {at(parameter, [stop for stop, _ in where])})"
        detail = words.block(getattr(where[0][1], "detail", ""))
        single.append(blocks.Item((words.name(strategy),), label, words.line(reason, 500) + place, detail))
    gaps = merged(single)
    further = tuple(gap for gap in gaps if gap.status != "failed")  # failures are told with the verdict
    figures: tuple[blocks.Block, ...] = (blocks.Prose("No strategy has figures here.", forms="html"),)
    if track.with_figures:
        table = _table(track, parameter)
        figures = table, blocks.Prose(legend(table), forms="md txt")
    title = "Not predicted" if track.basis == "predicted" else "Not measured"
    inside = filled(
        blocks.Prose(memory_sentence(track.device), forms="html"),
        *figures,
        blocks.Items(gaps, title, forms="html"),
        blocks.Items(further, forms="md txt"),
    )
    section = Section(f"device-{number}", device, inside, nav=device, badge=track.basis, brief=alone)
    return replace(section, closed=not alone, forms="html md txt" if alone else "html txt")


def _table(track: Track, parameter: str) -> Table:
    """The recommended strategy at each value, the fastest time, and all times relative to it.

    Recommended strategies come first, in the order of the values, then the baseline.
    """
    device, predicted = words.name(track.device.name), track.basis == "predicted"
    order = (*(stop.optima.chosen for stop in track.stops), BASELINE, *track.with_figures)
    names = [name for name in dict.fromkeys(order) if name in track.with_figures]
    rows: list[Sequence[str | TableCell]] = []
    for stop in track.stops:
        cells = ((name, cell(stop, name)) for name in names)
        times = (
            replace(each, value=relative(stop, name), note=each.value) if stop.seconds(name) else each
            for name, each in cells
        )
        least = tracks.fastest(stop)
        rows.append((best_cell(stop).value, units.seconds(least) if least else NOTHING, *times))
    heads = Column("use", figures=False), *columns("fastest", *map(words.code, names))
    where = "" if predicted else f", measured on {device}"
    caption = f"Time per frame relative to the fastest at each value{where}. {MARKED}"
    title = f"{'Predicted time' if predicted else 'Time'} per frame on {device}, relative to the fastest:"
    table = Table(
        "sweep", parameter, heads, tuple(point_rows(track.points, rows)), caption, title, codes=False
    )
    table = replace(table, predicted=predicted, label=f"Times on {device}")
    return replace(table, brief_notes=False, left_out="strategy", whole=True)


def _chart(track: Track, parameter: str, looks: dict[str, Style], height: int) -> LineChart:
    predicted = track.basis == "predicted"
    stops = [stop for stop in track.stops if stop.results]  # a value without a profile has no place here
    changed = []
    for change in _changes(track):
        low, high = track.stops[change.low], track.stops[change.high]
        between = f"between {parameter} = {words.value(low.value)} and {words.value(high.value)}"
        what = f"{'likely ' * change.likely}{change.before.strategy} to {change.after.strategy}, {between}"
        changed.append(Crossover(stops.index(low), stops.index(high), what))
    where = words.name(track.device.name)
    title = f"{'Predicted time' if predicted else 'Time'} relative to the fastest over {parameter} on {where}"
    return line_chart(
        title, parameter, stops, looks,
        height=height, predicted=predicted, changes=changed, relative=True,
        joined=are_numbers([stop.value for stop in stops]),
        note="The recommended strategy changes between the dotted lines." * bool(changed),
    )  # fmt: skip


def _notes(sweep: ProfileSet, parameter: str) -> Iterator[str]:
    """Notes of all values; those that differ only in figures appear once."""
    notes, several = [], len(sweep.machines) > 1
    for value, profile in ((words.value(p.value), p.profile) for p in sweep.points if p.profile):
        value += f" on {words.name(profile.device.name)}" * several
        notes += [(value, note) for note in (*profile.notes, *profile.environment.warnings)]
    for same in words.grouped(notes, lambda pair: FIGURES.sub("0", pair[1])).values():
        values, note = [value for value, _ in same], words.line(same[0][1], 500).rstrip(".")
        where = f" (at {parameter} = {words.listing(values)})"
        if len({text for _, text in same}) > 1:
            more = words.count(len(same) - 1, "other value")
            where = f" (at {parameter} = {values[0]}; much the same at {more})"
        elif len(same) == len(sweep.profiles):
            where = ""
        yield f"{note}{where}."


def grid_tables(track: Track, sweep: ProfileSet, confidence: float | None) -> Iterator[Table]:
    """The recommended strategies; then, for forms that show no notes, the times of the one choice."""
    one = tracks.one_for_all(track.stops, confidence) if confidence else None
    safe, device = one.strategy if one else "", words.name(track.device.name)
    title = f"Recommended on {device}{' (predicted)' * (track.basis == 'predicted')}"
    cells = _grid_table(track, sweep, f"{title}:", lambda stop: best_cell(stop, safe))
    below = f", with the least time per frame and that of {words.code(safe)} relative to it" if safe else ""
    yield replace(cells, caption=f"{title}{below}.")
    if safe:
        title = f"Time of {words.code(safe)} relative to the fastest:"
        yield _grid_table(track, sweep, title, lambda stop: TableCell(relative(stop, safe)))


def _grid_table(track: Track, sweep: ProfileSet, title: str, cell_of: Callable[[Stop], TableCell]) -> Table:
    first, second = map(words.name, sweep.parameters)
    rows, across = (_values(sweep, part) for part in (0, 1))
    cells = {
        point.value: cell_of(stop) if point.profile else TableCell(point.status)
        for point, stop in zip(track.points, track.stops, strict=True)
    }
    heads = columns(*(f"{second} = {words.value(value)}" for value in across), figures=False)
    lines = (row(words.value(v), *(cells.get((v, each), NOTHING) for each in across)) for v in rows)
    table = Table("sweep best", first, heads, tuple(lines), title=title, codes=False, whole=True)
    return replace(table, predicted=track.basis == "predicted", brief_notes=False)


def _values(sweep: ProfileSet, part: int) -> Sequence[Value]:
    pairs = (point.value for point in sweep.points)
    values = list(dict.fromkeys(pair[part] for pair in pairs if isinstance(pair, tuple)))
    return sorted(values) if are_numbers(values) else values


def best_cell(stop: Stop, safe: str = "") -> TableCell:
    """The recommended strategy, the least time, and how much longer a `safe` choice for all values takes."""
    chosen, least = stop.optima.chosen, tracks.fastest(stop)
    if not chosen or not least:
        return TableCell("undecided" if stop.optima.rivals else NOTHING)
    if stop.optima.overlaps and (safely := stop.seconds(safe)) and safely[0] <= least:
        chosen = safe  # ranges overlap, and the choice for all pairs is the fastest here
    cost = f", {words.name(safe)} {relative(stop, safe)}" if safe not in ("", chosen) else ""
    return TableCell(words.name(chosen), f"{units.seconds(least)}{cost}")


def relative(stop: Stop, strategy: str) -> str:
    figures, least = stop.seconds(strategy), tracks.fastest(stop)
    return units.ratio(figures[0] / least) if figures and least else NOTHING
