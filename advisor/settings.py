"""What the user asked for, validated once, before anything runs."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from advisor.backends import BackendName
from advisor.devices.catalogue import DEFAULT_TARGETS, CatalogueEntry
from advisor.devices.catalogue import load as load_device
from advisor.errors import UsageError
from advisor.parameters import parse_assignments
from advisor.preferences import Preferences
from advisor.strategies import Strategy, choose

FORMATS = ("html", "md", "json")
TRACES = ("nsys", "chrome")


@dataclass(frozen=True)
class Settings:
    """One run of `advisor profile`."""

    file: Path
    workload: str | None
    assignments: Mapping[str, str]
    backend: BackendName
    gpu: int
    strategies: tuple[Strategy, ...]
    targets: tuple[CatalogueEntry, ...]
    rounds: int
    max_seconds: float
    """Sampling time per strategy over all rounds."""
    timeout: float
    """Seconds after which a process is ended."""
    seed: int
    command: str
    numa: str = "local"
    """Where pinned memory shall lie, seen from the GPU: local, remote, or a node's number."""
    oversubscribe: bool = False
    """Managed memory may exceed what the GPU has free."""
    preferences: Preferences = field(default_factory=Preferences)
    """By what to conclude."""
    include_host: bool = False
    """The profile may name this host and its user."""
    no_environment: bool = False
    """The profile tells nothing of the machine and its software."""
    trace: tuple[str, ...] = ()
    """Of `TRACES`: what is to be traced beside the measuring, or written of it."""
    nsys: Path | None = None
    """Where nsys is; searched for where None."""
    keep_reports: bool = False
    """Keep the reports of nsys."""

    @property
    def cell_seconds(self) -> float:
        """Sampling time of one process."""
        return self.max_seconds / self.rounds


def make_settings(
    target: str,
    *,
    backend: BackendName,
    gpu: int = 0,
    assignments: Sequence[str] = (),
    strategies: Sequence[str] = (),
    targets: Sequence[str] = (),
    rounds: int = 3,
    max_seconds: float = 1.5,
    timeout: float = 120.0,
    seed: int = 0,
    command: str = "",
    numa: str = "local",
    oversubscribe: bool = False,
    preferences: Preferences | None = None,
    include_host: bool = False,
    no_environment: bool = False,
    trace: Sequence[str] = (),
    nsys: Path | None = None,
    keep_reports: bool = False,
) -> Settings:
    """Settings from what the command line gives; `target` is FILE or FILE::NAME.

    Without a GPU the default catalogue devices are predicted when no target is named.
    Raises `UsageError`, or `FileProblem` for a target's file.
    """
    file, name = file_and_name(target)
    require_ranges(rounds, seed, max_seconds, timeout, numa)
    chosen = targets or (DEFAULT_TARGETS if backend == "cpu" else ())
    return Settings(
        file=file,
        workload=name,
        assignments=parse_assignments(assignments),
        backend=backend,
        gpu=gpu,
        strategies=choose(strategies),
        targets=load_targets(chosen),
        rounds=rounds,
        max_seconds=max_seconds,
        timeout=timeout,
        seed=seed,
        command=command,
        numa=numa,
        oversubscribe=oversubscribe,
        preferences=preferences or Preferences(),
        include_host=include_host,
        no_environment=no_environment,
        trace=_traces(trace, nsys, keep_reports),
        nsys=nsys,
        keep_reports=keep_reports,
    )


def file_and_name(target: str) -> tuple[Path, str | None]:
    """FILE or FILE::NAME in its parts. Raises `UsageError`."""
    if not _is_text(target):
        raise UsageError(
            f"the path {target!r} is not UTF-8, so that a profile cannot hold it",
            next_step="Rename the file or its directory.",
        )
    file, colons, name = target.partition("::")
    if not file or (colons and not name):
        raise UsageError(f"{target!r} is not FILE or FILE::NAME", next_step="Write workloads/vector_add.py.")
    return Path(file), name or None


def require_ranges(rounds: int, seed: int, max_seconds: float, timeout: float, numa: str) -> None:
    """Raises `UsageError` for an option that is out of range."""
    if not 1 <= rounds <= 1000:
        raise UsageError(f"--rounds {rounds} is out of range", next_step="Give 1 to 1000; the default is 3.")
    if not 0 <= seed < 1 << 32:
        raise UsageError(f"--seed {seed} is out of range", next_step="Give 0 to 4294967295 (2**32 - 1).")
    for option, value in (("--max-seconds", max_seconds), ("--timeout", timeout)):
        if not 0 < value < math.inf:
            raise UsageError(f"{option} {value} is out of range", next_step="Give seconds above 0.")
    if numa not in ("local", "remote") and not numa.isdecimal():
        raise UsageError(
            f"--numa {numa!r} is not known", next_step="Give local, remote, or the number of a node."
        )


def _traces(asked: Sequence[str], nsys: Path | None, keep_reports: bool) -> tuple[str, ...]:
    unknown = [name for name in asked if name not in TRACES]
    if unknown:
        raise UsageError(
            f"there is no trace {', '.join(unknown)}", next_step=f"Choose from {', '.join(TRACES)}."
        )
    if (nsys or keep_reports) and "nsys" not in asked:
        option = "--nsys" if nsys else "--keep-nsys"
        raise UsageError(f"{option} says nothing without --trace nsys", next_step="Add --trace nsys.")
    return tuple(dict.fromkeys(asked))


def load_targets(names: Sequence[str]) -> tuple[CatalogueEntry, ...]:
    """The catalogue's entries of these names or files, each once. Raises `UsageError` or `FileProblem`."""
    return tuple(load_device(name) for name in dict.fromkeys(names))


def parse_formats(text: str, known: Sequence[str] = FORMATS) -> tuple[str, ...]:
    """`html,md,json` as names, each one of the known. Raises `UsageError`."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise UsageError(
            f"there is no format {', '.join(unknown) or repr(text)}",
            next_step=f"Choose from {', '.join(known)}, separated by commas.",
        )
    return names


@contextmanager
def output_directory(directory: Path) -> Iterator[Path]:
    """Makes sure that the output can be written before anything is measured; removes empty folders it made.

    Raises `UsageError`.
    """
    if not str(directory).strip() or directory == Path():
        directory = Path.cwd()
    try:
        made = [folder for folder in (directory, *directory.parents) if not folder.exists()]
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as problem:
        raise UsageError(
            f"--out {directory} cannot be written: {problem.strerror or problem}",
            next_step="Choose a directory you may write to: --out DIR.",
        ) from None
    try:
        yield directory
    finally:
        with suppress(OSError):  # a folder that holds something stays
            for folder in made:
                folder.rmdir()


def _is_text(path: str) -> bool:
    """Bytes of a name that are not UTF-8 come as lone surrogates, which JSON cannot hold."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
