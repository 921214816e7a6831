"""Reading exports of nsys: built after the schema of two versions, recorded ones, and wrong files."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from nsys_exports import THREAD, Export, Version
from rendering import Accepted, refusals

from advisor.nsys.database import _COPY_KINDS, COPY_KINDS, opened
from advisor.nsys.exports import read
from advisor.nsys.ranges import ranges_of

US, MS = 1_000, 1_000_000
BOTH: tuple[Version, ...] = ("2022.4", "2023.4")


def pinned(path: Path, version: Version = "2023.4", shift: int = 0) -> Path:
    """Two first frames and two steady ones of 10 ms; in each a copy of 3 ms, a kernel of 1 ms, a wait."""
    export = Export(path, version, shift=shift)
    export.domain()
    export.range("strategy:pinned", 0, 100 * MS)
    for index in (0, 2, 3, 4):
        begin = (10 + 11 * index) * MS
        export.range("frame", begin, begin + 10 * MS, payload=index)
        export.range("host:produce", begin, begin + 2 * MS)
        export.range("to-device", begin + 2 * MS, begin + 2 * MS + 50 * US)
        export.call(begin + 2 * MS + 10 * US, correlation=index * 10)
        pinned_copy = {"correlationId": index * 10}
        export.copy(begin + 3 * MS, begin + 6 * MS, 300, "HTOD", "PINNED", "_DEVICE", **pinned_copy)
        export.range("device:add", begin + 2 * MS + 60 * US, begin + 2 * MS + 90 * US)
        export.call(begin + 2 * MS + 70 * US, correlation=index * 10 + 1)
        export.kernel(begin + 6 * MS, begin + 7 * MS, "add", correlation=index * 10 + 1)
        export.range("synchronize", begin + 3 * MS, begin + 7 * MS)
        export.wait(begin + 3 * MS, begin + 7 * MS)
    export.allocation(4096, "PINNED")
    export.allocation(512, "_DEVICE")
    export.allocation(256, "_DEVICE")
    export.allocation(512, "_DEVICE", freed=True)
    return export.done()


def managed(path: Path) -> Path:
    """One steady frame of 10 ms: 64 KiB by faults to the GPU, 128 KiB back, one page ahead of its use."""
    export = Export(path).strategy("managed", None)
    export.range("device:add", 10 * MS, 11 * MS)
    export.range("synchronize", 11 * MS, 15 * MS)
    export.range("host:consume", 15 * MS, 20 * MS)
    export.migration(12 * MS, 13 * MS, 65536, "HTOD", "_COHERENCE")
    export.migration(13 * MS, 13 * MS + 1, 4096, "HTOD", "_PREFETCH")
    export.migration(16 * MS, 17 * MS, 131072, "DTOH", "_COHERENCE")
    export.migration(30 * MS, 31 * MS, 1 << 30, "DTOH", "_COHERENCE")
    export.gpu_fault(12 * MS, 16)
    export.gpu_fault(25 * MS, 99)
    for moment in (16, 17, 50):
        export.cpu_fault(moment * MS)
    return export.done()


def late_work(path: Path) -> Path:
    """A kernel that runs after the last frame, one that was launched after it, and a frame without an end."""
    export = Export(path).strategy("pinned-pipelined")
    for call, begin, end in ((19, 21, 23), (25, 26, 27)):
        export.call(call * MS, correlation=call)
        export.kernel(begin * MS, end * MS, "add", correlation=call)
    export.range("frame", 50 * MS, None, payload=4)
    return export.done()


def overlapping(path: Path, *frames: str) -> Path:
    """A letter for each step of a frame; of overlapping frames the last has a part of the steps."""
    export = Export(path)
    export.domain()
    export.range("strategy:pinned-pipelined", 0, 100 * MS)
    for index, steps in enumerate(frames or ("cab", "cab", "c"), 3):
        begin = 10 * index * MS
        export.range("frame", begin, begin + 9 * MS, payload=index)
        for number, step in enumerate(steps):
            export.range(f"host:{step}", begin + number * MS, begin + (number + 1) * MS)
    return export.done()


def another_domain(path: Path) -> Path:
    export = Export(path)
    export.domain("someone", 1)
    export.range("strategy:pinned", 0, 100 * MS)
    export.range("frame", 10 * MS, 20 * MS, payload=3)
    export.copy(11 * MS, 13 * MS, 300, "HTOD", "PAGEABLE", "_DEVICE")
    export.kernel(14 * MS, 15 * MS, "mine")
    return export.done()


def two_strategies(path: Path) -> Path:
    export = Export(path)
    export.domain()
    for number, name in enumerate(("pageable", "zero-copy")):
        begin = (10 + 30 * number) * MS
        export.range(f"strategy:{name}", begin, begin + 20 * MS)
        export.range("frame", begin, begin + 10 * MS, payload=5)
        export.kernel(begin + MS, begin + (2 + number) * MS, "add")
    return export.done()


def not_copied(path: Path, pinned: bool = True) -> Path:
    """No table of copies beside one of kernels: there were none."""
    export = Export(path).strategy("zero-copy")
    export.kernel(11 * MS, 12 * MS, "add")
    if pinned:
        export.allocation(4096, "PINNED")
    return export.done()


def not_seen_to_move(path: Path) -> Path:
    """On some devices nsys sees no migration; copies are seen there all the same."""
    export = Export(path).strategy("managed")
    export.copy(11 * MS, 12 * MS, 300, "DTOD", "_DEVICE", "_DEVICE")
    export.allocation(4096, "MANAGED")
    return export.done()


DATA = Path(__file__).parent / "data" / "nsys"
BUILT: dict[str, Callable[[Path], Path]] = {
    "pinned": pinned,
    "managed": managed,
    "late-work": late_work,
    "overlapping": overlapping,
    "another-domain": another_domain,
    "two-strategies": two_strategies,
    "not-copied": not_copied,
    "not-recorded": lambda path: not_copied(path, pinned=False),
    "not-seen-to-move": not_seen_to_move,
}
RECORDED = [path.stem for path in sorted(DATA.glob("*.sqlite"))]
"""By real nsys: `vector_add` of three buffers on an H200, 16 MiB each, 4 MiB where managed; and on a CPU,
of which nothing of CUDA was seen. How they were made stands in tests/data/nsys/README.md."""


@pytest.mark.parametrize("name", [*BUILT, *RECORDED])
def test_what_is_read_of_an_export(name: str, tmp_path: Path, accepted: Accepted) -> None:
    trace = read(BUILT[name](tmp_path / "a.sqlite") if name in BUILT else DATA / f"{name}.sqlite")
    spans = {"timeline": {"spans"}} if name in RECORDED else set[str]()
    text = trace.model_dump_json(indent=1, exclude_none=True, exclude={"strategies": {"__all__": spans}})
    accepted(f"{text}\n", f"traces/{name}.json")


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("shift", [0, 7])
def test_kinds_are_joined_by_name(tmp_path: Path, version: Version, shift: int) -> None:
    (trace,) = read(pinned(tmp_path / "a.sqlite", version, shift)).strategies
    (plain,) = read(pinned(tmp_path / "b.sqlite")).strategies
    assert trace == plain
    assert trace.copied_bytes("host-to-device", "pinned") == 300
    assert trace.copied_bytes("host-to-device", "pageable") == 0
    assert trace.activity.copies[0].bytes_per_second == pytest.approx(600 / 0.006)


def test_directions_without_nsys_s_table_are_those_of_its_table() -> None:
    for name in RECORDED:
        with opened(DATA / f"{name}.sqlite") as database:
            recorded = zip(
                *(database.names(COPY_KINDS, each).items() for each in ("name", "label")), strict=True
            )
        assert {number: (one, label) for (number, one), (_, label) in recorded}.items() >= _COPY_KINDS.items()


def test_ranges_of_each_thread_that_calls_cuda_but_none_inside_another(tmp_path: Path) -> None:
    export, begins = Export(tmp_path / "a.sqlite"), [index * 10 * MS for index in range(6)]
    for index, begin in enumerate(begins):
        thread = THREAD + index % 2
        for offset, end, on in ((0, 8, thread), (1, 2, thread), (0, 9, THREAD + 7)):
            export.range("step", begin + offset * MS, begin + end * MS, globalTid=on)
        export.call(begin + MS, correlation=index + 1, thread=thread)
        export.kernel(begin + 3 * MS, begin + 4 * MS, "add", correlation=index + 1)
    with opened(export.done()) as database:
        ((first, last),) = ranges_of(database, "step").values()
    assert first.tolist() == begins
    assert set((last - first).tolist()) == {8 * MS}


# Wrong input


def table(path: Path, definition: str) -> Path:
    """Adds a table, to a new file or an export."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE TABLE {definition}")
        connection.commit()
    return path


