"""What is recorded of an unchanged script: its lines, loops, frames and origins."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from ast import literal_eval
from contextlib import suppress
from copy import copy
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from recorded import Recording
from running import Command, advisor, eventually, missing

from advisor.measure.recording import assembling
from advisor.measure.recording.assembling import overheads
from advisor.measure.recording.calls import Calls, Gpu
from advisor.measure.recording.host_memory import Contents
from advisor.measure.recording.loops import FAST_ITERATIONS
from advisor.measure.recording.numba_calls import NumbaCalls
from advisor.measure.recording.records import Event
from advisor.measure.recording.running import OwnFiles
from advisor.profiles import reading
from advisor.profiles.crossings import Crossing, ScriptRun
from advisor.verdicts.ceilings import ceilings


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recording:
    return Recording(tmp_path, monkeypatch)


@pytest.fixture
def costly_looks(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks at bytes take so long that most crossings are only counted."""
    monkeypatch.setattr(Contents, "look", lambda *_: recording.clock.advance(0.01))


SCRIPTS = """
# epochs of training and validation
for epoch in range(4):
    for batch in range(5):  # 20 frames
        gpu.up()
        gpu.work()
    for batch in range(3):  # 12 frames
        gpu.up()
        gpu.wait()

# a loader whose workers take long to start
def batches():
    gpu.pause(5.0)
    yield from range(4)
for epoch in range(4):
    for batch in batches():  # 16 frames
        gpu.up()
        gpu.work()

# a loop in a function called in a loop
def step():
    for k in range(3):
        gpu.up()
    gpu.work(1.0)
    gpu.down()
for frame in range(6):  # 6 frames
    step()

# callbacks of a message
def publish():
    for callback in (gpu.up,):
        callback()
        gpu.work(1.0)
for frame in range(6):  # 6 frames
    publish()

# recursion
def visit(depth):
    for child in range(2 if depth else 0):  # 14 frames
        gpu.up()
        visit(depth - 1)
visit(3)

# eight tensors within a frame
for frame in range(4):  # 4 frames
    for tensor in range(8):
        gpu.up()
    gpu.work(1.0)
    gpu.wait()

# tensors that take half of a frame
for frame in range(4):  # 4 frames
    for tensor in range(8):
        gpu.up()
    gpu.up(seconds=0.008)

# nothing repeats
for n in range(2):
    gpu.up()
gpu.down()

# a solver run for three systems that take long to set up
def solve():
    for step in range(60):  # 180 frames
        gpu.work()
        gpu.wait()
for system in range(3):
    gpu.pause(5.0)
    gpu.up()
    solve()
    gpu.down()

# ten frames of eight tiles
for frame in range(10):  # 10 frames
    gpu.up()
    gpu.pause(5.0)
    for tile in range(8):
        gpu.work()
        gpu.wait()

# the same function without the GPU and with it
def solve(on_gpu):
    for step in range(70):  # 140 frames
        if on_gpu:
            gpu.work()
            gpu.wait()
for trial in range(2):
    solve(False)
    solve(True)
solve(False)
def step(on_gpu):
    for step in range(4):  # 4 frames
        if on_gpu:
            gpu.wait()
step(False)
step(True)
step(False)

# buffers are locked, filled and waited for one by one
for n in range(8):
    gpu.lock()
for n in range(8):  # 8 frames
    gpu.lock()
    gpu.up()
for n in range(8):
    gpu.synchronize()
for n in range(8):  # 8 frames
    gpu.work()
    gpu.synchronize()

# loops of all forms, each in its own right
n = 0
while True:  # 5 frames
    gpu.up()
    gpu.work()
    n += 1
    if n == 5: break
def f(x):
    gpu.up()
r = [f(x) for x in range(4)]  # 4 frames
def batches():
    for k in range(5):
        gpu.up()
        yield k
for batch in batches():  # 5 frames
    gpu.work()
    gpu.wait()
def frame(n):
    try:
        gpu.up()
        if n % 2: raise ValueError
        gpu.work()
    except ValueError:
        return
for n in range(6):  # 6 frames
    frame(n)
def search():
    for n in range(100):  # 5 frames
        gpu.up()
        gpu.work()
        if n == 4: return n
search()
def more():
    gpu.wait()
    return n < 5
n = 0
while more():  # 5 frames
    gpu.up()
    n += 1
"""
"""Each with a title, and behind the loops that are its frames how many these are."""


