"""Processes of ours: how they are started, watched, ended, and what they say at their end."""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from advisor import units
from advisor.measure.fork_server import ForkServer, Process
from advisor.measure.jobs import LOG, OUTCOME
from advisor.profiles.base import Record
from advisor.profiles.files import scratch
from advisor.profiles.redaction import here
from advisor.profiles.secrets import mask, of_process
from advisor.texts import for_log, printable, without_first_word, without_last_word

_PROGRAM = """\
import signal, sys
interrupt = signal.signal(signal.SIGINT, signal.SIG_DFL)
root, module, *arguments = sys.argv[1:]
del sys.argv[1:]
sys.path = [p for p in sys.path if p] + [root]
from importlib import import_module, util
spec = util.spec_from_file_location("advisor", root + "/advisor/__init__.py")
sys.modules["advisor"] = package = util.module_from_spec(spec)
spec.loader.exec_module(package)
main = import_module(module).main
signal.signal(signal.SIGINT, interrupt)
main(arguments)
"""
"""The parent's own package, whichever else is installed; its folder goes last, to shadow nothing. Ctrl-C
before it is loaded shows no traceback."""
Popen = Callable[..., "subprocess.Popen[bytes]"]
WORKERS = "advisor.measure.worker", "advisor.measure.final_worker"
MARK = "ADVISOR_JOB"
"""The variable that what a worker starts inherits."""
_POLL_SECONDS = 0.25
_EXIT_SECONDS = 5.0
"""For exit handlers, once the result is there."""
OVERDUE = "its time is over"
_LOG_TAIL = 4000
_LONGEST_LOG = 64 << 20
_LONGEST_HEAD, _FIRST_LINES = 16 << 10, 20
_LAST_WORDS = 200
_ANSWER_SECONDS, _ANSWERS, _STACK_BYTES = 0.1, 50, 64 << 10
_LEAST_FREE = 256 << 20
_LEAST_FREE_SHARE = 0.02


def python_command(module: str, *arguments: str) -> list[str]:
    """The command that calls `main` of a module of ours with these arguments, wherever it is started."""
    root = str(Path(__file__).resolve().parents[2])
    return [sys.executable, "-c", _PROGRAM, root, module, *arguments]


