"""`advisor report`, `history` and `predict`: what is made of saved profiles; `advisor trace`, of a report of
nsys; `advisor doctor`, what this machine can and cannot do."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import typer

from advisor.cli import options
from advisor.cli.console import AROUND, GATE_FAILED, Output, put, read_trace, require_figures, say, text
from advisor.errors import NothingMeasured, UsageError


@options.takes("objective", "indifference", "memory_budget", "rules", "ignore")
def report(
    files: options.Profiles,
    out: options.OutBeside = None,
    formats: options.Formats = "html,md",
    no_environment: options.NoEnvironment = False,
    details: options.Details = False,
    quiet: options.Quiet = False,
    **values: Any,
) -> None:
    """Render a profile again, or several as one combined page.

    Profiles of a workload that differ in one or two parameters become a sweep. Profiles from several devices
    with the same parameters are shown side by side. Profiles of different workloads become a list.
    Options such as --objective recompute advice and verdict.
    """
    from advisor import configuration
    from advisor.profiles import reading, redaction, sweeps
    from advisor.report import pages
    from advisor.rules import advise

    files = list(chain.from_iterable(map(reading.all_in, files)))
    output = Output(out, formats, details, quiet)
    sources = configuration.places(configuration.command_line(**values))
    loaded = []
    for file in files:
        profile = reading.load(file)
        preferences = configuration.preferences(sources, profile.preferences)
        loaded.append((file, advise.conclude_again(profile, preferences)))
    if no_environment:
        loaded = [(file, redaction.without_environment(one)) for file, one in loaded]
    directory = sweeps.common_parent(files) if out is None or output.form else out
    content = loaded[0][1] if len(loaded) == 1 else sweeps.combine(loaded, directory)
    output.show(pages.page_of(content), directory)


def history(
    directory: options.History,
    out: options.Out = Path("advisor-history"),
    formats: options.Formats = "html,md",
    details: options.Details = False,
    quiet: options.Quiet = False,
) -> None:
    """Show times over commits from many profiles.

    Reads every profile.json below DIR and shows times, memory and recommendation over commits, and the
    commits at which times changed. Finding these needs the extra `history`.
    """
    from advisor.profiles import histories
    from advisor.report import pages
    from advisor.rules import advise
    from advisor.verdicts.histories import all_series, with_mixes_numbered

    output = Output(out, formats, details, quiet)
    past = with_mixes_numbered(histories.gather(directory, advise.concluded))
    series = all_series(past)
    if not series:
        wrong = f"no profile below {directory} has a strategy that was measured or predicted"
        raise NothingMeasured(wrong, next_step="Run `advisor report` on one of them to see the reason.")
    output.show(pages.history_page(past, series))


@options.takes(
    "targets", "target_os", "host", "objective", "indifference", "memory_budget", "rules", "ignore"
)
def predict(
    file: options.OneProfile,
    out: options.Out = Path("advisor-prediction"),
    formats: options.Formats = "html,md,json",
    no_environment: options.NoEnvironment = False,
    details: options.Details = False,
    quiet: options.Quiet = False,
    **values: Any,
) -> None:
    """Predict the strategies of a profile for other devices.

    GPU measurements in the profile replace the model's assumptions.
    """
    from advisor import configuration
    from advisor.devices import host_rates
    from advisor.devices.catalogue import default_targets
    from advisor.profiles import reading, redaction
    from advisor.report import pages
    from advisor.rules import advise

    output = Output(out, formats, details, quiet)
    source = configuration.command_line(**values)
    system = source.values.get("target_os", "linux")
    profile = reading.load(file)
    named = source.values.get("targets") or default_targets(system, profile.workload.gpus)
    targets = host_rates.load_targets(named, system, source.values.get("host"))
    preferences = configuration.preferences(configuration.places(source), profile.preferences)
    result = advise.conclude(profile.model_copy(update={"preferences": preferences}), targets)
    if no_environment:
        result = redaction.without_environment(result)
    output.show(pages.page_of(result, targets_first=True), aside=True)
    require_figures(result)


@options.takes("rules")
def trace(
    file: options.TraceFile,
    frame: options.Frame = None,
    fail_if: options.TraceFailIf = None,
    nsys: options.Nsys = None,
    out: options.TraceOut = None,
    formats: options.TraceFormats = None,
    as_json: options.Json = False,
    details: options.Details = False,
    quiet: options.Quiet = False,
    **values: Any,
) -> None:
    """Advise from an Nsight Systems report of any program.

    The most that memory can change, then what to change, by GPU: copies by kind of host memory, migrations,
    idle time, page-locking and waits in the steady frames. Of a report recorded under advisor's ranges, the
    figures of each strategy. A failed gate exits with code 1.
    """
    from advisor import configuration
    from advisor.report import pages
    from advisor.rules.reports import parse_gates, ruled

    if formats and not out:
        step = "Add --out DIR to write files, or --out - to print one."
        raise UsageError("--format has no effect without --out", next_step=step)
    output, gates = Output(out, formats or "html,md", details, quiet), parse_gates(fail_if or ())
    summary = read_trace(file, nsys, frame, configuration.command_line(**values))
    document = summary.model_dump_json(indent=1) if as_json else None
    if document:
        put(document)
    if out or not document:
        output.show(pages.trace_page(summary, file.name), printed=not document)
    rulings = [ruled(gate, summary.program) for gate in gates]
    for ruling in rulings:
        for why in ruling.reasons:
            say(f"gate {ruling.gate.text}: {ruling.status}: {why}")
    if any(ruling.status == "failed" for ruling in rulings):
        raise typer.Exit(GATE_FAILED)


def doctor(
    gpu: options.Gpu = None,
    nsys: options.Nsys = None,
    as_json: options.Json = False,
    details: options.Details = False,
) -> None:
    """Report what this machine can and cannot do.

    Each finding says what was found, what it means, and what to do next.

    Exit code 0 if `advisor profile` works (without a GPU, it predicts), 4 if there is a GPU but it cannot be
    measured.
    """
    from advisor.doctor import examine, gather
    from advisor.report.pages import doctor_page

    checkup = examine((AROUND.get().facts or gather)(gpu or 0, nsys))
    put(checkup.model_dump_json(indent=1) if as_json else text(doctor_page(checkup), details=details))
    if not checkup.ready:
        raise typer.Exit(NothingMeasured.exit_code)
