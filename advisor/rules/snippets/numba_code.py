"""The strategies as Numba has them: arrays that its kernels take as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from advisor.profiles.schema import BufferRecord, WorkloadRecord
from advisor.rules.snippets.serial import Dialect, arguments, only_written
from advisor.strategies.registry import Strategy

_HELPERS = """\
import numpy as np
from numba import cuda
"""
_STREAM = "stream = cuda.stream()  # launch kernels on it: kernel[blocks, threads, stream](...)"


def numba_dialect(strategy: Strategy, workload: WorkloadRecord) -> Dialect | None:
    """How Numba says it; None for what it has no call for."""
    if strategy.name == "pinned":
        return Dialect(
            _HELPERS,
            _pinned,
            _STREAM,
            to_device=lambda n: f"{n}_device.copy_to_device({n}, stream=stream)",
            to_host=lambda n: f"{n}_device.copy_to_host({n}, stream=stream)",
        )
    if strategy.name in ("zero-copy", "zero-copy-wc"):
        combined = strategy.name == "zero-copy-wc"
        return _one(lambda b: f", wc={combined and only_written(b, workload)}", "mapped_array")
    if strategy.name == "managed":
        return _one(lambda _: "", "managed_array")
    return None


def _one(options: Callable[[BufferRecord], str], call: str) -> Dialect:
    def allocate(buffer: BufferRecord) -> Iterator[str]:
        name = buffer.name
        yield f"{name} = {name}_device = cuda.{call}({_typed(buffer)}{options(buffer)})  # for both sides"

    return Dialect(_HELPERS, allocate, _STREAM, to_device=str, to_host=str)


def _pinned(buffer: BufferRecord) -> Iterator[str]:
    yield f"{buffer.name} = cuda.pinned_array({_typed(buffer)})"
    yield f"{buffer.name}_device = cuda.device_array({_typed(buffer)})"


def _typed(buffer: BufferRecord) -> str:
    """Numba wants a dtype, not its name."""
    shape, _, dtype = arguments(buffer).partition("), ")
    return f"{shape}), np.dtype({dtype})"
