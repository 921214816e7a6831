"""What library routines read again: the table, how tracing counts it, what a prediction makes of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from every import every
from published_cases import table
from test_traffic import run

from advisor.devices.catalogue import load
from advisor.devices.entries import Attribute
from advisor.measure import routines
from advisor.measure.cupy_mock.traced import trace_buffer
from advisor.measure.cupy_mock.traffic import TrafficRecorder
from advisor.measure.routines import gathered_beyond, strided_beyond
from advisor.model.predict import predict
from advisor.profiles import reading
from advisor.profiles.schema import Predicted, Profile, Trace
from advisor.strategies.mixes import mix
from advisor.strategies.schedule import StageUse

N = 256


device_trace = partial(run, side="device")


def again(function: Callable[..., Any], **buffers: Any) -> dict[str, float]:
    """Passes beyond the first, by buffer."""
    trace = device_trace(function, **buffers)
    return {t.buffer: sum(x.bytes for x in t.again) / buffers[t.buffer].nbytes for t in trace.traffic}


@every(
    ("name", "operand_mib", "call", "dtype", "uses"),
    [
        ("matmul f32 256", 0.5, "matmul", "float32", 256),
        ("matmul f32 1024", 8.0, "matmul", "float32", 1024),
        ("matmul f32 4096", 128.0, "dot", "float32", 4096),
        ("matmul f16 4096", 64.0, "matmul", "float16", 4096),
        ("matvec 8192", 256.0, "matmul", "float32", 1),
        ("thin matmul 65536x256 @ 256x16", 64.0, "matmul", "float32", 16),
        ("var", 64.0, "var", "float32", 1),
        ("fft2 2048", 32.0, "fft2", "complex64", 1),
        ("transpose copy", 64.0, "transpose", "float32", 1),
        ("histogram 256", 64.0, "histogram", "float32", 1),
        ("sum", 64.0, "sum", "float32", 1),
    ],
)
def test_the_table_is_what_was_measured(
    name: str, operand_mib: float, call: str, dtype: str, uses: float
) -> None:
    rows = {next(iter(row.values())): row for row in table("routines-h200.csv")}
    passes = float(rows[name]["passes_over_link"])
    assert float(rows[name]["operands_mib"]) == operand_mib
    assert routines.passes(call, np.dtype(dtype), uses) == pytest.approx(max(passes, 1.0), rel=0.03)


def test_a_product_reads_each_operand_as_often_as_the_other_needs_it() -> None:
    a, b = np.ones((4096, N), np.float32), np.ones((N, 16), np.float32)
    found = again(lambda a, b: a @ b, a=a, b=b)
    assert found["a"] == pytest.approx(2.11 - 1)
    assert found["b"] == 0, "16 KiB stay in an L1"
    wide = again(lambda a, b: a @ b, a=a, b=np.ones((N, 512), np.float32))
    assert wide["b"] == pytest.approx(38.14 - 1)


@every(
    ("function", "passes"),
    [
        (lambda a: a.var(), 20.14),
        (lambda a: (a + 1).var(), 0),  # of a temporary
        (lambda a: a.sum(), 0),
        (lambda a: a + 1, 0),
        (lambda a: a.T.copy(), 17.97),
        (lambda a: a.copy(), 0),
        (lambda a: np.fft.fft2(a), 1.15),
        (lambda a: a[np.arange(N)], 0),
        (lambda a: a[np.arange(N)[::-1]], 0),
        (lambda a: a.take([3, 1], axis=0), 0),
        (lambda a: a + a[:, ::2].sum(), 1 / 2),
        (lambda a: a[::2] + 1, 0),
    ],
)
def test_what_is_read_again_is_counted(function: Callable[..., Any], passes: float) -> None:
    square = np.ones((N, N), np.float32)
    assert again(function, a=square)["a"] == pytest.approx(passes)
    assert not any(each.again for each in run(function, a=square).traffic), "on the host"


def test_the_call_is_told_with_its_line() -> None:
    trace = device_trace(lambda a: a.var(), a=np.ones(N * N, np.float32))
    (item,) = trace.traffic[0].again
    line = next(
        i
        for i, text in enumerate(Path(__file__).read_text().splitlines(), 1)
        if "lambda a: a.var(), a" in text
    )
    assert (item.call, item.where) == ("var", f"test_routines.py:{line}")


H200 = Path(__file__).parent.parent / "reports" / "h200"


def kept(name: str, stage: str, trace: Trace, *others: str) -> Profile:
    """A kept profile without its times, whose device stage, but for some buffers, was traced as now."""
    profile = reading.load(H200 / name / "profile.json")
    host = [t for t in profile.traffic.traffic if t.stage != stage or t.buffer in others]
    device = [t.model_copy(update={"stage": stage}) for t in trace.traffic]
    traffic = profile.traffic.model_copy(update={"traffic": (*host, *device)})
    return profile.model_copy(update={"traffic": traffic, "results": ()})


def test_what_all_multiprocessors_read_crosses_the_link_for_each_of_them() -> None:
    """weights_reuse with only its vector of 16 KiB in mapped memory took 64 % of 65 us longer on an H200."""
    weights, x = np.ones((4096, 4096), np.float32), np.ones(4096, np.float32)
    y = np.ones(4096, np.float32)
    seen = device_trace(lambda weights, x, y: np.matmul(weights, x, out=y), weights=weights, x=x, y=y)
    reads = [t.model_copy(update={"bytes_read": 0.0}) if t.buffer == "y" else t for t in seen.traffic]
    profile = kept("weights_reuse", "multiply", seen.model_copy(update={"traffic": tuple(reads)}))
    mapped = mix("hybrid-1", {"weights": "pageable", "x": "zero-copy", "y": "pinned"})
    entry, added = load("h200"), {}
    others = {k: v for k, v in entry.attributes.items() if k != "multiprocessor_count"}
    for count in (132, 8, None):
        own = {} if count is None else {"multiprocessor_count": Attribute(value=count, source="a test")}
        device = entry.model_copy(update={"attributes": {**others, **own}})
        found = predict(profile, device, [mapped])
        (row,) = (r for r in found.results if isinstance(r, Predicted))
        added[count] = row.terms["device:multiply"]
        assert any("multiprocessors is not known" in text for text in found.assumptions) == (count is None)
    assert added[132] == pytest.approx(4.96e-6 + 0.64 * 65e-6, rel=0.1)
    assert added[8] == added[None] < 30e-6


def test_a_row_added_to_each_row_crosses_for_each_multiprocessor() -> None:
    matrix, row = np.ones((N, 1024), np.float32), np.ones(1024, np.float32)
    seen = {t.buffer: t.again for t in device_trace(lambda a, b: a + b, a=matrix, b=row).traffic}
    assert [(item.shared_bytes, item.readers) for item in seen["b"]] == [(4096, N)]
    assert not seen["a"]
    column = device_trace(lambda a, b: a + b, a=matrix, b=np.ones((N, 1), np.float32))
    assert all(not t.again for t in column.traffic), "each value of it is used in one place"


def test_unseen_reads_with_declared_arithmetic_may_cross_as_often_as_those_of_products() -> None:
    """inference took 780 us longer in zero-copy memory on an H200, 12 times one pass over its images."""
    batch = 1024
    flops = 2.0 * batch * (16 * 13 * 13 * 9 + 32 * 6 * 6 * 16 * 9 + 32 * 6 * 6 * 10)
    images, labels = np.ones((batch, 1, 28, 28), np.float32), np.ones(batch, np.int64)
    recorder = TrafficRecorder()
    for name, array in (("images", images), ("labels", labels)):
        trace_buffer(recorder, name, array)
    with recorder.stage("s"):
        pass
    use = StageUse("s", "device", {"images": "in", "labels": "out"})
    sizes = {"images": images.nbytes, "labels": labels.nbytes}
    seen = recorder.trace([use], {}, {"s": flops}, sizes)
    assert [t.source for t in seen.traffic] == ["assumed", "assumed"]
    (item,) = seen.traffic[0].again
    assert 1 + item.bytes / images.nbytes == pytest.approx(10.8, rel=0.01)
    found = predict(kept("inference", "classify", seen, "first", "second", "dense"), load("h200"))
    rows = {r.strategy: r for r in found.results if isinstance(r, Predicted)}
    assert found.recommendation.strategy == "pinned"
    assert any("without a cache up to 10.8" in text for text in found.assumptions)
    kernel = rows["zero-copy"].terms["device:classify"]
    assert 4 * 63e-6 < kernel < 8 * 63e-6, "in the middle between one pass and those of a product"


# Gathers and strides cross the link in whole sectors: what lies together and fills them crosses once

ROWS, ALONE = 1 << 15, 18.72
ORDER = np.random.default_rng(1).permutation(ROWS)
EIGHTH, FAR = np.arange(ROWS) % 8 == 0, np.arange(ROWS) % 32 == 0


def crossings(array: Any, function: Callable[[Any], Any]) -> float:
    """Bytes that cross, over those that the stage gathers."""
    (traffic,) = device_trace(lambda a: function(a), a=array).traffic
    return 1 + sum(item.bytes for item in traffic.again) / traffic.bytes_read


COLUMNS = np.random.default_rng(1).permutation(4096)[:512]
OF_ROWS = [
    lambda a: a[ORDER[:512]],
    lambda a: a.take(ORDER[:512], axis=0),
    lambda a: np.take(a, ORDER[:512], axis=0),
    lambda a: a[EIGHTH],
    lambda a: a[list(ORDER[:512])],
    lambda a: a.compress(EIGHTH, axis=0),
    lambda a: a[::4] + 1,
]
OF_ELEMENTS = [
    (lambda a: a[ORDER], ALONE),
    (lambda a: a.take(ORDER), ALONE),
    (lambda a: np.take_along_axis(a, ORDER, axis=0), ALONE),
    (lambda a: a[np.arange(ROWS)], 1),
    (lambda a: a[EIGHTH], 8),
    (lambda a: np.extract(EIGHTH, a), 8),
    (lambda a: a[FAR], ALONE),
    (lambda a: a[::2] + 1, 2),
    (lambda a: a[::8] + 1, 8),
    (lambda a: a[::32] + 1, ALONE),
    (lambda a: a[:1024] + 1, 1),
]
AXES = [None, 0, 1, 2, 3, (0, 2), (2, 3), (0, 1, 2, 3)]


@every(
    ("shape", "read", "expected"),
    [
        *(((ROWS, width), read, 1) for width in (8, 16, 32, 4096) for read in OF_ROWS),
        *(((ROWS, width), lambda a: a[ORDER], ALONE / width) for width in (1, 2, 4)),
        ((ROWS, 8), lambda a: a[ORDER], 1),
        ((64, 4096), lambda a: a[:, COLUMNS], 16.6),
        ((64, 4096), lambda a: a.take(COLUMNS, axis=1), 16.6),
        ((64, 4096), lambda a: a[:, ::2] + 1, 2),
        *(((ROWS,), read, expected) for read, expected in OF_ELEMENTS),
        *(((54, 20, 96, 128), lambda a, axis=axis: a.sum(axis=axis), 1) for axis in AXES),
    ],
)
def test_whole_sectors_cross_once_and_elements_come_with_theirs(
    shape: tuple[int, ...], read: Callable[[Any], Any], expected: float
) -> None:
    rel = 1e-9 if expected == 1 else 0.02
    assert crossings(np.zeros(shape, np.float32), read) == pytest.approx(expected, rel=rel)


def test_a_table_that_an_l1_holds_is_not_fetched_again() -> None:
    assert gathered_beyond(np.zeros(4096, np.float32), (ORDER % 4096,)) == 0


def test_a_large_gather_is_judged_by_its_first_places(monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.zeros(ROWS, np.float32)
    for key in ((ORDER,), (EIGHTH,)):
        whole = gathered_beyond(table, key)
        monkeypatch.setattr(routines, "_MOST", 4096)
        assert gathered_beyond(table, key) == pytest.approx(whole, rel=0.05)
        monkeypatch.undo()


def test_a_view_without_gaps_fetches_nothing_more() -> None:
    a = np.zeros((64, 64), np.float32)
    for view in (a, a.T, a[3:9], np.broadcast_to(a, (4, 64, 64)), a[:, :8], a[:0], a[0, 0]):
        assert strided_beyond(view) == 0


@every(
    "reduce",
    [
        lambda a: a.mean(axis=(1, 3), dtype=np.float32),
        lambda a: np.mean(a, axis=(1, 3), dtype=np.float32),
        lambda a: a.max(axis=(1, 3)),
        lambda a: np.maximum.reduce(a, axis=(-3, -1)),
    ],
)
def test_a_reduction_of_short_pieces_fetches_their_sectors(reduce: Callable[[Any], Any]) -> None:
    """Pieces of 20 bytes, each 1,920 from the last: a mean of them took 4.3 times a pass on an H200."""
    assert 4 < crossings(np.zeros((54, 20, 96, 20), np.uint8), reduce) < 6
