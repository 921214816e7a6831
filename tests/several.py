"""Workloads on several GPUs, made at random, and what they must come to."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from advisor import Buffer, In, InOut, Out, Workload, device, host
from advisor.workloads.binding import bind
from advisor.workloads.definition import Stage


def expected(workload: Workload, frames: int) -> dict[str, Any]:
    """What the stages make of plain arrays, one after the other."""
    arrays = {name: np.zeros(b.dimensions, b.element) for name, b in workload.buffers.items()}
    bound = bind(workload)
    for index in range(frames):
        for one in (*(bound.setup if index == 0 else ()), *bound.frame):
            specials = {"xp": np, "frame": index, "gpu": one.stage.gpu, "gpus": workload.gpus}
            given = {name: specials[name] for name in one.specials}
            one.stage.function(**{name: arrays[name] for name in one.access}, **given)
    return arrays


def mix(seed: int, gpus: int = 3, n: int = 8) -> Workload:
    """A random graph of stages on the host and so many GPUs."""
    dice = random.Random(seed)
    names = "abcd"

    def make(number: int, reads: str, writes: str, xp: str) -> Callable[..., object]:
        space: dict[str, Any] = {"In": In, "InOut": InOut, "np": np}
        taken = [f"{n}: In" for n in reads if n != writes] + [f"{writes}: InOut"]
        adds = "; ".join(f"{xp}.add({writes}, {n}, out={writes})" for n in reads if n != writes) or "pass"
        lines = f"def s{number}({', '.join(taken)}, frame{', xp' * (xp == 'xp')}):\n"
        lines += f"    {xp}.multiply({writes}, 3, out={writes})\n"
        lines += f"    {xp}.add({writes}, {number} + frame, out={writes})\n    {adds}"
        exec(lines, space)
        made: Callable[..., object] = space[f"s{number}"]
        return made

    def begin(a: Out, b: Out, c: Out, d: Out) -> None:
        for number, array in enumerate((a, b, c, d)):
            array.fill(number)

    stages: list[Stage] = []
    for number in range(7):
        place = dice.choice((None, *range(gpus))) if number >= gpus else number
        reads, writes = "".join(dice.sample(names, dice.randint(0, 2))), dice.choice(names)
        function = make(number, reads, writes, "np" if place is None else "xp")
        stages.append(host(function) if place is None else device(function, gpu=place))
    dice.shuffle(stages)

    def end(a: In, b: In, c: In, d: In) -> None:
        a.sum()

    return Workload(
        buffers={name: Buffer(n, np.int64) for name in names}, setup=[host(begin)], frame=[*stages, host(end)]
    )
