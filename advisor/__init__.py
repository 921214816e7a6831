"""Which memory strategy should your code use on this device? The public names; see README.md.

The names are loaded on first use, so that `import advisor` costs nothing.
"""

from __future__ import annotations

from advisor.version import __version__

TYPE_CHECKING = False  # without typing, which takes milliseconds in which Ctrl-C would show a traceback
if TYPE_CHECKING:
    from typing import Any

    from advisor.api import Comparison, Profile, VersionComparison, compare, compare_versions, load, profile
    from advisor.errors import AdvisorError
    from advisor.fleets.api import Fleet, fleet
    from advisor.workloads.definition import Buffer, In, InOut, Out, Workload, device, host, repeat, workload
    from advisor.workloads.kernels import kernel
    from advisor.workloads.outline import result

_HOME = {
    **dict.fromkeys(("Buffer", "In", "InOut", "Out", "Workload"), "advisor.workloads.definition"),
    **dict.fromkeys(("device", "host", "repeat", "workload"), "advisor.workloads.definition"),
    **dict.fromkeys(("Comparison", "Profile", "VersionComparison"), "advisor.api"),
    **dict.fromkeys(("compare", "compare_versions", "load", "profile"), "advisor.api"),
    **dict.fromkeys(("Fleet", "fleet"), "advisor.fleets.api"),
    "AdvisorError": "advisor.errors",
    "kernel": "advisor.workloads.kernels",
    "result": "advisor.workloads.outline",
}
__all__ = [
    "AdvisorError", "Buffer", "Comparison", "Fleet", "In", "InOut", "Out", "Profile", "VersionComparison",
    "Workload", "__version__", "compare", "compare_versions", "device", "fleet", "host", "kernel", "load",
    "profile", "repeat", "result", "workload",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'advisor' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext advisor` in a notebook: then `%%advisor` profiles a cell as a script, by line."""
    from advisor.api import profile_cell

    shell.register_magic_function(profile_cell, "cell", "advisor")
