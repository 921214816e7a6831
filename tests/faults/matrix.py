"""Runs the matrix and prints it: case, expected and found exit code, seconds, verdict."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from tests.faults.case import ROOT, Case
from tests.faults.file_cases import configurations, files, profiles
from tests.faults.secret_cases import echoes, secrets
from tests.faults.surrounding_cases import histories, names, signals, streams, surroundings
from tests.faults.usage_cases import options
from tests.faults.workload_cases import processes, workloads
from tests.forking import Started, processes_with

GROUPS = (
    *(workloads, processes, options, profiles, configurations, files, secrets, echoes),
    *(surroundings, streams, signals, names, histories),
)
CASES = tuple(case for group in GROUPS for case in group())
OF_ONE_COMMAND = (options, profiles, configurations, files)
"""Groups whose cases read something and refuse it: a tenth of a second each."""
ONE_OF_A_KIND = re.compile(
    r"echoes|history: one"
    r"|workload: (produce raises|raises (late|an exception with|.* of causes)|control|workflow|a group)"
    r"|workload: (raises in|an OSE|exits$|leaves by _exit$|leaves a daemon|dies of SIG[KS]|asks)"
    r"|workload: (recurses|hangs$|ignores|uses up)"
    r"|workload: (closes (stdo|all)|prints (bytes|in a)|changes (the directory in p|os.w|the user$))"
    r"|workload: (replaces (sys.mod|inspect)|turns|kills its par|forks|add writes|limits its mem)"
    r"|workload: (reads address|removes all|changes the root directory$|an unknown buffer|1,000 par)"
    r"|workload: (tells (an option$|a variable|all forms|a pair$)|cut in)|file: (no P|a missing)"
    r"|(sweep: .* fails|partial results|a pair in a profile, report|secrets of git)$"
    r"|output: a full device|report: |compare: both|a home that|file: modules|TMPDIR that|--out is in use"
    r"|summary: a FIFO|around: PATH"
    r"|name: markup|arguments: 20,000|12 open files|workers killed"
)
"""Names of cases that run a whole profile or more; `pytest` takes these, CI and `make faults` all, those too
that start interpreters for seconds."""

LONGEST = 300.0
"""Seconds that a command may take."""
_STARTED: dict[int, Started] = {}
_READ_AT_THE_START = ("PYTHON", "LC_", "OMP_", "OPENBLAS_")
"""Variables that Python and NumPy look at while they start."""
_FORKED_IN = re.compile(r"(?!.*(ulimit|&-|\$!|PYTHON|{python}|rm -r)).+", re.DOTALL)
"""Shell commands that ask nothing of advisor's process itself: no limits, closed streams, ids or imports."""
_MOMENT = 20.0
_LARGEST_PAGE = 2_000_000
_LARGEST_SAID = 100_000
_OBEYED = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_COMMAND = re.compile(r"^\s*::|##\[", re.MULTILINE)
_OURS = re.compile(r'File "[^"]*/advisor/(?!errors)[\w/]+\.py"')


@dataclass(frozen=True)
class Held:
    """How a case ended, and what did not hold."""

    case: Case
    code: int
    seconds: float
    broken: tuple[str, ...]


def run(case: Case, folder: Path, *, forked: bool = False) -> Held:
    """Runs the command of a case in that empty folder. forked: nothing is started that can be forked."""
    write_files(case, folder)
    # Compiling all modules again takes a third of a command's CPU time.
    drop = ("GITHUB_STEP_SUMMARY", "NO_COLOR", "FORCE_COLOR", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if name not in drop}
    variables = {**kept, "PYTHONPATH": str(ROOT), "FAULT_CASE": str(folder), **case.variables}
    begin = time.monotonic()
    with tempfile.NamedTemporaryFile(prefix="fault-", suffix=".txt") as output:
        if case.shell or any(name.startswith(_READ_AT_THE_START) for name in case.variables):
            python = [sys.executable, "-m", "advisor"]
            command = _started().command if forked and _FORKED_IN.fullmatch(case.shell) else python
            code = _from_the_start(case, folder, variables, output, command)
        else:
            code = _started().run(case.command, folder, variables, output.name, LONGEST, forked=forked)
        said = Path(output.name).read_text(encoding="utf-8", errors="replace")
    seconds = time.monotonic() - begin
    return Held(case, code, seconds, (*problems(case, folder, said, code), *_left(folder)))


