"""A frame whose stages follow one another."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.rules.snippets.base import Code
from advisor.strategies.schedule import Step


def serial(code: Code) -> str:
    """The whole of it: helpers, memory, and a function `frame` with the calls of a steady frame."""
    lines = [
        *code.opening(),
        "",
        "",
        "# Once. The CPU works in these arrays themselves: np.copyto into them would keep a copy.",
        *(line for name in code.buffers for line in code.allocation(name)),
        code.stream(),
        *_frame(code),
    ]
    return "\n".join(lines) + "\n"


def _frame(code: Code) -> Iterator[str]:
    """A function with the calls of a steady frame, and what is moved once before it."""
    first, steady = code.plan.first, code.plan.steady
    uploads = {step.name for step in steady if step.action == "to-device"}
    bound = sorted(f"{name}_device" for name in uploads if code.ways[name].rebinds)
    yield from ("", "", "def frame():")
    if bound:
        yield f"    global {', '.join(bound)}"
    for step in steady:
        yield f"    {_step(code, step)}"
    if all(step.action in ("host", "device") for step in steady):
        yield "    pass"
    once = [s for s in first if s not in steady and s.action in ("to-device", "to-host")]
    if once:
        yield from ("", "", "# Once, after set-up; not in every frame:")
        for step in once:
            yield _step(code, step)


def _step(code: Code, step: Step) -> str:
    if step.action == "synchronize":
        return "stream.synchronize()  # the CPU must not touch the buffers before this"
    return code.move(step) if step.action in ("to-device", "to-host") else code.stage_comment(step)
