"""Reading exports of nsys: small ones built after the documented schema of two versions, and wrong files."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from every import every
from nsys_exports import THREAD, Export, Version

from advisor.errors import FileProblem
from advisor.nsys.database import opened
from advisor.nsys.exports import FileTrace, read
from advisor.nsys.ranges import ranges_of
from advisor.profiles.traces import Activity, Copies, Kernels, Migrations, Synchronizations

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


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("shift", [0, 7])
def test_kinds_are_joined_by_name(tmp_path: Path, version: Version, shift: int) -> None:
    (trace,) = read(pinned(tmp_path / "a.sqlite", version, shift)).strategies
    assert (trace.strategy, trace.frames, trace.frame_seconds) == ("pinned", 2, 0.01)
    assert trace.activity == Activity(
        copies=(
            Copies(
                kind="host-to-device",
                source="pinned",
                destination="device",
                count=2,
                bytes=600,
                seconds=0.006,
            ),
        ),
        migrations=(),
        kernels=(Kernels(name="add", count=2, seconds=0.002),),
        synchronizations=(Synchronizations(kind="stream sync", count=2, seconds=0.008),),
    )
    assert trace.copied_bytes("host-to-device", source="pinned") == 300
    assert trace.copied_bytes("host-to-device", source="pageable") == 0
    assert trace.activity.copies
    assert trace.activity.copies[0].bytes_per_second == pytest.approx(600 / 0.006)


def test_work_belongs_to_the_step_that_launched_it(tmp_path: Path) -> None:
    (trace,) = read(pinned(tmp_path / "a.sqlite")).strategies
    steps = {step.name: step for step in trace.ranges}
    assert list(steps) == ["host:produce", "to-device", "device:add", "synchronize"]
    assert steps["host:produce"].activity.copies == ()
    assert steps["to-device"].activity.copies == trace.activity.copies
    assert steps["device:add"].activity.kernels == trace.activity.kernels
    assert steps["synchronize"].activity.kernels == ()
    assert steps["synchronize"].activity.synchronizations == trace.activity.synchronizations
    assert (steps["host:produce"].count, steps["host:produce"].seconds) == (2, 0.002)


def test_work_that_runs_after_the_last_frame_belongs_to_it(tmp_path: Path) -> None:
    export = Export(tmp_path / "a.sqlite").strategy("pinned-pipelined")
    export.call(19 * MS, correlation=7)
    export.kernel(21 * MS, 23 * MS, "add", correlation=7)
    export.call(25 * MS, correlation=8)
    export.kernel(26 * MS, 27 * MS, "add", correlation=8)
    (trace,) = read(export.done()).strategies
    assert trace.activity.kernels == (Kernels(name="add", count=1, seconds=0.002),)
    assert trace.idle_share == 1


def test_idle_time_and_allocations_by_kind(tmp_path: Path) -> None:
    """Idle: outside of copies and kernels."""
    (trace,) = read(pinned(tmp_path / "a.sqlite")).strategies
    assert trace.idle_share == pytest.approx(0.6)
    assert trace.allocations
    sizes = {a.kind: (a.count, a.bytes, a.largest_bytes) for a in trace.allocations}
    assert sizes == {"pinned": (1, 4096, 4096), "device": (2, 768, 512)}


def test_migrations_and_faults_of_the_frame_alone(tmp_path: Path) -> None:
    (trace,) = read(managed(tmp_path / "a.sqlite")).strategies
    assert trace.activity.migrations == (
        Migrations(direction="to-device", cause="page fault", count=1, bytes=65536, seconds=0.001),
        Migrations(direction="to-host", cause="page fault", count=1, bytes=131072, seconds=0.001),
        Migrations(direction="to-device", cause="speculative prefetch", count=1, bytes=4096, seconds=1e-9),
    )
    assert trace.migrated_bytes("to-device") == 65536 + 4096
    assert trace.migrated_bytes("to-device", "page fault") == 65536
    assert trace.faults() == (2, 16)
    steps = {step.name: step.activity for step in trace.ranges}
    assert (steps["synchronize"].gpu_page_faults, steps["host:consume"].cpu_page_faults) == (16, 2)
    assert steps["device:add"].gpu_page_faults == 0
    assert trace.idle_share == pytest.approx(0.8, abs=1e-3)


def test_what_has_no_table_was_not_observed(tmp_path: Path) -> None:
    (of_copies,) = read(pinned(tmp_path / "a.sqlite")).strategies
    assert of_copies.faults() == (None, None)
    assert set(of_copies.absent) == {"cpu_page_faults", "gpu_page_faults"}
    (of_pages,) = read(managed(tmp_path / "b.sqlite")).strategies
    assert of_pages.activity.kernels is None
    assert of_pages.allocations is None
    assert {"kernels", "synchronizations", "allocations", "calls"} <= set(of_pages.absent)


def test_no_table_of_copies_beside_kernels_means_that_there_were_none(tmp_path: Path) -> None:
    for pinned, reason in ((True, "no managed memory was allocated"), (False, "nsys wrote no table")):
        export = Export(tmp_path / f"{pinned}.sqlite").strategy("zero-copy")
        export.kernel(11 * MS, 12 * MS, "add")
        if pinned:
            export.allocation(4096, "PINNED")
        (trace,) = read(export.done()).strategies
        assert (trace.activity.copies, trace.activity.migrations) == ((), ())
        assert trace.absent["gpu_page_faults"].startswith(reason)


def test_managed_memory_that_was_not_seen_to_move_is_no_figure(tmp_path: Path) -> None:
    """nsys sees no migration on some devices; copies are seen there all the same."""
    export = Export(tmp_path / "a.sqlite").strategy("managed")
    export.copy(11 * MS, 12 * MS, 300, "DTOD", "_DEVICE", "_DEVICE")
    export.allocation(4096, "MANAGED")
    (trace,) = read(export.done()).strategies
    assert trace.activity.copies
    assert trace.activity.migrations is None
    assert trace.absent["migrations"].startswith(
        "managed memory was allocated, but nsys recorded no migration"
    )


@pytest.mark.parametrize(
    ("frames", "kept", "counts"), [(("cab", "cab", "c"), 2, [2, 2, 2]), (("a", "a", "b"), 3, [2, 1])]
)
def test_a_frame_with_a_part_of_the_usual_steps_is_left_out_and_one_with_others_kept(
    frames: tuple[str, ...], kept: int, counts: list[int], tmp_path: Path
) -> None:
    """Of overlapping frames the last has a part of the steps."""
    export = Export(tmp_path / "a.sqlite")
    export.domain()
    export.range("strategy:pinned-pipelined", 0, 100 * MS)
    for index, steps in enumerate(frames, 3):
        begin = 10 * index * MS
        export.range("frame", begin, begin + 9 * MS, payload=index)
        for number, step in enumerate(steps):
            export.range(f"host:{step}", begin + number * MS, begin + (number + 1) * MS)
    (trace,) = read(export.done()).strategies
    assert (trace.frames, [step.count for step in trace.ranges]) == (kept, counts)


def test_the_timeline_has_the_hosts_steps_and_the_gpus_work(tmp_path: Path) -> None:
    (trace,) = read(pinned(tmp_path / "a.sqlite")).strategies
    assert trace.timeline
    assert trace.timeline.source == "nsys"
    drawn = [(s.track, s.label, s.begin_seconds, s.end_seconds) for s in trace.timeline.spans]
    assert drawn == [
        ("host", "host:produce", 0.0, 0.002),
        ("copy", "host-to-device, pinned", 0.003, 0.006),
        ("host", "synchronize", 0.003, 0.007),
        ("kernel", "add", 0.006, 0.007),
    ]


def test_very_many_migrations_are_drawn_as_few(tmp_path: Path) -> None:
    export = Export(tmp_path / "a.sqlite").strategy("managed")
    for number in range(1000):
        begin = 10 * MS + number * 5 * US
        export.migration(begin, begin + 4 * US, 4096, "HTOD", "_COHERENCE")
    (trace,) = read(export.done()).strategies
    assert trace.timeline
    assert [(s.track, s.merged, s.end_seconds) for s in trace.timeline.spans] == [
        ("migration", 1000, pytest.approx(0.005, rel=1e-3))
    ]
    assert trace.timeline.spans[0].worked_seconds == pytest.approx(0.004)


def test_another_domains_ranges_are_not_ours(tmp_path: Path) -> None:
    export = Export(tmp_path / "a.sqlite")
    export.domain("someone", 1)
    export.range("strategy:pinned", 0, 100 * MS)
    export.range("frame", 10 * MS, 20 * MS, payload=3)
    export.copy(11 * MS, 13 * MS, 300, "HTOD", "PAGEABLE", "_DEVICE")
    export.kernel(14 * MS, 15 * MS, "mine")
    told = read(export.done())
    assert told.strategies == ()
    assert told.program
    (gpu,) = told.program.gpus
    assert (gpu.seconds, gpu.idle_seconds) == (0.004, 0.001)
    assert gpu.flows
    assert gpu.flows[0].memory == "pageable"


def test_ranges_of_each_thread_that_calls_cuda_but_none_inside_another(tmp_path: Path) -> None:
    export, begins = Export(tmp_path / "a.sqlite"), [index * 10 * MS for index in range(6)]
    for index, begin in enumerate(begins):
        thread = THREAD + index % 2
        for offset, end, on in ((0, 8, thread), (1, 2, thread), (0, 9, THREAD + 7)):
            export.range("step", begin + offset * MS, begin + end * MS, thread=on)
        export.call(begin + MS, correlation=index + 1, thread=thread)
        export.kernel(begin + 3 * MS, begin + 4 * MS, "add", correlation=index + 1)
    with opened(export.done()) as database:
        ((first, last),) = ranges_of(database, "step").values()
    assert first.tolist() == begins
    assert set((last - first).tolist()) == {8 * MS}


def test_frames_that_are_not_closed_or_of_several_strategies(tmp_path: Path) -> None:
    export = Export(tmp_path / "a.sqlite")
    export.domain()
    for number, name in enumerate(("pageable", "zero-copy")):
        begin = (10 + 30 * number) * MS
        export.range(f"strategy:{name}", begin, begin + 20 * MS)
        export.range("frame", begin, begin + 10 * MS, payload=5)
        export.kernel(begin + MS, begin + (2 + number) * MS, "add")
    told = read(export.done())
    assert [(t.strategy, t.activity.kernels and t.activity.kernels[0].seconds) for t in told.strategies] == [
        ("pageable", 0.001),
        ("zero-copy", 0.002),
    ]
    export = Export(tmp_path / "b.sqlite").strategy("pinned", None)
    export.range("frame", 21 * MS, None, payload=4)
    (trace,) = read(export.done()).strategies
    assert trace.frames == 1


DATA = Path(__file__).parent / "data" / "nsys"


@every(("name", "tool"), [("cpu-2022.4.2", None), ("cpu-2023.4.4", "2023.4.4.54")])
def test_exports_by_real_nsys(name: str, tool: str | None) -> None:
    """Without a GPU, so that nothing of CUDA was observed."""
    told = read(DATA / f"{name}.sqlite")
    assert told.tool == (tool and f"NVIDIA Nsight Systems {tool}")
    (trace,) = told.strategies
    assert (trace.strategy, trace.frames) == ("pageable", 3)
    assert [(step.name, step.count) for step in trace.ranges] == [
        ("host:produce", 3),
        ("to-device", 6),
        ("device:add", 3),
        ("to-host", 3),
        ("host:consume", 3),
    ]
    inside = sum(step.seconds * step.count for step in trace.ranges) / 3
    assert 0.5 * trace.frame_seconds < inside <= trace.frame_seconds
    assert trace.activity == Activity()
    assert trace.idle_share is None


# Wrong input


def problem(path: Path) -> FileProblem:
    with pytest.raises(FileProblem) as raised:
        read(path)
    assert raised.value.next_step
    return raised.value


def test_files_that_are_none(tmp_path: Path) -> None:
    assert "does not exist" in problem(tmp_path / "a.sqlite").message
    (tmp_path / "a.sqlite").write_text("hello")
    assert "is not an SQLite file" in problem(tmp_path / "a.sqlite").message
    assert "cannot be read" in problem(tmp_path).message
    connection = sqlite3.connect(tmp_path / "b.sqlite")
    connection.execute("CREATE TABLE people (name TEXT)")
    connection.commit()
    connection.close()
    assert "not an Nsight Systems export" in problem(tmp_path / "b.sqlite").message


@pytest.mark.parametrize("kept", [200, 5000, 20_000])
def test_a_damaged_file(tmp_path: Path, kept: int) -> None:
    whole = pinned(tmp_path / "a.sqlite").read_bytes()
    (tmp_path / "b.sqlite").write_bytes(whole[:kept])
    assert "is damaged" in problem(tmp_path / "b.sqlite").message


def test_a_text_where_a_number_belongs(tmp_path: Path) -> None:
    export = Export(tmp_path / "a.sqlite")
    export.kernel(1, 2, "add")
    export.add("CUPTI_ACTIVITY_KIND_KERNEL", start="soon", end=3)
    assert problem(export.done()).message.endswith(
        "damaged: a value that has to be a number is not one, or is too large"
    )


def newer(path: Path, columns: str) -> FileTrace:
    export = Export(path, schema="9.1.0")
    export.done()
    connection = sqlite3.connect(path)
    connection.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({columns})")
    connection.commit()
    connection.close()
    return read(path)


def test_a_newer_schema_is_read_as_far_as_it_is_known(tmp_path: Path) -> None:
    told = newer(tmp_path / "a.sqlite", "start, end, shortName, globalPid, correlationId")
    assert "newer than this advisor supports (3)" in told.notes[0]
    with pytest.raises(FileProblem, match="tables this advisor does not support"):
        newer(tmp_path / "b.sqlite", "begin, finish")


def test_a_file_in_write_ahead_mode_gets_no_companions(tmp_path: Path) -> None:
    path = pinned(tmp_path / "a.sqlite")
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    made = []
    with opened(path) as database:
        assert database.has("NVTX_EVENTS")
        made = [p.name for p in tmp_path.iterdir()]
    assert made == ["a.sqlite"]
