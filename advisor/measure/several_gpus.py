"""Steps between GPUs: a copy from one to another, and a stream of one that waits for a mark in another's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from advisor.measure.written import Lines
from advisor.strategies.backend import Backend
from advisor.strategies.parts import Bounds
from advisor.strategies.placements.base import Placed
from advisor.strategies.schedule import Step

Marks: TypeAlias = dict[tuple[str, int], Any]
"""By number and GPU: what streams of other GPUs wait for. Each is used again in every frame."""


def crossing(step: Step, placed: Placed, bounds: Callable[[], Bounds]) -> Lines:
    """Brings the buffer, or a part of it, to the step's GPU from another; on the former's stream."""
    assert placed.to_peer is not None
    names = {"cross$": placed.to_peer, "bounds$": bounds}
    return Lines((f"cross$({step.source}, bounds$())",), names)


def ordering(step: Step, backend: Backend, marks: Marks) -> Lines:
    """The stream of the step's GPU gets to a mark, or waits for that of another."""
    here = backend.gpus[step.gpu]
    if step.action == "order":
        names = {"order$": here.order, "stream$": here.stream}
        names |= {"marks$": marks, "key$": (step.name, step.source)}
        return Lines(("order$(stream$, marks$[key$])",), names)
    names = {"mark$": here.mark, "marks$": marks, "key$": (step.name, step.gpu)}
    return Lines(("marks$[key$] = mark$(None, marks$.get(key$))",), names)
