"""`advisor fleet` without Dask: which device gets which task, what becomes of lost ones, what is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from builders import cpu_profile, measured, profile, vector_add_workload
from every import every
from rendering import Accepted, refusals
from running import missing

from advisor.errors import FileProblem, UsageError
from advisor.fleets import fleet, storage
from advisor.fleets.api import require_figures
from advisor.fleets.fleet import Function, Reply, SchedulerLost
from advisor.fleets.planning import Answer, Machine, Task, parse_where
from advisor.fleets.planning import Device as FleetDevice
from advisor.fleets.request import Package, Request, Selection, gather, unpack
from advisor.fleets.storage import slug, write_placements
from advisor.measure.options import Options
from advisor.profiles import outputs
from advisor.profiles.conclusions import Preferences
from advisor.profiles.fleets import FleetRecord, Row
from advisor.profiles.reading import all_in, load
from advisor.profiles.schema import Device
from advisor.profiles.sweeps import combine
from advisor.report import pages
from advisor.report.several_pages import fleet_page
from advisor.rules.advise import concluded
from advisor.version import __version__

SOURCE = b"pass\n"
EVERY = Selection(each=True)
ALONE = Selection(each=True, one_per_host=True)
ONE_OF_EACH = Selection()
QUIET = Options(quiet=True, formats="json")


def gpu(uuid: str, name: str = "NVIDIA H200") -> dict[str, Any]:
    return {"name": name, "memory_class": "discrete", "identity": uuid, "place": uuid, "uuid": uuid}


def jetson(name: str = "Orin") -> dict[str, Any]:
    return {"name": name, "memory_class": "tegra-io-coherent"}


def machine(*gpus: dict[str, Any], host: str = "a", **other: Any) -> Machine:
    told = {"host": host, "advisor": __version__, "driver_cuda": 13000}
    here, place = {"host": host, "cpu": "CPU"}, f"host {host}"
    cpu = FleetDevice(name="CPU", kind="cpu", identity=place, place=place, **here)
    board = {"kind": "cuda", "identity": place, "place": place, **here}
    cards = tuple(FleetDevice(**{**board, **each}) for each in gpus)
    return Machine(**{**told, "cupy": "14.2", "cupy_cuda": 13, "cpu": cpu, "gpus": cards, **other})


def answered(name: str = "NVIDIA H200", n: int = 4) -> Answer:
    """The profile of the task's workload, on a device of that name, or on a CPU."""
    sha256 = hashlib.sha256(SOURCE).hexdigest()
    workload = vector_add_workload(n).model_copy(update={"sha256": sha256})
    rows = (measured("pageable", 0.02, spread=0), measured("pinned", 0.01, spread=0))
    device = Device(name=name, kind="cuda", memory_class="discrete")
    made = cpu_profile(workload=workload, device=Device(name="CPU", kind="cpu"))
    if name != "CPU":
        made = concluded(profile(workload=workload, device=device, results=rows))
    return Answer(status="profiled", profile=made.to_json())


