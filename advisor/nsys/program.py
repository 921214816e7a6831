"""Finds and runs nsys: its place, version, options and output.

The options of `nsys profile` differ between versions, so its help is read, and no other option is passed.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import psutil

from advisor.profiles.redaction import without_home
from advisor.profiles.schema import Device

PLACES = (
    "opt/nvidia/nsight-systems/*/bin/nsys",
    "opt/nvidia/nsight-systems/*/target-linux-*/nsys",
    "opt/nvidia/nsight-systems-cli/*/bin/nsys",
    "opt/nvidia/nsight-systems-cli/*/target-linux-*/nsys",
    "usr/local/cuda*/bin/nsys",
    "usr/lib/nsight-systems/bin/nsys",
)
"""Where NVIDIA's installers (also JetPack's) and Debian put it, below the root."""
GET = (
    "Install Nsight Systems (nsight-systems in Debian non-free, nsight-systems-cli from NVIDIA "
    "elsewhere, included in JetPack), or pass its path: --nsys PATH."
)
_LOOK_SECONDS = 20.0
_LOG_TAIL = 50_000
"""Bytes: its progress bars take many, and `profile --help` is long."""
_COLLISION = "sem_open"
"""Fails now and then at the start of nsys where others start too (2023.4: one of 20, four at once)."""
_PAGE_FAULTS = ("--cuda-um-cpu-page-faults", "--cuda-um-gpu-page-faults")


class NsysFailed(Exception):
    """nsys could not be used; the text says how, `detail` is the end of what it printed."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(without_home(message))  # it stands in profiles
        self.detail = detail


@dataclass(frozen=True)
class Nsys:
    path: Path
    version: tuple[int, ...]
    """Year, number and patch, as 2023, 4, 4."""

    @property
    def name(self) -> str:
        return f"nsys {'.'.join(map(str, self.version))}"

    @cached_property
    def options(self) -> frozenset[str]:
        """The long options that its `profile` has; raises `NsysFailed`."""
        return frozenset(re.findall(r"--[a-z][a-z0-9-]+", run([str(self.path), "profile", "--help"])))

    def command(self, device: Device, output: Path, program: Sequence[str]) -> list[str]:
        on_gpu = device.kind == "cuda"
        wanted = {"--sample": "none", "--cpuctxsw": "none", "--force-overwrite": "true"}
        if on_gpu:
            wanted["--cuda-memory-usage"] = "true"
        if faults_observable(device):
            wanted |= dict.fromkeys(_PAGE_FAULTS, "true")
        options = [f"{name}={value}" for name, value in wanted.items() if name in self.options]
        traces = "cuda,nvtx" if on_gpu else "nvtx"
        return [str(self.path), "profile", f"--trace={traces}", *options, f"--output={output}", *program]

    def export(self, report: Path, target: Path, seconds: float) -> None:
        """Writes a report as SQLite. Raises `NsysFailed`."""
        options = ["--type", "sqlite", "--force-overwrite", "true", "--output", str(target)]
        printed = run([str(self.path), "export", *options, str(report)], seconds)
        if not target.exists():
            raise NsysFailed(f"{self.name} exported nothing", printed)


def faults_observable(device: Device) -> bool:
    """Whether nsys can watch page faults there: not on Jetsons (its user guide), GB10 or integrated GPUs."""
    value = device.attributes.get
    return device.kind == "cuda" and bool(value("concurrent_managed_access") and not value("integrated"))


def find(given: Path | None = None, *, root: Path = Path("/")) -> Nsys:
    """The given program, else the one on PATH, else the newest in the usual places. Raises `NsysFailed`."""
    if given is not None:
        path = given / "nsys" if given.is_dir() else given
        if not path.is_file():
            raise NsysFailed(f"there is no nsys at {given}")
        return _with_version(path)
    on_path = shutil.which("nsys")
    places = (path for place in PLACES for path in root.glob(place) if path.is_file())
    candidates = [Path(on_path)] if on_path else list({path.resolve(): path for path in places}.values())
    problems, answering = [], []
    for path in candidates:
        try:
            answering.append(_with_version(path))
        except NsysFailed as problem:
            problems.append(str(problem))
    if answering:
        return max(answering, key=lambda nsys: nsys.version)
    raise NsysFailed(
        problems[0] if problems else "nsys was not found on PATH or in its usual install directories"
    )


def _with_version(path: Path) -> Nsys:
    printed = run([str(path), "--version"])
    version = re.search(r"(20\d\d)\.(\d+)\.(\d+)", printed)
    if not version:
        raise NsysFailed(f"{path} does not report its version", printed)
    return Nsys(path, tuple(int(part) for part in version.groups()))


def run(command: Sequence[str], seconds: float = _LOOK_SECONDS) -> str:
    """Output of a command of nsys. Raises `NsysFailed` when it fails, or does not end in time.

    It runs in a session of its own; what it started ends with it. A collision is tried again once.
    """
    try:
        return _ran(command, seconds)
    except NsysFailed as problem:
        if _COLLISION not in problem.detail:
            raise
    return _ran(command, seconds)


def _ran(command: Sequence[str], seconds: float) -> str:
    name = f"nsys {command[1].lstrip('-')}"
    with tempfile.TemporaryFile() as log:
        try:
            quiet, both = subprocess.DEVNULL, subprocess.STDOUT
            process = subprocess.Popen(command, stdin=quiet, stdout=log, stderr=both, start_new_session=True)
        except OSError as problem:
            raise NsysFailed(f"{command[0]} cannot be run: {problem.strerror or problem}") from None
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise NsysFailed(f"{name} did not finish within {seconds:.0f} s") from None
        finally:
            _end(process)
        log.seek(max(log.seek(0, os.SEEK_END) - _LOG_TAIL, 0))
        lines = log.read().decode(errors="replace").splitlines()
    # Without the progress bars that it draws over and over.
    text = "\n".join(line for line in lines if not re.search(r"\d+%\s*\]|^Processing ", line))
    if process.returncode:
        last = next((line for line in reversed(text.splitlines()) if line.strip()), "")
        raise NsysFailed(f"{name} failed with code {process.returncode}: {last}".rstrip(": "), text)
    return text


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends it and all that it started, in whatever session that is."""
    if process.poll() is None:
        with suppress(psutil.Error):
            for child in psutil.Process(process.pid).children(recursive=True):
                with suppress(psutil.Error):
                    child.kill()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
