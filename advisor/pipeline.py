"""The whole flow: read this first. It is the Python API behind `advisor profile` too.

    workload.py -> screening, final -> Profile -> prediction, rules -> report

A script is run once and recorded by line (`advisor.measure.recording`); no strategy is tried on it.
Everything after the processes is a pure function of the profile.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from advisor import units
from advisor.devices.catalogue import default_targets, load, under
from advisor.devices.energy import require_meter
from advisor.devices.entries import CatalogueEntry
from advisor.devices.environment import environment, finished
from advisor.errors import FileProblem, NothingToCompare, UsageError, WorkloadError
from advisor.measure.contest import VersionFinal
from advisor.measure.jobs import Description, Settings
from advisor.measure.launcher import Launcher, ProcessLauncher, record
from advisor.measure.measurement import CONCLUDING_SECONDS, Measurement, Run
from advisor.measure.processes import WORKERS, fork_server
from advisor.measure.progress import Progress
from advisor.measure.results import CONFIDENCE
from advisor.measure.revisions import commit_of
from advisor.measure.search import Likely
from advisor.measure.trying.session import INTERRUPTED, try_script
from advisor.measure.version_measurement import VersionMeasurement, Versions
from advisor.model.measured import timed_by
from advisor.model.mixing import outlook
from advisor.model.predict import predict
from advisor.nsys.capturing import FOLDER, Captures, NsysCaptures, traced
from advisor.profiles import outputs, secrets
from advisor.profiles.figures import Method
from advisor.profiles.files import scratch
from advisor.profiles.redaction import anonymous, here, without_environment
from advisor.profiles.schema import Commit, Predicted, Profile, Result, Tool
from advisor.profiles.sweeps import was_interrupted as was_interrupted
from advisor.profiles.system_state import Environment
from advisor.profiles.traces import HostRates
from advisor.profiles.trials import Trials
from advisor.report.profile_page import with_headlines
from advisor.rules.advise import advise, conclude, like_device, predict_targets
from advisor.rules.registry import by_id
from advisor.strategies.mixes import MOST_EXHAUSTIVE, Mix, require_fits
from advisor.strategies.registry import BASELINE, Strategy, to_place
from advisor.verdicts.comparing.results import Results
from advisor.verdicts.comparing.versions import VersionComparison, VersionRun, differences
from advisor.verdicts.comparing.versions import compare_versions as comparing_versions
from advisor.verdicts.measured import recommend
from advisor.verdicts.scores import timed_again
from advisor.verdicts.versions import BASE, HEAD, changes
from advisor.version import __version__
from advisor.workloads.outline import imported_early

PARTIAL = "profile.partial.json"


@dataclass(frozen=True)
class RunContext:
    environment: Environment = field(default_factory=environment)
    created: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds"))
    commit: Commit | None = None


def profile(
    settings: Settings,
    progress: Progress,
    *,
    keep_in: Path,
    launcher: Launcher | None = None,
    captures: Captures | None = None,
) -> Profile:
    """Runs the workload under every strategy, or records the script, and concludes.

    What is measured so far is kept in `keep_in` after each process, as a whole profile. Raises
    `AdvisorError` when it cannot be loaded or run at all.
    """
    began = time.monotonic() if settings.began is None else settings.began
    settings = replace(settings, began=began)

    def left() -> float:
        return began + settings.options.max_seconds - CONCLUDING_SECONDS - time.monotonic()

    context = RunContext(commit=commit_of(settings.file))
    if settings.arguments is not None:
        return _published(_script_profile(settings, context, progress), settings)
    with scratch() as folder, _launching(settings, launcher) as launch:
        run = _measured(settings, launch, progress, folder, context, keep_in)
        complete = _assembled(settings, run, _ended(context, run))
        if "nsys" in settings.options.trace and not was_interrupted(complete):
            reports = keep_in / FOLDER if settings.options.keep_nsys else None
            tools = captures or NsysCaptures(settings.options.nsys, reports, left=left)
            complete = traced(complete, settings, progress, folder, tools)
    hidden = anonymous(complete, include_host=settings.options.include_host)
    concluded = conclude(hidden, _targets(settings, hidden), settings.strategies)
    return _published(with_headlines(concluded), settings)


def _script_profile(settings: Settings, context: RunContext, progress: Progress) -> Profile:
    """What the script's lines move, and with `--try` what changes of them gave, also before Ctrl-C."""
    secrets.remember(secrets.secret_values(settings.arguments or (), {}))
    with scratch() as folder:
        description, recorded, notes = record(settings, folder)
    state, script = recorded.gpu_state, recorded.script
    run = Run(description, None, (), notes=notes, gpu_states=(state,) if state else ())
    complete = _assembled(settings, run, _ended(context, run)).model_copy(update={"script": script})
    hidden = anonymous(complete, include_host=settings.options.include_host)
    concluded = conclude(hidden, _targets(settings, hidden))
    if not settings.options.tries or script is None or was_interrupted(complete):
        return concluded
    try:
        with scratch() as folder:
            trials = try_script(settings, script, concluded.script, progress, folder)
    except KeyboardInterrupt:
        trials = Trials(reason=INTERRUPTED, seconds=0.0)
    notes = (*concluded.notes, *([INTERRUPTED] if trials.reason == INTERRUPTED else []))
    tried = concluded.model_copy(update={"trials": trials, "notes": notes})
    return anonymous(tried, include_host=settings.options.include_host)


