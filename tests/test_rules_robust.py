"""All rules at once, on whatever a profile may hold: none fails, or proposes what is slower or absent."""

from __future__ import annotations

import math
import re
from typing import Any, get_args

from builders import (
    MIB,
    catalogue_device,
    cpu_profile,
    cuda_device,
    failed,
    footprint,
    gpu_state,
    host_state,
    measured,
    predicted,
    prediction,
    profile,
    skipped,
    vector_add_trace,
    vector_add_workload,
    workload,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from judging import read, restless

from advisor.profiles.conclusions import Advice
from advisor.profiles.figures import PageLocking
from advisor.profiles.schema import WRONG_RESULTS, Device, MemoryClass, Profile, WorkloadRecord
from advisor.profiles.system_state import NumaNode
from advisor.rules.advise import advise
from advisor.rules.registry import RULES
from advisor.strategies.registry import BASELINE, STRATEGIES

NAMES = [strategy.name for strategy in STRATEGIES]
SOME = st.sets(st.sampled_from(NAMES)).map(sorted)
"""In the same order in each process, since more is drawn for each."""
SHARES = st.sampled_from([0.0, 0.0, 1e-6, 0.05, 0.11, 0.3, 0.5, 0.9])
CLASSES = st.sampled_from(get_args(MemoryClass))
WORKLOADS: tuple[WorkloadRecord, ...] = (
    vector_add_workload(),
    vector_add_workload(1024),
    workload({"run": "device"}, {"a": {"run": "out"}}),
    workload({"make": "host"}, {"a": {"make": "out"}}),
    workload(
        {"load": "host", "first": "device", "clip": "host", "second": "device", "save": "host"},
        {"a": {"load": "out", "first": "inout", "clip": "inout", "second": "inout", "save": "in"}},
        external=("a",),
    ),
    workload({"make": "host", "use": "device"}, {}),
)


@st.composite
def rows(draw: Any, name: str) -> Any:
    """A row of that strategy: measured with parts that fit into its frame, skipped, failed, or none."""
    others = [skipped(name), failed(name), failed(name, f"{WRONG_RESULTS}all of it"), None]
    if draw(st.booleans()):
        return draw(st.sampled_from(others))
    seconds = draw(st.sampled_from([1e-7, 2e-5, 0.01, 0.0104, 0.02, 0.04, 30.0]))
    kernels, copies, produce, consume = (draw(SHARES) * seconds * 0.4 for _ in range(4))
    drawn = {
        "stage_seconds": [{"produce": produce, "add": kernels, "consume": consume}, {"clip": produce}],
        "transfer_bytes": [{}, {"to-device": 128 * MIB, "to-host": 0}, {"to-host": 1}],
        "host_copy_seconds": [None, 0.0, 0.2 * seconds],
        "page_locking": [None, PageLocking(calls=3, seconds=0.1 * seconds)],
        "footprint": [footprint(), footprint(pinned=2 << 30), footprint(pageable=MIB, device=MIB)],
        "latency_seconds": [None, 2 * seconds],
        "verified": [False, True],
    }
    fields = {field: draw(st.sampled_from(values)) for field, values in drawn.items()}
    row = measured(name, seconds, transfer_seconds=copies, **fields)
    return restless(row, draw(st.sampled_from([0.0, 0.0, 0.02, 0.3])))


@st.composite
def runs(draw: Any) -> Profile:
    """A measured run on a device of any class, with what else a profile may know or not."""
    known = {
        "concurrent_managed_access": st.sampled_from([0, 1]),
        "total_global_mem": st.sampled_from([1, 64 * MIB, 200 * MIB, 8 << 30]),
        "integrated": st.sampled_from([0, 1]),
    }
    flags = draw(st.fixed_dictionaries({}, optional=known))
    found = [row for name in draw(SOME) if (row := draw(rows(name))) is not None]
    base = profile(
        device=cuda_device(draw(CLASSES), **flags),
        workload=draw(st.sampled_from(WORKLOADS)),
        results=tuple(found),
        traffic=draw(st.sampled_from([None, read(8), read(0.0), vector_add_trace(), read(1, "assumed")])),
    )
    return base.model_copy(update={"environment": base.environment.model_copy(update=draw(machines()))})


@st.composite
def machines(draw: Any) -> dict[str, Any]:
    nodes = (NumaNode(node=0, cpus="0-3"), NumaNode(node=1, cpus="4-7"))
    states = (gpu_state("before"), gpu_state("under-load", link_width=draw(st.sampled_from([None, 1, 16]))))
    host = host_state(
        numa_nodes=draw(st.sampled_from([(), nodes])),
        gpu_numa_node=draw(st.sampled_from([None, 1])),
        memory_limit=draw(st.sampled_from([None, 0, MIB, "unlimited"])),
    )
    return {
        "gpu_readings": draw(st.sampled_from([(), states])),
        "host": draw(st.sampled_from([None, host])),
        "memory_bytes": draw(st.sampled_from([None, 4 << 30])),
    }


NONSENSE = re.compile(r"\bnan\b|\binf\b|\bNone\b|(?<![\w-])-\d|  |\.\.|\( |\{")
OVER_ALL = re.compile(r"(?<![\d.])(?!100 )[1-9]\d{2,} %")
MAY_BE_OVER = ("oversubscription", "pinned-over-budget", "unstable-measurement", "pin-per-frame")
"""Their shares are not parts of a whole."""


def require_sense(found: Advice, allowed: set[str]) -> None:
    """What holds for every conclusion of every rule."""
    assert found.outcome != "error", f"{found.rule}: {found.detail}"
    assert not NONSENSE.search(found.detail), f"{found.rule}: {found.detail}"
    assert found.rule in MAY_BE_OVER or not OVER_ALL.search(found.detail), f"{found.rule}: {found.detail}"
    assert found.detail[-1] == ".", f"{found.rule}: {found.detail}"
    assert all(math.isfinite(item.value) and item.value >= 0 for item in found.evidence), found
    assert (found.outcome == "advice") == (found.certainty is not None)
    if found.outcome != "advice":
        assert found.strategy is found.gain is found.snippet is None
        return
    assert found.evidence, f"{found.rule} speaks without a figure"
    assert found.strategy is None or found.strategy in allowed - {BASELINE}, found
    assert found.strategy is None or len(allowed) > 1, f"{found.rule} speaks of one strategy alone"
    by_rate = found.rule == "serial-copies"  # a result comes later: no time is saved but for throughput
    assert found.strategy is None or found.gain is not None or by_rate
    saved = found.gain.seconds_per_frame if found.gain else None
    about_memory = found.rule in ("duplicate-allocation", "pinned-over-budget")
    assert saved is None or saved > 0 or about_memory, f"{found.rule} proposes what is slower: {found}"


@settings(suppress_health_check=list(HealthCheck))
@given(runs())
def test_no_rule_fails_or_talks_nonsense_of_a_measured_run(run: Profile):
    concluded = advise(run).advice
    assert [found.rule for found in concluded] == [
        rule.id for rule in RULES if rule.judge and not rule.text.several_gpus
    ]
    for found in concluded:
        require_sense(found, set(run.measured()))


@settings(suppress_health_check=list(HealthCheck))
@given(st.data())
def test_no_rule_fails_or_talks_nonsense_of_a_prediction(data: Any):
    names = data.draw(SOME)
    found = []
    for name in names:
        seconds = data.draw(st.sampled_from([2e-5, 0.01, 0.0104, 0.04]))
        labels = ("host:produce", "host:consume", "device:add", "to-device", "to-host", "host-copy")
        terms = {label: data.draw(SHARES) * seconds * 0.15 for label in labels}
        terms["synchronize"] = seconds - sum(terms.values())
        memory = data.draw(st.sampled_from([0, MIB]))
        found.append(predicted(name, seconds, terms=terms, physical_bytes=memory))
    device = catalogue_device("Some device", data.draw(CLASSES))
    results = (*found, skipped("managed-advised", "no figure"))
    run = cpu_profile(
        workload=data.draw(st.sampled_from(WORKLOADS)),
        traffic=data.draw(st.sampled_from([None, read(8), vector_add_trace()])),
        predictions=(prediction(device=device, results=results, recommendation=None),),
    )
    for said in advise(run).advice:
        require_sense(said, {*names})
        assert all(item.predicted for item in said.evidence) or said.outcome != "advice" or not said.strategy


def test_the_cpu_and_a_device_of_an_unknown_class_hear_of_nothing():
    run = profile(device=Device(name="Test CPU", kind="cpu"), results=(measured("pageable", 0.02),))
    assert (advise(run).advice, advise(run).recommendation) == ((), None)
    run = profile(device=Device(name="Odd", kind="cuda"), results=(measured("pageable", 0.02),))
    assert {found.outcome for found in advise(run).advice} == {"not-applicable"}
