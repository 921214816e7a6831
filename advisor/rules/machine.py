"""Rules on the machine: NUMA nodes, the PCIe link, figures that scatter, and how several GPUs are joined."""

from __future__ import annotations

from collections import defaultdict
from statistics import median

from advisor import units
from advisor.devices.environment import pcie_link
from advisor.profiles.conclusions import UNDECIDED, Evidence
from advisor.profiles.system_state import Environment
from advisor.rules.base import Case, Finding, Limits, advice, few_copies, not_applicable, passed, unbeaten
from advisor.rules.rows import Row, fastness
from advisor.verdicts.reasons import Noise, noise_of


def numa_remote(case: Case, limits: Limits) -> Finding:
    host = case.machine.host if case.machine else None
    if case.method is None or host is None:
        return not_applicable("The host of this device was not read.")
    with_memory = [node for node in host.numa_nodes if node.cpus and node.memory_bytes != 0]
    if len(with_memory) < 2:
        return not_applicable("The host has one NUMA node: all memory is local.")
    if host.gpu_numa_node is None:
        why = host.absent.get("gpu_numa_node")
        return not_applicable("The NUMA node the GPU is attached to is not known.", why)
    row, node = case.subject, host.gpu_numa_node
    share = row.part(row.path_seconds)
    nodes = sum(bool(node.cpus) for node in host.numa_nodes)
    if share < limits["share"]:
        little = f"Copies and kernels are only {units.percent(share)} of a frame of {row.strategy}"
        return passed(f"{little}: the NUMA node of host memory makes little difference.")
    return advice(
        f"The host has {nodes} NUMA nodes with CPUs, and the GPU is attached to node {node}. These figures "
        f"were taken with --numa {case.method.numa}. An unbound program gets memory on whichever node it "
        f"starts, and {units.percent(share)} of a frame of {row.strategy} is copies and kernels. Start it "
        f"with numactl --cpunodebind={node} --membind={node}. To see the effect, compare runs with --numa "
        "local and --numa remote.",
        Evidence(label="NUMA nodes with CPUs", value=nodes, unit="count"),
        Evidence(label="the GPU's NUMA node", value=node, unit="count"),
        row.figure(f"{row.strategy}: copies and kernels", row.path_seconds),
        inferred=True,
    )


def link_below_best(case: Case, limits: Limits) -> Finding:
    if case.machine is None:
        return not_applicable("The link of a predicted device cannot be read.")
    link = pcie_link(case.machine.gpu_readings)
    if not all(link):
        why = case.machine.absent.get("gpu_readings")
        return not_applicable("NVML did not report the link's width and generation under load.", why)
    figures = {
        "PCIe generation under load": link.generation,
        "PCIe generation at best": link.best_generation,
        "PCIe lanes": link.width,
        "PCIe lanes at best": link.best_width,
    }
    evidence = [Evidence(label=label, value=value, unit="count") for label, value in figures.items()]
    runs = link.runs
    if link.factor <= 1:
        return passed(f"The link runs at {runs}, the best that NVML reports for this system.")
    runs += f"; this GPU and system can do {link.best}"
    # The recommended strategy where it copies, else page-locked copies, which are bound by the link. Not one
    # whose copies run beside other work: what they spare is not their time.
    rows = [row for row in (case.chosen, *case.copying()) if row is not None and not row.overlaps]
    row = next((row for row in rows if row.transfer_seconds), None)
    share = row.part(row.transfer_seconds) if row else 0.0
    if row is None or share < limits["share"]:
        little = f"copies are only {units.percent(share)} of a frame."
        return passed(f"The link runs at {runs}, but {little}")
    return advice(
        f"Under load the link ran at {runs}: copies, and kernels that use host memory in place, take up "
        f"to {units.ratio(link.factor)} as long as at full rate. Copies are {units.percent(share)} of a "
        f"frame of {row.strategy}; the gain assumes that their time falls by that factor. Check the slot "
        "and its lanes, the risers and the PCIe settings in the firmware.",
        *(*evidence, row.copies(), *row.rate()),
        saved=row.transfer_seconds * (1 - 1 / link.factor),
        inferred=True,
    )


