"""The strategies as PyTorch has them: pinned tensors of its own, and views of memory that CuPy allocates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from advisor.profiles.schema import BufferRecord, Device, WorkloadRecord
from advisor.rules.placed import shared
from advisor.rules.snippets.cupy_code import dialect
from advisor.rules.snippets.serial import Dialect
from advisor.strategies.registry import Strategy

STREAM = "stream = torch.cuda.current_stream()  # the one your kernels run on"
_DTYPES = frozenset(("float16", "float32", "float64", "complex64", "complex128", "bool"))
_DTYPES |= frozenset(("uint8", "int8", "int16", "int32", "int64"))
"""NumPy's names that PyTorch has too, in every version."""
_VIEWED = ("zero-copy", "zero-copy-wc", "zero-copy-registered", "managed")
"""PyTorch allocates no such memory, but takes a view of it."""


def torch_dialect(strategy: Strategy, workload: WorkloadRecord, device: Device) -> Dialect | None:
    """How PyTorch says it; None where it cannot, or where a dtype is not one of its own."""
    if any(buffer.dtype not in _DTYPES for buffer in shared(workload)):
        return None
    if strategy.name == "pinned":
        return _PINNED
    if strategy.name not in _VIEWED or (made := dialect(strategy, workload, device)) is None:
        return None

    def allocate(buffer: BufferRecord) -> Iterator[str]:
        yield from made.allocate(buffer)
        yield f'{buffer.name}_device = torch.as_tensor({buffer.name}_device, device="cuda")  # no copy'

    return replace(
        made,
        helpers=made.helpers.replace("import numpy as np\n", "import numpy as np\nimport torch\n", 1),
        allocate=allocate,
        stream=STREAM,
    )


def _pinned(buffer: BufferRecord) -> Iterator[str]:
    arguments = f"{buffer.shape}, dtype=torch.{buffer.dtype}"
    yield f"{buffer.name} = torch.empty({arguments}, pin_memory=True)  # .numpy() is the same memory"
    yield f'{buffer.name}_device = torch.empty({arguments}, device="cuda")'


_PINNED = Dialect(
    "import torch\n",
    _pinned,
    STREAM,
    to_device=lambda n: f"{n}_device.copy_({n}, non_blocking=True)  # in place of {n}.to('cuda')",
    to_host=lambda n: f"{n}.copy_({n}_device, non_blocking=True)  # not {n}_device.cpu()",
)