def write_files(case: Case, folder: Path) -> None:
    for name, content in case.files.items():
        if isinstance(content, bytes):
            (folder / name).write_bytes(content)
        elif isinstance(content, str):
            (folder / name).write_text(content, encoding="utf-8", errors="surrogatepass")
        else:
            content(folder / name)


def problems(case: Case, folder: Path, said: str, code: int) -> tuple[str, ...]:
    """What does not hold of what the command said and wrote."""
    return *_of_text(case, said, code), *_of_files(case, folder)


def _from_the_start(
    case: Case, folder: Path, variables: Mapping[str, str], output: IO[bytes], advisor: Sequence[str]
) -> int:
    """The exit code of the shell or the command, -1 where it took too long."""
    shell = ["bash", "-c", case.shell.format(advisor=" ".join(advisor), python=sys.executable)]
    process = subprocess.Popen(
        shell if case.shell else [*advisor, *case.command],
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )
    try:
        return process.wait(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return -1


def _started() -> Started:
    """This thread's."""
    thread = threading.get_ident()
    if thread not in _STARTED:
        _STARTED[thread] = Started()
    return _STARTED[thread]


def close_started() -> None:
    """Ends the interpreters of all threads."""
    while _STARTED:
        _STARTED.popitem()[1].close()


def _of_text(case: Case, said: str, code: int) -> list[str]:
    checks = {
        f"exit code {code}, expected {case.code}": code != case.code,
        "a traceback of ours": bool(_OURS.search(said)),
        "control characters on the terminal": bool(_OBEYED.search(said)),
        "a workflow command on the terminal": bool(_COMMAND.search(said)),
        f"{len(said)} characters on the terminal": len(said) > _LARGEST_SAID,
    }
    missing = [f"does not say {part!r}" for part in case.says if part not in said]
    told = [f"tells {part!r}" for part in case.never if part in said]
    return [what for what, broken in checks.items() if broken] + missing + told


def _of_files(case: Case, folder: Path) -> list[str]:
    broken = []
    written = (file for file in folder.rglob("*") if file.is_file() and file.name not in case.files)
    for file in (file for file in written if file.parent.name != "__pycache__"):  # Python's, of the workload
        name = str(file.relative_to(folder))
        text = file.read_text(encoding="utf-8", errors="replace")
        broken += [f"{name} tells {part!r}" for part in case.never if part in text or part in name]
        if file.suffix in (".html", ".md"):
            broken += [f"{name} shows {part!r}" for part in case.never_shown if part in text]
        if file.suffix == ".html" and (file.stat().st_size > _LARGEST_PAGE or _OBEYED.search(text)):
            broken.append(f"{name} has {file.stat().st_size} bytes, or control characters")
    return broken


def _left(folder: Path) -> list[str]:
    """Processes that the command left; ended here. Of one that was killed they have a moment to end."""
    left, told = processes_with("FAULT_CASE", str(folder)), []
    for process in psutil.wait_procs(left, timeout=_MOMENT)[1] if left else ():
        with suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE:
                told.append(f"left a process: {' '.join(process.cmdline())[:60]}")
                process.kill()
    return told


def main(wanted: Sequence[str]) -> int:
    """Runs the cases whose names hold one of these texts, all without them; 1 where one does not hold."""
    cases = [case for case in CASES if not wanted or any(text in case.name for text in wanted)]
    begin, ended = time.monotonic(), []
    with ThreadPoolExecutor((os.cpu_count() or 1) + 1) as pool:  # one more: some wait for a time limit
        for held in pool.map(_in_a_folder, cases):
            verdict, ended = "; ".join(held.broken) or "holds", [*ended, held]
            codes = f"{held.case.code:>4} {held.code:>4}"
            print(f"{held.case.name:<52} {codes} {held.seconds:6.1f} s  {verdict}", flush=True)
    close_started()
    broken = [held for held in ended if held.broken]
    slowest, whole = max(held.seconds for held in ended), time.monotonic() - begin
    print(f"{len(ended)} cases in {whole:.0f} s, {len(broken)} do not hold, the slowest took {slowest:.1f} s")
    return 1 if broken else 0


def _in_a_folder(case: Case) -> Held:
    """How it ended; once more where it does not hold: a fault that is real fails twice, a hiccup does not."""
    for _ in range(2):
        with tempfile.TemporaryDirectory(prefix="fault-") as folder:
            held = run(case, Path(folder))
        if not held.broken:
            break
        print(f"{case.name}: {'; '.join(held.broken)}", flush=True)
    return held


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
