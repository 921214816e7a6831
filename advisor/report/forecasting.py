"""What the model says of each device: one table over all, then device by device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from advisor import units
from advisor.devices.memory_class import EXPLAINED
from advisor.model import accuracy, measured
from advisor.model.measured import RowAgainstRun
from advisor.profiles.schema import MemoryClass, Prediction, Profile, Skipped
from advisor.report import words
from advisor.report.blocks import (
    Block,
    Bullets,
    Column,
    Fold,
    Group,
    Item,
    Items,
    Prose,
    Row,
    Table,
    TableCell,
    Verdicts,
)
from advisor.report.charts import overlap_note, prediction_chart
from advisor.report.failures import undoubted
from advisor.report.page import Section, filled
from advisor.report.recommendations import prediction_verdict
from advisor.report.tables import apart, forecast_rows, forecasts, gaps, overlaps
from advisor.verdicts.counting import counted

_RANGE = "Predicted. The bracket below is the range of the whole frame."


def predictions(profile: Profile) -> Section:
    """All predictions; none of them marked as recommended where the workload failed."""
    marked, cpu = counted(undoubted(profile)).predictions, profile.device.kind == "cpu"
    notes = [overlaps(profile, made) for made in profile.predictions]
    table = Table(
        "forecasts",
        "strategy",
        tuple(Column(words.name(made.device.name)) for made in marked),
        forecasts(marked, notes),
        caption="Predicted time per frame: the likely value, beneath it the range. An arrow marks what is "
        "recommended.",
        title="Predicted time per frame:",
        identifier="forecasts",
        sortable=True,
        predicted=True,
        forms="html md" if cpu else "html",
    )
    blocks = filled(
        table,
        *(_in_text(made, said) for made, said in zip(marked, notes, strict=True)),
        Prose(error_line(profile.predictions), forms="md") if cpu else None,
        Prose(f"How accurate predictions are: {WHERE}", forms="txt"),
        *(_device(profile, one, i) for i, one in enumerate(marked)),
    )
    return Section("predictions", "Predictions by device", blocks, nav="Predictions", badge="predicted")


def _in_text(made: Prediction, notes: dict[str, str]) -> Table:
    """A terminal has room for one device, with its memory."""
    both = " (memory: host and device together)" if apart(made.device) else ""
    return Table(
        "forecast",
        "strategy",
        (Column("predicted", notes="range", bars="predicted"), Column("memory")),
        forecast_rows(made, notes),
        title=f"Predicted time per frame on {words.name(made.device.name)}{both}:",
        forms="txt",
    )


def _device(profile: Profile, marked: Prediction, index: int) -> Group:
    prediction, name = profile.predictions[index], words.name(marked.device.name)
    declined = tuple(r for r in prediction.results if isinstance(r, Skipped))
    told, memory = len(declined) < len(prediction.results), prediction.device.memory_class
    notes = filter(None, (_RANGE, overlap_note(profile, prediction)))
    chart = replace(prediction_chart(marked, index + 1), notes=tuple(notes)) if told else None
    verdict = None if profile.device.kind == "cpu" else prediction_verdict(profile, prediction)
    assumptions = Bullets(tuple(map(words.line, prediction.assumptions)), forms="html")
    blocks = filled(
        Prose(EXPLAINED[memory] if memory else "", forms="html"),
        Verdicts((verdict,), level=4, forms="html") if verdict else None,
        Prose(error_sentence(memory) if told else "", forms="html"),
        chart,
        *_declined(gaps(declined), name),
        Fold("Assumptions", filled(assumptions)),
    )
    return Group("prediction", blocks, name, "predicted")


def _declined(missing: tuple[Item, ...], device: str) -> tuple[Block, ...]:
    plain = tuple(replace(gap, status="") for gap in missing)
    named = tuple(replace(gap, status=f"not predicted on {device}") for gap in missing)
    return Items(plain, "Not predicted", forms="html"), Items(named, forms="txt")


@dataclass(frozen=True)
class ModelBeside:
    """The rows and what they come to; without rows, `reason` says why there are none."""

    entry: str
    """The catalogue's name of the device."""
    summary: str
    rows: tuple[Row, ...]
    reason: str


def beside_model(profile: Profile) -> ModelBeside:
    """What the model would have said of this run, and how that turned out; the fastest strategy first."""
    found = measured.compare(profile)
    rows = tuple(_beside(row) for row in sorted(found.rows, key=lambda row: row.measured))
    times = words.count(len(rows), "measured time")
    lie = "lies" if len(rows) == 1 else "lie"
    summary = f"{found.inside} of {times} {lie} in the predicted range." if rows else ""
    return ModelBeside(words.name(found.device), summary, rows, words.line(found.reason))


def _beside(row: RowAgainstRun) -> Row:
    """Measured, predicted, predicted over measured, and in words where the measured time lies."""
    outside = f"outside: {'slower' if row.measured > row.high else 'faster'} than predicted"
    return Row(
        words.name(row.strategy),
        (
            TableCell(units.seconds(row.measured)),
            TableCell(units.seconds(row.likely), words.seconds_between(row.low, row.high), mark="forecast"),
            TableCell(units.ratio(row.ratio)),
            TableCell("inside") if row.inside else TableCell(outside, mark="outside"),
        ),
    )


FEW_CASES = 10
"""Below so many published cases a share says little; chosen."""
WHERE = "docs/accuracy.md"
_UNKNOWN = f"No published figures of this memory class: the model's error for it is not known ({WHERE})."


def error_sentence(memory: MemoryClass | None) -> str:
    """The model's error for a device of that memory class, or that none is known."""
    known = accuracy.by_class().get(memory) if memory else None
    if known is None:
        return _UNKNOWN
    told = "; ".join(filter(None, (_choices(known), _ranges(known))))
    few = f" {words.count(known.cases, 'case')} only: these shares say little." if _few(known) else ""
    figures = words.count(known.figures, "published figure")
    return f"The model against {figures} of this memory class, some of which it uses: {told} ({WHERE}).{few}"


def error_line(predictions: Sequence[Prediction]) -> str:
    """The same for all predicted devices in one line; nothing where nothing was predicted."""
    if not predictions:
        return ""
    known = accuracy.by_class()
    classes = dict.fromkeys(p.device.memory_class for p in predictions)
    told = [_short(memory, known.get(memory) if memory else None) for memory in classes]
    return f"Model against published figures: {'; '.join(told)}"


def _few(known: accuracy.Accuracy) -> bool:
    return known.cases < FEW_CASES


def _choices(known: accuracy.Accuracy) -> str:
    if known.right_share is None:
        return "none of its choices could be checked"
    return (
        f"right or within 5 % in {units.percent(known.right_share)} of {words.count(known.choices, 'choice')}"
    )


def _ranges(known: accuracy.Accuracy) -> str:
    if known.inside_share is None:
        return ""
    return f"{units.percent(known.inside_share)} of the figures lie in the predicted range"


def _short(memory: MemoryClass | None, known: accuracy.Accuracy | None) -> str:
    name = memory or "unknown class"
    if known is None:
        return f"{name} none"
    inside = "" if known.inside_share is None else f", {units.percent(known.inside_share)} in range"
    return f"{name} {words.count(known.figures, 'figure')}{inside}{' (few cases)' if _few(known) else ''}"
