"""Reports of any program: what is planted is found, what is not there is not; programs traced on an H200."""

from __future__ import annotations

import lzma
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from nsys_exports import TABLES
from planted_programs import KIB, MIB, PROGRAMS, Planted, Program, written
from rendering import Accepted
from running import Command

from advisor.nsys import database
from advisor.nsys.exports import FileTrace, read
from advisor.profiles.programs import ProgramTrace
from advisor.report.pages import render
from advisor.report.traces import trace_page
from advisor.rules.reports import judged
from advisor.workloads.loading import load

NAMED = {planted.name: planted for planted in PROGRAMS}


@cache
def traced(planted: Planted) -> ProgramTrace:
    with TemporaryDirectory() as folder:
        path = written(planted, Path(folder) / "a.sqlite")
        return judged(read(path, planted.frame).program)


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
    assert planted.name != "balanced" or "The same as GPU 0" in text


CARDS = (
    *(
        "NVIDIA H200",
        "NVIDIA GH200 480GB",
        "NVIDIA H200 NVL",
        "NVIDIA GeForce RTX 3090",
        "Tesla V100-SXM2-32GB",
    ),
    *("NVIDIA GeForce RTX 3090 Ti", "NVIDIA A10G", "NVIDIA GH200 144G HBM3e", "NVIDIA GB200"),
    "NVIDIA GeForce RTX 3090 Ti Laptop GPU",
)


def test_a_link_is_claimed_only_of_cards_whose_link_is_certain(tmp_path: Path, accepted: Accepted) -> None:
    """Copies at 27.7 GB/s: 80 % of a link's rate is what copies reach over PCIe, not over NVLink-C2C."""
    text = ""
    for number, card in enumerate(CARDS):
        path = written(replace(NAMED["unknown-card"], device=card), tmp_path / f"{number}.sqlite")
        program = judged(read(path).program)
        link = program.gpus[0].links.get("to-device")
        (finding,) = (one for one in program.advice if one.rule == "link-below-best")
        text += f"{card}: {link and f'{link.bytes_per_second / 1e9:.1f} GB/s, {link.source}'}\n"
        text += f"  {finding.outcome}: {finding.detail}\n"
    accepted(text, "links.txt")


def once_marked(program: Program) -> None:
    """Frames that repeat, all in one range."""
    begin = program.now
    NAMED["unknown-card"].play(program)
    program.range("epoch", begin)


