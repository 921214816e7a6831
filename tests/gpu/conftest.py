"""Everything here needs a real CUDA GPU and is skipped, with the reason, where there is none."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from advisor.measure.backends import gpu_count, has_cupy, open_backend
from advisor.strategies.backend import Backend


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = "the CUDA driver reports no GPU" if gpu_count() == 0 else "" if has_cupy() else "CuPy is missing"
    for item in items:
        if "gpu" in item.path.parts:
            item.add_marker(pytest.mark.gpu)
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A failure is told at once: time on a GPU may run out before the summary."""
    if report.failed:
        sys.stderr.write(f"\n{report.nodeid}\n{report.longreprtext}\n")
        sys.stderr.flush()


@pytest.fixture(scope="session")
def first_gpu() -> Backend:
    """The first GPU, opened once."""
    return open_backend("cuda")


@pytest.fixture
def cuda(first_gpu: Backend) -> Iterator[Backend]:
    """The first GPU with its stream current, whatever other tests opened since."""
    with first_gpu.stream:
        yield first_gpu
    first_gpu.synchronize()