def _published(profile: Profile, settings: Settings) -> Profile:
    return without_environment(profile) if settings.options.no_environment else profile


def _measured(
    settings: Settings,
    launcher: Launcher,
    progress: Progress,
    folder: Path,
    context: RunContext,
    keep_in: Path,
) -> Run:
    """All phases of the measurement; after Ctrl-C, what was measured."""
    measurement = Measurement(
        settings, launcher, progress, folder, save=lambda so_far: _save(so_far, settings, context, keep_in)
    )
    _require(settings, measurement.describe())
    measurement.prepare()
    with measurement.interruptible():
        measurement.screen(_screening_order(measurement, context))
        if measurement.searches:
            measurement.search(*_mix_estimate(_assembled(settings, measurement.run(), context), settings))
        measurement.final()
    return measurement.run()


def compare_versions(
    versions: Versions,
    labels: tuple[str, str],
    progress: Progress,
    *,
    launcher: Launcher | None = None,
    note: str = "",
) -> VersionComparison:
    """Runs BASE and HEAD and compares them. labels: what the two are, in words, to which `note` adds.

    Raises `AdvisorError` where HEAD cannot be run, `NothingToCompare` of them where BASE alone cannot.
    """
    context, final = RunContext(), None

    def concluded(final: VersionFinal, interrupted: str = "") -> VersionComparison:
        runs = measurement.runs
        apart = differences(*(runs[name].description.workload for name in (BASE, HEAD)))
        notes = filter(None, (note, *apart, interrupted, *measurement.uncompared(final)))
        run = _version_run(final, measurement, labels, tuple(notes))
        before, now = zip(*run.rows.values(), strict=True)
        rates = trace.host_rates if (trace := runs[HEAD].trace) else None
        base_profile = _concluded_version(versions.base, runs[BASE], context, before, rates)
        head_profile = _concluded_version(versions.head, runs[HEAD], context, now, rates)
        return comparing_versions(base_profile, head_profile, run, results)

    try:
        with scratch() as folder, _launching(versions.head, launcher) as launch:
            measurement = VersionMeasurement(versions, launch, progress, folder)
            results = _screened_versions(versions, measurement, context)
            final = measurement.final()
            final.run(measurement.deadline, progress)
        return concluded(final)
    except KeyboardInterrupt:
        if final is None or not final.judged().ratios:
            raise
        return concluded(final, f"Interrupted after round {final.loop.rounds} of the final.")


def _screened_versions(versions: Versions, measurement: VersionMeasurement, context: RunContext) -> Results:
    """Screens both; what HEAD computes against what BASE does."""
    with measurement.version(HEAD) as head:
        _require(versions.head, head.describe())
        head.prepare()
        head.screen(measurement.screening_order(partial(_screening_order, head, context)))
    if versions.missing:
        raise NothingToCompare(versions.missing)
    screened = measurement.runs[HEAD]
    on_gpu = screened.description.device.kind == "cuda"
    chosen = recommend(_assembled(versions.head, screened, context)) if on_gpu else None
    measurement.choose(chosen.strategy if chosen else None)
    with measurement.version(BASE) as base:
        results = measurement.results(base, base.describe())
        base.prepare()
        base.screen(measurement.screening_order(partial(_screening_order, base, context)))
    return results


def _concluded_version(
    settings: Settings, run: Run, context: RunContext, rows: Sequence[Result], rates: HostRates | None
) -> Profile:
    """The profile of one version, concluded from the rows of the final that both versions share.

    rates: those of this machine's memory, the same for both.
    """
    complete = _assembled(settings, run, _ended(context, run))
    hidden = anonymous(complete, include_host=settings.options.include_host)
    together = hidden.model_copy(update={"results": tuple(rows)})
    if hidden.device.kind == "cpu":
        # Each version was traced at a moment of its own, in which the machine may have been busier.
        traced = timed_by(together, [row.stage_seconds for row in together.measured().values()])
        if traced and rates:
            traced = traced.model_copy(update={"host_rates": rates})
        together = together.model_copy(update={"traffic": traced})
        return _published(advise(predict_targets(together, _targets(settings, together))), settings)
    alike = {"advice": advise(together).advice}
    return _published(advise(timed_again(hidden)).model_copy(update=alike), settings)


def _targets(settings: Settings, profile: Profile) -> tuple[CatalogueEntry, ...]:
    """The named devices, otherwise the default ones, each with as many GPUs as the workload runs on."""
    if settings.targets_under is None:
        return settings.targets
    system = settings.targets_under
    return tuple(under(load(name), system) for name in default_targets(system, profile.workload.gpus))


