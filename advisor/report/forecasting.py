"""What the model says of each device, and how far it was from published measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from advisor import units
from advisor.devices.memory_class import EXPLAINED
from advisor.model import accuracy
from advisor.profiles.schema import MemoryClass, Prediction, Profile, Skipped
from advisor.report import words
from advisor.report.blocks import Bullets, Column, Fold, Group, Items, Prose, Table, Verdicts
from advisor.report.charts import overlap_note, prediction_chart
from advisor.report.failures import undoubted
from advisor.report.page import Section, filled
from advisor.report.recommendations import prediction_verdict
from advisor.report.tables import apart, forecast_rows, forecasts, gaps, overlaps
from advisor.verdicts.counting import counted

FEW_CASES = 10
"""Below so many published cases a share says little; chosen."""
WHERE = "docs/accuracy.md"
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
    missing = gaps(declined)
    named = tuple(replace(gap, status=f"not predicted on {name}") for gap in missing)
    blocks = filled(
        Prose(EXPLAINED[memory] if memory else "", forms="html"),
        Verdicts((verdict,), level=4, forms="html") if verdict else None,
        Prose(error_sentence(memory) if told else "", forms="html"),
        chart,
        Items(tuple(replace(gap, status="") for gap in missing), "Not predicted", forms="html"),
        Items(named, forms="txt"),
        Fold("Assumptions", filled(assumptions)),
    )
    return Group("prediction", blocks, name, "predicted")


def error_sentence(memory: MemoryClass | None) -> str:
    """The model's error for a device of that memory class, or that none is known."""
    known = accuracy.by_class().get(memory) if memory else None
    if known is None:
        return f"No published figures of this memory class: the model's error for it is not known ({WHERE})."
    told = "none of its choices could be checked"
    if known.right_share is not None:
        choices = words.count(known.choices, "choice")
        told = f"right or within 5 % in {units.percent(known.right_share)} of {choices}"
    if known.inside_share is not None:
        told += f"; {units.percent(known.inside_share)} of the figures lie in the predicted range"
    few = f" {words.count(known.cases, 'case')} only: these shares say little." * (known.cases < FEW_CASES)
    figures = words.count(known.figures, "published figure")
    return f"The model against {figures} of this memory class, some of which it uses: {told} ({WHERE}).{few}"


def error_line(predictions: Sequence[Prediction]) -> str:
    """The same for all predicted devices in one line; nothing where nothing was predicted."""
    told = []
    for memory in dict.fromkeys(made.device.memory_class for made in predictions):
        known = accuracy.by_class().get(memory) if memory else None
        said = words.count(known.figures, "figure") if known else "none"
        if known and known.inside_share is not None:
            said += f", {units.percent(known.inside_share)} in range"
        few = " (few cases)" * (known is not None and known.cases < FEW_CASES)
        told.append(f"{memory or 'unknown class'} {said}{few}")
    return f"Model against published figures: {'; '.join(told)}" if told else ""