@pytest.mark.parametrize(
    ("play", "instead"),
    [(NAMED["marked"].play, "nothing repeats, so it has no frames"), (once_marked, "what repeats")],
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


COPIES, CALLS = "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_RUNTIME"
CHANGED = {
    "copies alone": (
        "pageable",
        f"DROP TABLE {CALLS}; DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL; DROP TABLE TARGET_INFO_GPU",
    ),
    "copies without bytes, and GPUs without a number": (
        "pageable",
        f"ALTER TABLE {COPIES} DROP COLUMN bytes; UPDATE TARGET_INFO_CUDA_DEVICE SET gpuId = NULL",
    ),
    "one copy takes no time and has no rate, one has no kind of memory; three cannot be read": (
        "half-link",
        f"""UPDATE {COPIES} SET "end" = start WHERE rowid = 20;
        UPDATE {COPIES} SET srcKind = 999 WHERE rowid = 30;
        UPDATE {COPIES} SET start = NULL WHERE rowid = 40;
        UPDATE {COPIES} SET "end" = start - 5 WHERE rowid = 41;
        UPDATE {COPIES} SET bytes = NULL WHERE rowid = 42""",
    ),
    "no correlation ids: copies and calls are not matched": (
        "pageable",
        f"""UPDATE StringIds SET value = 'cudaMemcpy_v3020' WHERE value LIKE 'cudaMemcpyAsync%';
        UPDATE {CALLS} SET correlationId = NULL; UPDATE {COPIES} SET correlationId = NULL""",
    ),
    "no enumerations: directions by CUPTI's numbers, no kinds of memory": (
        "pageable",
        f"""UPDATE {COPIES} SET copyKind = min(copyKind, 2);
        DROP TABLE ENUM_CUDA_MEMCPY_OPER; DROP TABLE ENUM_CUDA_MEM_KIND""",
    ),
}


def test_nothing_is_said_of_what_was_not_recorded_or_cannot_be_read(
    tmp_path: Path, accepted: Accepted
) -> None:
    text = ""
    for name, (planted, script) in CHANGED.items():
        path = written(NAMED[planted], tmp_path / f"{len(text)}.sqlite")
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(script)
        trace = read(path)
        text += "\n".join([f"## {name}", *trace.notes, *(f"absent: {x}" for x in trace.program.absent), ""])
        program = judged(trace.program)
        for gpu in program.gpus:
            flows = gpu.flows and [f"{x.kind} {x.memory} {x.staging_seconds * 1e3:.3g} ms" for x in gpu.flows]
            text += f"{gpu.label}: {gpu.frames and gpu.frames.count} frames, {gpu.waits} waits, {flows}\n"
        text += "".join(f"  {x.rule}: {x.outcome}\n" for x in program.advice)
    accepted(text, "partial-exports.txt")


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


def test_the_command_and_its_gates(tmp_path: Path, command: Command) -> None:
    report = ("trace", written(NAMED["marked"], tmp_path / "a.sqlite"), "--frame")
    done = command(*report, "epoch", "--out", "page")
    assert done.code == 0, done.err
    assert {path.name for path in (tmp_path / "page").iterdir()} >= {"trace.html", "trace.md"}
    for gate, code in (("pageable-transfer", 1), ("pin-per-frame", 0), ("ceiling=1%", 1), ("advise", 2)):
        assert command(*report, "epoch", "--fail-if", gate).code == code, gate
    unjudged = command(*report, "epoch", "--fail-if", "page-fault-migration")
    assert (unjudged.code, "not applicable: nsys recorded no migr" in unjudged.err) == (0, True)
    wrong = command(*report, "epok")
    assert (wrong.code, "has no NVTX range 'epok'; did you mean 'epoch'" in wrong.err) == (2, True)
    told = command(*report, "epoch", "--json", "--out", "page")
    assert FileTrace.model_validate_json(told.out).program
    assert "wrote page/trace.html, trace.md\n" in told.err


def test_backtraces_name_the_function_outside_of_libraries_and_add_no_calls(tmp_path: Path) -> None:
    gpus = []
    for backtraces in (False, True):
        program = Program(tmp_path / f"{backtraces}.sqlite", backtraces=backtraces)
        NAMED["pins"].play(program)
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


def test_two_reports_are_compared_and_gated(tmp_path: Path, command: Command) -> None:
    base, head = (written(NAMED[n], tmp_path / f"{n}.sqlite") for n in ("pageable", "serial"))
    gates = ("--out", "page", "--fail-if", "slower=5%")
    done = command("compare", base, head, *gates, "--fail-if", "pageable-transfer")
    assert done.code == 1, done.err
    assert "gone: pageable-transfer (GPU 0)" in done.out
    assert "Gate slower=5%: failed. GPU 0: the median frame takes 1." in done.out
    assert "Gate pageable-transfer: passed." in done.out
    faster = command("compare", head, base, *gates)
    assert (faster.code, "new: pageable-transfer (GPU 0)" in faster.out) == (0, True)
    for words, refusal in (
        ((base, head, "--frame", "epoch"), "no NVTX range 'epoch'"),
        (("a.json", "b.json", "--frame", "epoch"), "no effect without a report"),
        ((base, "profile.json"), "Give two reports"),
    ):
        wrong = command("compare", *words)
        assert (wrong.code, refusal in wrong.err) == (2, True), wrong.err


@pytest.mark.parametrize("name", ["small", "once", "half-link", "both-ways"])
def test_a_workload_outlined_from_a_report_runs(
    name: str, tmp_path: Path, command: Command, accepted: Accepted
) -> None:
    done = command("new", "mine.py", "--from-trace", written(NAMED[name], tmp_path / "a.sqlite"))
    assert done.code == 0, done.err
    assert load(tmp_path / "mine.py", None, {}).record.name == "mine"
    accepted((tmp_path / "mine.py").read_text(encoding="utf-8"), f"traces/outline-{name}.txt")


# Programs that are not ours, traced on an H200, labelled by hand from their sources: tests/data/nsys

DATA = Path(__file__).parent / "data" / "nsys" / "programs"
WAYS = {"up": "host-to-device", "down": "device-to-host"}
COPY_RULES = ("pageable-transfer", "link-below-best", "small-transfers", "serial-copies")
PAGE_RULES = ("page-fault-migration", "ping-pong-migration")


RULES = {
    "copies": COPY_RULES,
    "transfers": COPY_RULES[:3],
    "pages": PAGE_RULES,
    "pins": ("pin-per-frame",),
    "waits": ("implicit-wait", "host-bound-frame"),
}


def rules(text: str) -> set[str]:
    return {rule for word in text.split() for rule in RULES.get(word, (word,))}


LABELS = """\
mixed: 20; down:pinned up:pageable; pageable-transfer page-fault-migration; transfers pins host-bound-frame
pinloop: 40; down:pinned up:pinned; pin-per-frame; copies pages implicit-wait
small: 30; up:pageable; small-transfers; copies pages pins implicit-wait
overlapped: 60; down:pinned up:pinned; ; copies pages waits pins
serial: 40; down:pinned up:pinned; serial-copies; copies pages waits pins
managed: 25; ; pages; copies waits pins
train: 80; down:pinned up:pageable; ; copies pages pins
trainpin: 80; up:pinned; ; copies pages pins
camera: 40; down:pageable up:pinned; pageable-transfer implicit-wait; copies pages pins
frames: 30; down:pinned up:pinned; serial-copies; copies pages waits pins
asyncapi: 0; down:pinned up:pinned; ; transfers pages pins
multicopy: 20; down:pinned up:pinned; ; transfers pages pins
serialcopy: 20; down:pinned up:pinned; serial-copies; copies pages pins
pageablecopy: 20; down:pageable up:pageable; pageable-transfer; pages pins
managed_add: 0; ; page-fault-migration; copies pages pins
pingpong_add: 21; ; pages; copies pins
superres: 20; down:pinned up:pageable; pageable-transfer; pages pins
nbody: 40; down:pageable; host-bound-frame; copies pages pins
heat: 299; down:pageable; host-bound-frame; copies pages pins
vae: 50; down:pageable down:pinned up:pinned; ; copies pages pins
vae_nopin: 50; down:pageable down:pinned up:pageable; ; pages pins
gan: 30; down:pageable up:pageable; ; pages pins
single_gpu: 128; down:pageable up:pinned; host-bound-frame; copies pins
memcpy: 0; down:pageable down:pinned up:pageable up:pinned; ; pages pins
"""
"""Program, frames (0: none), directions and kinds of host memory of all copies, rules that have to give
advice and, of all others, those that must not. `item()` of PyTorch (train) copies by way of a page-locked
buffer of its own. From asyncapi on: public programs, labelled before they ran; one pass has no frames."""


@cache
def _program(name: str) -> ProgramTrace:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.sqlite"
        path.write_bytes(lzma.decompress((DATA / f"{name}.sqlite.xz").read_bytes()))
        return read(path).program


@pytest.mark.parametrize("label", LABELS.splitlines(), ids=lambda label: label.partition(":")[0])
def test_a_labelled_export(label: str) -> None:
    name, _, facts = label.partition(": ")
    frames, memory, must, never = facts.split(";")
    program = judged(_program(name))
    (gpu,) = program.gpus
    assert gpu.name == "NVIDIA H200"
    assert (gpu.frames.count if gpu.frames else 0) == int(frames)
    flows = gpu.flows or ()
    pairs = (pair.split(":") for pair in memory.split())
    assert {(flow.kind, flow.memory) for flow in flows} == {(WAYS[way], memory) for way, memory in pairs}
    fired = {one.rule for one in program.advice if one.outcome == "advice"}
    promised = {one.rule: one.gain.seconds_per_frame for one in program.advice if one.gain}
    assert gpu.ceiling
    for shared in (COPY_RULES, PAGE_RULES):
        most = sum(promised.get(rule, 0.0) for rule in shared)
        assert most * gpu.units <= gpu.ceiling.seconds * 1.001, "promised twice"
    assert rules(must) - fired == set(), "missing"
    assert fired & (rules(never) - rules(must)) == set(), "wrong"


def test_copies_in_both_directions_take_turns_only_where_the_gpu_has_two_engines() -> None:
    gpu = _program("serialcopy").gpus[0]
    details = {}
    for engines in (gpu.copy_engines, 1, None):
        alone = judged(ProgramTrace(gpus=(gpu.model_copy(update={"copy_engines": engines}),)))
        (details[engines],) = (a for a in alone.advice if a.rule == "serial-copies")
    assert [each.outcome for each in details.values()] == ["advice", "pass", "pass"]
    assert re.search("Copies .*: 3.. µs up, 3.. µs down.* run one after another", details[3].detail)
    (both,) = (a for a in judged(_program("multicopy")).advice if a.rule == "serial-copies")
    assert "overlap for 33 % of the copies" in both.detail


def test_copies_too_short_for_advice_are_told_and_pages_are_promised_once() -> None:
    nopin = render(trace_page(FileTrace(program=judged(_program("vae_nopin")))), "txt")
    assert "Too little for advice: Copies of pageable memory above 64 KiB take 105" in nopin
    pages = render(trace_page(FileTrace(program=judged(_program("pingpong_add")))), "txt")
    assert "already counted above (ping-pong-migration)" in " ".join(pages.split())
