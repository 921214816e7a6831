"""Loops that the host ends: accepted, planned, run, counted, compared, predicted, told and written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import final_block, measured
from every import every
from fakes import attempted, bench
from field import profiled
from running import FILES, missing
from test_schedule import ASYNC, COPIES, ZERO_COPY, device, host, in_turn, spelled

from advisor import repeat
from advisor.devices import catalogue
from advisor.measure.final import unequal
from advisor.measure.results import uneven
from advisor.model.machines import Machine
from advisor.model.measured import learned
from advisor.model.predict import predict
from advisor.profiles.consistency import contradictions
from advisor.profiles.figures import Block, Iterations
from advisor.profiles.reading import load as read
from advisor.profiles.schema import Loop, Measured, Skipped
from advisor.strategies.planning import plan
from advisor.strategies.registry import by_name
from advisor.strategies.schedule import StageUse, Traits
from advisor.workloads import definition
from advisor.workloads.definition import Buffer, InOut, Out, Workload

FILE = FILES / "until_converged.py"
PROGRAMS = ("kmeans", "jacobi", "two_loops")
LOOP = Loop(number=0, until="done", at_most=9)


def looped(*stages: StageUse, loop: Loop = LOOP) -> list[StageUse]:
    return [replace(stage, loop=loop) for stage in stages]


KMEANS = [
    host("produce", points="out", centres="out"),
    *looped(
        device("assign", points="in", centres="in", sums="out"),
        host("move", sums="in", centres="inout", done="out"),
    ),
    host("publish", centres="in"),
]
SOLVER = [
    host("produce", b="out"),
    *looped(device("sweep", b="in", x="inout", done="out")),
    host("publish", x="in"),
]


@every(
    ("frame", "traits", "steps", "each"),
    [
        # What stays the same goes up in the first iteration alone.
        (KMEANS, COPIES, "produce >points {} publish", ">centres assign <sums move done"),
        (KMEANS, ASYNC, "produce >points {} publish", ">centres assign <sums | move done"),
        (KMEANS, ZERO_COPY, "produce {} publish", "assign | move done"),
        # A flag of the GPU is copied and waited for in each; x stays on the device and comes down once.
        (SOLVER, COPIES, "produce >b {} <x publish", "sweep <done done"),
        (SOLVER, ASYNC, "produce >b {} <x | publish", "sweep <done | done"),
        (SOLVER, ZERO_COPY, "produce {} publish", "sweep | done"),
    ],
)
def test_the_steps_of_a_frame_with_so_many_iterations(
    frame: list[StageUse], traits: Traits, steps: str, each: str
) -> None:
    buffers = {name for stage in frame for name in stage.access}
    prepared = [host("prepare", **dict.fromkeys(sorted(buffers), "out"))]
    planned = plan(prepared, frame, dict.fromkeys(buffers, traits))
    for count in (1, 3):
        ran = spelled(list(in_turn(planned.steady, iter([count]))))
        assert ran == steps.format(" ".join([each] * count))


def outcome(workload: str, strategy: str, directory: Path, file: Path = FILE, **changes: Any) -> Any:
    return attempted(file, strategy, directory, workload=workload, seconds=0.03, **changes)


def test_counts_vary_by_frame_and_other_counts_are_told_of(tmp_path: Path) -> None:
    outcome("two_loops", "pageable", tmp_path, task="reference")
    ran = outcome("two_loops", "pinned", tmp_path).iterations
    assert [(each.number, each.until) for each in ran] == [(0, "counted"), (1, "low")]
    for each, most in zip(ran, (3, 5), strict=True):
        assert each.counts == tuple(frame % most + 1 for frame in range(len(each.counts)))
        assert 1 <= each.mean <= most
    once_more = changed(tmp_path, {"steps[0] > frame % 3": "steps[0] > frame % 3 + (frame == 1)"})
    problem = outcome("two_loops", "pinned", tmp_path, file=once_more)
    assert problem.cause == "differs"
    assert not missing(problem.message, "frame 1", "'counted'", "3 iterations", "reference run ran 2")


def changed(folder: Path, replaced: dict[str, str]) -> Path:
    """The file of the workloads with other code in these places."""
    text, path = FILE.read_text(encoding="utf-8"), folder / "w.py"
    for before, now in replaced.items():
        assert before in text
        text = text.replace(before, now)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_cap_ends_a_loop_without_an_error(tmp_path: Path) -> None:
    """x of 512 bytes comes down once a frame, b goes up once, the flag of 4 bytes comes in each iteration."""
    given = {"assignments": {"at_most": "2"}}
    ended = outcome("jacobi", "pageable", tmp_path, task="reference", **given)
    assert (ended.unlike, list(ended.capped.values())) == ({}, [2])
    sample = outcome("jacobi", "pinned", tmp_path, **given)
    assert (set(sample.iterations[0].counts), sample.iterations[0].mean) == ({2}, 2)
    assert sample.transfer_bytes == {"to-device": 512, "to-host": 512 + 2 * 4}


def counting(ends: int) -> Workload:
    """A loop of `ends` iterations; each stage tells its draw."""

    def clear(done: Out, draws: Out) -> None:
        done.fill(0)
        draws.fill(0)

    def step(done: InOut, draws: InOut, rng: np.random.Generator) -> None:
        draws[int(done[1])] = rng.random()
        done[1] += 1
        done[0] = done[1] >= ends

    stages = [definition.host(clear), repeat([definition.host(step)], until="done", at_most=5)]
    return Workload({"done": Buffer(2, "i4"), "draws": Buffer(8, "f8")}, stages)


@every("listening", [True, False])
@every(("ends", "count"), [(1, 1), (3, 3), (9, 5)])
def test_frames_end_their_loops_written_out_or_step_by_step(listening: bool, ends: int, count: int) -> None:
    """Each iteration has random numbers of its own, the same in either way."""
    with bench(counting(ends), "pinned", listening=listening) as run:
        run.loop.first_frame()
        run.loop.frame(1)
        drawn = run.placed["draws"].host.copy()
        run.loop.timed_frame(1)
        assert np.array_equal(run.placed["draws"].host, drawn)
        assert run.loop.iterations[0].frames == [count] * 3
        assert np.count_nonzero(drawn) == len(set(drawn[:count])) == count
        run.loop.reset()
        assert run.loop.iterations[0].frames == []


def test_counts_that_go_by_chance_are_noted_and_not_compared(tmp_path: Path, all_frames: None) -> None:
    by_chance = {
        "assert steps[0] == frame % 3 + 1": "pass",
        "steps[0] > frame % 3": "np.random.default_rng().random() < 0.02",
        "at_most=100": "at_most=100_000",  # so that hardly two frames count as far
    }
    path = changed(tmp_path, by_chance)
    reference = outcome("two_loops", "pageable", tmp_path, task="reference", file=path)
    assert "the loop with until='counted'" in reference.unlike
    assert not any("low" in name for name in reference.unlike)
    assert not outcome("two_loops", "pinned", tmp_path, file=path).verified


def loop_block(contestant: str, mean: float, number: int = 0) -> Block:
    return final_block(0, number, contestant, 1.0, frames=2, iterations={"the loop with until='done'": mean})


def test_unequal_work_over_the_same_frames_leaves_the_final() -> None:
    """The baseline's counts are those of the reference run; another round has other frames."""
    means = {"pinned": 11.5, "pageable": 11.5, "managed": 12, "pinned (again)": 11.5}
    names = {name: name.partition(" ")[0] for name in means}
    blocks = [loop_block(name, mean) for name, mean in means.items()]
    ((name, problem),) = unequal(blocks, 0, 0, names)
    assert (name, problem.cause) == ("managed", "differs")
    assert not missing(problem.message, "'done'", "12", "11.5", "pageable")
    assert not list(unequal(blocks, 0, 1, names))
    assert not list(unequal([loop_block("pinned", 3), loop_block("pageable", 4, number=1)], 0, 0, names))