def titled(text: str) -> dict[str, str]:
    """Scripts by the comment above each."""
    return dict(re.findall(r"^# (.+)\n((?:.|\n)+?)(?=^# |\Z)", text, re.MULTILINE))


SHAPES = titled(SCRIPTS)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_frame_is_the_loop_that_repeats_what_crosses(shape: str, recording: Recording) -> None:
    recording.run(SHAPES[shape])
    expected = [re.search(r"# (\d+) frames", text) for text in SHAPES[shape].splitlines()]
    frames = {number: int(each[1]) for number, each in enumerate(expected, 1) if each}
    assert {loop.place.line: loop.frames for loop in recording.record().loops} == frames


LIBRARY = "import cupy, sys\n"


def profiled(folder: Path, source: str, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """`advisor profile s.py` in a process of its own; what the script prints comes on stderr."""
    (folder / "s.py").write_text(LIBRARY + source, encoding="utf-8")
    given = ("profile", "s.py", "--no-gpu", *words)
    if not stdin:
        return advisor(*given, cwd=folder)
    command = [sys.executable, "-m", "advisor", *given]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, input=stdin)


def script_of(folder: Path) -> ScriptRun:
    script = reading.load(folder / "advisor-report").script
    assert script is not None
    return script


def test_a_script_that_raises_has_its_own_traceback_and_a_page_of_what_came_before(tmp_path: Path) -> None:
    source = """x = cupy.asarray([1.0, 2.0])
import logging, os, threading; logging.basicConfig(); logging.captureWarnings(True); os.chdir('/')
def wrong(*how): x.astype(complex).astype(float); cupy.asarray(*how, dtyp=1)
thread = threading.Thread(target=wrong, args=(x,)); thread.start(); thread.join()
try: wrong()
except TypeError: logging.exception('no 7', stack_info=open(__file__).closed)
try: hasattr(cupy, 'asaray') or x.set()
except TypeError as error: wrong(x)
"""
    done = profiled(tmp_path, source)
    assert done.returncode == 3
    places = re.findall(r'File "(?!/.*/threading.py)(.+), line (.+), in ', done.stderr)
    assert places == [(f'{tmp_path}/s.py"', line) for line in "464894"]
    ends = "error: the script ended with exit code 1: TypeError: asarray of CuPy 14"
    assert not missing(done.stderr, ends, f"{tmp_path}/s.py:4: ComplexWarning")
    (crossing,) = script_of(tmp_path).crossings
    assert (crossing.place.line, crossing.place.text) == (2, "x = cupy.asarray([1.0, 2.0])")


def test_a_script_runs_as_python_runs_it_and_its_processes_are_told(tmp_path: Path) -> None:
    """The recorder's weak references to copied arrays do not keep these from being resized; views do."""
    source = """
import multiprocessing, os, pathlib, subprocess
import numpy as np
LIST = [1]
def total(queue):
    queue.put(float(cupy.asarray([1.0, 2.0]).sum()))
if __name__ == '__main__':
    print(input(), sys.argv[1:], len(sys.modules['__main__'].LIST))
    for number in range(40):
        a = np.ones((8, 1024))
        out = cupy.asarray(a).get()
        a.resize((4, 1024))
        out.resize(2, 1024)
        view = a[0]
        try: a.resize(1, 1024)
        except ValueError: pass
    assert (a.shape, out.shape) == ((4, 1024), (2, 1024))
    subprocess.run(['true'])
    subprocess.run(pathlib.Path('/bin/echo'))
    os.system('uname > /dev/null')
    for none in ([], ''):
        try: subprocess.Popen(args=none)
        except (IndexError, OSError) as error: print(type(error).__name__)
    subprocess.run(args=['date'])
    os.system(command='pwd')
    for method in ('fork', 'spawn', 'forkserver'):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        child = context.Process(target=total, args=(queue,))
        child.start()
        print(method, queue.get(timeout=300))
        child.join()
        assert child.exitcode == 0
    if not os.fork(): sys.exit(4)
    print('forked', os.waitstatus_to_exitcode(os.wait()[1]))
"""
    done = profiled(tmp_path, source, "-q", "--", "--name", "x", stdin="typed\n")
    assert done.returncode == 0, done.stderr
    assert not missing(
        done.stderr, "typed ['--name', 'x'] 1", "fork 3.0", "spawn 3.0", "forkserver 3.0", "forked 4"
    )
    assert "typed" not in done.stdout
    script = script_of(tmp_path)
    assert [(each.place.line, each.count) for each in script.crossings] == [(12, 40), (12, 40)]
    unseen = " ".join(script.unseen)
    starts = (f"starts: {name}" for name in ("true", "echo", "uname", "date", "pwd"))
    assert not missing(unseen, *starts, "multiprocessing (3 times)", "a child that the script forks")


