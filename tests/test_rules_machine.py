"""Rules about the machine and the measurement: link, nodes, GPUs, host work, wrong results, noise."""

from __future__ import annotations

from typing import Any

from builders import (
    altered,
    catalogue_device,
    cuda_device,
    failed,
    final_block,
    final_record,
    gpu_state,
    host_state,
    measured,
    profile,
    recommendation,
    workload,
)
from every import every
from judging import CARDS, Cases, bet, concluding, on, predicted_run, restless, row

from advisor.profiles.figures import Block, HostPages
from advisor.profiles.schema import WRONG_RESULTS, Profile, Side, WorkloadRecord
from advisor.profiles.system_state import CpuClocks, NumaNode
from advisor.verdicts.reasons import noise_of

ORIN = "tegra-io-coherent"
PAGEABLE = row("pageable", 0.040, copies=0.020)
PINNED = row("pinned", 0.020, copies=0.010)


def linked(*rows: Any, where: str = "discrete", lanes: int = 16, **state: Any) -> list[Profile]:
    later = [gpu_state(moment, **{"link_width": lanes, **state}) for moment in ("under-load", "after")]
    readings = (gpu_state("before", link_width=lanes), *later)
    runs = on(where, *(rows or (PAGEABLE, PINNED)))
    return [altered(run, "environment", gpu_readings=readings) for run in runs]


TWO = tuple(NumaNode(node=n, cpus=f"{8 * n}-{8 * n + 7}", memory_bytes=32 << 30) for n in range(2))
WITHOUT_CPUS = (TWO[0], NumaNode(node=1, cpus="", memory_bytes=96 << 30))


def sockets(
    *rows: Any, nodes: Any = TWO, gpu: int | None = 1, numa: str = "local", where: str = "discrete"
) -> list[Profile]:
    absent = {} if gpu is not None else {"gpu_numa_node": "the kernel does not report the GPU's NUMA node"}
    host = host_state(numa_nodes=nodes, gpu_numa_node=gpu, absent=absent)
    runs = [altered(run, "method", numa=numa) for run in on(where, *(rows or (PAGEABLE, PINNED)))]
    return [altered(run, "environment", host=host) for run in runs]


BOUND = row("pageable", 0.100, copies=0.006, produce=0.070, consume=0.022)
WRONG = failed("zero-copy", f"{WRONG_RESULTS}`c` differs in 75 % of its elements, largest 2 at [3]")
NO_BASELINE, NO_STAGED = (failed(strategy, f"{WRONG_RESULTS}'c'") for strategy in ("pageable", "staged"))


