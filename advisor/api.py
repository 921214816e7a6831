"""`advisor.profile(...)`: what the command does, for notebooks and programs."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from advisor import checked, pipeline, settings
from advisor.backends.choosing import choose_backend
from advisor.environment import command_line
from advisor.errors import UsageError, WorkloadError
from advisor.loading import MODULE_PREFIX
from advisor.parameters import Value
from advisor.profiles import Profile
from advisor.progress import make_progress
from advisor.sources import source

if TYPE_CHECKING:
    from advisor.workloads import Definition


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
    checked.require_numbers(rounds=rounds, seed=seed, max_seconds=max_seconds, timeout=timeout, gpu=gpu)
    strategies, targets = checked.names("strategies", strategies), checked.names("targets", targets)
    wishes = checked.preferences(objective, memory_budget, rules, ignore)
    with source(workload) as target, tempfile.TemporaryDirectory(prefix="advisor-") as scratch:
        made = settings.make_settings(
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
            return pipeline.profile(made, progress, keep_in=Path(scratch))


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
    checked.require_mapping("parameters", parameters, '{"n": 4096}')
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