def newer(path: str, columns: str) -> Path:
    return table(Export(Path(path), schema="9.1.0").done(), f"CUPTI_ACTIVITY_KIND_KERNEL ({columns})")


def test_what_is_no_export_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accepted: Accepted
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.sqlite").write_text("hello")
    table(Path("people.sqlite"), "people (name TEXT)")
    export = Export(Path("a text for a number.sqlite"))
    export.kernel(1, 2, "add")
    export.add("CUPTI_ACTIVITY_KIND_KERNEL", start="soon", end=3)
    export.done()
    newer("unknown columns.sqlite", "begin, finish")
    whole = pinned(tmp_path / "cut off.sqlite").read_bytes()
    Path("cut off.sqlite").write_bytes(whole[:20_000])
    files = [*sorted(path.name for path in tmp_path.iterdir()), "none", "."]
    accepted(refusals({name: partial(read, Path(name)) for name in files}), "exports-refused.txt")


def test_a_newer_schema_is_read_as_far_as_it_is_known(tmp_path: Path) -> None:
    path = newer(f"{tmp_path}/a.sqlite", "start, end, shortName, globalPid, correlationId")
    assert "newer than this advisor supports (3)" in read(path).notes[0]


def test_a_file_in_write_ahead_mode_gets_no_companions(tmp_path: Path) -> None:
    path = pinned(tmp_path / "a.sqlite")
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    names = []
    with opened(path) as database:
        assert database.has("NVTX_EVENTS")
        names = [p.name for p in tmp_path.iterdir()]
    assert names == ["a.sqlite"]
