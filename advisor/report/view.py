"""The report as data: every word and number ready, so that the templates only loop and print."""

from __future__ import annotations

from dataclasses import dataclass, replace

from advisor import units
from advisor.devices.memory_class import EXPLAINED
from advisor.profiles import Prediction, Profile, Skipped
from advisor.report import model_error, words
from advisor.report.advising import Finding, changes, findings
from advisor.report.charts import Chart
from advisor.report.compared import Comparison, comparison
from advisor.report.distribution import Distribution, distribution
from advisor.report.doubts import FIRST_FRAMES, undoubted
from advisor.report.failures import Failure, all_failed, failures
from advisor.report.machine import Readings, absent, environment, readings
from advisor.report.methods import Entry, method, pairs, workload
from advisor.report.stacks import footprint_chart, frame_chart, overlap_note, prediction_chart
from advisor.report.tables import Forecasts, Gap, Row, apart, baseline, forecasts, gaps, rows
from advisor.report.traces import Traces, traces
from advisor.report.verdicts import Verdict, prediction_verdict, verdicts

BESIDE_VERDICT = 3
"""So many warnings stand beside the verdict."""
CPU_LABEL = "measured on this CPU, not on a GPU"


@dataclass(frozen=True)
class DevicePrediction:
    """What the model says of one device."""

    device: str
    memory: str
    error: str
    """How far the model was from published figures of such devices."""
    verdict: Verdict
    chart: Chart | None
    declined: tuple[Gap, ...]
    assumptions: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """All of one report. `predicted` says that no figure in it was measured on a GPU."""

    title: str
    workload: str
    summary: str
    parameters: str
    device: str
    memory: str
    created: str
    tool: str
    predicted: bool
    measured_label: str
    failures: tuple[Failure, ...]
    doubtful: str
    """Why no prediction here is a recommendation; empty where nothing stands against them."""
    verdicts: tuple[Verdict, ...]
    next_step: str
    changes: tuple[Finding, ...]
    baseline: str
    apart: bool
    """Whether the device has a memory of its own, so that a footprint is the sum of both."""
    confidence: str
    rows: tuple[Row, ...]
    gaps: tuple[Gap, ...]
    frame_chart: Chart | None
    overlap_note: str
    """Why the parts of some frames may exceed them."""
    footprint_chart: Chart | None
    distributions: tuple[Distribution, ...]
    findings: tuple[Finding, ...]
    predictions: tuple[DevicePrediction, ...]
    forecasts: Forecasts
    model_error: str
    """The model's error for all predicted devices, in one line."""
    model_error_brief: str
    comparison: Comparison
    method: tuple[Entry, ...]
    workload_facts: tuple[Entry, ...]
    environment: tuple[Entry, ...]
    readings: tuple[Readings, ...]
    absent: tuple[Entry, ...]
    warnings: tuple[str, ...]
    """What makes the figures less than they say."""
    notes: tuple[str, ...]
    command: str
    traces: Traces

    @property
    def cautions(self) -> tuple[str, ...]:
        """The warnings to show beside the verdict."""
        return self.warnings[:BESIDE_VERDICT]

    @property
    def further(self) -> tuple[str, ...]:
        """The other warnings."""
        return self.warnings[BESIDE_VERDICT:]

    @property
    def fired(self) -> tuple[Finding, ...]:
        """Findings to show unasked."""
        return tuple(f for f in self.findings if f.fired)

    @property
    def quiet(self) -> tuple[Finding, ...]:
        """Findings to fold: rules that passed or do not apply."""
        return tuple(f for f in self.findings if not f.fired)


def view(profile: Profile) -> Report:
    """Everything a profile says, in words."""
    predicted, found = profile.device.kind == "cpu", findings(profile)
    measured, base, marked = profile.measured(), baseline(profile), undoubted(profile)
    doubtful = all_failed(profile) and any(p.recommendation for p in profile.predictions)
    told, next_step = _shared_next_step(verdicts(profile))
    against = comparison(profile)
    device = words.name(profile.device.name)
    return Report(
        title=_title(profile, predicted),
        workload=words.name(profile.workload.name),
        summary=words.line(profile.workload.summary, 300),
        parameters=pairs(profile.workload.parameters),
        device=device,
        memory=EXPLAINED[profile.device.memory_class] if profile.device.memory_class else "",
        created=_created(profile.created),
        tool=f"advisor {words.name(profile.tool.version)}",
        predicted=predicted,
        measured_label=CPU_LABEL if predicted else f"measured on {device}",
        failures=failures(profile),
        doubtful=f"{FIRST_FRAMES}." if doubtful else "",
        verdicts=told,
        next_step=next_step,
        changes=() if doubtful else changes(found),
        baseline=words.name(base.strategy) if base else "baseline",
        apart=apart(profile.device),
        confidence=units.percent(profile.method.confidence),
        rows=rows(marked),
        gaps=gaps(profile.results),
        frame_chart=frame_chart(marked) if measured else None,
        overlap_note=overlap_note(profile),
        footprint_chart=footprint_chart(marked) if measured else None,
        distributions=tuple(distribution(row, i) for i, row in enumerate(measured.values(), 1)),
        findings=found,
        predictions=tuple(_prediction(profile, p, i) for i, p in enumerate(marked.predictions)),
        forecasts=forecasts(marked.predictions),
        model_error=model_error.line(profile.predictions),
        model_error_brief=model_error.brief(profile.predictions),
        comparison=against,
        method=method(profile, against),
        workload_facts=workload(profile),
        environment=environment(profile),
        readings=readings(profile),
        absent=absent(profile),
        warnings=tuple(words.line(w) for w in profile.environment.warnings),
        notes=tuple(words.line(n) for n in profile.notes),
        command=words.line(profile.command, 500),
        traces=traces(profile),
    )


def _shared_next_step(told: tuple[Verdict, ...]) -> tuple[tuple[Verdict, ...], str]:
    """Verdicts on several devices that end in the same next step say it once, together."""
    steps = {verdict.next_step for verdict in told}
    if len(told) == 1 or len(steps) > 1:
        return told, ""
    return tuple(replace(verdict, next_step="") for verdict in told), steps.pop()


def _title(profile: Profile, predicted: bool) -> str:
    workload = words.name(profile.workload.name)
    if not predicted:
        return f"{workload} on {words.name(profile.device.name)}"
    targets = words.listing(words.name(p.device.name) for p in profile.predictions)
    return f"{workload}, predicted for {targets}" if targets else f"{workload}, without a GPU"


def _created(text: str) -> str:
    """`2026-01-02T03:04:05+00:00` as `2026-01-02 03:04 UTC`; any other form as it is."""
    day, separator, time = text.partition("T")
    utc = time.endswith(("+00:00", "Z"))
    return words.name(f"{day} {time[:5]} UTC" if separator and utc else text)


def _prediction(profile: Profile, marked: Prediction, index: int) -> DevicePrediction:
    prediction = profile.predictions[index]
    declined = tuple(r for r in prediction.results if isinstance(r, Skipped))
    memory = prediction.device.memory_class
    return DevicePrediction(
        device=words.name(prediction.device.name),
        memory=EXPLAINED[memory] if memory else "",
        error=model_error.sentence(memory) if len(declined) < len(prediction.results) else "",
        verdict=prediction_verdict(profile, prediction),
        chart=prediction_chart(marked, index + 1) if len(declined) < len(prediction.results) else None,
        declined=gaps(declined),
        assumptions=tuple(words.line(a) for a in prediction.assumptions),
    )
