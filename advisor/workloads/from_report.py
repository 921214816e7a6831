"""`advisor new FILE --from-trace`: a workload with the copies of one frame of a report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from advisor import units
from advisor.devices.catalogue import named
from advisor.errors import UsageError
from advisor.profiles.programs import GpuTrace, ProgramTrace
from advisor.workloads.starters import function_name

_MOST = 8
"""Buffers of one size; more are one buffer of as many rows."""
_ITEM = 4
"""Bytes of a float32."""


def outline(program: ProgramTrace | None, report: Path, file: Path) -> str:
    """The text of a workload for the GPU whose frames move most. Raises `UsageError` without uploads."""
    gpus = program.gpus if program else ()
    gpu = max(gpus, key=lambda each: sum(size * n for size, n in _moved(each, "uploads")), default=None)
    if gpu is None or not (inputs := list(_buffers(gpu, "uploads"))):
        raise UsageError(
            f"{report} has no uploads or migrations to the GPU to outline",
            next_step=f"Write one by hand: advisor new {file}.",
        )
    outputs = list(_buffers(gpu, "downloads")) or [("result", (1,))]
    names = [name for name, _ in (*inputs, *outputs)]
    lines = [f'            "{name}": Buffer({shape}, np.float32),' for name, shape in (*inputs, *outputs)]
    used = ", ".join([f"{name}: In" for name, _ in inputs] + [f"{name}: Out" for name, _ in outputs])
    return _TEXT.format(
        file=file.name,
        report=report.name,
        function=function_name(file),
        what=f"One frame of {report.name} on {gpu.label}: {len(names)} buffers.",
        produced=", ".join(f"{name}: Out" for name, _ in inputs),
        fills="\n".join(f"        {name}.fill(frame % 256)" for name, _ in inputs),
        used=used,
        sums=" + ".join(f"{name}.max()" for name, _ in inputs),
        writes="\n".join(f"        {name}[...] = total" for name, _ in outputs),
        read=", ".join(f"{name}: In" for name, _ in outputs),
        reads="\n".join(f"        {name}.max()" for name, _ in outputs),
        kernels=units.seconds(gpu.kernel_seconds / gpu.units),
        flops=_flops(gpu),
        buffers="\n".join(lines),
    )


def _moved(gpu: GpuTrace, way: str) -> tuple[tuple[int, int], ...]:
    """Bytes and number of what a frame moves that way; of the whole run where there are no frames."""
    sizes: tuple[tuple[int, int], ...] = getattr(gpu.frames, way) if gpu.frames else ()
    kind, side = ("host-to-device", "to-device") if way == "uploads" else ("device-to-host", "to-host")
    flows = [flow for flow in gpu.flows or () if flow.kind == kind]
    sizes = sizes or tuple((flow.bytes // flow.count, max(flow.count // gpu.units, 1)) for flow in flows)
    pages = sum(m.bytes for m in gpu.managed.migrations if m.direction == side) if gpu.managed else 0
    return (*sizes, *(((pages // gpu.units, 1),) if pages else ()))


def _buffers(gpu: GpuTrace, way: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of float32."""
    name, number = ("input" if way == "uploads" else "output"), 0
    for size, count in _moved(gpu, way):
        items = max(-(-size // _ITEM), 1)
        for _ in range(count if count <= _MOST else 1):
            yield f"{name}{number}", (items,) if count <= _MOST else (count, items)
            number += 1


def _flops(gpu: GpuTrace) -> str:
    """Arithmetic that takes as long on that GPU as its kernels did, where the catalogue has its rate."""
    entry = named(gpu.name)
    rate = entry.figures.flops_per_second if entry else None
    return f", flops={gpu.kernel_seconds / gpu.units * rate.value:.3g}" if rate and gpu.kernel_seconds else ""


_TEXT = '''"""{what}

Outlined from {report}: the sizes are those of its copies, and the stages stand for its own. Replace them, or
predict it as it is: advisor profile {file} --no-gpu --target h200.
"""

import numpy as np

from advisor import Buffer, In, Out, Workload, device, host, workload


@workload
def {function}() -> Workload:
    """{what}"""

    def produce({produced}, frame: int) -> None:
        # What writes the data that is uploaded.
{fills}

    def compute(xp, {used}) -> None:
        # Stands for the kernels, which took {kernels} in the report: it reads each input once.
        total = {sums}
{writes}

    def consume({read}) -> None:
        # What reads the data that is downloaded.
{reads}

    return Workload(
        buffers={{
{buffers}
        }},
        frame=[host(produce), device(compute{flops}), host(consume)],
    )
'''
