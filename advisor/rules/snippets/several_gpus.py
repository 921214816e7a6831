"""Code to copy for several GPUs: memory on each, and blocks that queue work there, ordered by events.

GPU 0 is the current one; its lines stand as they do for one GPU. What runs on GPU 1 stands in blocks of its
own, on `stream1`. Beyond what is written for one GPU it has run on stand-ins so far, not on two GPUs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from advisor.rules.snippets.base import Code
from advisor.strategies.registry import gpus_of
from advisor.strategies.schedule import Step

MOVES = ("to-device", "to-host", "to-peer", "length")


def stream_of(gpu: int) -> str:
    return f"stream{gpu or ''}"


def memory(code: Code) -> Iterator[str]:
    """The buffers on the host and on all GPUs that use them, and the streams."""
    used = {name: gpus_of(buffer, code.workload) for name, buffer in code.buffers.items()}
    for gpu in range(code.workload.gpus):
        lines = [] if gpu == 0 else [code.library.on_gpu.stream.format(stream=stream_of(gpu))]
        for name in (name for name, gpus in used.items() if gpu in gpus):
            if gpu == used[name][0]:
                lines += code.allocation(name)
            else:
                lines.append(code.filled(code.ways[name].elsewhere, Step("to-device", name, gpu=gpu)))
        if gpu == 0:
            yield from (*lines, code.stream())
        else:
            yield code.library.on_gpu.allocating.format(gpu=gpu)
            yield from (f"    {line}" for line in lines)


def queued(code: Code, steps: Sequence[Step]) -> Iterator[str]:
    """The steps one after the other; those that a further GPU is given stand in a block."""
    for gpu, row in groupby(steps, _block):
        lines = [line for step in row for line in _lines(code, step)]
        if gpu:
            yield code.library.on_gpu.running.format(gpu=gpu, stream=stream_of(gpu))
            yield from (f"    {line}" for line in lines)
            if all(line.startswith("#") for line in lines):
                yield "    pass"
        else:
            yield from lines


def _block(step: Step) -> int:
    """The GPU in whose block the step stands; 0 for none."""
    return step.gpu if step.action in ("device", "mark", "order", *MOVES) else 0


def _lines(code: Code, step: Step) -> Sequence[str]:
    stream, ways = stream_of(step.gpu), code.library.on_gpu
    if step.action == "synchronize":
        return (f"{stream}.synchronize()  # the CPU must not touch the buffers before this",)
    if step.action == "mark":
        return [line.format(mark=f"mark{step.name}", stream=stream) for line in ways.mark]
    if step.action == "order":
        return (ways.order.format(mark=f"mark{step.name}", stream=stream),)
    return (code.move(step, stream) if step.action in MOVES else code.stage_comment(step),)