def host_block(index: int, host: float, rest: float) -> Block:
    """Ten frames with so much in the host's stages, most of it in `produce`, and in the rest."""
    hosts = {"produce": host * 0.9, "consume": 0.001 + host * 0.1}
    return final_block(index // 6, index % 6, "pinned", 10 * (host + rest), frames=10, host_seconds=hosts)


def held(host_noise: float, rest_noise: float, **machine: Any) -> Profile:
    """A final of `pinned` and `zero-copy` that was left open, 18 blocks of 20 ms each."""
    steps, turns = (-1, 1, 0), (1, -1, -1, 1, 0, 0)
    noises = [(host_noise * steps[i % 3], rest_noise * turns[i % 6]) for i in range(18)]
    noisy = [host_block(i, 0.010 + host, 0.010 + rest) for i, (host, rest) in enumerate(noises)]
    pages = HostPages(bytes=100, huge_bytes=10)
    restless_row = altered(restless(PINNED, 0.2), "", samples="blocks", host_pages=pages)
    rows = (PAGEABLE, restless_row, row("zero-copy", 0.0195, kernels=0.004))
    open_verdict = recommendation("pinned", verdict="open", tied_with=("zero-copy",))
    run = altered(profile(results=rows, recommendation=open_verdict), "environment", **machine)
    final = final_record(("pinned", "zero-copy"), rounds=18, looks=2, settled=False, frames=10)
    other = [
        altered(b, "", contestant="zero-copy", place=1, process=i // 6, round=i % 6)
        for i, b in enumerate(reversed(noisy))
    ]
    return run.model_copy(update={"blocks": (*noisy, *other), "final": final})


TWO_NODES = {"host": host_state(numa_nodes=TWO, gpu_numa_node=1, huge_pages="madvise")}
OPEN = altered(
    profile(results=(PAGEABLE, restless(PINNED, 0.2), row("zero-copy", 0.0195, kernels=0.004))),
    "environment",
    host=host_state(cpu=CpuClocks(governors=("powersave",))),
    gpu_readings=(),
)
PREDICTED = predicted_run(catalogue_device("RTX 4090"), bet("pinned", 0.02, copies=0.01))
ELSEWHERE = altered(
    altered(PREDICTED, "", results=(*PREDICTED.results, WRONG)),
    "environment",
    gpu_readings=(gpu_state("under-load", link_width=4),),
)


# Several GPUs: copies between them, links they share, halves that are not halves

SIZE = 4 << 20
STAGES: dict[str, Side | int] = {"produce": "host", "first": 0, "second": 1, "consume": "host"}
PIPELINE = workload(
    STAGES,
    {
        "a": {"produce": "out", "first": "in"},
        "b": {"first": "out", "second": "in"},
        "c": {"second": "out", "consume": "in"},
    },
    size=SIZE,
)
SPLIT = workload(
    STAGES,
    {
        "a": {"produce": "out", "first": "in"},
        "b": {"produce": "out", "second": "in"},
        "c": {"first": "out", "consume": "in"},
        "d": {"second": "out", "consume": "in"},
    },
    size=SIZE,
)
PEERS = {"gpu0_peers": "1", "gpu1_peers": "0"}
APART = {"gpu0_peers": "", "gpu1_peers": ""}
ONE_PORT = {"gpu0_root_port": "0000:00:01.0", "gpu1_root_port": "0000:00:01.0"}
TWO_PORTS = {"gpu0_root_port": "0000:00:01.0", "gpu1_root_port": "0000:00:02.0"}
SERIAL = row("pageable", 0.010, kernels=0.001, copies=0.006)
LOCKED = row("pinned", 0.006, kernels=0.001, copies=0.003)
PEER = row("peer", 0.004, kernels=0.001, copies=0.001)


def joined(made: WorkloadRecord, gpu: dict[str, Any], *rows: Any, first: float = 0.5) -> Profile:
    """first: the part of the kernels' time that is GPU 0's."""
    shares = {"first": first * 0.001, "second": (1 - first) * 0.001, "produce": 0.001, "consume": 0.001}
    results = altered(rows or (SERIAL, LOCKED, PEER), "*", stage_seconds=shares)
    run = profile(device=cuda_device("discrete"), workload=made, results=results)
    return altered(run, "environment", gpu={**run.environment.gpu, **gpu})


EXAMPLES = {
    "peer-access-off": joined(PIPELINE, PEERS),
    "host-staged-peer-copy": joined(PIPELINE, APART),
    "one-link-for-two": joined(SPLIT, ONE_PORT),
    "unbalanced-split": joined(SPLIT, TWO_PORTS, row("pinned", 0.006, kernels=0.001, copies=0.0), first=0.75),
}


SLOW_PEER = row("peer", 0.012, kernels=0.001, copies=0.005)
WAITING_PEER = PEER.model_copy(update={"synchronize_seconds": 0.09})
CASES: Cases = {
    "link-below-best": {
        "a narrow slot: advice 7.50 ms": linked(where=CARDS, link_generation=3, lanes=8),
        "the best link: pass": linked(),
        "few copies: pass": linked(row("pinned", 0.1, kernels=0.09, copies=0.001), link_generation=3),
        "an idle GPU: not-applicable": linked(link_generation=None, performance_state=5),
        "not read: not-applicable": on("discrete", PAGEABLE, PINNED),
        "no card: not-applicable": linked(where="coherent tegra", link_generation=1),
        "copies beside other work are not what it spares: advice 5.00 ms": linked(
            PAGEABLE,
            PINNED,
            row("pinned-pipelined", 0.010, copies=0.012, latency_seconds=0.011),
            link_generation=3,
        ),
        "read here, predicted elsewhere: not-applicable": [ELSEWHERE],
    },
    "numa-remote": {
        "two sockets: advice": sockets(where="discrete coherent"),
        "as requested: advice": sockets(numa="remote"),
        "one node: not-applicable": [*sockets(nodes=TWO[:1]), *sockets(nodes=WITHOUT_CPUS)],
        "the GPU's is not known: not-applicable": sockets(gpu=None),
        "not read: not-applicable": on("discrete", PINNED),
        "nothing crosses: pass": sockets(row("pinned", 0.1, kernels=0.004, copies=0.005)),
    },
    "host-bound-frame": {
        "full of host work: advice": on(f"discrete {ORIN}", BOUND),
        "a third of it is: pass": on(
            "discrete", row("pageable", 0.04, kernels=0.01, copies=0.03, produce=0.01, consume=0.01)
        ),
        "not of the best: pass": on("discrete", BOUND, row("managed", 0.050, produce=0.030, consume=0.016)),
        "not timed: not-applicable": on(
            "discrete", measured("pageable", 0.04, stage_seconds={"other": 0.01}, transfer_seconds=0.0)
        ),
    },
    "missing-synchronisation": {
        "only without copies that wait: advice": on("discrete tegra", PAGEABLE, PINNED, WRONG),
        "another failure: pass": on("discrete", PAGEABLE, PINNED, failed("zero-copy", "a bus error")),
        "the baseline differs: pass": on("discrete", PINNED, NO_BASELINE, WRONG),
        "no baseline: pass": on("discrete", PINNED, WRONG),
        "staged differs: pass": on("discrete", PAGEABLE, NO_STAGED, WRONG),
        "not verified: not-applicable": on("discrete", row("pageable", 0.04, verified=False)),
        "failed here, predicted elsewhere: not-applicable": [ELSEWHERE],
    },
    "unstable-measurement": {
        "processes differ: advice": [OPEN],
        "host memory is the noise: advice": [held(0.002, 0.0002, **TWO_NODES)],
        "the rest is the noise: advice": [held(0.0002, 0.002, **TWO_NODES)],
        "no use for huge pages, which all memory has: advice": [
            held(0.002, 0.0002, host=host_state(huge_pages="always"))
        ],
        "the machine has warnings: advice": [held(0.0002, 0.002, warnings=("The GPU throttled (heat).",))],
        "quiet: pass": on(f"discrete {ORIN}", PAGEABLE, PINNED),
        "noise that does not matter: pass": on(f"discrete {ORIN}", PAGEABLE, restless(PINNED, 0.2)),
        "measured here, predicted elsewhere: not-applicable": [ELSEWHERE],
    },
    "peer-access-off": {
        "GPUs that reach each other: peer 6.00 ms": [EXAMPLES["peer-access-off"]],
        "nothing crosses: not-applicable": [joined(SPLIT, PEERS)],
        "no access: not-applicable": [joined(PIPELINE, APART)],
        "not known: not-applicable": [joined(PIPELINE, {})],
        "no faster: pass": [joined(PIPELINE, PEERS, SERIAL, SLOW_PEER)],
    },
    "host-staged-peer-copy": {
        "GPUs that cannot reach each other: advice": [EXAMPLES["host-staged-peer-copy"]],
        "they can: not-applicable": [joined(PIPELINE, PEERS)],
        "little of a frame: pass": [joined(PIPELINE, APART, WAITING_PEER)],
    },
    "one-link-for-two": {
        "one port: advice 500 µs": [EXAMPLES["one-link-for-two"]],
        "two ports: pass": [joined(SPLIT, TWO_PORTS)],
        "not known: not-applicable": [joined(SPLIT, {})],
    },
    "unbalanced-split": {
        "three quarters on one: advice 250 µs": [EXAMPLES["unbalanced-split"]],
        "halves: pass": [joined(SPLIT, PEERS)],
        "one after the other: not-applicable": [joined(PIPELINE, PEERS, first=0.9)],
    },
}


test_what_the_rule_concludes = concluding(CASES)


@every("blocks", [5, 18])
def test_noise_is_known_from_enough_blocks_of_frames_that_do_not_overlap(blocks: int):
    made = held(0.002, 0.0002).blocks[:blocks]
    found = noise_of(made, "pinned")
    assert bool(found) == (blocks == 18)
    late = [b.model_copy(update={"latency_seconds": 0.03}) for b in made]
    assert noise_of(late, "pinned") is None
