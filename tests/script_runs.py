"""Made-up records of scripts, as `advisor profile SCRIPT` saves them."""

from __future__ import annotations

from typing import Any

from advisor.profiles.crossings import Crossing, LineLoop, Origin, Place, Repeats, ScriptRun, SourceFile

SOURCE = """\
import cupy
import cv2

camera = cv2.VideoCapture(0)
model = cupy.load("model.npy")
h = 0.0
for _ in range(500):
    ok, frame = camera.read()
    gray = cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY)
    d = cupy.asarray(gray)
    m = process(d, model)
    out = m.get()
    h += float(m.sum())
    cv2.imshow("out", out)
print(h)
"""
FRAMES = 500
LOOP, MADE, UPLOAD, DOWNLOAD, WAIT = 7, 9, 10, 12, 13
SIZE = 1_000_000


def place(line: int, file: str = "camera.py") -> Place:
    return Place(file=file, line=line, text=SOURCE.splitlines()[line - 1].strip())


def upload(**changed: Any) -> Crossing:
    """One pageable upload in each frame, 0.31 ms of it."""
    told = {
        "place": place(UPLOAD),
        "kind": "upload",
        "call": "cupy.asarray",
        "library": "cupy",
        "loop": 0,
        "count": FRAMES,
        "bytes": FRAMES * SIZE,
        "frames": FRAMES,
        "memory": "pageable",
        "asynchronous": False,
        "host_seconds": FRAMES * 0.31e-3,
        "stream_seconds": FRAMES * 0.10e-3,
        "timed": 60,
        "origin": Origin(kind="numpy", place=place(MADE), each_frame=True),
    }
    return Crossing.model_validate({**told, **changed})


def download(**changed: Any) -> Crossing:
    told = {
        "place": place(DOWNLOAD),
        "kind": "download",
        "call": "ndarray.get",
        "host_seconds": FRAMES * 0.28e-3,
        "origin": Origin(kind="numpy", place=place(DOWNLOAD), each_frame=True),
    }
    return upload(**{**told, **changed})


def wait(**changed: Any) -> Crossing:
    told = {
        "place": place(WAIT),
        "kind": "wait",
        "call": "ndarray.__float__",
        "bytes": FRAMES * 8,
        "memory": "unknown",
        "host_seconds": FRAMES * 0.02e-3,
        "kernel_seconds": FRAMES * 1.88e-3,
        "stream_seconds": None,
        "timed": 0,
        "origin": None,
        "holds_back": place(UPLOAD),
    }
    return upload(**{**told, **changed})


def lock(**changed: Any) -> Crossing:
    told = {"kind": "lock", "call": "cupyx.empty_pinned", "stream_seconds": None, "timed": 0, "origin": None}
    return upload(**{**told, **changed})


SETUP = upload(place=place(5), call="cupy.load", loop=None, count=1, bytes=64_000_000, frames=0, origin=None)


def script_run(*crossings: Crossing, **changed: Any) -> ScriptRun:
    """`camera.py` on a GPU: 500 frames of 6.1 ms."""
    crossings = crossings or (SETUP, upload(), download(), wait())
    loop = LineLoop(
        place=place(LOOP),
        last_line=14,
        frames=FRAMES,
        frame_seconds=6.1e-3,
        interval_seconds=(6.0e-3, 6.2e-3),
        seconds=FRAMES * 6.15e-3,
    )
    told: dict[str, Any] = {
        "arguments": ("--frames", "500"),
        "seconds": 3.5,
        "overhead_seconds": 0.03,
        "loops": (loop,),
        "crossings": crossings,
        "unseen": ("Allocations of other threads: their origins are not known.",),
        "sources": (SourceFile(file="camera.py", lines=tuple(SOURCE.splitlines())),),
    }
    return ScriptRun.model_validate({**told, **changed})


def played(*crossings: Crossing, **changed: Any) -> ScriptRun:
    """The same without a GPU: no times but those of iterations on the CPU."""
    untimed = {"host_seconds": None, "stream_seconds": None, "kernel_seconds": None, "timed": 0}
    run = script_run(*crossings)
    return run.model_copy(
        update={
            "played": "a mock of CuPy",
            "crossings": tuple(c.model_copy(update=untimed) for c in run.crossings),
            "loops": tuple(loop.model_copy(update={"frame_seconds": None}) for loop in run.loops),
            **changed,
        }
    )


def repeats(checked: int = 20, **changed: Any) -> Repeats:
    told: dict[str, Any] = {
        "checked": checked,
        "compared": checked - 1,
        "complete": False,
        "false_share": 0.05,
    }
    return Repeats.model_validate({**told, **changed})
