"""The workload API: what its parts accept, how they are bound to buffers, what they say of anything else."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import builders
import numpy as np
import pytest
from every import every
from field import Concluded
from rendering import Accepted, refusals

import advisor
from advisor.profiles.schema import Profile
from advisor.report import pages
from advisor.rules.advise import conclude_again
from advisor.strategies.schedule import StageUse
from advisor.workloads.binding import BoundStage, BoundWorkload, bind
from advisor.workloads.definition import (
    RESERVED,
    Access,
    Buffer,
    In,
    InOut,
    Out,
    Stage,
    Workload,
    device,
    host,
    repeat,
    workload,
)
from advisor.workloads.loading import load
from advisor.workloads.stage_code import samples_textures


def produce(a: Out) -> None:
    a.fill(1)


def consume(a: In) -> None:
    a.sum()


BUFFERS = {"a": Buffer(4, np.float32)}


def test_a_buffer_has_dimensions_and_an_element() -> None:
    assert Buffer(4, np.float32).dimensions == (4,)
    assert Buffer([2, 3], "u1").dimensions == (2, 3)
    assert Buffer(np.int64(5), float).dimensions == (5,)
    assert Buffer((np.int32(5), 2), ">i2").element == np.dtype(">i2")
    assert Buffer(1, [("x", "f4"), ("y", "i4")]).element.itemsize == 8
    assert all(type(n) is int for n in Buffer((np.int32(5), np.uint8(2)), "f4").dimensions)


def test_stages() -> None:
    assert host(produce) == Stage(produce, "host")
    assert (host(produce).name, host(functools.partial(produce)).name) == ("produce", "partial")
    assert (device(produce).passes, device(produce).flops) == ({}, None)
    stage = device(produce, cpu=consume, passes={"a": np.int64(8), "b": np.float32(0.5)}, flops=np.int32(10))
    assert (stage.side, stage.cpu, stage.passes, stage.flops) == ("device", consume, {"a": 8, "b": 0.5}, 10)


# What is wrong with a definition


async def coroutine(a: In) -> None: ...
def generator(a: In) -> Any:
    yield


async def asynchronous(a: In) -> Any:
    yield


def plain(a: In) -> None: ...
def two(xp: Any, a: In, b: Out) -> None: ...
def otherwise(a: In, b: InOut) -> None: ...
def step(a: InOut, done: Out) -> None: ...
def idle(a: InOut, done: In) -> None: ...
def reads(tmp: In) -> None: ...


BOTH = {"a": Buffer((2, 3), np.float32), "b": Buffer((2, 3), np.float32)}
SCRATCH = {"tmp": Buffer(4, np.float32, scratch=True)}
LENGTHS = {
    "count": Buffer(1, "i4"),
    "real": Buffer(1, "f4"),
    "pair": Buffer(2, "i4"),
    "sized": Buffer(1, "i4", valid="count"),
    "hidden": Buffer(1, "i4", scratch=True),
}
FLAGS = {"done": Buffer(1, "?"), "word": Buffer(1, "S4"), "own": Buffer(1, "?", scratch=True)}


def framed(buffers: Any = BUFFERS, frame: Any = None, **parts: Any) -> Workload:
    return Workload(buffers, frame=[host(produce)] if frame is None else frame, **parts)


def shaped(shape: Any, dtype: Any = np.float32, **facts: bool) -> Workload:
    return framed({"image": Buffer(shape, dtype, **facts)})


def stage(signature: str) -> Callable[..., object]:
    exec(f"def stage({signature}): ...", scope := {**globals()})
    made: Callable[..., object] = scope["stage"]
    return made


def bound(*stages: Stage, buffers: Any = None, **parts: Any) -> BoundWorkload:
    return bind(Workload({**BOTH, **(buffers or {})}, frame=stages, **parts))


def sized(valid: Any) -> Workload:
    return framed({**LENGTHS, "data": Buffer(8, "f4", valid=valid)})


def looped(stages: Any, **given: Any) -> None:
    bind(Workload({**BUFFERS, **FLAGS}, [repeat(stages, **{"until": "done", "at_most": 3, **given})]))


NUMBERS = "-1; float('nan'); float('inf'); '8'; True"
NO_FUNCTION = "None; 3; 'produce'"
NO_STAGES = "host(produce); 3; 'produce'; [host(produce), consume]"
DEFERRED = "coroutine; generator; asynchronous; functools.partial(coroutine)"
REFUSED = {
    "shaped(?)": "(); 2.0; '4'; None; True; (3, True); [[4]]; {4}; 0; -1; (4, 0); 1 << 61; (1 << 40,) * 2",
    "shaped(4, ?)": "None; object; 'nonsense'; 7; 'V0'; 'U0'; [('x', object)]; '(2,)f4'",
    "shaped(4, external=True, scratch=True)": "",
    "device(produce, passes=?)": "8; {'flops': -1}",
    "device(produce, passes={'a': ?})": f"{NUMBERS}; None; [1]",
    "device(produce, flops=?)": NUMBERS,
    "device(produce, cpu=?)": "3",
    "device(produce, gpu=?)": "-1; True; '1'; 99",
    "device(produce, arrays=?)": "'pytorch'",
    "host(produce, arrays=?)": "'pytorch'",
    "host(produce, every=?)": "0; 2.0; '10'; True",
    "host(?)": NO_FUNCTION,
    "device(?)": NO_FUNCTION,
    "workload(?)": NO_FUNCTION,
    "framed(?)": "{}; None; [BUFFERS['a']]; {'a b': BUFFERS['a']}; {1: BUFFERS['a']}; {'a': 3}",
    "framed({'?': BUFFERS['a']})": "; ".join(RESERVED),
    "framed(frame=?)": f"{NO_STAGES}; []",
    "framed(setup=?)": f"{NO_STAGES}; None",
    "framed(setup=[?])": "repeat([STEP], until='done', at_most=3)",
    "framed(check=?)": "3",
    "framed(ignore=?)": "'pageable-transfer'; [1]",
    "framed({f'b{n}': BUFFERS['a'] for n in range(2001)})": "",
    "framed(frame=[host(print, every=n) for n in ?])": "(2, 4); (1, 97, 101)",
    "framed(frame=[device(produce), device(produce, gpu=2)])": "",
    "sized(?)": "'cuont'; 3; 'real'; 'pair'; 'sized'; 'hidden'",
    'bound(host(stage("?")))': "imag: In; fram: int; qqq: int; *buffers: In; **buffers: In; a: In, /; gpu; "
    "a; a: int; a: np.ndarray; a: Missing; a: host; a: 'In | Out'; a: In[list]",
    "bound(host(stage('a: In[?]')))": "::2; 8; 0, 0, 0; ..., ...; 5:5; 0, True",
    "bound(host(?))": f"type; {DEFERRED}",
    "bound(device(?))": DEFERRED,
    "bound(device(plain, cpu=?))": DEFERRED,
    "bound(device(two, cpu=?))": "plain; otherwise; lambda: None",
    "bound(device(plain, passes={'b': 2}))": "",
    "bound(host(stage('a: Out')), check=stage('a: In, b: In'))": "",
    "bound(device(stage('tmp: Out')), ?, buffers=SCRATCH)": "host(reads); device(reads, gpu=1)",
    "looped([?])": "step; STEP, repeat([STEP], until='done', at_most=3); host(step, every=2); host(idle)",
    "looped(?)": "[]; STEP",
    "looped([STEP], ?)": "at_most=0; at_most=1_000_001; until='don'; until='word'; until='own'; until=3",
}
"""A call, and values in the place of its question mark."""
STEP = host(step)


def test_what_is_wrong_is_refused_with_the_next_step(accepted: Accepted) -> None:
    texts = [call.replace("?", value) for call, values in REFUSED.items() for value in values.split("; ")]
    calls = {text: partial(eval, text, globals()) for text in texts}
    accepted(re.sub(r"[.]py:\d+|0x\w+", "…", refusals(calls)), "definitions-refused.txt")


# Bound to buffers. The annotations of this file are strings; those of `unstringed` are objects.


def plainly(a: In, b: InOut) -> None: ...
def qualified(a: advisor.In, b: advisor.InOut) -> None: ...
def spelled_out(a: Annotated[np.ndarray, "x", Access("in")], b: Annotated[Any, Access("inout")]) -> None: ...


exec(compile("def unstringed(a: In, b: InOut): ...", "", "exec", dont_inherit=True))
unstringed: Any = globals()["unstringed"]


@functools.wraps(plainly)
def wrapped(*arguments: Any, **keywords: Any) -> None: ...


class Instance:
    def __call__(self, a: In, b: InOut) -> None: ...

    def method(self, a: In, b: InOut) -> None: ...


@every(
    "function",
    [
        plainly,
        qualified,
        spelled_out,
        unstringed,
        wrapped,
        functools.partial(unstringed),
        Instance(),
        Instance().method,
    ],
)
def test_however_annotations_are_written(function: Callable[..., object]) -> None:
    assert bound(host(function)).frame[0].access == {"a": "in", "b": "inout"}


def test_what_is_close_to_what_is_refused_is_bound() -> None:
    assert bound(device(stage("tmp: Out")), buffers=SCRATCH).frame[0].access == {"tmp": "out"}
    assert bound(device(stage("a: In"), passes={"a": 2})).frame[0].record().passes == {"a": 2.0}
    both = bound(host(stage("a: Out")), setup=[host(stage("b: Out"))], check=stage("a: In, b, frame")).check
    assert (both.access, both.specials, both.side) == ({"a": "in", "b": "in"}, {"frame"}, "host")
    assert bound(host(stage("a: Out"))).check is None


def test_the_cpu_twin_takes_the_same_buffers() -> None:
    same = stage("b, a, frame")
    twin = bound(device(two, cpu=same)).frame[0]
    assert twin.access == {"a": "in", "b": "out"}
    for cpu, function, special in ((True, same, "frame"), (False, two, "xp")):
        chosen, parameters = twin.implementation(cpu=cpu)
        assert (chosen, parameters.specials) == (function, {special})


def test_what_the_schedule_and_the_profile_get() -> None:
    out, raw = stage("b: Out"), {"raw": Buffer(5, "u2", external=True)}
    kernel = device(stage("xp, a: In, b: Out, rng, frame, stream"), flops=3)
    workload = bound(host(out), kernel, setup=[host(out)], buffers=raw)
    assert [(s.name, s.phase) for s in workload.stages] == [
        ("stage", "setup"), ("stage-2", "frame"), ("stage-3", "frame"),
    ]  # fmt: skip
    assert [each.specials for each in workload.frame] == [set(), {"xp", "rng", "frame", "stream"}]
    assert workload.frame[1].use == StageUse("stage-3", "device", {"a": "in", "b": "out"})
    assert [(s.side, s.flops) for s in map(BoundStage.record, workload.frame)] == [
        ("host", None),
        ("device", 3),
    ]
    records = {r.name: r for r in workload.buffer_records()}
    assert (records["a"].shape, records["a"].dtype, records["a"].bytes) == ((2, 3), "float32", 24)
    assert records["b"].access == {"stage": "out", "stage-2": "out", "stage-3": "out"}
    assert (records["raw"].bytes, records["raw"].external, records["raw"].scratch) == (10, True, False)


def test_a_definition_stays_a_function() -> None:
    @workload
    def sample(n: int = 3, *, m: int = 4) -> tuple[int, int]:
        """First line.

        More.
        """
        return n, m

    assert (sample.name, sample.summary, sample(5, m=6)) == ("sample", "First line.", (5, 6))
    plain = workload(functools.partial(produce))
    assert (plain.name, workload(lambda: None).summary) == ("partial", "")


# Stages that sample through textures


SOURCE = 'extern "C" __global__ void f(cudaTextureObject_t t, float* y) { y[0] = tex2D<float>(t, 0, 0); }'
KERNEL = advisor.kernel(SOURCE, "f")
PLAIN = advisor.kernel('extern "C" __global__ void g(float* y) { int vtex2D = 0; y[0] = (vtex2D); }', "g")


def by_a_source(y: Any, xp: Any) -> None:
    xp.RawKernel(SOURCE, "f")((1,), (1,), (y,))


def by_a_helper(y: Any) -> None:
    KERNEL(y)


def by_an_object(y: Any) -> None:
    def inner() -> Any:
        from cupy.cuda import texture

        return texture.TextureObject(None, None)

    inner()


def by_itself_again(y: Any) -> None:
    by_itself_again(y) if y is None else by_a_helper(y)


def not_at_all(y: Any) -> None:
    PLAIN(y)


def test_textures_are_found_in_a_stage_and_what_it_calls() -> None:
    stages = (by_a_source, by_a_helper, by_an_object, by_itself_again, not_at_all, len, print, object())
    assert [each for each in stages if samples_textures(each)] == [*stages[:4]]


@pytest.mark.parametrize("layout", ["linear", "array"])
def test_the_example_is_recognised_and_right(layout: str) -> None:
    said = Concluded("texture_sampling", "rtx-4090", "width=64", "height=32", f"layout={layout}")
    assert [stage.textures for stage in said.profile.workload.stages] == [False, True, False]
    assert said.says("texture-in-mapped-memory").outcome in ("advice", "pass")


# Where buffers and stages are declared, from the file to the advice in every form


DECLARING = """\
import dataclasses, functools
import numpy as np
from advisor import Buffer, In, Out, Workload, device, host, workload
from shapes import image

