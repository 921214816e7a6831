"""A workload that does something bad in one frame: everywhere, or only where both sides share one memory."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from advisor import Buffer, In, Out, Workload, device, host, workload


@workload
def misbehaving(how: str = "nothing", at: int = 0, only_shared: bool = False, note: str = "") -> Workload:
    """Adds one to a vector, and does what `how` names before frame `at`."""
    addresses = {}

    def produce(a: Out, frame: int) -> None:
        addresses["host"] = a.ctypes.data
        a.fill(frame)

    def compute(xp, a: In, b: Out, frame: int) -> None:
        xp.add(a, 1, out=b)
        shared = hasattr(a, "ctypes") and addresses.get("host") == a.ctypes.data
        if frame == at and (shared or not only_shared):
            ACTS[how](Path(note), b)

    def consume(b: In) -> None:
        b.sum()

    buffers = {name: Buffer(64, np.float32) for name in "ab"}
    return Workload(buffers, frame=[host(produce), device(compute), host(consume)])


def a_value_error(note: Path, b: np.ndarray) -> None:
    raise ValueError("this frame is bad\nand this is a second line")


def an_odd_exception(note: Path, b: np.ndarray) -> None:
    class Odd(BaseException):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    raise Odd


def prints_much(note: Path, b: np.ndarray) -> None:
    for number in range(20000):
        print(f"line {number} of the log of a workload that talks")


def leaves_a_process(note: Path, b: np.ndarray) -> None:
    """In a process group of its own, as a shell with job control starts them."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], preexec_fn=os.setpgrp)
    note.write_text(str(child.pid))


def forks_and_hangs(note: Path, b: np.ndarray) -> None:
    child = os.fork()
    if child:
        note.write_text(str(child))
    time.sleep(600)


def hangs(note: Path, b: np.ndarray) -> None:
    if note.name:
        note.write_text(str(os.getpid()))
    time.sleep(600)


def changes_its_result(note: Path, b: np.ndarray) -> None:
    b[3] += 1


ACTS = {
    "nothing": lambda note, b: None,
    "raise": a_value_error,
    "odd": an_odd_exception,
    "exit": lambda note, b: sys.exit(7),
    "kill": lambda note, b: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": lambda note, b: os.kill(os.getpid(), signal.SIGSEGV),
    "hang": hangs,
    "print": prints_much,
    "process": leaves_a_process,
    "fork": forks_and_hangs,
    "differ": changes_its_result,
}