def unstable_measurement(case: Case, limits: Limits) -> Finding:
    if case.machine is None or case.method is None:
        return not_applicable("Nothing was measured on this device.")
    # The strategies between which the verdict is: those it could not tell apart, else the fastest.
    timed = sorted((row for row in case.rows.values() if row.rounds), key=fastness)
    if not timed:
        return not_applicable("No strategy has timed frames.")
    named = [case.verdict.strategy, *case.verdict.tied_with] if case.verdict else []
    worst = max([row for row in timed if row.strategy in named] or timed[:1], key=_half_width)
    width = _half_width(worst)
    if width < limits["width"]:
        known = f"Medians are known to ±{units.percent(width)} or better"
        return passed(f"{known} among the strategies that matter.")
    if case.verdict is not None and case.verdict.verdict not in UNDECIDED:
        only = f"{worst.strategy} is known only to ±{units.percent(width)}"
        return passed(f"{only}, but the verdict does not depend on it.")
    noise, medians = noise_of(case.blocks, worst.strategy), [median(each) for each in worst.rounds if each]
    evidence = [
        worst.figure(f"{worst.strategy}: half-width of the median's interval", width, "ratio"),
        worst.figure(f"{worst.strategy}: fastest process", min(medians)),
        worst.figure(f"{worst.strategy}: slowest process", max(medians)),
        worst.figure(f"{worst.strategy}: processes", len(medians), "count"),
    ]
    between = "standard deviation between blocks, of a frame"
    if noise:
        evidence += (
            worst.figure(f"{worst.strategy}: host stages' {between}", noise.host, "ratio"),
            worst.figure(f"{worst.strategy}: the rest's {between}", noise.rest, "ratio"),
        )
    again = f"--rounds {max(10, 3 * case.method.rounds)}: more processes make the interval shorter"
    if case.blocks:
        again = f"--max-seconds {3 * case.method.max_seconds:g} for more processes and blocks"
    sentences = (
        f"The median of {worst.strategy} is known only to ±{units.percent(width)}, and the candidates for "
        "the best are closer together.",
        _of_the_host(worst, noise, case.machine) if noise and noise.is_the_hosts else "",
        "The warnings on this machine may explain it." if case.machine.warnings else "",
        f"Profile again with {again}.",
    )
    return advice(" ".join(filter(None, sentences)), *evidence, inferred=True)


def _of_the_host(row: Row, noise: Noise, machine: Environment) -> str:
    pages = row.measured.host_pages if row.measured else None
    always = machine.host is not None and machine.host.huge_pages == "always"
    helps = f"fewer passes of host stages over their buffers, {noise.stage}'s first"
    if pages and pages.huge_bytes is not None and pages.huge_bytes <= MOSTLY * pages.bytes and not always:
        huge = units.percent(pages.huge_bytes / pages.bytes)
        helps = f"huge pages, which {huge} of the buffers' memory has ({_THP}); {helps}"
    return (
        f"Its host stages vary by {units.percent(noise.host)} of a frame between blocks, everything else "
        f"by {units.percent(noise.rest)}: the placement of host memory decides. What helps: {helps}."
    )


MOSTLY = 0.5
"""The share of huge pages from which more of them are no advice."""
_THP = "echo always > /sys/kernel/mm/transparent_hugepage/enabled, as root"


def _half_width(row: Row) -> float:
    """Half of the median's interval, as a share of the median."""
    return (row.interval[1] - row.interval[0]) / 2 / row.seconds


PEER = "peer"


def peer_access_off(case: Case, limits: Limits) -> Finding:
    crossing = _crossing_bytes(case)
    if not crossing:
        return not_applicable("No GPU reads what another one writes.")
    if not all(_reach(case, *pair) for pair in crossing):
        return not_applicable(
            "The GPUs cannot access each other's memory, or it is not known whether they can."
        )
    baseline, peer = case.baseline, case.rows[PEER]
    if few := few_copies(baseline, limits):
        return few
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
    row = case.subject
    if few := few_copies(row, limits):
        return few
    share, moved = row.part(row.transfer_seconds), sum(apart.values())
    pairs = " and ".join(f"GPU {one} and GPU {other}" for one, other in apart)
    return advice(
        f"{pairs} cannot access each other's memory, so {units.size(moved)} per frame cross "
        f"the link to the host twice: copies are {units.percent(share)} of a frame of {row.strategy}. Keep "
        "the data on one GPU, or choose two GPUs with peer access with --gpus: `advisor doctor` lists them. "
        "A virtual machine, ACS or an IOMMU can prevent peer access over PCIe.",
        Evidence(label="copied between GPUs in a frame", value=moved, unit="bytes"),
        row.copies(),
        row.frame(),
        inferred=True,
    )


