"""Energy: NVML's counter, a Jetson's rails from trees of their files, and windows from tick to tick."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from builders import cuda_device, final_block, measured
from every import every
from fakes import FakeClock, RecordingBackend, final_process, job
from field import InProcess
from machines import FakeNvml, board_files, h200, make_tree, nvml_error
from running import REPOSITORY, FakeSession, cpu_settings
from test_contest import settings

from advisor import pipeline
from advisor.devices.energy import Meter, Rails, Unmetered, counted, metering, rails_watts, require_meter
from advisor.devices.host import Machine, Tree
from advisor.errors import UsageError
from advisor.measure.contest import NO_TIME, Contest
from advisor.measure.final_worker import Final
from advisor.measure.jobs import FinalRound, Job
from advisor.measure.progress import Silent
from advisor.measure.sampling import WINDOW_SECONDS, window
from advisor.profiles.conclusions import Preferences
from advisor.verdicts.final import Pace
from tests.faults.case import workload

ADDRESS = "0000:3B:00.0"
COUNTER = "nvmlDeviceGetTotalEnergyConsumption"


def card(counts: Mapping[str, object] | None = None, **failing: Exception) -> FakeNvml:
    return FakeNvml(gpus=[{**h200(), COUNTER: 5_250, **(counts or {})}], failing=failing)


def test_the_counter_of_a_card_in_joules(tmp_path: Path) -> None:
    nvml = card()
    with metering(ADDRESS, Machine(tmp_path, nvml)) as meter:
        assert meter.joules() == 5.25
        nvml.gpus[0][COUNTER] = 7_000
        assert meter.joules() == 7.0
        assert "without the host" in meter.source
    assert nvml.open == 0, "closed again"


@pytest.mark.parametrize("board", [{}, board_files("orin")], ids=["card", "board without monitors"])
@pytest.mark.parametrize(
    ("nvml", "reason"),
    [
        (card(**{COUNTER: nvml_error("NotSupported")}), "NVML does not support it on this GPU"),
        (card(nvmlInit=nvml_error("DriverNotLoaded")), "the NVIDIA driver is not loaded"),
        (FakeNvml(gpus=[]), "NVML has no GPU"),
    ],
)
def test_what_has_no_counter_says_why(
    nvml: FakeNvml, reason: str, board: dict[str, str | int], tmp_path: Path
) -> None:
    machine = Machine(make_tree(tmp_path, board), nvml)
    with pytest.raises(Unmetered, match=reason), metering(ADDRESS, machine):
        pass
    with pytest.raises(UsageError, match=reason):
        require_meter(cuda_device(), ADDRESS, machine)


def test_without_a_gpu_the_choice_is_by_time_and_says_so(tmp_path: Path) -> None:
    request = cpu_settings(targets=["rtx-4090"], max_seconds=30.0)
    request = replace(request, preferences=Preferences(objective="energy"))
    profile = pipeline.profile(request, Silent(), keep_in=tmp_path, launcher=InProcess())
    assert "the choice is by time" in profile.notes[0]
    (prediction,) = profile.predictions
    assert prediction.recommendation.objective == "time"
    assert prediction.recommendation.steps[0] == profile.notes[0]


# Rails


@pytest.mark.parametrize(
    ("board", "monitors", "rails", "watts"),
    [
        ("orin", "orin-nx-rails", "VDD_IN", 5.064 * 0.952),
        ("orin", "agx-orin-rails", "VDD_GPU_SOC VDD_CPU_CV VIN_SYS_5V0 VDDQ_VDD2_1V8AO", 8.944744),
        ("thor", "thor-rails", "VIN", 27.5),
        ("nano", "nano-rails", "POM_5V_IN", 2.15),
    ],
)
def test_a_boards_rails(board: str, monitors: str, rails: str, watts: float, tmp_path: Path) -> None:
    root = make_tree(tmp_path, board_files(board, monitors))
    readings = rails_watts(Tree(root))
    assert " ".join(counted(readings)) == rails
    assert sum(readings[name] for name in rails.split()) == pytest.approx(watts)
    with metering(None, Machine(root, card())) as meter:
        assert all(name in meter.source for name in rails.split()), "not NVML's, which leaves out the CPU"
        assert meter.joules() < meter.joules(), "it goes on counting"


def test_power_is_integrated_by_the_trapezoidal_rule() -> None:
    clock, watts = FakeClock(), {"VDD_IN": 4.0, "VDD_SOC": 99.0}
    rails = Rails(lambda: dict(watts), lambda: clock.now)
    watts["VDD_IN"] = 6.0
    clock.advance(2.0)
    assert rails.joules() == pytest.approx(10.0)
    clock.advance(1.0)
    assert rails.joules() == pytest.approx(16.0)
    del watts["VDD_IN"]
    with pytest.raises(Unmetered, match="VDD_IN"):
        rails.joules()


# Windows


@dataclass
class Ticking:
    """A counter of so many watts that moves every 100 ms."""

    clock: FakeClock
    watts: float
    tick: float = 0.1
    source: str = "a fake"
    asking: float = 0.0005

    def joules(self) -> float:
        self.clock.advance(self.asking)
        return self.watts * self.tick * int(self.clock.now / self.tick) if self.tick else 42.0


@every("seconds", [0.00002, 0.003, 0.3])
def test_a_window_goes_from_tick_to_tick(seconds: float) -> None:
    clock = FakeClock()
    energy = window(lambda: clock.advance(seconds), (Ticking(clock, 200.0, 0.3),), lambda: clock.now)
    assert energy.seconds >= WINDOW_SECONDS
    assert energy.joules[0] / energy.seconds == pytest.approx(200.0, rel=0.01 + seconds / 2)
    assert energy.runs * seconds == pytest.approx(energy.seconds, rel=0.1)


# After the final


def windows(seconds: float) -> Contest:
    """A final whose blocks are there, with so many seconds left."""
    clock = FakeClock()
    rows = {name: measured(name, 0.01, rounds=1) for name in ("pinned", "zero-copy")}
    costs = {"joules": {"pinned": 0.5, "zero-copy": 0.4}, "seconds": {"pinned": 0.01}}
    contest = Contest(
        settings(), job(), rows, Path(), lambda asked: FakeSession(asked, wait=clock.advance, **costs), clock
    )
    contest.loop.blocks.append(final_block(2, 0, "pinned", 0.01))
    contest.loop.deadline = clock.now + seconds
    contest.take_windows(Pace(0.5, 0.1))
    assert {window.process for window in contest.windows.blocks} <= {3}
    return contest


def test_every_contestant_has_a_window_while_there_is_time() -> None:
    blocks = windows(30.0).windows.blocks
    assert [block.contestant for block in blocks] == ["pinned", "zero-copy"]
    assert blocks[0].joules == pytest.approx(0.5, rel=0.01)
    short = windows(5.2)
    assert [block.contestant for block in short.windows.blocks] == ["pinned"]
    assert short.no_window == NO_TIME
    assert windows(3.0).windows.blocks == []


def metered_final(backend: RecordingBackend, base: Job, strategy: str, **given: float) -> Final:
    """A process of the final that takes windows of energy: 200 W, and of the GPU of address 1 50 W, in ticks
    of 10 ms of a clock that each look moves by 0.3 ms."""
    clock = FakeClock(step=0.0003)

    @contextmanager
    def metered(place: str | None) -> Iterator[Meter]:
        assert place in (None, "1")
        yield Ticking(clock, 50.0 if place else 200.0, tick=0.01, asking=0.0)

    given = {"energy_seconds": 0.1, "process": 2, **given}
    return final_process(backend, base, {"a": strategy}, clock, meter=metered, sleep=clock.advance, **given)


def final_of(workload: str, strategy: str, backend: RecordingBackend) -> Final:
    base = job(file=str(REPOSITORY / "workloads" / f"{workload}.py"), assignments={"n": "4096"})
    return metered_final(backend, base, strategy)


@pytest.mark.parametrize("overlapping", [False, True])
def test_a_process_of_the_final_takes_windows_as_blocks(overlapping: bool) -> None:
    strategy = "pinned-pipelined" if overlapping else "pageable"
    final = final_of("vector_add", strategy, RecordingBackend())
    with final.open:
        asked_for = (FinalRound(round=number, order=("a",), warm_frames=2) for number in (0, 1))
        blocks = [final.block(request, 0).block for request in asked_for]
    for block in blocks:
        assert (block.process, block.frame_seconds, block.cpu_seconds) == (2, (), None)
        assert block.seconds >= 0.1
        assert block.frames > 1
        assert block.energy.joules / block.seconds == pytest.approx(200, rel=0.05)
        assert block.energy.idle_watts == pytest.approx(200, rel=0.05)
        assert bool(block.frame_latencies) == overlapping


def test_frames_up_to_the_ticks_have_indices_of_their_own(tmp_path: Path) -> None:
    log = "with open(log, 'a') as file: file.write(f'{frame} ')"
    (tmp_path / "w.py").write_text(workload(parameters=", log: str = ''", produce=log))
    base = job(file=str(tmp_path / "w.py"), assignments={"log": str(tmp_path / "log")})
    final = metered_final(RecordingBackend(), base, "pinned", block_seconds=1e-9)
    with final.open:
        for number in (0, 1):
            final.block(FinalRound(round=number, order=("a",), warm_frames=2), 0)
    frames = [int(frame) for frame in (tmp_path / "log").read_text().split()]
    assert frames == list(range(len(frames)))


def test_energy_of_several_gpus_is_told_by_gpu() -> None:
    backend = RecordingBackend(gpus=2)
    backend.open_gpus(2)
    backend.gpus[1].environment = lambda: {"pci_bus_id": "1"}  # type: ignore[method-assign]
    final = final_of("two_gpus_split", "pinned", backend)
    with final.open:
        energy = final.block(FinalRound(round=0, order=("a",), warm_frames=2), 0).block.energy
    assert energy.source == "a fake, of 2 GPUs together"
    assert [gpu.idle_watts for gpu in energy.gpus] == [pytest.approx(w, rel=0.05) for w in (200, 50)]
    assert energy.gpus[0].joules == pytest.approx(4 * energy.gpus[1].joules)
    assert energy.joules == pytest.approx(sum(gpu.joules for gpu in energy.gpus))
