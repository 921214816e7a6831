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
WAYS = {"up": "host-to-device", "down": "device-to-host"}
COPIES = ("pageable-transfer", "link-below-best", "small-transfers", "serial-copies")
PAGES = ("page-fault-migration", "ping-pong-migration")


@dataclass(frozen=True)
class Labelled:
    """Rules that have to give advice and, of all others, those that must not, separated by spaces.

    memory: directions and kinds of host memory of all copies.
    """

    name: str
    frames: int | None
    memory: str
    must: str
    never: str


RULES = {
    "copies": COPIES,
    "transfers": COPIES[:3],
    "pages": PAGES,
    "pins": ("pin-per-frame",),
    "waits": ("implicit-wait", "host-bound-frame"),
}


def rules(text: str) -> set[str]:
    return {rule for word in text.split() for rule in RULES.get(word, (word,))}


LABELS = (
    Labelled(
        "mixed",
        20,
        "down:pinned up:pageable",
        "pageable-transfer page-fault-migration",
        "transfers pins host-bound-frame",
    ),
    Labelled("pinloop", 40, "down:pinned up:pinned", "pin-per-frame", "copies pages implicit-wait"),
    Labelled("small", 30, "up:pageable", "small-transfers", "copies pages pins implicit-wait"),
    Labelled("overlapped", 60, "down:pinned up:pinned", "", "copies pages waits pins"),
    Labelled("serial", 40, "down:pinned up:pinned", "serial-copies", "copies pages waits pins"),
    Labelled("managed", 25, "", "pages", "copies waits pins"),
    # item() of PyTorch copies by way of a page-locked buffer of its own.
    Labelled("train", 80, "down:pinned up:pageable", "", "copies pages pins"),
    Labelled("trainpin", 80, "up:pinned", "", "copies pages pins"),
    Labelled("camera", 40, "down:pageable up:pinned", "pageable-transfer implicit-wait", "copies pages pins"),
    Labelled("frames", 30, "down:pinned up:pinned", "serial-copies", "copies pages waits pins"),
    # Public programs; labelled before they ran. One pass has no frames.
    Labelled("asyncapi", None, "down:pinned up:pinned", "", "transfers pages pins"),
    Labelled("multicopy", 20, "down:pinned up:pinned", "", "transfers pages pins"),
    Labelled("serialcopy", 20, "down:pinned up:pinned", "serial-copies", "copies pages pins"),
    Labelled("pageablecopy", 20, "down:pageable up:pageable", "pageable-transfer", "pages pins"),
    Labelled("managed_add", None, "", "page-fault-migration", "copies pages pins"),
    Labelled("pingpong_add", 21, "", "pages", "copies pins"),
    Labelled("superres", 20, "down:pinned up:pageable", "pageable-transfer", "pages pins"),
    Labelled("nbody", 40, "down:pageable", "host-bound-frame", "copies pages pins"),
    Labelled("heat", 299, "down:pageable", "host-bound-frame", "copies pages pins"),
    Labelled("vae", 50, "down:pageable down:pinned up:pinned", "", "copies pages pins"),
    Labelled("vae_nopin", 50, "down:pageable down:pinned up:pageable", "", "pages pins"),
    Labelled("gan", 30, "down:pageable up:pageable", "", "pages pins"),
    Labelled("single_gpu", 128, "down:pageable up:pinned", "host-bound-frame", "copies pins"),
    Labelled("memcpy", None, "down:pageable down:pinned up:pageable up:pinned", "", "pages pins"),
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
    pairs = (pair.split(":") for pair in label.memory.split())
    assert {(flow.kind, flow.memory) for flow in flows} == {(WAYS[way], memory) for way, memory in pairs}
    fired = {one.rule for one in program.advice if one.outcome == "advice"}
    promised = {one.rule: one.gain.seconds_per_frame for one in program.advice if one.gain}
    assert gpu.ceiling
    for shared in (COPIES, PAGES):
        most = sum(promised.get(rule, 0.0) for rule in shared)
        assert most * gpu.units <= gpu.ceiling.seconds * 1.001, "promised twice"
    assert rules(label.must) - fired == set(), "missing"
    assert fired & (rules(label.never) - rules(label.must)) == set(), "wrong"


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
