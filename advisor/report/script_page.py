"""The page of a script's profile: what memory can change at most, the lines, what to change on them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace

from advisor import units
from advisor.profiles.crossings import Ceiling, LineAdvice, ScriptRun
from advisor.profiles.schema import Profile
from advisor.report import blocks, words
from advisor.report.advising import finding
from advisor.report.line_tables import files, label, lines_table, loop_name, sources, totals
from advisor.report.machine import environment
from advisor.report.page import Page, Section, circumstances, download, filled, lead
from advisor.report.records import records_of
from advisor.report.trials_section import trials_section
from advisor.verdicts.ceilings import Scope, around, ceiling_of, elsewhere, is_little, scopes

_BOUND = (
    "An upper bound: copies on the frame's path and the waits that could go, without the kernels waited for."
)
_NO_FRAME = "How long a frame takes there is not predicted."
_FAILED = "Nothing crossed between host and GPU before the script ended."
_NOTHING = "Nothing crosses between host and GPU: memory is not your problem."
_NOTHING_SEEN = "Nothing crosses between host and GPU in what was recorded; Not seen lists the rest."
_TIMES = (
    "one observed run of the unchanged script; the host's clock around each call, CUDA events on the stream "
    "for a sample of the copies"
)


def script_page(profile: Profile, run: ScriptRun) -> Page:
    made, tool = words.created(profile.created), words.name(profile.tool.version)
    program = f"{'-m ' * run.module}{words.line(profile.workload.file, 120)}"
    played = run.played is not None
    where = f"on {words.name(profile.device.name)}, 1 run observed (overhead about {_overhead(run)})"
    return Page(
        kind="report",
        brand="what crosses, by line",
        name=f"{program} {words.line(shlex.join(run.arguments), 300)}".rstrip(),
        where=where * (not played),
        basis="measured" if not played else "predicted" if run.predictions else "nothing",
        summary=words.line(profile.workload.summary, 300),
        meta=(made,),
        sections=tuple(_sections(profile, run, f"advisor {tool}, {made}")),
        tool=f"advisor {tool}",
        created=made,
        profile=profile,
        records=records_of(profile),
    )


def _overhead(run: ScriptRun) -> str:
    """Of the frames where they have one, else of the run: an estimate."""
    loops = [(loop.overhead_seconds, loop.seconds) for loop in run.loops if loop.overhead_seconds is not None]
    parts = loops or [(run.overhead_seconds, run.seconds)]
    overhead, seconds = (sum(column) for column in zip(*parts, strict=True))
    return units.percent(overhead / seconds) if seconds else "0 %"


def _sections(profile: Profile, run: ScriptRun, made: str) -> Iterator[Section]:
    yield lead(*_lead(profile, run))
    if run.crossings:
        if profile.trials is not None:
            yield trials_section(profile.trials)
        yield Section("lines", "Lines", filled(*_lines(run)), nav="Lines", brief=True)
        yield _advice(run)
        yield _source(run)
        if run.predictions and not run.played:
            yield _elsewhere(run)
        yield Section("totals", "Totals of the run", (totals(run),), nav="Totals", forms="html txt")
    if run.unseen:
        unseen = blocks.Bullets(tuple(map(words.line, run.unseen)))
        yield Section("unseen", "Not seen", (unseen,), nav="Not seen", folded=True)
    yield _circumstances(profile, run, made)
    yield Section("raw", "Raw data", (download(profile),), nav="Raw data", forms="html")


def _lead(profile: Profile, run: ScriptRun) -> Iterator[blocks.Block | None]:
    yield blocks.Banners("exit", tuple(_ending(run)), "caution")
    yield blocks.Banners("note", tuple(map(words.line, profile.notes)))
    verdicts = tuple(_verdicts(profile, run))
    several = run.played is not None and len(verdicts) > 1
    yield blocks.Verdicts(verdicts, named=len(verdicts) > 1, forms="html md" if several else "html md txt")
    if several:
        yield from _over_devices(run)
    yield blocks.Prose(" ".join(_accounts(run)), forms="html md" if several else "html md txt")
    doubts = profile.environment.warnings if run.played is None else ()  # nothing was timed here
    yield blocks.Banners("warning", tuple(map(words.line, doubts)), "caution")


def _over_devices(run: ScriptRun) -> Iterator[blocks.Block]:
    """For a screen: what memory can change on each device, in the loop where that is most."""
    most = max((c for c in run.ceilings if c.predicted), key=lambda c: c.seconds)
    scope = next(scope for scope in scopes(run) if scope.number == most.loop)
    told = [c for c in run.ceilings if c.predicted and c.loop == most.loop]
    between = words.seconds_between(min(c.seconds for c in told), max(c.seconds for c in told))
    where = f" in the {loop_name(scope.loop, run)}" if scope.loop and len(scopes(run)) > 1 else ""
    headline = f"Predicted: memory can change at most {between} of a {_unit(scope)}{where}, by device"
    each = ", ".join(f"{words.name(c.device or '')} {units.seconds(c.seconds)}{_range(c)}" for c in told)
    remark = " ".join((f"{each}.", *_accounts(run)))
    yield blocks.Verdicts((blocks.Verdict("predicted", "clear", "", headline, remark=remark),), forms="txt")


def _range(ceiling: Ceiling) -> str:
    between = ceiling.interval_seconds
    return f" ({words.seconds_between(*between)})" if between else ""


def _ending(run: ScriptRun) -> Iterator[str]:
    if run.exit_code:
        error = f": {words.line(run.error, 300)}" if run.error else ""
        yield f"The script ended with exit code {run.exit_code}{error}. What follows was recorded until then."


def _accounts(run: ScriptRun) -> Iterator[str]:
    if run.played:
        yield f"1 run observed, with {words.line(run.played)} in place of a GPU."
    if run.processes > 1:
        yield f"{run.processes} processes of the script were recorded."
    if run.unseen:
        yield f"{words.count(len(run.unseen), 'thing')} could not be seen: see Not seen."


def _verdicts(profile: Profile, run: ScriptRun) -> Iterator[blocks.Verdict]:
    told = scopes(run)
    if not told:
        nothing = _NOTHING_SEEN if run.unseen else _NOTHING
        headline = nothing if run.exit_code == 0 else _FAILED
        yield blocks.Verdict(_basis(run), "none", words.name(profile.device.name), headline)
    for scope in told:
        name = loop_name(scope.loop, run) if scope.loop else "the whole run"
        measured = ceiling_of(run, scope)
        if measured is not None:
            yield _measured(scope, measured, f"{name[:1].upper()}{name[1:]}")
        for prediction in run.predictions if run.played else ():
            ceiling = ceiling_of(run, scope, prediction.device)
            if ceiling is not None:
                device = words.name(prediction.device) + f", {name}" * (len(told) > 1)
                yield _predicted(scope, ceiling, device)


def _basis(run: ScriptRun) -> blocks.Basis:
    return "nothing" if run.played else "measured"


def _unit(scope: Scope) -> str:
    return "frame" if scope.loop else "run"


def _measured(scope: Scope, ceiling: Ceiling, name: str) -> blocks.Verdict:
    whole, share = ceiling.of_seconds or 0.0, ceiling.share or 0.0
    rest = elsewhere(scope, ceiling)
    change = f"Memory can change at most {units.seconds(ceiling.seconds)} of {units.seconds(whole)}"
    headline = f"{change} ({units.percent(share)})"
    if is_little(ceiling):
        headline = f"Memory is not your problem: {_share(1 - share)} of the {_unit(scope)} is elsewhere"
    parts = (
        ("copies", ceiling.copy_seconds),
        ("waits that could go", ceiling.wait_seconds),
        ("kernels waited for", rest.kernel_seconds),
        ("host code and all else", rest.other_seconds),
    )
    shares = (f"{name} {units.seconds(s)} ({_share(s / whole)})" for name, s in parts if s)
    frames = f"{words.count(scope.frames, 'frame')} of {units.seconds(whole)}" if scope.loop else ""
    return blocks.Verdict(
        basis="measured",
        tone="none" if is_little(ceiling) else "clear",
        device=f"{name}: {frames}" if frames else name,
        headline=headline,
        remark=f"{_unit(scope).capitalize()}: {', '.join(shares)}.",
        reason=_BOUND,
    )


def _share(share: float) -> str:
    """98 %, 0.3 %; never 100 % of what has a part elsewhere."""
    return units.percent(share) if share < 0.1 else f"{min(99, round(100 * share))} %"


def _predicted(scope: Scope, ceiling: Ceiling, device: str) -> blocks.Verdict:
    return blocks.Verdict(
        basis="predicted",
        tone="clear",
        device=device,
        headline=f"Predicted: memory can change at most {units.seconds(ceiling.seconds)} of a {_unit(scope)}"
        f"{_range(ceiling)}",
        reason=f"{_BOUND} {_NO_FRAME}",
    )


def _lines(run: ScriptRun) -> Iterator[blocks.Block | None]:
    predicted = run.played is not None and bool(run.predictions)
    for scope in scopes(run):
        yield lines_table(run, scope, _frames(scope, run), predicted=predicted)
    outside = around(run)
    if outside:
        scope = Scope(None, None, 1, None if run.played else run.seconds, outside)
        table = lines_table(run, scope, "outside of the loops", predicted=predicted, identifier="outside")
        yield blocks.Fold("Outside of the loops", (table,))


def _frames(scope: Scope, run: ScriptRun) -> str:
    if scope.loop is None:
        return "the whole run"
    told = f"{loop_name(scope.loop, run)}, {words.count(scope.frames, 'frame')}"
    return f"{told} of {units.seconds(scope.seconds)}" if scope.seconds else told


def _elsewhere(run: ScriptRun) -> Section:
    """A measured script on other devices."""
    told = [(scope, p, ceiling_of(run, scope, p.device)) for scope in scopes(run) for p in run.predictions]
    verdicts = tuple(_predicted(s, ceiling, words.name(p.device)) for s, p, ceiling in told if ceiling)
    tables = (
        lines_table(run, s, _frames(s, run), predicted=True, identifier="predicted") for s in scopes(run)
    )
    parts = blocks.Verdicts(verdicts, named=True), *tables
    return Section("predicted", "On other devices", parts, nav="Other devices", badge="predicted")


def _advice(run: ScriptRun) -> Section:
    """Each change of a line once, with what it gains on each device."""
    changes = words.grouped(
        sorted(run.advice, key=_gained, reverse=True), lambda a: (a.crossing, a.advice.rule)
    )
    alike = list(changes.values())
    heads = (blocks.Column("gain per frame", brief="gain"), blocks.Column("", figures=False))
    short = tuple(_short(same, run) for same in alike)
    found = (finding([each.advice for each in same]) for same in alike)
    placed = (
        replace(one, devices=(f"line {label(same[0].place, files(run))}", *one.devices))
        for one, same in zip(found, alike, strict=True)
    )
    none = "No change of a line is worth its effort."
    return Section(
        "advice",
        "Advice",
        filled(
            blocks.Table("advice", "line", heads, short, title="Advice:", codes=False, forms="txt"),
            blocks.Findings(tuple(placed), forms="html md"),
            *(_code(same[0]) for same in alike[:3] if same[0].advice.snippet),
            None if alike else blocks.Prose(none, kind=""),
        ),
        nav="Advice",
        brief=True,
    )


def _short(same: list[LineAdvice], run: ScriptRun) -> blocks.Row:
    told, gains = same[0], [_gained(each) for each in same]
    gain = words.seconds_between(min(gains), max(gains))
    crossing = run.crossings[told.crossing]
    scope = next((s for s in scopes(run) if s.number == crossing.loop), None)
    whole = f" of {units.seconds(scope.seconds)}" if scope and scope.seconds and not run.played else ""
    predicted = told.advice.certainty == "predicted"
    basis = f"(predicted, {words.count(len(same), 'device')})" if predicted else "(estimated)"
    title = words.line(told.advice.title.replace("`", ""), 70)
    return blocks.Row(
        f"{label(told.place, files(run))}  {title}",
        (blocks.TableCell(f"{gain}{whole}"), blocks.TableCell(basis)),
        rank=-max(gains),
    )


def _code(told: LineAdvice) -> blocks.Code:
    snippet = told.advice.snippet or ""
    language = "diff" if snippet.startswith("--- ") else "python"
    return blocks.Code(f"Line {told.place.line}: code", words.block(snippet), language)


def _gained(told: LineAdvice) -> float:
    return (told.advice.gain and told.advice.gain.seconds_per_frame) or 0.0


def _source(run: ScriptRun) -> Section:
    told = "Figures are totals of the run."
    return Section(
        "source", "Source", filled(blocks.Prose(told), *sources(run)), nav="Source", forms="html txt"
    )


def _circumstances(profile: Profile, run: ScriptRun, made: str) -> Section:
    machine = environment(profile)
    assumed = dict.fromkeys(text for prediction in run.predictions for text in prediction.assumptions)
    method = (
        blocks.Fact("Command", words.line(profile.command, 500)),
        blocks.Fact("Times", f"none: {words.line(run.played)} stood in for a GPU" if run.played else _TIMES),
        blocks.Fact("Recording", f"{units.seconds(run.overhead_seconds)} of {units.seconds(run.seconds)}"),
        *(blocks.Fact("Assumed", words.line(text)) for text in assumed),
        blocks.Fact("SHA-256", words.name(profile.workload.sha256, 64)),
    )
    return circumstances(
        method=method,
        machine=machine,
        facts=(blocks.Fact("command", words.code(profile.command, 500)), *machine[:10]),
        notes=tuple(map(words.line, profile.notes)),
        made=made,
    )
