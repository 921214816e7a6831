"""What the model says of each device: one table over all, then device by device."""

from __future__ import annotations

from dataclasses import replace

from advisor.devices.memory_class import EXPLAINED
from advisor.profiles.schema import Prediction, Profile, Skipped
from advisor.report import model_error, words
from advisor.report.blocks import Block, Bullets, Column, Fold, Group, Item, Items, Prose, Table, Verdicts
from advisor.report.caveats import undoubted
from advisor.report.page import Section, filled
from advisor.report.recommendations import prediction_verdict
from advisor.report.stacks import predicted_overlap_note, prediction_chart
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
        Prose(model_error.line(profile.predictions), forms="md") if cpu else None,
        Prose(f"How accurate predictions are: {model_error.WHERE}", forms="txt"),
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
    notes = filter(None, (_RANGE, predicted_overlap_note(profile, prediction)))
    chart = replace(prediction_chart(marked, index + 1), notes=tuple(notes)) if told else None
    verdict = None if profile.device.kind == "cpu" else prediction_verdict(profile, prediction)
    assumptions = Bullets(tuple(map(words.line, prediction.assumptions)), forms="html")
    blocks = filled(
        Prose(EXPLAINED[memory] if memory else "", forms="html"),
        Verdicts((verdict,), level=4, forms="html") if verdict else None,
        Prose(model_error.sentence(memory) if told else "", forms="html"),
        chart,
        *_declined(gaps(declined), name),
        Fold("Assumptions", filled(assumptions)),
    )
    return Group("prediction", blocks, name, "predicted")


def _declined(missing: tuple[Item, ...], device: str) -> tuple[Block, ...]:
    plain = tuple(replace(gap, status="") for gap in missing)
    named = tuple(replace(gap, status=f"not predicted on {device}") for gap in missing)
    return Items(plain, "Not predicted", forms="html"), Items(named, forms="txt")
