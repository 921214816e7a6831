"""The report of a script as data: every word and number ready for the templates."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from advisor import units
from advisor.profiles.schema import Profile
from advisor.profiles.scripts import ScriptMeasured, ScriptMemory, ScriptRun
from advisor.report import words
from advisor.report.headlines import TONES, decided
from advisor.report.machine import environment
from advisor.report.methods import Entry
from advisor.report.tables import Cell, Gap, gaps
from advisor.report.traces import Traces, run_traces
from advisor.strategies.scripts import SCRIPT_STRATEGIES, code
from advisor.verdicts import scripts

UNKNOWN = (
    "Which buffer a figure belongs to: an allocator is for all arrays at once, and places none by itself.",
    "Host memory that the script makes itself (NumPy arrays, `cupyx.empty_pinned`): no strategy changes it.",
    "What overlapping frames, registered or write-combined memory would bring: that needs other code.",
    "The steady state: a run counts whole, with reading files and whatever else the script does.",
    "Copies by other libraries and by `runtime.memcpy`: only those by CuPy's arrays and functions are seen.",
)
MORE = (
    "Write a `@workload` to have buffers placed one by one, stages and copies timed apart, other devices "
    "predicted and advice given: `advisor new mine.py` writes one to start from."
)
_RANGES = 12


@dataclass(frozen=True)
class ScriptRow:
    """One strategy in the table."""

    strategy: str
    meaning: str
    tag: str
    run: str
    between: str
    ratio: str
    ratio_between: str
    to_device: Cell
    to_host: Cell
    memory: Cell
    checked: str


@dataclass(frozen=True)
class RangeRow:
    """One range of the script, its time under each strategy of the table."""

    name: str
    times: tuple[str, ...]


@dataclass(frozen=True)
class ScriptReport:
    """All of one report."""

    title: str
    script: str
    arguments: str
    summary: str
    device: str
    created: str
    tool: str
    basis: str
    tone: str
    headline: str
    certainty: str
    reason: str
    next_step: str
    code: str
    baseline: str
    confidence: str
    rows: tuple[ScriptRow, ...]
    ranges: tuple[RangeRow, ...]
    more_ranges: int
    gaps: tuple[Gap, ...]
    traces: Traces
    unknown: tuple[str, ...]
    more: str
    method: tuple[Entry, ...]
    environment: tuple[Entry, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    command: str


def view(profile: Profile, script: ScriptRun) -> ScriptReport:
    """Everything the profile of a script says, in words."""
    chosen, device = profile.recommendation, words.name(profile.device.name)
    confidence = units.percent(profile.method.confidence)
    ranges = _ranges(script)
    certain = ""
    if chosen and chosen.interval and chosen.strategy != script.baseline:
        certain = f"{words.ratio_between(*chosen.interval)}, {confidence} interval"
    return ScriptReport(
        title=f"{words.name(profile.workload.name)} on {device}",
        script=words.line(profile.workload.file, 120),
        arguments=words.line(shlex.join(script.arguments), 300),
        summary=words.line(profile.workload.summary, 300),
        device=device,
        created=words.name(profile.created.replace("T", " ").replace("+00:00", " UTC")),
        tool=f"advisor {words.name(profile.tool.version)}",
        basis="measured" if script.measured else "nothing",
        tone=TONES[chosen.verdict] if chosen else "none",
        headline=_headline(profile, script),
        certainty=certain,
        reason=words.line(chosen.reason) if chosen else "Every strategy failed or was skipped; see below.",
        next_step=words.line(chosen.next_step)
        if chosen
        else "Mend what the reasons name, then profile again.",
        code=code(chosen.strategy) if chosen and chosen.strategy else "",
        baseline=script.baseline,
        confidence=confidence,
        rows=tuple(_row(profile, script, row) for row in script.measured),
        ranges=ranges[:_RANGES],
        more_ranges=max(len(ranges) - _RANGES, 0),
        gaps=gaps(profile.results),
        traces=run_traces(profile, script),
        unknown=UNKNOWN,
        more=MORE,
        method=_method(profile, script),
        environment=environment(profile),
        warnings=tuple(words.line(w) for w in profile.environment.warnings),
        notes=tuple(words.line(n) for n in (*profile.notes, *_row_notes(script))),
        command=words.line(profile.command, 500),
    )


def _headline(profile: Profile, script: ScriptRun) -> str:
    chosen = profile.recommendation
    if chosen is None:
        return "Nothing could be measured."
    if chosen.speedup is None or chosen.strategy == script.baseline:
        return decided(chosen)
    return f"{decided(chosen)}, {units.ratio(chosen.speedup)} as fast as it is now"


def _row(profile: Profile, script: ScriptRun, row: ScriptMeasured) -> ScriptRow:
    chosen = profile.recommendation.strategy if profile.recommendation else None
    base = next((r for r in script.measured if r.strategy == script.baseline), None)
    ratio = between = ""
    if base is row:
        ratio = units.ratio(1.0)
    elif base is not None:
        found = scripts.ratio(base, row, profile.method.confidence)
        ratio, between = units.ratio(found.value), words.ratio_between(found.low, found.high)
    return ScriptRow(
        strategy=words.name(row.strategy),
        meaning=next((s.summary for s in SCRIPT_STRATEGIES if s.name == row.strategy), ""),
        tag="recommended" if row.strategy == chosen else "baseline" if row is base else "",
        run=units.seconds(row.median_seconds),
        between=words.seconds_between(*row.interval_seconds) if len(row.run_seconds) > 1 else "one run",
        ratio=ratio,
        ratio_between=between,
        to_device=_copied(row.copies.to_device_bytes, row.copies.to_device),
        to_host=_copied(row.copies.to_host_bytes, row.copies.to_host),
        memory=_memory(row.memory),
        checked="checked" if row.verified else "not checked",
    )


def _copied(nbytes: int, times: int) -> Cell:
    return Cell(units.size(nbytes), words.count(times, "copy", "copies")) if times else Cell("none seen")


def _memory(memory: ScriptMemory | None) -> Cell:
    """A pool that has no hooks is CUDA's own."""
    if memory is None:
        return Cell("not seen")
    return Cell(units.size(memory.reserved_bytes), words.count(memory.allocations, "allocation"))


