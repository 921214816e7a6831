"""Options of the test run, and what its processes inherit."""

from __future__ import annotations

import faulthandler
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from rendering import Accepted
    from running import Command

SLOW = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}  # a busy machine is no failure
settings.register_profile("same-every-time", derandomize=True, max_examples=50, **SLOW)
settings.register_profile("fuzz", print_blob=True, **SLOW)
settings.load_profile("same-every-time")
with suppress(ImportError, AttributeError):  # else examples hang on which modules are imported by then
    from hypothesis.internal.conjecture import providers as own

    none, found = own._local_constants, own._get_local_constants
    own._get_local_constants = lambda *of: none if settings.default.derandomize else found(*of)

# Tests run in more processes than there are processors; each takes one.
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))
# Hundreds of processes import the package: compiled once, for all of them, outside the checkout.
BYTECODE = "PYTHONPYCACHEPREFIX"
OWN_BYTECODE = BYTECODE not in os.environ
if OWN_BYTECODE:
    os.environ[BYTECODE] = tempfile.mkdtemp(prefix="advisor-tests-")
for unwanted in ("PYTHONDONTWRITEBYTECODE", "COLUMNS"):
    os.environ.pop(unwanted, None)
# Except what pytest itself imports, which is compiled once for all runs: most of the time of collecting.
sys.dont_write_bytecode = False
if Path(sys.pycache_prefix or "").name.startswith("advisor-tests-"):
    sys.pycache_prefix = None
# A shell starts what runs in its background without Ctrl-C; the programs that are interrupted here need it.
signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:  # under nohup, and commands would inherit that
    signal.signal(signal.SIGHUP, lambda *_: None)


def pytest_xdist_auto_num_workers() -> int:
    """Two more than processors: tests wait for what hangs or ends (387 s on two cores; one more: 432 s)."""
    return len(os.sched_getaffinity(0)) + 2


PYTORCH = ("frameworks", "torch_operations", "trials", "starters", "planted_races", "script_records")
PYTORCH += ("wrong_programs", "field_workloads")
"""Files with tests that import PyTorch, or fork processes from one that has it: seconds, once for all."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those come first, all in one process."""
    items.sort(key=lambda item: item.path.stem.removeprefix("test_") not in PYTORCH)


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was imported stays, so that no collection of garbage, as before measuring, walks it again. No test
    runs a program for another of its name and size, written in the same second."""
    gc.freeze()
    sys.dont_write_bytecode = True


MOST_SECONDS = 1200
"""Of a test. One that never ends takes its process with it, which is a failure, in place of the whole run."""


def pytest_configure(config: pytest.Config) -> None:
    config.stderr = os.dup(2)  # during tests 2 is the file that captures their output


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """A test that takes longer shows where it stands, and ends. What libraries that it imported and the tests
    of its file keep is walked no more, as above: the trees of all our modules took 77 s of other tests."""
    faulthandler.dump_traceback_later(MOST_SECONDS, exit=True, file=item.config.stderr)
    before = len(sys.modules)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
        if len(sys.modules) > before + 20 or nextitem is None or nextitem.path != item.path:
            gc.collect()
            gc.freeze()


def pytest_unconfigure(config: pytest.Config) -> None:
    if OWN_BYTECODE:
        shutil.rmtree(os.environ[BYTECODE], ignore_errors=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--accept", action="store_true", help="write what the reports look like now to tests/golden"
    )


@pytest.fixture(scope="session", autouse=True)
def a_short_look_at_the_machine() -> Iterator[None]:
    """How busy others are is looked at for a fifth of a second in each profile: here for a tick or two."""
    from advisor.devices import environment

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "_LOOK_SECONDS", 0.02)
        yield


@pytest.fixture(scope="session", autouse=True)
def nothing_opened_for_a_parent() -> Iterator[None]:
    """What a worker opens until it ends, for its parent and for its last words, would stay open in pytest."""
    from advisor.measure import final_worker, worker

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "_SPARE", 0)
        for module in (worker, final_worker):
            patch.setattr(module, "tell_where_on_request", lambda directory: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def scripts_in_forked_workers() -> None:
    """Those of commands in this process: each would start an interpreter."""
    from tests.forking import fork_scripts, server

    fork_scripts(server)


@pytest.fixture(scope="session", autouse=True)
def pages_of_this_process_uncounted() -> Iterator[None]:
    """The kernel takes 10 ms to list those of this large process, for each job that is done in it."""
    from advisor.measure import footprint

    field, huge = footprint._field, footprint._huge_bytes
    own = Path("/proc/self")

    def resident(path: Path, name: str) -> int | None:
        cheap = path == own / "smaps_rollup"
        return field(own / "status", "VmRSS") if cheap else field(path, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(footprint, "_field", resident)
        patch.setattr(
            footprint, "_huge_bytes", lambda spans, smaps: 0 if smaps == own / "smaps" else huge(spans, smaps)
        )
        yield


@pytest.fixture
def all_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process results of all first frames are compared, however long they take: it may be busy."""
    from advisor.measure import tasks

    monkeypatch.setattr(tasks, "comparing_seconds", lambda job: 600.0)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """`advisor ...` in this process and an empty folder."""
    from running import Command

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return Command(monkeypatch, capsys)


@pytest.fixture
def accepted(request: pytest.FixtureRequest) -> Accepted:
    """Compares a text with that file of tests/golden, which `--accept` writes."""

    def compare(now: str, name: str) -> None:
        path = Path(__file__).parent / "golden" / name
        if request.config.getoption("--accept"):
            path.write_text(now, encoding="utf-8")
        assert now == path.read_text(encoding="utf-8"), "look at what changed, then run: make accept"

    return compare


@pytest.fixture
def constants_as_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's constants as read, for arithmetic by hand: fitted ones move with their cases."""
    # Not above, where the settings of this process are not yet made.
    from left_out import with_values

    from advisor.model import machines

    priors = {
        (i, name): {"value": figure.prior}
        for i, layer in enumerate(machines.defaults().layers)
        for name, figure in layer.figures.items()
        if figure.prior
    }
    as_read = with_values(machines.defaults(), priors)
    monkeypatch.setattr(machines, "defaults", lambda: as_read)
