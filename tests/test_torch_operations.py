"""PyTorch's operators in a stage: bytes by buffer, arithmetic and calls, as of NumPy's."""

from __future__ import annotations

from collections.abc import Callable
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


def test_factorizations_are_named_and_norms_are_not() -> None:
    def use(a: Any) -> None:
        torch.linalg.solve(a, a), torch.linalg.norm(a), torch.linalg.svd(a)

    (work,) = seen(use, a=np.eye(N, dtype=np.float32)).work
    assert work.uncounted == ("linalg_solve", "linalg_svd")


def test_attention_is_arithmetic() -> None:
    def attend(a: Any) -> None:
        q = a.reshape(1, 1, N, N)
        torch.nn.functional.scaled_dot_product_attention(q, q, q)

    assert seen(attend, a=square()).work[0].flops == 2 * 2 * N**3


def test_a_convolution_reads_its_input_again_the_fewer_channels_the_more() -> None:
    """4.8 times with 3 channels, 1.1 with 128 on an H200; its weights are not counted."""
    for channels, passes in ((3, 4.8), (128, 1.1)):
        image = np.ones((2, channels, 128, 128), np.float32)
        weights = np.ones((8, channels, 3, 3), np.float32)
        first, second = seen(torch.nn.functional.conv2d, input=image, weight=weights).traffic
        (item,) = first.again
        assert item.call == "convolution"
        assert item.bytes == pytest.approx((passes - 1) * image.nbytes)
        assert not second.again


def test_a_copy_of_a_transpose_reads_sectors_again() -> None:
    big = np.ones((512, 512), np.float32)
    (item,) = seen(lambda a: a.t().contiguous(), a=big).traffic[0].again
    assert item.bytes == pytest.approx(17.97 * big.nbytes)
    assert not seen(lambda a: a.clone(), a=big).traffic[0].again


FAR = 1 << 15
ORDER = np.random.default_rng(1).permutation(FAR)


@every(
    "gather",
    [
        lambda a, order: a[order],
        lambda a, order: torch.gather(a, 0, order),
        lambda a, order: torch.take(a, order - FAR),
        lambda a, order: torch.index_select(a, 0, order),
    ],
)
def test_elements_that_lie_apart_come_with_their_sectors(gather: Callable[..., Any]) -> None:
    order = torch.from_numpy(ORDER)
    (traffic,) = seen(lambda a: gather(a, order), a=np.ones(FAR, np.float32)).traffic
    assert traffic.bytes_read == 4 * FAR
    assert sum(item.bytes for item in traffic.again) / traffic.bytes_read == pytest.approx(17.7, abs=0.5)


def test_rows_that_are_gathered_along_an_axis_are_told_from_elements() -> None:
    index = torch.arange(N).expand(N, N)
    (traffic,) = seen(lambda a: torch.gather(a, 1, index), a=square()).traffic
    assert sum(item.bytes for item in traffic.again) == 0
