"""The evidence for the verdict: figures and charts of each device."""

from __future__ import annotations

from dataclasses import replace

from advisor import units
from advisor.model.accuracy import by_class
from advisor.profiles.schema import Measured, MemoryClass, Prediction, Profile, Skipped
from advisor.report import blocks, words
from advisor.report.answer import Answers
from advisor.report.answering import FEW, predicted_answer
from advisor.report.charts import frame_chart, overlap_note, prediction_chart
from advisor.report.machine import ON_CPU
from advisor.report.page import Section, filled
from advisor.report.tables import by_gpu, gaps, more_figures
from advisor.verdicts.caveats import doubt, undoubted
from advisor.verdicts.measured import baseline, speeds
from advisor.verdicts.scores import counted

HERE = " on this CPU"
_TIMES = "Where the time of a frame goes"
_PARTS = "Grouped by kind, not by time; each part is a median. The bracket is the interval of the frame."


def stages(profile: Profile, *, badge: str = "") -> Section:
    cpu, missing = profile.device.kind == "cpu", gaps(profile.results)
    drawn: blocks.Block | None = None
    if profile.measured():
        notes = tuple(filter(None, (_PARTS, overlap_note(profile))))
        drawn = replace(frame_chart(fastest_first(counted(undoubted(profile)))), notes=notes)
    parts = filled(
        blocks.Prose(ON_CPU if cpu else "", forms="html"),
        drawn,
        *by_gpu(fastest_first(counted(profile))),
        blocks.Items(missing, "Not measured" * bool(drawn), forms="html"),
        blocks.Items(tuple(gap for gap in missing if gap.status != "failed"), forms="txt"),
    )
    return Section(
        "stages",
        "Measured on this CPU, not on a GPU" if cpu else _TIMES if drawn else "Not measured",
        parts or (blocks.Prose("Nothing was run.", forms="html"),),
        nav="On this CPU" if cpu else "Stages",
        badge=badge,
    )


def noise(profile: Profile) -> Section:
    ordered = fastest_first(counted(profile))
    base = baseline(profile) if profile.device.kind != "cpu" and not doubt(profile) else None
    rows = more_figures(tuple(ordered.measured().values()), base, speeds(ordered))
    title = f"Slowest frames, CPU time, energy, set-up{HERE * (profile.device.kind == 'cpu')}"
    return Section("noise", title, tuple(rows), nav="More figures")


def fastest_first(profile: Profile) -> Profile:
    """The profile with its measured rows by their time, those outside the final after those in it, then the
    other rows as they were."""
    measured = sorted(profile.measured().values(), key=lambda row: (bool(row.outside), row.median_seconds))
    others = (row for row in profile.results if not isinstance(row, Measured))
    return profile.model_copy(update={"results": (*measured, *others)})


WHERE = "docs/accuracy.md"
_RANGE = "Predicted. The bracket is the range of the frame."


def predictions(profile: Profile, *, leading: bool) -> Section:
    """All predictions; none of them marked as recommended where the workload failed.

    leading: the first section has their answers.
    """
    marked = counted(undoubted(profile)).predictions
    each = tuple(predicted_answer(profile, prediction) for prediction in profile.predictions)
    classes = dict.fromkeys(prediction.device.memory_class for prediction in profile.predictions)
    parts = filled(
        None if leading else Answers(each, forms="html txt"),
        *(blocks.Prose(_accuracy(each), forms="html txt") for each in classes if each),
        blocks.Prose(f"Prediction accuracy: {WHERE}", forms="md"),  # a comment has room for code instead
        *(_device(profile, one, i) for i, one in enumerate(marked)),
    )
    return Section("predictions", "Predicted frame time by part", parts, nav="Predictions", badge="predicted")


def _accuracy(memory_class: MemoryClass) -> str:
    """The model's error on families of devices left out of its fit, beside that of a rule of three lines."""
    row, where = by_class().get(memory_class), f"memory class {memory_class}"
    if row is None:
        return f"Prediction accuracy: nothing published to check {where} ({WHERE})."
    right, rule, regret, rules = (
        units.percent(share or 0.0)
        for share in (row.right_share, row.rule_right_share, row.regret_mean, row.rule_regret_mean)
    )
    checked = f"checked on {words.count(row.choices, 'choice')}"
    if row.choices >= FEW:
        checked = (
            f"{right} of {row.choices} choices right or within 5 % (a rule of three lines: {rule}), mean "
            f"regret {regret} ({rules})"
        )
    off = "" if row.ratio_error_median is None else f", ratios off {units.percent(row.ratio_error_median)}"
    inside = f"{units.percent(row.inside_share or 0.0)} of {row.figures} figures in range"
    return f"Prediction accuracy for {where}, families left out: {checked}{off}, {inside} ({WHERE})."


def _device(profile: Profile, marked: Prediction, index: int) -> blocks.Group:
    prediction, name = profile.predictions[index], words.name(marked.device.name)
    declined = tuple(r for r in prediction.results if isinstance(r, Skipped))
    predicted = len(declined) < len(prediction.results)
    notes = filter(None, (_RANGE, overlap_note(profile, prediction)))
    chart = replace(prediction_chart(marked, index + 1), notes=tuple(notes)) if predicted else None
    assumptions = blocks.Bullets(tuple(map(words.line, prediction.assumptions)), forms="html")
    missing = gaps(declined)
    named = tuple(replace(gap, status=f"not predicted on {name}") for gap in missing)
    parts = filled(
        chart,
        blocks.Items(tuple(replace(gap, status="") for gap in missing), "Not predicted", forms="html"),
        blocks.Items(named, forms="txt"),
        blocks.Fold("Assumptions", filled(assumptions)),
    )
    return blocks.Group("prediction", parts, name, "predicted")
