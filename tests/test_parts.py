"""Parts of buffers: lengths that differ by frame, regions; what moves of them, and what is wrong."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from builders import cuda_device
from every import every
from fakes import RecordingBackend, attempted, bench
from field import profiled
from rendering import Accepted, refusals
from running import FILES

from advisor.devices import catalogue
from advisor.model.predict import predict
from advisor.profiles.schema import Measured
from advisor.rules.snippets.writing import snippet, variants
from advisor.strategies.parts import Region, cells, joined, spans
from advisor.workloads.binding import bind
from advisor.workloads.definition import Buffer, InOut, Workload, host
from advisor.workloads.loading import load

pytestmark = pytest.mark.usefixtures("all_frames")
FILE = FILES / "parts_of_buffers.py"


def moved(program: str, strategy: str, frames: int) -> str:
    """What the backend was asked for in steady frames: bytes up (>) and down (<), and waits (|)."""
    loaded = load(FILE, program, {})
    with bench(loaded.bound.workload, strategy, RecordingBackend()) as run:
        run.start()
        run.loop.frame_alone(1)
        run.backend.calls.clear()
        for index in range(2, 2 + frames):
            run.loop.frame_alone(index)
        marks = {"copy_to_device": ">", "copy_to_host": "<", "synchronize": "|"}
        calls = [call for call in run.backend.calls if call[0] in marks]
        return " ".join(marks[c[0]] + (str(c[3]) if c[0] != "synchronize" else "") for c in calls)


@every(
    ("program", "strategies", "steps"),
    [
        # Frames 2 and 3 have 14 and 4 rows of 32 bytes: up, down, one wait, nothing for the length itself.
        ("ragged", "pinned write-combined registered", ">448 <448 | >128 <128 |"),
        # The length is from the device. Of 32 numbers from 2 on, eleven are multiples of three.
        ("compaction", "pinned registered", ">256 <4 | <88 |"),
        # Down comes row 0 but for what the column brought; up goes row 0; down the column, as rows of one.
        ("large_state", "pinned", "<16 <24 | >48 <64 |"),
        ("large_state", "pageable", "<16 | <24 | >48 | <64 |"),
    ],
)
def test_the_bytes_of_a_part(program: str, strategies: str, steps: str) -> None:
    frames = 2 if program == "ragged" else 1
    assert {name: moved(program, name, frames) for name in strategies.split()} == dict.fromkeys(
        strategies.split(), steps
    )


@pytest.mark.parametrize("program", ["ragged", "compaction", "large_state", "ring"])
def test_without_a_gpu(program: str) -> None:
    made = profiled(f"{FILE}::{program}")
    assert all(isinstance(row, Measured) and row.verified for row in made.results), made.results
    assert not [note for note in made.notes if "could not" in note]


def test_predictions_take_the_mean_of_what_was_valid(tmp_path: Path) -> None:
    made = profiled(f"{FILE}::compaction", "n=600000", targets=("h200",))
    assert made.traffic.valid_bytes == {"kept": 1_600_000.0}
    more = made.traffic.model_copy(update={"valid_bytes": {"kept": 4_800_000.0}})
    whole = predict(made.model_copy(update={"traffic": more, "results": ()}), catalogue.load("h200"))
    some, all_ = (
        next(row.terms["to-host"] for row in each.results if row.strategy == "pageable")  # type: ignore[union-attr]
        for each in (made.predictions[0], whole)
    )
    assert all_ == pytest.approx(3 * some, rel=0.1)
    assert made.measured()["pageable"].transfer_bytes["to-host"] == pytest.approx(1_600_004, abs=8)


COPIED = {
    FILE: "ragged pinned, ragged staged, compaction pinned-pipelined, compaction managed-prefetch, "
    "large_state pinned, large_state staged",
    FILES / "until_converged.py": "kmeans managed-prefetch, jacobi pinned, two_loops zero-copy",
    FILES / "some_frames.py": "some_frames pinned",
}


def test_code_to_copy_moves_parts_and_has_loops_and_the_frames_of_a_stage(accepted: Accepted) -> None:
    known, text = cuda_device(concurrent_managed_access=1, managed_memory=1), []
    for file, each in COPIED.items():
        for program, strategy in map(str.split, each.split(", ")):
            record = load(file, None if file.stem == program else program, {}).record
            written = str(snippet(strategy, record, known))
            compile(written, "snippet", "exec")
            text += [
                f"## {program}: {strategy}",
                *re.split(r"\n(?=# Once\. Let|class Slot)", written)[1:],
                "",
            ]
    accepted("\n".join(text), "snippets-of-parts.txt")
    record = load(FILE, "large_state", {}).record
    assert variants("pinned", record, cuda_device()) == {}, "PyTorch and Numba have no call for a column"


# What a region is


def test_a_region_is_cut_and_joined_and_found_in_memory() -> None:
    """Any boxes: cells fill the buffer once, join to no more than there were, and spans are their bytes."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        shape = tuple(int(n) for n in rng.integers(1, 5, rng.integers(1, 5)))
        boxes = []
        for _ in range(2):
            ends = [sorted(rng.choice(n + 1, 2, replace=False)) for n in shape]
            boxes.append(Region(tuple((int(a), int(b)) for a, b in ends), shape))
        parts, filled = cells(boxes), np.zeros(shape, int)
        for part in parts:
            filled[part.index] += 1
        assert (filled == 1).all()
        assert joined(parts) == (Region(tuple((0, n) for n in shape), shape),)
        for box in boxes:
            assert joined(part for part in parts if box.covers(part)) == (box,)
            assert_bytes(box)
            assert_bytes(box.contiguous)
            assert len(spans(box.contiguous.bounds, shape, 2)) == 1


