"""The page of a script's profile: what memory can change, the lines, what to change on them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isclose
from typing import Literal

from advisor import units
from advisor.profiles.crossings import Ceiling, LineAdvice, ScriptRun
from advisor.profiles.schema import Profile
from advisor.profiles.trials import Patch, Trial, TrialOutcome, Trials
from advisor.report import blocks, words
from advisor.report.advising import finding
from advisor.report.blocks import NOTHING, Column, TableCell, columns, row
from advisor.report.page import Page, Section, circumstances, filled, lead
from advisor.report.records import records_of
from advisor.report.script_lines import files, label, lines_table, loop_name, sources, totals
from advisor.stats import Ratio
from advisor.verdicts.ceilings import Scope, around, ceiling_of, elsewhere, is_little, scopes

_CHANGEABLE = "Memory can change copies and avoidable waits, not kernels waited for."
_SUMMED = (
    f"{_CHANGEABLE} The time that other lines lose to copies is not included: removing copies by hand gained "
    "0.7 to 1.7 times as much on an H200."
)
_TAKEN_OFF = (
    f"{_CHANGEABLE} The larger figure counts for "
    "copies: the time of their calls, or how much shorter {} frames without copies were, effects on other "
    "lines included. The range is the 95 % interval of the second, extended to the first if that is larger."
)
_UNTIMED = "Timing calls lengthens these frames; without it one takes {}, and memory cannot change more."
_UNPREDICTED = "Nothing that crosses has a predicted time: page-locking and managed memory have none."
_NO_FRAME = "How long a frame takes there is not predicted."
_FAILED = "Nothing crossed between host and GPU before the script ended."
_NOTHING = "Nothing crosses between host and GPU: memory is not your problem."
_NOTHING_SEEN = "Nothing crosses between host and GPU in what was recorded; Not seen lists the rest."
_TIMES = (
    "one observed run of the unchanged script; the host's clock around each call, CUDA events on the stream "
    "for a sample of the copies"
)


def script_page(profile: Profile, run: ScriptRun) -> Page:
    created, tool = words.created(profile.created), words.name(profile.tool.version)
    program = words.line(f"-m {profile.workload.name}" if run.module else profile.workload.file, 120)
    # The least share of time that recording takes: of the frames where known, else of the run.
    loops = [(loop.overhead_seconds, loop.seconds) for loop in run.loops if loop.overhead_seconds is not None]
    overhead, seconds = map(sum, zip(*(loops or [(run.overhead_seconds, run.seconds)]), strict=True))
    share = units.percent(overhead / seconds) if seconds else "0 %"
    where = f"on {words.name(profile.device.name)}, 1 run observed (overhead at least {share})"
    title = f"{program} {words.line(shlex.join(run.arguments), 300)}".rstrip()
    sections = tuple(_sections(profile, run))
    basis: blocks.Basis = "measured" if run.played is None else "predicted" if run.predictions else "nothing"
    return Page(
        "report",
        "what crosses, by line",
        title,
        sections,
        basis=basis,
        where=where if basis == "measured" else "",
        tool=f"advisor {tool}",
        created=created,
        summary=words.line(profile.workload.summary, 300),
        meta=(created,),
        profile=profile,
        records=records_of(profile),
    )


def _sections(profile: Profile, run: ScriptRun) -> Iterator[Section]:
    yield lead(*_lead(profile, run))
    if run.crossings:
        if profile.trials is not None:
            yield trials_section(profile.trials, profile.notes)
        predicted, folds = run.played is not None and bool(run.predictions), []
        if outside := around(run):
            scope = Scope(None, None, 1, None if run.played else run.seconds, outside)
            table = lines_table(run, scope, "outside of the loops", predicted=predicted)
            folds = [blocks.Fold("Outside of the loops", (table,))]
        inside = filled(*_tables(run, predicted=predicted), *folds)
        yield Section("lines", "Lines", inside, nav="Lines", brief=True)
        yield replace(_advice(run, profile.trials), closed=bool(profile.trials and profile.trials.trials))
        source = filled(blocks.Prose("Figures are totals of the run."), *sources(run))
        yield Section("source", "Source", source, nav="Source", closed=True, forms="html txt")
        if run.predictions and not run.played:  # a measured script on other devices
            verdicts = tuple(verdict for scope in scopes(run) for verdict in _predicted(run, scope))
            parts = blocks.Verdicts(verdicts), *_tables(run)
            title, nav = "On other devices", "Other devices"
            yield Section("predicted", title, parts, nav=nav, badge="predicted")
        title = "Totals of the run"
        yield Section("totals", title, (totals(run),), nav="Totals", closed=True, forms="html txt")
    if run.unseen:
        unseen = blocks.Bullets(tuple(map(words.line, run.unseen)))
        inside = blocks.Prose("Not seen:", forms="txt"), unseen
        yield Section("unseen", "Not seen", inside, nav="Not seen", folded=True, closed=True)
    assumed = dict.fromkeys(text for prediction in run.predictions for text in prediction.assumptions)
    method = (
        blocks.Fact("Times", f"none: {words.line(run.played)} stood in for a GPU" if run.played else _TIMES),
        blocks.Fact("Recording", f"{units.seconds(run.overhead_seconds)} of {units.seconds(run.seconds)}"),
        *(blocks.Fact("Assumed", words.line(text)) for text in assumed),
        blocks.Fact("SHA-256", words.name(profile.workload.sha256, 64)),
    )
    yield circumstances(profile, command=profile.command, method=method)


def _lead(profile: Profile, run: ScriptRun) -> Iterator[blocks.Block | None]:
    if run.exit_code:
        error = f": {words.line(run.error, 300)}" if run.error else ""
        text = (
            f"The script ended with exit code {run.exit_code}{error}. What follows was recorded until then."
        )
        yield blocks.Banners("exit", (text,), "caution")
    yield blocks.Banners("note", tuple(map(words.line, profile.notes)))
    verdicts = tuple(_verdicts(profile, run))
    yield blocks.Verdicts(verdicts, named=run.played is None and len(verdicts) > 1)
    proved = profile.trials and profile.trials.patch and profile.trials.patch.holds
    forms: blocks.Forms = "html md txt" if proved else "html md"  # a terminal has the advice below
    yield blocks.Prose(_next_step(profile, run), "Next", kind="next together", forms=forms)
    accounts = []
    if run.played:
        accounts.append(f"1 run observed, with {words.line(run.played)} in place of a GPU.")
    if run.copied is not None and run.copied.share is not None:
        accounts.append(
            f"{units.percent(run.copied.share)} of the bytes that the driver copied are on lines."
        )
    if run.unseen:
        accounts.append(f"{words.count(len(run.unseen), 'thing')} could not be seen: see Not seen.")
    yield blocks.Prose(" ".join(accounts))
    doubts = profile.environment.warnings if run.played is None else ()  # nothing was timed here
    yield blocks.Banners("warning", tuple(map(words.line, doubts)), "caution")


def _next_step(profile: Profile, run: ScriptRun) -> str:
    """The patch that was proved, else the change of a line that gains most, as it was measured if it was."""
    patch = profile.trials.patch if profile.trials else None
    if patch and patch.holds:
        where = f" (its names start from {words.line(patch.folder)})" if patch.folder else ""
        lines = words.count(patch.lines, "line")
        wide = patch.interval is not None and patch.interval[0] <= 1
        unsure = "; each change was proved faster, but the patch, in these few runs, was not" if wide else ""
        return f"Apply the patch of {lines}{where}: {fast(patch)} as fast, results equal{unsure}."
    for same in _by_change(run)[:1]:
        where, title = label(same[0].place, files(run)), words.line(same[0].advice.title, 200)
        saves = f"saves {_gain(run, same)}, {_certainty(same)}"
        for trial in profile.trials.trials if profile.trials else ():
            tried = trial.outcome == "faster" and trial.rule == same[0].advice.rule
            if tried and trial.place == same[0].place:
                saves = f"tried: {fast(trial)} as fast, results equal"
        return f"Line {where}: {title} ({saves})."
    return ""


def _bound(ceiling: Ceiling) -> str:
    between = ceiling.interval_seconds
    interval = f" ({words.seconds_between(*between)})" if between else ""
    return f"{units.seconds(ceiling.seconds)}{interval}"


def _verdicts(profile: Profile, run: ScriptRun) -> Iterator[blocks.Verdict]:
    all_scopes = scopes(run)
    if not all_scopes:
        nothing = _NOTHING_SEEN if run.unseen else _NOTHING
        headline = nothing if run.exit_code == 0 else _FAILED
        basis: blocks.Basis = "nothing" if run.played else "measured"
        yield blocks.Verdict(basis, "none", words.name(profile.device.name), headline)
    reasons = set[str]()
    for scope in all_scopes:
        name = loop_name(scope.loop, run) if scope.loop else "the whole run"
        measured = ceiling_of(run, scope)
        if measured is not None:
            verdict = _measured(run, scope, measured, f"{name[:1].upper()}{name[1:]}")
            yield replace(verdict, reason="" if verdict.reason in reasons else verdict.reason)
            reasons.add(verdict.reason)
        if run.played:
            yield from _predicted(run, scope)


def _unit(scope: Scope) -> str:
    return "frame" if scope.loop else "run"


def _measured(run: ScriptRun, scope: Scope, ceiling: Ceiling, name: str) -> blocks.Verdict:
    whole, share = ceiling.of_seconds or 0.0, ceiling.share or 0.0
    little = is_little(ceiling) and run.is_accounted()
    kernels, other = elsewhere(scope, ceiling)
    most = scope.untimed_seconds or whole
    is_bound = most < whole and isclose(ceiling.seconds, most)
    about = "at most" if is_bound else "about"
    change, reason = f"{about} {units.seconds(ceiling.seconds)} of {units.seconds(whole)}", _SUMMED
    percents = units.percent(share)
    if scope.loop and scope.loop.copy_cost and ceiling.interval_seconds:
        reason = _TAKEN_OFF.format(scope.loop.copy_cost.frames)
        percents += ", {} to {}".format(*(units.percent(end / whole) for end in ceiling.interval_seconds))
    headline = f"Memory can change {change} ({percents})"

    def part(share: float) -> str:  # never 100 % of what has a part elsewhere
        return units.percent(share) if share < 0.1 else f"{min(99, round(100 * share))} %"

    if little:
        headline = f"Memory is not your problem: {part(1 - share)} of the {_unit(scope)} is elsewhere"
    parts = (
        ("copies", ceiling.copy_seconds),
        ("avoidable waits", ceiling.wait_seconds),
        ("kernels waited for", kernels),
        ("host code and all else", other),
    )
    shares = ", ".join(f"{label} {units.seconds(s)} ({part(s / whole)})" for label, s in parts if s)
    frames = f": {words.count(scope.frames, 'frame')} of {units.seconds(whole)}" if scope.loop else ""
    tone: Literal["none", "clear"] = "none" if little else "clear"
    remark = f"{_unit(scope).capitalize()}: {shares}."
    if is_bound:
        remark += f" {_UNTIMED.format(units.seconds(most))}"
    return blocks.Verdict("measured", tone, f"{name}{frames}", headline, reason=reason, remark=remark)


def _predicted(run: ScriptRun, scope: Scope) -> Iterator[blocks.Verdict]:
    """The time of a frame that memory can change, over all devices and on each of them."""
    ceilings = [c for p in run.predictions if (c := ceiling_of(run, scope, p.device))]
    loop = f" in the {loop_name(scope.loop, run)}" if scope.loop and len(scopes(run)) > 1 else ""
    bounds = [f"{words.name(c.device or '')} {_bound(c)}" for c in ceilings]
    if not any(c.seconds for c in ceilings):
        if ceilings:
            yield blocks.Verdict("predicted", "none", "", _UNPREDICTED)
        return
    if len(ceilings) == 1:
        most, where = _bound(ceilings[0]), f" on {words.name(ceilings[0].device or '')}"
    else:
        seconds = [c.seconds for c in ceilings]
        most, where = words.seconds_between(min(seconds), max(seconds)), ""
    speedup = f"Predicted: memory can change about {most} of a {_unit(scope)}{loop}{where}"
    reason = f"{_SUMMED} {_NO_FRAME}" * (scope == scopes(run)[0])
    yield blocks.Verdict(
        "predicted", "clear", "", speedup, reason=reason, remark=f"{', '.join(bounds)}." * (len(bounds) > 1)
    )


def _tables(run: ScriptRun, *, predicted: bool = True) -> Iterator[blocks.Table]:
    for scope in scopes(run):
        name = "the whole run"
        if scope.loop:
            name = f"{loop_name(scope.loop, run)}, {words.count(scope.frames, 'frame')}"
            name += f" of {units.seconds(scope.seconds)}" if scope.seconds else ""
        yield lines_table(run, scope, name, predicted=predicted)


def _advice(run: ScriptRun, tried: Trials | None) -> Section:
    """Each change of a line once, with what it gains on each device; a terminal has a line for it. The code
    of a line that a patch changes is in the patch."""
    is_written = tried is not None and tried.patch is not None and tried.patch.holds
    patched = {trial.place for trial in tried.trials if trial.in_patch} if tried and is_written else set()
    alike = _by_change(run)
    heads = (blocks.Column("gain per frame", brief="gain"), blocks.Column("", figures=False))
    rows, findings, codes, first_line = [], [], [], dict[tuple[str, str], str]()
    for same in alike:
        one, where = same[0], label(same[0].place, files(run))
        joined, snippet = finding([each.advice for each in same]), one.advice.snippet or ""
        sentences = words.sentences(joined.detail)
        new = [sentence for sentence in sentences if (joined.rule, sentence) not in first_line]
        first_line = {(joined.rule, sentence): where for sentence in sentences} | first_line
        detail = " ".join(new) or f"As for line {first_line[joined.rule, sentences[0]]}."
        findings.append(replace(joined, detail=detail, devices=(f"line {where} ({joined.where})",)))
        title, gain = words.line(one.advice.title, 70), _gain(run, same)
        rows.append(row(f"{where}  {title}", gain, f"({_certainty(same)})", rank=-max(map(_gained, same))))
        if snippet and one.place not in patched:
            language = "diff" if snippet.startswith("--- ") else "python"
            codes.append(blocks.Code(f"Line {one.place.line}: code", words.block(snippet), language))
    none = "No change of a line is worth its effort." * (not alike)
    locks = [c for c in run.crossings if c.kind == "lock" and c.loop is not None] if run.played else []
    if none and locks:  # page-locking in a frame has no predicted time, so no rule covers it
        lines = ", ".join(dict.fromkeys(label(c.place, files(run)) for c in locks))
        none = (
            "No change with a predicted time is worth its effort. The time of page-locking in each frame is "
            f"not predicted (line {lines}): page-lock once and keep the memory."
        )
    parts = filled(
        blocks.Table("advice", "line", heads, tuple(rows), title="Advice:", codes=False, forms="txt"),
        blocks.Findings(tuple(findings), forms="html md"),
        *codes[:3],
        blocks.Prose(none, kind=""),
    )
    return Section("advice", "Advice", parts, nav="Advice", brief=True)


def _by_change(run: ScriptRun) -> list[list[LineAdvice]]:
    advice = sorted(run.advice, key=_gained, reverse=True)
    return list(words.grouped(advice, lambda one: (one.place, one.advice.rule, one.advice.title)).values())


def _certainty(same: Sequence[LineAdvice]) -> str:
    if same[0].advice.certainty != "predicted":
        return "estimated"
    return f"predicted, {words.count(len({each.advice.device for each in same}), 'device')}"


def _gain(run: ScriptRun, same: Sequence[LineAdvice]) -> str:
    """The range of gains over the devices, and the time of the frame if it is known."""
    gains, loops = list(map(_gained, same)), {run.crossings[one.crossing].loop for one in same}
    frames = [s.seconds for s in scopes(run) if s.number in loops and s.seconds and not run.played]
    whole = f" of {units.seconds(frames[0])}" if len(frames) == 1 else ""
    return f"{words.seconds_between(min(gains), max(gains))}{whole}"


def _gained(change: LineAdvice) -> float:
    return (change.advice.gain and change.advice.gain.seconds_per_frame) or 0.0


_OUTCOMES: dict[TrialOutcome, str] = {"open": "undecided", "differs": "other results", "refused": "not tried"}
_NO_PATCH = "What was proved faster by then has no patch: its text was not yet run and timed."
_WITHOUT_REASON: dict[TrialOutcome, str] = {"open": "more frames could tell"}


def trials_section(tried: Trials, notes: Sequence[str] = ()) -> Section:
    """The results of `--try`. Times alternate within processes; ratios hold for all changes at once. notes:
    what the page says above."""
    patch, compared = tried.patch, []
    if tried.compared:
        compared = [f"Compared with the unchanged script: {'; '.join(map(words.line, tried.compared))}."]
    if tried.runs:
        again = words.count(tried.runs, "more time")
        compared.append(f"The script ran {again}, in the same folder: what it writes was written again.")
    for what in tried.unlike:
        compared.append(f"Not compared, since two unchanged runs differ in it: {words.line(what)}.")
    if patch and patch.text:
        compared += [f"Not in the patch: {words.line(reason)}." for reason in patch.left_out]
    code, sentence = None, _patch_sentence(tried, notes)
    if patch is not None and (patch.holds or patch.is_unproved):
        title = f"{'Patch' if patch.holds else 'Code to consider'}: {words.count(patch.lines, 'line')}"
        code = blocks.Code(title, words.block(patch.text), "diff", forms="html md")
    parts = (
        blocks.Prose(sentence, kind="", forms="html md"),
        _trials_table(tried) if tried.trials else None,
        blocks.Bullets(tuple(filter(None, (sentence,))), forms="txt"),
        code,
        blocks.Bullets(tuple(compared), forms="html md"),
    )
    return Section("trials", "Changes tried", filled(*parts), nav="Tried", brief=True)


def _patch_sentence(tried: Trials, notes: Sequence[str]) -> str:
    if tried.reason and not tried.trials:
        return words.line(tried.reason)
    patch = tried.patch
    if patch and patch.holds:
        return ""  # the page's next step says it
    if patch and patch.is_unproved:
        promised = "nothing" if patch.promised_seconds is None else _promised(patch, tried)
        lines = words.count(patch.lines, "line")
        result = f"applied to a copy: promised {promised}, got {fast(patch)}"
        reason = words.line(patch.reason) or "nothing proves that results are equal"
        return f"No patch is written, only {lines} of code to consider, {result}: {reason}."
    if patch and not patch.text:
        return f"What was faster could not be written as a patch: {words.line('; '.join(patch.left_out))}."
    if patch:
        why = patch.reason or (f"got {fast(patch)}" if patch.speedup else "too few of its frames were timed")
        return f"No patch is written: {words.line(why)}."
    if tried.reason:
        proved = any(trial.outcome == "faster" for trial in tried.trials)
        ended = "" if tried.reason in notes else f"{words.line(tried.reason)} "
        return f"{ended}{_NO_PATCH if proved else 'Nothing was proved by then.'}"
    return "No change was proved faster with equal results."


def _trials_table(tried: Trials) -> blocks.Table:
    rows = [row("as it is", _or_nothing(tried.frame_seconds), NOTHING, NOTHING, "", NOTHING)]
    for trial in tried.trials:
        line = f"{trial.place.line}  " if trial.place else ""
        reason = words.line(trial.reason or _WITHOUT_REASON.get(trial.outcome, ""), 120)
        outcome = TableCell(_OUTCOMES.get(trial.outcome, trial.outcome.replace("-", " ")), reason)
        figures = _or_nothing(trial.frame_seconds), *_speedup(trial), outcome, _promised(trial, tried)
        rows.append(row(f"{line}{words.line(trial.title, 70)}", *figures))
    if (patch := tried.patch) and patch.speedup:
        equal = {True: "results equal", False: "other results", None: "results not compared"}[patch.equal]
        figures = NOTHING, *_speedup(patch), TableCell(equal), _promised(patch, tried)
        rows.insert(1, row("patch, on a copy", *figures))
    heads = columns("frame", "as fast", "95 %", Column("outcome", notes="why", figures=False), "promised")
    caption = (
        "Blocks of frames of each change alternate with those of the unchanged script; intervals hold "
        "for all changes at once. What a change saves of a frame was promised before, by an estimate."
    )
    return blocks.Table(
        "trials", "line", heads, tuple(rows), caption=caption, title="Tried:", codes=False, whole=True
    )


def _or_nothing(value: float | None) -> str:
    return NOTHING if value is None else units.seconds(value)


def _promised(change: Trial | Patch, tried: Trials) -> str:
    """`229 µs (1.10×)`, of the frame as the trials timed it; a sum of promises may exceed that."""
    seconds, frame = change.promised_seconds, tried.frame_seconds or 0.0
    ratio = f" ({units.ratio(frame / (frame - seconds))})" if seconds is not None and seconds < frame else ""
    return f"{_or_nothing(seconds)}{ratio}"


def fast(tried: Trial | Patch) -> str:
    return units.times(Ratio(tried.speedup, *tried.interval)) if tried.speedup and tried.interval else NOTHING


def _speedup(tried: Trial | Patch) -> tuple[str, str]:
    if tried.speedup is None or tried.interval is None:
        return NOTHING, NOTHING
    low, high = tried.interval
    return units.ratio(tried.speedup), f"{units.ratio(low)} to {units.ratio(high)}"
