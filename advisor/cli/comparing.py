"""`advisor compare`: two profiles side by side, or two versions that are run; gates on what came of it."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from advisor.cli import options
from advisor.cli.console import (
    GATE_FAILED,
    Output,
    began,
    interruptible,
    is_report,
    launcher,
    machine,
    read_trace,
    require_report,
    say,
)
from advisor.cli.profiling import is_script
from advisor.errors import INTERRUPTED, FileProblem, NothingToCompare, UsageError
from advisor.measure.options import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from advisor.report.page import Page
    from advisor.verdicts.comparing.gates import Ruling

    _Result = tuple[Page, tuple[Ruling, ...], bool]
    """The page, the gates, and whether Ctrl-C ended the run."""

_RUN = ("parameters", "gpu", "no_gpu", "indifference", "max_seconds", "timeout", "seed", "numa", "targets")
"""Options of `advisor profile` that say how versions are run."""


@options.takes(*_RUN)
def compare(
    base: options.BaseProfile,
    head: options.HeadProfile = None,
    run: options.Run = False,
    against: options.Against = None,
    strategy: options.Compared = None,
    fail_if: options.FailIf = None,
    strict: options.Strict = False,
    anyway: options.Anyway = False,
    frame: options.Frame = None,
    nsys: options.Nsys = None,
    out: options.Out = Path("advisor-comparison"),
    formats: options.Formats = "html,md",
    no_environment: options.NoEnvironment = False,
    details: options.Details = False,
    quiet: options.Quiet = False,
    **values: Any,
) -> None:
    """Compare two profiles, or two versions of a workload (--run).

    Shows what differs besides the code, then the ratio of each strategy's times, HEAD over BASE, with
    its interval. With --run, both versions run side by side on this machine, which resolves differences of a
    few percent, and their results are compared first. A failed gate exits with code 1; an inconclusive gate
    does so only with --strict.
    """
    output = Output(out, formats, details, quiet)
    reports = is_report(base) and not run
    require_report(reports, frame=frame, nsys=nsys)
    request = _Comparison(
        base, head, against, strategy or [], fail_if or [], anyway, quiet, no_environment, frame, nsys, values
    )
    with output.reserved("compare"):
        page, rulings, interrupted = (_run if run else _compare_reports if reports else _compare)(request)
    output.show(page)
    failing = ("failed", "inconclusive") if strict else ("failed",)
    for ruling in rulings:
        if ruling.status != "passed" and not quiet:
            hint = " (--strict would fail)" if ruling.status == "inconclusive" and not strict else ""
            say(f"gate {ruling.gate.text}: {ruling.status}{hint}")
    if interrupted:
        say("interrupted: the report has what was compared before", written=True)
        raise typer.Exit(INTERRUPTED)
    if any(ruling.status in failing for ruling in rulings):
        raise typer.Exit(GATE_FAILED)


@dataclass(frozen=True)
class _Comparison:
    """What the command was asked for; `values` are the options of a run."""

    base: Path
    head: Path | None
    against: str | None
    strategies: Sequence[str]
    gates: Sequence[str]
    anyway: bool
    quiet: bool
    no_environment: bool
    frame: str | None
    nsys: Path | None
    values: Mapping[str, Any]

    def without_run(self) -> tuple[Path, Path]:
        """BASE's and HEAD's file. A baseline is compared with the last report, if nothing else is named.
        Raises `UsageError` without HEAD, and for what only a run of versions has."""
        from advisor.profiles import outputs

        base, head = self.base, self.head
        if outputs.is_baseline(base):
            base, head = outputs.baseline_folder(str(base)), head or OPTIONS["out"].default
        if head is None and not base.exists():
            wrong = f"{base} is neither a profile nor a saved baseline"
            raise FileProblem(wrong, next_step="Save one of that name: advisor profile FILE --save NAME.")
        if head is None:
            step = "To run two versions of a workload: advisor compare --run FILE --against REV."
            raise UsageError("compare takes two profiles, BASE and HEAD", next_step=step)
        needless = [OPTIONS[n].key for n, value in self.values.items() if value not in (None, False, [])]
        needless += ["against"] if self.against is not None else []
        if needless:
            wrong = f"--{needless[0]} has no effect without --run"
            raise UsageError(wrong, next_step="Add --run, or omit it.")
        return base, head


def _compare(request: _Comparison) -> _Result:
    from advisor.profiles import reading, redaction
    from advisor.report import pages
    from advisor.rules import advise
    from advisor.verdicts.comparing import comparisons, lines
    from advisor.verdicts.comparing.gates import judge, parse_gates, require_of_profiles

    gates, anyway = parse_gates(request.gates), request.anyway
    base, head = map(reading.in_directory, request.without_run())
    files = _called(base, head), _called(head, base)
    loaded = [advise.concluded(reading.load(file)) for file in (base, head)]
    if request.no_environment:
        loaded = [redaction.without_environment(each) for each in loaded]
    require_of_profiles(gates, script=loaded[1].script is not None)
    scripts = all(each.script for each in loaded)
    if scripts and request.strategies:
        raise UsageError("a script has no strategies to choose from", next_step="Omit --strategy.")
    by_line = lines.compare_lines(*loaded, anyway=anyway) if scripts else None
    compared = by_line or comparisons.compare(*loaded, strategies=request.strategies, anyway=anyway)
    if gates:
        comparisons.require_gateable(compared.base, compared.head, compared.conditions, anyway=anyway)
    if isinstance(compared, lines.LineComparison):
        rulings = lines.judge_lines(compared, gates)
        return pages.lines_comparison_page(compared, rulings, files), rulings, False
    rulings = judge(compared, gates, anyway=anyway)
    return pages.comparison_page(compared, rulings, files), rulings, False


def _compare_reports(request: _Comparison) -> _Result:
    """Two reports of Nsight Systems; gates on rules and the ceiling are HEAD's."""
    from advisor import configuration
    from advisor.profiles.programs import ProgramTrace
    from advisor.report.traces import compared_page, slower
    from advisor.rules.reports import parse_gates as parse_report_gates
    from advisor.rules.reports import ruled
    from advisor.verdicts.comparing.gates import parse_gates, rule

    base, head = request.without_run()
    if request.strategies or not is_report(head):
        wrong = f"{base} is a report of Nsight Systems; it is compared with another one, as a whole"
        raise UsageError(wrong, next_step="Give two reports, BASE and HEAD, and omit --strategy.")
    source, rulings = configuration.command_line(), []
    reports = (read_trace(file, request.nsys, request.frame or "", source) for file in (base, head))
    one, other = (report.program or ProgramTrace(gpus=()) for report in reports)
    for gate_text in request.gates:
        if gate_text.startswith("slower"):
            rulings += [rule(gate, list(slower(gate.limit, one, other))) for gate in parse_gates([gate_text])]
        else:
            rulings += [ruled(gate, other) for gate in parse_report_gates([gate_text])]
    outcomes = [f"Gate {r.gate.text}: {r.status}. {'; '.join(r.reasons)}".rstrip() for r in rulings]
    return compared_page(one, other, (base.name, head.name), outcomes), tuple(rulings), False