def _ranges(script: ScriptRun) -> tuple[RangeRow, ...]:
    """Every range that any strategy's observed run had, in the order of the first."""
    tables = [{r.name: r for r in row.ranges} for row in script.measured]
    names = dict.fromkeys(name for table in tables for name in table)
    return tuple(
        RangeRow(
            words.name(name),
            tuple(
                f"{units.seconds(table[name].seconds)} ({table[name].count})" if name in table else "–"
                for table in tables
            ),
        )
        for name in names
    )


def _method(profile: Profile, script: ScriptRun) -> tuple[Entry, ...]:
    taken = profile.method
    runs = (
        f"each in a fresh process: one to warm up ({units.seconds(script.warm_up_seconds)}), "
        f"one for each strategy observed, then {words.count(taken.rounds, 'round')} in an order "
        f"shuffled with seed {taken.seed}"
    )
    time = (
        "the whole script, from its first line until the GPU has done all; importing CuPy, the CUDA context "
        "and the allocator come before"
    )
    seen = (
        "from the observed run, which is not in the times: CUDA events on the stream, and listeners around "
        "CuPy's functions and memory hooks"
    )
    return (
        Entry("Command", words.line(profile.command, 500)),
        Entry("Runs", runs),
        Entry("Time", time),
        Entry("Ranges, copies, memory", seen),
        Entry("Compared", words.listing(script.compared)),
        Entry("SHA-256", words.name(profile.workload.sha256, 64)),
    )


def _row_notes(script: ScriptRun) -> Iterable[str]:
    """What holds of several strategies is said once."""
    return dict.fromkeys(note for row in script.measured for note in row.notes)
