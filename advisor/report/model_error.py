"""How far the model was from published measurements, in a sentence beside what it predicts."""

from __future__ import annotations

from collections.abc import Sequence

from advisor import units
from advisor.model import accuracy
from advisor.profiles.schema import MemoryClass, Prediction
from advisor.report import words

FEW_CASES = 10
"""Below so many published cases a share says little; chosen."""
WHERE = "docs/accuracy.md"
_UNKNOWN = f"No published figures of this memory class: the model's error for it is not known ({WHERE})."


def sentence(memory: MemoryClass | None) -> str:
    """The model's error for a device of that memory class, or that none is known."""
    known = accuracy.by_class().get(memory) if memory else None
    if known is None:
        return _UNKNOWN
    told = "; ".join(filter(None, (_choices(known), _ranges(known))))
    few = f" {words.count(known.cases, 'case')} only: these shares say little." if _few(known) else ""
    figures = words.count(known.figures, "published figure")
    return f"The model against {figures} of this memory class, some of which it uses: {told} ({WHERE}).{few}"


def line(predictions: Sequence[Prediction]) -> str:
    """The same for all predicted devices in one line; nothing where nothing was predicted."""
    if not predictions:
        return ""
    known = accuracy.by_class()
    classes = dict.fromkeys(p.device.memory_class for p in predictions)
    told = [_short(memory, known.get(memory) if memory else None) for memory in classes]
    return f"Model against published figures: {'; '.join(told)}"


def _few(known: accuracy.Accuracy) -> bool:
    return known.cases < FEW_CASES


def _choices(known: accuracy.Accuracy) -> str:
    if known.right_share is None:
        return "none of its choices could be checked"
    return (
        f"right or within 5 % in {units.percent(known.right_share)} of {words.count(known.choices, 'choice')}"
    )


def _ranges(known: accuracy.Accuracy) -> str:
    if known.inside_share is None:
        return ""
    return f"{units.percent(known.inside_share)} of the figures lie in the predicted range"


def _short(memory: MemoryClass | None, known: accuracy.Accuracy | None) -> str:
    name = memory or "unknown class"
    if known is None:
        return f"{name} none"
    inside = "" if known.inside_share is None else f", {units.percent(known.inside_share)} in range"
    return f"{name} {words.count(known.figures, 'figure')}{inside}{' (few cases)' if _few(known) else ''}"