def _run(request: _Comparison) -> _Result:
    from advisor import api, configuration
    from advisor.devices.environment import command_line
    from advisor.measure.progress import make_progress
    from advisor.profiles.redaction import here
    from advisor.profiles.sweeps import was_interrupted
    from advisor.report import pages
    from advisor.verdicts.comparing.gates import judge, not_applicable, of_versions, parse_gates

    base, head = request.base, request.head
    target = str(head or base)
    if is_script(target, ()):
        wrong = f"{target} is a script, and --run compares workloads"
        raise UsageError(wrong, next_step="Write a workload: advisor new mine.py.")
    options = {"strategies": request.strategies, "no_environment": request.no_environment, **request.values}
    source = configuration.command_line(workload=target, quiet=request.quiet, **options)
    command = command_line(sys.argv[1:])
    gates = of_versions(parse_gates(request.gates), anyway=request.anyway)
    sources = configuration.places(source)
    settings = configuration.settings_here(sources, say, command=command, machine=machine())
    more: Any = {"against": request.against, "began": began(), "launching": launcher}
    more["limits"] = [gate.limit for gate in gates if gate.kind == "slower"]
    more["recommendations"] = any(gate.kind == "recommendation-changes" for gate in gates)
    try:
        with _telling_of_ctrl_c(), make_progress(quiet=request.quiet) as progress:
            files = str(base), None if head is None else str(head)
            comparison = api.run_versions(settings, progress, *files, **more)
    except NothingToCompare as why:
        why = NothingToCompare(here(include_host=settings.options.include_host).hide(why.message))
        rulings = not_applicable(gates, f"{why.message}.")
        return pages.uncompared_page(Path(target).name, why, rulings), rulings, False
    rulings = judge(comparison, gates, anyway=request.anyway)
    return pages.versions_page(comparison, rulings), rulings, was_interrupted(comparison.run)


@contextmanager
def _telling_of_ctrl_c() -> Iterator[None]:
    """Says that nothing was compared. After the first Ctrl-C only the page is made and the rest cleaned up,
    which a second one must not interrupt."""

    def interrupt_once(*_: object) -> NoReturn:
        signal.signal(signal.SIGINT, lambda *_: None)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt_once)
    with interruptible(lambda: "nothing was compared"):
        yield


def _called(path: Path, other: Path) -> str:
    """The file's name; with its folders if both have the same name and it is inside the working directory:
    other folders may contain a user's name.
    """
    here, inside = Path.cwd(), Path(os.path.realpath(path))  # a link to itself is refused when it is read
    if path.name == other.name and inside.is_relative_to(here):
        return str(inside.relative_to(here))
    return path.name
