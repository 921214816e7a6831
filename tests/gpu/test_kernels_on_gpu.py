"""`advisor.kernel` on a real GPU: compiled, right under every strategy, errors in the user's lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import bench
from running import FILES, asked

import advisor
from advisor import pipeline
from advisor.errors import WorkloadError
from advisor.measure.progress import Silent
from advisor.strategies.backend import Backend
from advisor.workloads.definition import Buffer, In, Out, Workload, device, host

pytestmark = pytest.mark.filterwarnings("default")
"""Other libraries' own warnings are no failure of ours."""

BROKEN = """
extern "C" __global__ void broken(float* a)
{
    a[0] = absent;
}
"""
TEMPLATE = """
template <typename T> __global__ void twice(const T* a, T* b, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[i] = a[i] + a[i];
}
"""


def test_a_file_with_a_header_is_right_under_every_strategy(tmp_path: Path, cuda: Backend) -> None:
    settings = asked(FILES / "cuda_file.py", backend="cuda", rounds=1, max_seconds=20.0)
    profile = pipeline.profile(settings, Silent(), keep_in=tmp_path)
    failed = {row.strategy: row.reason for row in profile.results if row.status == "failed"}
    assert failed == {}
    assert len(profile.measured()) >= 8


@pytest.mark.parametrize("form", [None, "torch", "pointer"])
def test_a_template_takes_buffers_in_every_form(form: str | None, cuda: Backend) -> None:
    if form == "torch":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    kernel, log = advisor.kernel(TEMPLATE, "twice<float>"), []

    def produce(a: Out, frame: int) -> None:
        a.fill(frame)

    def twice(a: In, b: Out) -> None:
        kernel(a, b, np.int32(1000), size=1000)

    def consume(b: In) -> None:
        log.append((float(b.min()), float(b.max())))

    buffers: dict[str, Any] = {name: Buffer(1000, np.float32) for name in "ab"}
    workload = Workload(buffers, [host(produce), device(twice, arrays=form), host(consume)])
    with bench(workload, "pinned", cuda) as run:
        run.start()
        run.loop.frame_alone(5)
    assert log == [(0.0, 0.0), (10.0, 10.0)]


def test_a_compile_error_names_the_line_of_this_file(cuda: Backend) -> None:
    line = Path(__file__).read_text(encoding="utf-8").splitlines().index("    a[0] = absent;") + 1
    with pytest.raises(WorkloadError) as caught:
        advisor.kernel(BROKEN, "broken")(cuda.xp.zeros(1, np.float32))
    assert f"test_kernels_on_gpu.py, line {line}: " in caught.value.message
