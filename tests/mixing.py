"""Workloads whose results depend on the order of everything, and a log of what each stage read."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from advisor.profiles.schema import AccessMode, Side
from advisor.strategies.schedule import StageUse
from advisor.workloads.definition import Buffer, In, InOut, Out, Stage, Workload, device, host

MODES = {"in": In, "out": Out, "inout": InOut}
Log = dict[tuple[int, str], int]
"""What each stage read, by frame and stage."""


def stage(name: str, side: Side, log: Log, **access: AccessMode) -> Stage:
    """A stage whose outputs depend on its name, the frame and all it reads; what it read goes to the log."""
    number = sum(map(ord, name))

    def mix(frame: int, *arrays: Any) -> None:
        pairs = list(zip(access.values(), arrays, strict=True))
        read = [int(array.sum()) * (i + 2) for i, (mode, array) in enumerate(pairs) if mode != "out"]
        log[frame, name] = total = sum(read)
        for mode, array in pairs:
            if mode != "in":
                kept = array * 7 if mode == "inout" else 0
                array[...] = (kept + total + 31 * number + 17 * frame) % 9973

    def launch(xp: Any, frame: int, *arrays: Any) -> None:
        xp.launch(lambda *memory: mix(frame, *memory), *arrays)

    typed = ", ".join(f"{buffer}: MODES[{mode!r}]" for buffer, mode in access.items())
    given = ", ".join(("frame", *access))
    sources = {
        "host": f"def {name}(frame, {typed}): mix({given})",
        "device": f"def {name}(xp, frame, {typed}): launch(xp, {given})",
    }
    scope: dict[str, Any] = {"mix": mix, "launch": launch, "MODES": MODES}
    exec(sources[side], scope)
    return (host if side == "host" else device)(scope[name])


def host_(name: str, **access: AccessMode) -> StageUse:
    return StageUse(name, "host", access)


def device_(name: str, **access: AccessMode) -> StageUse:
    return StageUse(name, "device", access)


def made(
    frame: Sequence[StageUse], log: Log, *, setup: Sequence[StageUse] = (), external: Sequence[str] = ()
) -> Workload:
    names = {name for use in (*setup, *frame) for name in use.access}
    return Workload(
        {name: Buffer(6, "int64", external=name in external) for name in sorted(names)},
        setup=[stage(use.name, use.side, log, **use.access) for use in setup],
        frame=[stage(use.name, use.side, log, **use.access) for use in frame],
    )


def in_order(frame: Sequence[StageUse], setup: Sequence[StageUse], frames: int) -> Log:
    """The log of stages that run one after the other on plain arrays."""
    log: Log = {}
    workload, plain = made(frame, log, setup=setup), SimpleNamespace(launch=lambda mix, *arrays: mix(*arrays))
    arrays = {name: np.zeros(6, np.int64) for name in workload.buffers}
    stages = [*zip(workload.setup, setup, strict=True)]
    for index in range(frames):
        for stage, use in (*stages, *zip(workload.frame_stages, frame, strict=True)):
            xp = (plain,) if use.side == "device" else ()
            stage.function(*xp, index, *(arrays[name] for name in use.access))
        stages = []
    return log


PRODUCE = host_("produce", a="out")
KERNEL = device_("kernel", a="in", b="out")
CONSUME = host_("consume", b="in")
FRESH = [PRODUCE, KERNEL, CONSUME]
SHAPES: dict[str, tuple[list[StageUse], list[StageUse]]] = {
    "fresh data": ([], FRESH),
    "weights": ([host_("load", w="out")], [PRODUCE, device_("kernel", a="in", w="in", b="out"), CONSUME]),
    "state on the device": (
        [device_("clear", s="out")],
        [PRODUCE, device_("kernel", a="in", s="inout", b="out"), CONSUME],
    ),
    "several kernels": (
        [],
        [
            PRODUCE,
            device_("one", a="in", t="out"),
            device_("two", t="inout"),
            device_("three", t="in", b="out"),
            CONSUME,
        ],
    ),
    "a host stage between kernels": (
        [],
        [PRODUCE, KERNEL, host_("turn", b="inout"), device_("more", b="in", c="out"), host_("end", c="in")],
    ),
    "the host looks, then another kernel": (
        [],
        [PRODUCE, KERNEL, host_("look", a="in"), device_("more", b="in", c="out"), host_("end", c="in")],
    ),
    "the host overwrites its input": ([], [PRODUCE, KERNEL, host_("ahead", a="out"), CONSUME]),
    "host data alone": ([], [host_("produce", a="out", h="out"), KERNEL, host_("consume", b="in", h="in")]),
    "a second upload": (
        [],
        [host_("produce", a="out", c="out"), KERNEL, device_("more", b="inout", c="in"), CONSUME],
    ),
}
