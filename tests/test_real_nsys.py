"""Real nsys, without a GPU: it sees our ranges, and its files are read. .ci/nsys says how it is had."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import REPOSITORY, advisor

from advisor.nsys.capturing import Nsys, find

FOLDER = os.environ.get("ADVISOR_TEST_NSYS")
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="no nsys to test with: run .ci/nsys DIR and set ADVISOR_TEST_NSYS=DIR"
)
VECTOR_ADD = REPOSITORY / "workloads" / "vector_add.py"
QUICK = ("--no-gpu", "--set", "n=4096", "--rounds", "1", "--max-seconds", "300", "--strategy", "pageable")


@pytest.fixture(scope="module")
def nsys() -> Iterator[Nsys]:
    """Of several nsys that start at once, one may fail (`sem_open`): one module of tests has the machine."""
    lock = os.open(tempfile.gettempdir(), os.O_RDONLY)  # another user could not open a file of this one's
    fcntl.flock(lock, fcntl.LOCK_EX)
    yield find(Path(str(FOLDER)) / "nsys" / "target-linux-x64")
    os.close(lock)


@pytest.fixture(scope="module")
def profiled(nsys: Nsys, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("traced")
    options = ("--trace", "nsys", "--nsys", nsys.path, "--keep-nsys", "--out", "out", "--quiet")
    packages = f"{FOLDER}/nvtx:{REPOSITORY}"  # of which nvtx is one that this nsys understands
    done = advisor("profile", VECTOR_ADD, *QUICK, *options, cwd=folder, PYTHONPATH=packages)
    assert done.returncode == 0, done.stderr
    return folder / "out"


def test_the_profile_has_what_nsys_saw(profiled: Path, nsys: Nsys) -> None:
    trace = json.loads((profiled / "profile.json").read_text())["trace"]
    assert (trace["tool"], trace["reason"], trace["missing"]) == (nsys.name, "", [])
    (one,) = trace["strategies"]
    assert (one["strategy"], one["frames"]) == ("pageable", 5)
    steps = [f"{step['name']} {step['count']}" for step in one["ranges"]]
    assert steps == ["host:produce 5", "to-device 10", "device:add 5", "to-host 5", "host:consume 5"]
    assert one["activity"]["copies"] is None, "no GPU, so none was observed"
    labels = [span["label"] for span in one["timeline"]["spans"]]
    assert labels == ["host:produce", "to-device", "to-device", "device:add", "to-host", "host:consume"]


def test_a_report_that_was_kept_is_read_again_but_not_half_of_it(
    profiled: Path, nsys: Nsys, tmp_path: Path
) -> None:
    report = profiled / "traces" / "pageable.nsys-rep"
    done = advisor("trace", report, "--nsys", nsys.path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "pageable: 5 steady frames" in done.stdout
    assert "not observed: copies" in done.stdout
    whole = (profiled / "traces" / "pageable.nsys-rep").read_bytes()
    (tmp_path / "half.nsys-rep").write_bytes(whole[: len(whole) // 2])
    done = advisor("trace", "half.nsys-rep", "--nsys", nsys.path, cwd=tmp_path)
    assert done.returncode == 5
    assert "half.nsys-rep cannot be exported" in done.stderr


def test_an_nvtx_that_this_nsys_does_not_hear(nsys: Nsys, tmp_path: Path) -> None:
    import nvtx

    if nsys.version >= (2024,) or not hasattr(nvtx.get_domain("advisor"), "push_range"):
        pytest.skip("this pair understands one another")
    options = ("--trace", "nsys", "--nsys", nsys.path, "--out", "out", "--quiet")
    done = advisor("profile", VECTOR_ADD, *QUICK, *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    trace = json.loads((tmp_path / "out" / "profile.json").read_text())["trace"]
    assert trace["strategies"] == []
    assert "pip install 'nvtx<0.2.12'" in trace["reason"]
