"""Rules on workloads of several GPUs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from advisor import units
from advisor.profiles.conclusions import Evidence
from advisor.profiles.schema import Device, WorkloadRecord
from advisor.rules.base import PEER, Case, Finding, Limits, advice, not_applicable, passed, unbeaten
from advisor.rules.rows import moves
from advisor.strategies.registry import BASELINE


def peer_access_off(case: Case, limits: Limits) -> Finding:
    crossing = _crossing_bytes(case)
    if not crossing:
        return not_applicable("No GPU reads what another one writes.")
    if not all(_reach(case, *pair) for pair in crossing):
        return not_applicable(
            "The GPUs cannot access each other's memory, or it is not known whether they can."
        )
    baseline, peer = case.baseline, case.rows[PEER]
    share = baseline.part(baseline.transfer_seconds)
    if share < limits["share"]:
        little = f"Copies are only {units.percent(share)} of a frame of {BASELINE}."
        return passed(little, baseline.copies(), peer.copies())
    others = (row for row in case.rows.values() if row.transfer_seconds < baseline.transfer_seconds)
    if case.proposal(others, baseline) is not peer:
        return unbeaten(baseline, peer)
    between = sum(crossing.values())
    cause = (
        f"{units.size(between)} per frame are copied between the GPUs, which can access each other's memory. "
        "Without peer access they go through the host and cross its link twice."
    )
    moved = Evidence(label="copied between GPUs in a frame", value=between, unit="bytes")
    return case.swap(baseline, peer, cause, (moved, baseline.copies(), peer.copies()))


def host_staged_peer_copy(case: Case, limits: Limits) -> Finding:
    crossing = _crossing_bytes(case)
    if not crossing:
        return not_applicable("No GPU reads what another one writes.")
    apart = {pair: size for pair, size in crossing.items() if _reach(case, *pair) is False}
    if not apart:
        return not_applicable("The GPUs can access each other's memory, or it is not known whether they can.")
    row = case.chosen or case.fastest()
    assert row is not None
    moved = Evidence(label="copied between GPUs in a frame", value=sum(apart.values()), unit="bytes")
    share = row.part(row.transfer_seconds)
    if share < limits["share"]:
        return passed(
            f"Copies are only {units.percent(share)} of a frame of {row.strategy}.", moved, row.copies()
        )
    pairs = " and ".join(f"GPU {one} and GPU {other}" for one, other in apart)
    detail = (
        f"{pairs} cannot access each other's memory, so {units.size(sum(apart.values()))} per frame cross "
        f"the link to the host twice: copies are {units.percent(share)} of a frame of {row.strategy}. Keep "
        "the data on one GPU, or choose two GPUs with peer access with --gpus: `advisor doctor` lists them. "
        "A virtual machine, ACS or an IOMMU can prevent peer access over PCIe."
    )
    return advice(detail, moved, row.copies(), row.frame(), inferred=True)


def one_link_for_two(case: Case, limits: Limits) -> Finding:
    row = case.chosen or case.fastest()
    assert row is not None
    moved = _host_bytes(row.strategy, case.workload, case.device)
    copying = [gpu for gpu, count in moved.items() if count]
    if len(copying) < 2:
        return not_applicable(f"Under {row.strategy} no two GPUs copy from or to the host.")
    ports = defaultdict(list)
    for gpu in copying:
        if (port := _gpu_fact(case, gpu, "root_port")) is None:
            return not_applicable("Which PCIe root port each GPU is below is not known.")
        ports[port].append(gpu)
    together = {port: gpus for port, gpus in ports.items() if len(gpus) > 1}
    if not together:
        return passed("Each GPU has a separate link to the host.", row.copies())
    share = row.part(row.transfer_seconds)
    if share < limits["share"]:
        return passed(f"Copies are only {units.percent(share)} of a frame of {row.strategy}.", row.copies())
    port, gpus = next(iter(together.items()))
    listed = " and ".join(f"GPU {gpu}" for gpu in gpus)
    detail = (
        f"{listed} are below one PCIe root port, {port}: their copies share one link to the host, and take "
        f"{units.percent(share)} of a frame of {row.strategy}. Choose GPUs below different ports with --gpus "
        "(`advisor doctor` lists them), or copy to one GPU and from there to the other (peer). The gain "
        "assumes that with separate links the copies take as long as those of the GPU that copies most."
    )
    saved = row.transfer_seconds * (1 - max(moved[gpu] for gpu in gpus) / sum(moved.values()))
    return advice(detail, row.copies(), row.frame(), saved=saved, inferred=True)


def unbalanced_split(case: Case, limits: Limits) -> Finding:
    if _crossing_bytes(case):
        return not_applicable("One GPU works on the output of another: this is a pipeline, not a split.")
    row = case.chosen or case.fastest()
    assert row is not None
    # The load of each GPU: its kernels, and its share by bytes of the copies with the host.
    moved = _host_bytes(row.strategy, case.workload, case.device)
    each = row.transfer_seconds / (sum(moved.values()) or 1.0)
    busy = {gpu: row.gpu_seconds.get(gpu, 0.0) + each * part for gpu, part in moved.items()}
    most, mean = max(busy.values()), sum(busy.values()) / len(busy)
    if not mean:
        return not_applicable("The GPUs' kernels and copies took no time that could be measured.")
    evidence = [row.figure(f"{row.strategy}: GPU {gpu}", seconds) for gpu, seconds in busy.items()]
    over = most / mean
    if over < limits["ratio"]:
        return passed(f"The busiest GPU takes {units.ratio(over)} the mean time.", *evidence)
    longest = max(busy, key=lambda gpu: busy[gpu])
    detail = (
        f"GPU {longest} is busy for {units.seconds(most)} of a frame of {row.strategy}, {units.ratio(over)} "
        f"the mean of {len(busy)} GPUs: kernels, and copies in proportion to their bytes. The frame ends "
        "when the slowest GPU is done. Give each GPU a share of the work in proportion to its speed."
    )
    lines = case.lines(stages=[s.name for s in case.workload.frame_stages("device") if s.gpu == longest])
    return advice(detail, *evidence, row.frame(), saved=most - mean, lines=lines, inferred=True)


def _crossing_bytes(case: Case) -> dict[tuple[int, int], float]:
    """Bytes of a frame that one GPU made and another needs, by the two of them."""
    sizes = {buffer.name: buffer for buffer in case.workload.buffers}
    crossing: dict[tuple[int, int], float] = {}
    for step in moves(PEER, case.workload, case.device):
        if step.action == "to-peer":
            pair = step.source, step.gpu
            crossing[pair] = crossing.get(pair, 0.0) + step.moved(sizes[step.name], case.traffic.valid_bytes)
    return crossing


def _host_bytes(name: str, workload: WorkloadRecord, device: Device) -> dict[int, float]:
    """Bytes of a frame that each GPU exchanges with the host under that strategy."""
    sizes = {buffer.name: buffer for buffer in workload.buffers}
    bytes_of = dict.fromkeys(range(workload.gpus), 0.0)
    for step in moves(name, workload, device):
        if step.action != "to-peer":
            bytes_of[step.gpu] += step.moved(sizes[step.name], {})
    return bytes_of


def _gpu_fact(case: Case, gpu: int, what: str) -> str | None:
    """What the machine says of one of the workload's GPUs; None where it was not read."""
    known: Mapping[str, object] = case.machine.gpu if case.machine else {}
    value = known.get(f"gpu{gpu}_{what}")
    return None if value is None else str(value)


def _reach(case: Case, one: int, other: int) -> bool | None:
    peers = [_gpu_fact(case, gpu, "peers") for gpu in (one, other)]
    if peers[0] is None or peers[1] is None:
        return None
    return str(other) in peers[0].split() and str(one) in peers[1].split()