def _version_run(
    final: VersionFinal, measurement: VersionMeasurement, labels: tuple[str, str], notes: tuple[str, ...]
) -> VersionRun:
    versions, gaps = measurement.versions, measurement.gaps()
    judged, steps, entry = final.judged(), final.loop.steps, final.entry
    hide = here(include_host=versions.head.options.include_host).hide
    return VersionRun(
        judged=judged,
        question=versions.question,
        rows={n: (final.row(BASE, n, judged), final.row(HEAD, n, judged)) for n in entry.strategies},
        changes={name: changes(steps, entry, name, judged.seconds.get(name)) for name in judged.ratios},
        versions=labels,
        apart=final.why_apart,
        left={name: hide(problem.message) for name, problem in final.loop.left.items()},
        gaps=tuple(replace(gap, reason=hide(gap.reason)) for gap in gaps),
        notes=tuple(map(hide, notes)),
        preparing_seconds=final.began - (versions.head.began or final.began),
    )


def _save(run: Run, settings: Settings, context: RunContext, directory: Path) -> None:
    """Saves what was measured so far. A failure is ignored: a later save may succeed."""
    hidden = anonymous(_assembled(settings, run, context), include_host=settings.options.include_host)
    with suppress(FileProblem):
        outputs.write(directory, PARTIAL, _published(hidden, settings).to_json())


def _require(settings: Settings, description: Description) -> None:
    """Raises `AdvisorError` for options that do not fit workload or device; remembers its secrets."""
    secrets.remember(secrets.secret_values((), description.workload.parameters))
    for rule_id in description.workload.ignore:
        by_id(rule_id, "Workload(ignore=...)", WorkloadError)
    require_fits(settings.strategies, description.workload, description.device)
    buffers = len(to_place(description.workload))
    if settings.search == "exhaustive" and buffers > MOST_EXHAUSTIVE:
        wrong = f"--search exhaustive takes at most {MOST_EXHAUSTIVE} shared buffers; there are {buffers}"
        raise UsageError(wrong, next_step="Use --search auto.")
    if settings.preferences.objective == "energy":
        place = description.gpu.get("pci_bus_id")
        require_meter(description.device, None if place is None else str(place))


@contextmanager
def _launching(settings: Settings, launcher: Launcher | None) -> Iterator[Launcher]:
    """The launcher given, or one that forks its workers."""
    if launcher is not None:
        yield launcher
    else:
        libraries = ["cupy"] if settings.backend == "cuda" else []
        with fork_server([*WORKERS, *libraries, *imported_early(settings.file)]) as server:
            yield ProcessLauncher(settings.timeout, server=server)


def _screening_order(measurement: Measurement, context: RunContext) -> list[str]:
    """The baseline, then those with the least time predicted for the device, or for one like it, first."""
    names, settings = measurement.available, measurement.settings
    if not measurement.screens:
        return names
    profile = _assembled(settings, measurement.run(), context)
    target = like_device(profile)
    placing = [s for s in settings.strategies if isinstance(s, Strategy) and s.name in names]
    predicted = predict(profile, target, placing).results if target else ()
    seconds = {row.strategy: row.likely_seconds for row in predicted if isinstance(row, Predicted)}
    return sorted(names, key=lambda name: (name != BASELINE, seconds.get(name, math.inf)))


def _mix_estimate(profile: Profile, settings: Settings) -> tuple[Likely | None, str]:
    """Predicted times of mixes, calibrated with the screening, and why none can gain enough; nothing of an
    unknown device."""
    placing = [s for s in settings.strategies if isinstance(s, Strategy) and not isinstance(s, Mix)]
    mixes = outlook(profile, target, placing) if (target := like_device(profile)) else None
    if mixes is None:
        return None, ""
    least = profile.preferences.indifference
    ruled_out = f"the model rules out a gain above {units.percent(least)}" if mixes.possible <= least else ""
    return mixes.seconds, ruled_out


def _ended(context: RunContext, measured: Run) -> RunContext:
    place, states = measured.description.gpu.get("pci_bus_id"), measured.gpu_states
    after = finished(context.environment, None if place is None else str(place), under_load=states)
    return replace(context, environment=after)


def _assembled(settings: Settings, measured: Run, context: RunContext) -> Profile:
    description, options = measured.description, settings.options
    machine = {"packages": description.packages, "gpu": description.gpu}
    method = Method(
        rounds=options.rounds,
        max_seconds=options.max_seconds,
        seed=options.seed,
        confidence=CONFIDENCE,
        order=measured.order,
        numa=options.numa,
        search=settings.search,
    )
    return Profile(
        tool=Tool(version=__version__),
        created=context.created,
        command=settings.command,
        commit=context.commit,
        environment=context.environment.model_copy(update=machine),
        method=method,
        preferences=settings.preferences,
        workload=description.workload,
        device=description.device,
        results=measured.rows,
        search=measured.search,
        final=measured.final,
        blocks=measured.blocks,
        windows=measured.windows,
        traffic=measured.trace,
        notes=measured.notes,
    )
