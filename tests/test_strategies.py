"""Strategies: which buffer gets which placement, where a strategy cannot be used, its name, and that each
gives the results of the reference run, in programs whose own check knows all frames."""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import builders
import pytest
from builders import cuda_device
from every import every
from fakes import EVERY_HASTE, RecordingBackend, attempted, bench
from mixing import FRESH, made
from rendering import Accepted
from running import FILES

from advisor.errors import UsageError
from advisor.measure.jobs import ReferenceRun, Sample
from advisor.profiles.schema import AccessMode, Device, MemoryClass, Side, WorkloadRecord
from advisor.strategies.arena import AllocationFailed
from advisor.strategies.kinds import DEVICE_ONLY, HOST_ONLY, External
from advisor.strategies.mixes import PLACEMENTS as PLACED
from advisor.strategies.placement import Placement, require_memory
from advisor.strategies.planning import plan
from advisor.strategies.registry import BASELINE, STRATEGIES, by_name, choose
from advisor.strategies.schedule import StageUse
from advisor.workloads.loading import load

CPU = Device(name="CPU", kind="cpu")
NAMES = [strategy.name for strategy in STRATEGIES]


def workload(stages: dict[str, Side], *, external: bool = False, **access: AccessMode) -> WorkloadRecord:
    """One buffer `x`, touched by the stages of that name."""
    return builders.workload(stages, {"x": access}, size=16, external="x" if external else ())


def place(strategy: str, record: WorkloadRecord) -> Placement:
    return by_name(strategy).placements(record)["x"]


def test_the_table() -> None:
    assert [name for name in NAMES if name in KNOWN] == KNOWN
    assert len(set(NAMES)) == len(NAMES)
    assert NAMES[0] == BASELINE
    assert [s.name for s in STRATEGIES if s.code_change == 0] == ["pageable", "staged", "system"]
    assert [s.name for s in STRATEGIES if s.pipelined] == ["pinned-pipelined"]


KNOWN = ["pageable", "staged", "pinned", "write-combined", "registered", "pinned-pipelined", "zero-copy"]
KNOWN += ["zero-copy-wc", "zero-copy-registered", "managed", "managed-prefetch", "managed-advised", "system"]
"""Names that saved profiles hold: none is dropped or renamed."""


@every("strategy", ["write-combined", "zero-copy-wc"])
@every(
    ("host_access", "write_combined"),
    [
        ({"h": "out"}, True),
        ({"h": "out", "h2": "out"}, True),
        ({"h": "in"}, False),
        ({"h": "inout"}, False),
        ({"h": "out", "h2": "in"}, False),
    ],
)
def test_write_combined_only_where_the_host_only_writes(
    strategy: str, host_access: dict[str, AccessMode], write_combined: bool
) -> None:
    sides: dict[str, Side] = {"h": "host", "h2": "host", "k": "device"}
    placed = place(strategy, workload(sides, **host_access, k="inout"))
    assert placed.write_combined == write_combined
    foreign = place(strategy, workload(sides, external=True, **host_access, k="inout"))
    assert isinstance(foreign, External)
    assert foreign.inner.write_combined == write_combined


@every(
    ("sides", "access", "hints"),
    [
        # written in setup only
        ({"load": "setup", "k": "device"}, {"load": "out", "k": "in"}, ("read-mostly",)),
        # an input that is new each frame, an output, a state
        ({"h": "host", "k": "device"}, {"h": "out", "k": "in"}, ("prefer-device", "accessed-by-host")),
        ({"k": "device", "h": "host"}, {"k": "out", "h": "in"}, ("prefer-device", "accessed-by-host")),
        ({"load": "setup", "k": "device"}, {"load": "out", "k": "inout"}, ("prefer-device",)),
        # what kernels leave alone once the frames run
        ({"init": "device setup", "h": "host"}, {"init": "out", "h": "inout"}, ()),
    ],
)
def test_hints_follow_from_the_annotations(
    sides: dict[str, str], access: dict[str, AccessMode], hints: tuple[str, ...]
) -> None:
    record = workload({n: "device" if "device" in s else "host" for n, s in sides.items()}, **access)
    phases = {name: "setup" if "setup" in side else "frame" for name, side in sides.items()}
    stages = tuple(s.model_copy(update={"phase": phases[s.name]}) for s in record.stages)
    placed = place("managed-advised", record.model_copy(update={"stages": stages}))
    assert placed.hints == hints
    assert place("managed-prefetch", record).hints == ()


@every("strategy", NAMES)
def test_buffers_of_one_side_stay_there(strategy: str) -> None:
    on_device = workload({"k": "device", "h": "host"}, k="inout")
    assert place(strategy, on_device) == DEVICE_ONLY
    on_host = workload({"k": "device", "h": "host"}, h="out")
    assert place(strategy, on_host) == HOST_ONLY
    untouched = workload({"k": "device"})
    assert place(strategy, untouched) == HOST_ONLY


