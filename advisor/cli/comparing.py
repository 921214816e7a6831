"""`advisor compare`: two profiles side by side, and gates on what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from advisor.cli import options
from advisor.cli.console import say, say_written, summarize, text
from advisor.cli.streams import only_format, put

if TYPE_CHECKING:
    from collections.abc import Sequence

    from advisor.verdicts.comparing import Ruling

GATE_FAILED = 1


def compare(
    base: options.BaseProfile,
    head: options.HeadProfile,
    strategy: options.Compared = None,
    fail_if: options.FailIf = None,
    strict: options.Strict = False,
    anyway: options.Anyway = False,
    out: options.Out = Path("advisor-comparison"),
    formats: options.PageFormats = "html,md",
    no_environment: options.NoEnvironment = False,
    details: options.Details = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare a profile (HEAD) with an earlier one (BASE).

    Shows what differs besides the code, then the ratio of each strategy's times with its interval. A failed
    gate exits with code 1; an inconclusive gate does so only with --strict.
    """
    from advisor import configuration, pipeline
    from advisor.profiles import reading, redaction
    from advisor.report import pages
    from advisor.verdicts import comparing

    base, head = map(reading.in_directory, (base, head))
    wanted = configuration.parse_formats(formats, pages.PAGES)
    form, gates = only_format(out, wanted), comparing.parse_gates(fail_if or ())
    loaded = [pipeline.concluded(reading.load(file)) for file in (base, head)]
    if no_environment:
        loaded = [redaction.without_environment(each) for each in loaded]
    found = comparing.compare(*loaded, strategies=strategy or (), anyway=anyway)
    if gates:
        comparing.require_gateable(found, anyway=anyway)
    rulings = comparing.judge(found, gates)
    page = pages.comparison_page(found, rulings, (_called(base, head), _called(head, base)))
    if form:
        put(pages.render(page, form))
    else:
        with configuration.output_directory(out) as directory:
            paths = pages.write(page, directory, wanted)
        put(text(page, quiet=quiet, details=details))
        say_written(paths, quiet=quiet)
    summarize(page)
    _end(rulings, strict=strict, quiet=quiet)


def _called(path: Path, other: Path) -> str:
    """The file's name; with its folders where both have the same, but none outside the working directory.

    Those may be a user's.
    """
    here, inside = Path.cwd(), path.resolve()
    if path.name == other.name and inside.is_relative_to(here):
        return str(inside.relative_to(here))
    return path.name


def _end(rulings: Sequence[Ruling], *, strict: bool, quiet: bool) -> None:
    """Says which gates did not pass; exit code 1 where one failed."""
    failing = ("failed", "inconclusive") if strict else ("failed",)
    for ruling in rulings:
        if ruling.status != "passed" and not quiet:
            hint = "" if strict or ruling.status == "failed" else " (--strict would fail)"
            say(f"gate {ruling.gate.text}: {ruling.status}{hint}")
    if any(ruling.status in failing for ruling in rulings):
        raise typer.Exit(GATE_FAILED)