def test_times_over_other_frames_are_noted() -> None:
    def row(strategy: str, mean: float) -> Measured:
        ran = Iterations(number=0, until="done", counts=(3,), mean=mean)
        return measured(strategy, 0.5).model_copy(update={"iterations": (ran,)})

    assert not uneven([row("pageable", 10.0), row("pinned", 10.4), measured("managed", 0.5)])
    (note,) = uneven([row("pageable", 10.0), row("pinned", 10.6), Skipped(strategy="managed", reason="so")])
    assert not missing(note, "'done'", "10 (pageable)", "10.6 (pinned)")


@pytest.fixture(scope="module")
def profiles() -> dict[str, Any]:
    asked = ("pageable", "zero-copy", "pinned-pipelined")
    return {name: profiled(f"{FILE}::{name}", strategies=asked) for name in PROGRAMS}


@every("workload", PROGRAMS)
def test_a_profile_without_a_gpu(workload: str, profiles: dict[str, Any], tmp_path: Path) -> None:
    made = profiles[workload]
    rows = made.measured()
    assert rows.keys() == {"pageable", "zero-copy"}
    assert all(row.verified for row in rows.values())
    assert not made.notes
    assert len({row.iterations[0].counts[:2] for row in rows.values()}) == 1
    for prediction in made.predictions:
        told = {row.strategy: row for row in prediction.results}
        assert told["pageable"].status == "predicted"
        assert "until=" in told["pinned-pipelined"].reason
        times = [text for text in prediction.assumptions if "times in a frame" in text]
        assert len(times) == len(made.workload.loops)
    made.save(tmp_path / "profile.json")
    assert read(tmp_path / "profile.json").workload.loops == made.workload.loops
    assert not [*contradictions(made)]