def write_job(job: Record, directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    message = directory / "job.json"
    message.write_text(job.model_dump_json(), encoding="utf-8")
    return message


def start(
    job: Record,
    directory: Path,
    worker: str,
    *,
    pass_fds: tuple[int, ...] = (),
    server: ForkServer | None = None,
    popen: Popen = subprocess.Popen,
    **streams: Any,
) -> Process:
    """A worker on a job in that folder, in a session of its own. `streams` replace the log, which it prints
    to."""
    message = write_job(job, directory)
    process: Process | None = None
    try:
        with (directory / LOG).open("ab") as output, uninterrupted():  # to the end, also after `keep_short`
            if server is not None:
                with suppress(OSError):  # it is gone: the worker comes without it
                    process = server.fork(worker, [str(message)], output, pass_fds)
            if process is None:
                logged = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
                process = popen(
                    python_command(worker, str(message), *map(str, (os.getpid(), *pass_fds))),
                    env={**os.environ, MARK: str(directory)},
                    start_new_session=True,
                    pass_fds=pass_fds,
                    **(streams or logged),
                )
    except BaseException:  # Ctrl-C meanwhile
        if process is not None:
            end(process, directory)
        raise
    return process


@contextmanager
def fork_server(modules: Sequence[str]) -> Iterator[ForkServer]:
    """A server that has imported what its workers need; it ends with the block."""
    with scratch() as folder:
        command = python_command("advisor.measure.fork_server", str(os.getpid()), ",".join(modules))
        server = ForkServer(command, folder / "log")
        try:
            yield server
        finally:
            server.close()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Defers Ctrl-C, which during a start would leave an untracked child."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    pending: list[int] = []
    handlers = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    before = {n: handler for n, handler in handlers.items() if handler is not None}  # None: not Python's
    try:
        for number in before:
            signal.signal(number, lambda number, _: pending.append(number))
        yield
    finally:
        for number, handler in reversed(before.items()):  # Ctrl-C last, which would leave the others
            signal.signal(number, handler)
    if pending:
        signal.raise_signal(pending[0])


def wait(process: Process, seconds: float) -> bool:
    """Whether the process ended within that time."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    return process.poll() is not None


def watch(
    process: Process,
    directory: Path,
    seconds: float,
    excess: Callable[[], str] = lambda: "",
    *,
    exit_seconds: float = _EXIT_SECONDS,
) -> str:
    """Waits for a worker's end; empty where it came. Else why it must be ended: `OVERDUE`, or what `excess`
    says. Exit handlers have their own limit once the outcome is there, and are no reason to lose it."""
    deadline = time.monotonic() + seconds
    while not wait(process, _POLL_SECONDS):
        keep_short(directory / LOG)
        if (directory / OUTCOME).exists():
            deadline = min(deadline, time.monotonic() + exit_seconds)
        if time.monotonic() > deadline:
            return OVERDUE
        if why := excess():
            return why
    return ""


def end(process: Process, directory: Path) -> None:
    """Ends the whole session of a worker on the job in that folder, and what it left running elsewhere. A
    fork server ends what its workers leave; what a worker that was started here leaves has its mark."""
    process.kill()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    started_here = isinstance(process, subprocess.Popen)
    for pid in psutil.pids():
        with suppress(OSError, psutil.Error):
            if os.getsid(pid) == process.pid or (
                started_here and psutil.Process(pid).environ().get(MARK) == str(directory)
            ):
                os.kill(pid, signal.SIGKILL)
    process.wait()


TELL_WHERE, WHERE = signal.SIGRTMAX, "where"
"""The signal has a worker write to that file of its folder where it is."""


def tell_where_on_request(directory: Path) -> None:
    """On `TELL_WHERE` the stack goes to a file, also from within a call that does not return."""
    with suppress(OSError, ValueError, RuntimeError):
        descriptor = os.open(directory / WHERE, os.O_WRONLY | os.O_CREAT, 0o600)
        faulthandler.register(TELL_WHERE, file=descriptor, all_threads=False)


def place_in(file: str, process: Process, directory: Path) -> str:
    """Where in the user's file a process that does not end is, in words; empty where it does not say."""
    name = Path(file).name
    frame = re.compile(rf'File "[^"\n]*{re.escape(name)}", line (\d+) in ([\w<>]{{1,80}}).*\n')
    with suppress(OSError):
        os.kill(process.pid, TELL_WHERE)
    for _ in range(_ANSWERS):
        ended = wait(process, _ANSWER_SECONDS)
        with suppress(OSError), (directory / WHERE).open("rb") as written:  # word by word
            if place := frame.search(written.read(_STACK_BYTES).decode("utf-8", "replace")):
                return f"; it was in {place[2]} ({name}:{place[1]})"
        if ended:
            break
    return ""


def log_tail(path: Path) -> str:
    """The end of what the process printed, as far as it is there; the whole may be larger than the memory."""
    if not path.is_file():
        return ""
    with path.open("rb") as log:
        begin = log.seek(max(log.seek(0, os.SEEK_END) - _LONGEST_HEAD, 0))
        text = log.read(_LONGEST_HEAD).decode(errors="replace")
    # Masked before it is cut, which could leave half a secret; the first word may be cut already.
    return printable(mask(without_first_word(text) if begin else text, of_process()))[-_LOG_TAIL:]


def first_lines(log: Path) -> str:
    """The beginning of what a process printed, for a terminal; every line once, for each frame may print the
    same. Empty where it printed nothing."""
    if not log.is_file():
        return ""
    with log.open("rb") as printed:
        head, rest = printed.read(_LONGEST_HEAD).decode(errors="replace"), bool(printed.read(1))
    visible = here().hide(without_last_word(head) if rest else head)  # before it is cut amid a secret
    lines = list(dict.fromkeys(line.rstrip() for line in printable(visible).splitlines() if line.strip()))
    more = len(lines) - _FIRST_LINES
    left = ["…"] if rest else [f"… and {more} more"] if more > 0 else []
    first = [f"{line[:_LAST_WORDS]}…" if len(line) > _LAST_WORDS else line for line in lines[:_FIRST_LINES]]
    return for_log("\n".join(f"  | {line}" for line in (*first, *left)))


def keep_short(log: Path) -> None:
    """Empties the log of a process that prints without end, before it fills the disk."""
    with suppress(OSError):
        if log.stat().st_size > _LONGEST_LOG:
            os.truncate(log, 0)


DIED = "the process"
"""How a cause of death begins."""


def cause_of_death(code: int, log: str) -> str:
    """How it ended; of one that gave up, with its last line, which names the error where Python ended it."""
    if code >= 0:
        line = log.strip().splitlines()[-1].strip() if code and log.strip() else ""
        last = f"; its last output: {line[:_LAST_WORDS]}{'…' * (len(line) > _LAST_WORDS)}" if line else ""
        return f"{DIED} exited with code {code} without a result{last}"
    name = {number.value: number.name for number in signal.Signals}.get(-code, f"signal {-code}")
    hints = {
        "SIGKILL": "; usually the system ran out of memory",
        "SIGBUS": "; on a device without concurrent managed access the CPU must not touch managed memory "
        "while a kernel runs",
    }
    return f"{DIED} was killed by {name}{hints.get(name, '')}"


def memory(group: Path = Path("/sys/fs/cgroup")) -> tuple[int, int]:
    """Bytes that are available, and the least that must stay so; a container's limit counts."""
    system = psutil.virtual_memory()
    available, limit = int(system.available), int(system.total)
    with suppress(OSError, ValueError):
        names = ("memory.max", "memory.current", "memory.stat")
        most, used, statistics = ((group / name).read_text(encoding="utf-8") for name in names)
        cache = dict(line.split() for line in statistics.splitlines())
        available = min(available, int(most) - int(used) + int(cache.get("file", 0)))
        limit = min(limit, int(most))
    return available, max(_LEAST_FREE, int(limit * _LEAST_FREE_SHARE))


def resident(pid: int) -> str:
    try:
        return units.size(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return "an unknown amount"