def test_ctrl_c_ends_the_script_and_the_page_is_written(tmp_path: Path) -> None:
    source = """
import signal, time
assert signal.signal(signal.SIGINT, signal.default_int_handler) is signal.default_int_handler
try:
    for n in range(9):
        cupy.asarray([1.0, 2.0])
        if n == 3:
            open('begun', 'w')
            time.sleep(600)
finally:
    print('cleaned up')
"""
    (tmp_path / "s.py").write_text(LIBRARY + source)
    command = [sys.executable, "-m", "advisor", "profile", "s.py", "--no-gpu", "--try", "--apply"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert eventually(lambda: (tmp_path / "begun").exists() or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=300)[1]
    assert process.returncode == 130, said
    assert "cleaned up" in said
    assert re.search(r'File ".+/s\.py", line \d+, in <module>\n(?s:.*)\nKeyboardInterrupt\n', said)
    script = script_of(tmp_path)
    assert (script.exit_code, script.error) == (130, "KeyboardInterrupt")
    assert script.loops[0].frames >= 3


def test_ctrl_c_while_the_page_is_made_says_where_the_record_is(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("s.py").write_text("import cupy\ncupy.ones(3).get()\n")
    monkeypatch.setattr("advisor.report.markdown.render", Mock(side_effect=KeyboardInterrupt))
    said = command("profile", "s.py", "--no-gpu")
    assert (said.code, "next: advisor report advisor-report/profile.json" in said.err) == (130, True), (
        said.err
    )


def test_a_script_that_leaves_no_record_says_so(tmp_path: Path) -> None:
    done = profiled(tmp_path, "import os\nos.abort()\n")
    assert done.returncode == 3
    assert "nothing was recorded of s.py: the process was killed by SIGABRT" in done.stderr
    interrupts = "os.kill(os.getppid(), signal.SIGINT)\nwhile True: time.sleep(0.1)\n"
    source = f"import os, signal, time\nsignal.signal(signal.SIGINT, lambda *_: os._exit(0))\n{interrupts}"
    done = profiled(tmp_path, source, stdin=" ")
    assert (done.returncode, done.stderr) == (130, "interrupted: nothing was measured\n")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--frame", "2"), 2, "there is no loop in line 2 of s.py\n  next: A loop is in line 3."),
        (("--frame", "t.py:2"), 2, "t.py does not exist"),
        (("--frame", "x"), 2, "--frame x is not known"),
        (("--strategy", "pinned"), 2, "applies only to workloads"),
    ],
)
def test_a_wrong_option_for_a_script(words: tuple[str, ...], code: int, says: str, command: Command) -> None:
    Path("s.py").write_text(LIBRARY + "x = 1\nfor n in range(3):\n    pass\n")
    said = command("profile", "s.py", "--no-gpu", *words)
    assert (said.code, says in said.err) == (code, True), said.err