@every("strategy", NAMES)
def test_external_data_pays_a_copy_unless_any_memory_will_do(strategy: str) -> None:
    placed = place(strategy, workload({"h": "host", "k": "device"}, external=True, h="out", k="in"))
    free = {"pageable", "staged", "registered", "zero-copy-registered", "system"}
    own = by_name(strategy).placement
    if strategy in free:
        assert placed == own
    else:
        assert isinstance(placed, External)
        assert replace(placed.inner, hints=()) == own
    steps = plan(
        [],
        [StageUse("h", "host", {"x": "out"}), StageUse("k", "device", {"x": "in"})],
        {"x": placed.traits(cuda_device())},
    ).steady
    assert ("copy-in" in {step.action for step in steps}) == (strategy not in free)


ATTRIBUTES: dict[MemoryClass, dict[str, int]] = {
    "tegra": {"concurrent_managed_access": 0, "pageable_memory_access": 0},
    "tegra-io-coherent": {"concurrent_managed_access": 0, "pageable_memory_access": 0},
    "tegra-coherent": {"concurrent_managed_access": 1, "pageable_memory_access": 1},
    "discrete": {"concurrent_managed_access": 1, "pageable_memory_access": 0},
    "discrete-hmm": {"concurrent_managed_access": 1, "pageable_memory_access": 1},
    "coherent": {"concurrent_managed_access": 1, "pageable_memory_access": 1},
}
ABLE = ("can_map_host_memory", "host_register_supported", "managed_memory", *ATTRIBUTES["tegra"])


def test_where_each_strategy_cannot_be_used(accepted: Accepted) -> None:
    """An attribute that the device does not tell is no reason, but for access to pageable memory."""
    classes = {name: gpu(name, **ATTRIBUTES[name]) for name in get_args(MemoryClass)}
    lacking = {f"{each} is 0": gpu("discrete", **{**dict.fromkeys(ABLE, 1), each: 0}) for each in ABLE}
    devices = {"CPU": CPU, "unknown attributes": cuda_device(), **classes, **lacking}
    reasons = (
        "\n".join((name, *(f"  {s.name}: {why}" for s in STRATEGIES if (why := s.unavailable(device)))))
        for name, device in devices.items()
    )
    accepted("\n".join(reasons) + "\n", "unavailable.txt")


@every("memory_class", get_args(MemoryClass))
def test_whose_managed_memory_kernels_have_alone(memory_class: MemoryClass) -> None:
    device = gpu(memory_class, **ATTRIBUTES[memory_class])
    exclusive = {s.name for s in STRATEGIES if s.placement.traits(device).exclusive}
    concurrent = ATTRIBUTES[memory_class]["concurrent_managed_access"]
    assert exclusive == (set() if concurrent else {"managed", "managed-prefetch", "managed-advised"})


def gpu(memory_class: MemoryClass, **attributes: int) -> Device:
    plain = cuda_device()
    changed = {"name": f"Test {memory_class}", "attributes": {**plain.attributes, **attributes}}
    return plain.model_copy(update={"memory_class": memory_class, **changed})


def test_choosing_keeps_the_order_of_the_table_and_offers_the_nearest_name() -> None:
    for name, message in {"pined": r"'pined'; did you mean 'pinned'", "qqq": r"'qqq'\n"}.items():
        with pytest.raises(UsageError, match=f"^there is no strategy {message}") as raised:
            choose(["pageable", name])
        assert ", ".join(NAMES) in raised.value.next_step
    assert choose([]) == STRATEGIES
    assert [s.name for s in choose(["managed", "pageable", "managed"])] == ["pageable", "managed"]


