"""What scripts move and wait for, as stands behind their lines: the same on a GPU and on what plays one."""

from __future__ import annotations

import re
import subprocess
import sys
from math import prod
from pathlib import Path

import pytest
from running import python_path

from advisor.measure.fork_server import Process
from advisor.measure.jobs import Recorded, ScriptJob
from advisor.profiles.crossings import ScriptRun
from tests.forking import server

SCRIPTS = {path.stem: path for path in sorted((Path(__file__).parent / "scripts").glob("*.py"))}
Row = tuple[int, str, str, int, int, str]
"""Line, kind, call, count, bytes of all, memory of the host."""
MEMORY = {"upload": "pageable", "download": "pageable", "wait": "unknown", "lock": "pinned"}
"""The usual one of each kind of crossing."""
_CROSSING = re.compile(r"(upload|download|wait|lock) ([^,]+), (\d+)(?:, ([\d_ *]+))?(?:, ([a-z]+))?")


def expected(source: str) -> list[Row]:
    """What stands behind the lines of a script, or below them: `upload cupy.asarray, 8, 8 * 400, pinned`.

    The kind and call, the count, the bytes of all unless they are 0, and the memory if it is not the usual.
    """
    rows, line = list[Row](), 0
    for number, text in enumerate(source.splitlines(), 1):
        code, _, comment = text.partition("# ")
        line = number if code.strip() else line
        for kind, call, count, sizes, memory in _CROSSING.findall(comment):
            nbytes = prod(int(size) for size in (sizes or "0").split(" * "))
            rows.append((line, kind, call, int(count), nbytes, memory or MEMORY[kind]))
    return rows


def record(script: Path, directory: Path, backend: str) -> ScriptRun:
    """The script's record, made in a process of its own; without a GPU in one that is forked."""
    if uses_torch := "torch" in script.read_text():
        pytest.importorskip("torch")
    job = ScriptJob.model_validate(
        {"file": str(script), "backend": backend, "gpu": 0, "directory": str(directory)}
        | {"counts_bytes": backend == "cuda"}
    )
    (directory / "job.json").write_text(job.model_dump_json())
    with (directory / "log").open("wb") as log, pytest.MonkeyPatch.context() as here:
        here.chdir(directory)
        if backend == "cuda":
            program = "import sys; from recording_worker import main; main([])"
            here.setenv("PYTHONPATH", python_path(Path(__file__).parent))
            process: Process = subprocess.Popen([sys.executable, "-c", program], stdout=log, stderr=log)
        else:
            process = server(",torch" if uses_torch else "").fork("recording_worker", [], log, ())
    assert process.wait() == 0, (directory / "log").read_text()
    return Recorded.model_validate_json((directory / "record").read_text()).script


def rows(run: ScriptRun) -> list[Row]:
    """In the order of the table: by line, then as they came."""
    crossings = sorted(run.crossings, key=lambda each: each.place.line)
    return [(c.place.line, c.kind, c.call, c.count, c.bytes, c.memory) for c in crossings]
