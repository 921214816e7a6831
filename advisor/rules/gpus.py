"""What rules on several GPUs ask: which buffers cross between GPUs, and what each GPU moves and computes."""

from __future__ import annotations

from collections.abc import Mapping

from advisor.profiles.schema import Device, WorkloadRecord
from advisor.rules.base import Case, Row
from advisor.rules.rows import moves

PEER = "peer"


def crossing_bytes(case: Case) -> dict[tuple[int, int], float]:
    """Bytes of a frame that one GPU made and another needs, by the two of them."""
    sizes = {buffer.name: buffer for buffer in case.workload.buffers}
    found: dict[tuple[int, int], float] = {}
    for step in moves(PEER, case.workload, case.device):
        if step.action == "to-peer":
            pair = step.source, step.gpu
            found[pair] = found.get(pair, 0.0) + step.moved(sizes[step.name], case.traffic.valid_bytes)
    return found


def host_bytes(name: str, workload: WorkloadRecord, device: Device) -> dict[int, float]:
    """Bytes of a frame that each GPU exchanges with the host under that strategy."""
    sizes = {buffer.name: buffer for buffer in workload.buffers}
    found = dict.fromkeys(range(workload.gpus), 0.0)
    for step in moves(name, workload, device):
        if step.action != "to-peer":
            found[step.gpu] += step.moved(sizes[step.name], {})
    return found


def busy_seconds(row: Row, case: Case) -> dict[int, float]:
    """The load of each GPU: its kernels, and its share by bytes of the copies with the host."""
    moved = host_bytes(row.strategy, case.workload, case.device)
    each = row.transfer_seconds / (sum(moved.values()) or 1.0)
    return {gpu: row.gpu_seconds.get(gpu, 0.0) + each * part for gpu, part in moved.items()}


def told(case: Case, gpu: int, what: str) -> str | None:
    """What the machine says of one of the workload's GPUs; None where it was not read."""
    known: Mapping[str, object] = case.machine.gpu if case.machine else {}
    value = known.get(f"gpu{gpu}_{what}")
    return None if value is None else str(value)


def reach(case: Case, one: int, other: int) -> bool | None:
    peers = [told(case, gpu, "peers") for gpu in (one, other)]
    if peers[0] is None or peers[1] is None:
        return None
    return str(other) in peers[0].split() and str(one) in peers[1].split()
