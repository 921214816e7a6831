"""Mixes of placements: asked for, planned, run, saved, predicted, compared, and written as code."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

import numpy as np
from builders import (
    cuda_device,
    devices_of,
    measured,
    predicted,
    profile,
    recommendation,
    sweep_of,
    vector_add_trace,
    vector_add_workload,
)
from every import every
from fakes import EVERY_HASTE, FakeClock, Haste, RecordingBackend, bench
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from mixing import SHAPES, Log, made
from rendering import Accepted, refusals
from running import REPOSITORY, Command, FakeLauncher, FakeSession, asked, sample
from test_search import clocked

from advisor import configuration
from advisor.devices.catalogue import load as load_device
from advisor.measure.launcher import Ended
from advisor.measure.progress import Silent
from advisor.model.predict import beside_mixes, predict
from advisor.profiles import reading
from advisor.profiles.histories import Entry, History
from advisor.profiles.schema import Device, Predicted, Profile
from advisor.report.history_page import history_page
from advisor.report.pages import page_of, render
from advisor.strategies import mixes
from advisor.strategies.mixes import PLACEMENTS, MixRecord, mix, numbered_alike, require_fits
from advisor.strategies.planning import plan
from advisor.strategies.registry import by_name
from advisor.strategies.schedule import stage_uses
from advisor.verdicts.comparing import comparisons
from advisor.verdicts.histories import all_series, with_mixes_numbered
from advisor.workloads.loading import prepare

CHOSEN = {"a": "zero-copy", "c": "pinned"}


def asked_for(chosen: Mapping[str, str], *bases: str) -> tuple[mixes.Mix, ...]:
    return mixes.requested(chosen, [by_name(base) for base in bases])


# Frames on the recording stand-in


def logged(frame: str, chosen: Mapping[str, str], backend: RecordingBackend, *, pipelined: bool) -> Log:
    log: Log = {}
    setup, stages = SHAPES[frame]
    told = {"hybrid-1": MixRecord(chosen=dict(chosen), rest="pinned", pipelined=pipelined)}
    with bench(made(stages, log, setup=setup), "hybrid-1", backend, mixes=told, listening=False) as run:
        run.start(5)
        run.loop.frame_alone(5)
    assert not backend.live
    return log


NAMES = st.sampled_from([name for name in PLACEMENTS if name != "system"])


@hypothesis_settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(sorted(SHAPES)),
    st.dictionaries(st.sampled_from("abcstwh"), NAMES),
    st.sampled_from(EVERY_HASTE),
    st.booleans(),
)
@example("fresh data", {"b": "pageable"}, "lazy copies", True)
def test_any_mix_gives_the_results_of_a_uniform_strategy(
    frame: str, chosen: dict[str, str], haste: Haste, pipelined: bool
) -> None:
    expected = logged(frame, {}, RecordingBackend(), pipelined=False)
    if pipelined and mix("m", chosen, "pinned", pipelined=True).unavailable(cuda_device()):
        pipelined = False
    assert logged(frame, chosen, RecordingBackend(haste=haste), pipelined=pipelined) == expected


# A run, its file, and its verdict


def measured_run(directory: Path, seconds: Mapping[str, float], **options: object) -> Profile:
    clock = FakeClock()
    launcher = FakeLauncher(
        lambda job: Ended(sample(seconds[job.strategy]), "finished"),
        session=lambda job: FakeSession(job, seconds, wait=clock.advance),
    )
    settings = asked("w.py", backend="cuda", rounds=3, max_seconds=10.0, **options)
    found = clocked(clock, settings, launcher, directory, Silent())
    assert {name for job in launcher.jobs for name in job.mixes} >= {"hybrid-1"}
    return found


def test_a_mix_is_measured_recommended_and_saved_as_data(tmp_path: Path) -> None:
    seconds = {"pageable": 0.002, "pinned": 0.0015, "hybrid-1": 0.001, "hybrid-2": 0.0018}
    found = measured_run(tmp_path, seconds, strategies=("pageable", "pinned"), placement=CHOSEN)
    assert (found.recommendation.strategy, found.recommendation.verdict) == ("hybrid-1", "fastest")
    assert found.final.processes == 3, "as many as --rounds asks for, though two would have settled it"
    rows = found.measured()
    assert rows["hybrid-1"].placements == {"a": "zero-copy", "b": "pageable", "c": "pinned"}
    assert rows["hybrid-2"].placements == {"a": "zero-copy", "b": "pinned", "c": "pinned"}
    assert rows["pinned"].placements == {}
    found.save(tmp_path / "profile.json")
    assert reading.load(tmp_path / "profile.json") == found


WORDS = (["a=zerocopy"], ["a=pinned-pipelined"], ["a=pinned", "a=zero-copy"], ["a"], ["=pinned"])
MISFITS: tuple[tuple[dict[str, str], str, Device], ...] = (
    ({"s": "pinned"}, "pageable", cuda_device()),
    ({"a": "zero-copy"}, "pageable", cuda_device(can_map_host_memory=0)),
    (dict.fromkeys("abc", "managed"), "pageable", cuda_device()),
    (dict.fromkeys("abc", "pinned"), "pinned-pipelined", cuda_device()),
    ({"a": "managed-prefetch"}, "pageable", Device(name="CPU", kind="cpu")),
)
TEGRA = cuda_device("tegra-io-coherent", concurrent_managed_access=0)
ON_TEGRA = (
    ({"a": "write-combined", "b": "managed-advised"}, False),
    ({"a": "zero-copy", "b": "pinned"}, False),
    *(({"a": "managed"}, False), ({"a": "managed"}, True), ({"a": "staged"}, True)),
)


def test_what_is_no_mix_and_what_a_gpu_cannot_do_is_refused(tmp_path: Path, accepted: Accepted) -> None:
    """Before anything is measured; what a GPU cannot do matters on the CPU to nobody."""
    workload = vector_add_workload()
    scratch = workload.buffers[0].model_copy(update={"name": "s", "access": {"add": "out"}})
    workload = workload.model_copy(update={"buffers": (*workload.buffers, scratch)})
    calls: dict[str, Callable[[], object]] = {
        f"--placement {words}": partial(configuration.command_line, workload="w.py", placement=words)
        for words in WORDS
    }
    for placement in (3, {"a": 3}):
        calls[f"{placement=}"] = partial(configuration.arguments, workload="w.py", placement=placement)
    calls["a run"] = partial(measured_run, tmp_path, {}, placement={"table": "zero-copy"})
    calls |= {
        f"{chosen} over {base} on {device.kind}": partial(
            require_fits, asked_for(chosen, base), workload, device
        )
        for chosen, base, device in MISFITS
    }
    unavailable = (
        f"{chosen}{', overlapping' * pipelined} on Tegra: "
        f"{mix('m', chosen, pipelined=pipelined).unavailable(TEGRA)}\n"
        for chosen, pipelined in ON_TEGRA
    )
    accepted(f"{refusals(calls)}\n{''.join(unavailable)}", "placements-refused.txt")


def test_advisor_toml_takes_a_table(tmp_path: Path) -> None:
    (tmp_path / "advisor.toml").write_text('[placement]\na = "zero-copy"\n', encoding="utf-8")
    said = configuration.command_line(workload="w.py", placement=None)
    found = configuration.merged(configuration.places(said, tmp_path))
    assert found.placement == {"a": "zero-copy"}


# Predictions and comparisons


def test_a_mix_is_predicted_for_each_device_and_lies_between_its_parts_where_they_add_up() -> None:
    run = profile(device=Device(name="CPU", kind="cpu"), traffic=vector_add_trace(passes=8))
    strategies = (*asked_for({"c": "zero-copy"}, "pinned"), by_name("pinned"), by_name("zero-copy"))
    rows = {row.strategy: row for row in predict(run, load_device("h200"), strategies).results}
    likely = {name: row.likely_seconds for name, row in rows.items() if isinstance(row, Predicted)}
    assert likely["hybrid-1"] < min(likely["pinned"], likely["zero-copy"]), "reads copied, result in place"
    assert rows["hybrid-1"].placements == {"a": "pinned", "b": "pinned", "c": "zero-copy"}


@every(("slow", "share"), [(0.0185, "25 %"), (0.0198, None)])
def test_a_mix_that_is_likely_faster_than_the_choice_is_told_with_why_it_is_not_a_candidate(
    slow: float, share: str | None
) -> None:
    rows = (
        predicted("pageable", 0.0200),
        predicted("pinned", 0.0199),
        predicted("hybrid-1", slow, placements={"a": "pinned", "c": "zero-copy"}),
    )
    draws = {row.strategy: np.array([0.020, 0.020, 0.020, 0.020]) for row in rows}
    draws["hybrid-1"][0] = 0.018
    chosen = recommendation(strategy="pageable", reason="It is.", steps=("It is.",))
    told = beside_mixes(chosen, rows, draws, 0.05)
    expected = (
        "hybrid-1 is likely faster (18.5 ms a frame), but not a candidate: it gains more than 5 % over "
        f"pinned in {share} of simulations, and a mix must in more than half of them."
    )
    assert told.steps == ("It is.", *[expected] * bool(share))
    assert told.reason == " ".join(told.steps)


ONE, OTHER = ({"a": first, "b": "pinned", "c": "pinned"} for first in ("zero-copy", "managed"))


def best_of(
    *seconds: float, n: int = 1024, placed: Sequence[Mapping[str, str]] = (), **fields: object
) -> Profile:
    """Of pageable and these mixes the fastest, in a profile that numbers them itself."""
    placements: tuple[Mapping[str, str], ...] = ({}, *placed)
    rows = [
        measured(f"hybrid-{number}" if where else "pageable", taken, placements=where)
        for number, (taken, where) in enumerate(zip(seconds, placements, strict=True))
    ]
    chosen = min(rows, key=lambda row: row.median_seconds).strategy
    choice = recommendation(chosen, verdict="fastest", reason=f"{chosen} takes half as long.")
    return profile(results=tuple(rows), recommendation=choice, workload=vector_add_workload(n), **fields)


def test_mixes_are_compared_by_their_placements_not_by_their_short_names() -> None:
    base = best_of(0.002, 0.001, 0.004, placed=(ONE, OTHER))
    head = best_of(0.002, 0.004, 0.001, placed=(OTHER, dict(reversed(ONE.items()))))
    rows = comparisons.compare(base, head).rows
    assert {row.strategy for row in rows} == {"pageable", *map(mixes.label, (ONE, OTHER))}
    assert {row.outcome for row in rows} == {"same"}
    (only,) = comparisons.compare(base, head, strategies=["hybrid-2"]).rows
    assert only.strategy == "a: zero-copy, b: pinned, c: pinned"


def test_a_sweep_and_several_devices_give_a_mix_one_number() -> None:
    """Each profile numbers its own mixes; a page of several must not take two mixes for one."""
    runs = [best_of(0.004, 0.001, placed=(ONE,)), best_of(0.004, 0.001, 0.002, n=4096, placed=(OTHER, ONE))]
    one, two = numbered_alike(runs)
    assert one is runs[0]
    assert [(row.strategy, row.placements.get("a")) for row in two.measured().values()] == [
        ("pageable", None), ("hybrid-2", "managed"), ("hybrid-1", "zero-copy"),
    ]  # fmt: skip
    assert two.recommendation.reason == "hybrid-2 takes half as long."
    swept = page_of(sweep_of(*runs))
    other_card = cuda_device().model_copy(update={"name": "Other"})
    card = best_of(0.004, 0.001, 0.002, placed=(OTHER, ONE), device=other_card)
    compared = page_of(devices_of(runs[0], card))
    entries = (Entry(f"{day}.json", run, datetime(2026, 1, day)) for day, run in enumerate(runs, 1))
    past = with_mixes_numbered(History(tuple(entries)))
    followed = history_page(past, all_series(past))
    for page in (swept, compared, followed):
        text = " ".join(re.sub(r"<.*?>|[`*]", "", render(page, "txt")).split())
        parts = ("a zero-copy, the rest pinned", "a managed, the rest pinned", "hybrid-")
        assert [part in text for part in parts] == [True, True, False]
    parts = "`a` zero-copy, the rest pinned at n = 1024, `a` managed, the rest pinned at n = 4096"
    assert parts in render(swept, "verdict")
    assert "`a` managed, the rest pinned on Other" in render(compared, "verdict")
    several = replace(sweep_of(*runs), kind="workloads")
    names = [record["strategy"] for record in page_of(several).records if record["placements"]]
    assert names == ["hybrid-1", "hybrid-1", "hybrid-2"], "in csv and json each as in its own profile"


SMALL_LOOKUP = ("--no-gpu", "--set", "rows=65536", "--set", "hidden=1024")


def test_a_device_with_a_better_mix_gets_it_with_a_table_of_its_buffers_and_advice(
    command: Command, tmp_path: Path
) -> None:
    """The model finds it for the card."""
    file = REPOSITORY / "workloads/embedding_lookup.py"
    said = command("profile", file, *SMALL_LOOKUP, "--target", "h200,orin-nano", "--out", tmp_path)
    assert said.code == 0, said.err
    found = {p.device.name: p for p in reading.load(tmp_path / "profile.json").predictions}
    card = found["H200 SXM"]
    assert found["Jetson Orin Nano 8GB"].recommendation is not None
    (row,) = (row for row in card.results if row.strategy == card.recommendation.strategy)
    assert isinstance(row, Predicted)
    assert row.placements["table"] == "zero-copy"
    assert row.placements["second"] != "zero-copy"
    assert row.instead["table"].seconds > 1e-4
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert re.search(r"Placement of each buffer on H200 SXM, predicted\.", text)
    assert "CPU updates 1×, GPU reads 1×" in text
    assert text.index("| H200 SXM | ") < text.index("<details>")
    assert "hybrid-1 places table: zero-copy" in (tmp_path / "profile.json").read_text(encoding="utf-8")


# Several GPUs


def test_what_crosses_between_gpus_can_be_placed_as_peer_in_a_mix() -> None:
    ran = prepare(REPOSITORY / "workloads" / "two_gpus_pipeline.py", None, {"n": "64"})().record
    chosen = mix("m", {"image": "zero-copy", "features": "peer"}, "pinned")
    assert chosen.assigned(ran) == {"image": "zero-copy", "features": "peer", "result": "pinned"}
    traits = {name: placed.traits(cuda_device()) for name, placed in chosen.placements(ran).items()}
    steps = plan([], stage_uses(ran, "frame"), traits).steady
    assert [(s.action, s.name) for s in steps if s.action.startswith("to-")] == [
        ("to-peer", "features"), ("to-host", "result"),
    ]  # fmt: skip
    tried = mixes.choices(ran, cuda_device("discrete"))
    assert {name for name, names in tried.items() if "peer" in names} == {"features"}
    assert {"image": "zero-copy", "features": "peer", "result": "pinned"} in mixes.every_mix(tried)
    require_fits([chosen], ran, cuda_device())
