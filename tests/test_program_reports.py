"""Reports of any program: what is planted is found, what is not there is not."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from nsys_exports import TABLES, Export
from planted_programs import KIB, MIB, PROGRAMS, Planted, Program, marked, pins_in_loop, written
from running import advisor

from advisor.nsys import database
from advisor.nsys.exports import FileTrace, read
from advisor.profiles.programs import ProgramTrace
from advisor.report.pages import render
from advisor.report.traces import trace_page
from advisor.rules.reports import judged
from advisor.workloads.loading import load

DATA = Path(__file__).parent / "data" / "nsys"
NAMED = {planted.name: planted for planted in PROGRAMS}


@cache
def traced(planted: Planted) -> ProgramTrace:
    with TemporaryDirectory() as folder:
        path = written(planted, Path(folder) / "a.sqlite")
        return judged(read(path, planted.frame).program)


def changed(name: str, folder: Path, *statements: str) -> FileTrace:
    """The trace of an export of that program after those changes to its tables."""
    path = written(NAMED[name], folder / "a.sqlite")
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(";".join(statements))
    return read(path)


def outcomes(program: ProgramTrace) -> dict[str, str]:
    return {advice.rule: advice.outcome for advice in judged(program).advice}


@pytest.mark.parametrize("planted", PROGRAMS, ids=lambda planted: planted.name)
def test_planted_problems_are_found_and_no_others_and_are_on_the_page(planted: Planted) -> None:
    program = traced(planted)
    assert {one.rule for one in program.advice if one.outcome == "advice"} == planted.fires
    assert not [one for one in program.advice if one.outcome == "error"]
    assert [gpu.label for gpu in program.gpus] == [f"GPU {n}" for n in range(planted.gpus)]
    for gpu in program.gpus:
        assert (gpu.frames and gpu.frames.count) == planted.frames
        if planted.memory is not None:
            memory = {flow.memory for flow in gpu.flows or ()}
            assert memory == ({planted.memory} if planted.memory else set())
        own = [one for one in program.advice if one.device == gpu.label and one.gain]
        promised = sum(one.gain.seconds_per_frame or 0.0 for one in own if one.gain) * gpu.units
        assert promised <= gpu.ceiling.seconds * 1.001, "more than memory can change"
    page = trace_page(FileTrace(program=program, tool="nsys"), "app.sqlite")
    text, html, markdown = (render(page, form) for form in ("txt", "html", "md"))
    assert text.startswith("app.sqlite (nsys)\n")
    assert not re.search(' id="[^"]* ', html), "an id with a space cannot be referred to"
    assert max(map(len, text.splitlines())) <= 80
    assert len(text.splitlines()) <= 22
    assert "Memory can change about" in text
    assert not [rule for rule in planted.fires if not (rule in text and rule in html and rule in markdown)]


@pytest.mark.parametrize(
    ("card", "rate", "source"),
    [
        ("NVIDIA H200", 55.4e9, "the catalogue's H200 SXM"),
        ("NVIDIA GH200 480GB", 377e9, "the catalogue's GH200 96GB"),
        ("NVIDIA H200 NVL", 50.4e9, "80 % of PCIe 5 x16"),
        ("NVIDIA GeForce RTX 3090", 25.2e9, "80 % of the link of GeForce RTX 3090"),
        ("NVIDIA GeForce RTX 3090 Ti", 25.2e9, "80 % of PCIe 4 x16"),
        ("Tesla V100-SXM2-32GB", 12.6e9, "80 % of PCIe 3 x16"),
        ("NVIDIA A10G", None, ""),
        ("NVIDIA GH200 144G HBM3e", None, ""),
        ("NVIDIA GB200", None, ""),  # 80 % is what copies reach over PCIe, not over NVLink-C2C
        ("NVIDIA GeForce RTX 3090 Ti Laptop GPU", None, ""),
    ],
)
def test_a_link_is_claimed_only_of_cards_whose_link_is_certain(
    card: str, rate: float | None, source: str, tmp_path: Path
) -> None:
    path = written(replace(NAMED["unknown-card"], device=card), tmp_path / "a.sqlite")
    program = read(path).program
    (gpu,) = program.gpus
    link = gpu.links.get("to-device")
    assert (link and link.bytes_per_second, link.source if link else "") == (pytest.approx(rate), source)
    (finding,) = (one for one in judged(program).advice if one.rule == "link-below-best")
    if rate is None:
        assert finding.outcome == "not-applicable"
        assert f"the link of {card} is known" in finding.detail
    else:
        assert (finding.outcome == "advice") == (0.7 * rate > 27.7e9)


def once_marked(program: Program) -> None:
    """Frames that repeat, all in one range."""
    begin = program.now
    NAMED["unknown-card"].play(program)
    program.range("epoch", begin)


@pytest.mark.parametrize(
    ("play", "instead"), [(marked, "nothing repeats, so it has no frames"), (once_marked, "what repeats")]
)
def test_a_process_without_the_named_range_is_noted(
    play: Callable[[Program], None], instead: str, tmp_path: Path
) -> None:
    path = written(replace(NAMED["marked"], play=play), tmp_path / "a.sqlite")
    assert read(path, "epoch").notes == ()
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY"):
            connection.execute(f"CREATE TABLE other AS SELECT * FROM {table}")
            connection.execute("UPDATE other SET globalPid = globalPid + (1 << 24)")
            connection.execute(f"INSERT INTO {table} SELECT * FROM other")
            connection.execute("DROP TABLE other")
    (note,) = read(path, "epoch").notes
    pattern = rf"GPU 0 \(process \d+\): its process has no NVTX range 'epoch'; .*{instead}\."
    assert re.fullmatch(pattern, note)
    assert read(path).notes == ()


def test_two_gpus_that_do_the_same_are_told_once(tmp_path: Path) -> None:
    text = render(trace_page(FileTrace(program=traced(NAMED["balanced"]))), "txt")
    assert "The same as GPU 0" in text
    assert len(text.splitlines()) <= 22


def test_what_the_h200_did_is_seen_as_that_of_any_program() -> None:
    """By real nsys: the advisor's own frames, read by their NVTX range."""
    fired = {}
    for name in ("pageable", "pinned", "zero-copy", "managed"):
        program = read(DATA / f"h200-{name}.sqlite", "frame").program
        assert program
        fired[name] = {one.rule for one in judged(program).advice if one.outcome == "advice"}
        (gpu,) = judged(program).gpus
        assert gpu.frames.count == (2 if name == "managed" else 8)
    assert fired["pageable"] == {"pageable-transfer"}
    assert fired["pinned"] == set()
    assert "page-fault-migration" in fired["managed"]
    assert not fired["zero-copy"] & {"pageable-transfer", "serial-copies", "host-bound-frame"}


