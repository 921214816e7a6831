"""Rules about the machine and the measurement: link, nodes, host work, wrong results, noise; a real run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders import catalogue_device, cuda_device, failed, gpu_state, host_state, measured, profile
from judging import bet, figures, predicted_run, restless, row, says

from advisor.profiles.reading import load
from advisor.profiles.schema import WRONG_RESULTS, MemoryClass, Profile
from advisor.profiles.system_state import CpuClocks, NumaNode
from advisor.rules.advise import advise

PAGEABLE = row("pageable", 0.040, kernels=0.002, copies=0.020)
PINNED = row("pinned", 0.020, kernels=0.002, copies=0.010)


def on_machine(run: Profile, **fields: Any) -> Profile:
    return run.model_copy(update={"environment": run.environment.model_copy(update=fields)})


# link-below-best


def linked(*rows: Any, memory_class: MemoryClass = "discrete", **state: Any) -> Profile:
    run = profile(device=cuda_device(memory_class), results=rows or (PAGEABLE, PINNED))
    readings = (gpu_state("before"), gpu_state("under-load", **state), gpu_state("after", **state))
    return on_machine(run, gpu_readings=readings)


@pytest.mark.parametrize("memory_class", ["discrete", "discrete-hmm"])
def test_a_card_in_a_narrow_slot(memory_class: MemoryClass):
    """Before, the GPU is idle at generation 1, which says nothing."""
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


@pytest.mark.parametrize(
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


def test_the_link_of_a_predicted_card_cannot_be_read():
    run = predicted_run(catalogue_device("RTX 4090"), bet("pinned", 0.02, kernels=0.002, copies=0.01))
    run = on_machine(run, gpu_readings=(gpu_state("under-load", link_width=4),))
    assert says("link-below-best", run).outcome == "not-applicable"


# numa-remote


TWO = tuple(NumaNode(node=n, cpus=f"{8 * n}-{8 * n + 7}", memory_bytes=32 << 30) for n in range(2))


def sockets(nodes: Any = TWO, gpu: int | None = 1, numa: str = "local", **fields: Any) -> Profile:
    run = profile(results=(PAGEABLE, PINNED), **fields)
    absent = {} if gpu is not None else {"gpu_numa_node": "the kernel does not know the GPU's node"}
    run = on_machine(run, host=host_state(numa_nodes=nodes, gpu_numa_node=gpu, absent=absent))
    return run.model_copy(update={"method": run.method.model_copy(update={"numa": numa})})


@pytest.mark.parametrize("memory_class", ["discrete", "coherent"])
def test_two_sockets(memory_class: MemoryClass):
    found = says("numa-remote", sockets(device=cuda_device(memory_class)))
    assert (found.outcome, found.strategy, found.gain, found.certainty) == ("advice", None, None, "likely")
    assert "--cpunodebind=1 --membind=1" in found.detail
    remote = says("numa-remote", sockets(device=cuda_device(memory_class), numa="remote"))
    assert "as asked for" in remote.detail
    assert "as asked for" not in found.detail


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (sockets(TWO[:1]), "one NUMA node"),
        (sockets((TWO[0], NumaNode(node=1, cpus="", memory_bytes=96 << 30))), "one NUMA node"),
        (sockets(gpu=None), "the kernel does not know"),
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


@pytest.mark.parametrize("memory_class", ["discrete", "tegra-io-coherent"])
def test_a_frame_full_of_host_work(memory_class: MemoryClass):
    bound = row("pageable", 0.100, kernels=0.002, copies=0.006, produce=0.070, consume=0.022)
    found = says("host-bound-frame", profile(device=cuda_device(memory_class), results=(bound,)))
    assert (found.outcome, found.strategy, found.gain, found.certainty) == ("advice", None, None, "measured")
    assert figures(found) == pytest.approx(
        {"pageable: produce": 0.070, "pageable: consume": 0.022, "pageable: kernels, copies and waits": 0.008}
    )


def test_waiting_is_part_of_a_frame_too():
    """88 ms of host stages and 5 ms of kernels and copies; the other 7 ms of the frame are waits."""
    waiting = row("pageable", 0.100, kernels=0.002, copies=0.003, produce=0.070, consume=0.018)
    found = says("host-bound-frame", profile(results=(waiting,)))
    assert found.outcome == "pass"
    assert figures(found)["pageable: kernels, copies and waits"] == pytest.approx(0.012)


def test_the_parts_of_a_frame_make_one():
    """They are timed in frames that take longer than the median: 60 ms of parts in a frame of 40."""
    long = row("pageable", 0.040, kernels=0.010, copies=0.030, produce=0.010, consume=0.010)
    short = row("pinned", 0.020, kernels=0.010, copies=0.005)
    found = says("pageable-transfer", profile(results=(long, short)))
    assert "50 %" in found.detail
    assert "33 %" in says("host-bound-frame", profile(results=(long,))).detail


def test_less_host_work_leaves_something_to_gain():
    less = row("pageable", 0.100, kernels=0.004, copies=0.008, produce=0.070, consume=0.018)
    after = row("pinned", 0.094, kernels=0.002, copies=0.0024, produce=0.070, consume=0.018)
    found = says("host-bound-frame", profile(results=(less, after)))
    assert found.outcome == "pass"
    assert "88 %" in found.detail
    assert "94 %" in found.detail


def test_host_stages_that_other_memory_speeds_up():
    bound = row("pageable", 0.100, kernels=0.002, copies=0.006, produce=0.070, consume=0.022)
    other = row("managed", 0.050, kernels=0.002, produce=0.030, consume=0.016)
    found = says("host-bound-frame", profile(results=(bound, other)))
    assert found.outcome == "pass"
    assert figures(found)["managed: produce"] == 0.030


def test_parts_that_were_not_timed_say_nothing():
    untimed = measured("pageable", 0.04, stage_seconds={"other": 0.01}, transfer_seconds=0.0)
    assert says("host-bound-frame", profile(results=(untimed,))).outcome == "not-applicable"


# missing-synchronisation

WRONG = failed("zero-copy", f"{WRONG_RESULTS}12 of 16 elements of 'c' differ from the reference run")


@pytest.mark.parametrize("memory_class", ["discrete", "tegra"])
def test_results_that_need_the_copies_wait(memory_class: MemoryClass):
    run = profile(device=cuda_device(memory_class), results=(PAGEABLE, PINNED, WRONG))
    found = says("missing-synchronisation", run)
    assert (found.outcome, found.strategy, found.gain, found.certainty) == ("advice", None, None, "likely")
    assert "12 of 16 elements" in found.detail
    assert figures(found) == {"strategies whose results differ": 1, "strategies whose results agree": 2}


@pytest.mark.parametrize(
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
    found = says("missing-synchronisation", profile(results=rows))
    assert found.outcome == outcome
    assert figures(found).get("strategies whose results differ") == differ


def test_failures_of_this_machine_are_not_those_of_a_predicted_device():
    run = predicted_run(catalogue_device("Nano", "tegra"), bet("pageable", 0.04, kernels=0.002))
    run = run.model_copy(update={"results": (*run.results, WRONG)})
    assert says("missing-synchronisation", run).outcome == "not-applicable"


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


def test_throttling_is_named():
    rows = (PAGEABLE, restless(PINNED, 0.2), row("zero-copy", 0.0195, kernels=0.004))
    hot = gpu_state("under-load", throttle_reasons=("heat",))
    run = on_machine(profile(results=rows), gpu_readings=(hot,))
    assert "(heat)" in says("unstable-measurement", run).detail


@pytest.mark.parametrize(
    ("rows", "loud"), [((PAGEABLE, PINNED), False), ((PAGEABLE, restless(PINNED, 0.2)), True)]
)
@pytest.mark.parametrize("memory_class", ["discrete", "tegra-io-coherent"])
def test_noise_that_does_not_matter(memory_class: MemoryClass, rows: Any, loud: bool):
    found = says("unstable-measurement", profile(device=cuda_device(memory_class), results=rows))
    assert found.outcome == "pass"
    assert (figures(found)["pinned: half of the median's interval, of the median"] > 0.03) == loud


def test_a_prediction_has_no_noise():
    run = predicted_run(catalogue_device("RTX 4090"), bet("pinned", 0.02, kernels=0.002))
    assert says("unstable-measurement", run).outcome == "not-applicable"


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
