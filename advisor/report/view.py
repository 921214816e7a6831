"""The report as data: every word and number ready, so that the templates only loop and print."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from advisor.devices.memory_class import EXPLAINED
from advisor.profiles.schema import Profile
from advisor.report import words
from advisor.report.advising import Finding, changes, findings
from advisor.report.caveats import FIRST_FRAMES
from advisor.report.dates import created
from advisor.report.evidence import Evidence, evidence
from advisor.report.failures import all_failed, failures
from advisor.report.forecasting import Forecasting, forecasting
from advisor.report.machine import Readings, absent, environment, readings
from advisor.report.methods import CPU_LABEL, method, pairs, workload
from advisor.report.page import Fact, Failure, Verdict
from advisor.report.preferring import preferences
from advisor.report.traces import Traces, traces
from advisor.report.verdicts import verdicts

BESIDE_VERDICT = 3
"""So many warnings stand beside the verdict."""


@dataclass(frozen=True)
class Heading:
    """What the report is of. `predicted` says that no figure in it was measured on a GPU."""

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
    command: str


@dataclass(frozen=True)
class Outcome:
    """What came of it: what failed, the verdicts, what to change, and what to doubt."""

    failures: tuple[Failure, ...]
    doubtful: str
    """Why no prediction here is a recommendation; empty where nothing stands against them."""
    verdicts: tuple[Verdict, ...]
    next_step: str
    changes: tuple[Finding, ...]
    findings: tuple[Finding, ...]
    warnings: tuple[str, ...]
    """What makes the figures less than they say."""
    notes: tuple[str, ...]

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
    def silenced(self) -> bool:
        """Whether somebody silenced a rule."""
        return any(f.outcome == "silenced" for f in self.findings)

    @property
    def quiet(self) -> tuple[Finding, ...]:
        """Findings to fold: rules that passed or do not apply."""
        return tuple(f for f in self.findings if not f.fired)


@dataclass(frozen=True)
class Circumstances:
    """How and where the figures were taken, and by what to conclude from them."""

    preferences: tuple[Fact, ...]
    """What the conclusions go by, where that is not the default."""
    method: tuple[Fact, ...]
    workload_facts: tuple[Fact, ...]
    environment: tuple[Fact, ...]
    readings: tuple[Readings, ...]
    absent: tuple[Fact, ...]
    traces: Traces


@dataclass(frozen=True)
class Report(Heading, Outcome, Evidence, Forecasting, Circumstances):
    """All of one report, flat, as the templates print it."""


class _Same:
    """A profile that equals itself alone: comparing, or hashing, all its frames would take longer."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.profile is self.profile

    def __hash__(self) -> int:
        return id(self.profile)


def view(profile: Profile) -> Report:
    """Everything a profile says, in words; made once for all the forms in which a profile is shown."""
    return _view(_Same(profile))


@lru_cache(maxsize=1)
def _view(same: _Same) -> Report:
    profile = same.profile
    measured = evidence(profile)
    return Report(
        **vars(_heading(profile)),
        **vars(_outcome(profile)),
        **vars(measured),
        **vars(forecasting(profile)),
        **vars(_circumstances(profile, measured)),
    )


def _heading(profile: Profile) -> Heading:
    predicted, device = profile.device.kind == "cpu", words.name(profile.device.name)
    return Heading(
        title=_title(profile, predicted),
        workload=words.name(profile.workload.name),
        summary=words.line(profile.workload.summary, 300),
        parameters=pairs(profile.workload.parameters),
        device=device,
        memory=EXPLAINED[profile.device.memory_class] if profile.device.memory_class else "",
        created=created(profile.created),
        tool=f"advisor {words.name(profile.tool.version)}",
        predicted=predicted,
        measured_label=CPU_LABEL if predicted else f"measured on {device}",
        command=words.line(profile.command, 500),
    )


def _outcome(profile: Profile) -> Outcome:
    doubtful = all_failed(profile) and any(p.recommendation for p in profile.predictions)
    told, next_step = _shared_next_step(verdicts(profile))
    found = findings(profile)
    return Outcome(
        failures=failures(profile),
        doubtful=f"{FIRST_FRAMES}." if doubtful else "",
        verdicts=told,
        next_step=next_step,
        changes=() if doubtful else changes(profile, found),
        findings=found,
        warnings=tuple(words.line(w) for w in profile.environment.warnings),
        notes=tuple(words.line(n) for n in profile.notes),
    )


def _circumstances(profile: Profile, measured: Evidence) -> Circumstances:
    return Circumstances(
        preferences=preferences(profile),
        method=method(profile, _unmatched(profile, measured)),
        workload_facts=workload(profile),
        environment=environment(profile),
        readings=readings(profile),
        absent=absent(profile),
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


def _unmatched(profile: Profile, measured: Evidence) -> str:
    """Why figures measured on a GPU stand without the model's beside them."""
    wanted = profile.device.kind == "cuda" and profile.measured() and not measured.comparison.rows
    return measured.comparison.reason if wanted else ""
