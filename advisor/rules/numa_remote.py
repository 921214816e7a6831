"""numa-remote: host memory on another NUMA node than the GPU's."""

from advisor import units
from advisor.profiles.blocks import Method
from advisor.profiles.conclusions import Evidence
from advisor.profiles.system_state import HostState
from advisor.rules.base import Case, Finding, Limits, Row, advice, not_applicable, passed


def judge(case: Case, limits: Limits) -> Finding:
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
    shown = (
        Evidence(label="NUMA nodes with CPUs", value=nodes, unit="count"),
        Evidence(label="the GPU's NUMA node", value=host.gpu_numa_node, unit="count"),
        row.figure(f"{row.strategy}: copies and kernels", row.path_seconds),
    )
    if share < limits["share"]:
        little = f"Copies and kernels are only {units.percent(share)} of a frame of {row.strategy}"
        return passed(f"{little}: the NUMA node of host memory makes little difference.", *shown)
    return advice(_detail(host, case.method, row, share, nodes), *shown, inferred=True)


def _detail(host: HostState, method: Method, row: Row, share: float, nodes: int) -> str:
    node = host.gpu_numa_node
    measured = "with host memory on that node, where the system allowed it"
    if method.numa not in ("local", str(node)):
        where = "a node remote from it" if method.numa == "remote" else f"node {method.numa}"
        measured = f"with host memory on {where}, as requested"
    return (
        f"The host has {nodes} NUMA nodes with CPUs, and the GPU is attached to node {node}. These "
        f"figures were taken {measured}. An unbound program gets memory on whichever node it starts, and "
        f"{units.percent(share)} of a frame of {row.strategy} is copies and kernels. Start it with "
        f"numactl --cpunodebind={node} --membind={node}. To see the effect, compare runs with --numa "
        "local and --numa remote."
    )
