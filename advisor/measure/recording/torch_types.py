"""`torch.cuda.FloatTensor` and the like: types that make tensors on the GPU, recorded as today's calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from advisor.measure.recording.calls import replace

_NAMES = ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool")


class CudaType:
    """Stands in for such a type, which exists on the GPU alone and can be neither wrapped nor derived."""

    is_cuda = True

    def __init__(self, torch: Any, name: str) -> None:
        self._torch, self.dtype = torch, getattr(torch, name).dtype
        self.__name__ = self.__qualname__ = name

    def __call__(self, *args: Any, **_: Any) -> Any:
        """Sizes give memory that is not initialised; data is uploaded."""
        sizes = args[0] if len(args) == 1 and isinstance(args[0], self._torch.Size) else args
        if all(isinstance(each, int) for each in sizes):
            return self._torch.empty(sizes, dtype=self.dtype, device="cuda")
        return self._torch.as_tensor(args[0], dtype=self.dtype, device="cuda")

    def __instancecheck__(self, tensor: Any) -> bool:
        return bool(getattr(tensor, "is_cuda", False)) and tensor.dtype is self.dtype


def install(torch: Any) -> None:
    """Puts them in place, and around the two functions that take such a type."""
    for name in _NAMES:
        setattr(torch.cuda, f"{name}Tensor", CudaType(torch, f"{name}Tensor"))
    replace(torch.Tensor, "type", _converting)
    replace(torch, "set_default_tensor_type", lambda call: lambda kind: _set_default(torch, call, kind))


def _converting(call: Callable[..., Any]) -> Callable[..., Any]:
    def convert(tensor: Any, dtype: Any = None, non_blocking: bool = False, **options: Any) -> Any:
        if isinstance(dtype, CudaType):
            return tensor.to("cuda", dtype.dtype, non_blocking)
        return call(tensor) if dtype is None else call(tensor, dtype, non_blocking, **options)

    return convert


def _set_default(torch: Any, call: Callable[..., Any], kind: Any) -> None:
    if isinstance(kind, CudaType):
        torch.set_default_dtype(kind.dtype)
        torch.set_default_device("cuda")
    else:
        call(kind)