def test_every_strategy_is_described() -> None:
    assert len({strategy.description for strategy in STRATEGIES}) == len(STRATEGIES)
    for strategy in STRATEGIES:
        for part in ("Good for ", "Bad for ", "Source"):
            assert part in " ".join(strategy.description.split()), (strategy.name, part)
    page = (Path(__file__).parents[1] / "docs/strategies.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE) == NAMES


# More memory than there is


MIB = 1 << 20


PINNED, MANAGED = PLACED["pinned"], PLACED["managed"]
ON_GPU = [PLACED["pageable"], PINNED, DEVICE_ONLY, MANAGED, External.before(MANAGED)]
ON_HOST = [PLACED["zero-copy"], HOST_ONLY, External.before(PLACED["zero-copy"])]
FITS = ""


@every(
    ("placements", "given", "told"),
    [
        *(([placement] * 2, {}, FITS) for placement in ON_GPU),
        *(([placement] * 3, {}, "need 120 MiB of device memory; 100 MiB are free") for placement in ON_GPU),
        *(([placement] * 3, {}, FITS) for placement in ON_HOST),
        ([PINNED] * 3, {"free": None}, FITS),
        ([MANAGED] * 3, {"oversubscribe": True}, FITS),
        ([PINNED] * 3, {"oversubscribe": True}, "120 MiB"),
        ([MANAGED] * 3 + [DEVICE_ONLY] * 2, {"oversubscribe": True}, FITS),
        ([MANAGED] * 3 + [DEVICE_ONLY] * 3, {"oversubscribe": True}, "120 MiB"),
        ([PINNED] * 3, {"integrated": 1, "available": 150}, FITS),  # what the system could free counts
        ([PINNED] * 4, {"integrated": 1, "available": 150}, "160 MiB of device memory; 150 MiB are free"),
        ([PINNED] * 3, {"available": 150}, "100 MiB are free"),
    ],
)
def test_more_than_is_free_is_refused_and_the_option_offered_where_it_would_help(
    placements: list[Placement], given: dict[str, Any], told: str
) -> None:
    """Buffers of 40 MiB each on a GPU with 100 MiB free; available: MiB that the system could free."""
    backend = RecordingBackend(device=cuda_device(integrated=given.get("integrated", 0)))
    backend.free_bytes = None if "free" in given else 100 * MIB
    named = {str(number): placement for number, placement in enumerate(placements)}
    more = {"oversubscribe": "oversubscribe" in given, "available": lambda: given.get("available", 0) * MIB}
    with pytest.raises(AllocationFailed, match=told) if told else nullcontext() as raised:
        require_memory(backend, named, dict.fromkeys(named, 40 * MIB), **more)
    assert backend.calls == []
    if told and placements[0] in (PINNED, MANAGED):
        helps = placements[0] == MANAGED and not given
        assert ("--allow-oversubscription" in str(raised.value)) == helps


@every(("strategy", "needed"), [("pinned", 2 * 48), ("pinned-pipelined", 4 * 48)])
def test_both_sets_of_buffers_count(strategy: str, needed: int) -> None:
    refused = pytest.raises(AllocationFailed, match=f"{needed} B")
    for free, said in ((needed, nullcontext()), (needed - 1, refused)):
        backend = RecordingBackend()
        backend.free_bytes = free
        with said, bench(made(FRESH, {}), strategy, backend):
            pass
    assert backend.calls == []


# Every strategy under every program


Program = tuple[str, str | None, dict[str, str], str]
NOTHING = "nothing"
STATE, LOOP = "which carries data between frames", "the frame has a loop that the host ends"
PROGRAMS: tuple[Program, ...] = (
    ("state", "background", {}, NOTHING),
    ("state", "alarm", {}, NOTHING),
    ("parts_of_buffers", "ragged", {}, NOTHING),
    ("parts_of_buffers", "compaction", {}, NOTHING),
    ("parts_of_buffers", "large_state", {}, STATE),
    ("parts_of_buffers", "ring", {}, STATE),
    ("some_frames", None, {"weigh_every": "1"}, NOTHING),
    ("some_frames", None, {"weigh_every": "2"}, f"stage 'weigh' uses buffer 'w', {STATE}"),
    *(("until_converged", name, {}, LOOP) for name in ("kmeans", "jacobi", "two_loops")),
)
"""File, workload, parameters, and what keeps its frames from overlapping."""
ON_ONE_GPU = [strategy.name for strategy in STRATEGIES if not strategy.several_gpus]


def outcome(program: Program, strategy: str, directory: Path, **changes: Any) -> Any:
    file, workload, assignments, _ = program
    given = {"workload": workload, "assignments": assignments, **changes}
    return attempted(FILES / f"{file}.py", strategy, directory, **given)


@pytest.fixture(scope="module", params=PROGRAMS, ids=lambda program: "-".join(filter(None, program[:2])))
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Program, Path]:
    """A program, and where its reference run left the results."""
    folder = tmp_path_factory.mktemp("reference")
    assert outcome(request.param, "pageable", folder, task="reference", seconds=0.05) == ReferenceRun()
    return request.param, folder / "results"


@pytest.mark.parametrize("strategy", ON_ONE_GPU)
def test_every_strategy_gives_the_right_results(
    kept: tuple[Program, Path], strategy: str, tmp_path: Path
) -> None:
    """Nearly a Latin square: every program meets every haste, and so does every strategy. What overlaps
    frames meets all of them in the programs that it suits: there they tell races apart."""
    program, results = kept
    file, workload, assignments, obstacle = program
    if reason := by_name(strategy).unsuited(load(FILES / f"{file}.py", workload, assignments).record):
        assert by_name(strategy).pipelined
        assert obstacle in reason
        return
    turn = EVERY_HASTE[(PROGRAMS.index(program) + ON_ONE_GPU.index(strategy)) % len(EVERY_HASTE)]
    for haste in EVERY_HASTE if "pipelined" in strategy else (turn,):
        backend = RecordingBackend(haste=haste)
        sample = outcome(program, strategy, tmp_path, backend=backend, reference=results, seconds=0.03)
        assert isinstance(sample, Sample), sample
        assert sample.verified
