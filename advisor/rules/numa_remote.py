"""numa-remote: host memory on another NUMA node than the GPU's."""

from __future__ import annotations

from collections.abc import Mapping

from advisor import units
from advisor.profiles.schema import Environment, Evidence, Method
from advisor.profiles.system_state import HostState
from advisor.rules.base import Finding, Row, Rule, evidence, not_applicable, passed
from advisor.rules.findings import ALL_CLASSES, UNKNOWN_CLASS, fastest, share_of_a_frame


def judge(
    rows: Mapping[str, Row],
    recommended: str | None,
    machine: Environment | None,
    method: Method | None,
    limits: Mapping[str, float],
) -> Finding:
    """Advises to bind the program to the GPU's node where there are several and the link matters."""
    host = machine.host if machine else None
    if machine is None or method is None or host is None:
        return not_applicable("The host of this device was not read.")
    with_memory = [node for node in host.numa_nodes if node.cpus and node.memory_bytes != 0]
    if len(with_memory) < 2:
        return not_applicable("The host has one NUMA node: all its memory is as near.")
    if host.gpu_numa_node is None:
        why = host.absent.get("gpu_numa_node")
        return not_applicable("Which NUMA node the GPU hangs on is not known" + (f": {why}." if why else "."))
    row = rows.get(recommended or "") or fastest(rows.values())
    if row is None:
        return not_applicable("No strategy has figures.")
    share = row.part(row.path_seconds)
    shown = _evidence(host, row)
    if share < limits["share"]:
        return passed(
            f"Copies and kernels are only {units.percent(share)} of a frame of {row.strategy}: where the "
            "host's memory lies hardly matters.",
            *shown,
        )
    return Finding("advice", _detail(host, method, row, share), evidence=shown, inferred=True)


def _detail(host: HostState, method: Method, row: Row, share: float) -> str:
    node = host.gpu_numa_node
    measured = "with the host's memory on that node, where the system allowed it"
    if method.numa not in ("local", str(node)):
        where = "a node remote from it" if method.numa == "remote" else f"node {method.numa}"
        measured = f"with the host's memory on {where}, as asked for"
    return (
        f"The host has {sum(bool(n.cpus) for n in host.numa_nodes)} NUMA nodes with CPUs, and the GPU hangs "
        f"on node {node}. These figures were taken {measured}; a program that is not bound gets memory "
        f"wherever it happens to start, and {units.percent(share)} of a frame of {row.strategy} is copies "
        "and kernels. Start it with "
        f"numactl --cpunodebind={node} --membind={node}; to see what that is worth here, compare runs with "
        "--numa local and --numa remote."
    )


def _evidence(host: HostState, row: Row) -> tuple[Evidence, ...]:
    nodes = sum(bool(node.cpus) for node in host.numa_nodes)
    return (
        Evidence(label="NUMA nodes with CPUs", value=nodes, unit="count"),
        Evidence(label="the GPU's NUMA node", value=host.gpu_numa_node or 0, unit="count"),
        evidence(f"{row.strategy}: copies and kernels", row.path_seconds, "seconds", row),
    )


RULE = Rule(
    id="numa-remote",
    title="Bind the program to the NUMA node that the GPU hangs on",
    why="A machine with several sockets has memory near the GPU and memory that is a hop away. Linux places "
    "pages on the node of the CPU that first touches them: a matter of luck for a program that is not "
    "bound. On GH200 kernels use the near node's memory at 330 GB/s and the far one's at 221.",
    memory_classes=ALL_CLASSES,
    elsewhere=UNKNOWN_CLASS,
    needs=("rows", "recommended", "machine", "method"),
    thresholds=(
        share_of_a_frame(
            "part of a frame that copies and kernels take, from which the way to the memory matters"
        ),
    ),
    sources=(
        "https://dnhkng.github.io/posts/gh200-benchmarking: 328 to 339 GB/s near, 221 far",
        "https://man7.org/linux/man-pages/man8/numactl.8.html",
    ),
    judge=judge,
)
