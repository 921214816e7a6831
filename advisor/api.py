"""The Python API: what the commands do, for notebooks and programs."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from advisor import configuration, pipeline, report
from advisor.devices.environment import command_line
from advisor.errors import UsageError, WorkloadError
from advisor.measure.backends.choosing import choose_backend
from advisor.measure.progress import make_progress
from advisor.profiles import reading, schema
from advisor.report import notebook
from advisor.verdicts import comparing
from advisor.workloads.loading import MODULE_PREFIX
from advisor.workloads.parameters import Value
from advisor.workloads.sources import source

if TYPE_CHECKING:
    from advisor.workloads.definition import Definition


class Profile(schema.Profile):
    """What one `advisor profile` learned, with what a program or a notebook asks of it."""

    @classmethod
    def of(cls, made: schema.Profile) -> Profile:
        """The same data with these methods."""
        return cls.model_construct(made.model_fields_set, **dict(made))

    def compare(
        self, other: schema.Profile | Path | str, *, strategies: Sequence[str] = (), anyway: bool = False
    ) -> Comparison:
        """`other` held against this profile, as `advisor compare` does: this one is BASE, `other` HEAD."""
        return compare(self, other, strategies=strategies, anyway=anyway)

    def _repr_html_(self) -> str:
        """The report in a notebook's cell."""
        return notebook.cell(report.page_of(self))


class Comparison(comparing.Comparison):
    """Two profiles held against one another."""

    def _repr_html_(self) -> str:
        """The comparison in a notebook's cell."""
        return notebook.cell(report.comparison_page(self))


def load(path: Path | str) -> Profile:
    """Reads a profile, packed or not. Raises `AdvisorError`: missing, damaged or of an unknown format."""
    return Profile.of(reading.load(path))


def compare(
    base: schema.Profile | Path | str,
    head: schema.Profile | Path | str,
    *,
    strategies: Sequence[str] = (),
    anyway: bool = False,
) -> Comparison:
    """HEAD held against BASE, as `advisor compare` does. Raises `AdvisorError` as the command does."""
    found = comparing.compare(base, head, strategies=strategies, anyway=anyway)
    return Comparison(**{part.name: getattr(found, part.name) for part in fields(found)})


def profile(
    workload: str | Path | Definition,
    parameters: Mapping[str, Value] | None = None,
    *,
    strategies: str | Sequence[str] = (),
    targets: str | Sequence[str] = (),
    objective: str | None = None,
    memory_budget: str | int | None = None,
    rules: Mapping[str, float] | None = None,
    ignore: str | Sequence[str] = (),
    gpu: int | None = None,
    no_gpu: bool = False,
    rounds: int = 3,
    max_seconds: float = 1.5,
    timeout: float = 120.0,
    seed: int = 0,
    numa: str = "local",
    allow_oversubscription: bool = False,
    quiet: bool = False,
) -> Profile:
    """Runs a workload under every strategy, as `advisor profile` does, and returns the profile.

    workload: a file, "FILE::NAME", or a function marked with @workload, of a file or of a notebook's cell.
    Every strategy runs in processes of its own, which import that file; see docs/api.md. Without a GPU the
    strategies are predicted for the targets. Nothing is written but what `Profile.save` is asked for.
    Raises `AdvisorError`; after Ctrl-C the profile holds what was measured, and a note.
    """
    _require_no_import()
    given = _assignments(parameters or {})
    configuration.require_numbers(rounds=rounds, seed=seed, max_seconds=max_seconds, timeout=timeout, gpu=gpu)
    strategies, targets = (
        configuration.argument_names("strategies", strategies),
        configuration.argument_names("targets", targets),
    )
    wishes = configuration.argument_preferences(objective, memory_budget, rules, ignore)
    with source(workload) as target, tempfile.TemporaryDirectory(prefix="advisor-") as scratch:
        made = configuration.make_settings(
            str(target),
            backend=choose_backend(gpu, no_gpu, (lambda _: None) if quiet else _say),
            gpu=gpu or 0,
            assignments=given,
            strategies=strategies,
            targets=targets,
            rounds=rounds,
            max_seconds=max_seconds,
            timeout=timeout,
            seed=seed,
            command=_command(workload, given, strategies, targets),
            numa=str(numa),
            preferences=wishes,
            oversubscribe=allow_oversubscription,
        )
        with make_progress(quiet=quiet) as progress:
            return Profile.of(pipeline.profile(made, progress, keep_in=Path(scratch)))


def _require_no_import() -> None:
    """A worker imports the workload's file: profiling at import would start workers without end."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__", "").startswith(
            MODULE_PREFIX
        ):
            raise WorkloadError(
                "the workload's file calls advisor.profile while it is imported, which every process does",
                next_step='Put the call below: if __name__ == "__main__":',
            )


def _assignments(parameters: Mapping[str, Value]) -> list[str]:
    """As `--set` takes them. Raises `UsageError` for what is no plain value."""
    configuration.require_mapping("parameters", parameters, '{"n": 4096}')
    for name, value in parameters.items():
        plain = isinstance(value, (int, float, str)) or hasattr(value, "__index__")
        if not plain or str(value) != str(value).strip():
            raise UsageError(
                f"parameters[{name!r}] is {value!r}; it must be an int, float, bool or str without blanks "
                "around it",
                next_step='Write parameters={"n": 4096}.',
            )
    return [f"{name}={value}" for name, value in parameters.items()]


def _command(
    workload: str | Path | Definition, given: Sequence[str], strategies: Sequence[str], targets: Sequence[str]
) -> str:
    """The command line that comes closest, for the report."""
    name = str(workload) if isinstance(workload, (str, Path)) else workload.name
    options = [("--set", each) for each in given]
    options += [("--strategy", each) for each in strategies]
    options += [("--target", each) for each in targets]
    return command_line(["profile", name, *(part for option in options for part in option)])


def _say(text: str) -> None:
    print(text, file=sys.stderr)
