"""What each of tests/scripts moves and waits for, by hand: the same on a GPU and on what plays one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from running import python_path
from shared_server import server

from advisor.measure.fork_server import Process
from advisor.measure.jobs import Recorded, ScriptJob
from advisor.profiles.crossings import ScriptRun

SCRIPTS = Path(__file__).parent / "scripts"
Row = tuple[int, str, str, int, int, str]
"""Line, kind, call, count, bytes of all, memory of the host."""

UP, DOWN, WAIT, LOCK = "upload", "download", "wait", "lock"
PAGED, PINNED, NONE = "pageable", "pinned", "unknown"
RECORDS: dict[str, list[Row]] = {
    "kmeans": [  # 6 iterations of 8 clusters
        (8, UP, "cupy.asarray", 1, 4096 * 16 * 4, PAGED),
        (14, WAIT, "ndarray.__bool__", 6, 6, NONE),
        (18, WAIT, "ndarray.__getitem__", 48, 0, NONE),
        (20, WAIT, "ndarray.__float__", 1, 4, NONE),
        (21, WAIT, "cupy.bincount", 1, 0, NONE),
        (21, DOWN, "ndarray.tolist", 1, 8 * 8, PAGED),
        (21, DOWN, "cupy.asnumpy", 1, 8 * 16 * 4, PAGED),
    ],
    "camera": [  # 8 frames of 120 x 160
        (7, UP, "cupy.asarray", 1, 19_200, PAGED),
        (11, UP, "cupy.asarray", 8, 8 * 19_200, PAGED),
        (13, UP, "cupy.array", 8, 8 * 19_200 * 4, PAGED),
        (14, DOWN, "ndarray.get", 8, 8 * 19_200, PAGED),
        (15, UP, "cupy.asarray", 8, 8 * 19_200, PAGED),
        (16, WAIT, "ndarray.__float__", 8, 8 * 4, NONE),
    ],
    "training": [  # 2 epochs of 6 batches and 2 for validation, of 64 rows
        (9, UP, "Module.to", 4, (32 * 64 + 64 + 64 * 4 + 4) * 4, PAGED),
        (18, UP, "Tensor.to", 12, 12 * 64 * 32 * 4, PAGED),
        (19, UP, "Tensor.cuda", 12, 12 * 64 * 8, PAGED),
        (24, WAIT, "Tensor.item", 12, 12 * 4, NONE),
        (29, UP, "Tensor.to", 4, 4 * 64 * 32 * 4, PAGED),
        (30, DOWN, "Tensor.cpu", 4, 4 * 64 * 8, PAGED),
    ],
    "vae": [  # 2 epochs of 4 batches; the scaler reads one number in each step
        (28, UP, "Module.cuda", 8, (64 * 16 + 16 + 2 * (16 * 4 + 4) + 4 * 64 + 64) * 4, PAGED),
        (34, UP, "Tensor.to", 8, 8 * 64 * 64 * 4, PINNED),
        (40, WAIT, "Tensor.item", 8, 8 * 4, NONE),
        (42, WAIT, "Tensor.__float__", 8, 8 * 4, NONE),
        (46, DOWN, "Tensor.cpu", 1, 4 * 64 * 4, PAGED),
    ],
    "streaming": [  # 6 chunks
        (10, LOCK, "alloc_pinned_memory", 2, 2 * (4 << 14), PINNED),
        (11, LOCK, "alloc_pinned_memory", 2, 2 * (4 << 14), PINNED),
        (18, WAIT, "Event.synchronize", 6, 0, NONE),
        (22, UP, "ndarray.set", 6, 6 * (4 << 14), PINNED),
        (24, DOWN, "ndarray.get", 6, 6 * (4 << 14), PINNED),
        (26, WAIT, "Device.synchronize", 1, 0, NONE),
    ],
    "images": [  # 5 images of 90 x 160, halved
        (7, UP, "cupy.array", 1, 3 * 4, PAGED),
        (12, LOCK, "alloc_pinned_memory", 5, 5 * 90 * 160 * 3, PINNED),
        (15, UP, "cupy.asarray", 5, 5 * 90 * 160 * 3, PINNED),
        (17, WAIT, "ndarray.__getitem__", 5, 0, NONE),
        (18, DOWN, "ndarray.get", 5, 5 * 45 * 80, PAGED),
    ],
    "heat": [  # 40 steps; each tenth has its error read
        (14, WAIT, "ndarray.__float__", 4, 4 * 4, NONE),
        (16, WAIT, "Stream.synchronize", 1, 0, NONE),
        (17, WAIT, "ndarray.item", 1, 4, NONE),
        (18, DOWN, "ndarray.__str__", 1, 4 * 4, PAGED),
    ],
    "spectra": [  # 4 batches of 16 signals
        (11, UP, "cupy.asarray", 4, 4 * 16 * 256 * 4, PAGED),
        (13, UP, "ndarray.__getitem__", 4, 4 * 3 * 8, PAGED),
        (14, DOWN, "cupy.asnumpy", 4, 4 * 3 * 8, PAGED),
        (15, WAIT, "ndarray.__bool__", 4, 4, NONE),
    ],
    "server": [  # 5 requests of 4 rows
        (11, UP, "Module.to", 2, (32 * 8 + 8) * 4, PAGED),
        (12, UP, "torch.tensor", 1, 8 * 4, PAGED),
        (20, UP, "torch.as_tensor", 5, 5 * 4 * 32 * 4, PAGED),
        (23, WAIT, "Tensor.__getitem__", 5, 0, NONE),
        (24, DOWN, "Tensor.tolist", 5, 5 * 4 * 8, PAGED),
        (24, WAIT, "Tensor.__int__", 5, 5 * 8, NONE),
        (25, WAIT, "Tensor.__bool__", 5, 5, NONE),
    ],
    "saxpy": [  # 4 kernels given 2 host arrays of 256 numbers, then 4 given device arrays
        (17, UP, "kernel argument", 8, 8 * 1024, PAGED),
        (17, DOWN, "kernel argument", 8, 8 * 1024, PAGED),
        (20, UP, "cuda.to_device", 1, 1024, PAGED),
        (22, UP, "DeviceNDArray.copy_to_device", 1, 1024, PAGED),
        (25, WAIT, "cuda.synchronize", 1, 0, NONE),
        (26, DOWN, "DeviceNDArray.copy_to_host", 1, 1024, PAGED),
    ],
}


def record(script: Path, directory: Path, backend: str) -> ScriptRun:
    """The script's record, made in a process of its own; without a GPU in one that is forked."""
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
            library = ",torch" if "torch" in script.read_text() else ""
            process = server(library).fork("recording_worker", [], log, ())
    assert process.wait() == 0, (directory / "log").read_text()
    return Recorded.model_validate_json((directory / "record").read_text()).script


def rows(run: ScriptRun) -> list[Row]:
    """In the order of the table: by line, then as they came."""
    crossings = sorted(run.crossings, key=lambda each: each.place.line)
    return [(c.place.line, c.kind, c.call, c.count, c.bytes, c.memory) for c in crossings]
