"""What a report of nsys holds, as a page."""

from __future__ import annotations

from advisor import units
from advisor.nsys.exports import FileTrace, WholeTrace
from advisor.profiles.traces import StrategyTrace
from advisor.report import words
from advisor.report.blocks import Banners, Block, Fact, Facts, Prose
from advisor.report.observed import facts, not_observed, steps
from advisor.report.page import Page, Section
from advisor.version import __version__

SLOWER = "Times under a tool are mostly longer than without it; they are not the measured ones."


def trace_page(told: FileTrace) -> Page:
    """One file: each strategy with its figures per frame, or the totals."""
    tool = told.tool or "an export of nsys that does not say its version"
    blocks: list[Block] = [Banners("note", tuple(map(words.line, told.notes)))] if told.notes else []
    blocks += map(_strategy, told.strategies)
    if told.whole:
        blocks.append(_whole(told.whole))
    return Page(
        kind="trace",
        brand="trace",
        title=tool,
        name=tool,
        where="",
        basis="measured",
        sections=(Section("figures", "Figures", (*blocks, Prose(SLOWER))),),
        tool=f"advisor {__version__}",
    )


def _strategy(trace: StrategyTrace) -> Facts:
    frames = words.count(trace.frames, "steady frame")
    seen = list(facts(trace.activity, trace.frames))
    if trace.idle_share is not None:
        seen.append(Fact("GPU idle", f"{units.percent(trace.idle_share)} of the frame"))
    seen += [Fact(f"in {name}", value) for name, value in steps(trace)]
    seen += [Fact("not observed", why) for why in not_observed(trace.absent)]
    title = (
        f"{words.name(trace.strategy)}: {frames} of {units.seconds(trace.frame_seconds)}, figures per frame"
    )
    return Facts(tuple(seen), title)


def _whole(whole: WholeTrace) -> Facts:
    seen = list(facts(whole.activity, 1))
    if whole.idle_share is not None and whole.seconds is not None:
        idle = f"{units.percent(whole.idle_share)} of {units.seconds(whole.seconds)}"
        seen.append(Fact("GPU idle", idle))
    seen += [Fact("not observed", why) for why in not_observed(whole.absent)]
    return Facts(tuple(seen), "None of advisor's ranges is in it; in all:")
