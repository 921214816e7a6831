"""Binding: parameters against buffers, however the annotations are written."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import pytest
from every import every

import advisor
from advisor import In as Reads
from advisor import InOut as Changes
from advisor import Out as Overwrites
from advisor.errors import WorkloadError
from advisor.profiles.schema import AccessMode
from advisor.strategies.schedule import StageUse
from advisor.workloads.binding import BoundWorkload, bind
from advisor.workloads.definition import Access, Buffer, In, InOut, Out, Stage, Workload, device, host

BUFFERS = {name: Buffer((2, 3), np.float32) for name in ("a", "b", "image")}


def bound(*stages: Stage, **parts: Any) -> BoundWorkload:
    return bind(Workload({**BUFFERS, **parts.pop("buffers", {})}, frame=stages, **parts))


def access(function: Callable[..., object]) -> dict[str, AccessMode]:
    return dict(bound(host(function)).frame[0].access)


def refusal(*stages: Stage, **parts: Any) -> WorkloadError:
    with pytest.raises(WorkloadError) as raised:
        bound(*stages, **parts)
    assert raised.value.next_step
    return raised.value


# Annotations. This file has them as strings; `unstringed` below has them as objects.


def plain(a: In, b: Out, image: InOut) -> None: ...


def aliased(a: Reads, b: Overwrites, image: Changes) -> None: ...


def qualified(a: advisor.In, b: advisor.Out, image: advisor.InOut) -> None: ...


def spelled_out(
    a: Annotated[np.ndarray, Access("in")],
    b: Annotated[np.ndarray, "note", Access("out")],
    image: Annotated[Any, Access("inout")],
) -> None: ...


SCOPE: dict[str, Any] = {"In": In, "Out": Out, "InOut": InOut}
exec("def unstringed(a: In, b: Out, image: InOut): ...", SCOPE)
unstringed = SCOPE["unstringed"]


def wrapped(function: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(function)
    def wrapper(*arguments: Any, **keywords: Any) -> object:
        return function(*arguments, **keywords)

    return wrapper


class Instance:
    def __call__(self, a: In, b: Out, image: InOut) -> None: ...

    def method(self, a: Reads, b: Overwrites, image: Changes) -> None: ...


ALL: dict[str, AccessMode] = {"a": "in", "b": "out", "image": "inout"}


@every(
    "function",
    [
        plain,
        aliased,
        qualified,
        spelled_out,
        unstringed,
        wrapped(aliased),
        functools.partial(unstringed),
        Instance(),
        Instance().method,
    ],
)
def test_however_annotations_are_written(function: Callable[..., object]) -> None:
    assert access(function) == ALL


def stage(signature: str) -> Callable[..., object]:
    exec(f"def stage({signature}): ...", scope := {**SCOPE})
    made: Callable[..., object] = scope["stage"]
    return made


def test_what_is_close_to_what_is_refused_is_bound() -> None:
    scratch = {"tmp": Buffer(4, np.float32, scratch=True)}
    assert bound(device(stage("tmp: Out")), buffers=scratch).frame[0].access == {"tmp": "out"}
    assert bound(device(stage("a: In"), passes={"a": 2})).frame[0].record().passes == {"a": 2.0}
    both = bound(host(stage("a: Out")), setup=[host(writes_b)], check=stage("a: In, b: In"))
    assert both.check is not None


def test_the_cpu_twin_takes_the_same_buffers() -> None:
    def stage(xp: Any, a: In, b: Out) -> None: ...
    def same(b, a, frame) -> None: ...  # type: ignore[no-untyped-def]

    twin = bound(device(stage, cpu=same)).frame[0]
    assert twin.access == {"a": "in", "b": "out"}
    for cpu, function, special in ((True, same, "frame"), (False, stage, "xp")):
        chosen, parameters = twin.implementation(cpu=cpu)
        assert (chosen, parameters.specials) == (function, {special})


def test_stages_of_the_same_name_are_told_apart() -> None:
    def stage(a: Out) -> None: ...

    found = bound(host(stage), device(stage), setup=[host(stage)])
    assert [s.name for s in found.stages] == ["stage", "stage-2", "stage-3"]
    assert [s.phase for s in found.stages] == ["setup", "frame", "frame"]
    assert found.buffer_records()[0].access == {"stage": "out", "stage-2": "out", "stage-3": "out"}


def test_a_check_reads_the_buffers_it_names() -> None:
    def stage(a: Out) -> None: ...
    def check(a, frame) -> None: ...  # type: ignore[no-untyped-def]
    def wrong(A) -> None: ...  # type: ignore[no-untyped-def]  # noqa: N803

    found = bound(host(stage), check=check).check
    assert (found.access, found.specials, found.side) == ({"a": "in"}, {"frame"}, "host")
    assert bound(host(stage)).check is None
    line = wrong.__code__.co_firstlineno
    expected = f"stage 'check' (test_binding.py:{line}) takes 'A', which is not a buffer; did you mean 'a'?"
    assert refusal(host(stage), check=wrong).message == expected


def writes_b(b: Out) -> None: ...


def test_what_the_schedule_and_the_profile_get() -> None:
    def stage(xp, a: In, b: Out, rng, frame, stream) -> None: ...  # type: ignore[no-untyped-def]

    found = bound(host(writes_b), device(stage, flops=3), buffers={"raw": Buffer(5, "u2", external=True)})
    assert [each.specials for each in found.frame] == [set(), {"xp", "rng", "frame", "stream"}]
    assert found.frame[1].use == StageUse("stage", "device", {"a": "in", "b": "out"})
    record = found.frame[1].record()
    assert (record.name, record.side, record.phase, record.flops) == ("stage", "device", "frame", 3.0)
    assert found.frame[0].record().flops is None
    records = {r.name: r for r in found.buffer_records()}
    assert (records["a"].shape, records["a"].dtype, records["a"].bytes) == ((2, 3), "float32", 24)
    assert records["b"].access == {"writes_b": "out", "stage": "out"}
    assert (records["raw"].bytes, records["raw"].external, records["raw"].scratch) == (10, True, False)
