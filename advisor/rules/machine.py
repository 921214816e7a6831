"""Rules on the machine: NUMA nodes, the PCIe link, and figures that scatter."""

from __future__ import annotations

from statistics import median

from advisor import units
from advisor.devices.environment import FIX_CLOCKS, moved_clocks, pcie_link
from advisor.profiles.conclusions import Evidence
from advisor.profiles.figures import Method
from advisor.profiles.system_state import Environment
from advisor.rules.base import Case, Finding, Limits, Row, advice, not_applicable, passed, text
from advisor.verdicts.reasons import Noise, noise_of


def numa_remote(case: Case, limits: Limits) -> Finding:
    host = case.machine.host if case.machine else None
    row = case.chosen or case.fastest()
    if case.method is None or host is None or row is None:
        return not_applicable("The host of this device was not read.")
    with_memory = [node for node in host.numa_nodes if node.cpus and node.memory_bytes != 0]
    if len(with_memory) < 2:
        return not_applicable("The host has one NUMA node: all memory is local.")
    if host.gpu_numa_node is None:
        why = host.absent.get("gpu_numa_node")
        unknown = "The NUMA node the GPU is attached to is not known"
        return not_applicable(f"{unknown}: {why}." if why else f"{unknown}.")
    share = row.part(row.path_seconds)
    nodes = sum(bool(node.cpus) for node in host.numa_nodes)
    evidence = (
        Evidence(label="NUMA nodes with CPUs", value=nodes, unit="count"),
        Evidence(label="the GPU's NUMA node", value=host.gpu_numa_node, unit="count"),
        row.figure(f"{row.strategy}: copies and kernels", row.path_seconds),
    )
    if share < limits["share"]:
        little = f"Copies and kernels are only {units.percent(share)} of a frame of {row.strategy}"
        return passed(f"{little}: the NUMA node of host memory makes little difference.", *evidence)
    node, asked_for = host.gpu_numa_node, case.method.numa
    measured = "with host memory on that node, where the system allowed it"
    if asked_for not in ("local", str(node)):
        where = "a node remote from it" if asked_for == "remote" else f"node {asked_for}"
        measured = f"with host memory on {where}, as requested"
    detail = (
        f"The host has {nodes} NUMA nodes with CPUs, and the GPU is attached to node {node}. These "
        f"figures were taken {measured}. An unbound program gets memory on whichever node it starts, and "
        f"{units.percent(share)} of a frame of {row.strategy} is copies and kernels. Start it with "
        f"numactl --cpunodebind={node} --membind={node}. To see the effect, compare runs with --numa "
        "local and --numa remote."
    )
    return advice(detail, *evidence, inferred=True)


def link_below_best(case: Case, limits: Limits) -> Finding:
    if case.machine is None:
        return not_applicable("The link of a predicted device cannot be read.")
    link = pcie_link(case.machine.gpu_readings)
    if not all(link):
        why = case.machine.absent.get("gpu_readings")
        unknown = "NVML did not report the link's width and generation under load"
        return not_applicable(f"{unknown}: {why.rstrip('.')}." if why else f"{unknown}.")
    figures = {
        "PCIe generation under load": link.generation,
        "PCIe generation at best": link.best_generation,
        "PCIe lanes": link.width,
        "PCIe lanes at best": link.best_width,
    }
    evidence = [Evidence(label=label, value=value, unit="count") for label, value in figures.items()]
    runs = link.runs
    if link.factor <= 1:
        best = "the best that NVML reports for this GPU and system"
        unseen = "NVML does not report whether another slot has more lanes"
        return passed(f"The link runs at {runs}, {best}; {unseen}.", *evidence)
    runs += f"; this GPU and system can do {link.best}"
    # The recommended strategy where it copies, else page-locked copies, which are bound by the link. Not one
    # whose copies run beside other work: what they spare is not their time.
    rows = [row for row in (case.chosen, *case.copying()) if row is not None and not row.overlaps]
    row = next((row for row in rows if row.transfer_seconds), None)
    share = row.part(row.transfer_seconds) if row else 0.0
    if row is None or share < limits["share"]:
        little = f"copies are only {units.percent(share)} of a frame."
        return passed(f"The link runs at {runs}, but {little}", *evidence)
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
    contenders = _contenders(case)
    if not contenders:
        return not_applicable("No strategy has timed frames.")
    worst = max(contenders, key=_half_width)
    width, evidence = _half_width(worst), _evidence(worst)
    if width < limits["width"]:
        known = f"Medians are known to ±{units.percent(width)} or better"
        return passed(f"{known} among the strategies that matter.", *evidence)
    if case.verdict is not None and case.verdict.verdict not in ("open", "untrusted"):
        only = f"{worst.strategy} is known only to ±{units.percent(width)}"
        return passed(f"{only}, but the verdict does not depend on it.", *evidence)
    noise = noise_of(case.blocks, worst.strategy)
    between = "standard deviation between blocks, of a frame"
    if noise:
        evidence += (
            worst.figure(f"{worst.strategy}: host stages' {between}", noise.host, "ratio"),
            worst.figure(f"{worst.strategy}: the rest's {between}", noise.rest, "ratio"),
        )
    detail = text(
        f"The median of {worst.strategy} is known only to ±{units.percent(width)}, and the candidates for "
        f"the best are closer together: {_scatter(worst, 'blocks' if case.blocks else 'frames')}.",
        _of_the_host(worst, noise, case.machine),
        _seen(case.machine, noise),
        _again(case.method, bool(case.blocks)),
    )
    return advice(detail, *evidence, inferred=True)


