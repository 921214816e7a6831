"""A case of the matrix: files, a command, and what must hold of its end. How cases are written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PROFILE = ROOT / "reports" / "no-gpu" / "vector_add" / "profile.json"
ONE = ("--target", "h100-sxm")
SHORT = ("--no-gpu", *ONE, "--max-seconds", "4", "--rounds", "1", "--quiet", "--out", "out")
SECRET = "hunter2-correct-horse-7"
Content = str | bytes | Callable[[Path], object]
"""A text, bytes, or what makes the file: a FIFO, a link."""


@dataclass(frozen=True)
class Case:
    """One command in a folder with these files."""

    name: str
    command: tuple[str, ...]
    code: int
    files: Mapping[str, Content] = field(default_factory=dict)
    says: tuple[str, ...] = ()
    """Parts that stderr or stdout has to have."""
    never: tuple[str, ...] = ()
    """Parts that no output and no file that is written may have."""
    never_shown: tuple[str, ...] = ()
    """Parts that no page may have."""
    variables: Mapping[str, str] = field(default_factory=dict)
    shell: str = ""
    """The command is run by a shell: `{advisor}` stands for it. For redirections and limits."""


def workload(**parts: str) -> str:
    """A small workload with a line of the user's in it: top, doc, parameters, inside, produce, add, use."""
    given = {
        "top": "",
        "doc": "Adds one.",
        "parameters": "",
        "inside": "pass",
        "produce": "pass",
        "add": "pass",
        "use": "pass",
        "buffers": '{k: Buffer(n, np.float32) for k in "ab"}',
        **parts,
    }
    return _WORKLOAD.format(**given)


_WORKLOAD = '''\
import os, signal, subprocess, sys, threading, time
import numpy as np
from advisor import Buffer, In, Out, Workload, device, host, workload
{top}

@workload
def work(n: int = 64{parameters}):
    """{doc}"""
    def produce(a: Out, frame: int):
        a.fill(frame)
        {produce}
    def add(xp, a: In, b: Out):
        xp.add(a, 1, out=b)
        {add}
    def use(b: In):
        b.sum()
        {use}
    {inside}
    return Workload(buffers={buffers}, frame=[host(produce), device(add), host(use)])
'''


def profiled(name: str, code: int, *more: str, says: str | tuple[str, ...] = (), **parts: Any) -> Case:
    """`advisor profile` on a workload with that fault; `never` and `variables` as of a case."""
    of_case = {key: parts.pop(key) for key in ("never", "never_shown", "variables", "shell") if key in parts}
    said = (says,) if isinstance(says, str) else says
    files = {"w.py": workload(**parts)}
    return Case(f"workload: {name}", ("profile", "w.py", *SHORT, *more), code, files, said, **of_case)


def saved(change: Callable[[dict[str, Any]], object]) -> Content:
    """A profile with a change, made where its case is run."""

    def write(path: Path) -> None:
        profile = json.loads(PROFILE.read_text(encoding="utf-8"))
        change(profile)
        path.write_text(json.dumps(profile), encoding="utf-8")

    return write


COMMAND = f"profile w.py {' '.join(SHORT)}"
FILES: Mapping[str, Content] = {"w.py": workload()}
SAVED: Mapping[str, Content] = {"p.json": PROFILE.read_text(encoding="utf-8")}
