"""What one run of `advisor profile` goes by, validated before anything runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from advisor.devices.catalogue import System
from advisor.devices.entries import CatalogueEntry
from advisor.measure.jobs import Tree
from advisor.measure.options import Options
from advisor.profiles.conclusions import Preferences
from advisor.profiles.figures import SearchMode
from advisor.strategies.backend import BackendName
from advisor.strategies.registry import Strategy


@dataclass(frozen=True)
class Settings:
    file: Path
    workload: str | None
    assignments: Mapping[str, str]
    backend: BackendName
    gpu: int
    strategies: tuple[Strategy, ...]
    targets: tuple[CatalogueEntry, ...]
    """Named by the user."""
    timeout: float
    """Seconds after which a process is ended, a script only where the user says so."""
    options: Options
    """As merged from every place that says some; the fields here are what follows from them."""
    command: str
    arguments: tuple[str, ...] | None = None
    """A script's own arguments; None where the file is a workload."""
    module: str = ""
    trial_seconds: float = math.inf
    """Time limit for the whole command with a script's trials, which end where it is over."""
    began: float | None = None
    """On the run's clock, when its time began; when it is run if None."""
    targets_under: System | None = None
    """Nobody named a target: the default devices are predicted, under this system."""
    gpus: tuple[int, ...] = ()
    search: SearchMode = "off"
    preferences: Preferences = field(default_factory=Preferences)
    tree: Tree | None = None
    """The checkout of a version of the code that is not the user's own; `file` is in it."""
    final: bool = True
    """Hold a final after the screening, where the device has one."""
