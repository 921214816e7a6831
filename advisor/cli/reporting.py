"""`advisor report`, `history` and `predict`: what is made of saved profiles; `advisor trace`, of a report of
nsys; `advisor doctor`, what this machine can and cannot do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from advisor.cli import options
from advisor.cli.console import (
    AROUND,
    GATE_FAILED,
    make_room,
    only_format,
    put,
    read_trace,
    require_figures,
    say,
    say_written,
    summarize,
    text,
)
from advisor.errors import NothingMeasured, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from advisor.report.page import Page


@options.takes("objective", "indifference", "memory_budget", "rules", "ignore")
def report(
    files: options.Profiles,
    out: options.OutBeside = None,
    formats: options.Formats = "html,md",
    no_environment: options.NoEnvironment = False,
    details: options.Details = False,
    quiet: options.Quiet = False,
    **given: Any,
) -> None:
    """Render a profile again, or several as one combined page.

    Profiles from one device that differ in one parameter become a sweep. Profiles from several devices with
    the same parameters are shown side by side. Options such as --objective recompute advice and verdict.
    """
    from advisor import configuration
    from advisor.profiles import reading, redaction, sweeps
    from advisor.report import pages
    from advisor.rules import concluding
    from advisor.verdicts import device_comparison

    files = list(map(reading.in_directory, files))
    wanted = configuration.parse_formats(formats)
    form = only_format(out, wanted)
    sources = configuration.places(configuration.command_line(**given))
    loaded = [(file, reading.load(file)) for file in files]
    loaded = [
        (file, concluding.conclude_again(profile, configuration.preferences(sources, profile.preferences)))
        for file, profile in loaded
    ]
    if no_environment:
        loaded = [(file, redaction.without_environment(one)) for file, one in loaded]
    directory = sweeps.common_parent(files) if out is None or form else out
    if form == "json" and len(loaded) > 1:
        raise UsageError(
            "several profiles have no combined JSON", next_step="Give --format md, or one profile."
        )
    content = loaded[0][1] if len(loaded) == 1 else device_comparison.combine(loaded, directory)
    _shown(pages.page_of(content), directory, wanted, form, details=details, quiet=quiet)


def history(
    directory: options.History,
    out: options.Out = Path("advisor-history"),
    formats: options.PageFormats = "html,md",
    details: options.Details = False,
    quiet: options.Quiet = False,
) -> None:
    """Show times over commits from many profiles.

    Reads every profile.json below DIR and shows times, memory and recommendation over commits, and the
    commits at which times changed. Finding these needs the extra `history`.
    """
    from advisor import configuration
    from advisor.profiles import histories
    from advisor.report import pages
    from advisor.rules import concluding
    from advisor.verdicts.histories import all_series

    wanted = configuration.parse_formats(formats, pages.PAGES)
    form = only_format(out, wanted)
    past = histories.gather(directory, concluding.concluded)
    series = all_series(past)
    if not series:
        raise NothingMeasured(
            f"no profile below {directory} has a strategy that was measured or predicted",
            next_step="Run `advisor report` on one of them to see the reason.",
        )
    _shown(pages.history_page(past, series), out, wanted, form, details=details, quiet=quiet)


def _shown(
    page: Page,
    directory: Path,
    wanted: Sequence[str],
    form: str | None,
    *,
    details: bool,
    quiet: bool,
    aside: bool = False,
) -> None:
    """One form on stdout, or files and the text; aside: the earlier report moves to `previous`."""
    from advisor.profiles import outputs
    from advisor.report import pages

    if form:
        put(pages.render(page, form))
    else:
        forms = [each for each in wanted if each in pages.PAGES or page.profile is not None]
        with outputs.output_directory(directory, pages.names(page.kind, forms), aside=aside) as folder:
            if aside:
                make_room(folder, quiet)
            paths = pages.write(page, folder, wanted)
            print(text(page, details=details, quiet=quiet))
            say_written(paths, quiet=quiet)
    summarize(page)


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
    **given: Any,
) -> None:
    """Predict the strategies of a profile for other devices.

    GPU measurements in the profile replace the model's assumptions.
    """
    from advisor import configuration
    from advisor.devices import host_rates
    from advisor.devices.catalogue import default_targets
    from advisor.profiles import reading, redaction
    from advisor.report import pages
    from advisor.rules import concluding

    wanted = configuration.parse_formats(formats)
    form = only_format(out, wanted)
    source = configuration.command_line(**given)
    system = source.values.get("target_os", "linux")
    profile = reading.load(file)
    named = source.values.get("targets") or default_targets(system, profile.workload.gpus)
    targets = host_rates.load_targets(named, system, source.values.get("host"))
    preferences = configuration.preferences(configuration.places(source), profile.preferences)
    result = concluding.conclude(profile.model_copy(update={"preferences": preferences}), targets)
    if no_environment:
        result = redaction.without_environment(result)
    page = pages.page_of(result, targets_first=True)
    _shown(page, out, wanted, form, details=details, quiet=quiet, aside=True)
    require_figures(result)


@options.takes("rules")
def trace(
    file: options.TraceFile,
    frame: options.Frame = None,
    fail_if: options.TraceFailIf = None,
    nsys: options.Nsys = None,
    out: options.TraceOut = None,
    formats: options.PageFormats = "html,md",
    as_json: options.Json = False,
    details: options.Details = False,
    quiet: options.Quiet = False,
    **given: Any,
) -> None:
    """Advise from an Nsight Systems report of any program.

    The most that memory can change, then what to change, by GPU: copies by kind of host memory, migrations,
    idle time, page-locking and waits in the steady frames. Of a report recorded under advisor's ranges, the
    figures of each strategy. A failed gate exits with code 1.
    """
    from advisor import configuration
    from advisor.report import pages
    from advisor.rules.report_gates import parse_gates, ruled

    wanted, gates = configuration.parse_formats(formats, pages.PAGES), parse_gates(fail_if or ())
    form = only_format(out, wanted)
    summary = read_trace(file, nsys, frame, configuration.command_line(**given))
    page = pages.trace_page(summary)
    if as_json:
        put(summary.model_dump_json(indent=1))
    elif out is None:
        put(text(page, details=details, quiet=quiet))
    else:
        _shown(page, out, wanted, form, details=details, quiet=quiet)
    failed = [reason for gate in gates for reason in ruled(gate, summary.program)]
    for reason in failed:
        say(f"gate {reason}")
    if failed:
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
    import sys

    from advisor.doctor.checks import examine
    from advisor.doctor.facts import gather
    from advisor.errors import NothingMeasured
    from advisor.report.pages import doctor_page

    checkup = examine((AROUND.get().facts or gather)(gpu or 0, nsys))
    put(checkup.model_dump_json(indent=1) if as_json else text(doctor_page(checkup), details=details))
    if not checkup.ready:
        sys.exit(NothingMeasured.exit_code)
