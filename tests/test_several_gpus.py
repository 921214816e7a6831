"""Stages on several GPUs: what is moved, which stream waits for which, and that results are right whatever
stream dawdles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fakes import EVERY_HASTE, FakeClock, Haste, RecordingBackend, bench, loaded_from
from several import expected, mix

from advisor import Buffer, In, Out, Workload, device, host
from advisor.measure import footprint
from advisor.measure.backends import CpuBackend
from advisor.measure.tasks import timeline as timeline_of
from advisor.profiles.traces import lanes
from advisor.strategies.parts import Region
from advisor.strategies.planning import plan
from advisor.strategies.registry import STRATEGIES, by_name, concerning
from advisor.strategies.schedule import StageUse, Traits

COPIES = Traits(moves="copies")
PEER = Traits(moves="copies", peer=True)
ONE_MEMORY = Traits(moves="never", kernels_reach_host_memory=True)
SERIAL = [s.name for s in STRATEGIES if not s.pipelined]
N = 8


def stage(name: str, gpu: int | None, **access: Any) -> StageUse:
    """On that GPU, or on the host."""
    return StageUse(name, "host" if gpu is None else "device", access, gpu=gpu or 0)


PIPELINE = [
    stage("produce", None, a="out"),
    stage("first", 0, a="in", b="out"),
    stage("second", 1, b="in", c="out"),
    stage("consume", None, c="in"),
]
SPLIT = [
    stage("produce", None, a="out", b="out"),
    stage("first", 0, a="in", c="out"),
    stage("second", 1, b="in", d="out"),
    stage("consume", None, c="in", d="in"),
]
AGAIN = [
    stage("make", 0, b="out"),
    stage("use", 1, b="in", c="out"),
    stage("again", 0, b="out"),
    stage("read", None, b="in", c="in"),
]
PARTED = [AGAIN[0], AGAIN[1], replace(AGAIN[2], parts={"b": Region(((0, 2),), (4,))}), AGAIN[3]]
BESIDE = [
    stage("one", 1, b="out"),
    stage("zero", 0, a="out"),
    stage("look", None, a="in"),
    stage("both", 0, a="in", b="inout"),
    stage("read", None, b="in"),
]


SPELLED = {
    "to-device": "+{0.name}@{0.gpu}",
    "to-host": "-{0.name}@{0.gpu}",
    "to-peer": "{0.name}:{0.source}>{0.gpu}",
    "mark": "({0.name}@{0.gpu})",
    "order": "[{0.gpu} after {0.name}@{0.source}]",
    "synchronize": "|{0.gpu}",
}
MARKED = "make -b@0 (0@0) [1 after 0@0] +b@1 (1@1) use again [0 after 1@1] -b@0 -c@1 |1 |0 read"


@pytest.mark.parametrize(
    ("frame", "traits", "wanted"),
    [
        (PIPELINE, PEER, "produce +a@0 first (0@0) [1 after 0@0] b:0>1 second -c@1 |1 consume"),
        (PIPELINE, COPIES, "produce +a@0 first -b@0 (0@0) [1 after 0@0] +b@1 second -c@1 |1 consume"),
        (PIPELINE, ONE_MEMORY, "produce first (0@0) [1 after 0@0] second |1 consume"),
        (SPLIT, PEER, "produce +a@0 first +b@1 second -c@0 -d@1 |1 |0 consume"),
        (SPLIT, ONE_MEMORY, "produce first second |1 |0 consume"),
        # What another GPU still reads is not overwritten.
        (AGAIN, PEER, "make (0@0) [1 after 0@0] b:0>1 (1@1) use [0 after 1@1] again -b@0 -c@1 |1 |0 read"),
        (AGAIN, COPIES, MARKED),
        (PARTED, COPIES, MARKED),  # one mark does for the parts of a buffer
        # The host waited for one GPU, and another is still at work.
        (BESIDE, PEER, "one (0@1) zero -a@0 |0 look [0 after 0@1] b:1>0 both -b@0 |0 read"),
        (AGAIN, ONE_MEMORY, "make (0@0) [1 after 0@0] use (1@1) [0 after 1@1] again |1 |0 read"),
    ],
)
def test_what_is_moved_and_who_waits(frame: list[StageUse], traits: Traits, wanted: str) -> None:
    names = sorted({name for each in frame for name in each.access})
    steps = plan([], frame, dict.fromkeys(names, traits)).steady
    assert " ".join(SPELLED.get(step.action, "{0.name}").format(step) for step in steps) == wanted


@pytest.mark.parametrize("strategy", SERIAL)
@pytest.mark.parametrize("haste", EVERY_HASTE)
def test_results_are_right_whatever_dawdles(strategy: str, haste: Haste) -> None:
    for seed in range(6):
        workload = mix(seed)
        with bench(workload, strategy, RecordingBackend(gpus=3, haste=haste), listening=seed % 2 == 0) as run:
            run.start(3)
            np.testing.assert_equal(dict(run.inspector.results(2)), expected(workload, 3), f"{seed}")
            assert run.backend.idle, "something was left under way"


@pytest.mark.parametrize("strategy", ["pageable", "zero-copy", "peer"])
def test_the_cpu_device_has_as_many_gpus_as_a_workload_wants(strategy: str) -> None:
    with bench(mix(3), strategy, CpuBackend(), listening=False) as run:
        run.start()
        np.testing.assert_equal(dict(run.inspector.results(0)), expected(mix(3), 1))


def _split(n: int = N) -> Workload:
    half = n // 2

    def produce(a: Out, frame: int) -> None:
        a.fill(frame)

    def first(xp: Any, a: Any, c: Any) -> None:
        xp.add(a[:half], 1, out=c[:half])

    def second(xp: Any, a: Any, c: Any, gpu: int, gpus: int) -> None:
        xp.add(a[half:], 10 * gpu + gpus, out=c[half:])

    def consume(c: In) -> None:
        c.sum()

    first.__annotations__ |= {"a": In[:half], "c": Out[:half]}
    second.__annotations__ |= {"a": In[half:], "c": Out[half:]}
    return Workload(
        buffers={"a": Buffer(n, np.int64), "c": Buffer(n, np.int64)},
        frame=[host(produce), device(first), device(second, gpu=1), host(consume)],
    )


@pytest.mark.parametrize("strategy", SERIAL)
def test_halves_of_a_buffer_on_two_gpus(strategy: str) -> None:
    with bench(_split(), strategy, RecordingBackend(gpus=2, haste="lazy")) as run:
        run.start()
        run.loop.frame(1)
        assert run.inspector.results(1)["c"].tolist() == [2] * 4 + [13] * 4
        run.inspector.check_annotations(run.loop)
    moved = [call[3] for call in run.backend.calls if call[0].startswith("copy_to_device")]
    assert not moved or max(moved) == 8 * N or 8 * N // 2 in moved


def test_each_gpu_prefers_the_managed_memory_that_it_alone_touches() -> None:
    with bench(_split(), "managed-advised", RecordingBackend(gpus=2)) as run:
        told = [call[1:] for call in run.backend.calls if call[0] == "advise"]
        start = {name: placed.host_pointer for name, placed in run.placed.items()}
    half = 8 * N // 2
    for name in "ac":
        assert (start[name], half, "prefer-device") in told
        assert (1, start[name] + half, half, "prefer-device") in told


def test_a_timeline_says_on_which_gpu() -> None:
    backend = RecordingBackend(gpus=2, copy_seconds=5.0, kernel_seconds=5.0)
    with bench(_split(), "pinned", backend) as run:
        run.start()
        timeline = timeline_of(run.loop, backend, FakeClock(step=1.0))
    seen = {(span.label, span.gpu) for span in timeline.spans}
    assert {("device:first", 0), ("device:second", 1), ("to-host", 1), ("host:produce", None)} <= seen
    lines = dict(lanes(timeline))
    assert [*lines] == ["host", *(f"GPU {gpu} {what}" for gpu in (0, 1) for what in ("copies", "kernels"))]
    assert {span.gpu for span in lines["GPU 1 copies"]} == {1}


def test_memory_is_told_by_gpu() -> None:
    backend = RecordingBackend(gpus=2)
    backend.open_gpus(2)
    backend.free_bytes, backend.gpus[1].free_bytes = 900, 500
    before = footprint.read(backend)
    assert before.device_free == 1400
    with bench(_split(), "pinned", backend) as run:
        run.start()
        backend.free_bytes, backend.gpus[1].free_bytes = 800, 490
        places = footprint.over_frames(run.loop, backend, before, 0)
    assert (places["gpu0"].peak_bytes, places["gpu1"].peak_bytes) == (100, 10)


def test_peer_is_for_what_crosses_and_of_one_gpu_there_is_no_row() -> None:
    split = loaded_from(_split()).record
    peer = by_name("peer")
    assert "no GPU reads" in (peer.unsuited(split) or "")
    one = split.model_copy(update={"stages": tuple(s.model_copy(update={"gpu": 0}) for s in split.stages)})
    assert peer not in concerning(STRATEGIES, one)
    assert peer in concerning(STRATEGIES, split)
    assert concerning((peer,), one) == (peer,)
