"""What the model says of each device, ready to print."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.devices.memory_class import EXPLAINED
from advisor.profiles.schema import Prediction, Profile, Skipped
from advisor.report import model_error, words
from advisor.report.caveats import undoubted
from advisor.report.charts import Chart
from advisor.report.page import Item, Verdict
from advisor.report.stacks import predicted_overlap_note, prediction_chart
from advisor.report.tables import Forecasts, forecasts, gaps, overlaps
from advisor.report.verdicts import prediction_verdict
from advisor.verdicts.counting import counted


@dataclass(frozen=True)
class DevicePrediction:
    """What the model says of one device."""

    device: str
    memory: str
    error: str
    """How far the model was from published figures of such devices."""
    verdict: Verdict
    chart: Chart | None
    overlap_note: str
    """Why the parts of overlapping frames do not add up to the frame; nothing where none overlap."""
    declined: tuple[Item, ...]
    assumptions: tuple[str, ...]


@dataclass(frozen=True)
class Forecasting:
    """All predictions: device by device, and as one table."""

    predictions: tuple[DevicePrediction, ...]
    forecasts: Forecasts
    model_error: str
    """The model's error for all predicted devices, in one line."""
    model_error_brief: str


def forecasting(profile: Profile) -> Forecasting:
    """The predictions of a profile; none of them marked as recommended where the workload failed."""
    marked = counted(undoubted(profile)).predictions
    return Forecasting(
        predictions=tuple(_prediction(profile, one, i) for i, one in enumerate(marked)),
        forecasts=forecasts(marked, [overlaps(profile, made) for made in profile.predictions]),
        model_error=model_error.line(profile.predictions),
        model_error_brief=model_error.brief(profile.predictions),
    )


def _prediction(profile: Profile, marked: Prediction, index: int) -> DevicePrediction:
    prediction = profile.predictions[index]
    declined = tuple(r for r in prediction.results if isinstance(r, Skipped))
    told = len(declined) < len(prediction.results)
    memory = prediction.device.memory_class
    return DevicePrediction(
        device=words.name(prediction.device.name),
        memory=EXPLAINED[memory] if memory else "",
        error=model_error.sentence(memory) if told else "",
        verdict=prediction_verdict(profile, prediction),
        chart=prediction_chart(marked, index + 1) if told else None,
        overlap_note=predicted_overlap_note(profile, prediction),
        declined=gaps(declined),
        assumptions=tuple(words.line(a) for a in prediction.assumptions),
    )
