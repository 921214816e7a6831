"""One page over several devices: what belongs combine, where the devices agree, and how it looks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from builders import (
    altered,
    catalogue_device,
    cpu_profile,
    devices_of,
    failed,
    measured,
    predicted,
    prediction,
    profile,
    recommendation,
    script_profile,
    skipped,
    vector_add_workload,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from rendering import Accepted, blocks, refusals

from advisor.profiles.conclusions import Recommendation
from advisor.profiles.schema import Device, Profile
from advisor.profiles.sweeps import Point, ProfileSet, combine
from advisor.report.answer import Answers
from advisor.report.blocks import Verdict
from advisor.report.markdown import LIMIT
from advisor.report.pages import page_of, render
from advisor.verdicts.tracks import Optima, Stop, one_for_all


def on(name: str, chosen: Recommendation | None = None, **fields: Any) -> Profile:
    """Measured on a device of that name; which strategy is called the best is given."""
    device = Device(name=name, kind="cuda", memory_class="discrete")
    return profile(**{"device": device, "recommendation": chosen, **fields})


clear = recommendation


def tie(strategy: str, *others: str) -> Recommendation:
    return recommendation(strategy, verdict="near", tied_with=others)


def unclear(best: str, *rivals: str) -> Recommendation:
    return recommendation(best, verdict="open", bound=0.08, tied_with=rivals)


def mixed() -> ProfileSet:
    """Two measured devices that disagree, a failure, and a device that only a laptop predicted for."""
    jetson = catalogue_device("NVIDIA Jetson Orin Nano 8GB", "tegra-io-coherent")
    rows = (
        measured("pageable", 0.09, spread=0),
        measured("pinned", 0.08, spread=0),
        measured("zero-copy", 0.03, spread=0),
    )
    card = (
        measured("pageable", 0.04, spread=0),
        measured("pinned", 0.02, spread=0),
        measured("zero-copy", 0.05, spread=0),
        failed("managed", "ended with a bus error"),
        skipped("system", "pageableMemoryAccess is 0"),
    )
    made = prediction(device=jetson, results=(predicted("pageable", 0.09), predicted("zero-copy", 0.045)))
    known = prediction("NVIDIA RTX 4090", results=(predicted("pageable", 9.0),))
    thrice = recommendation("zero-copy", speedup=3.0, interval=(2.98, 3.02))
    return devices_of(
        on("NVIDIA RTX 4090", clear("pinned"), results=card),
        on("NVIDIA Thor", thrice, results=rows, notes=("Sampling was short.",)),
        cpu_profile(predictions=(made.model_copy(update={"recommendation": clear("zero-copy")}), known)),
    )


def of_workloads(*points: Point) -> ProfileSet:
    return ProfileSet("", ("workload",), points, kind="workloads")


UNRUN = Point("b", status="not run")
CHOSEN = {"a": clear("pinned"), "b": recommendation("pinned", speedup=None, interval=None, baseline=None)}
"""The second lacks the gain over the baseline, which the rows have."""
DEVICES: dict[str, Callable[[], ProfileSet]] = {
    "devices-mixed": mixed,
    "devices-cpu": lambda: devices_of(cpu_profile(), altered(cpu_profile(), "device", name="Another CPU")),
    "devices-nothing": lambda: devices_of(on("a", results=(failed(),)), on("b", results=())),
    "devices-workloads": lambda: of_workloads(*(Point(n, on("H200", CHOSEN[n])) for n in "ab")),
    "devices-workloads-predicted": lambda: of_workloads(Point("a", cpu_profile()), UNRUN),
}


def verdicts(made: ProfileSet) -> tuple[Verdict, ...]:
    return blocks(page_of(made), Answers)[0].over


def test_profiles_that_do_not_belong_together_are_refused(accepted: Accepted) -> None:
    def b(**changes: Any) -> Profile:
        return on("b", workload=vector_add_workload().model_copy(update=changes))

    together = {
        "another size": (on("a"), b(parameters={"n": 4})),
        "another workload": (on("a"), b(name="w")),
        "another file's of that name": (on("a"), b(file="w.py", sha256="1")),
        "another version": (on("a"), b(sha256="1")),
        "a script": (on("a"), script_profile()),
        "two of one device": (on("a"), on("b"), on("a")),
        "two of one value": (on("a"), on("a")),
        "two of one value on one device": (on("a"), b(), b(parameters={"n": 4}), b()),
        "another version, one device": (b(), b(sha256="1")),
        "two parameters, not each pair": (b(), b(parameters={"n": 2, "m": 3})),
    }
    calls = {}
    for name, profiles in together.items():
        loaded = [(Path(f"{i}.json"), each) for i, each in enumerate(profiles)]
        calls[name] = partial(combine, loaded, Path())
    accepted(refusals(calls), "devices-together-refused.txt")
    listed = combine([(Path(name), b(file=name, sha256=name)) for name in ("v.py", "w.py")], Path())
    assert [point.value for point in listed.points] == ["v.py::vector_add", "w.py::vector_add"]


def alike(*chosen: Recommendation | None) -> ProfileSet:
    return devices_of(*(on(f"D{i}", each) for i, each in enumerate(chosen)))


SENTENCES: dict[str, ProfileSet] = {
    "one for both": alike(clear("pinned"), clear("pinned")),
    "one that ties": alike(clear("pinned"), tie("zero-copy", "pinned")),
    "two that differ": alike(clear("pinned"), clear("zero-copy"), clear("pinned")),
    "one that leads": alike(clear("pinned"), unclear("pinned", "zero-copy")),
    "one that is undecided": alike(clear("managed"), unclear("pinned", "x")),
    "nothing recommended": alike(None, None),
    "a workload that failed on one": devices_of(
        on("good", clear("pinned")), on("bad", results=(failed(), failed("pageable")))
    ),
    "one for all that loses": mixed(),
    "predicted, one likely": devices_of(
        *(
            cpu_profile(predictions=(prediction(n, recommendation=recommendation(verdict=verdict)),))
            for n, verdict in (("NVIDIA H200", "fastest"), ("NVIDIA GeForce RTX 4090", "open"))
        )
    ),
}


def test_sentences(accepted: Accepted) -> None:
    text = []
    for name, comparison in SENTENCES.items():
        verdict, *_ = verdicts(comparison)
        lines = (f"{verdict.headline} ({verdict.tone})", verdict.reason, verdict.remark)
        text += [f"## {name}", *filter(None, lines), ""]
    accepted("\n".join(text), "devices-sentences.txt")


@settings(deadline=None)
@given(st.lists(st.fixed_dictionaries({n: st.floats(0.01, 1) for n in "abc"}), min_size=2, max_size=4))
def test_no_other_strategy_has_a_lower_worst_cost(devices: list[dict[str, float]]) -> None:
    rows = [{n: measured(n, s, spread=0, frames=2, rounds=1) for n, s in each.items()} for each in devices]
    best = [min(each, key=each.__getitem__) for each in devices]
    stops = [
        Stop(i, {**each}, Optima(frozenset(name), name))
        for i, (each, name) in enumerate(zip(rows, best, strict=True))
    ]
    found = one_for_all(stops, 0.95)
    worst = {n: max(each[n] / min(each.values()) for each in devices) for n in "abc"}
    assert found.cost.value <= min(worst.values()) * 1.05
    assert found.cost.value == pytest.approx(worst[found.strategy])
    assert found.cost.low <= found.cost.value <= found.cost.high


def test_markdown_of_many_devices_stays_small() -> None:
    rows = tuple(measured(f"{'|' * 300}{i}", 0.02) for i in range(30))
    made = [on(f"{'<' * 300}{i}", unclear(*(r.strategy for r in rows)), results=rows) for i in range(12)]
    assert len(render(page_of(devices_of(*made)), "md")) < LIMIT
