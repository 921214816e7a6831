"""The section on changes that were tried on a script: what each gave, and the patch of those that pay."""

from __future__ import annotations

from collections.abc import Iterator

from advisor import units
from advisor.profiles.trials import Patch, Trial, TrialOutcome, Trials
from advisor.report import blocks, words
from advisor.report.blocks import NOTHING, Column, Row, TableCell
from advisor.report.page import Section, filled
from advisor.stats import Ratio

_NONE = TableCell(NOTHING)

_OUTCOMES: dict[TrialOutcome, str] = {
    "faster": "faster",
    "not-faster": "not faster",
    "open": "undecided: more frames could tell",
    "differs": "other results",
    "refused": "not tried",
}


def trials_section(tried: Trials) -> Section:
    """What `--try` gave. Times alternate within processes; ratios hold for all changes at once."""
    parts = (
        blocks.Prose(_answer(tried), kind="", forms="html md"),
        _table(tried) if tried.trials else None,
        blocks.Bullets((_answer(tried),), forms="txt"),
        *_patch(tried.patch),
        blocks.Bullets(tuple(_compared(tried)), forms="html md"),
    )
    return Section("trials", "Changes tried", filled(*parts), nav="Tried", brief=True)


def _answer(tried: Trials) -> str:
    if tried.reason:
        return words.line(tried.reason)
    patch = tried.patch
    if patch and patch.speedup and patch.interval and patch.equal is not False:
        equal = "results equal" if patch.equal else "nothing told whether results are equal"
        promised = _promised(patch, tried.frame_seconds)
        got = f"{promised}, got {_times(patch.speedup, patch.interval)}; {equal}"
        return f"Patch of {words.count(patch.lines, 'line')}, applied to a copy: {got}."
    if patch and not patch.text:
        return "What was proved faster could not be written as a patch."
    if patch:
        return f"The patch does not hold: {words.line(patch.reason or 'it was not faster when it ran')}."
    return "No change was proved faster with equal results."


def _promised(patch: Patch, frame: float | None) -> str:
    """The sum of what its changes promised, as a ratio where that leaves a part of the frame."""
    seconds = patch.promised_seconds
    if seconds is None:
        return "nothing promised"
    whole = f"promised {units.seconds(seconds)}"
    return f"{whole} ({units.ratio(frame / (frame - seconds))})" if frame and seconds < frame else whole


def _times(value: float, interval: tuple[float, float]) -> str:
    return units.times(Ratio(value, *interval))


def _table(tried: Trials) -> blocks.Table:
    base = TableCell(units.seconds(tried.frame_seconds)) if tried.frame_seconds else _NONE
    rows = [Row("as it is", (base, _NONE, _NONE, TableCell("")))]
    rows += [_row(trial) for trial in tried.trials]
    if tried.patch and tried.patch.speedup:
        rows.append(_patched(tried.patch))
    columns = Column("frame"), Column("as fast"), Column("promised"), Column("outcome", figures=False)
    return blocks.Table(
        "trials",
        "line",
        columns,
        tuple(rows),
        caption="Blocks of frames of each change alternate with those of the script as it is; intervals are "
        "95 % for all changes at once. What a change saves of a frame was promised before, by an estimate.",
        title="Tried:",
        identifier="trials",
        codes=False,
        whole=True,
    )


def _row(trial: Trial) -> Row:
    line = f"{trial.place.line}  " if trial.place else ""
    frame = TableCell(units.seconds(trial.frame_seconds)) if trial.frame_seconds else _NONE
    fast = TableCell(_times(trial.speedup, trial.interval)) if trial.speedup and trial.interval else _NONE
    promised = _NONE if trial.promised_seconds is None else TableCell(units.seconds(trial.promised_seconds))
    reason = f": {words.line(trial.reason, 120)}" if trial.reason else ""
    outcome = TableCell(f"{_OUTCOMES[trial.outcome]}{reason}")
    return Row(f"{line}{words.line(trial.title, 70)}", (frame, fast, promised, outcome))


def _patched(patch: Patch) -> Row:
    told = _times(patch.speedup, patch.interval) if patch.speedup and patch.interval else ""
    equal = {True: "results equal", False: "other results", None: "results not compared"}[patch.equal]
    promised = _NONE if patch.promised_seconds is None else TableCell(units.seconds(patch.promised_seconds))
    return Row("patch, on a copy", (_NONE, TableCell(told), promised, TableCell(equal)))


def _patch(patch: Patch | None) -> Iterator[blocks.Block]:
    if patch is not None and patch.text and patch.equal is not False:
        title = f"Patch: {words.count(patch.lines, 'line')}"
        yield blocks.Code(title, words.block(patch.text), "diff", forms="html md")


def _compared(tried: Trials) -> Iterator[str]:
    if tried.compared:
        yield f"Compared with the unchanged script: {'; '.join(map(words.line, tried.compared))}."
    for what in tried.unlike:
        yield f"Two unchanged runs differ in {words.line(what)}, which compares nothing."
    for reason in tried.patch.left_out if tried.patch else ():
        yield f"Not in the patch: {words.line(reason)}."
