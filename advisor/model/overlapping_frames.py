"""Time per frame where frames overlap over two sets of buffers (measure/pipelined.py)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from advisor.model import terms
from advisor.model.context import Context
from advisor.model.device_stages import bytes_of
from advisor.model.monte_carlo import Values, constant, triangular
from advisor.model.steady_frame import Timed, by_part

NOT_OVERLAPPED = (0.0, 0.1, 1.0)
"""Of the way from perfect overlap to none, on a logarithmic scale: least, likely, most. Not published; on
an H200's host nothing was lost with buffers of 4 MiB and nothing gained with 64 MiB (measured by us): copies,
kernels and host stages share the host's memory, and two sets of buffers fit no cache that just held one."""


@dataclass(frozen=True)
class Overlapped:
    """Seconds between finished frames; latency; and the parts of what decides, adding up to the first."""

    seconds: Values
    latency: Values
    parts: dict[str, Values]


def overlapped(at: Context, steps: Sequence[Timed]) -> Overlapped:
    """The slowest of host, upload link, kernels, download link, shared DRAM, and half of the whole chain.

    The host's calls keep it busy beside its stages: a launch or a copy call for each step. A frame begins in
    one turn of the loop and ends in the next, so its latency is two frames' time. Kernels behind a wait of
    the host cannot overlap with the frame's other work: then only the uploads do.
    """
    resources = _resources(at, steps)
    chain = _sum(steps)
    actions = [step.action for step, _ in steps]
    copies = actions.count("to-device") + actions.count("to-host")
    launching = actions.count("device") * at.machine.get("launch_seconds")
    calls = launching + copies * at.machine.get("pinned_copy_call_seconds")
    host, up, kernels, down = (_sum(resources[name]) for name in ("host", "to-device", "device", "to-host"))
    seconds = terms.overlapped(host + calls, up, kernels, down, chain)
    if at.machine.shares_memory:
        seconds = np.maximum(seconds, _shared_memory(at, steps))
    # The first host stage or wait that follows a kernel: later kernels cannot overlap.
    queued, first = ("device", "to-device", "to-host"), actions.index("device")
    waits = next((i for i in range(first, len(actions)) if actions[i] not in queued), len(actions))
    if "device" in actions[waits:]:
        seconds = np.maximum(seconds, np.maximum(chain - up, up))
    lost = triangular(*NOT_OVERLAPPED, "overlap")
    seconds = np.asarray(terms.between(seconds, np.maximum(seconds, chain), lost))
    # The parts of the busiest resource, and what is left as waiting.
    busiest = max(resources.values(), key=lambda timed: float(_sum(timed)[0]))
    parts = by_part(busiest)
    parts["synchronize"] = parts.get("synchronize", 0.0) + (seconds - _sum(busiest))
    return Overlapped(seconds, 2 * seconds, parts)


def _resources(at: Context, steps: Sequence[Timed]) -> dict[str, list[Timed]]:
    """The steps by what they keep busy. One copy engine serves both directions where there is but one."""
    found: dict[str, list[Timed]] = {"host": [], "to-device": [], "device": [], "to-host": []}
    engines = at.machine.entry.attributes.get("async_engine_count")
    for step, seconds in steps:
        action = step.action if step.action in found else "host"
        if action == "to-host" and engines is not None and engines.value == 1:
            action = "to-device"
        found[action].append((step, seconds))
    return found


def _sum(steps: Iterable[Timed]) -> Values:
    return sum((seconds for _, seconds in steps), constant(0.0))


def _shared_memory(at: Context, steps: Sequence[Timed]) -> Values:
    """All bytes of a frame over one DRAM, which CPU and GPU together get no more of than either alone.

    GB10: 162.9 GB/s together, 161.3 read by the GPU alone (parallelArchitect/nvidia-uma-fault-probe).
    """
    moved = constant(0.0)
    for step, _ in steps:
        if step.action in ("host", "device"):
            for t in at.traffic(step.name):
                read, written = bytes_of(t)
                moved = moved + np.minimum(read, at.size(t.buffer)) + written
        elif step.action != "synchronize":
            moved = moved + 2 * at.size(step.name)
    return moved / at.machine.memory_rate()
