"""What rules say of a script's lines: each with a run that fires it and one close to it that must not."""

from __future__ import annotations

import ast

import pytest
from every import every
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
from advisor.model.simulate import occurrence, predict_crossings
from advisor.profiles.conclusions import Advice, Preferences
from advisor.profiles.crossings import SHARED, Crossing, Origin, Place, ScriptRun, SourceExcerpt
from advisor.rules.advise_lines import advise_lines
from advisor.strategies.syntax import loader_lines
from advisor.verdicts.ceilings import ceilings

CARD = load("rtx-2060")
TENSOR = place(UPLOAD).model_copy(update={"text": "x = x.to(dev, non_blocking=True)"})
SMALL = {"count": 32 * FRAMES, "bytes": 32 * FRAMES * 4096, "memory": "pinned"}
FRESH = place(UPLOAD).model_copy(update={"text": "p = cupyx.empty_pinned(shape)"})
LINES: dict[str, tuple[Crossing, Crossing]] = {
    "pageable-transfer": (upload(), upload(memory="pinned")),
    "hidden-host-copy": (upload(staged=True), upload(memory="pinned")),
    "pageable-async-copy": (
        upload(place=TENSOR, call="Tensor.to", library="torch", non_blocking=True),
        upload(place=TENSOR, call="Tensor.to", library="torch", non_blocking=True, memory="pinned"),
    ),
    "small-transfers": (upload(**SMALL), upload(**{**SMALL, "bytes": 32 * FRAMES << 17})),
    "repeated-upload": (
        upload(memory="pinned", repeats=repeats(same=19)),
        upload(memory="pinned", repeats=repeats(same=18)),
    ),
    "round-trip": (
        upload(memory="pinned", repeats=repeats(returned=20, latest=20, returned_from=place(DOWNLOAD))),
        upload(memory="pinned", repeats=repeats(returned=17, returned_from=place(DOWNLOAD))),
    ),
    "unread-upload": (upload(memory="pinned", unread=FRAMES), upload(memory="pinned", unread=FRAMES // 3)),
    "implicit-wait": (wait(host_seconds=FRAMES * 0.2e-3), wait(host_seconds=FRAMES * 0.05e-3)),
    "pin-per-frame": (lock(place=FRESH), lock(place=FRESH, count=FRAMES // 3, bytes=FRAMES)),
    "shared-dram-copy": (upload(memory="pinned", asynchronous=True), upload(memory="managed")),
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


@every("rule", LINES)
def test_a_line_fires_it_and_one_close_to_it_does_not(rule: str) -> None:
    fires, near = LINES[rule]
    run = run_of(fires)
    found = said(run, device=ON.get(rule, CARD))[rule]
    assert found.outcome == "advice"
    assert found.certainty == "likely"
    assert found.gain.seconds_per_frame is not None
    assert 0 < found.gain.seconds_per_frame <= run.ceilings[0].seconds
    ast.parse(found.snippet)
    before, after = found.snippet.split("# instead\n")
    assert fires.place.text in before
    assert after.strip()
    assert rule not in said(run_of(near), device=ON.get(rule, CARD))


def test_the_code_is_written_from_the_users_own_line() -> None:
    codes = {rule: (said(RUNS[rule], device=ON.get(rule, CARD))[rule].snippet or "") for rule in LINES}
    assert "d = cupy.asarray(gray_pinned)" in codes["pageable-transfer"]
    assert "line 9: write into gray_pinned" in codes["pageable-transfer"]
    assert "synchronize()  # before the CPU writes gray_pinned again" in codes["pageable-transfer"]
    assert "x = x_pinned.to(dev, non_blocking=True)" in codes["pageable-async-copy"]
    assert codes["round-trip"].endswith("# instead\nd = m  # while m is as it was in line 12")
    assert "h += m.sum()" in codes["implicit-wait"]
    assert "d = cupy.asarray(together)" in codes["small-transfers"]


def test_batches_are_page_locked_by_their_loader_and_constants_made_on_the_gpu() -> None:
    source = """import torch
loader = DataLoader(data)
for x in loader:
    y = x.to(dev)
    z = torch.randn(f(8),).to(dev)
    w = made(8).to(dev)
"""
    lines = tuple(source.splitlines())

    def advice(line: int) -> Advice:
        at = Place(file="camera.py", line=line, text=lines[line - 1].strip())
        run = script_run(upload(place=at, call="Tensor.to", library="torch"))
        loop = run.loops[0].model_copy(update={"place": at.model_copy(update={"line": 3})})
        sources = (SourceExcerpt(file="camera.py", first=1, lines=lines),)
        run = run.model_copy(update={"loops": (loop,), "sources": sources})
        return said(concluded(run))["pageable-transfer"]

    assert advice(4).title == "Set `pin_memory=True` in the DataLoader at line 2"
    assert "+loader = DataLoader(data, pin_memory=True)" in (advice(4).snippet or "")
    assert "+    y = x.to(dev, non_blocking=True)" in (advice(4).snippet or "")
    assert advice(5).title == "Make this tensor on the GPU"
    assert "they are others" in advice(5).detail
    assert (advice(5).snippet or "").endswith("# instead\nz = torch.randn(f(8), device=dev)")
    assert advice(6).title.startswith("Keep one page-locked array")


@pytest.mark.parametrize("text", ["print('loss', m.item())", "h = log10(1 / m.item())"])
def test_what_a_call_is_given_stays_no_tensor(text: str) -> None:
    line = wait(call="Tensor.item", library="torch", host_seconds=FRAMES * 0.2e-3)
    at = line.place.model_copy(update={"text": text})
    found = said(run_of(line.model_copy(update={"place": at})))["implicit-wait"]
    assert "every tenth frame" in (found.snippet or "")


@pytest.mark.parametrize("guard", ["asynchronous copy", "asked to be", "shared memory"])
def test_a_wait_that_may_guard_memory_of_the_host_is_not_advised_away(guard: str) -> None:
    def advised(call: str) -> str:
        line = wait(call=call, bytes=0, host_seconds=FRAMES * 0.2e-3)
        copy = {"asynchronous": guard == "asynchronous copy", "non_blocking": guard == "asked to be"}
        run = script_run(line, download(memory="pinned", **copy))
        unseen = (f"{SHARED} (3 times)",) if guard == "shared memory" else ()
        found = said(concluded(run.model_copy(update={"unseen": unseen})))
        return found["implicit-wait"].detail if "implicit-wait" in found else ""

    assert advised("Stream.synchronize") == ""
    assert "wait for them before the host touches their memory" in advised("ndarray.item")


def test_a_change_that_is_certain_is_a_patch_of_the_users_file() -> None:
    found = advise_lines(concluded(script_run(download())), "Test card", CARD, (), Preferences())
    patch = found[0].advice.snippet or ""
    assert patch.startswith("--- a/camera.py\n")
    assert "+    out = m.get(out=out_host)\n" in patch


def test_which_advice_a_line_has() -> None:
    found = said(run_of(upload(repeats=repeats(same=19))))
    assert list(found) == ["repeated-upload"]
    silenced = Preferences(ignored={"repeated-upload": "--ignore"})
    assert list(said(run_of(upload(repeats=repeats(same=19))), silenced)) == ["pageable-transfer"]
    small = upload(host_seconds=FRAMES * 0.1e-3)
    assert said(concluded(script_run(small))) == {}
    assert concluded(script_run(small)).ceilings[0].share == pytest.approx(0.1 / 6.1)


def test_without_a_gpu_each_target_has_its_own_predicted_advice() -> None:
    run = played()
    told = [predict_crossings(run, target) for target in (CARD, load("orin-nano"))]
    run = run.model_copy(
        update={
            "predictions": tuple(prediction for prediction, _ in told),
            "ceilings": tuple(ceiling for _, each in told for ceiling in each),
        }
    )
    found = advise_lines(run, "CPU", None, (CARD, load("orin-nano")), Preferences())
    assert {line.advice.certainty for line in found} == {"predicted"}
    assert CARD.name in {line.advice.device for line in found}
    assert "CPU" not in {line.advice.device for line in found}
    gained = [line.advice.gain for line in found if line.advice.device == CARD.name]
    assert all(gain and 0 < gain.seconds_per_frame <= told[0][1][0].seconds for gain in gained)


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
    pinned, pageable, through = (_likely(*kind, machine) for kind in kinds)
    assert pinned < min(pageable, through)
    assert predict_crossings(script_run(lock()), CARD)[0].seconds == (None,)


def _likely(crossing: Crossing, memory: str, machine: Machine) -> float:
    drawn = occurrence(crossing, machine, memory)
    return float(drawn[0])


@pytest.mark.parametrize(
    "line",
    [upload(), upload(count=8 * FRAMES, bytes=64 * FRAMES), wait(host_seconds=FRAMES * 0.2e-3)],
    ids=["upload", "small uploads", "wait"],
)
def test_what_no_loop_repeats_is_not_advised(line: Crossing) -> None:
    run = script_run(line.model_copy(update={"loop": None}))
    assert said(concluded(run.model_copy(update={"loops": (), "seconds": 1.0}))) == {}


def test_waits_that_have_their_own_advice() -> None:
    run = run_of(wait(host_seconds=FRAMES * 0.2e-3, call="ndarray.__getitem__", bytes=0))
    assert said(run)["implicit-wait"].title == "Select with `where` in place of a mask"
    assert "tenth frame" not in (said(run)["implicit-wait"].snippet or "")
    line = wait(host_seconds=FRAMES * 0.2e-3, call="cupy.histogram", bytes=0)
    found = said(at("h = cp.histogram(d, bins=9)[0]", line))["implicit-wait"]
    assert found.title == "Look for a function or an option that does not wait: cupy.histogram"
    assert "pageable-transfer" not in said(
        at("r = torch.tensor([a], device=dev)", upload(call="torch.tensor"))
    )


def at(text: str, line: Crossing, source: str = "", **changed: object) -> ScriptRun:
    """A run whose only other line is a download; the line has that text, in a file with that source."""
    place = line.place.model_copy(update={"text": text})
    run = run_of(line.model_copy(update={"place": place, **changed}))
    if not source:
        return run
    return run.model_copy(
        update={"sources": (SourceExcerpt(file="camera.py", first=1, lines=tuple(source.splitlines())),)}
    )


def test_one_dram_needs_no_page_locked_copy_but_memory_that_both_reach() -> None:
    shared = said(run_of(upload()), device=load("orin-nano"))
    assert list(shared) == ["shared-dram-copy"]
    assert "uncached on the GPU" in shared["shared-dram-copy"].detail
    assert "gray_shared_gpu" in (shared["shared-dram-copy"].snippet or "")
    assert list(said(run_of(upload()))) == ["pageable-transfer"]
    kept = download(origin=Origin(kind="numpy", each_frame=True, kept=True))
    assert said(run_of(kept), device=load("orin-nano")) == {}
    small = upload(bytes=4096 * FRAMES)
    assert "shared-dram-copy" not in said(run_of(small), device=load("orin-nano"))
    silenced = Preferences(ignored={"shared-dram-copy": "--ignore"})
    assert "one DRAM" in said(run_of(upload()), silenced, load("orin-nano"))["pageable-transfer"].detail
    assert "one DRAM" not in said(run_of(upload()))["pageable-transfer"].detail


def test_small_copies_gain_nothing_from_page_locked_memory_that_is_waited_for() -> None:
    run = played(upload(bytes=24_576 * FRAMES), download(bytes=8 * FRAMES))
    for target in (CARD, load("rtx-4090")):
        prediction, ceiling = predict_crossings(run, target)
        told = run.model_copy(update={"predictions": (prediction,), "ceilings": ceiling})
        assert advise_lines(told, "CPU", None, (target,), Preferences()) == ()


@pytest.mark.parametrize(("slower", "left"), [(1.0, 1.0), (2.0, 2.0), (20.0, 3.0)])
def test_what_makes_host_memory_much_slower_makes_no_link_slower(slower: float, left: float) -> None:
    """left: what page-locked memory leaves, in times of what the model has it take."""
    machine, line = Machine(CARD), upload(bytes=FRAMES << 28, memory="pageable")
    seconds = FRAMES * slower * _likely(line, "", machine)
    slow = line.model_copy(update={"host_seconds": seconds, "stream_seconds": None})
    run = script_run(slow)
    loops = tuple(loop.model_copy(update={"frame_seconds": seconds / FRAMES}) for loop in run.loops)
    gain = said(concluded(run.model_copy(update={"loops": loops})))["pageable-transfer"].gain
    assert gain
    assert gain.seconds_per_frame
    rest = seconds / FRAMES - gain.seconds_per_frame
    assert rest / _likely(line, "pinned", machine) == pytest.approx(left, rel=0.02)


NO_REUSE = {
    "kept": download(origin=Origin(kind="numpy", each_frame=True, kept=True)),
    "a mapped file": upload(origin=Origin(kind="mmap"), staged=True),
    "rare": wait(host_seconds=FRAMES * 0.9e-3, count=FRAMES // 10),
}


@every("what", NO_REUSE)
def test_what_would_change_results_or_gain_nothing_is_not_advised(what: str) -> None:
    assert said(run_of(NO_REUSE[what])) == {}


def test_arrays_named_in_the_line() -> None:
    run = at("d = cp.asarray(points, dtype=cp.float32)", upload(staged=True))
    assert "cupyx.empty_pinned(shape, cp.float32)" in (said(run)["hidden-host-copy"].snippet or "")
    text = "H = cp.array([[1, 0], [0, 1]], dtype=cp.float32)"
    assert (
        "the numbers that the line has" in said(at(text, upload(call="cupy.array")))["repeated-upload"].detail
    )
    assert "repeated-upload" not in said(at("H = cp.array([[a, 0]])", upload(call="cupy.array")))
    text = "step[1, 128](positions, velocities)"
    lines = {kind: {"call": "kernel argument", "library": "numba"} for kind in ("up", "down")}
    up = said(at(text, upload(**lines["up"])))["pageable-transfer"]
    down = said(at(text, download(**lines["down"])))["pageable-transfer"]
    assert up.title == "Give the kernel arrays that stay on the GPU"
    assert down.title == "Copy back only what the CPU reads"
    line = upload(repeats=repeats(same=19), place=Place(file="camera.py", line=3, text="d = cupy.asarray(m)"))
    assert "in an attribute or an argument" in said(run_of(line))["repeated-upload"].title


@pytest.mark.parametrize("text", ["cells, n = cp.unique(index, return_counts=True)", "i = mask.nonzero()"])
def test_a_result_whose_size_is_waited_for_cannot_stay_on_the_gpu(text: str) -> None:
    call = "cupy.unique" if "unique" in text else "ndarray.nonzero"
    found = said(at(text, wait(host_seconds=FRAMES * 0.2e-3, call=call, bytes=0)))["implicit-wait"]
    assert found.title == f"Avoid results whose size the host waits for: {call}"
    assert (found.snippet or "").endswith(text)


SCALER = "scaler = GradScaler()\n" * 12 + "scaler.step(optimizer)\n"


def test_what_a_library_asks_for_is_not_the_lines_to_keep() -> None:
    line = wait(host_seconds=FRAMES * 0.2e-3, call="Tensor.item", library="torch")
    found = said(at("scaler.step(optimizer)", line, SCALER))["implicit-wait"]
    assert found.title == "Use an optimizer with `fused=True`"
    other = said(at("metric.update(x)", line))["implicit-wait"]
    assert other.title == "Look for an option that keeps this value on the GPU"
    whole = "(\n" * 0 + "\n" * 11 + "loss = (model(x)\n  .item())\n"
    assert said(at("loss = (model(x)", line, whole))["implicit-wait"].title.startswith("Keep")
    for text, name in (("m = Categorical(probs)", "__bool__"), ("opt.step(closure)", "__float__")):
        line = wait(host_seconds=FRAMES * 0.2e-3, call=f"Tensor.{name}", library="torch")
        title = "Look for an option that keeps this value on the GPU"
        assert said(at(text, line))["implicit-wait"].title == title
    for text in ("if loss > 1:", "x = float(loss)", "y = math.log(loss)", "z = rows[index]"):
        assert said(at(text, line))["implicit-wait"].title.startswith("Keep")


def test_a_tensor_in_page_locked_memory_is_copied_without_a_wait() -> None:
    source = "for x in loader:\n    y = x.to(dev)\n"
    at = Place(file="camera.py", line=2, text="y = x.to(dev)")
    small = {"count": 32 * FRAMES, "bytes": 32 * FRAMES << 17, "asynchronous": False}
    one = upload(place=at, call="Tensor.to", library="torch", memory="pinned", origin=None, **small)

    def advice(line: Crossing) -> Advice | None:
        run = script_run(line)
        loop = run.loops[0].model_copy(update={"place": at.model_copy(update={"line": 1})})
        kept = SourceExcerpt(file="camera.py", first=1, lines=tuple(source.splitlines()))
        return said(concluded(run.model_copy(update={"sources": (kept,), "loops": (loop,)}))).get(
            "implicit-wait"
        )

    found = advice(one)
    assert found is not None
    assert found.title == "Copy with `non_blocking=True`"
    assert "+    y = x.to(dev, non_blocking=True)" in (found.snippet or "")
    rare = {"count": FRAMES, "bytes": FRAMES << 17}
    for near in ({"non_blocking": True}, {"memory": "pageable"}, {"call": "Module.to"}, {"loop": None}, rare):
        assert advice(one.model_copy(update=near)) is None, near


def in_loop(*statements: str) -> str:
    """A file whose line 12 is the first statement, in the loop at line 11."""
    return "\n".join([*["pass"] * 10, "while True:", *(f"    {each}" for each in statements)])


@pytest.mark.parametrize("use", ["if n > 3: break", "print(n)", "s = f'{n}'"])
def test_a_value_that_the_loop_needs_on_the_host_does_not_stay_on_the_gpu(use: str) -> None:
    def code(*statements: str) -> str:
        place = Place(file="camera.py", line=12)
        line = wait(call="ndarray.__int__", host_seconds=FRAMES * 0.2e-3, place=place)
        run = at("n = int(x.sum())", line, in_loop("n = int(x.sum())", *statements))
        place = run.loops[0].place.model_copy(update={"line": 11})
        loops = (run.loops[0].model_copy(update={"place": place}),)
        return said(run.model_copy(update={"loops": loops}))["implicit-wait"].snippet or ""

    assert code(use).endswith("in every tenth frame\nn = int(x.sum())")
    assert "n = x.sum()  # stays on the GPU" in code("total += n")


@pytest.mark.parametrize("clock", ["t = time.perf_counter()", "times.append(begin.elapsed_time(end))"])
def test_a_wait_beside_a_clock_is_for_the_clock(clock: str) -> None:
    place = Place(file="camera.py", line=12)
    line = wait(call="Event.synchronize", bytes=0, host_seconds=FRAMES * 0.2e-3, place=place)
    found = said(at("end.synchronize()", line, in_loop("end.synchronize()", clock)))["implicit-wait"]
    assert found.title == "Time fewer frames: this wait is for the clock"


def test_pin_memory_is_a_copy_on_the_cpu_and_makes_no_yield_before_the_loop() -> None:
    run = at("yield torch.randn(8).pin_memory()", lock(call="Tensor.pin_memory", library="torch"))
    found = said(run)["pin-per-frame"]
    assert found.title == "Make the data in page-locked memory that is kept"
    assert "yield" not in (found.snippet or "").split("# instead")[1]


def test_loaders_that_a_function_is_given_are_those_of_the_file() -> None:
    source = "def f():\n    return DataLoader(a), DataLoader(b)\ndef g(loader):\n    for x, y in loader:\n"
    source += "        x = x.to(dev)\n"
    assert loader_lines(source, 4, 5) == (2,)
    assert loader_lines(source.replace(", DataLoader(b)", ""), 4, 5) == (2,)
    assert loader_lines(source.replace("x.to", "w.to"), 4, 5) == ()


CHANGED = """for _ in range(500):
    gray[0] = 1
    d = cupy.asarray(gray)
    d *= 2
"""


KERNEL = """\
def fill(out, values):
    WRITES

def histogram(values):
    d = cuda.to_device(np.zeros(16))
    fill[1, 64](d, values)
    return d.copy_to_host()
"""


@pytest.mark.parametrize(
    ("writes", "is_copied"),
    [("out[0] += 1", True), ("cuda.atomic.add(out, 0, 1)", True), ("values[0] = out[0]", False)],
)
def test_an_array_that_a_kernel_fills_is_copied_on_the_gpu(writes: str, *, is_copied: bool) -> None:
    source = KERNEL.replace("WRITES", writes)
    text = source.splitlines()[4].strip()
    line = upload(library="numba", call="cuda.to_device", repeats=repeats(checked=FRAMES, same=FRAMES - 1))
    run = at(text, line.model_copy(update={"place": place(UPLOAD).model_copy(update={"line": 5})}), source)
    advice = said(run)["repeated-upload"]
    assert ("d.copy_to_device(d_once)" in (advice.snippet or "")) == is_copied


def test_an_array_that_the_loop_writes_is_uploaded_once_only_where_all_were_compared() -> None:
    def found(compared: int, source: str) -> Advice | None:
        line = upload(
            repeats=repeats(checked=compared + 1, same=compared),
            place=place(UPLOAD).model_copy(update={"line": 3}),
        )
        run = at("d = cupy.asarray(gray)", line, source)
        loop = run.loops[0].model_copy(update={"place": run.loops[0].place.model_copy(update={"line": 1})})
        return said(run.model_copy(update={"loops": (loop,)})).get("repeated-upload")

    assert found(19, CHANGED) is None
    every, partly = found(FRAMES - 1, CHANGED), found(19, CHANGED.replace("gray[0]", "other[0]"))
    assert every is not None
    assert partly is not None
    assert "not compared" not in every.detail
    assert "480 were not compared" in partly.detail
    assert (every.snippet or "").endswith("d_once = cupy.asarray(gray)\n# in the loop\nd = d_once.copy()")
    plain = found(FRAMES - 1, CHANGED.replace("    d *= 2\n", "    use(d)\n"))
    assert plain is not None
    assert "d_once" not in (plain.snippet or "")


@pytest.mark.parametrize(
    ("text", "call", "name"),
    [
        ("diff.get(out=image)", "ndarray.get", "image"),
        ("self.host.copy_(y)", "Tensor.copy_", "self.host"),
        ("d.copy_to_host(h)", "DeviceNDArray.copy_to_host", "h"),
    ],
)
def test_an_array_that_a_download_fills_stays_the_one_that_is_read(text: str, call: str, name: str) -> None:
    library = {"ndarray": "cupy", "Tensor": "torch"}.get(call.partition(".")[0], "numba")
    origin = Origin(kind="numpy", place=place(MADE), kept=True)
    found = said(at(text, download(call=call, origin=origin), library=library))["pageable-transfer"]
    assert found.title == f"Page-lock `{name}`"
    assert (found.snippet or "").split("# instead\n")[1].startswith(f"{name} = ")
    assert (found.snippet or "").endswith(f"line 9: in place of the array there\n{text}")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("h = d.get()", "h"),
        ("total += float(d.get()[0])", "d"),
        ("mean = d.get().mean()", "d"),
        ("h = pad( d.get( ) )", "d"),
    ],
)
def test_a_download_is_named_by_what_it_returns_not_by_what_is_computed_with_it(text: str, name: str) -> None:
    found = said(at(text, download()))["pageable-transfer"]
    assert f"`{name}`" in found.title
