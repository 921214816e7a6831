"""What would turn the model's choice: kernels that read more often, buffers of another size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from advisor.devices.entries import CatalogueEntry
from advisor.model.predict import predict
from advisor.profiles.conclusions import Recommendation
from advisor.profiles.schema import Profile, Trace

FACTORS = (2, 4, 8, 16, 32, 64)
MOST_STEPS = 40
"""Stages and buffers; with more nothing is asked, for 19 predictions would take longer than two seconds."""
Question = Literal["reads", "larger", "smaller"]


@dataclass(frozen=True)
class Turn:
    """From which factor on the model would recommend another strategy; no factor where none up to 64 does."""

    question: Question
    factor: int | None
    strategy: str


def turns(profile: Profile, entry: CatalogueEntry) -> Iterator[Turn]:
    """Each question; none where the profile's traffic is not known, or the model's choice is another one.

    By the traced traffic alone: the measured times are left out.
    """
    trace = profile.traffic
    size = len(profile.workload.stages) + len(profile.workload.buffers)
    if trace is None or not trace.traffic or size > MOST_STEPS:
        return
    blind = profile.model_copy(update={"results": ()})
    now = predict(blind, entry).recommendation
    told = profile.recommendation
    if now is None or now.strategy is None or (told and told.strategy not in (now.strategy, *now.tied_with)):
        return
    device = {stage.name for stage in profile.workload.frame_stages("device")}
    yield _turn("reads", now, lambda k: _reading(blind, trace, device, k), entry)
    yield _turn("larger", now, lambda k: _sized(blind, trace, k), entry)
    yield _turn("smaller", now, lambda k: _sized(blind, trace, 1 / k), entry)


def _turn(
    question: Question, now: Recommendation, changed: Callable[[float], Profile], entry: CatalogueEntry
) -> Turn:
    for factor in FACTORS:
        then = predict(changed(factor), entry).recommendation
        if then and then.strategy and now.strategy not in (then.strategy, *then.tied_with):
            return Turn(question, factor, then.strategy)
    return Turn(question, None, "")


def _reading(profile: Profile, trace: Trace, device: set[str], factor: float) -> Profile:
    read = tuple(
        t.model_copy(update={"bytes_read": t.bytes_read * factor}) if t.stage in device else t
        for t in trace.traffic
    )
    return profile.model_copy(update={"traffic": trace.model_copy(update={"traffic": read})})


def _sized(profile: Profile, trace: Trace, factor: float) -> Profile:
    """Everything that goes with the buffers' size in proportion to it: bytes, arithmetic, time on the CPU."""
    moved = tuple(
        t.model_copy(update={"bytes_read": t.bytes_read * factor, "bytes_written": t.bytes_written * factor})
        for t in trace.traffic
    )
    done = tuple(
        w.model_copy(
            update={
                "flops": w.flops and w.flops * factor,
                "temporary_bytes": w.temporary_bytes * factor,
                "seconds": w.seconds and w.seconds * factor,
            }
        )
        for w in trace.work
    )
    buffers = tuple(
        b.model_copy(update={"bytes": max(1, round(b.bytes * factor))}) for b in profile.workload.buffers
    )
    stages = tuple(
        s.model_copy(update={"flops": s.flops and s.flops * factor}) for s in profile.workload.stages
    )
    return profile.model_copy(
        update={
            "traffic": trace.model_copy(
                update={
                    "traffic": moved,
                    "work": done,
                    "valid_bytes": {name: size * factor for name, size in trace.valid_bytes.items()},
                }
            ),
            "workload": profile.workload.model_copy(update={"buffers": buffers, "stages": stages}),
        }
    )
