"""The request of a fleet: files, options, devices and limits; from them the task of a worker."""

from __future__ import annotations

import ast
import base64
import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic_core import to_jsonable_python

from advisor import configuration, units
from advisor.configuration import OptionSource
from advisor.devices.environment import command_line
from advisor.errors import FileProblem, UsageError, WorkloadError
from advisor.fleets.planning import Device, Task
from advisor.measure.options import OPTIONS, Options
from advisor.profiles.fleets import FleetRecord
from advisor.sweep import parse_sweep, require_not_set
from advisor.version import __version__
from advisor.workloads import outline
from advisor.workloads.outline import workloads
from advisor.workloads.parameters import parse_assignments

LARGEST = 8_000_000
"""Bytes of all files: they travel with every task."""
MOST = 1000
_LEFT_OUT = ("__pycache__",)
_SEND_LESS = "Move data out of the package and read it from a path that exists on every machine."


@dataclass(frozen=True)
class Package:
    """Files by their path relative to the workload's folder; `file` is the workload's."""

    file: str
    files: Mapping[str, bytes]

    @property
    def contents(self) -> str:
        """The contents in a line: `w.py, helper.py, mine/ (12 files), 34 KB`."""
        folders: dict[str, int] = {}
        for name in self.files:
            top, slash, _ = name.partition("/")
            folders[top + slash] = folders.get(top + slash, 0) + 1
        names = [f"{name} ({n} files)" if name.endswith("/") else name for name, n in folders.items()]
        return f"{', '.join(names)}, {units.size(sum(map(len, self.files.values())))}"

    def packed(self) -> dict[str, str]:
        return {name: base64.b85encode(zlib.compress(data)).decode() for name, data in self.files.items()}


def gather(file: Path, more: Sequence[Path] = ()) -> Package:
    """The file and what it imports from its folder. Raises `FileProblem`, `WorkloadError` or `UsageError`."""
    folder = file.resolve().parent if not file.is_symlink() else file.parent.absolute()
    if not file.exists():
        step = "Give the path of a Python file with a @workload."
        raise FileProblem(f"{file} does not exist", next_step=step)
    files: dict[str, bytes] = {}
    waiting = [folder / file.name]
    for path in waiting:  # grows
        for each in _files(path):
            name = each.relative_to(folder).as_posix()
            if name not in files:
                files[name] = _read(each, files)
                if each.suffix == ".py":
                    waiting += _imported(files[name], each, folder)
    for extra in more:
        for each in _files(extra):
            files[each.relative_to(extra.parent).as_posix()] = _read(each, files)
    return Package(file.name, files)


def unpack(files: Mapping[str, str], folder: Path) -> None:
    """Writes the files into the folder. Raises `UsageError` for a path that leads out of it, or too much."""
    total = 0
    for name, text in files.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise UsageError(f"the file {name!r} would lie outside the task's folder")
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(base64.b85decode(text), LARGEST + 1 - total)
        total += len(data)
        if total > LARGEST:
            raise UsageError(f"the files hold more than {units.size(LARGEST)}")
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def _files(path: Path) -> Iterator[Path]:
    """The file itself, or all files of a package, without compiled ones and hidden folders."""
    if path.is_symlink():
        step = "Replace it by a copy of what it points to."
        raise UsageError(f"{path} is a symbolic link; links are not sent", next_step=step)
    if path.is_file():
        yield path
        return
    if not path.is_dir():
        raise FileProblem(f"{path} does not exist", next_step="Give the path of a file or folder to send.")
    for inner in sorted(path.iterdir()):
        if inner.name not in _LEFT_OUT and not inner.name.startswith(".") and inner.suffix != ".pyc":
            yield from _files(inner)


def _read(path: Path, before: Mapping[str, bytes]) -> bytes:
    if len(before) >= MOST:
        raise UsageError(f"more than {MOST} files would be sent, {path} among them", next_step=_SEND_LESS)
    room = LARGEST - sum(map(len, before.values()))
    try:
        with path.open("rb") as file:
            data = file.read(room + 1)
    except OSError as problem:
        step = "Check its permissions."
        raise FileProblem(f"{path} cannot be read: {problem.strerror}", next_step=step) from None
    if len(data) > room:
        wrong = f"the files to send hold more than {units.size(LARGEST)}; {path} is one too many"
        raise UsageError(wrong, next_step=_SEND_LESS)
    return data