def one_link_for_two(case: Case, limits: Limits) -> Finding:
    row = case.subject
    moved = _host_bytes(row.strategy, case)
    ports = {gpu: _gpu_fact(case, gpu, "root_port") for gpu, count in moved.items() if count}
    if len(ports) < 2:
        return not_applicable(f"Under {row.strategy} no two GPUs copy from or to the host.")
    if None in ports.values():
        return not_applicable("Which PCIe root port each GPU is below is not known.")
    below = [[gpu for gpu, other in ports.items() if other == port] for port in ports.values()]
    gpus = next((each for each in below if len(each) > 1), None)
    if gpus is None:
        return passed("Each GPU has a separate link to the host.")
    if few := few_copies(row, limits):
        return few
    share, port = row.part(row.transfer_seconds), ports[gpus[0]]
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
    row = case.subject
    # The load of each GPU: its kernels, and its share by bytes of the copies with the host.
    moved = _host_bytes(row.strategy, case)
    each = row.transfer_seconds / (sum(moved.values()) or 1.0)
    busy = {gpu: each * part for gpu, part in moved.items()}
    for stage in case.workload.frame_stages("device"):
        busy[stage.gpu] += row.terms.get(f"device:{stage.name}", 0.0)
    most, mean = max(busy.values()), sum(busy.values()) / len(busy)
    if not mean:
        return not_applicable("The GPUs' kernels and copies took no time that could be measured.")
    over = most / mean
    if over < limits["ratio"]:
        return passed(f"The busiest GPU takes {units.ratio(over)} the mean time.")
    longest = max(busy, key=lambda gpu: busy[gpu])
    evidence = [row.figure(f"{row.strategy}: GPU {gpu}", seconds) for gpu, seconds in busy.items()]
    detail = (
        f"GPU {longest} is busy for {units.seconds(most)} of a frame of {row.strategy}, {units.ratio(over)} "
        f"the mean of {len(busy)} GPUs: kernels, and copies in proportion to their bytes. The frame ends "
        "when the slowest GPU is done. Give each GPU a share of the work in proportion to its speed."
    )
    lines = case.lines(stages=[s.name for s in case.workload.frame_stages("device") if s.gpu == longest])
    return advice(detail, *evidence, row.frame(), saved=most - mean, lines=lines, inferred=True)


def _crossing_bytes(case: Case) -> dict[tuple[int, int], float]:
    """Bytes of a frame that one GPU made and another needs, by the two of them."""
    crossing: dict[tuple[int, int], float] = defaultdict(float)
    for step, moved in case.copies(PEER):
        if step.action == "to-peer":
            crossing[step.source, step.gpu] += moved
    return crossing


def _host_bytes(strategy: str, case: Case) -> dict[int, float]:
    """Bytes of a frame that each GPU exchanges with the host under that strategy."""
    by_gpu = dict.fromkeys(range(case.workload.gpus), 0.0)
    for step, moved in case.copies(strategy):
        if step.action != "to-peer":
            by_gpu[step.gpu] += moved
    return by_gpu


def _gpu_fact(case: Case, gpu: int, what: str) -> str | None:
    """A fact that the machine gave of one of the workload's GPUs; None where it was not read."""
    value = case.machine.gpu.get(f"gpu{gpu}_{what}") if case.machine else None
    return None if value is None else str(value)


def _reach(case: Case, one: int, other: int) -> bool | None:
    peers = [_gpu_fact(case, gpu, "peers") for gpu in (one, other)]
    if peers[0] is None or peers[1] is None:
        return None
    return str(other) in peers[0].split() and str(one) in peers[1].split()
