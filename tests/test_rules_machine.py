"""Rules about the machine and the measurement: link, nodes, host work, wrong results, noise; a real run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders import catalogue_device, failed, gpu_state, host_state, measured, profile, recommendation
from every import every
from judging import CARDS, Cases, bet, judge, on, predicted_run, restless, row
from rendering import Accepted

from advisor.profiles.figures import Block, FinalRecord, HostPages
from advisor.profiles.reading import load
from advisor.profiles.schema import WRONG_RESULTS, Profile
from advisor.profiles.system_state import CpuClocks, NumaNode
from advisor.rules.advise import advise
from advisor.verdicts.reasons import noise_of

ORIN = "tegra-io-coherent"
PAGEABLE = row("pageable", 0.040, kernels=0.002, copies=0.020)
PINNED = row("pinned", 0.020, kernels=0.002, copies=0.010)


def on_machine(run: Profile, **fields: Any) -> Profile:
    return run.model_copy(update={"environment": run.environment.model_copy(update=fields)})


def linked(*rows: Any, where: str = "discrete", lanes: int = 16, **state: Any) -> list[Profile]:
    before = gpu_state("before", link_width=lanes)
    readings = (
        before,
        *(gpu_state(moment, **{"link_width": lanes, **state}) for moment in ("under-load", "after")),
    )  # type: ignore[arg-type]
    return [on_machine(run, gpu_readings=readings) for run in on(where, *(rows or (PAGEABLE, PINNED)))]


TWO = tuple(NumaNode(node=n, cpus=f"{8 * n}-{8 * n + 7}", memory_bytes=32 << 30) for n in range(2))
WITHOUT_CPUS = (TWO[0], NumaNode(node=1, cpus="", memory_bytes=96 << 30))


def sockets(
    *rows: Any, nodes: Any = TWO, gpu: int | None = 1, numa: str = "local", where: str = "discrete"
) -> list[Profile]:
    absent = {} if gpu is not None else {"gpu_numa_node": "the kernel does not report the GPU's NUMA node"}
    host = host_state(numa_nodes=nodes, gpu_numa_node=gpu, absent=absent)
    runs = [on_machine(run, host=host) for run in on(where, *(rows or (PAGEABLE, PINNED)))]
    return [run.model_copy(update={"method": run.method.model_copy(update={"numa": numa})}) for run in runs]


BOUND = row("pageable", 0.100, kernels=0.002, copies=0.006, produce=0.070, consume=0.022)
WRONG = failed("zero-copy", f"{WRONG_RESULTS}`c` differs in 75 % of its elements, largest 2 at [3]")


def wrong(strategy: str) -> Any:
    return failed(strategy, f"{WRONG_RESULTS}'c'")


def block(index: int, host: float, rest: float) -> Block:
    """Ten frames with so much in the host's stages, most of it in `produce`, and in the rest."""
    return Block(
        process=index // 6,
        round=index % 6,
        place=0,
        contestant="pinned",
        frames=10,
        seconds=10 * (host + rest),
        frame_seconds=(),
        host_seconds={"produce": host * 0.9, "consume": 0.001 + host * 0.1},
    )


