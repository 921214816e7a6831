"""Programs that are not ours, traced on an H200, labelled by hand from their sources: tests/data/nsys."""

from __future__ import annotations

import lzma
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from advisor.nsys.exports import FileTrace, read
from advisor.profiles.programs import ProgramTrace
from advisor.report.pages import render
from advisor.report.traces import trace_page
from advisor.rules.reports import judged

DATA = Path(__file__).parent / "data" / "nsys" / "programs"
UP, DOWN = "host-to-device", "device-to-host"
COPIES = ("pageable-transfer", "link-below-best", "small-transfers", "serial-copies")
PAGES = ("page-fault-migration", "ping-pong-migration")
PIN = ("pin-per-frame",)


@dataclass(frozen=True)
class Labelled:
    name: str
    frames: int | None
    memory: tuple[tuple[str, str], ...]
    """Directions and kinds of host memory of all copies."""
    must: tuple[str, ...]
    never: tuple[str, ...]


LABELS = (
    Labelled(
        "mixed",
        20,
        ((DOWN, "pinned"), (UP, "pageable")),
        ("pageable-transfer", "page-fault-migration"),
        ("link-below-best", "small-transfers", "host-bound-frame", *PIN),
    ),
    Labelled("pinloop", 40, ((DOWN, "pinned"), (UP, "pinned")), PIN, (*COPIES, *PAGES, "implicit-wait")),
    Labelled(
        "small",
        30,
        ((UP, "pageable"),),
        ("small-transfers",),
        ("pageable-transfer", "link-below-best", "serial-copies", "implicit-wait", *PAGES, *PIN),
    ),
    Labelled(
        "overlapped",
        60,
        ((DOWN, "pinned"), (UP, "pinned")),
        (),
        (*COPIES, *PAGES, *PIN, "implicit-wait", "host-bound-frame"),
    ),
    Labelled(
        "serial",
        40,
        ((DOWN, "pinned"), (UP, "pinned")),
        ("serial-copies",),
        (*COPIES[:3], *PAGES, *PIN, "implicit-wait", "host-bound-frame"),
    ),
    Labelled("managed", 25, (), PAGES, (*COPIES, *PIN, "implicit-wait", "host-bound-frame")),
    # item() of PyTorch copies by way of a page-locked buffer of its own.
    Labelled("train", 80, ((DOWN, "pinned"), (UP, "pageable")), (), (*COPIES, *PAGES, *PIN)),
    Labelled("trainpin", 80, ((UP, "pinned"),), (), (*COPIES, *PAGES, *PIN)),
    Labelled(
        "camera",
        40,
        ((DOWN, "pageable"), (UP, "pinned")),
        ("pageable-transfer", "implicit-wait"),
        ("link-below-best", "small-transfers", "serial-copies", *PAGES, *PIN),
    ),
    Labelled(
        "frames",
        30,
        ((DOWN, "pinned"), (UP, "pinned")),
        ("serial-copies",),
        (*COPIES[:3], *PAGES, *PIN, "implicit-wait", "host-bound-frame"),
    ),
    # Public programs; labelled before they ran. One pass has no frames.
    Labelled("asyncapi", None, ((DOWN, "pinned"), (UP, "pinned")), (), (*COPIES[:3], *PAGES, *PIN)),
    Labelled("multicopy", 20, ((DOWN, "pinned"), (UP, "pinned")), (), (*COPIES[:3], *PAGES, *PIN)),
    Labelled(
        "serialcopy", 20, ((DOWN, "pinned"), (UP, "pinned")), ("serial-copies",), (*COPIES[:3], *PAGES, *PIN)
    ),
    Labelled(
        "pageablecopy", 20, ((DOWN, "pageable"), (UP, "pageable")), ("pageable-transfer",), (*PAGES, *PIN)
    ),
    Labelled("managed_add", None, (), ("page-fault-migration",), ("ping-pong-migration", *COPIES, *PIN)),
    Labelled("pingpong_add", 21, (), PAGES, (*COPIES, *PIN)),
    Labelled("superres", 20, ((DOWN, "pinned"), (UP, "pageable")), ("pageable-transfer",), (*PAGES, *PIN)),
    Labelled("nbody", 40, ((DOWN, "pageable"),), ("host-bound-frame",), (*COPIES, *PAGES, *PIN)),
    Labelled("heat", 299, ((DOWN, "pageable"),), ("host-bound-frame",), (*COPIES, *PAGES, *PIN)),
    Labelled("vae", 50, ((DOWN, "pageable"), (DOWN, "pinned"), (UP, "pinned")), (), (*COPIES, *PAGES, *PIN)),
    Labelled("vae_nopin", 50, ((DOWN, "pageable"), (DOWN, "pinned"), (UP, "pageable")), (), (*PAGES, *PIN)),
    Labelled("gan", 30, ((DOWN, "pageable"), (UP, "pageable")), (), (*PAGES, *PIN)),
    Labelled("single_gpu", 128, ((DOWN, "pageable"), (UP, "pinned")), ("host-bound-frame",), (*COPIES, *PIN)),
    Labelled(
        "memcpy",
        None,
        tuple((way, memory) for way in (DOWN, UP) for memory in ("pageable", "pinned")),
        (),
        (*PAGES, *PIN),
    ),
)


@cache
def _program(name: str) -> ProgramTrace:
    with TemporaryDirectory() as folder:
        program = read(_export(name, Path(folder) / "a.sqlite")).program
    assert program
    return program


def _export(name: str, path: Path) -> Path:
    path.write_bytes(lzma.decompress((DATA / f"{name}.sqlite.xz").read_bytes()))
    return path


@pytest.mark.parametrize("label", LABELS, ids=lambda label: label.name)
def test_a_labelled_export(label: Labelled) -> None:
    program = judged(_program(label.name))
    (gpu,) = program.gpus
    assert gpu.name == "NVIDIA H200"
    assert (gpu.frames.count if gpu.frames else None) == label.frames
    flows = gpu.flows or ()
    assert {(flow.kind, flow.memory) for flow in flows} == set(label.memory)
    fired = {one.rule for one in program.advice if one.outcome == "advice"}
    promised = {one.rule: one.gain.seconds_per_frame for one in program.advice if one.gain}
    assert gpu.ceiling
    for shared in (COPIES, PAGES):
        most = sum(promised.get(rule, 0.0) for rule in shared)
        assert most * gpu.units <= gpu.ceiling.seconds * 1.001, "promised twice"
    assert set(label.must) - fired == set(), "missing"
    assert fired & set(label.never) == set(), "wrong"


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
