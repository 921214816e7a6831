"""Verification: annotations that do not hold are found and named; results are held to the right standard."""

from __future__ import annotations

import ctypes
import os
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from every import every
from fakes import Bench, RecordingBackend, bench
from rendering import Accepted, refusals

from advisor.measure.backends import CpuBackend
from advisor.measure.kept_results import KeptResults
from advisor.measure.verification import noise
from advisor.strategies.registry import STRATEGIES
from advisor.workloads.definition import Buffer, In, InOut, Out, Stage, Workload, device, host

N = 8
BACKENDS = [RecordingBackend, CpuBackend]


def buffers(*names: str, dtype: Any = np.float32) -> dict[str, Buffer]:
    return {name: Buffer(N, dtype) for name in names}


def fill(a: Out) -> None:
    a.fill(1)


def double(xp: Any, a: In, b: Out) -> None:
    xp.multiply(a, 2, out=b)


def consume(b: In) -> None:
    b.sum()


def inspect(run: Bench) -> None:
    """What the reference run does."""
    run.loop.run_setup()
    if error := run.inspector.check_annotations(run.loop):
        raise error


def forgets(a: Out) -> None:
    a = np.ones(N)  # noqa: F841


def kernel_forgets(xp: Any, a: In, b: Out) -> None: ...


def partly(a: Out) -> None:
    a[: N - 3] = 1


def kernel_partly(xp: Any, a: In, b: Out) -> None:
    b[1:] = 5


def in_turns(a: Out, frame: int) -> None:
    a[frame * 4 : frame * 4 + 4] = 1


def sneaky(b: In) -> None:
    ctypes.memset(b.ctypes.data, 7, 4)


def kernel_sneaky(xp: Any, a: In, b: Out) -> None:
    xp.multiply(a, 2, out=b)
    if isinstance(a, np.ndarray):  # NumPy refuses it, were it not hidden
        a.setflags(write=True)
    a.fill(9)


WRONG: dict[str, tuple[Stage, ...]] = {
    "an output that is not written": (host(forgets), device(double)),
    "an output of a kernel": (host(fill), device(kernel_forgets)),
    "one that is not written as a whole": (host(partly), device(double)),
    "one of a kernel": (host(fill), device(kernel_partly)),
    "one that each frame writes a part of": (host(in_turns), device(double)),
    "a hidden write on the host": (host(fill), device(double), host(sneaky)),
    "a hidden write on the device": (host(fill), device(kernel_sneaky), host(consume)),
}


@every(
    ("backend", "strategy"),
    [*((kind, "pageable") for kind in BACKENDS), (partial(RecordingBackend, haste="lazy"), "zero-copy")],
)
def test_annotations_that_do_not_hold(backend: Any, strategy: str, accepted: Accepted) -> None:
    def inspected(*frame: Stage) -> None:
        with bench(Workload(buffers("a", "b"), frame=frame), strategy, backend()) as run:
            try:
                inspect(run)
            finally:
                assert run.ranges.depth == 0

    calls = {name: partial(inspected, *frame) for name, frame in WRONG.items()}
    accepted(refusals(calls), "annotations-wrong.txt")


def test_outputs_are_poisoned_while_nothing_is_under_way() -> None:
    """Where the CPU must not touch managed memory that a stream uses, it would crash."""
    workload = Workload(buffers("a", "b"), frame=[host(fill), device(double)])
    with bench(workload, "pinned", RecordingBackend(haste="lazy")) as run:

        def poison(output: Any, size: int) -> Any:
            assert run.backend.idle
            return noise(output, size)

        run.inspector.checked_frame(run.loop, 0, poison)


@every("frame", range(2))
def test_data_that_looks_like_poison_is_data(frame: int) -> None:
    pattern = noise((frame, "", ""), N)

    def looks_poisoned(a: Out) -> None:
        a.fill(pattern[3])

    with bench(Workload(buffers("a", dtype=np.uint8), frame=[host(looks_poisoned)])) as run:
        inspect(run)
        assert (run.inspector.results()["a"] == pattern[3]).all()


def test_noise_that_looks_like_poison_here_and_there_is_data() -> None:
    """Of 65536 random bytes one meets two given patterns in two frames; a camera's image has more."""

    def capture(a: Out, rng: Any) -> None:
        a[...] = rng.integers(0, 256, a.shape, dtype=np.uint8)

    with bench(Workload({"a": Buffer((480, 640), np.uint8)}, frame=[host(capture)])) as run:
        inspect(run)


# Results


@every("strategy", [strategy.name for strategy in STRATEGIES])
def test_the_newest_contents_come_from_the_side_that_wrote_last(strategy: str) -> None:
    def on_device(xp: Any, a: InOut, b: Out) -> None:
        xp.add(a, 1, out=a)
        b.fill(0)

    def on_host(b: Out) -> None:
        b.fill(6)

    workload = Workload(buffers("a", "b"), frame=[host(fill), device(on_device), host(on_host)])
    with bench(workload, strategy, RecordingBackend(haste="lazy")) as run:
        run.loop.first_frame()
        assert (run.inspector.newest("a") == 2).all()
        assert (run.inspector.newest("b") == 6).all()


@every("side", [host, device])
def test_what_no_stage_reads_is_a_result_too(side: Any) -> None:
    def last(c: Out) -> None:
        c.fill(3)

    frame = [host(fill), device(double), host(consume), side(last)]
    with bench(Workload(buffers("a", "b", "c"), frame=frame)) as run:
        inspect(run)
        assert sorted(run.inspector.results()) == ["b", "c"]


