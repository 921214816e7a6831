"""What the user's code replaced in modules that this program needs too."""

from __future__ import annotations

import builtins
import inspect
import json
import os
import pathlib
import threading
import time
import traceback
from dataclasses import dataclass, field
from types import ModuleType

import numpy as np

_NEEDED: tuple[ModuleType | type, ...] = (
    builtins,
    os,
    time,
    json,
    inspect,
    threading,
    traceback,
    np,
    pathlib.Path,
)
_MOST_NAMED = 3


@dataclass(frozen=True)
class Intact:
    """The modules as they were when this was made."""

    before: tuple[dict[str, object], ...] = field(
        default_factory=lambda: tuple(dict(vars(m)) for m in _NEEDED)
    )

    def restore(self) -> str:
        """Puts back what was replaced or removed; its names, as in a message, or nothing."""
        names = []
        for module, before in zip(_NEEDED, self.before, strict=True):
            now = vars(module)
            changed = [name for name, value in before.items() if now.get(name) is not value]
            for name in changed:
                setattr(module, name, before[name])
            names += [f"{module.__name__}.{name}" for name in changed]
        more = (f"{len(names) - _MOST_NAMED} more",) if len(names) > _MOST_NAMED else ()
        return ", ".join((*names[:_MOST_NAMED], *more))
