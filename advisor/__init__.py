"""Which memory strategy should your code use on this device? The public names; see README.md.

The names are loaded on first use, so that `import advisor` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from advisor.api import profile
    from advisor.comparing import Comparison, compare
    from advisor.errors import AdvisorError
    from advisor.kernels.calls import kernel
    from advisor.profiles import Profile, load
    from advisor.scripts.outputs import result
    from advisor.workloads import Buffer, In, InOut, Out, Workload, device, host, workload

_HOME = {
    **dict.fromkeys(
        ("Buffer", "In", "InOut", "Out", "Workload", "device", "host", "workload"), "advisor.workloads"
    ),
    **dict.fromkeys(("Profile", "load"), "advisor.profiles"),
    **dict.fromkeys(("Comparison", "compare"), "advisor.comparing"),
    "AdvisorError": "advisor.errors",
    "kernel": "advisor.kernels.calls",
    "profile": "advisor.api",
    "result": "advisor.scripts.outputs",
}
__all__ = [
    "AdvisorError",
    "Buffer",
    "Comparison",
    "In",
    "InOut",
    "Out",
    "Profile",
    "Workload",
    "compare",
    "device",
    "host",
    "kernel",
    "load",
    "profile",
    "result",
    "workload",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'advisor' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