@dataclass
class Imitated:
    """A cluster of machines by address. `ends` says what becomes of a task: an answer, "dies"."""

    machines: dict[str, Machine | str]
    ends: Callable[[str, Task], Answer | str] = lambda *_: answered()
    seconds: float = 1.0
    """Of a task; a look takes none."""
    now: float = 0.0
    calls: list[tuple[str, Task]] = field(default_factory=list)
    most: int = 0
    joins: dict[float, tuple[str, Machine]] = field(default_factory=dict)
    stops: tuple[float, BaseException] | None = None
    locked: set[str] = field(default_factory=set)
    locked_until: float = 0.0
    """By another command."""
    scaled: bool = False
    lines: list[str] = field(default_factory=list)
    """What is told while it runs."""
    _open: dict[str, tuple[float, str, Function, str]] = field(default_factory=dict)

    def clock(self) -> float:
        return self.now

    def workers(self) -> Collection[str]:
        for when in [when for when in self.joins if when <= self.now]:
            self.machines.update([self.joins.pop(when)])
        if self.stops and self.now >= self.stops[0]:
            raise self.stops[1]
        return list(self.machines)

    def start(self, worker: str, function: Function, text: str = "") -> str:
        if not worker:
            self.scaled = True
            return "on any worker"
        call, ends = f"call {uuid4()}", self.now
        if function == "profile":
            self.calls.append((worker, Task.model_validate_json(text)))
            ends += self.seconds
        self._open[call] = ends, worker, function, text
        self.most = max(self.most, [function for _, _, function, _ in self._open.values()].count("profile"))
        return call

    def replies(self, seconds: float) -> Sequence[Reply]:
        self.now += seconds
        due = [call for call, (ends, *_) in self._open.items() if ends <= self.now]
        return [reply for call in due if (reply := self._end(call))]

    def _end(self, call: str) -> Reply | None:
        _, worker, function, text = self._open.pop(call)
        answer: Machine | Answer | str = self.machines.get(worker, "gone")
        if function == "profile":
            answer = self.ends(worker, Task.model_validate_json(text))
        if answer == "dies":
            del self.machines[worker]
            return None
        if answer == "no package":
            return Reply(call, worker, reason="ModuleNotFoundError", not_installed=True)
        return Reply(call, worker, answer if isinstance(answer, str) else answer.model_dump_json())

    def cancel(self, call: str) -> None:
        self._open.pop(call, None)

    def lock(self, device: str) -> bool:
        if device in self.locked or self.now < self.locked_until:
            return False
        self.locked.add(device)
        return True

    def unlock(self, device: str) -> None:
        self.locked.remove(device)


def request(wanted: Selection = ONE_OF_EACH, values: tuple[str, ...] = ("",), **options: Any) -> Request:
    package = Package("w.py", {"w.py": SOURCE})
    files, command = package.packed(), "advisor fleet w.py"
    task = Task(file="w.py", options=options, files=files, seconds=50, command=command)
    shown = {value: value for value in values}
    return Request(package, "vector_add", task, shown, wanted, wait=2, another=3, options=QUIET)


def run(
    cluster: Imitated, folder: Path, asked: Request | None = None, *, resume: bool = False
) -> fleet.Outcome:
    tell = cluster.lines.append
    return fleet.run(
        asked or request(), lambda: cluster, folder, tell=tell, resume=resume, clock=cluster.clock
    )


def statuses(outcome: fleet.Outcome) -> list[str]:
    return sorted(row.status for row in outcome.record.rows)


def test_one_task_for_each_model_and_with_each_one_for_every_gpu(tmp_path: Path) -> None:
    """Two workers that see the same two GPUs, and a third GPU of another model."""
    there = {
        "tcp://1": machine(gpu("GPU-1"), gpu("GPU-2")),
        "tcp://2": machine(gpu("GPU-2"), gpu("GPU-1")),
        "tcp://3": machine(gpu("GPU-3", "NVIDIA L4"), host="b", cupy="13.6", driver_cuda=None),
    }
    found = run(Imitated(dict(there)), tmp_path / "one")
    assert sorted(row.device for row in found.record.rows) == ["NVIDIA H200", "NVIDIA L4"]
    assert found.record.notes == (
        "The machines differ in CuPy: 13.6, 14.2.",
        "The machines differ in CUDA driver: for CUDA 13.0, none.",
    )
    every = Imitated(dict(there))
    found = run(every, tmp_path / "each", request(EVERY))
    assert sorted(row.device for row in found.record.rows) == ["NVIDIA H200", "NVIDIA H200 #2", "NVIDIA L4"]
    assert sorted(task.gpu or "" for _, task in every.calls) == ["GPU-1", "GPU-2", "GPU-3"]
    assert len({worker for worker, _ in every.calls}) == 3


