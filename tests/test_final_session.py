"""The final with real processes on the CPU device: blocks of every contestant, and one that dies there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from running import MISBEHAVING, REPOSITORY, cpu_settings, eventually, is_gone

from advisor.measure.fork_server import ForkServer
from advisor.measure.jobs import BlockDone, FinalJob, FinalRound, Left, ReferenceRun
from advisor.measure.launcher import ProcessLauncher, ProcessSession
from advisor.measure.measurement import job_of
from advisor.measure.processes import WORKERS, fork_server
from advisor.profiles.figures import Block

BOTH = {"pageable": "pageable", "zero-copy": "zero-copy"}
VECTOR_ADD = REPOSITORY / "workloads" / "vector_add.py"


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with fork_server(WORKERS) as made:
        yield made


def final_job(directory: Path, file: Path, *assignments: str) -> FinalJob:
    base = job_of(cpu_settings(file, *assignments), "measure", "pageable", directory, "final")
    given = {"process": 0, "contestants": BOTH, "frames": 5, "block_seconds": 0.05, "compare": 4}
    return FinalJob(base=base, directory=str(directory / "final-0"), **given)


def check(directory: Path, file: Path, server: ForkServer, *assignments: str) -> None:
    """The reference run, whose results the final's are compared with."""
    asked = job_of(cpu_settings(file, *assignments), "reference", "pageable", directory, "reference")
    assert isinstance(ProcessLauncher(300, server=server)(asked).outcome, ReferenceRun)


def two_rounds(session: ProcessSession, seconds: float = 300) -> tuple[list[Block], Mapping[str, Left]]:
    """Its blocks, and who left; who did has no block in the second round. Each after the first has so many
    seconds."""
    blocks: list[Block] = []
    left: dict[str, Left] = {}
    with closing(session):
        assert session.ready()
        for number, order in enumerate((("pageable", "zero-copy"), ("zero-copy", "pageable"))):
            names = tuple(name for name in order if name not in left)
            for message in session.round(FinalRound(round=number, order=names, warm_frames=2)):
                if isinstance(message, BlockDone):
                    blocks.append(message.block)
                    session.timeout = seconds
                else:
                    assert isinstance(message, Left)
                    left[message.contestant] = message
            if any(gone.broken for gone in left.values()):
                break
    assert eventually(lambda: is_gone(session._process.pid))
    return blocks, left


@pytest.mark.parametrize("forked", [True, False], ids=["forked", "a process as any"])
def test_two_rounds_give_four_blocks(forked: bool, server: ForkServer, tmp_path: Path) -> None:
    check(tmp_path, VECTOR_ADD, server, "n=4096")
    job = final_job(tmp_path, VECTOR_ADD, "n=4096")
    blocks, left = two_rounds(ProcessSession(job, 99_999_999, server if forked else None))
    assert left == {}
    assert [(b.round, b.place, b.contestant) for b in blocks] == [
        (0, 0, "pageable"), (0, 1, "zero-copy"), (1, 0, "zero-copy"), (1, 1, "pageable"),
    ]  # fmt: skip
    for block in blocks:
        assert (block.process, block.frames, len(block.frame_seconds)) == (0, 5, 5)
        assert block.seconds == pytest.approx(sum(block.frame_seconds))
        assert set(block.host_seconds) == {"produce", "consume"}


@pytest.mark.parametrize(
    ("how", "broken", "message"),
    [
        ("raise", False, "ValueError: this frame is bad"),
        ("segfault", True, "the process was killed by SIGSEGV"),
        ("hang", True, "a block did not finish within 3 s"),
    ],
)
def test_who_fails_in_the_final_leaves_it(
    how: str, broken: bool, message: str, server: ForkServer, tmp_path: Path
) -> None:
    """Zero-copy alone: in the frame that is compared, or later."""
    given = (f"how={how}", "at=2", "only_shared=true")
    check(tmp_path, MISBEHAVING, server, "how=nothing")
    session = ProcessSession(final_job(tmp_path, MISBEHAVING, *given), 300, server)
    blocks, left = two_rounds(session, 3 if how == "hang" else 300)
    assert left.keys() == {"zero-copy"}
    assert left["zero-copy"].broken == broken
    assert message in left["zero-copy"].problem.message
    assert [block.contestant for block in blocks] == ["pageable"] * (1 if broken else 2)


def test_a_process_that_cannot_begin_is_not_ready(server: ForkServer, tmp_path: Path) -> None:
    with closing(ProcessSession(final_job(tmp_path, tmp_path / "none.py"), 30, server)) as session:
        assert not session.ready()