def test_the_newest_contents_are_read_after_a_wait() -> None:
    workload = Workload(buffers("a", "b"), frame=[host(fill), device(double), host(consume)])
    with bench(workload, "zero-copy", RecordingBackend(haste="lazy")) as run:
        for action in run.loop.actions(0)[:2]:
            action.run(0)
        assert (run.inspector.newest("b") == 2).all()


# The user's check


def checked(check: Any) -> None:
    workload = Workload(buffers("a", "b"), frame=[host(fill), device(double)], check=check)
    with bench(workload, "pinned", RecordingBackend(haste="lazy")) as run:
        run.loop.first_frame()
        run.inspector.run_check(3)


def test_a_check_gets_the_newest_contents_and_what_it_names() -> None:
    got: dict[str, Any] = {}

    def check(b, a, frame, xp, rng, stream) -> None:  # type: ignore[no-untyped-def]
        got.update(b=b[0], a=a[0], frame=frame, xp=xp, rng=rng, stream=stream)

    checked(check)
    assert (got["a"], got["b"], got["frame"], got["xp"]) == (1, 2, 3, np)
    assert isinstance(got["rng"], np.random.Generator)
    assert got["stream"].ptr == 7


@every(("values", "fails"), [((False, np.False_), True), ((True, np.True_, None, 0, 0.0, []), False)])
def test_a_check_fails_by_returning_false_and_nothing_else(values: tuple[Any, ...], fails: bool) -> None:
    for value in values:
        with pytest.raises(AssertionError, match="returned False") if fails else nullcontext():
            checked(lambda b: value)  # noqa: B023


# Comparison


def test_sums_in_another_order_are_the_same_result(tmp_path: Path) -> None:
    """Rounding errors near zero grow with the number of terms; a wrong sum is beyond them."""
    terms = np.random.default_rng(0).standard_normal((2000, 1024)).astype(np.float16)
    forth = np.zeros(2000, np.float16)
    back = np.zeros(2000, np.float16)
    for column in range(1024):
        forth += terms[:, column]
        back += terms[:, -1 - column]
    kept = KeptResults(tmp_path)
    kept.keep(0, {"x": forth})
    assert kept.differences(0, {"x": back}, {}), "as if each came of one element"
    assert kept.differences(0, {"x": back}, {"x": 1024}) == {}
    wrong = back + terms[:, :8].astype(np.float32).sum(axis=1).astype(np.float16)
    assert kept.differences(0, {"x": wrong}, {"x": 1024})


RECORDS = np.zeros(3, [("p", "f4"), ("n", "i4")])
ODD_RECORDS = RECORDS.copy()
ODD_RECORDS["n"][1] = 1
LONG = np.array([1, 2], np.longdouble)
DIGITS = [
    ("f2", 5e-3, 2e-2),
    *((of, 5e-5, 3e-4) for of in ("f4", "c8")),
    *((of, 5e-10, 3e-9) for of in ("f8", "c16")),
]
"""Types, a relative difference in their last digits, and one that is beyond."""
EXACT = ("i1", "u8", "?", "M8[s]", "S2")
INFINITE = ([np.inf, 1, 5], [1, 1, 2], [-np.inf, 1, 2])


@every(
    ("result", "expected", "count"),
    [
        (np.arange(6).reshape(2, 3), np.arange(6).reshape(2, 3), 0),
        *(
            (np.array([1, 2, 3], of) * np.array(1 + off).astype(of), np.array([1, 2, 3], of), count)
            for of, within, beyond in DIGITS
            for off, count in ((within, 0), (beyond, 3))
        ),
        *((np.array([1, 1, 1]).astype(of), np.array([1, 0, 1]).astype(of), 1) for of in EXACT),
        *(
            (np.array(wrong, of), np.array([np.inf, 1, 2], of), 1)
            for wrong in INFINITE
            for of in ("f4", "c8")
        ),
        (np.float32([2e-9]), np.float32([1e-9]), 1),  # whatever the unit
        (LONG * (1 + 5e-10), LONG, 0),  # the strictest standard
        (LONG * (1 + 3e-9), LONG, 2),
        (np.float32([1e6, 0.05]), np.float32([1e6, 0]), 0),  # held against the largest
        (np.float32([1e6, 0.5]), np.float32([1e6, 0]), 1),
        (ODD_RECORDS, RECORDS, 1),
        ([np.nan, 1.0, 1 + 1e-12], [np.nan, 1.0, 1.0], 0),
        ([1.0, np.nan, 1.0], [np.nan, 1.0, 1.0], 2),
        ([np.nan, 1.0], [np.nan, np.nan], 1),
        ([0.0, 1.0], [-0.0, 1.0], 0),
    ],
)
def test_what_counts_as_another_result(result: Any, expected: Any, count: int, tmp_path: Path) -> None:
    kept = KeptResults(tmp_path / "x")
    kept.keep(0, {"x": np.asarray(expected)})
    told = "".join(kept.differences(0, {"x": np.asarray(result)}, {}).values())
    share = "all" if count == np.size(expected) else f"{100 * count / np.size(expected):.2g} %"
    assert told.partition(" elements")[0] == f"`x` differs in {share} of its" * bool(count)


def test_a_process_that_a_stage_forked_keeps_nothing(tmp_path: Path) -> None:
    """It ends there: its files would be those of the reference run, and it is killed while it writes."""
    kept = KeptResults(tmp_path)
    child = os.fork()
    if child == 0:
        kept.keep(0, {"a": np.zeros(N)})
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert not list(tmp_path.iterdir())
