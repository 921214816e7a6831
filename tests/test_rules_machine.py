"""Rules about the machine and the measurement: link, nodes, host work, wrong results, noise; a real run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders import (
    catalogue_device,
    cuda_device,
    failed,
    gpu_state,
    host_state,
    measured,
    profile,
    recommendation,
)
from every import every
from judging import bet, figures, predicted_run, restless, row, says, verdict_of

from advisor.devices.environment import moved_clocks
from advisor.profiles.figures import Block, FinalRecord, HostPages
from advisor.profiles.reading import load
from advisor.profiles.schema import WRONG_RESULTS, MemoryClass, Profile
from advisor.profiles.system_state import CpuClocks, NumaNode
from advisor.rules.advise import advise
from advisor.verdicts.reasons import noise_of

PAGEABLE = row("pageable", 0.040, kernels=0.002, copies=0.020)
PINNED = row("pinned", 0.020, kernels=0.002, copies=0.010)


def on_machine(run: Profile, **fields: Any) -> Profile:
    return run.model_copy(update={"environment": run.environment.model_copy(update=fields)})


# link-below-best


def linked(*rows: Any, memory_class: MemoryClass = "discrete", **state: Any) -> Profile:
    run = profile(device=cuda_device(memory_class), results=rows or (PAGEABLE, PINNED))
    readings = (gpu_state("before"), gpu_state("under-load", **state), gpu_state("after", **state))
    return on_machine(run, gpu_readings=readings)


@every("memory_class", ["discrete", "discrete-hmm"])
def test_a_card_in_a_narrow_slot(memory_class: MemoryClass):
    run = linked(memory_class=memory_class, link_generation=3, link_width=8)
    run = on_machine(
        run, gpu_readings=tuple(r.model_copy(update={"link_width": 8}) for r in run.environment.gpu_readings)
    )
    found = says("link-below-best", run)
    assert (found.outcome, found.strategy, found.certainty) == ("advice", None, "likely")
    assert found.gain.seconds_per_frame == pytest.approx(0.010 * 3 / 4)
    assert found.gain.basis == "estimated"
    link = {"PCIe generation under load": 3, "PCIe generation at best": 4, "PCIe lanes": 8}
    assert figures(found).items() >= {**link, "PCIe lanes at best": 16}.items()


@every(
    ("run", "outcome"),
    [
        (linked(), "pass"),
        (linked(row("pinned", 0.1, kernels=0.09, copies=0.001), link_generation=3), "pass"),
        (linked(link_generation=None, performance_state=5), "not-applicable"),
        (profile(results=(PAGEABLE, PINNED)), "not-applicable"),
        (linked(memory_class="coherent", link_generation=1), "not-applicable"),
        (linked(memory_class="tegra", link_generation=1), "not-applicable"),
    ],
)
def test_link_keeps_quiet(run: Profile, outcome: str):
    assert says("link-below-best", run).outcome == outcome


def test_copies_beside_other_work_are_not_what_a_faster_link_spares():
    overlapped = row("pinned-pipelined", 0.010, kernels=0.002, copies=0.012, latency_seconds=0.011)
    found = says("link-below-best", linked(PAGEABLE, PINNED, overlapped, link_generation=3))
    assert found.gain.seconds_per_frame == pytest.approx(0.010 / 2)
    assert figures(found)["pinned: copies"] == 0.010


# numa-remote


TWO = tuple(NumaNode(node=n, cpus=f"{8 * n}-{8 * n + 7}", memory_bytes=32 << 30) for n in range(2))


def sockets(nodes: Any = TWO, gpu: int | None = 1, numa: str = "local", **fields: Any) -> Profile:
    run = profile(results=(PAGEABLE, PINNED), **fields)
    absent = {} if gpu is not None else {"gpu_numa_node": "the kernel does not report the GPU's NUMA node"}
    run = on_machine(run, host=host_state(numa_nodes=nodes, gpu_numa_node=gpu, absent=absent))
    return run.model_copy(update={"method": run.method.model_copy(update={"numa": numa})})


@every("memory_class", ["discrete", "coherent"])
def test_two_sockets(memory_class: MemoryClass):
    found = says("numa-remote", sockets(device=cuda_device(memory_class)))
    assert (found.outcome, found.strategy, found.gain, found.certainty) == ("advice", None, None, "likely")
    assert "--cpunodebind=1 --membind=1" in found.detail
    remote = says("numa-remote", sockets(device=cuda_device(memory_class), numa="remote"))
    assert "as requested" in remote.detail
    assert "as requested" not in found.detail


@every(
    ("run", "reason"),
    [
        (sockets(TWO[:1]), "one NUMA node"),
        (sockets((TWO[0], NumaNode(node=1, cpus="", memory_bytes=96 << 30))), "one NUMA node"),
        (sockets(gpu=None), "the kernel does not report"),
        (profile(results=(PINNED,)), "was not read"),
    ],
)
def test_nodes_keep_quiet(run: Profile, reason: str):
    found = says("numa-remote", run)
    assert found.outcome == "not-applicable"
    assert reason in found.detail


def test_nodes_hardly_matter_where_nothing_crosses():
    run = sockets().model_copy(update={"results": (row("pinned", 0.1, kernels=0.004, copies=0.005),)})
    found = says("numa-remote", run)
    assert found.outcome == "pass"
    assert figures(found)["pinned: copies and kernels"] == pytest.approx(0.009)


# host-bound-frame


@every("memory_class", ["discrete", "tegra-io-coherent"])
def test_a_frame_full_of_host_work(memory_class: MemoryClass):
    bound = row("pageable", 0.100, kernels=0.002, copies=0.006, produce=0.070, consume=0.022)
    found = verdict_of("host-bound-frame", bound, on=memory_class)
    assert (found.outcome, found.strategy, found.gain, found.certainty) == ("advice", None, None, "measured")
    assert figures(found) == pytest.approx(
        {"pageable: produce": 0.070, "pageable: consume": 0.022, "pageable: kernels, copies and waits": 0.008}
    )


def test_the_parts_of_a_frame():
    long = row("pageable", 0.040, kernels=0.010, copies=0.030, produce=0.010, consume=0.010)
    short = row("pinned", 0.020, kernels=0.010, copies=0.005)
    found = verdict_of("pageable-transfer", long, short)
    assert "50 %" in found.detail
    assert "33 %" in verdict_of("host-bound-frame", long).detail
    bound = row("pageable", 0.100, kernels=0.002, copies=0.006, produce=0.070, consume=0.022)
    other = row("managed", 0.050, kernels=0.002, produce=0.030, consume=0.016)
    found = verdict_of("host-bound-frame", bound, other)
    assert found.outcome == "pass"
    assert figures(found)["managed: produce"] == 0.030
    untimed = measured("pageable", 0.04, stage_seconds={"other": 0.01}, transfer_seconds=0.0)
    assert verdict_of("host-bound-frame", untimed).outcome == "not-applicable"


# missing-synchronisation

WRONG = failed("zero-copy", f"{WRONG_RESULTS}12 of 16 elements of 'c' differ from the reference run")


@every("memory_class", ["discrete", "tegra"])
def test_results_that_need_the_copies_wait(memory_class: MemoryClass):
    run = profile(device=cuda_device(memory_class), results=(PAGEABLE, PINNED, WRONG))
    found = says("missing-synchronisation", run)
    assert (found.outcome, found.strategy, found.gain, found.certainty) == ("advice", None, None, "likely")
    assert "12 of 16 elements" in found.detail
    assert figures(found) == {"strategies whose results differ": 1, "strategies whose results agree": 2}


@every(
    ("rows", "outcome", "differ"),
    [
        ((PAGEABLE, PINNED, failed("zero-copy", "ended with a bus error")), "pass", None),
        ((PINNED, failed("pageable", f"{WRONG_RESULTS}'c'"), WRONG), "pass", 2),
        ((PINNED, WRONG), "pass", 1),
        ((PAGEABLE, failed("staged", f"{WRONG_RESULTS}'c'"), WRONG), "pass", 2),
        ((row("pageable", 0.04, kernels=0.002, verified=False),), "not-applicable", None),
    ],
)
def test_missing_synchronisation_keeps_quiet(rows: Any, outcome: str, differ: int | None):
    found = verdict_of("missing-synchronisation", *rows)
    assert found.outcome == outcome
    assert figures(found).get("strategies whose results differ") == differ


# unstable-measurement


def test_processes_that_differ_leave_the_verdict_open():
    rows = (PAGEABLE, restless(PINNED, 0.2), row("zero-copy", 0.0195, kernels=0.004))
    run = on_machine(
        profile(results=rows), host=host_state(cpu=CpuClocks(governors=("powersave",))), gpu_readings=()
    )
    found = says("unstable-measurement", run)
    assert (found.outcome, found.strategy, found.certainty) == ("advice", None, "likely")
    assert "processes differ" in found.detail
    assert "powersave" in found.detail
    assert "--rounds 10" in found.detail
    seen = figures(found)
    assert seen["pinned: processes"] == 3
    assert seen["pinned: slowest process"] - seen["pinned: fastest process"] == pytest.approx(0.4 * 0.020)


def block(index: int, host: float, rest: float, **fields: Any) -> Block:
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
        **fields,
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


TWO_NODES = {"host": host_state(numa_nodes=TWO, gpu_numa_node=1, huge_pages="madvise")}


def test_where_host_memory_is_the_noise_it_is_said_and_what_helps():
    found = says("unstable-measurement", held(0.002, 0.0002, **TWO_NODES))
    assert found.outcome == "advice"
    assert (
        "Its host stages vary by 8.4 % of a frame between blocks, everything else by 0.84 %" in found.detail
    )
    assert "numactl --cpunodebind=1 --membind=1" in found.detail
    assert "huge pages, which 10 % of the buffers' memory has" in found.detail
    assert "fewer passes of host stages over their buffers, produce's first" in found.detail
    assert "controlled by the governor powersave" in found.detail
    assert "clock was between" not in found.detail
    assert "--max-seconds 9" in found.detail
    shown = figures(found)
    assert shown["pinned: host stages' standard deviation between blocks, of a frame"] > 0.08


def test_where_the_rest_is_the_noise_the_host_is_left_alone():
    found = says("unstable-measurement", held(0.0002, 0.002, **TWO_NODES))
    assert found.outcome == "advice"
    for word in ("host stages vary", "numactl", "huge pages", "passes", "governor", "clock was"):
        assert word not in found.detail
    assert "No reading of the machine explains it" in found.detail


@every(
    ("machine", "word"),
    [
        ({"host": host_state(numa_nodes=TWO[:1], gpu_numa_node=0)}, "numactl"),
        ({"host": host_state(numa_nodes=TWO, gpu_numa_node=None)}, "numactl"),
        ({"host": host_state(huge_pages="always")}, "huge pages"),
    ],
)
def test_help_that_this_machine_has_no_use_for_is_not_given(machine: dict[str, Any], word: str):
    found = says("unstable-measurement", held(0.002, 0.0002, **machine))
    assert "the placement of host memory decides" in found.detail
    assert word not in found.detail


@every(("hertz", "told"), [(1_500_000_000, True), (2_450_000_000, False)])
def test_clocks_are_told_where_they_moved_under_load(hertz: int, told: bool):
    states = (gpu_state("before"), gpu_state("under-load"), gpu_state("under-load", sm_hertz=hertz))
    found = says("unstable-measurement", held(0.0002, 0.002, gpu_readings=states))
    assert ("between 1.50 GHz and 2.52 GHz under load" in found.detail) == told
    assert ("nvidia-smi --lock-gpu-clocks" in found.detail) == told
    assert bool(moved_clocks(states)) == told


@every("blocks", [5, 18])
def test_noise_is_known_from_enough_blocks_of_frames_that_do_not_overlap(blocks: int):
    made = held(0.002, 0.0002).blocks[:blocks]
    found = noise_of(made, "pinned")
    assert bool(found) == (blocks == 18)
    late = [b.model_copy(update={"latency_seconds": 0.03}) for b in made]
    assert noise_of(late, "pinned") is None


@every(("rows", "loud"), [((PAGEABLE, PINNED), False), ((PAGEABLE, restless(PINNED, 0.2)), True)])
@every("memory_class", ["discrete", "tegra-io-coherent"])
def test_noise_that_does_not_matter(memory_class: MemoryClass, rows: Any, loud: bool):
    found = verdict_of("unstable-measurement", *rows, on=memory_class)
    assert found.outcome == "pass"
    assert (figures(found)["pinned: half-width of the median's interval"] > 0.03) == loud


@every("rule", ["unstable-measurement", "link-below-best", "missing-synchronisation"])
def test_what_was_read_here_says_nothing_of_a_predicted_device(rule: str):
    run = predicted_run(catalogue_device("RTX 4090"), bet("pinned", 0.02, kernels=0.002, copies=0.01))
    run = run.model_copy(update={"results": (*run.results, WRONG)})
    run = on_machine(run, gpu_readings=(gpu_state("under-load", link_width=4),))
    assert says(rule, run).outcome == "not-applicable"


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
    assert figures(found["link-below-best"])["PCIe lanes"] == 16