def test_nothing_is_said_of_what_was_not_recorded(tmp_path: Path) -> None:
    export = Export(tmp_path / "a.sqlite")
    for index in range(5):
        export.copy(
            index * 10_000_000, index * 10_000_000 + 9_000_000, 1 << 26, "HTOD", "PAGEABLE", "_DEVICE"
        )
    program = read(export.done()).program
    (gpu,) = program.gpus
    assert (gpu.host, gpu.waits) == (None, None)
    judgements = outcomes(program)
    assert judgements["pageable-transfer"] == "advice"
    assert {rule for rule, outcome in judgements.items() if outcome == "not-applicable"} >= {
        "implicit-wait",
        "pin-per-frame",
        "page-fault-migration",
        "link-below-best",
    }
    assert program.absent["CUDA calls of the host"] == "--trace=cuda"


def test_a_table_without_a_column_is_no_evidence_and_null_gpus_are_left_out(tmp_path: Path) -> None:
    trace = changed(
        "pageable",
        tmp_path,
        "ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY DROP COLUMN bytes",
        "UPDATE TARGET_INFO_CUDA_DEVICE SET gpuId = NULL",
    )
    assert trace.notes == ("CUPTI_ACTIVITY_KIND_MEMCPY was skipped: it has no column bytes.",)
    (gpu,) = trace.program.gpus
    assert (gpu.label, gpu.flows) == ("GPU 0", None)
    judgements = outcomes(trace.program)
    assert judgements["pageable-transfer"] == judgements["serial-copies"] == "not-applicable"


