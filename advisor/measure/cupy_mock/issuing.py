"""What a library's calls take of the host's time before the GPU has them: one call on an H200's host.

Measured by us: calls on small arrays one after another without a wait, CuPy 14.2 and PyTorch 2.11, one thread
of a Xeon in a virtual machine; two processes differ by a tenth. What they take on another host is the
model's affair (`host_slowdown` and `issue_share` in defaults.toml).
"""

from __future__ import annotations

_UFUNC, _REDUCTION, _FUNCTION, _TORCH = 9.5e-6, 16e-6, 23e-6, 6.5e-6
"""Calls without a figure of their own; a composite function takes the median of those measured."""
_JOIN = 10e-6
"""For each array that is joined."""
INDEX, SCATTER, WRITE, VIEW, REPEATED = "index", "scatter", "write", "view", "repeated"
"""REPEATED: a batched product that repeats an operand."""

_CALLS = {
    1.8: VIEW,
    5.0: "concatenate vstack hstack",
    6.6: WRITE,
    8.2: "fill zeros_like ones_like full_like empty_like",
    9.0: "stack",
    9.7: "copyto",
    12.2: "copy astype flatten where clip rfft fft",
    15.0: "take repeat diff argmax argmin",
    16.0: "matmul vecdot matvec vecmat dot vdot inner outer sum prod mean max min amax amin any all",
    17.7: INDEX,
    19.4: "tensordot",
    22.3: f"pad {SCATTER}",
    25.0: "cumsum cumprod",
    31.0: "roll norm",
    39.4: "fft2",
    44.3: "sort",
    52.0: REPEATED,
    59.6: "argsort",
    61.4: "var nanvar",
    68.0: "std nanstd",
    74.5: "take_along_axis",
    104.0: "median",
    111.0: "einsum",
}
"""Microseconds."""
_OPERATORS = {
    7.8: "index",
    10.2: "cat",
    11.5: "convolution",
    13.0: "mm bmm addmm baddbmm",
    14.6: "native_layer_norm",
}
"""PyTorch's operators, in microseconds."""
_JOINING = ("concatenate", "stack", "vstack", "hstack")


_KNOWN, _KNOWN_OPERATORS = (
    {name: micro * 1e-6 for micro, names in table.items() for name in names.split()}
    for table in (_CALLS, _OPERATORS)
)


def ufunc_seconds(name: str, method: str) -> float:
    return _KNOWN.get(name, _UFUNC if method == "__call__" else _REDUCTION)


def call_seconds(name: str, arrays: int = 1) -> float:
    return _KNOWN.get(name, _FUNCTION) + (_JOIN * arrays if name in _JOINING else 0.0)


def torch_seconds(name: str) -> float:
    return _KNOWN_OPERATORS.get(name, _TORCH)
