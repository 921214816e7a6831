"""The section on changes that were tried on a script: what each gave, and the patch of those that pay with
equal results; where results prove nothing, its text is code to consider."""

from __future__ import annotations

from advisor import units
from advisor.profiles.trials import Patch, Trial, TrialOutcome, Trials
from advisor.report import blocks, words
from advisor.report.blocks import NOTHING, Column, columns, row
from advisor.report.page import Section, filled
from advisor.stats import Ratio

_OUTCOMES: dict[TrialOutcome, str] = {
    "faster": "faster",
    "not-faster": "not faster",
    "open": "undecided",
    "differs": "other results",
    "refused": "not tried",
}
_NO_PATCH = "What was proved faster by then has no patch: its text was not yet run and timed."
_WITHOUT_REASON: dict[TrialOutcome, str] = {"open": "more frames could tell"}


def trials_section(tried: Trials) -> Section:
    """The results of `--try`. Times alternate within processes; ratios hold for all changes at once."""
    patch, compared = tried.patch, []
    if tried.compared:
        compared = [f"Compared with the unchanged script: {'; '.join(map(words.line, tried.compared))}."]
    for what in tried.unlike:
        compared.append(f"Two unchanged runs differ in {words.line(what)}, which compares nothing.")
    compared += [f"Not in the patch: {words.line(reason)}." for reason in (patch.left_out if patch else ())]
    code = None
    if patch is not None and (patch.holds or patch.is_unproved):
        title = f"{'Patch' if patch.holds else 'Code to consider'}: {words.count(patch.lines, 'line')}"
        code = blocks.Code(title, words.block(patch.text), "diff", forms="html md")
    parts = (
        blocks.Prose(_answer(tried), kind="", forms="html md"),
        _table(tried) if tried.trials else None,
        blocks.Bullets(tuple(filter(None, (_answer(tried),))), forms="txt"),
        code,
        blocks.Bullets(tuple(compared), forms="html md"),
    )
    return Section("trials", "Changes tried", filled(*parts), nav="Tried", brief=True)


def _answer(tried: Trials) -> str:
    if tried.reason and not tried.trials:
        return words.line(tried.reason)
    patch = tried.patch
    if patch and patch.holds:
        return ""  # the page's next step says it
    if patch and patch.is_unproved:
        promised, frame, seconds = "nothing promised", tried.frame_seconds, patch.promised_seconds
        if seconds is not None:  # the sum of what its changes promised, which may exceed the frame
            ratio = f" ({units.ratio(frame / (frame - seconds))})" if frame and seconds < frame else ""
            promised = f"promised {units.seconds(seconds)}{ratio}"
        lines = words.count(patch.lines, "line")
        result = f"applied to a copy: {promised}, got {fast(patch)}"
        reason = words.line(patch.reason) or "nothing proves that results are equal"
        return f"No patch is written, only {lines} of code to consider, {result}: {reason}."
    if patch and not patch.text:
        return "What was faster could not be written as a patch."
    if patch:
        why = patch.reason or (f"got {fast(patch)}" if patch.speedup else "too few of its frames were timed")
        return f"The patch does not hold: {words.line(why)}."
    if tried.reason:
        proved = any(trial.outcome == "faster" for trial in tried.trials)
        return f"{words.line(tried.reason)} {_NO_PATCH if proved else 'Nothing was proved by then.'}"
    return "No change was proved faster with equal results."


def _table(tried: Trials) -> blocks.Table:
    rows = [row("as it is", _seconds(tried.frame_seconds), NOTHING, NOTHING, NOTHING, "")]
    for trial in tried.trials:
        line = f"{trial.place.line}  " if trial.place else ""
        text = trial.reason or _WITHOUT_REASON.get(trial.outcome, "")
        reason = f": {words.line(text, 120)}" if text else ""
        figures = _seconds(trial.frame_seconds), *_ratio(trial), _seconds(trial.promised_seconds)
        outcome = f"{_OUTCOMES[trial.outcome]}{reason}"
        rows.append(row(f"{line}{words.line(trial.title, 70)}", *figures, outcome))
    if (patch := tried.patch) and patch.speedup:
        equal = {True: "results equal", False: "other results", None: "results not compared"}[patch.equal]
        rows.insert(
            1, row("patch, on a copy", NOTHING, *_ratio(patch), _seconds(patch.promised_seconds), equal)
        )
    return blocks.Table(
        "trials",
        "line",
        columns("frame", "as fast", "95 %", "promised", Column("outcome", figures=False)),
        tuple(rows),
        caption="Blocks of frames of each change alternate with those of the script as it is; intervals hold "
        "for all changes at once. What a change saves of a frame was promised before, by an estimate.",
        title="Tried:",
        identifier="trials",
        codes=False,
        whole=True,
    )


def _seconds(value: float | None) -> str:
    return NOTHING if value is None else units.seconds(value)


def fast(tried: Trial | Patch) -> str:
    return units.times(Ratio(tried.speedup, *tried.interval)) if tried.speedup and tried.interval else NOTHING


def _ratio(tried: Trial | Patch) -> tuple[str, str]:
    """How fast it is, and the interval."""
    if tried.speedup is None or tried.interval is None:
        return NOTHING, NOTHING
    low, high = tried.interval
    return units.ratio(tried.speedup), f"{units.ratio(low)} to {units.ratio(high)}"
