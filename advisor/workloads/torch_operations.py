"""Reads, writes and arithmetic of PyTorch's operators, seen while a stage runs on the CPU.

Every operator that PyTorch dispatches is reported once, composite ones by their parts; views are not.
Products, convolutions and attention have the arithmetic of `torch.utils.flop_counter`; an element-wise
operator has one operation for each element.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

GATHERS = frozenset(("index", "index_select", "embedding", "gather", "take"))
"""Operators that read of their first tensor only what they return."""
_FILLS = frozenset(("copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_"))
"""Operators that write their own tensor without reading it."""
_NOTHING = frozenset(("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_"))


@dataclass(frozen=True)
class Operation:
    """One operator: the memory of the tensors it reads and writes, and its arithmetic."""

    name: str
    read: Sequence[Array]
    written: Sequence[Array]
    flops: float
    key: tuple[Any, ...] | None = None
    """The key into the first tensor, where it gathers along axes."""


@contextmanager
def torch_operations(report: Callable[[Operation], None]) -> Iterator[None]:
    """Calls `report` with every operator inside; with none if PyTorch was not imported."""
    if not hasattr(sys.modules.get("torch"), "Tensor"):
        yield
        return
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    class Mode(TorchDispatchMode):  # type: ignore[misc, no-untyped-call, unused-ignore]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            packet, kwargs = func._overloadpacket, kwargs or {}
            if packet not in flop_registry:
                with self:
                    parts = func.decompose(*args, **kwargs)
                if parts is not NotImplemented:
                    return parts
            result = func(*args, **kwargs)
            if operation := _operation(func, args, kwargs, result):
                # The CPU's attention is the GPU's, by another name.
                on_gpu = getattr(packet, "__name__", "").removesuffix("_for_cpu")
                count = flop_registry.get(packet) or flop_registry.get(getattr(torch.ops.aten, on_gpu, None))
                flops = float(count(*args, **kwargs, out_val=result)) if count else operation.flops
                report(replace(operation, flops=flops))
            return result

    with Mode():  # type: ignore[no-untyped-call, unused-ignore]
        yield


def _operation(func: Any, args: Any, kwargs: Any, result: Any) -> Operation | None:
    """The operation; None for a view, an allocation, or an operator on another device."""
    import torch

    name, schema = func._overloadpacket.__name__, func._schema
    returned = [r.alias_info for r in schema.returns]
    if name in _NOTHING or any(alias is not None and not alias.is_write for alias in returned):
        return None
    read, written = [], []
    for position, argument in enumerate(schema.arguments):
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        changed = argument.alias_info is not None and argument.alias_info.is_write
        tensors = list(_tensors(value))
        written += tensors if changed else []
        read += [] if changed and (argument.is_out or name in _FILLS) else tensors
    written += [t for t in _tensors(result) if not any(t is other for other in written)]
    if any(t.device.type != "cpu" for t in (*read, *written)):
        return None
    pointwise = torch.Tag.pointwise in func.tags and name not in _FILLS
    flops = float(max((t.numel() for t in written), default=0)) if pointwise else 0.0
    return Operation(name, list(map(_memory, read)), list(map(_memory, written)), flops, _key(name, args))


def _key(name: str, args: Sequence[Any]) -> tuple[Any, ...] | None:
    if name == "embedding":
        return (_memory(args[1]),)
    if name == "index_select":
        return (*(slice(None),) * (args[1] % args[0].dim()), _memory(args[2]))
    if name == "index":
        return tuple(slice(None) if part is None else _memory(part) for part in args[1])
    if name == "gather":
        along, index = args[1] % args[0].dim(), _memory(args[2])
        others = np.ogrid[tuple(map(slice, index.shape))]
        return tuple(index if axis == along else others[axis] for axis in range(index.ndim))
    if name == "take":
        return np.unravel_index(_memory(args[1]) % args[0].numel(), tuple(args[0].shape))
    return None


def _tensors(value: Any) -> Iterator[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)


def _memory(tensor: Any) -> Array:
    """The tensor's memory as an array; elements unknown to NumPy, such as bfloat16, are opaque bytes."""
    size = tensor.element_size()
    try:
        kind = np.dtype(str(tensor.dtype).removeprefix("torch.")).str
    except TypeError:
        kind = f"|V{size}"
    layout = {
        "version": 3,
        "data": (tensor.data_ptr(), False),
        "shape": tuple(tensor.shape),
        "strides": tuple(size * stride for stride in tensor.stride()),
        "typestr": kind,
    }
    if not tensor.numel() or not tensor.data_ptr():
        return np.empty(tuple(tensor.shape), kind)
    return np.asarray(SimpleNamespace(__array_interface__=layout))
