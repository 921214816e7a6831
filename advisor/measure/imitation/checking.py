"""Runs set-up and two frames with every device stage as CuPy would run it.

A separate process: what stages keep between frames is then CuPy's kind of array from the first call on.
A stage that goes where only CuPy can follow (a raw kernel, another library) is run in NumPy and not judged:
only what CuPy certainly does is reported.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from advisor.measure.captured import host_arrays, sums
from advisor.measure.frames import Action, FrameLoop
from advisor.measure.imitation.arrays import DeviceArray
from advisor.measure.imitation.coverage import coverage
from advisor.measure.imitation.libraries import refused_by_library
from advisor.measure.imitation.module import Imitation
from advisor.measure.imitation.watch import Refusal, Refused, Unknowable, Watch
from advisor.measure.jobs import Imitated, RefusedStage
from advisor.measure.stand import Stand
from advisor.profiles.traces import Wait
from advisor.strategies.backend import Array
from advisor.workloads.binding import BoundStage, BoundWorkload
from advisor.workloads.reads import located

_SLOW = 2.0
"""Seconds of a frame after which there is no second one."""


def imitate(bound: BoundWorkload, run: Stand, seed: int) -> Imitated:
    """What CuPy would refuse in a device stage, and the calls of a steady frame that wait for the GPU."""
    watch = Watch(coverage(), {name: placed.device for name, placed in run.placed.items()})
    return _Frames(bound, run, seed, watch).outcome()


@dataclass
class _Frames:
    bound: BoundWorkload
    run: Stand
    seed: int
    watch: Watch
    refused: dict[str, Refused] = field(default_factory=dict)
    wrong: dict[str, RefusedStage] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    """Stages that are not judged any more."""

    def __post_init__(self) -> None:
        self.xp = Imitation(self.watch)
        self.stages = {f"device:{s.name}": (n, s) for n, s in enumerate(self.bound.stages) if _judged(s)}
        own = {f"device:{s.name}": (s, host_arrays(s.stage.function)) for s in self.bound.stages if _alone(s)}
        self.own = {label: found for label, found in own.items() if found[1]}

    def outcome(self) -> Imitated:
        """Runs what there is; an exception of a host stage, or of a stage in NumPy, ends it there."""
        try:
            self._frames(self.run.serial)
        except Exception:
            self.unknown.update(stage.name for _, stage in self.stages.values())
        imports_cupy = "cupy" in sys.modules  # which knows nothing of these arrays
        version = self.watch.coverage.version
        refused = () if imports_cupy else tuple(_told(n, r, version) for n, r in self.refused.items())
        counted = self.watch.waits.items()
        waits = (
            Wait(stage=stage, line=str(w.place), call=w.call, write=w.write, count=count)
            for (stage, w), count in counted
            if stage not in self.refused
        )
        return Imitated(refused=refused, wrong=tuple(self.wrong.values()), waits=tuple(waits))

    def _frames(self, loop: FrameLoop) -> None:
        self._act_all(loop, loop.setup, 0)
        self.watch.waits.clear()
        begin = time.perf_counter()
        self._act_all(loop, loop.first, 0)
        if time.perf_counter() - begin < _SLOW and not self.refused:
            self.watch.waits.clear()
            self._act_all(loop, loop.steady, 1)

    def _act_all(self, loop: FrameLoop, actions: Sequence[Action], index: int) -> None:
        for action in loop.in_turn(actions):
            number, stage = self.stages.get(action.label, (0, None))
            writer, own = self.own.get(action.label, (None, {}))
            before = sums(own)
            if stage is None or stage.name in self.unknown or not self._imitates(stage, number, index):
                loop.act(action, index)
            written = [name for name, found in sums(own).items() if found != before[name]]
            if writer and written and writer.name not in self.refused:
                self.wrong.setdefault(writer.name, _writes(writer, written[0], own[written[0]]))

    def _imitates(self, stage: BoundStage, number: int, index: int) -> bool:
        """Whether the stage ran to its end as CuPy would run it."""
        self.watch.stage = stage.name
        arrays = {name: DeviceArray(self.watch.buffers[name], self.watch) for name in stage.access}
        seeds = (self.seed, index, number)
        specials = {"xp": self.xp, "frame": index, "stream": self.run.arena.backend.stream}
        specials |= {"gpu": stage.stage.gpu, "gpus": self.bound.workload.gpus}
        if "rng" in stage.specials:
            specials["rng"] = np.random.default_rng(seeds)
        given: dict[str, Any] = {name: specials[name] for name in stage.specials}
        try:
            stage.stage.function(**arrays, **given)
        except Refusal as refusal:
            self.refused[stage.name] = refusal.found
        except Unknowable:
            pass
        except Exception as error:
            if found := refused_by_library(error, self.watch):
                self.refused[stage.name] = found
        else:
            return True
        self.unknown.add(stage.name)
        return False


def _judged(stage: BoundStage) -> bool:
    """A stage that the CPU runs in place of the GPU with NumPy for CuPy, and no other library."""
    return stage.side == "device" and stage.stage.cpu is None and not stage.forms


def _alone(stage: BoundStage) -> bool:
    """A device stage that is the same on a GPU; a twin may have arrays of its own."""
    return stage.side == "device" and stage.stage.cpu is None


def _writes(stage: BoundStage, name: str, array: Array) -> RefusedStage:
    writer = f"device stage {located(stage.name, stage.stage.function)}"
    return RefusedStage(
        message=f"{writer} writes the NumPy array {name}, {array.dtype} {array.shape}, which is not a "
        "buffer: its memory and its copies are in no strategy",
        next_step="Declare it as a buffer, and take it as a parameter of the stage, annotated Out or InOut.",
        detail="",
    )


def _told(stage: str, found: Refused, version: str) -> RefusedStage:
    buffer = f", buffer {found.buffer!r}" if found.buffer else ""
    return RefusedStage(
        message=f"stage {stage!r} fails under CuPy {version} at {found.place}{buffer}: {found.why}",
        next_step=found.write,
        detail=f"{found.place.file}:{found.place.line}\n    {found.place.text}",
    )