def test_rows_that_cannot_be_read_are_left_out_and_counted(tmp_path: Path) -> None:
    copies = "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET"
    trace = changed(
        "half-link",
        tmp_path,
        f'{copies} "end" = start WHERE rowid = 20',  # kept, and no rate
        f"{copies} start = NULL WHERE rowid = 40",
        f'{copies} "end" = start - 5 WHERE rowid = 41',
        f"{copies} bytes = NULL WHERE rowid = 42",
    )
    assert trace.notes[0].startswith("Rows of CUPTI_ACTIVITY_KIND_MEMCPY skipped: 3 (")
    assert outcomes(trace.program)["link-below-best"] == "advice"


def test_frames_that_nvtx_marks_say_how_many_are_alike() -> None:
    frames = {each.name: traced(each).gpus[0].frames for each in PROGRAMS if each.frame}
    assert {name: each and each.alike for name, each in frames.items()} == {
        "marked": pytest.approx(1 / 14),
        "nested": 1,
    }


def test_what_two_gpus_do_is_not_mixed() -> None:
    problems, parallel = (traced(NAMED[name]).gpus for name in ("two-problems", "data-parallel"))
    kinds = [[{flow.memory for flow in gpu.flows or ()} for gpu in gpus] for gpus in (problems, parallel)]
    assert kinds == [[{"pageable"}, {"pinned"}], [{"pinned", "device"}, {"device"}]]
    assert [gpu.both_seconds for gpu in parallel] == [0, 0]
    waiting = parallel[1]
    assert waiting.removable_seconds < (waiting.idle_in_calls_seconds or 0.0), "GPU 0 works meanwhile"


def test_without_correlation_ids_copies_and_calls_are_not_matched(tmp_path: Path) -> None:
    (gpu,) = changed(
        "pageable",
        tmp_path,
        "UPDATE StringIds SET value = 'cudaMemcpy_v3020' WHERE value LIKE 'cudaMemcpyAsync%'",
        "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET correlationId = NULL",
        "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET correlationId = NULL",
    ).program.gpus
    assert [flow.staging_seconds for flow in gpu.flows or ()] == [0, 0]
    assert gpu.waits == 0


def test_each_table_and_each_column_that_is_read_may_be_missing(tmp_path: Path) -> None:
    program, path = Program(tmp_path / "whole.sqlite", gpus=2, backtraces=True), tmp_path / "a.sqlite"
    for _ in range(4):
        begin = program.now
        program.copy("HTOD", MIB, "PAGEABLE")
        program.stalled_kernel("step", 128 * KIB)
        program.copy("PTOP", MIB, "_DEVICE", gpu=1)
        program.export.cpu_fault(program.now)
        program.wait()
        program.range("frame", begin)
    program.export.allocation(MIB, "MANAGED")
    whole = program.done().read_bytes()
    sources = "".join(
        file.read_text(encoding="utf-8") for file in Path(database.__file__).parent.glob("*.py")
    )
    for table in TABLES:
        for column in ("", *(each for each in TABLES[table].split() if f'"{each}"' in sources)):
            path.write_bytes(whole)
            connection = sqlite3.connect(path)
            connection.execute("PRAGMA synchronous = OFF")
            if (table,) in connection.execute("SELECT name FROM sqlite_master"):
                drop = f"ALTER TABLE {table} DROP COLUMN {column}" if column else f"DROP TABLE {table}"
                connection.execute(drop)
                connection.commit()
                trace = read(path, None if table in ("NVTX_EVENTS", "StringIds") else "frame").program
                assert trace, (table, column)
                assert not [one for one in judged(trace).advice if one.outcome == "error"]
            connection.close()


