"""The ranges as a tool hears them: a library that NVTX loads records them in real worker processes."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fakes import job
from running import MISBEHAVING, REPOSITORY

from advisor.measure.frames import Ranges
from advisor.measure.jobs import Done, Problem
from advisor.measure.launcher import Ended, ProcessLauncher
from tests.forking import server

RECORDER = Path(__file__).with_name("nvtx_recorder.c")
VECTOR_ADD = REPOSITORY / "workloads" / "vector_add.py"

needs_compiler = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc, to build a listener")


@dataclass(frozen=True)
class Pushed:
    """A range as it was opened: the names open at that moment, outermost first, and its payload."""

    path: tuple[str, ...]
    payload: str
    domain: str


@pytest.fixture(scope="session")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("nvtx") / "recorder.so"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", library, RECORDER], check=True
    )
    return library


@pytest.fixture
def record(recorder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the workers of this test leave what they pushed."""
    monkeypatch.setenv("NVTX_INJECTION64_PATH", str(recorder))
    monkeypatch.setenv("NVTX_RECORD", str(tmp_path / "record"))
    return tmp_path


def ran(directory: Path, file: Path, strategy: str, **options: object) -> Ended:
    given = {"task": "capture", "backend": "cpu", "file": str(file), "strategy": strategy, "frames": 2}
    places = {"directory": str(directory / "job"), "reference": str(directory / "results")}
    return ProcessLauncher(300, server=server())(job(**{**given, **places, **options}))


def pushed(directory: Path) -> list[Pushed]:
    """Everything that was pushed, each pop matched; fails where a push or a pop has no partner."""
    (file,) = directory.glob("record.*")
    domains: dict[str, str] = {}
    open_: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    found = []
    for line in file.read_text().splitlines():
        what, domain, *rest = line.split("\t")
        if what == "domain":
            domains[domain] = rest[0]
        elif what == "push":
            open_[domain, rest[0]].append(rest[1])
            found.append(Pushed(tuple(open_[domain, rest[0]]), rest[2], domains[domain]))
        else:
            assert open_[domain, rest[0]].pop(), "popped more than was pushed"
    assert not any(open_.values()), "left open"
    return found


def frames(found: list[Pushed]) -> Iterator[list[str]]:
    """The names within each frame, in order."""
    inside: list[str] | None = None
    for one in found:
        if one.path[-1] == "frame":
            if inside is not None:
                yield inside
            inside = []
        elif len(one.path) == 3 and inside is not None:
            inside.append(one.path[-1])
    if inside is not None:
        yield inside


@needs_compiler
def test_ranges_nest_and_balance_in_the_domain(record: Path) -> None:
    ended = ran(record, VECTOR_ADD, "pageable", assignments={"n": "4096"})
    assert isinstance(ended.outcome, Done)
    found = pushed(record)
    assert {one.domain for one in found} == {"advisor"}
    assert found[0].path == ("strategy:pageable",)
    assert {one.path[:2] for one in found[1:]} == {("strategy:pageable", "frame")}
    assert [one.payload for one in found if one.path[-1] == "frame"] == ["0", "1", "2", "3", "4"]
    assert {one.payload for one in found if one.path[-1] != "frame"} == {"-"}
    *_, last = frames(found)
    assert last == ["host:produce", "to-device", "to-device", "device:add", "to-host", "host:consume"]


@needs_compiler
def test_every_range_is_closed_when_a_stage_raises(record: Path) -> None:
    ended = ran(record, MISBEHAVING, "pageable", assignments={"how": "raise", "at": "3"})
    assert isinstance(ended.outcome, Problem)
    assert pushed(record)[-1].path == ("strategy:pageable", "frame", "device:compute"), "where it raised"


def test_with_no_tool_attached_no_attributes_are_made_and_none_are_filled() -> None:
    assert "NVTX_INJECTION64_PATH" not in os.environ
    ranges = Ranges()
    assert ranges.attributes("to-device") is None
    ranges.push_frame(3)
    ranges.pop()