@pytest.mark.parametrize(
    ("there", "wanted", "most"),
    [
        ({"1": machine(gpu("GPU-1")), "2": machine(gpu("GPU-1"))}, EVERY, 1),
        ({"1": machine(gpu("GPU-1")), "2": machine(gpu("GPU-2"))}, EVERY, 2),
        ({"1": machine(gpu("GPU-1")), "2": machine(gpu("GPU-2"))}, ALONE, 1),
        ({"1": machine(jetson()), "2": machine(jetson("other"))}, EVERY, 1),
        ({"1": machine(jetson()), "2": machine(jetson(), host="b")}, EVERY, 2),
        ({"1": machine(), "2": machine()}, EVERY, 1),
    ],
)
def test_one_profile_at_a_time_at_a_gpu_a_board_and_a_host(
    there: dict[str, Machine | str], wanted: Selection, most: int, tmp_path: Path
) -> None:
    cluster = Imitated(there, ends=lambda *_: answered("Orin"))
    run(cluster, tmp_path, request(wanted, ("n=1", "n=2")))
    assert cluster.most == most


def test_a_worker_that_is_lost_and_one_that_comes_back(tmp_path: Path) -> None:
    def ends(worker: str, _: Task) -> Answer | str:
        return "dies" if worker == "1" else answered()

    one, other = machine(gpu("GPU-1")), machine(gpu("GPU-2"), host="b")
    cluster = Imitated({"1": one, "2": other}, ends)
    assert statuses(run(cluster, tmp_path)) == ["profiled"]
    assert [worker for worker, _ in cluster.calls] == ["1", "2"]
    cluster = Imitated({"1": one}, ends, joins={2.5: ("3", one)})
    assert statuses(run(cluster, tmp_path / "again", request(EVERY))) == ["profiled"]


def test_others_are_waited_for_and_an_adaptive_cluster_is_asked_for_a_worker(tmp_path: Path) -> None:
    """A GPU that another command uses; a cluster that starts a worker for a task."""
    there = machine(gpu("GPU-1"))
    (device,) = there.devices(no_gpu=False)
    elsewhere = device.model_copy(update={"place": "host a"})
    assert elsewhere.lock == device.lock, "with --one-per-host too"
    shared = Imitated({"1": there}, locked_until=20.0)
    adaptive = Imitated({}, joins={1.5: ("1", there)})
    for number, (cluster, least) in enumerate(((shared, 20), (adaptive, 1.5))):
        assert statuses(run(cluster, tmp_path / f"{number}")) == ["profiled"]
        assert cluster.now >= least
        assert cluster.locked == set()
    assert (shared.scaled, adaptive.scaled) == (False, True)


ENDS: dict[str, Answer | str] = {
    "the worker dies": "dies",
    "the process dies": Answer(status="lost", reason="SIGSEGV"),
    "an answer that is none": "{}",
    "a profile that is none": Answer(status="profiled", profile="{}"),
    "a profile of another workload": Answer(status="profiled", profile=profile().to_json()),
    "a stage raises": Answer(status="failed", reason="stage raised", next_step="Fix it."),
}
MACHINES: dict[str, Machine | str] = {
    "another version of advisor": machine(gpu("GPU-1"), advisor="0.0.9"),
    "no advisor": "no package",
    "no CuPy": machine(gpu("GPU-1"), cupy=None),
    "a CuPy for a newer driver": machine(gpu("GPU-1"), driver_cuda=12040),
    "no CuPy, a driver for CUDA 11": machine(gpu("GPU-1"), cupy=None, driver_cuda=11040),
    "a report that is none": "nonsense",
}


def test_a_row_without_a_profile_says_why_and_what_to_do(tmp_path: Path, accepted: Accepted) -> None:
    one = machine(gpu("GPU-1"))
    clusters = {name: Imitated({"tcp://1": one}, ends=lambda *_, end=end: end) for name, end in ENDS.items()}
    clusters |= {name: Imitated({"tcp://1": each}) for name, each in MACHINES.items()}
    text = []
    for name, cluster in clusters.items():
        found = run(cluster, tmp_path / name)
        (row,) = found.record.rows
        text += [name, f"  {row.status}: {row.reason}", f"  next: {row.next_step}", ""]
        assert "tcp" not in pages.render(fleet_page(found.record), "html").replace("http", "")
        assert len(cluster.lines) == 1
        assert row.reason not in cluster.lines[0], "the page says why"
    accepted("\n".join(text).replace(__version__, "VERSION"), "fleet-rows.txt")


