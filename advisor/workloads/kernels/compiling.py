"""Kernels of a user's own, compiled by CuPy with NVRTC for the current device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class CompileFailed(Exception):
    """The source is wrong; the text is the compiler's log."""


def current_device() -> int:
    """The number of the GPU that is current. Raises ImportError without CuPy, RuntimeError without a GPU."""
    import cupy

    return int(cupy.cuda.runtime.getDevice())


def compiled(source: str, name: str, options: Sequence[str], *, mangled: bool) -> Any:
    """The kernel as a `cupy.RawKernel`; `mangled`: its name is a C++ expression such as `scale<float>`.

    Raises `CompileFailed`.
    """
    import cupy

    names = (name,) if mangled else None
    module = cupy.RawModule(code=source, options=tuple(options), name_expressions=names)
    try:
        module.compile()
    except cupy.cuda.compiler.CompileException as problem:
        raise CompileFailed(str(problem)) from None
    return module.get_function(name)