def test_the_command_and_its_gates(tmp_path: Path) -> None:
    written(NAMED["marked"], tmp_path / "a.sqlite")
    done = advisor("trace", "a.sqlite", "--frame", "epoch", "--out", "page", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "page").iterdir()} >= {"trace.html", "trace.md"}
    for gate, code in (("pageable-transfer", 1), ("pin-per-frame", 0), ("ceiling=1%", 1), ("advise", 2)):
        failed = advisor("trace", "a.sqlite", "--frame", "epoch", "--fail-if", gate, cwd=tmp_path)
        assert failed.returncode == code, failed.stderr
    wrong = advisor("trace", "a.sqlite", "--frame", "epok", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "has no NVTX range 'epok'; did you mean 'epoch'" in wrong.stderr
    printed = advisor("trace", "a.sqlite", "--frame", "epoch", "--json", cwd=tmp_path)
    assert FileTrace.model_validate_json(printed.stdout).program


def test_backtraces_name_the_function_outside_of_libraries_and_add_no_calls(tmp_path: Path) -> None:
    gpus = []
    for backtraces in (False, True):
        program = Program(tmp_path / f"{backtraces}.sqlite", backtraces=backtraces)
        pins_in_loop(program)
        trace = read(program.done()).program
        gpus += trace.gpus
    plain, traced = gpus
    assert traced.flows[0].where == "load_cudaMemcpyAsync (app)"
    assert {each.work: each.where for each in traced.host or ()}[
        "waits"
    ] == "load_cudaDeviceSynchronize (app)"
    assert [each.count for each in traced.host or ()] == [each.count for each in plain.host or ()]
    assert (traced.waits, traced.frames) == (plain.waits, plain.frames)
    connection = sqlite3.connect(tmp_path / "True.sqlite")
    connection.execute("DELETE FROM StringIds WHERE value = '/home/me/app'")
    connection.commit()
    connection.close()
    (unnamed,) = read(tmp_path / "True.sqlite").program.gpus
    assert unnamed.flows[0].where == "load_cudaMemcpyAsync"
    page = trace_page(FileTrace(program=judged(ProgramTrace(gpus=(traced,)))))
    assert "called from load_cudaHostUnregister (app)" in " ".join(render(page, "txt").split())


def test_two_reports_are_compared_and_gated(tmp_path: Path) -> None:
    for name, version in (("pageable", "base"), ("serial", "head")):
        written(NAMED[name], tmp_path / f"{version}.sqlite")
    both = ("base.sqlite", "head.sqlite", "--out", "page")
    done = advisor("compare", *both, "--fail-if", "slower=5%", "--fail-if", "pageable-transfer", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "gone: pageable-transfer (GPU 0)" in done.stdout
    assert "Gate slower=5%: failed. GPU 0: a frame takes 1." in done.stdout
    assert "Gate pageable-transfer: passed." in done.stdout
    faster = advisor("compare", *both[1::-1], *both[2:], "--fail-if", "slower=5%", cwd=tmp_path)
    assert (faster.returncode, "new: pageable-transfer (GPU 0)" in faster.stdout) == (0, True)
    unknown = advisor("compare", *both, "--frame", "epoch", cwd=tmp_path)
    assert (unknown.returncode, "no NVTX range 'epoch'" in unknown.stderr) == (2, True)
    needless = advisor("compare", "a.json", "b.json", "--frame", "epoch", cwd=tmp_path)
    assert (needless.returncode, "no effect without a report" in needless.stderr) == (2, True)
    mixed = advisor("compare", "base.sqlite", "profile.json", cwd=tmp_path)
    assert (mixed.returncode, "Give two reports" in mixed.stderr) == (2, True)


@pytest.mark.parametrize("name", ["small", "once"])
def test_a_workload_outlined_from_a_report_runs(name: str, tmp_path: Path) -> None:
    written(NAMED[name], tmp_path / "a.sqlite")
    done = advisor("new", "mine.py", "--from-trace", "a.sqlite", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    outline = load(tmp_path / "mine.py", None, {})
    sizes = sorted(buffer.bytes for buffer in outline.record.buffers)
    assert sizes == {"small": [4, 60 * 4 * KIB], "once": [128 * MIB, 256 * MIB]}[name]


def test_without_the_enumerations_directions_are_known_and_kinds_of_memory_are_not(tmp_path: Path) -> None:
    program = changed(
        "pageable",
        tmp_path,
        # As by nsys itself, whose numbers of directions are CUPTI's.
        "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET copyKind = min(copyKind, 2)",
        "DROP TABLE ENUM_CUDA_MEMCPY_OPER",
        "DROP TABLE ENUM_CUDA_MEM_KIND",
    ).program
    (gpu,) = program.gpus
    assert {(flow.kind, flow.memory) for flow in gpu.flows or ()} == {
        ("host-to-device", "unknown"),
        ("device-to-host", "unknown"),
    }
    assert gpu.frames.count == 20
    judgements = outcomes(program)
    assert judgements["pageable-transfer"] == judgements["link-below-best"] == "not-applicable"