@pytest.mark.parametrize(
    ("name", "cards", "values", "kind"),
    [
        ("NVIDIA H200", [gpu("GPU-1")], ("",), "devices"),
        ("NVIDIA H200", [gpu("GPU-1")], ("n=1", "n=2"), "sweep"),
        ("CPU", [], ("",), "devices"),
        ("CPU", [], ("n=1", "n=2"), "sweep"),
    ],
)
def test_a_report_of_the_folder_tells_devices_of_one_name_apart(
    name: str, cards: list[dict[str, Any]], values: tuple[str, ...], kind: str, tmp_path: Path
) -> None:
    def ends(_: str, task: Task) -> Answer:
        return answered(name, int(task.options.get("parameters", ["n=4"])[0][2:]))

    there = {
        host: machine(*({**c, "identity": host, "place": host} for c in cards), host=host) for host in "abc"
    }
    run(Imitated(dict(there), ends), tmp_path, request(EVERY, values))
    together = combine([(path, load(path)) for path in all_in(tmp_path)], tmp_path)
    names = [name, f"{name} #2", f"{name} #3"]
    assert (together.kind, [device.name for device, _ in together.machines]) == (kind, names)
    for made in together.profiles:
        advised = {each.device for each in made.advice if each.device.startswith(name)}
        assert advised <= {made.device.name}
    assert pages.render(pages.page_of(together), "html")
    text = " ".join(pages.render(pages.page_of(together), "txt").split())
    assert "pageable memory on" not in text, "advice for all of them names none"


def test_one_device_in_two_fleets_and_without_one_stays_one(tmp_path: Path) -> None:
    for folder, wanted in (("a", EVERY), ("b", ONE_OF_EACH)):
        run(Imitated({"1": machine(gpu("GPU-1"))}), tmp_path / folder, request(wanted))
    loaded = [(path, load(path)) for folder in "ab" for path in all_in(tmp_path / folder)]
    for both in (loaded, [loaded[0], (tmp_path / "p.json", loaded[0][1])]):
        with pytest.raises(UsageError, match="both have the same parameters"):
            combine(both, tmp_path)


@pytest.mark.parametrize("end", [KeyboardInterrupt(), SchedulerLost("the scheduler was lost")])
def test_what_is_done_is_kept_and_resumed(end: BaseException, tmp_path: Path) -> None:
    there = {str(i): machine(gpu(f"GPU-{i}"), host=str(i)) for i in range(3)}
    asked = request(EVERY, ("n=1", "n=2"))
    stopped = run(Imitated(dict(there), stops=(1.9, end)), tmp_path, asked)
    assert (statuses(stopped), stopped.stopped) == (["not run"] * 3 + ["profiled"] * 3, end)
    again = Imitated(dict(there))
    assert statuses(run(again, tmp_path, asked, resume=True)) == ["profiled"] * 6
    assert again.lines[0] == "resumed: 3 profiled before"
    assert all(line.endswith(" n=2: pinned (1 s)") for line in again.lines[1:])
    assert len(again.calls) == 3
    assert len({row.folder for row in run(Imitated({}), tmp_path, asked, resume=True).record.rows}) == 6


