"""missing-synchronisation: results that are right with synchronous copies and wrong without them."""

from __future__ import annotations

from collections.abc import Mapping

from advisor.profiles.schema import WRONG_RESULTS, Environment, Evidence
from advisor.rules.base import Finding, Row, Rule, not_applicable, passed
from advisor.rules.findings import ALL_CLASSES, UNKNOWN_CLASS
from advisor.strategies.registry import BASELINE

_BLOCKING = (BASELINE, "staged")
"""Their copies to the host return when all that was on the stream is done."""


def judge(
    rows: Mapping[str, Row],
    failed: Mapping[str, str],
    machine: Environment | None,
    limits: Mapping[str, float],
) -> Finding:
    """Says which strategies gave other results, where those that wait by themselves gave the right ones."""
    del limits
    if machine is None:
        return not_applicable("Nothing was run on this device: there are no results to compare.")
    wrong = {name: reason for name, reason in failed.items() if reason.startswith(WRONG_RESULTS)}
    agree = [row.strategy for row in rows.values() if row.verified]
    if not wrong and not agree:
        return not_applicable("The results of the strategies could not be compared.")
    if not wrong:
        return passed(
            "All strategies gave the same results.", _count("strategies whose results agree", len(agree))
        )
    shown = (
        _count("strategies whose results differ", len(wrong)),
        _count("strategies whose results agree", len(agree)),
    )
    if any(name in wrong for name in _BLOCKING) or not any(name in agree for name in _BLOCKING):
        return passed(
            f"Results of {', '.join(wrong)} differ, but nothing points to a wait that is missing: there is "
            "no strategy with synchronous copies that gave the right ones while the others failed.",
            *shown,
        )
    return Finding("advice", _detail(wrong, agree), evidence=shown, inferred=True)


def _count(label: str, value: int) -> Evidence:
    return Evidence(label=label, value=value, unit="count")


def _detail(wrong: Mapping[str, str], agree: list[str]) -> str:
    name, reason = next(iter(wrong.items()))
    said = reason.removeprefix(WRONG_RESULTS)
    waiting = ", ".join(strategy for strategy in _BLOCKING if strategy in agree)
    return (
        f"The results of {', '.join(wrong)} are wrong ({name}: {said}), those of {waiting} are right. There "
        "a copy waits for the GPU; elsewhere the frame waits for the stream that device stages run on, and "
        "for nothing else. Look for work on a stream of your own, for kernels started in a thread, and for "
        "arrays kept from an earlier frame: run it on the `stream` that a stage may ask for, or synchronise "
        "before the stage returns. In your program the same wait belongs before the CPU reads."
    )


RULE = Rule(
    id="missing-synchronisation",
    title="Wait for the GPU before the CPU uses what a kernel wrote",
    why="A synchronous copy waits for all that was queued before it on its stream. Take the copies away, "
    "as zero-copy, managed and page-locked memory do, and the wait is gone with them: the CPU reads what "
    "the kernel has not written yet, and writes what it still reads. It is the classic error of such a "
    "change, and it shows as results that are wrong now and then.",
    memory_classes=ALL_CLASSES,
    elsewhere=UNKNOWN_CLASS,
    needs=("rows", "failed", "machine"),
    thresholds=(),
    sources=(
        "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#asynchronous-concurrent-execution",
        "https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html",
    ),
    judge=judge,
)
