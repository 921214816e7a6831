"""What rules say of a script's lines: each with a run that fires it and one close to it that must not."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from builders import altered
from judging import figures
from rendering import Accepted
from script_runs import (
    DOWNLOAD,
    FRAMES,
    MADE,
    UPLOAD,
    download,
    lock,
    place,
    played,
    repeats,
    script_run,
    upload,
    wait,
)

from advisor.devices.catalogue import load
from advisor.devices.entries import CatalogueEntry
from advisor.model.machines import Machine
from advisor.model.simulate import predict_crossings
from advisor.profiles.conclusions import PAGE_LOCKED, Advice, Preferences
from advisor.profiles.crossings import SHARED, Crossing, Origin, Place, ScriptRun, SourceFile
from advisor.rules.advise import advise_lines
from advisor.rules.lines import likely_seconds
from advisor.strategies.syntax import loader_lines
from advisor.verdicts.ceilings import ceilings, spared_seconds

CARD = load("rtx-2060")
TENSOR = altered(place(UPLOAD), "", text="x = x.to(dev, non_blocking=True)")
ASYNC: dict[str, Any] = {"place": TENSOR, "call": "Tensor.to", "library": "torch", "non_blocking": True}
PINNED = upload(memory="pinned")
SMALL = {"count": 32 * FRAMES, "bytes": 32 * FRAMES * 4096, "memory": "pinned"}
FRESH = altered(place(UPLOAD), "", text="p = cupyx.empty_pinned(shape)")
RETURNED = {"returned_from": place(DOWNLOAD)}


def repeating(*seen: dict[str, Any]) -> Any:
    """Uploads from page-locked memory of which so much was seen to repeat."""
    return tuple(altered(PINNED, "", repeats=repeats(**each)) for each in seen)


LINES: dict[str, tuple[Crossing, Crossing]] = {
    "pageable-transfer": (upload(), PINNED),
    "hidden-host-copy": (upload(staged=True), PINNED),
    "pageable-async-copy": (upload(**ASYNC), upload(**ASYNC, memory="pinned")),
    "small-transfers": (upload(**SMALL), upload(**{**SMALL, "bytes": 32 * FRAMES << 17})),
    "repeated-upload": repeating({"same": 19}, {"same": 18}),
    "round-trip": repeating({"returned": 20, "latest": 20, **RETURNED}, {"returned": 17, **RETURNED}),
    "unread-upload": (altered(PINNED, "", unread=FRAMES), altered(PINNED, "", unread=FRAMES // 3)),
    "implicit-wait": (wait(host_seconds=FRAMES * 0.2e-3), wait(host_seconds=FRAMES * 0.05e-3)),
    "pin-per-frame": (lock(place=FRESH), lock(place=FRESH, count=FRAMES // 3, bytes=FRAMES)),
    "shared-dram-copy": (altered(PINNED, "", asynchronous=True), upload(memory="managed")),
}
"""What fires each rule, and what is close to it and must not."""


def run_of(line: Crossing) -> ScriptRun:
    return concluded(script_run(line, download(memory="pinned")))


def concluded(run: ScriptRun) -> ScriptRun:
    return run.model_copy(update={"ceilings": ceilings(run)})


def said(
    run: ScriptRun, wanted: Preferences | None = None, device: CatalogueEntry = CARD
) -> dict[str, Advice]:
    found = advise_lines(run, "Test card", device, (), wanted or Preferences())
    return {told.advice.rule: told.advice for told in found if told.crossing == 0}


RUNS = {rule: run_of(fires) for rule, (fires, _) in LINES.items()}
ON: dict[str, CatalogueEntry] = {"shared-dram-copy": load("orin-nano")}
"""For the examples of rules that speak of lines alone."""


BATCHES = """import torch
loader = DataLoader(data)
for x in loader:
    y = x.to(dev)
    z = torch.randn(f(8),).to(dev)
    w = made(8).to(dev)
"""
CHANGED = """for _ in range(500):
    gray[0] = 1
    d = cupy.asarray(gray)
    d *= 2