def _again(method: Method, held_final: bool) -> str:
    if held_final:
        return f"Profile again with --max-seconds {3 * method.max_seconds:g} for more processes and blocks."
    return (
        f"Profile again with --rounds {max(10, 3 * method.rounds)}: the interval shrinks with the number "
        "of processes, not the length of a run."
    )


def _of_the_host(row: Row, noise: Noise | None, machine: Environment) -> str:
    """Where host stages are the noise: that they are, and what helps here."""
    if noise is None or not noise.is_the_hosts:
        return ""
    passes = f"fewer passes of host stages over their buffers, {noise.stage}'s first"
    helps, host, huge = [passes], machine.host, row.huge_share
    if huge is not None and huge <= MOSTLY and not (host and host.huge_pages == "always"):
        helps.insert(0, f"huge pages, which {units.percent(huge)} of the buffers' memory has ({_THP})")
    if host and host.gpu_numa_node is not None and sum(bool(n.cpus) for n in host.numa_nodes) > 1:
        node = host.gpu_numa_node
        helps.insert(0, f"run on the GPU's NUMA node (numactl --cpunodebind={node} --membind={node})")
    return (
        f"Its host stages vary by {units.percent(noise.host)} of a frame between blocks, everything else "
        f"by {units.percent(noise.rest)}: the placement of host memory decides. What helps: "
        f"{'; '.join(helps)}."
    )


MOSTLY = 0.5
"""The share of huge pages from which more of them are no advice."""
_THP = "echo always > /sys/kernel/mm/transparent_hugepage/enabled, as root"


def _contenders(case: Case) -> list[Row]:
    """The strategies between which the verdict is: those it could not tell apart, else the fastest."""
    verdict = case.verdict
    named = [] if verdict is None else [verdict.strategy, *verdict.tied_with]
    contenders = [row for row in case.rows.values() if row.strategy in named and row.rounds]
    best = case.fastest(row for row in case.rows.values() if row.rounds)
    return contenders or ([best] if best else [])


def _half_width(row: Row) -> float:
    """Half of the median's interval, as a share of the median."""
    return (row.interval[1] - row.interval[0]) / 2 / row.seconds


def _processes(row: Row) -> list[float]:
    return [median(frames) for frames in row.rounds if frames]


def _scatter(worst: Row, unit: str) -> str:
    """Whether processes differ, or already the frames or blocks of the worst one; as shares of the median."""
    medians = _processes(worst)
    between = (max(medians) - min(medians)) / worst.seconds
    ordered = [sorted(frames) for frames in worst.rounds if frames]
    # The middle half of the frames of a process.
    within = max(f[(3 * len(f)) // 4 - (len(f) % 4 == 0)] - f[len(f) // 4] for f in ordered) / worst.seconds
    if between > within:
        return (
            f"its processes differ by {units.percent(between)}, more than the {unit} of one process "
            f"({units.percent(within)}): what a process gets at its start, such as page placement, decides"
        )
    return f"the {unit} of one process already vary by {units.percent(within)}: there is another cause"


def _seen(machine: Environment, noise: Noise | None) -> str:
    """What the machine told that makes figures scatter, and what to do about it; or that it told nothing.

    The GPU's clocks are told where they moved. The CPU's governor, where host stages may be the noise.
    """
    states = machine.gpu_readings
    reasons = dict.fromkeys(reason for s in states for reason in s.throttle_reasons or ())
    others = max((s.other_processes or 0 for s in states), default=0)
    causes = [f"the GPU throttled ({', '.join(reasons)})"] if reasons else []
    causes += [f"other processes used the GPU ({others}): stop them"] if others else []
    if moved := moved_clocks(states):
        low, high = map(units.frequency, moved)
        causes.append(f"the GPU's clock was between {low} and {high} under load (to fix it: {FIX_CLOCKS})")
    governors = machine.host.cpu.governors if machine.host else ()
    if any(governor != "performance" for governor in governors) and (not noise or noise.is_the_hosts):
        causes.append(f"CPU clocks were controlled by the governor {', '.join(governors)}")
    if causes:
        return f"Observed during the run: {'; '.join(causes)}."
    return "" if noise and noise.is_the_hosts else "No reading of the machine explains it."


def _evidence(row: Row) -> tuple[Evidence, ...]:
    medians, half = _processes(row), "half-width of the median's interval"
    return (
        row.figure(f"{row.strategy}: {half}", _half_width(row), "ratio"),
        row.figure(f"{row.strategy}: fastest process", min(medians)),
        row.figure(f"{row.strategy}: slowest process", max(medians)),
        row.figure(f"{row.strategy}: processes", len(medians), "count"),
    )