def produce(a: Out, b: Out, frame: int) -> None:
    a.fill(frame)

class Adder:
    def __call__(self, xp, a: In, b: In, c: Out) -> None:
        xp.add(a, b, out=c)

    def consume(self, c: In, d: In) -> None:
        c.sum()

@workload
def add() -> Workload:
    buffers = {n: Buffer(8, np.float32)
               for n in "ab"}
    buffers["c"] = image(8)
    buffers["d"] = dataclasses.replace(buffers["c"],
                                       shape=4)
    first = host(functools.partial(produce))
    return Workload(buffers, frame=[first, device(Adder()), host(Adder().consume)])
"""


def test_lines_of_loops_factories_classes_and_other_modules(tmp_path: Path) -> None:
    (tmp_path / "shapes.py").write_text(
        "from advisor import Buffer\n\ndef image(n):\n    return Buffer(n, 'f4')\n"
    )
    (tmp_path / "wl.py").write_text(DECLARING)
    record = load(tmp_path / "wl.py", "add", {}).record
    lines = {one.name: one.line for one in (*record.buffers, *record.stages)}
    assert [lines[name] for name in "abcd"] == ["wl.py:18", "wl.py:18", "shapes.py:4", "wl.py:21"]
    assert [lines[name] for name in ("partial", "Adder", "consume")] == ["wl.py:6", "wl.py:10", "wl.py:13"]


def declared(lines: dict[str, str]) -> Profile:
    work = builders.vector_add_workload()
    buffers = tuple(one.model_copy(update={"line": lines.get(one.name)}) for one in work.buffers)
    profile = builders.profile(workload=work.model_copy(update={"buffers": buffers}))
    return conclude_again(profile, profile.preferences)


def test_advice_names_the_lines_in_every_form() -> None:
    profile = declared({"a": "wl.py:18", "b": "wl.py:18", "c": "wl.py:20"})
    (one,) = (advice for advice in profile.advice if advice.rule == "pageable-transfer")
    assert one.lines == ("wl.py:18", "wl.py:20")
    page = pages.page_of(profile)
    for form in ("html", "md", "txt", "details"):
        assert "wl.py:18 and 20" in " ".join(pages.render(page, form).split()), form
    assert '"wl.py:18"' in pages.render(page, "json")
