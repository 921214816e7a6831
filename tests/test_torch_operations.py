"""PyTorch's operators in a stage: bytes by buffer, arithmetic and calls, as of NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from every import every
from test_traffic import run

from advisor.profiles.schema import Trace

torch: Any = None
N = 64
SIZE = float(4 * N * N)


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    """Not while tests are collected, which every process does: it takes more than a second."""
    globals()["torch"] = pytest.importorskip("torch", reason="PyTorch is not installed")


def seen(function: Callable[..., Any], **arrays: Any) -> Trace:
    def stage(**traced: Any) -> None:
        function(**{name: torch.from_numpy(array) for name, array in traced.items()})

    return run(stage, "device", **arrays)


def square() -> Any:
    return np.ones((N, N), np.float32)


def inferred(a: Any, b: Any) -> None:
    with torch.inference_mode():
        b.copy_(torch.nn.functional.linear(a, a))


@every(
    ("function", "read", "written", "flops", "calls"),
    [
        (lambda a, b: torch.mm(a, a, out=b), 2, 1, 2 * N**3, 1),
        (lambda a, b: b.copy_(a @ a), 2, 1, 2 * N**3, 2),
        (inferred, 2, 1, 2 * N**3, 2),
        (lambda a, b: torch.add(a, 1, out=b), 1, 1, N * N, 1),
        (lambda a, b: b.copy_(a.view(-1).view(N, N).t()), 1, 1, None, 1),
        (lambda a, b: b.add_(a), 1, 1, N * N, 1),
        (lambda a, b: (a.mul_(2), b.zero_()), 1, 1, N * N, 2),
        (lambda a, b: (a.zero_(), b.fill_(1)), 0, 1, None, 2),
        (lambda a, b: b[:, :8].copy_(a[:, :8]), 1 / 8, 1 / 8, None, 1),
        (lambda a, b: b.copy_(a.to(torch.bfloat16)), 1, 1, None, 2),
    ],
)
def test_what_operators_do_is_counted(
    function: Callable[..., Any], read: float, written: float, flops: float | None, calls: int
) -> None:
    trace = seen(function, a=square(), b=square())
    by_name, (work,) = {t.buffer: t for t in trace.traffic}, trace.work
    assert by_name["a"].bytes_read == read * SIZE
    assert by_name["b"].bytes_written == written * SIZE
    assert (work.flops, work.calls) == (flops, calls)
    assert {t.source for t in trace.traffic} == {"traced"}


def test_attention_is_arithmetic_factorizations_are_named_and_norms_are_not() -> None:
    attention = torch.nn.functional.scaled_dot_product_attention
    attended = seen(lambda a: attention(*[a.reshape(1, 1, N, N)] * 3), a=square())
    assert attended.work[0].flops == 2 * 2 * N**3
    (work,) = seen(lambda a: [getattr(torch.linalg, f)(a) for f in ("norm", "svd", "inv")], a=np.eye(N)).work
    assert work.uncounted == ("linalg_svd", "linalg_inv")


def test_what_a_convolution_and_a_transpose_read_again() -> None:
    """4.8 times with 3 channels, 1.1 with 128 on an H200; its weights are not counted."""
    for channels, passes in ((3, 4.8), (128, 1.1)):
        image = np.ones((2, channels, 128, 128), np.float32)
        weights = np.ones((8, channels, 3, 3), np.float32)
        first, second = seen(torch.nn.functional.conv2d, input=image, weight=weights).traffic
        assert [item.call for item in first.again] == ["convolution"]
        assert first.again[0].bytes == pytest.approx((passes - 1) * image.nbytes)
        assert not second.again
    big = np.ones((512, 512), np.float32)
    (item,) = seen(lambda a: a.t().contiguous(), a=big).traffic[0].again
    assert item.bytes == pytest.approx(17.97 * big.nbytes)
    assert not seen(lambda a: a.clone(), a=big).traffic[0].again


FAR = 1 << 15
ORDER = np.random.default_rng(1).permutation(FAR)


GATHERS = {
    "a[order]": lambda a, order: a[order],
    "gather": lambda a, order: torch.gather(a, 0, order),
    "take": lambda a, order: torch.take(a, order - FAR),
    "index_select": lambda a, order: torch.index_select(a, 0, order),
}


def test_elements_that_lie_apart_come_with_their_sectors_and_rows_do_not() -> None:
    order, elements = torch.from_numpy(ORDER), np.ones(FAR, np.float32)
    read = {
        name: seen(partial(gather, order=order), a=elements).traffic[0] for name, gather in GATHERS.items()
    }
    assert {name: each.bytes_read for name, each in read.items()} == dict.fromkeys(GATHERS, 4 * FAR)
    again = {name: sum(item.bytes for item in each.again) / (4 * FAR) for name, each in read.items()}
    assert again == pytest.approx(dict.fromkeys(GATHERS, 17.7), abs=0.5)
    rows = torch.arange(N).expand(N, N)
    (traffic,) = seen(lambda a: torch.gather(a, 1, rows), a=square()).traffic
    assert sum(item.bytes for item in traffic.again) == 0
