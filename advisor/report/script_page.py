"""The page of a script's profile."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from advisor import units
from advisor.profiles.row_figures import ScriptMeasured, ScriptRun
from advisor.profiles.schema import Profile
from advisor.report import blocks, words
from advisor.report.answer import Answers
from advisor.report.answering import script_answer
from advisor.report.machine import environment
from advisor.report.more_figures import run_figures
from advisor.report.page import Page, Section, circumstances, download, filled, lead
from advisor.report.tables import gaps
from advisor.report.traces import run_traces
from advisor.strategies.scripts import SCRIPT_STRATEGIES

UNKNOWN = (
    "Which buffer a figure belongs to: one allocator serves all arrays and places none individually.",
    "Host memory that the script allocates (NumPy arrays, `cupyx.empty_pinned`): no strategy changes it.",
    "What overlapping frames, registered or write-combined memory would gain: that needs different code.",
    "The steady state: a run counts as a whole, including file reads and everything else the script does.",
    "Copies by other libraries and by `runtime.memcpy`: only those by CuPy are recorded.",
)
MORE = (
    "Write a `@workload` to place buffers individually, time stages and copies separately, predict other "
    "devices and get advice: `advisor new mine.py` writes one to start from."
)
_RANGES = 12
_TIME = (
    "the whole script, from its first line until the GPU has finished; importing CuPy and creating the "
    "CUDA context and the allocator are not included"
)
_SPENT = "from the timed runs; CPU time includes child processes that the script waited for"
_OBSERVED = (
    "from the observed run, which is not timed: CUDA events on the stream, and listeners around "
    "CuPy's functions and memory hooks"
)


def script_page(profile: Profile, script: ScriptRun) -> Page:
    device, made = words.name(profile.device.name), words.created(profile.created)
    arguments, tool = words.line(shlex.join(script.arguments), 300), words.name(profile.tool.version)
    # What holds of several strategies is said once.
    of_rows = dict.fromkeys(note for row in script.measured for note in row.notes)
    notes = tuple(map(words.line, (*profile.notes, *of_rows)))
    seen = run_traces(profile, script)
    return Page(
        kind="report",
        brand="memory strategy report of a script",
        name=f"{words.line(profile.workload.file, 120)} {arguments}".rstrip(),
        where=f"on {device}, as a script",
        basis="measured",
        summary=words.line(profile.workload.summary, 300),
        meta=(made,),
        sections=(
            _lead(profile, script, notes),
            Section("evidence", "Evidence", filled(*_evidence(profile, script)), nav="Evidence"),
            *([Section("frames", "Within a run", seen, nav="Runs")] if seen else []),
            _unknown(),
            _circumstances(profile, script, notes, f"advisor {tool}, {made}"),
            Section("raw", "Raw data", (download(profile),), nav="Raw data", forms="html"),
        ),
        tool=f"advisor {tool}",
        created=made,
        profile=profile,
    )


def _lead(profile: Profile, script: ScriptRun, notes: tuple[str, ...]) -> Section:
    return lead(
        blocks.Banners("note", notes, forms="html"),
        Answers((script_answer(profile, script),)),
        blocks.Banners("warning", tuple(map(words.line, profile.environment.warnings)), "caution"),
    )


def _evidence(profile: Profile, script: ScriptRun) -> Iterator[blocks.Block]:
    rows, ranges = script.measured, _ranges(script)
    if rows:
        yield _seen(script)
        yield from run_figures(rows)
    if ranges and rows:
        more = len(ranges) - _RANGES
        left = f" {more} more are in the profile." if more > 0 else ""
        names = [words.name(row.strategy) for row in rows]
        yield blocks.Table(
            "ranges",
            "range",
            tuple(blocks.Column(n, forms="html md txt" if n == names[0] else "html") for n in names),
            ranges[:_RANGES],
            caption="The script's own NVTX ranges: time on the stream in one observed run, and number of "
            f"occurrences.{left}",
            title=f"Ranges under {names[0]} (times in one run):",
            identifier="ranges",
            code_heads=True,
            forms="html txt",
        )
    yield blocks.Items(gaps(profile.results), "Strategies without figures")


def _seen(script: ScriptRun) -> blocks.Table:
    """What the answer's chart has no room for."""
    columns = "copied to the device", "copied back", "taken from CUDA", "results"
    return blocks.Table(
        "strategies",
        "strategy",
        tuple(blocks.Column(head, figures=head != "results") for head in columns),
        tuple(map(_row, script.measured)),
        caption="Copies by CuPy and memory, from one observed run under each strategy.",
        identifier="strategies",
        forms="html md",
    )


def _row(row: ScriptMeasured) -> blocks.Row:
    memory = blocks.TableCell("not recorded")  # a pool that has no hooks is CUDA's own
    if row.memory is not None:
        allocations = words.count(row.memory.allocations, "allocation")
        memory = blocks.TableCell(units.size(row.memory.reserved_bytes), allocations)
    cells = (
        _copied(row.copies.to_device_bytes, row.copies.to_device),
        _copied(row.copies.to_host_bytes, row.copies.to_host),
        memory,
        blocks.TableCell("checked" if row.verified else "not checked"),
    )
    summary = next((s.summary for s in SCRIPT_STRATEGIES if s.name == row.strategy), "")
    return blocks.Row(words.name(row.strategy), cells, note=summary)


def _copied(nbytes: int, times: int) -> blocks.TableCell:
    told = (units.size(nbytes), words.count(times, "copy")) if times else ("none recorded",)
    return blocks.TableCell(*told)


def _ranges(script: ScriptRun) -> tuple[blocks.Row, ...]:
    """Every range that any strategy's observed run had, in the order of the first."""
    tables = [
        {r.name: f"{units.seconds(r.seconds)} ({r.count})" for r in row.ranges} for row in script.measured
    ]
    names = dict.fromkeys(name for table in tables for name in table)
    return tuple(
        blocks.Row(words.name(n, 40), tuple(blocks.TableCell(t.get(n, blocks.NOTHING)) for t in tables))
        for n in names
    )


def _unknown() -> Section:
    fewer = f"A script profile has fewer details than a workload profile. {MORE}"
    parts = (
        blocks.Bullets(UNKNOWN, forms="html md"),
        blocks.Prose(MORE, kind="", forms="html md"),
        blocks.Prose(fewer, forms="txt"),
    )
    return Section("unknown", "What script mode cannot know", parts, nav="Limits", folded=True)


def _circumstances(profile: Profile, script: ScriptRun, notes: tuple[str, ...], made: str) -> Section:
    machine, taken = environment(profile), profile.method
    runs = (
        f"each in a fresh process: one warm-up ({units.seconds(script.warm_up_seconds)}), "
        f"one observed run of each strategy, then {words.count(taken.rounds, 'round')} in random order "
        f"(seed {taken.seed})"
    )
    method = (
        blocks.Fact("Command", words.line(profile.command, 500)),
        blocks.Fact("Runs", runs),
        blocks.Fact("Time", _TIME),
        blocks.Fact("CPU time, energy", _SPENT),
        blocks.Fact("Ranges, copies, memory", _OBSERVED),
        blocks.Fact("Compared", words.listing(script.compared)),
        blocks.Fact("SHA-256", words.name(profile.workload.sha256, 64)),
    )
    return circumstances(
        method=method,
        machine=machine,
        facts=(blocks.Fact("command", words.code(profile.command, 500)), *machine[:10]),
        notes=notes,
        made=made,
    )