def assert_bytes(box: Region) -> None:
    """Its spans are the bytes of its elements, each once."""
    expected, found = np.zeros(box.shape, "u2"), np.zeros(np.zeros(box.shape, "u2").nbytes, "u1")
    expected[box.index] = 0xFFFF
    for span in spans(box.bounds, box.shape, 2):
        for row in range(span.height):
            start = span.offset + row * span.pitch
            assert not found[start : start + span.width].any()
            found[start : start + span.width] = 0xFF
    assert found.tobytes() == expected.tobytes()


@every(
    ("key", "bounds"),
    [
        (0, ((0, 1), (0, 6))),
        (-1, ((7, 8), (0, 6))),
        (slice(16), None),
        (slice(2), ((0, 2), (0, 6))),
        ((slice(None), 2), ((0, 8), (2, 3))),
        ((..., slice(-2, None)), ((0, 8), (4, 6))),
        ((np.int64(1), slice(1, 3, 1)), ((1, 2), (1, 3))),
    ],
)
@every("wrapped", [False, True])
def test_annotations_name_a_part(key: Any, bounds: Any, wrapped: bool) -> None:
    """Type checkers take `Annotated[Any, In[0, :]]`; at run time the bare `In[0, :]` is the same."""

    def stage(state: Any) -> None: ...

    annotation = InOut[key]
    stage.__annotations__["state"] = Annotated[Any, annotation] if wrapped else annotation
    bound = bind(Workload({"state": Buffer((8, 6), "f4")}, [host(stage)]))
    assert bound.frame[0].access == {"state": "inout"}
    assert bound.frame[0].parts == ({} if bounds is None else {"state": Region(bounds, (8, 6))})