@every("what", ["row.json", "", "profile.json", "told"])
def test_a_row_that_leads_out_of_its_folder_is_refused(what: str, tmp_path: Path) -> None:
    there, out = {"1": machine(gpu("GPU-1"))}, tmp_path / f"out-{what}"
    run(Imitated(dict(there)), out)
    (row,) = out.glob("*/row.json")
    if what == "told":
        row.write_text(row.read_text().replace(': "nvidia', ': "../nvidia'))
    else:
        moved = row.parent / what
        moved.rename(tmp_path / f"elsewhere-{what}")
        moved.symlink_to(tmp_path / f"elsewhere-{what}")
    with pytest.raises(UsageError, match="refers to files outside its folder"):
        run(Imitated(dict(there)), out, resume=True)


def test_a_fleet_leaves_what_is_the_users(tmp_path: Path) -> None:
    """Rows are removed only if a fleet wrote them; a device whose folder is taken gets another."""
    there = {"1": machine(gpu("GPU-1"))}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/row.json").write_text("mine")
    (one,) = run(Imitated(dict(there)), tmp_path).record.rows
    (tmp_path / one.folder / "row.json").write_text("changed")
    (two,) = run(Imitated(dict(there)), tmp_path).record.rows
    assert two.folder == f"{one.folder}-2"
    assert (tmp_path / "mine/row.json").read_text() == "mine"
    assert (tmp_path / one.folder / "row.json").read_text() == "changed"
    assert run(Imitated({}), tmp_path, resume=True).record.rows == (two,)