def held(host_noise: float, rest_noise: float, **machine: Any) -> Profile:
    """A final of `pinned` and `zero-copy` that was left open, 18 blocks of 20 ms each."""
    steps = [(-1, 1, 0)[i % 3] for i in range(18)]
    turns = [(1, -1, -1, 1, 0, 0)[i % 6] for i in range(18)]
    noisy = [
        block(i, 0.010 + host_noise * a, 0.010 + rest_noise * b)
        for i, (a, b) in enumerate(zip(steps, turns, strict=True))
    ]
    restless_row = restless(PINNED, 0.2).model_copy(
        update={"samples": "blocks", "host_pages": HostPages(bytes=100, huge_bytes=10)}
    )
    rows = (PAGEABLE, restless_row, row("zero-copy", 0.0195, kernels=0.004))
    open_verdict = recommendation("pinned", verdict="open", tied_with=("zero-copy",))
    run = on_machine(profile(results=rows, recommendation=open_verdict), **machine)
    final = FinalRecord(
        contestants={"pinned": "pinned", "zero-copy": "zero-copy"}, processes=3, rounds=18, looks=2,
        settled=False, frames=10, kept_setup=False,
    )  # fmt: skip
    other = [b.model_copy(update={"contestant": "zero-copy", "place": 1}) for b in reversed(noisy)]
    moved = [b.model_copy(update={"process": i // 6, "round": i % 6}) for i, b in enumerate(other)]
    return run.model_copy(update={"blocks": (*noisy, *moved), "final": final})


def clocked(hertz: int) -> tuple[Any, ...]:
    return (gpu_state("before"), gpu_state("under-load"), gpu_state("under-load", sm_hertz=hertz))


TWO_NODES = {"host": host_state(numa_nodes=TWO, gpu_numa_node=1, huge_pages="madvise")}
OPEN = on_machine(
    profile(results=(PAGEABLE, restless(PINNED, 0.2), row("zero-copy", 0.0195, kernels=0.004))),
    host=host_state(cpu=CpuClocks(governors=("powersave",))),
    gpu_readings=(),
)
PREDICTED = predicted_run(catalogue_device("RTX 4090"), bet("pinned", 0.02, kernels=0.002, copies=0.01))
ELSEWHERE = on_machine(
    PREDICTED.model_copy(update={"results": (*PREDICTED.results, WRONG)}),
    gpu_readings=(gpu_state("under-load", link_width=4),),
)
CASES: Cases = {
    "link-below-best": [
        ("advice 7.50 ms", "a narrow slot", linked(where=CARDS, link_generation=3, lanes=8)),
        ("pass", "the best link", linked()),
        ("pass", "few copies", linked(row("pinned", 0.1, kernels=0.09, copies=0.001), link_generation=3)),
        ("not-applicable", "an idle GPU", linked(link_generation=None, performance_state=5)),
        ("not-applicable", "not read", on("discrete", PAGEABLE, PINNED)),
        ("not-applicable", "no card", linked(where="coherent tegra", link_generation=1)),
        (
            "advice 5.00 ms",
            "copies beside other work are not what it spares",
            linked(
                PAGEABLE,
                PINNED,
                row("pinned-pipelined", 0.010, kernels=0.002, copies=0.012, latency_seconds=0.011),
                link_generation=3,
            ),
        ),
        ("not-applicable", "read here, predicted elsewhere", [ELSEWHERE]),
    ],
    "numa-remote": [
        ("advice", "two sockets", sockets(where="discrete coherent")),
        ("advice", "as requested", sockets(numa="remote")),
        ("not-applicable", "one node", [*sockets(nodes=TWO[:1]), *sockets(nodes=WITHOUT_CPUS)]),
        ("not-applicable", "the GPU's is not known", sockets(gpu=None)),
        ("not-applicable", "not read", on("discrete", PINNED)),
        ("pass", "nothing crosses", sockets(row("pinned", 0.1, kernels=0.004, copies=0.005))),
    ],
    "host-bound-frame": [
        ("advice", "full of host work", on(f"discrete {ORIN}", BOUND)),
        (
            "pass",
            "a third of it is",
            on("discrete", row("pageable", 0.04, kernels=0.01, copies=0.03, produce=0.01, consume=0.01)),
        ),
        (
            "pass",
            "not of the best",
            on("discrete", BOUND, row("managed", 0.050, kernels=0.002, produce=0.030, consume=0.016)),
        ),
        (
            "not-applicable",
            "not timed",
            on("discrete", measured("pageable", 0.04, stage_seconds={"other": 0.01}, transfer_seconds=0.0)),
        ),
    ],
    "missing-synchronisation": [
        ("advice", "only without copies that wait", on("discrete tegra", PAGEABLE, PINNED, WRONG)),
        ("pass", "another failure", on("discrete", PAGEABLE, PINNED, failed("zero-copy", "a bus error"))),
        ("pass", "the baseline differs", on("discrete", PINNED, wrong("pageable"), WRONG)),
        ("pass", "no baseline", on("discrete", PINNED, WRONG)),
        ("pass", "staged differs", on("discrete", PAGEABLE, wrong("staged"), WRONG)),
        (
            "not-applicable",
            "not verified",
            on("discrete", row("pageable", 0.04, kernels=0.002, verified=False)),
        ),
        ("not-applicable", "failed here, predicted elsewhere", [ELSEWHERE]),
    ],
    "unstable-measurement": [
        ("advice", "processes differ", [OPEN]),
        ("advice", "host memory is the noise", [held(0.002, 0.0002, **TWO_NODES)]),
        ("advice", "the rest is the noise", [held(0.0002, 0.002, **TWO_NODES)]),
        (
            "advice",
            "no use for huge pages, which all memory has",
            [held(0.002, 0.0002, host=host_state(huge_pages="always"))],
        ),
        (
            "advice",
            "the machine has warnings",
            [held(0.0002, 0.002, warnings=("The GPU throttled (heat).",))],
        ),
        ("pass", "quiet", on(f"discrete {ORIN}", PAGEABLE, PINNED)),
        ("pass", "noise that does not matter", on(f"discrete {ORIN}", PAGEABLE, restless(PINNED, 0.2))),
        ("not-applicable", "measured here, predicted elsewhere", [ELSEWHERE]),
    ],
}


@pytest.mark.parametrize("rule", CASES)
def test_what_the_rule_concludes(rule: str, accepted: Accepted) -> None:
    judge(rule, CASES, accepted)


@every("blocks", [5, 18])
def test_noise_is_known_from_enough_blocks_of_frames_that_do_not_overlap(blocks: int):
    made = held(0.002, 0.0002).blocks[:blocks]
    found = noise_of(made, "pinned")
    assert bool(found) == (blocks == 18)
    late = [b.model_copy(update={"latency_seconds": 0.03}) for b in made]
    assert noise_of(late, "pinned") is None


# A real run: an H200 in a virtual machine, where write-combined memory reads as fast as cached memory and
# processes differ by a fifth.

H200 = Path(__file__).parent / "data" / "h200-vector_add.json"


def test_what_the_rules_say_of_a_real_h200():
    found = {advice.rule: advice for advice in advise(load(H200)).advice}
    assert "error" not in {advice.outcome for advice in found.values()}
    fired = {rule for rule, advice in found.items() if advice.outcome == "advice"}
    assert fired == {"pageable-transfer", "staged-transfer", "page-fault-migration", "unstable-measurement"}
    assert found["pageable-transfer"].strategy == found["staged-transfer"].strategy
    passed = {"write-combined-read", "write-combined-without-gain", "zero-copy-uncoalesced"}
    passed |= {"link-below-best", "serial-copies", "pinned-over-budget"}
    assert {found[rule].outcome for rule in passed} == {"pass"}
    assert found["numa-remote"].outcome == "not-applicable"