def test_a_module_run_with_m_has_its_loops_in_its_own_files(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack/__init__.py").write_text("")
    (tmp_path / "pack/inner.py").write_text(
        "import cupy\ndef go():\n    for n in range(3):\n        cupy.asarray([1.0, 2.0])\n"
    )
    (tmp_path / "pack/__main__.py").write_text(
        "import sys\nfrom pack import inner\n"
        "for epoch in range(2):\n    inner.go()\nfor n in range(4):\n    pass\nsys.exit(len(sys.argv) - 2)\n"
    )
    empty = "Frames: the loop of --frame 5, in which nothing crosses"
    for more, place, unseen in (
        ((), ("pack/inner.py", 3, 6), ()),
        (("--frame", "5"), ("pack/__main__.py", 5, 1), (empty,)),
    ):
        done = advisor("profile", "-m", "pack", "--no-gpu", *more, "--", "x", cwd=tmp_path)
        assert done.stdout.startswith("-m pack x: "), done.stderr
        run = reading.load(tmp_path / "advisor-report")
        assert run.workload.name == "pack", "what compare knows it by"
        assert [(loop.place.file, loop.place.line, loop.frames) for loop in run.script.loops] == [place]
        assert run.script.unseen == unseen


def test_a_package_run_with_m_is_the_users_though_it_is_installed() -> None:
    file = Path("/opt/python/site-packages/pack/__main__.py")
    assert [str(file) in OwnFiles.of(file, module) for module in ("pack", "")] == [True, False]


def line(recording: Recording, number: int, named: int | None = None) -> Crossing:
    (crossing,) = [each for each in recording.record(named).crossings if each.place.line == number]
    return crossing


@pytest.mark.parametrize(("behind", "seconds"), [("gpu.finish(2.0)\n", 0.401), ("gpu.pause(2.0)\n", 0.001)])
def test_a_loop_that_only_issues_copies_takes_the_wait_behind_it(
    behind: str, seconds: float, recording: Recording
) -> None:
    recording.run(f"for n in range(5):\n    gpu.issue(0.4)\n{behind}")
    (loop,) = recording.record().loops
    assert loop.frame_seconds == pytest.approx(seconds)


def test_the_ceiling_is_what_removing_the_copies_by_hand_gives(recording: Recording) -> None:
    """Copies of known times, every fifth slower, of which the recorder times a sample."""
    source = "for n in range({}):\n{}    gpu.work(2e-3)\n"
    copies = "    gpu.up(seconds=4e-4 + 2e-4 * (n % 5 == 0))\n    gpu.down(seconds=3e-4)\n"
    begin = recording.clock.now
    recording.run(source.format(2000, copies))
    between = recording.clock.now
    made = recording.record()
    recording.run(source.format(2000, ""), "removed.py")
    removed = ((between - begin) - (recording.clock.now - between)) / 2000
    run = ScriptRun(seconds=between - begin, overhead_seconds=0.0, loops=made.loops, crossings=made.crossings)
    (ceiling,) = ceilings(run)
    assert ceiling.seconds == pytest.approx(removed, rel=0.05)


def test_a_named_loop_is_the_frame(recording: Recording) -> None:
    recording.run(SHAPES["eight tensors within a frame"])
    (loop,) = recording.record(named=2).loops
    assert (loop.place.line, loop.frames, loop.named) == (2, 32, True)
    assert line(recording, 3, named=2).frames == 32
    assert line(recording, 5, named=2).loop is None


COUNTED = {
    "alike": ("gpu.up()", [("upload", 3000, 24_000)]),
    "of two sizes": ("gpu.up(large if n % 701 == 0 else None)", [("upload", 3000, 24_000 + 72 * 4)]),
    "of a size from then on": ("gpu.up(large if n > 2000 else None)", [("upload", 3000, 24_000 + 72_000)]),
    "in a function of two callers": ("send() if n % 2 else send()", [("upload", 3000, 24_000)]),
    "of two kinds": (
        "gpu.up() if n % 701 else gpu.down()", [("upload", 2996, 23_968), ("download", 4, 32)]
    ),
    "but for those that fail": ("send('late' if n % 10 == 0 else 0.001)", [("upload", 2700, 21_600)]),
    "of sizes that are others' before types are converted": (
        "gpu.up()\n    gpu.up(levels[n % 3], factor=2)", [("upload", 3000, 24_000), ("upload", 3000, 56_000)]
    ),
    "in more stacks than are remembered": (
        "exec(compile('gpu.down()', file, 'exec')); gpu.up()",
        [("download", 3000, 24_000), ("upload", 3000, 24_000)],
    ),
}  # fmt: skip


@pytest.mark.usefixtures("costly_looks")
@pytest.mark.parametrize("case", COUNTED)
def test_crossings_that_are_only_counted_are_all_counted(
    case: str, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("advisor.measure.recording.loops.MOST_STACKS", 2000)
    calls, expected = COUNTED[case]
    recording.run(
        "file = (lambda: 0).__code__.co_filename\n"
        "large, levels = np.zeros(20, np.int32), [np.zeros(size, np.int32) for size in (1, 2, 4)]\n"
        "def send(seconds=0.001):\n"
        "    try: gpu.up(seconds=seconds)\n"
        "    except TypeError: pass\n"
        "for n in range(1, 3001):\n"
        f"    {calls}\n"
        "    gpu.pause(0.01)\n"
    )
    lines, recorder = recording.record().crossings, recording.recorder
    (loop,) = recording.record().loops
    assert [(line.kind, line.count, line.bytes) for line in lines] == expected
    assert (loop.frames, [line.frames for line in lines]) == (3000, [count for _, count, _ in expected])
    assert sum(record.repeats for record in recorder.records.values()) > 2000
    assert len(recorder._lines._sites) <= 2000
    assert recorder.depth.value == 0


@pytest.mark.usefixtures("costly_looks")
def test_a_thread_ends_that_a_line_is_alike_while_another_copies_there(recording: Recording) -> None:
    recording.run(
        "class Late(float):\n"
        "    def __radd__(self, now):\n"
        "        gpu.thread(copy, gpu.down, 1, 0.001)\n"
        "        return now + 0.001\n"
        "def copy(call, times, seconds):\n"
        "    for n in range(times):\n"
        "        call(seconds=seconds if n == times - 2 else 0.001)\n"
        "gpu.thread(copy, gpu.up, 1000, Late())\n"
    )
    lines = [(line.kind, line.count, line.bytes) for line in recording.record().crossings]
    assert lines == [("upload", 1000, 8000), ("download", 1, 8)]


def test_threads_that_reach_a_line_at_the_same_time_are_all_counted(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [lambda: recording.gpu.run()]

    def late(event: Event) -> Event:
        if others:
            others.pop()()
        return copy(event)

    monkeypatch.setattr("advisor.measure.recording.recorder.copy", late)
    recording.run(
        "def work():\n"
        "    for n in range(5):\n"
        "        gpu.up()\n"
        "gpu.run = lambda: gpu.thread(work)\ngpu.run()\n"
    )
    assert [line.count for line in recording.record().crossings] == [10]


def test_marks_are_read_once_by_threads_that_read_at_the_same_time(recording: Recording) -> None:
    """CUDA events are reused once they are read: of one in use again there is no time."""
    recording.run("for n in range(10):\n    gpu.issue(n)\n")
    (record,) = recording.recorder.records.values()
    read: list[float] = []

    def between(_: Any, end: Any) -> float:
        read.append(end[1].seconds)
        recording.recorder.read_marks(record)
        return read[-1]

    recording.recorder.readers["cupy"] = between
    recording.recorder.read_marks(record)
    assert read == list(range(10))
    assert sum(times.stream_seconds for times in record.times) == sum(range(10))


def test_frames_without_a_line_do_not_limit_what_memory_can_change(recording: Recording) -> None:
    recording.run(
        "for number in range(2000):\n"
        "    if number % 10 == 0:\n"
        "        gpu.down(seconds=0.009)\n"
        "    gpu.pause(0.0002)\n"
    )
    (ceiling,) = ceilings(recording.record())
    assert ceiling.copy_seconds == pytest.approx(0.0009)


def test_shares_are_of_the_same_frames_where_these_differ(recording: Recording) -> None:
    """The slow ones are those timed after the first 256: in a median of all frames, copies would be 100 %."""
    recording.run(
        "for number in range(1, 1001):\n"
        "    if number == 200:\n"
        "        gpu.pause(9.0)\n"
        "    gpu.down(seconds=0.009 if number % 13 == 0 else 0.001)\n"
        "    gpu.pause(0.002)\n"
    )
    run = recording.record()
    (loop,) = run.loops
    timed = [0.009 if n % 13 == 0 else 0.001 for n in range(2, 1001) if n <= 256 or n % 13 == 0]
    assert loop.frame_seconds == pytest.approx(fmean(timed) + 0.002, rel=0.01)
    assert loop.untimed_seconds == pytest.approx(0.0029)  # less what counting takes
    assert run.crossings[0].host_seconds == pytest.approx(1000 * fmean(timed), rel=0.01)
    assert loop.frame_seconds
    assert loop.interval_seconds
    low, high = loop.interval_seconds
    assert low < loop.frame_seconds < high


def test_times_are_of_steady_frames(recording: Recording) -> None:
    """The first frame compiles: its call takes 1 s, later ones 2 ms."""
    recording.run("for n in range(100):\n    gpu.up(seconds=0.002 if n else 1.0)\n    gpu.work(0.008)\n")
    found, (loop,) = line(recording, 2), recording.record().loops
    assert (loop.frame_seconds, loop.seconds) == pytest.approx((0.010, 1.998))
    assert (found.host_seconds, found.stream_seconds) == pytest.approx((0.2, 0.2))
    assert found.kernel_seconds == pytest.approx(0, abs=1e-9)
    assert found.timed == 16 + 6


def test_overhead_is_of_noting_launches_heads_and_allocations(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what was noted, what was only counted, and all else at what one takes here."""
    monkeypatch.setattr(assembling, "wrapper_costs", lambda _: (3.0, 2.0, 1.0))
    monkeypatch.setattr(assembling, "head_cost", lambda: 5.0)
    monkeypatch.setattr(recording.origins, "cost", lambda: 70.0)
    recording.run("for n in range(10):\n    gpu.up()\n    gpu.work(1e3)\ngpu.work(1.0)\n")
    recorder, (loop,) = recording.recorder, recording.loops.all
    (record,) = recorder.records.values()
    record.count, record.repeats, record.detailed, record.overhead = 100, 40, 10, 30.0
    record.noted, record.noting = 20, 80.0
    recorder.launch_overhead.update({loop: 6.0, None: 9.0})
    launches = recorder.launches
    noted, heads = 30 + (60 - 10) * 4 + 60 * 3 + 40 * 1, 10 * 5
    overhead = overheads(recorder, recording.loops, recording.origins, seconds := 20_000.0)
    others = launches[loop] * 2 + heads + 70 * loop.seconds / seconds
    assert overhead(loop) == pytest.approx((noted + 6 + others, (100 + others) / 10))
    assert overhead(None)[0] == pytest.approx(noted + 9 + launches[None] * 2 + heads + 70)


def test_a_fast_loop_is_counted_without_its_head_until_something_crosses(recording: Recording) -> None:
    turns = 3 * FAST_ITERATIONS
    names = recording.run(
        f"for n in range({turns}):\n    pass\n    if n == {turns - 2}: gpu.up(); seen = __advisor__[0]\n"
    )
    (loop,) = recording.loops.all
    assert loop.turns == turns
    assert loop.called < FAST_ITERATIONS + 10
    assert names["seen"] == loop.head


def test_loops_that_are_compiled_are_left_alone(recording: Recording) -> None:
    recording.run(
        "def njit(f): return f\n@njit\ndef a():\n    for n in range(3): pass\n"
        "def b():\n    for n in range(3): pass\nc = njit(b)\n"
    )
    assert recording.loops.all == []


def test_a_file_too_deep_to_count(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "setrecursionlimit", lambda _: None)
    recording.run("for n in range(2): gpu.up()\nif gpu: pass\n" + "elif gpu: pass\n" * 900)
    assert (line(recording, 1).count, line(recording, 1).loop) == (2, None)
    assert recording.loops.uncounted == [str(recording.folder / "s.py")]


def test_line_numbers_and_results_stay(recording: Recording) -> None:
    source = """
r = [x for x in range(3)], {x: 1 for x in 'ab'}, {x for x in 'a'}, sum(x for x in range(4))
class A:
    t = 0
    for k in range(3):
        t += k
    else:
        t += 10
async def coroutine():
    return [x async for x in source()]
async def source():
    for k in range(2): yield k
import asyncio
r += (A.t, asyncio.run(coroutine()))
for x in (1, 2):
    try:
        1 / (x - 2)
    except ZeroDivisionError as error:
        at = error.__traceback__.tb_lineno
"""
    deep = f"\nif at: {'+'.join('1' * 1500)}\n" + "".join(f"elif at == {k}: pass\n" for k in range(1000))
    names = recording.run(source + deep)
    assert names["r"] == ([0, 1, 2], {"a": 1, "b": 1}, {"a"}, 6, 13, [0, 1])
    assert names["at"] == 17


LINES = """
# before the loop, twice in each frame, in every second one
gpu.up()  # loop=None, count=1, bytes=8, frames=0
for n in range(10):
    gpu.up()  # loop=0, count=10, bytes=80, frames=10
    gpu.up()  # count=10
    if n % 2: gpu.down()  # count=5, frames=5
# downloads that are kept, and of two sizes; a name may hold one until the next is there
kept, last = [], None
for n in range(8):
    h = np.zeros(1); gpu.down(h); kept.append(h)  # origin.kept=True, varies=False
for n in range(8):
    before = last
    last = np.zeros(1 + (n == 5)); gpu.down(last)  # origin.kept=False, varies=True
# what nothing reads before it is overwritten
for n in range(6):
    gpu.up(device=1)  # unread=5
    gpu.up(device=2)  # unread=None
    gpu.work(0.01, 2)
# the line that a wait holds back
for n in range(4):
    gpu.wait()  # holds_back.line=4
    x = 1
    gpu.work()
# the line that made an array
one, four, small = np.zeros(5000), [np.ones(5000) for _ in range(4)], np.zeros(8)
np.save("x.npy", np.ones(5000))
file = np.load("x.npy")
for n in range(9):
    a = np.ones(5000)
    gpu.up(one)  # origin.kind='numpy', origin.place.line=1, origin.each_frame=False
    gpu.up(four[n % 4])  # origin.place.line=1, origin.each_frame=False
    gpu.up(a[1:])  # origin.place.line=5, origin.each_frame=True
    gpu.up(small)  # origin.place=None, origin.each_frame=None
gpu.up(file)  # origin.kind='numpy', origin.place.line=3, origin.each_frame=None
gpu.up(np.frombuffer(bytes(8000)))  # origin.kind='bytes', origin.place=None
import mmap
gpu.up(np.frombuffer(mmap.mmap(-1, 8000)))  # origin.kind='mmap', origin.place=None
# bytes that cross again: the same, new ones, those that came back in this frame and earlier
same, old = np.arange(100), []
for n in range(9):
    gpu.up(same)  # repeats.checked=9, repeats.same=8, repeats.returned=0, repeats.false_share=0
    gpu.up(np.full(100, n))  # repeats.checked=9, repeats.same=0, repeats.returned=0
    a = np.full(100, n + 0.5)
    gpu.down(a)
    old.append(a)
    gpu.up(a)  # repeats.same=0, repeats.returned=9, repeats.latest=9
    gpu.up(old[max(0, n - 2)])  # repeats.same=2, repeats.returned=9, repeats.latest=1
# a large array, looked at as a whole
a = np.zeros(1 << 20, np.uint8)
for n in range(3):
    a[0] = n; gpu.pause(60); gpu.up(a)  # repeats.complete=True, repeats.compared=2, repeats.same=0
# a large array, then looked at in part: the change lies between the blocks
a = np.zeros(1 << 20, np.uint8)
for n in range(6):
    a[0] = n; gpu.pause(60)
    gpu.up(a)  # repeats.complete=False, repeats.compared=4, repeats.same=2, repeats.false_share=0.96875
# without a GPU, every byte is compared and nothing has a time
a = np.zeros(1 << 20)
for n in range(40):
    a[9] = n > 30; gpu.up(a)  # repeats.complete=True, repeats.compared=39, repeats.same=38, host_seconds=None
"""


@pytest.mark.parametrize("case", titled(LINES))
def test_what_is_told_of_a_line(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands behind the line."""
    monkeypatch.chdir(tmp_path)
    recording = Recording(tmp_path, monkeypatch, has_gpu=(has_gpu := "without a GPU" not in case))
    recording.run(source := titled(LINES)[case])
    assert has_gpu or {loop.frame_seconds for loop in recording.record().loops} == {None}
    for number, text in enumerate(source.splitlines(), 1):
        fields = dict(field.split("=") for field in text.partition("  # ")[2].split(", ") if field)
        expected = {name: literal_eval(value) for name, value in fields.items()}
        found = line(recording, number) if fields else None
        assert {name: attrgetter(name)(found) for name in fields} == expected


def test_threads_are_recorded_and_their_allocations_told_as_unseen(recording: Recording) -> None:
    names = recording.run("def go():\n    for n in range(3): gpu.up(np.ones(5000))\ngpu.thread(go)\n")
    names["go"]()  # as a thread that goes on once the script is over
    assert (line(recording, 2).count, recording.loops.all[0].turns) == (3, 3)
    assert any("other threads" in each for each in recording.recorder.unseen())


class _Out:
    """An argument of a kernel as new versions of numba-cuda pass it."""

    copy_input = False

    def __init__(self, value: Any) -> None:
        self.value = value

    def to_device(self, after: list[Any], stream: Any = 0) -> str:
        after.append(lambda: "back")
        return "device"


class BlockThread(threading.Thread):
    """As the simulator's; it ends by itself only where a test failed."""

    def run(self) -> None:
        with suppress(SystemExit):
            for _ in range(2000):
                time.sleep(0.01)


def test_threads_of_a_kernel_end_when_its_time_is_over(recording: Recording) -> None:
    numba, thread = NumbaCalls(), BlockThread(daemon=True)
    numba.watch(Calls("numba", recording.recorder, Gpu()), recording.recorder)
    numba._left = 0.05

    def run(seconds: float) -> None:
        thread.start()
        thread.join(seconds)

    numba._run_block(run, 15.0)
    assert not thread.is_alive()
    assert numba._left <= 0
    numba._run_block(lambda: pytest.fail("there is no time left"))


class _InOut(_Out):
    copy_input = True


def test_host_arguments_of_numba_kernels_cross_as_their_hints_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Recording(tmp_path, monkeypatch, has_gpu=False)
    numba, given = NumbaCalls(), type("In", (_Out,), {"to_device": _Out.to_device})
    hints = SimpleNamespace(In=given, Out=_Out, InOut=_InOut)
    numba.watch(Calls("numba", recording.recorder, Gpu()), recording.recorder)
    numba.arguments(hints)
    recording.recorder.readers["numba"] = lambda begin, end: 0.0

    def launch(*arguments: _Out) -> None:
        after: list[Any] = []
        assert [each.to_device(after) for each in arguments] == ["device"] * len(arguments)
        assert [each() for each in after] == ["back"] * len(arguments)

    recording.gpu.launch, recording.gpu.hints = launch, hints
    recording.run(
        "gpu.launch(gpu.hints.In(gpu.host), gpu.hints.InOut(gpu.host))\ngpu.launch(gpu.hints.Out(gpu.host))\n"
    )
    size = recording.gpu.host.nbytes
    rows = [(each.place.line, each.kind, each.count, each.bytes) for each in recording.record().crossings]
    assert rows == [(1, "upload", 2, 2 * size), (1, "download", 1, size), (2, "download", 1, size)]
