"""The evidence for the verdict: figures and charts of each device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from advisor import units
from advisor.model.accuracy import by_class
from advisor.profiles.schema import Measured, MemoryClass, Predicted, Prediction, Profile, Skipped
from advisor.report import blocks, words
from advisor.report.answer import Answers
from advisor.report.answering import FEW, predicted_answer
from advisor.report.machine import CPU_TITLE, ON_CPU
from advisor.report.page import Section, filled
from advisor.report.parts import overlap_note, parts_table
from advisor.report.tables import by_gpu, gaps, more_figures
from advisor.verdicts.caveats import doubt, undoubted
from advisor.verdicts.measured import baseline, speeds
from advisor.verdicts.scores import counted

HERE = " on this CPU"
_PARTS = "The parts of a frame by kind, each a median."


def stages(profile: Profile, *, badge: str = "") -> Iterator[Section]:
    """The parts of each strategy's frame, and what has no figures, named in the title."""
    cpu, missing, ordered = (
        profile.device.kind == "cpu",
        gaps(profile.results),
        fastest_first(counted(profile)),
    )
    rows = ordered.measured().values()
    caption = f"{_PARTS} {overlap_note(profile)}".strip()
    parts = filled(
        blocks.Prose(ON_CPU if cpu else "", forms="html"),
        parts_table(ordered, rows, caption, "frame") if rows else None,
        *by_gpu(ordered),
        None if rows or missing else blocks.Prose("Nothing was run.", forms="html"),
    )
    title, nav = (CPU_TITLE, "On this CPU") if cpu else ("Where the time of a frame goes", "Stages")
    if rows or not missing:
        yield Section("stages", title, parts, nav=nav, badge=badge)
    names = words.listing((name for gap in missing for name in gap.names), limit=4)
    items = (
        blocks.Items(missing, forms="html"),
        blocks.Items(tuple(gap for gap in missing if gap.status != "failed"), forms="txt"),
    )
    title = f"{'Not run on this CPU' if cpu else 'Not measured'}: {names}"
    yield Section("missing", title, filled(*items), nav="" if rows else nav)


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
_PREDICTED = "Predicted time of a frame on {}, its range and its parts."


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
    rows = sorted(
        (row for row in marked.results if isinstance(row, Predicted)), key=lambda row: row.likely_seconds
    )
    caption = f"{_PREDICTED.format(name)} {overlap_note(profile, prediction)}".strip()
    table = parts_table(marked, rows, caption, f"predicted-{index}")
    assumptions = blocks.Bullets(tuple(map(words.line, prediction.assumptions)), forms="html")
    missing = gaps(declined)
    named = tuple(replace(gap, status=f"not predicted on {name}") for gap in missing)
    parts = filled(
        table if rows else None,
        blocks.Items(tuple(replace(gap, status="") for gap in missing), "Not predicted", forms="html"),
        blocks.Items(named, forms="txt"),
        blocks.Fold("Assumptions", filled(assumptions)),
    )
    return blocks.Group("prediction", parts, name, "predicted")