def test_a_prediction_grows_with_the_iterations(profiles: dict[str, Any]) -> None:
    """Kernels, launches and the flag's copy as often as the loop ran; what is outside of it once."""

    def terms(mean: float) -> dict[str, float]:
        blind = iterating(profiles["jacobi"], mean)
        return predict(blind, catalogue.load("rtx-4090"), [by_name("pinned")]).results[0].terms

    one, ten = terms(1.0), terms(10.0)
    assert ten["device:sweep"] == pytest.approx(10 * one["device:sweep"])
    assert ten["host:produce"] == pytest.approx(one["host:produce"])
    assert ten["to-device"] == pytest.approx(one["to-device"])
    assert one["to-host"] < ten["to-host"] < 10 * one["to-host"]


def iterating(made: Any, mean: float) -> Any:
    """The profile as if its loops had run so many iterations."""
    ran = tuple(ran.model_copy(update={"mean": mean}) for ran in made.traffic.iterations)
    return made.model_copy(update={"traffic": made.traffic.model_copy(update={"iterations": ran})})


def test_traced_work_is_that_of_one_iteration_and_a_loop_that_only_its_limit_ends_is_noted() -> None:
    """The solver reads its matrix of 32 KiB twice in each of four iterations."""
    made = profiled(f"{FILE}::jacobi", "at_most=4", "tolerance=0.0")
    assert {ran.mean for ran in made.traffic.iterations} == {4}
    (read,) = [t.bytes_read for t in made.traffic.traffic if (t.stage, t.buffer) == ("sweep", "a")]
    assert 32768 <= read < 2 * 32768 + 4096
    assert sum("Only at_most=4 ended the loop with until='small'" in note for note in made.notes) == 1


def test_measured_stages_are_those_of_one_iteration_in_predictions(profiles: dict[str, Any]) -> None:
    """Measured on an RTX 4090 with ten and with twenty iterations."""
    card = catalogue.load("rtx-4090").device().model_copy(update={"kind": "cuda"})
    seconds = {"move": 0.1, "publish": 0.01, "produce": 0.01, "assign": 0.2}
    results = (measured("pinned", 0.5).model_copy(update={"stage_seconds": seconds}),)
    ten, twenty = (
        learned(
            iterating(profiles["kmeans"], mean).model_copy(update={"results": results, "device": card}),
            Machine(catalogue.load("h200")),
        )
        for mean in (10.0, 20.0)
    )
    work = {each.stage: each.seconds for each in ten.trace.work}
    assert (work["move"], work["publish"]) == (pytest.approx(0.01), pytest.approx(0.01))
    assert twenty.kernel_factor["assign"][0] == pytest.approx(ten.kernel_factor["assign"][0] / 2, rel=0.01)


@every(("change", "key"), [({"number": 1}, "stages"), ({"until": "gone"}, "stages.2.loop.until")])
def test_a_saved_loop_that_cannot_be(change: dict[str, Any], key: str, profiles: dict[str, Any]) -> None:
    made = profiles["jacobi"].model_copy(deep=True)
    for stage in made.workload.stages:
        if stage.loop:
            vars(stage.loop).update(change)
    assert next(contradictions(made))[0] == f"workload.{key}"