"""
HEAD = "import cupy\nimport numpy\ngray = numpy.zeros(4)\n"
MADE_THERE = Origin(kind="numpy", place=Place(file="camera.py", line=3, text=""))
KERNEL = """\
def fill(out, values):
    WRITES

def histogram(values):
    d = cuda.to_device(np.zeros(16))
    fill[1, 64](d, values)
    return d.copy_to_host()
"""
SCALER = "scaler = GradScaler()\n" * 12 + "scaler.step(optimizer)\n"
LONG_WAIT = FRAMES * 0.2e-3
ITEM: dict[str, Any] = {"call": "Tensor.item", "library": "torch"}
TO: dict[str, Any] = {"call": "Tensor.to", "library": "torch"}


def at(
    text: str, line: Crossing, source: str = "", *, number: int = 0, loop: int = 0, **fields: Any
) -> ScriptRun:
    """A run whose only other line is a download; the line has that text, in a file with that source.

    number: of the line, loop: of its loop's; the usual ones where they are 0.
    """
    numbered = {"line": number} if number else {}
    run = run_of(altered(line, "place", text=text, **numbered).model_copy(update=fields))
    if loop:
        run = altered(run, "loops.*.place", line=loop)
    sources = (SourceFile(file="camera.py", lines=tuple(source.splitlines())),)
    return run.model_copy(update={"sources": sources}) if source else run


def waiting(text: str, source: str = "", **fields: Any) -> ScriptRun:
    """A long wait in a line of that text."""
    return at(text, wait(host_seconds=LONG_WAIT, bytes=0), source, **fields)


def beside(text: str, other: str, **fields: Any) -> ScriptRun:
    """A wait in line 12, before another statement of the loop at line 11."""
    source = "\n".join([*["pass"] * 10, "while True:", f"    {text}", f"    {other}"])
    return waiting(text, source, number=12, **fields)


def unrepeated(line: Crossing) -> ScriptRun:
    run = script_run(line.model_copy(update={"loop": None}))
    return concluded(run.model_copy(update={"loops": (), "seconds": 1.0}))


def guarded(call: str, *unseen: str, **copy: bool) -> ScriptRun:
    """A wait before the host touches what a download may still write."""
    line = wait(call=call, bytes=0, host_seconds=LONG_WAIT)
    return concluded(script_run(line, download(memory="pinned", **copy), unseen=unseen))


def batch(number: int) -> ScriptRun:
    text = BATCHES.splitlines()[number - 1].strip()
    return at(text, upload(**TO), BATCHES, number=number, loop=3)


def in_page_locked_memory(**changed: Any) -> ScriptRun:
    """A tensor whose copy is waited for, 32 of them in a frame."""
    copies = {"count": 32 * FRAMES, "bytes": 32 * FRAMES << 17, "asynchronous": False}
    line = upload(**TO, memory="pinned", origin=None, **copies).model_copy(update=changed)
    source = "for x in loader:\n    y = x.to(dev)\n"
    return at("y = x.to(dev)", line, source, number=2, loop=1)


def compared(count: int, source: str) -> ScriptRun:
    line = upload(repeats=repeats(checked=count + 1, same=count))
    return at("d = cupy.asarray(gray)", line, source, number=3, loop=1)


def filled(writes: str) -> ScriptRun:
    """A constant that is uploaded for a kernel of the file."""
    source = KERNEL.replace("WRITES", writes)
    seen = repeats(checked=FRAMES, same=FRAMES - 1)
    line = upload(library="numba", call="cuda.to_device", repeats=seen)
    return at(source.splitlines()[4].strip(), line, source, number=5)


REPEATED = upload(repeats=repeats(same=19))
KEPT = Origin(kind="numpy", each_frame=True, kept=True)
THERE = Origin(kind="numpy", place=place(MADE), kept=True)
ATTRIBUTE = Place(file="camera.py", line=3, text="d = cupy.asarray(m)")
NUMBA: dict[str, Any] = {"call": "kernel argument", "library": "numba"}
PINNED_LINE = lock(call="Tensor.pin_memory", library="torch")
IGNORED = Preferences(ignored={"repeated-upload": "--ignore"})
ORIN = load("orin-nano")
CASES: dict[str, dict[str, ScriptRun]] = {
    "pageable-transfer": {
        "batches of a loader": batch(4),
        "made for the GPU": batch(5),
        "made by something else": batch(6),
        "arguments of a kernel": at("step[1, 128](positions, velocities)", upload(**NUMBA)),
        "written by the loop, some compared": compared(19, CHANGED),
        "made in a line of the file": at(
            "d = cupy.asarray(gray)", upload(origin=MADE_THERE), f"{HEAD}{CHANGED}", number=6, loop=4
        ),
        **{
            f"filled by {text}": at(text, download(call=call, origin=THERE), library=library)
            for text, call, library in (
                ("diff.get(out=image)", "ndarray.get", "cupy"),
                ("self.host.copy_(y)", "Tensor.copy_", "torch"),
                ("d.copy_to_host(h)", "DeviceNDArray.copy_to_host", "numba"),
            )
        },
        **{
            f"named by {text}": at(text, download())
            for text in ("h = d.get()", "mean = d.get().mean()", "h = pad( d.get( ) )")
        },
    },
    "implicit-wait": {
        "given to print": waiting("print('loss', m.item())", **ITEM),
        "an item guards as well": guarded("ndarray.item", asynchronous=True),
        "a mask": run_of(wait(host_seconds=LONG_WAIT, call="ndarray.__getitem__", bytes=0)),
        "a function that waits": waiting("h = cp.histogram(d, bins=9)[0]", call="cupy.histogram"),
        "a size of unique": waiting("cells, n = cp.unique(index, return_counts=True)", call="cupy.unique"),
        "an optimizer": waiting("scaler.step(optimizer)", SCALER, **ITEM),
        "a call over two lines": waiting(
            "loss = (model(x)", "\n" * 11 + "loss = (model(x)\n  .item())\n", **ITEM
        ),
        "within a distribution": waiting("m = Categorical(probs)", call="Tensor.__bool__", library="torch"),
        **{
            f"a number of {text}": waiting(text, call="Tensor.__float__", library="torch")
            for text in ("opt.step(closure)", "if a > 1:", "x = float(a)", "z = rows[a]")
        },
        "a copy that need not be waited for": in_page_locked_memory(),
        **{
            f"needed on the host by {use}": beside("n = int(x.sum())", use, call="ndarray.__int__", loop=11)
            for use in ("if n > 3: break", "total += n")
        },
        **{
            f"beside {clock}": beside("end.synchronize()", clock, call="Event.synchronize")
            for clock in ("t = time.perf_counter()", "times.append(begin.elapsed_time(end))")
        },
    },
    "": {
        "may guard memory": guarded("Stream.synchronize", asynchronous=True),
        "may guard shared memory": guarded("Stream.synchronize", f"{SHARED} (3 times)"),
        "little to gain": concluded(script_run(upload(host_seconds=FRAMES * 0.1e-3))),
        "an upload outside of a loop": unrepeated(upload()),
        "small uploads outside of a loop": unrepeated(upload(count=8 * FRAMES, bytes=64 * FRAMES)),
        "a tensor of numbers": at("r = torch.tensor([a], device=dev)", upload(call="torch.tensor")),
        "kept by the script": run_of(download(origin=KEPT)),
        "a mapped file": run_of(upload(origin=Origin(kind="mmap"), staged=True)),
        "rare": run_of(wait(host_seconds=FRAMES * 0.9e-3, count=FRAMES // 10)),
        "a copy that is not": in_page_locked_memory(non_blocking=True),
        "a whole module": in_page_locked_memory(call="Module.to"),
        "once in a frame": in_page_locked_memory(count=FRAMES, bytes=FRAMES << 17),
    },
    "repeated-upload": {
        "the best of several": run_of(REPEATED),
        "numbers in the line": at(
            "H = cp.array([[1, 0], [0, 1]], dtype=cp.float32)", upload(call="cupy.array")
        ),
        **{
            f"named by {text}": at(text, upload(repeats=repeats(same=19), call=call))
            for text, call in (
                ("x.to(dev)", "Tensor.to"),
                ("y = model(x.to(dev))", "Tensor.to"),
                ("d.set(x)", "ndarray.set"),
            )
        },
        "kept elsewhere": run_of(upload(repeats=repeats(same=19), place=ATTRIBUTE)),
        **{
            f"a kernel with {writes}": filled(writes)
            for writes in ("cuda.atomic.add(out, 0, 1)", "values[0] = out[0]")
        },
        "written by the loop, all compared": compared(FRAMES - 1, CHANGED),
        "not changed on the GPU": compared(FRAMES - 1, CHANGED.replace("    d *= 2\n", "    use(d)\n")),
    },
    "pin-per-frame": {"pinned by a copy on the CPU": at("yield torch.randn(8).pin_memory()", PINNED_LINE)},
}
"""By the rule whose advice is given, or none."""
WITH: dict[str, tuple[ScriptRun, str, Preferences, CatalogueEntry]] = {
    "the best is silenced": (run_of(REPEATED), "pageable-transfer", IGNORED, CARD),
    "one DRAM": (run_of(upload()), "shared-dram-copy", Preferences(), ORIN),
    "kept, on one DRAM": (run_of(download(origin=KEPT)), "", Preferences(), ORIN),
    "small, on one DRAM": (run_of(upload(bytes=4096 * FRAMES)), "pageable-transfer", Preferences(), ORIN),
}
"""Those by preferences, and on other devices."""


def text_of(found: dict[str, Advice]) -> str:
    """What is said of a line, with its code."""
    return "\n".join(f"{each.rule}: {each.title}\n{each.detail}\n{each.snippet}" for each in found.values())


@pytest.mark.parametrize("rule", LINES)
def test_a_line_fires_it_and_one_close_to_it_does_not(rule: str, accepted: Accepted) -> None:
    found = said(RUNS[rule], device=ON.get(rule, CARD))[rule]
    assert (found.outcome, found.certainty) == ("advice", "likely")
    assert found.gain.seconds_per_frame is not None
    assert 0 < found.gain.seconds_per_frame <= RUNS[rule].ceilings[0].seconds
    ast.parse(found.snippet)
    before, after = found.snippet.split("# instead\n")
    assert LINES[rule][0].place.text in before
    assert after.strip()
    assert rule not in said(run_of(LINES[rule][1]), device=ON.get(rule, CARD))
    accepted(text_of({rule: found}) + "\n", f"rules/line-{rule}.txt")


def test_what_is_said_of_a_line(accepted: Accepted) -> None:
    each = {name: (run, rule) for rule, runs in CASES.items() for name, run in runs.items()}
    text = []
    for name, (run, rules, *options) in {**each, **WITH}.items():
        found = said(run, *options)
        assert " ".join(found) == rules, name
        text.append(f"## {name}\n{text_of(found) or 'nothing'}\n")
    accepted("\n".join(text), "rules/lines.txt")


def test_figures_are_of_a_frame_and_what_page_locked_memory_saves_stands_beside_other_advice() -> None:
    line = upload(count=2 * FRAMES, bytes=2 * FRAMES << 20)
    locked, shared = (figures(each) for on in (CARD, ORIN) for each in said(run_of(line), device=on).values())
    assert (locked["times in a frame"], locked["bytes of one"]) == (2, 1 << 20)
    assert locked["time in a frame"] == pytest.approx(spared_seconds(line) / FRAMES)
    assert [PAGE_LOCKED in each for each in (locked, shared)] == [False, True]


def predicted(run: ScriptRun, *targets: CatalogueEntry) -> ScriptRun:
    """The run with what is predicted of it."""
    each = [predict_crossings(run, target) for target in targets]
    found = {
        "predictions": tuple(one for one, _ in each),
        "ceilings": tuple(c for _, two in each for c in two),
    }
    return run.model_copy(update=found)


def test_without_a_gpu_each_target_has_its_own_predicted_advice() -> None:
    run = predicted(played(), CARD, ORIN)
    advice = [line.advice for line in advise_lines(run, "CPU", None, (CARD, ORIN), Preferences())]
    assert {each.certainty for each in advice} == {"predicted"}
    assert CARD.name in {each.device for each in advice} <= {CARD.name, ORIN.name}
    gained = [each.gain for each in advice if each.device == CARD.name]
    assert all(gain and 0 < gain.seconds_per_frame <= run.ceilings[0].seconds for gain in gained)


def test_a_prediction_is_the_models_copy_and_its_sums_agree() -> None:
    run = played()
    prediction, (ceiling,) = predict_crossings(run, CARD)
    assert (ceiling.predicted, ceiling.of_seconds, ceiling.device) == (True, None, CARD.name)
    its = [prediction.likely_seconds[i] for i in (1, 2, 3)]
    assert ceiling.seconds == pytest.approx(sum(its), rel=0.1)
    assert ceiling.interval_seconds[0] < ceiling.seconds < ceiling.interval_seconds[1]
    machine = Machine(CARD)
    staged = run.crossings[1].model_copy(update={"staged": True})
    kinds = [(run.crossings[1], "pinned"), (run.crossings[1], ""), (staged, "")]
    pinned, pageable, through = (likely_seconds(line, machine, memory) for line, memory in kinds)
    assert pinned < min(pageable, through)
    assert predict_crossings(script_run(lock()), CARD)[0].seconds == (None,)


def test_small_copies_gain_nothing_from_page_locked_memory_that_is_waited_for() -> None:
    run = played(upload(bytes=24_576 * FRAMES), download(bytes=8 * FRAMES))
    for target in (CARD, load("rtx-4090")):
        assert advise_lines(predicted(run, target), "CPU", None, (target,), Preferences()) == ()


@pytest.mark.parametrize(("slower", "left"), [(1.0, 1.0), (2.0, 2.0), (20.0, 2.0)])
def test_what_makes_host_memory_much_slower_makes_no_link_slower(slower: float, left: float) -> None:
    """left: what page-locked memory leaves, in times of what the model has it take."""
    machine, line = Machine(CARD), upload(count=2 * FRAMES, bytes=2 * FRAMES << 28, memory="pageable")
    seconds = 2 * FRAMES * slower * likely_seconds(line, machine)
    run = script_run(altered(line, "", host_seconds=seconds, stream_seconds=None))
    run = altered(run, "loops.*", frame_seconds=seconds / FRAMES)
    gain = said(concluded(run))["pageable-transfer"].gain
    assert gain.seconds_per_frame
    rest = (seconds / FRAMES - gain.seconds_per_frame) / 2
    assert rest / likely_seconds(line, machine, "pinned") == pytest.approx(left, rel=0.02)


def test_what_copies_cost_other_lines_is_gained_by_downloads_into_page_locked_memory() -> None:
    run = concluded(script_run(upload(), download()))

    def gains(more: float) -> dict[int, float]:
        costly = altered(run, "ceilings.*", copy_seconds=run.ceilings[0].copy_seconds + more)
        advice = {each.crossing: each.advice for each in advise_lines(costly, "", CARD, (), Preferences())}
        return {i: (each.gain and each.gain.seconds_per_frame) or 0.0 for i, each in advice.items()}

    more = {line: seconds - gains(0.0)[line] for line, seconds in gains(1e-4).items()}
    assert more == pytest.approx({0: 0, 1: 1e-4})


def test_loaders_that_a_function_is_given_are_those_of_the_file() -> None:
    source = "def f():\n    return DataLoader(a), DataLoader(b)\ndef g(loader):\n    for x, y in loader:\n"
    source += "        x = x.to(dev)\n"
    assert loader_lines(source, 4, 5) == (2,)
    assert loader_lines(source.replace(", DataLoader(b)", ""), 4, 5) == (2,)
    assert loader_lines(source.replace("x.to", "w.to"), 4, 5) == ()
