"""Tracing: the same results as plain NumPy, and bytes that can be counted by hand."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from functools import partial
from itertools import accumulate, chain
from typing import Any

import numpy as np
import pytest
from every import every
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.measure.cupy_mock.traced import TracedArray, trace_buffer
from advisor.measure.cupy_mock.tracing import host_rates
from advisor.measure.cupy_mock.traffic import TrafficRecorder
from advisor.profiles.schema import AccessMode, Side, Trace
from advisor.strategies.schedule import StageUse

N = 1000
F4 = 4 * N  # bytes of a float32 buffer of N elements


def run(
    function: Callable[..., Any],
    side: Side = "host",
    access: dict[str, AccessMode] | None = None,
    *,
    passes: dict[str, float] | None = None,
    flops: float | None = None,
    twin: bool = False,
    **buffers: Any,
) -> Trace:
    """Traces one stage over the buffers, all annotated InOut unless `access` says otherwise."""
    recorder = TrafficRecorder()
    with recorder.stage("s"):
        function(**{name: trace_buffer(recorder, name, array) for name, array in buffers.items()})
    use = StageUse("s", side, access or dict.fromkeys(buffers, "inout"))
    sizes = {name: array.nbytes for name, array in buffers.items()}
    declared = {"s": passes} if passes else {}, {} if flops is None else {"s": flops}
    return recorder.trace([use], *declared, sizes, ["s"] if twin else [])


def seen(function: Callable[..., Any], **buffers: Any) -> tuple[float, float]:
    """Bytes read and written of the first buffer; what was not seen is 0."""
    first = run(function, **buffers).traffic[0]
    return (0.0, 0.0) if first.source == "assumed" else (first.bytes_read, first.bytes_written)


def zeros(n: int = N) -> Any:
    return np.zeros(n, np.float32)


def sort(a: Any) -> None:
    a.sort()


@every(
    ("function", "side", "times"),
    [(sort, "device", 4), (sort, "host", 0), (np.median, "device", 4), (np.sort, "device", 5)],
)
def test_a_gpu_merges_what_it_sorts_in_its_own_memory(function: Any, side: Side, times: int) -> None:
    """Of 16 Ki elements four runs of a block: two merges, each of which reads and writes all."""
    (work,) = run(lambda a: function(a), side, a=zeros(1 << 14)).work
    assert work.temporary_bytes == times * 4 * (1 << 14)


def setslice(a: Any) -> None:
    a[10:20] = 1


COUNTED: list[tuple[str, Callable[..., Any], float, float]] = [
    ("fill", lambda a: a.fill(3), 0, F4),
    ("sum", lambda a: a.sum(), F4, 0),
    ("var", lambda a: a.var(), 2 * F4, 0),
    ("np.std", lambda a: np.std(a), 2 * F4, 0),
    ("argmax", lambda a: a.argmax(), F4, 0),
    ("copy", lambda a: a.copy(), F4, 0),
    ("deepcopy", lambda a: copy.deepcopy(a), F4, 0),
    ("astype", lambda a: a.astype(np.float64), F4, 0),
    ("astype without copy", lambda a: a.astype(np.float32, copy=False), 0, 0),
    ("tobytes", lambda a: a.tobytes(), F4, 0),
    ("tolist", lambda a: a.tolist(), F4, 0),
    ("item", lambda a: a.item(3), 4, 0),
    ("nonzero", lambda a: a.nonzero(), F4, 0),
    ("take", lambda a: a.take([1, 2, 3]), 12, 0),
    ("sort in place", lambda a: a.sort(), F4, F4),
    ("np.sort", lambda a: np.sort(a), F4, 0),
    ("dot", lambda a: a.dot(np.ones(N, np.float32)), F4, 0),
    ("matmul", lambda a: a @ np.ones(N, np.float32), F4, 0),
    ("einsum", lambda a: np.einsum("i,i", a, a), 2 * F4, 0),
    ("concatenate", lambda a: np.concatenate([a, a]), 2 * F4, 0),
    ("iteration", lambda a: list(a), F4, 0),
    ("accumulate", lambda a: np.add.accumulate(a), F4, 0),
    ("outer", lambda a: np.multiply.outer(a, np.ones(2)), F4, 0),
    ("at", lambda a: np.add.at(a, np.array([1, 1, 3]), 2.0), 12, 12),
    ("where", lambda a: np.where(a > 0, a, 0), 2 * F4, 0),
    ("masked ufunc", lambda a: np.add(a, 1, out=a, where=np.arange(N) < 100), F4 / 10, F4 / 10),
    ("in place", lambda a: operator.iadd(a, 1), F4, F4),
    ("copyto", lambda a: np.copyto(a, 1), 0, F4),
    ("copyto masked", lambda a: np.copyto(a, 1, where=np.arange(N) < 100), 0, F4 / 10),
    ("put", lambda a: a.put([1, 2], 5), 0, 8),
    ("np.place", lambda a: np.place(a, np.arange(N) < 100, 1), 0, F4 / 10),
    ("scalar", lambda a: a[3], 4, 0),
    ("views", lambda a: a[::2].reshape(5, -1).T[None].swapaxes(0, 1).squeeze().view(np.int32), 0, 0),
    ("metadata", lambda a: (a.shape, a.nbytes, len(a), np.shape(a), np.ndim(a)), 0, 0),
    ("zeros_like", lambda a: np.zeros_like(a), 0, 0),
    ("fancy", lambda a: a[[1, 2, 3]], 12, 0),
    ("boolean", lambda a: a[np.arange(N) < 100], F4 / 10, 0),
    ("set slice", setslice, 0, 40),
    ("set fancy", lambda a: operator.setitem(a, np.array([1, 5, 7]), 2), 0, 12),
    ("view of a view", lambda a: a[10:30][::2].sum(), 40, 0),
    ("broadcast", lambda a: np.broadcast_to(a, (50, N)).sum(), F4, 0),
    ("out of a function", lambda a: np.sum(np.ones((N, 2)), axis=1, out=a), 0, F4),
    ("positional out", lambda a: np.dot(np.ones((N, 2), "f4"), np.ones(2, "f4"), a), 0, F4),
]


@every(("function", "read", "written"), [c[1:] for c in COUNTED], ids=[c[0] for c in COUNTED])
def test_bytes(function: Callable[..., Any], read: float, written: float) -> None:
    assert seen(function, a=zeros()) == pytest.approx((read, written))


@every(
    "use",
    [
        lambda index, a: a[index],
        lambda index, a: a.__setitem__(index, 0),
        lambda index, a: a.take(index),
        lambda index, a: np.add(a, 1, out=a, where=index),
        lambda index, a: np.copyto(a, 1, where=index),
    ],
)
def test_an_index_or_a_mask_in_a_buffer_is_read(use: Callable[..., Any]) -> None:
    assert seen(use, index=np.arange(N) % 2 == 0, a=zeros()) == (N, 0)


def test_a_buffer_may_run_backwards_in_memory() -> None:
    assert seen(lambda a: a[5:].sum(), a=zeros()[::-1]) == (F4 - 20, 0)


@every(
    ("product", "times"),
    [
        *((each, 1) for each in (operator.matmul, np.dot, lambda a, b: np.tensordot(a, b, 1))),
        (lambda a, b: np.einsum("ij,jk->ik", a, b), 1),
        (lambda a, b: np.matmul(np.stack([a] * 3), b), 3),
    ],
)
def test_arithmetic_of_products(product: Callable[..., Any], times: int) -> None:
    a, b = np.ones((10, 20), np.float32), np.ones((20, 30), np.float32)
    (work,) = run(lambda a, b: product(a, b), a=a, b=b).work
    assert work.flops == pytest.approx(times * 2 * 10 * 20 * 30)


def test_the_arithmetic_of_factorizations_is_unknown_unless_it_is_declared() -> None:
    """A solve of 1024 x 1024 takes milliseconds on an H200, where its bytes take microseconds."""
    (work,) = run(lambda a: np.linalg.solve(a, a) + np.linalg.norm(a), a=np.eye(8, dtype=np.float32)).work
    assert work.uncounted == ("solve",)
    (work,) = run(lambda a: np.linalg.inv(a), "device", flops=1e9, a=np.eye(8, dtype=np.float32)).work
    assert (work.flops, work.uncounted) == (1e9, ())


def figures(trace: Trace) -> list[tuple[float, float, str]]:
    return [(each.bytes_read, each.bytes_written, each.source) for each in trace.traffic]


def test_each_stage_has_its_own_figures_for_one_run() -> None:
    """Also where one runs within another."""
    recorder = TrafficRecorder()
    a = trace_buffer(recorder, "a", zeros())
    for _ in range(3):
        with recorder.stage("s"):
            with recorder.stage("t"):
                a.fill(0)
            (a + 1).sum()
    uses = [StageUse("s", "host", {"a": "in"}), StageUse("t", "device", {"a": "out"})]
    trace = recorder.trace(uses, {}, {}, {"a": F4})
    assert figures(trace) == [(F4, 0, "traced"), (0, F4, "traced")]
    assert [work.temporary_bytes for work in trace.work] == [2 * F4, 0]


READS_A: dict[str, AccessMode] = {"a": "in", "b": "out"}


def test_what_tracing_cannot_see_is_assumed_to_be_one_pass() -> None:
    def unseen(a: Any, b: Any) -> None:
        memoryview(np.asarray(a)).tolist()
        np.random.default_rng(0).random(out=b, dtype=np.float32)

    assert figures(run(unseen, access=READS_A, a=zeros(), b=zeros())) == [
        (F4, 0, "assumed"),
        (0, F4, "assumed"),
    ]


def test_declared_passes_and_arithmetic_win_over_the_twin() -> None:
    def twin(a: Any, b: Any) -> None:
        b += a * 2

    trace = run(twin, "device", READS_A, passes={"a": 8.0}, flops=123.0, a=zeros(), b=zeros())
    assert figures(trace) == [(8 * F4, 0, "declared"), (0, F4, "declared")]
    assert (trace.work[0].flops, trace.work[0].temporary_bytes, trace.work[0].seconds) == (123.0, 0, None)


@every(
    "wrong",
    [
        lambda a: a + np.zeros(3),
        lambda a: a[N],
        lambda a: a["x"],
        lambda a: a @ np.zeros(7),
        lambda a: np.concatenate([a, np.zeros((2, 2))]),
        lambda a: a.reshape(7, 7),
        lambda a: np.add(a, 1, out=np.zeros(N, np.int8)),
        *(setslice, np.ndarray.sort, lambda a: a.fill(1), lambda a: np.copyto(a, 1)),
    ],
)
def test_errors_are_numpys_own(wrong: Callable[..., Any]) -> None:
    """Of an array that cannot be written."""
    plain, recorder = zeros(), TrafficRecorder()
    plain.setflags(write=False)
    with pytest.raises(Exception) as of_plain:
        wrong(plain)
    with recorder.stage("s"), pytest.raises(type(of_plain.value)) as of_traced:
        wrong(trace_buffer(recorder, "a", plain))
    assert str(of_plain.value) == str(of_traced.value)


def test_results_are_traced_scalars_are_plain_and_out_is_the_same_object() -> None:
    recorder = TrafficRecorder()
    a = trace_buffer(recorder, "a", zeros())
    assert isinstance(a + 1, TracedArray)
    assert type(a.sum()) is np.float32
    assert np.add(a, 1, out=a) is a
    assert np.sum(a, axis=0, keepdims=True, out=a[:1]).base is not None
    assert all(isinstance(part, TracedArray) for part in np.split(a, 2))
    assert repr(a) == repr(np.asarray(a))


STEPS: list[Callable[[Any, Any], Any]] = [
    *(
        partial(lambda f, x, _: f(x), function)
        for function in (np.negative, np.abs, np.square, np.sort, np.flip)
    ),
    *(np.add, np.multiply, np.maximum),
    lambda x, _: x[::-1],
    lambda x, _: x[1:] - x[:-1],
    lambda x, _: np.where(x > 0, x, 1.0),
    lambda x, _: np.concatenate([x, x[:2]]),
    lambda x, _: x[x >= 0] if (x >= 0).any() else x,
    lambda x, _: np.outer(x, x).sum(axis=0),
    lambda x, _: x.reshape(1, -1).T @ np.ones((1, 2)) @ np.ones(2),
    lambda x, _: np.divide(x, x, out=np.ones_like(x), where=x != 0),
    lambda x, _: np.maximum.accumulate(x),
    lambda x, _: x.astype(np.float32).astype(np.float64),
    lambda x, _: np.take(x, np.argsort(x)),
    lambda x, y: np.einsum("i,j->i", x, y),
    lambda x, y: np.stack([x, y]).max(axis=0),
    lambda x, y: np.convolve(x, y)[: len(x)],
]


def test_fields_of_a_structured_array_are_views() -> None:
    points = np.zeros(10, [("x", "f4"), ("t", "u2")])

    def move(points: Any) -> None:
        points["x"] = 2.5
        points["t"][2:4] = 7
        assert float(points["x"].sum()) == 25.0

    assert figures(run(move, points=points)) == [(40, 40 + 4, "traced")]
    assert points["t"].sum() == 14


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(-50, 50), min_size=4, max_size=12),
    st.lists(st.sampled_from(STEPS), min_size=1, max_size=6),
)
def test_random_expressions_have_the_same_values(
    values: list[int], steps: list[Callable[[Any, Any], Any]]
) -> None:
    def evaluate(x: Any) -> Any:
        start = x
        for step in steps:
            n = min(len(x), len(start))
            x = step(x[:n], start[:n])
        x[...] = x * 2
        return x, x.sum(), x.sum() / max(x.size, 1), x.dtype

    recorder = TrafficRecorder()
    with recorder.stage("s"), np.errstate(all="ignore"):
        plain = evaluate(np.array(values, np.float64))
        traced = evaluate(trace_buffer(recorder, "a", np.array(values, np.float64)))
    np.testing.assert_array_equal(np.asarray(traced[0]), plain[0])
    assert [str(x) for x in traced[1:]] == [str(x) for x in plain[1:]]


@pytest.mark.parametrize(("shape", "seconds"), [((4, 4), 52e-6), ((3, 4, 4), 16e-6)])
def test_a_batched_product_that_repeats_an_operand_takes_the_host_longer(
    shape: tuple[int, ...], seconds: float
) -> None:
    (work,) = run(lambda a: np.matmul(np.ones(shape), a), "device", a=np.ones((3, 4, 4))).work
    assert work.issue_seconds == pytest.approx(seconds)


def test_calls_that_do_work_are_counted() -> None:
    def stage(a: Any, b: Any) -> None:
        b[...] = a
        for _ in range(5):
            b += 1
        b[2:4].reshape(2, 1).T  # noqa: B018
        np.add(a, b).sum()

    given: dict[str, Any] = {"side": "device", "access": READS_A, "a": np.ones(8), "b": np.zeros(8)}
    (work,) = run(stage, **given).work
    (twin,) = run(stage, twin=True, **given).work
    (raw,) = run(stage, passes={"a": 2}, **given).work
    assert (work.calls, twin.calls, raw.calls) == (8, None, None)
    # A write, six ufuncs, a reduction, and two views that launch nothing.
    assert work.issue_seconds == pytest.approx(6.6e-6 + 6 * 9.5e-6 + 16e-6 + 2 * 1.8e-6)
    assert twin.issue_seconds is raw.issue_seconds is None
    # What the twin keeps in temporary arrays its kernel need not.
    assert (work.temporary_bytes > 0, twin.temporary_bytes, raw.temporary_bytes) == (True, 0, 0)
    assert (work.twin, twin.twin, raw.twin) == (False, True, False)


def test_the_best_of_three_counts_and_each_rate_is_its_own() -> None:
    taken = [0.002, 0.001, 0.004, 0.02, 0.01, 0.04]
    ticks = accumulate(chain.from_iterable((1.0, seconds) for seconds in taken))
    rates = host_rates(lambda: next(ticks), 1 << 20)
    found = (rates.read_bytes_per_second, rates.write_bytes_per_second)
    assert [round((1 << 20) / rate, 6) for rate in found] == [0.001, 0.01]