WRONG = """\
from __future__ import annotations
import numpy as np
from advisor import Buffer, In, InOut, Out, Workload, device, host, workload

@workload
def program(rows: int = 8) -> Workload:
    def start(state: Out, rest: Out) -> None:
        state.fill(1)
        rest.fill(1)
    def fill(count: Out, data: Out, frame: int) -> None:
        n = count[0] = COUNT
        data[:n] = frame
    def steer(state: InOut[0, :], rest: In[:2]) -> None:
        STEER
    def compute(xp, data: In, state: InOut[1:3], out: Out) -> None:
        COMPUTE
    def see(out: In, count: In, state: In) -> None:
        out[: count[0]].sum()

    buffers = {
        "count": Buffer(1, np.int32),
        "data": Buffer(rows, "f8", valid="count"),
        "out": Buffer(rows, "f8", valid="count"),
        "state": Buffer((4, rows), "f8"),
        "rest": Buffer(rows, "f8"),
    }
    return Workload(buffers, setup=[host(start)], frame=[host(fill), host(steer), device(compute), host(see)])
"""
RIGHT = {
    "COUNT": "3 + frame",
    "STEER": "state[0] += 1",
    "COMPUTE": "xp.add(state[1:3], 1, out=state[1:3]); xp.add(data, 1, out=out)",
}


def program(folder: Path, **changes: str) -> Path:
    text = WRONG
    for name, body in {**RIGHT, **changes}.items():
        text = text.replace(name, body, 1)
    path = folder / "program.py"
    path.write_text(text, encoding="utf-8")
    return path


STRAY: dict[str, dict[str, str]] = {
    "a host stage writes": {"STEER": "state[:2] += 1"},
    "a device stage": {"COMPUTE": "state += 1; out.fill(1)"},
    "through a view": {"COMPUTE": "a = state.T; a[:, 0] = 2; out[...] = 1"},
    "one number is read": {"STEER": "state[0] += rest[2]"},
    "a mask": {"STEER": "state[0] += rest[rest > 0][0]"},
    "a length beyond the buffer": {"COUNT": "7 + frame; n = min(n, rows)"},
    "a length below 0": {"COUNT": "1 - 2 * frame; n = max(n, 0)"},
    "rows that stay unwritten": {"COUNT": "6; n = 2"},
    "a slice by what is no parameter": {"In[:2]": "In[: rows // 4]"},
    "a part beside a length": {"data: In,": "data: In[:4],"},
}


def test_what_leaves_its_part_is_named_with_its_line(tmp_path: Path, accepted: Accepted) -> None:
    calls = {}
    for name, changes in STRAY.items():
        (tmp_path / name).mkdir()
        file = program(tmp_path / name, **{"COUNT": "3 + frame % 5", **changes})
        calls[name] = partial(profiled, file)
    accepted(refusals(calls).replace(f"{tmp_path}/", ""), "parts-refused.txt")


INSIDE = [
    "state[0, 1:3] = rest[:2]; state[0][-1] = rest[1]",
    "row = state[0]; row *= 2; np.add(row, rest[0], out=row)",
    "state[0, [1, 2]] += rest[np.array([0, 1])]; state[0][state[0] > 100] = 0",
    "state[0, :] = np.where(state[0] > 3, 0, state[0]); len(rest); rest.shape; state.T.shape",
    "np.take(rest, [0, 1], out=state[0, :2]); state.reshape(-1)[:8] += 1",
    "state[0].fill(3); state[:1].sum(axis=0).max(); state[0:1] -= state[0:1].mean()",
]


def test_a_stage_that_stays_in_its_part_is_right(tmp_path: Path) -> None:
    profiled(program(tmp_path, COUNT="3 + frame % 5", STEER="; ".join(INSIDE)))


def test_a_length_that_goes_wrong_late_fails_the_strategy(tmp_path: Path) -> None:
    """After the frames that are compared, in one that is timed."""
    path = program(tmp_path, COUNT="3 if frame < 20 else 99; n = 3")
    found = attempted(path, "pinned", tmp_path, backend=RecordingBackend(), seconds=60.0)
    assert found.task == "problem"
    assert "buffer 'count' holds 99 in frame 20" in found.message
    assert re.search(r"stage '\w+' \(\w+\.py:\d+\)", found.next_step)
