"""The report as data: every word and number ready, so that the templates only loop and print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from advisor import units
from advisor.devices.memory_class import EXPLAINED
from advisor.profiles import Environment, Measured, Prediction, Profile, Skipped
from advisor.report import model_error, words
from advisor.report.advising import Finding, changes, findings
from advisor.report.charts import Chart
from advisor.report.compared import Comparison, comparison
from advisor.report.distribution import Distribution, distribution
from advisor.report.doubts import FIRST_FRAMES, undoubted
from advisor.report.failures import Failure, all_failed, failures
from advisor.report.stacks import footprint_chart, frame_chart, prediction_chart
from advisor.report.tables import Forecasts, Gap, Row, apart, baseline, forecasts, gaps, rows
from advisor.report.verdicts import Verdict, prediction_verdict, verdicts

CPU_LABEL = "measured on this CPU, not on a GPU"


@dataclass(frozen=True)
class Entry:
    """A name and what stands against it."""

    label: str
    value: str


@dataclass(frozen=True)
class DevicePrediction:
    """What the model says of one device."""

    device: str
    memory: str
    error: str
    """How far the model was from published figures of such devices."""
    verdict: Verdict
    chart: Chart | None
    declined: tuple[Entry, ...]
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
    absent: tuple[Entry, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    command: str

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
        parameters=_pairs(profile.workload.parameters),
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
        footprint_chart=footprint_chart(marked) if measured else None,
        distributions=tuple(distribution(row, i) for i, row in enumerate(measured.values(), 1)),
        findings=found,
        predictions=tuple(_prediction(profile, p, i) for i, p in enumerate(marked.predictions)),
        forecasts=forecasts(marked.predictions),
        model_error=model_error.line(profile.predictions),
        model_error_brief=model_error.brief(profile.predictions),
        comparison=against,
        method=_method(profile, against),
        workload_facts=_workload(profile),
        environment=_environment(profile.environment, profile.device.attributes),
        absent=_absent(profile),
        warnings=tuple(words.line(w) for w in profile.environment.warnings),
        notes=tuple(words.line(n) for n in profile.notes),
        command=words.line(profile.command, 500),
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


def _pairs(values: dict[str, int | float | bool | str]) -> str:
    return ", ".join(f"{words.name(k)} = {words.name(str(v))}" for k, v in list(values.items())[:20])


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
        declined=tuple(Entry(words.name(r.strategy), words.line(r.reason)) for r in declined),
        assumptions=tuple(words.line(a) for a in prediction.assumptions),
    )


def _method(profile: Profile, against: Comparison) -> tuple[Entry, ...]:
    method = profile.method
    stopped = Counter(reason for row in profile.measured().values() for reason in row.stopped)
    return (
        Entry("Command", words.line(profile.command, 500)),
        Entry(
            "Order",
            f"{words.count(method.rounds, 'round')}; in each, every strategy runs in a fresh process, "
            f"in an order shuffled with seed {method.seed}",
        ),
        Entry("Time", f"at most {units.seconds(method.max_seconds)} of sampling per strategy"),
        Entry(
            "Figures",
            "median wall time of a steady frame, host stages included. Medians and ratios carry their "
            f"{units.percent(method.confidence)} interval, from resampling processes and their frames",
        ),
        Entry("Device path", "the frame without its host stages: copies, kernels and waiting"),
        Entry("Set-up", "allocate, pin, set-up stages and first frame; not part of the frame time"),
        *(Entry("Sampling ended", _stops(stopped)) for _ in (1,) if stopped),
        *(Entry("Model", f"not compared with these figures: {why}") for why in _unmatched(profile, against)),
        Entry("Trace", words.line(profile.trace.reason, 300)),
    )


def _unmatched(profile: Profile, against: Comparison) -> tuple[str, ...]:
    """Why figures measured on a GPU stand without the model's beside them."""
    wanted = profile.device.kind == "cuda" and profile.measured() and not against.rows
    return (against.reason,) if wanted else ()


def _stops(stopped: Counter[str]) -> str:
    return words.listing(
        f"{words.name(reason, 100)} ({words.count(n, 'time')})" for reason, n in stopped.most_common()
    )


def _workload(profile: Profile) -> tuple[Entry, ...]:
    workload = profile.workload
    shapes = [" × ".join(map(str, b.shape[:6])) for b in workload.buffers]
    buffers = [
        f"{words.name(b.name)}: {words.name(b.dtype)} {shape}, {units.size(b.bytes)}"
        for b, shape in list(zip(workload.buffers, shapes, strict=True))[:40]
    ]
    stages = [f"{words.name(s.name)} ({s.side})" for s in workload.frame_stages()[:40]]
    return (
        Entry("File", words.line(workload.file, 300)),
        Entry("SHA-256", words.name(workload.sha256, 64)),
        Entry("Parameters", _pairs(workload.parameters) or "none"),
        Entry("Buffers", "; ".join(buffers)),
        Entry("Frame", " → ".join(stages)),
    )


def _environment(
    environment: Environment, attributes: dict[str, int | float | str | bool]
) -> tuple[Entry, ...]:
    told = (
        ("System", f"{environment.system}, {environment.machine}"),
        ("Python", environment.python),
        ("CPU", environment.cpu_model),
        ("CPU cores", environment.cpu_count),
        ("Memory", units.size(environment.memory_bytes) if environment.memory_bytes else None),
    )
    return (
        *(Entry(label, words.line(str(value), 200)) for label, value in told if value is not None),
        *_entries(environment.gpu.items()),
        *_entries(environment.packages.items()),
        *_entries(attributes.items()),
    )


def _entries(items: Iterable[tuple[str, object]]) -> list[Entry]:
    return [Entry(words.name(key), words.line(str(value), 200)) for key, value in items]


def _absent(profile: Profile) -> tuple[Entry, ...]:
    """What could not be read, with the reason; the same reason in several rows is told once."""
    told = dict(profile.environment.absent)
    for row in (r for r in profile.results if isinstance(r, Measured)):
        told.update(row.footprint.absent)
    return tuple(_entries(told.items()))