def test_what_cannot_run_or_be_resumed_is_refused(tmp_path: Path, accepted: Accepted) -> None:
    def cluster() -> Imitated:
        return Imitated({"1": machine(gpu("GPU-1"))})

    def resumed(folder: str, asked: Request | None = None) -> Callable[[], object]:
        return partial(run, Imitated({}), tmp_path / folder, asked, resume=True)

    run(cluster(), tmp_path / "damaged")
    made = run(cluster(), tmp_path / "made")
    require_figures(made)
    none = tuple(each.model_copy(update={"basis": "none"}) for each in made.record.rows)
    without = replace(made, record=made.record.model_copy(update={"rows": none}))
    outputs.write(tmp_path / "damaged", "fleet.json", "{")
    where = request(Selection(where={"memory_class": "tegra"}))
    calls = {
        "no worker": partial(run, Imitated({}), tmp_path / "none"),
        "no figure": partial(require_figures, without),
        "no device that fits": partial(run, cluster(), tmp_path / "unfit", where),
        "nothing to resume": resumed("nothing"),
        "another request": resumed("made", request(rounds=4)),
        "a damaged record": resumed("damaged"),
        **{text: partial(parse_where, [text]) for text in ("tegra", "memory_class=tegre", "kind=gpu")},
    }
    accepted(refusals(calls).replace(f"{tmp_path}/", ""), "fleet-runs-refused.txt")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A workload with a neighbour, a package of its own, and what nobody imports."""
    (tmp_path / "mine" / "inner").mkdir(parents=True)
    for name, text in {
        "w.py": "import numpy\nfrom mine.inner import deep\nfrom . import near\n",
        "near.py": "import importlib\nfar = importlib.import_module('far')\n",
        "far.py": "",
        "unasked.py": "",
        "mine/__init__.py": "",
        "mine/inner/__init__.py": "",
        "mine/inner/deep.py": "",
        "mine/kernel.cu": "",
        "mine/.secret": "",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path / "w.py"


def test_what_is_imported_travels_and_arrives(source: Path, tmp_path: Path) -> None:
    package = gather(source)
    inside = {"mine/__init__.py", "mine/inner/__init__.py", "mine/inner/deep.py", "mine/kernel.cu"}
    assert set(package.files) == {"w.py", "near.py", "far.py"} | inside
    assert package.contents.startswith("w.py, mine/ (4 files), near.py, far.py, ")
    assert "unasked.py" in gather(source, [tmp_path / "unasked.py"]).files
    unpack(package.packed(), tmp_path / "there")
    assert (tmp_path / "there" / "w.py").read_bytes() == source.read_bytes()


def test_links_and_too_much_do_not_travel(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileProblem, match="does not exist"):
        gather(source.parent / "other.py")
    for name, limit, wrong in (("MOST", 5, "more than 5 files"), ("LARGEST", 30, "hold more than 30 B")):
        with monkeypatch.context() as patched:
            patched.setattr(f"advisor.fleets.request.{name}", limit)
            with pytest.raises(UsageError, match=wrong):
                gather(source)
    (source.parent / "mine" / "passwd").symlink_to("/etc/passwd")
    with pytest.raises(UsageError, match="symbolic link"):
        gather(source)


@every("name", ["../x", "/etc/x", "a/../../x", ""])
def test_no_file_is_unpacked_outside_of_its_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="outside"):
        unpack(Package("w.py", {name: b""}).packed(), tmp_path)


def row(device: str, strategy: str | None = "pinned", **other: Any) -> Row:
    """A measured device on which `strategy` takes half the time of the other one."""
    other = {"costs": {"pinned": 2.0, "pageable": 2.0, strategy: 1.0}, **other} if strategy else other
    named = {"task": device, "device": device, "folder": slug(device), "strategy": strategy}
    fields = {"status": "profiled", "verdict": "fastest", "basis": "measured", **other}
    return Row.model_validate({**named, **fields})


def recorded(*rows: Row) -> FleetRecord:
    return request().record().model_copy(update={"rows": rows})


def test_the_page_says_where_one_serves_all_and_what_it_costs() -> None:
    rows = (row("A"), row("B"), row("C", "pageable"), row("D", status="failed", reason="it died", costs={}))
    sure, unsure = (
        {"device": d, "strategy": "pinned", "verdict": v} for d, v in (("A", "near"), ("B", "open"))
    )
    for these, *parts in (
        (rows, "Use `pinned` on A and B; use `pageable` on C", "it died",
         "One strategy for all: pinned, at most 2.00× the best time"),
        (rows[:2], "Use `pinned` on both devices"),
        ((row("A"), row("B", verdict="open")), "Use `pinned` on A; `pinned` leads on B",
         "So far: one strategy for all: pinned, the fastest everywhere. Settled on 1 of 2"),
        ([row("CPU", None, basis="predicted", predicted=(sure, unsure))],
         "Predicted: use `pinned` on A; likely `pinned` on B"),
    ):  # fmt: skip
        text = pages.render(fleet_page(recorded(*these)), "txt")
        assert not missing(" ".join(text.split()), *parts)


def test_what_strategies_cost_on_a_device_is_told_where_times_decide() -> None:
    late = measured("pinned-pipelined", 0.010, latency_seconds=0.030)
    run = profile(results=(measured("pinned", 0.020), late))
    costs = storage.concluded(row("A"), run).costs
    assert costs == {"pinned": 1.0, "pinned-pipelined": pytest.approx(1.5)}
    by_energy = run.model_copy(update={"preferences": Preferences(objective="energy")})
    judged = storage.concluded(row("A"), by_energy)
    assert (judged.costs, judged.basis) == ({}, "measured")


def test_the_strategies_as_toml_are_read_by_the_documents_reader(tmp_path: Path) -> None:
    pytest.importorskip("tomllib", reason="before Python 3.11 it is tomli")
    page = Path(__file__).parents[1] / "docs" / "fleet.md"
    reader = next(b for b in page.read_text("utf-8").split("```python\n") if b.startswith("# placements.py"))
    scope: dict[str, Any] = {}
    exec(reader.partition("```")[0], scope)
    guess = {"device": "NVIDIA L4", "strategy": "zero-copy", "verdict": "near"}
    rows = (row('Odd "name" \\ é 🛰'), row("CPU", None, predicted=(guess,)))
    write_placements(tmp_path / "p.toml", recorded(*rows))
    assert scope["strategy"](str(tmp_path / "p.toml"), 'Odd "name" \\ é 🛰') == "pinned"
    assert scope["strategy"](str(tmp_path / "p.toml"), "NVIDIA L4") == "zero-copy"
    assert scope["strategy"](str(tmp_path / "p.toml"), "unknown") == "pageable"
