"""`advisor trace --fail-if`: conditions that fail a program's report."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from advisor import units
from advisor.errors import UsageError, nearest
from advisor.profiles.programs import ProgramTrace
from advisor.rules.report_rules import RULES

_CEILING = re.compile(r"ceiling=([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%")
_IDS = (*RULES, "unbalanced-split")
_KNOWN = f"Write advice, ceiling=10%, or a rule that a report can carry: {', '.join(_IDS)}."


@dataclass(frozen=True)
class ReportGate:
    """One `--fail-if`: a rule, `advice` for all of them, or the most that memory may change."""

    text: str
    limit: float | None = None


def parse_gates(texts: Sequence[str]) -> tuple[ReportGate, ...]:
    """Raises `UsageError` for anything else."""
    return tuple(dict.fromkeys(_parse(text.strip()) for text in texts))


def _parse(text: str) -> ReportGate:
    if found := _CEILING.fullmatch(text):
        return ReportGate(text, float(found[1]) / 100)
    if text in ("advice", *_IDS):
        return ReportGate(text)
    raise UsageError(f"--fail-if {text!r} is not a gate of a report{nearest(text, _IDS)}", next_step=_KNOWN)


def ruled(gate: ReportGate, program: ProgramTrace | None) -> Iterator[str]:
    """Why the gate fails; nothing where it passes. Raises `UsageError` where there is nothing to judge."""
    if program is None or not program.gpus:
        raise UsageError(
            f"--fail-if {gate.text} has nothing to judge: no GPU work, or only that of advisor's strategies",
            next_step="Omit --fail-if, or name the frames with --frame.",
        )
    if gate.limit is not None:
        for gpu in program.gpus:
            if gpu.ceiling and gpu.ceiling.share > gate.limit:
                share = units.percent(gpu.ceiling.share)
                yield f"memory can change {share} on {gpu.label}"
        return
    for advice in program.advice:
        if advice.outcome == "advice" and gate.text in ("advice", advice.rule):
            yield f"{advice.rule} on {advice.device}"
