"""Mixes on a page: their names in words, and why each buffer is placed so."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from advisor import units
from advisor.errors import WorkloadError
from advisor.profiles.conclusions import Recommendation
from advisor.profiles.figures import Instead, Row
from advisor.profiles.schema import BufferRecord, Device, Measured, Profile
from advisor.report import blocks, words
from advisor.strategies.mixes import mixes_of, of_row
from advisor.strategies.placement import Placement
from advisor.strategies.planning import plan_of
from advisor.strategies.registry import Strategy

T = TypeVar("T")
_KEPT = ("profile", "snippet", "variants", "code", "excerpt", "href")
"""Fields that hold code or addresses."""
_VERBS = {"in": "reads", "out": "writes", "inout": "updates"}


def described(page: T, *profiles: Profile) -> T:
    """A page, or a part of it, with each mix named by what it is; code keeps the short name."""
    mixes = {name: row for profile in profiles for name, row in mixes_of(profile).items()}
    if not mixes:
        return page
    names = {name: description(row) for name, row in mixes.items()}
    pattern = re.compile(rf"`({'|'.join(mixes)})`|\b({'|'.join(mixes)})\b")

    def named(match: re.Match[str]) -> str:
        return names[match[1]] if match[1] else names[match[2]].replace("`", "")

    def changed(value: Any) -> Any:
        if isinstance(value, str):
            return pattern.sub(named, value)
        if isinstance(value, (tuple, list)):
            return type(value)(map(changed, value))
        if is_dataclass(value) and not isinstance(value, type):
            values = {f.name: getattr(value, f.name) for f in fields(value) if f.init and f.name not in _KEPT}
            replaced = {name: changed(old) for name, old in values.items()}
            return replace(value, **replaced) if replaced != values else value
        return value

    named_page: T = changed(page)
    return named_page


def description(row: Row) -> str:
    """`table` zero-copy, the rest pinned: the placement that most buffers have comes last."""
    by_placement = words.grouped(row.placements, lambda buffer: row.placements[buffer])
    *others, (rest, last) = sorted(by_placement.items(), key=lambda each: len(each[1]))
    groups = [f"{words.listing(map(words.code, buffers))} {words.name(how)}" for how, buffers in others]
    groups.append(f"{'the rest' if len(last) > 1 else words.code(last[0])} {words.name(rest)}")
    return ", ".join([*groups, *["overlapping frames"] * row.pipelined])


def searched(profile: Profile) -> Iterator[str]:
    """Mixes that the search tried, or why there was none; nothing where none was asked for."""
    search = profile.search
    if search is None:
        return
    if not search.tried:
        yield f"not searched for: {words.line(search.reason, 300)}"
        return
    early = f"; {words.line(search.reason, 300)}" if search.reason else ""
    over = f"{words.name(search.over)}, the best uniform strategy"
    yield (
        f"{len(search.tried)} of {search.mixes} mixes measured in {units.seconds(search.seconds)}, "
        f"side by side with {over}{early}"
    )


def buffers(profile: Profile) -> Iterator[blocks.Table]:
    """A table for each device on which a mix is recommended: where each buffer lies, and why."""
    own = (profile.device, profile.results, profile.recommendation)
    sides: list[tuple[Device, Sequence[Any], Recommendation | None]] = [own]
    sides += [(p.device, p.results, p.recommendation) for p in profile.predictions]
    for device, rows, chosen in sides:
        for row in (row for row in rows if chosen and row.strategy == chosen.strategy and row.placements):
            yield from filter(None, (_table(profile, device, row),))


def _table(profile: Profile, device: Device, row: Row) -> blocks.Table | None:
    strategy, ran = of_row(row), profile.workload
    moved = _moved(strategy, profile, device) if strategy else None
    if strategy is None or moved is None:
        return None
    placed, instead, rows = strategy.placements(ran), _instead(profile, row), []
    for buffer in (b for b in ran.buffers if b.name in row.placements):
        name, size = buffer.name, blocks.TableCell(units.size(buffer.bytes), sort=buffer.bytes)
        why, other = _why(profile, device, buffer, placed[name], moved[name]), instead.get(name)
        best = ""
        if other:
            more = f"{units.seconds(other.seconds)} more" if other.seconds else "the same time"
            best = f"{words.name(other.placement)}: {more}"
        uses = []  # CPU writes 1×, GPU reads 2×, by the stages of a frame
        for side, who in (("host", "CPU"), ("device", "GPU")):
            modes = list(ran.touching(buffer, side).values())  # type: ignore[arg-type]
            uses += [f"{who} {_VERBS[mode]} {modes.count(mode)}×" for mode in dict.fromkeys(modes)]
        if any(stage.phase == "setup" and stage.name in buffer.access for stage in ran.stages):
            uses.append("written in set-up")
        texts = ", ".join(uses), words.name(row.placements[name]), why, best
        rows.append(blocks.row(words.name(name), size, *texts))
    basis = "measured" if isinstance(row, Measured) else "predicted"
    caption = f"Placement of each buffer on {words.name(device.name)}, {basis}."
    heads = blocks.columns("used", "placement", "why", "next best", figures=False)
    contestant = (blocks.Column("size"), *heads)
    return blocks.Table(
        "buffers", "buffer", contestant, tuple(rows), caption=caption, title=caption, forms="html md"
    )


def _moved(strategy: Strategy, profile: Profile, device: Device) -> dict[str, str] | None:
    """How often steady frames copy or prefetch each buffer: "each frame", "1 of 10 frames", or "" where they
    move no byte of it. None if the frame cannot run."""
    ran, valid = profile.workload, profile.traffic.valid_bytes if profile.traffic else {}
    traits = {name: placement.traits(device) for name, placement in strategy.placements(ran).items()}
    try:
        period = plan_of(ran, traits).period
    except WorkloadError:
        return None
    buffers = {buffer.name: buffer for buffer in ran.buffers}
    length = len(period)
    total, frames = dict.fromkeys(traits, 0.0), dict.fromkeys(traits, 0)
    for frame in period:
        moving = [step for step in frame if step.action in ("to-device", "to-host", "to-peer")]
        for name, steps in words.grouped(moving, lambda step: step.name).items():
            total[name] += sum(step.moved(buffers[name], valid) for step in steps)
            frames[name] += 1
    often = {name: "each frame" if n == length else f"{n} of {length} frames" for name, n in frames.items()}
    return {name: often[name] * bool(moved) for name, moved in total.items()}


def _why(profile: Profile, device: Device, buffer: BufferRecord, placement: Placement, often: str) -> str:
    """Why a buffer is placed so: what a frame moves or accesses of it, by the plan and the trace."""
    movement = placement.movement(device.memory_class)
    if movement != "in-place":
        if movement == "migrated":
            return "pages migrate to the side that touches them"
        if not often:
            return "moved once, after set-up: kernels read it from device memory"
        return f"{movement} in {often}"
    if (device.memory_class or "").startswith("tegra"):
        return "used in place: CPU and GPU share one memory"
    kernels = {stage.name for stage in profile.workload.frame_stages("device")}
    rows = [t for t in profile.traffic.traffic if t.buffer == buffer.name] if profile.traffic else []
    touched = sum(t.bytes_read + t.bytes_written for t in rows if t.stage in kernels)
    if not touched:
        return "not copied: kernels access it over the link"
    return f"not copied: kernels access {units.size(round(touched))} over the link in a frame"


def _instead(profile: Profile, row: Row) -> Mapping[str, Instead]:
    """The next best placement of each buffer, stored in a prediction, else from the mixes that were tried.

    A measured row was chosen by its gain in the search, which is too high for that reason, so its time is
    that of the final.
    """
    if not isinstance(row, Measured):
        return getattr(row, "instead", {})
    rows, search = profile.measured(), profile.search
    over = rows.get(search.over) if search else None
    by_buffer: dict[str, Instead] = {}
    for one in search.tried if search and over else ():
        differing = [b for b, how in one.placements.items() if row.placements.get(b) != how]
        if len(differing) == 1 and over:
            seconds = rows[one.name].median_seconds if one.name in rows else over.median_seconds / one.gain
            more = max(0.0, seconds - row.median_seconds)
            nearest = by_buffer.get(differing[0])
            if nearest is None or more < nearest.seconds:
                by_buffer[differing[0]] = Instead(placement=one.placements[differing[0]], seconds=more)
    return by_buffer