def _imported(source: bytes, file: Path, folder: Path) -> Iterator[Path]:
    """Modules and packages of the folder that a file of it imports, by their outermost names."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        if file.parent != folder:
            return
        raise WorkloadError(f"{file} is not valid Python: {problem}", next_step="Fix the file.") from None
    for name in sorted(filter(str.isidentifier, outline.imported(tree))):
        for path in (folder / name, folder / f"{name}.py"):
            if path.is_file() or (path.is_dir() and any(path.rglob("*.py"))):
                yield path
                break


_NOT_SENT = ("workload", "sweep", "no_gpu", "gpu", "quiet")
"""Options that concern the command, not the task."""


@dataclass(frozen=True)
class Selection:
    each: bool = False
    where: dict[str, str] = field(default_factory=dict)
    one_per_host: bool = False


@dataclass(frozen=True)
class Request:
    """One run. `values` are NAME=VALUE of the swept parameter with what the pages show of each; an empty one
    without a sweep."""

    package: Package
    title: str
    """The workload's name on the pages."""
    template: Task
    """The task of every worker, but for its GPU and the value."""
    values: Mapping[str, str]
    selection: Selection
    wait: float = 30.0
    """Seconds to wait for the first worker; `another`: for a further one with the device of a lost task.
    Workers join one by one: a run lasts `joining` beyond the last of them."""
    another: float = 15.0
    joining: float = 3.0
    options: Options = field(default_factory=Options)

    @property
    def formats(self) -> tuple[str, ...]:
        """Forms of a page. Raises `UsageError`."""
        return tuple(form for form in configuration.parse_formats(self.options.formats) if form != "json")

    @property
    def digest(self) -> str:
        """Identifies files, options and values, which `--resume` must not change."""
        template = self.template.model_dump_json(
            exclude={"command", "seconds", "include_host", "no_environment"}
        )
        return hashlib.sha256(f"{template} {tuple(self.values)} {__version__}".encode()).hexdigest()

    def key(self, device: Device) -> str:
        return device.key(each=self.selection.each)

    def task(self, device: Device, value: str) -> Task:
        options = dict(self.template.options)
        if value:
            options["parameters"] = [*options.get("parameters", ()), value]
        return self.template.model_copy(update={"gpu": device.uuid, "options": options})

    def record(self) -> FleetRecord:
        return FleetRecord(
            request=self.digest,
            workload=self.title,
            created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            command=self.template.command,
            parameter=next(iter(self.values)).partition("=")[0],
        )


def make_request(
    source: OptionSource,
    selection: Selection,
    arguments: Sequence[str],
    *,
    send: Sequence[Path],
    wait: float,
    task_seconds: float | None = None,
) -> Request:
    """Reads files and options, and refuses what is wrong with them before anything is sent."""
    options = configuration.merged(configuration.places(source))
    configuration.parse_formats(options.formats)
    file, name = outline.file_and_name(options.workload)
    package = gather(file, send)
    _require_profilable(package, file, name, options)
    sweeps = parse_sweep(options.sweep)
    if len(sweeps) > 1:
        raise UsageError("advisor fleet sweeps one parameter", next_step="Give the other with --set.")
    if sweeps:
        require_not_set(sweeps, parse_assignments(options.parameters))
    values = {
        f"{s.parameter}={value}": f"{s.parameter}={shown}"
        for s in sweeps
        for value, shown in s.labels.items()
    }
    # Options that differ from their defaults, as JSON, by the names of `advisor.profile`; none may be wrong.
    named = {key: getattr(options, key) for key, o in OPTIONS.items() if o.call and key not in _NOT_SENT}
    changed = {key: value for key, value in named.items() if value not in (OPTIONS[key].default, {}, ())}
    sent: dict[str, Any] = {**to_jsonable_python(changed), "parameters": list(options.parameters)}
    again = configuration.arguments(**{**sent, "workload": options.workload})
    configuration.make_settings([again], backend="cpu")
    template = Task(
        no_gpu=options.no_gpu,
        file=package.file,
        workload=name,
        options=sent,
        include_host=options.include_host,
        no_environment=options.no_environment,
        command=command_line(arguments),
        files=package.packed(),
        seconds=task_seconds or 3 * options.max_seconds + 120,
    )
    title = name or next(iter(workloads(file)), file.stem)
    return Request(package, title, template, values or {"": ""}, selection, wait, options=options)


def _require_profilable(package: Package, file: Path, name: str | None, options: Options) -> None:
    marked = name is not None or any(b"workload" in content for content in package.files.values())
    if not marked or outline.is_script(file, name, ()):
        raise UsageError(
            f"{file} has no function marked with @workload; a fleet profiles workloads",
            next_step="Write a workload: advisor new mine.py.",
        )
    if own := [target for target in options.targets if target.endswith(".toml")]:
        raise UsageError(
            f"--target {own[0]}: fleet workers predict only devices of the catalogue",
            next_step=f"Predict afterwards: advisor predict DIR/DEVICE/profile.json --target {own[0]}.",
        )
