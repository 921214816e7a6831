"""What can be imposed on a script from outside (scripts.toml). CuPy's side is backends/imposing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.errors import UsageError, nearest
from advisor.profiles.schema import Device
from advisor.profiles.toml_files import read_toml

UNCHANGED = "default-pool"
"""The script as it is."""


@dataclass(frozen=True)
class ScriptStrategy:
    """One way to run the script. `code` is what to write at its top to have it for good."""

    name: str
    summary: str
    code: str = ""
    needs: str = ""
    must_be_known: bool = False
    refusal: str = ""

    def unavailable(self, device: Device) -> str | None:
        """Why it cannot be used on that device, or None."""
        known = device.attributes.get(self.needs)
        there = bool(known) if self.must_be_known else known is None or bool(known)
        return self.refusal.format(device=device.name) if self.needs and not there else None


SCRIPT_STRATEGIES = tuple(
    ScriptStrategy(name, **facts)
    for name, facts in read_toml(Path(__file__).with_name("scripts.toml")).items()
)


def choose(names: Sequence[str]) -> tuple[ScriptStrategy, ...]:
    """The named strategies, or all if none is named; the unchanged script is always among them.

    Raises `UsageError` with the nearest name.
    """
    known = [strategy.name for strategy in SCRIPT_STRATEGIES]
    for name in names:
        if name not in known:
            raise UsageError(
                f"a script cannot be run under {name!r}{nearest(name, known)}",
                next_step=f"Choose from {', '.join(known)}; all other strategies need a @workload.",
            )
    return tuple(s for s in SCRIPT_STRATEGIES if not names or s.name in (UNCHANGED, *names))


def code(name: str) -> str:
    """What to write at the top of the script to have that strategy; empty for the script as it is."""
    found = next((s.code for s in SCRIPT_STRATEGIES if s.name == name), "")
    return f"import cupy\n\n{found}" if found and not found.startswith("#") else found
