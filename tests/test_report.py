"""The forms of the report: what they look like, what they hold, and how large they grow."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import (
    MIB,
    advice,
    all_strategies,
    altered,
    cpu_profile,
    failed,
    footprint,
    measured,
    prediction,
    profile,
    recommendation,
    skipped,
    vector_add_workload,
)
from every import every
from jinja2 import UndefinedError
from rendering import blocks, shown

from advisor.errors import FileProblem
from advisor.profiles.figures import FrameEnergy, HostPages, PlaceMemory, Quantile
from advisor.profiles.outputs import MANIFEST
from advisor.profiles.reading import load, parse
from advisor.profiles.schema import Failed, Profile
from advisor.profiles.system_state import Environment
from advisor.report import html, markdown
from advisor.report.answer import Answers
from advisor.report.pages import page_of, render, write
from advisor.report.profile_page import with_headlines
from advisor.rules.advise import concluded

GOLDEN = Path(__file__).parent / "golden"


def gpu_profile() -> Profile:
    """Every kind of row once. The third row's frames are equal, so its ratio does not hang on resampling."""
    zero_copy = measured("zero-copy", 0.025, spread=0, footprint=footprint(pinned=192 * MIB))
    return profile(
        results=(
            measured("pageable", 0.040, spread=0),
            measured("pinned", 0.020, setup_seconds=0.9),
            zero_copy,
            failed("managed", "ended with a bus error", "Traceback:\n  File 'w.py', line 3\nBus error"),
            skipped("system", "pageable_memory_access is 0"),
        ),
        recommendation=recommendation(),
        advice=(
            advice(),
            advice("zero-copy-reread", outcome="pass", title="Copy once", detail="Read once.", snippet=None),
            advice("duplicate-allocation", outcome="error", detail="KeyError: 'a'", snippet=None, gain=None),
        ),
        environment=Environment(
            system="Linux 6.1",
            machine="x86_64",
            python="3.11.7",
            gpu={"driver": "550.54"},
            absent={"temperature": "NVML is missing"},
            warnings=("the GPU was in use by another process",),
        ),
        notes=("interrupted in round 3",),
    )


TRACEBACK = """Traceback (most recent call last):
  File "/lib/python/threading.py", line 1, in run
    self._target()
  File "/home/w.py", line 12, in use
    if frame > 40: raise ValueError("late")
                   ^^^^^^^^^^^^^^^^^^^^^^^^
ValueError: late"""


def late(strategy: str) -> Failed:
    next_step = "Raise --timeout SECONDS."
    return Failed(strategy=strategy, reason="ValueError: late", detail=TRACEBACK, next_step=next_step)


def broken(**fields: object) -> Profile:
    """A run without a GPU whose workload failed under both strategies, and yet was predicted."""
    return cpu_profile(results=(late("pageable"), late("zero-copy"), skipped()), **fields)


def with_figures(median: float, **fields: Any) -> dict[str, Any]:
    """The slowest frames, CPU time, energy and memory of a row."""
    places = {"host": PlaceMemory(peak_bytes=235 * MIB), "gpu0": PlaceMemory(peak_bytes=258 * MIB)}
    return {
        "p95": Quantile(seconds=1.2 * median, low_seconds=1.1 * median, high_seconds=1.3 * median),
        "p99": Quantile(seconds=1.5 * median, low_seconds=1.4 * median, high_seconds=2.0 * median),
        "cpu_seconds": 0.004,
        "energy": FrameEnergy(
            joules=0.5, watts=250.0, idle_watts=75.0, seconds=2.1, frames=210, source="NVML's energy counter"
        ),
        "footprint": footprint(pageable=192 * MIB, device=192 * MIB).model_copy(update={"places": places}),
        "host_pages": HostPages(bytes=192 * MIB, huge_bytes=96 * MIB),
        **fields,
    }


def with_all_figures() -> Profile:
    """One strategy has them, the other lacks some for a reason."""
    absent = {"p99": "too few", "energy": "NVML's energy counter: NVML does not support it on this GPU"}
    return profile(
        results=(
            measured("pinned", 0.010, **with_figures(0.010)),
            measured("pageable", 0.020, **with_figures(0.020, p99=None, energy=None, absent=absent)),
        ),
        recommendation=recommendation(),
    )


def on_two_gpus() -> Profile:
    """The kernel runs on the second."""
    figures = with_figures(0.010)
    places = {f"gpu{n}": PlaceMemory(peak_bytes=n * MIB) for n in (0, 1)}
    row = measured(
        "pinned",
        0.010,
        energy=figures["energy"].model_copy(update={"gpus": (0.4, 0.1)}),
        footprint=figures["footprint"].model_copy(update={"places": places}),
        stage_seconds={"add": 0.002},
    )
    ran = altered(vector_add_workload(), "stages.add", gpu=1)
    return profile(results=(row,), workload=ran, recommendation=recommendation())


PROFILES: dict[str, Callable[[], Profile]] = {
    "gpu": gpu_profile,
    "cpu": cpu_profile,
    "all": all_strategies,
    "nothing": lambda: profile(results=(failed(), skipped())),
    "late": lambda: profile(
        results=(
            *(measured("pageable", 0.04), measured("pinned", 0.02), late("managed")),
            *(skipped("a", "why"), skipped("b", "other"), skipped("c", "why")),
        ),
        recommendation=recommendation(),
    ),
    "broken": broken,
    "figures": with_all_figures,
    "two-gpus": on_two_gpus,
    "h200": lambda: concluded(load(Path(__file__).parent / "data" / "h200-vector_add.json")),
}


def test_files_that_were_asked_for(tmp_path: Path) -> None:
    written = write(page_of(gpu_profile()), tmp_path, ("md", "json"))
    assert written == [tmp_path / "profile.json", tmp_path / "report.md"]
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / MANIFEST, *written])
    assert load(tmp_path / "profile.json") == with_headlines(gpu_profile())
    (tmp_path / "file").touch()
    with pytest.raises(FileProblem, match="cannot be written"):
        write(page_of(gpu_profile()), tmp_path / "file" / "below", ("html",))


@pytest.mark.parametrize("name", PROFILES)
def test_the_saved_profile_has_the_headlines_of_the_page(name: str) -> None:
    page = page_of(PROFILES[name]())
    saved = [each.recommendation for each in (page.profile, *page.profile.predictions)]
    shown_first = [item.verdict.headline for item in blocks(page, Answers)[0].items]
    assert [chosen.headline for chosen in saved if chosen][: len(shown_first)] == shown_first * any(saved)


def test_policy_allows_our_style_and_our_script_and_nothing_else() -> None:
    html = shown(gpu_profile(), "html")
    policy = re.search(r'content="(default-src[^"]*)"', html)
    found = {tag: re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL) for tag in ("style", "script")}
    assert [len(of) for of in found.values()] == [1, 1]
    digest = {
        tag: base64.b64encode(hashlib.sha256(of[0].encode()).digest()).decode() for tag, of in found.items()
    }
    assert policy[1].replace("&#39;", "'").split("; ") == [
        "default-src 'none'",
        f"style-src 'sha256-{digest['style']}'",
        f"script-src 'sha256-{digest['script']}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    assert not re.search(r"\son\w+=|\sstyle=", html), "inline handlers and styles would be refused"


def test_browsers_without_light_dark_get_the_light_colours() -> None:
    style = (html.directory() / "report.css").read_text(encoding="utf-8")
    before, _, rest = style.partition("@supports not (color: light-dark(#000, #fff)) {")
    named = dict(re.findall(r"(--[\w-]+): light-dark\(([^,]+), [^)]+\);", before))
    fallback = dict(re.findall(r"(--[\w-]+): (#\w+);", rest[: rest.index("}")]))
    assert fallback == named
    assert len(named) > 20


def test_page_of_every_strategy_with_all_it_can_hold_stays_below_300_kb() -> None:
    """14 strategies, 3 processes of 1,000 frames each, readings, comparison and three predictions."""
    chance, run = random.Random(0), all_strategies()
    frames = tuple(round(0.02 * chance.lognormvariate(0, 0.05), 9) for _ in range(3_000))
    measured_rows = (*run.measured().values(), measured("fourteenth", 0.02))
    rows = altered(measured_rows, "*", frame_seconds=frames, frames_per_round=(1_000,) * 3)
    models = tuple(prediction(name) for name in ("a", "b", "c"))
    told = tuple(advice(f"rule-{i}", title=f"Advice {i}") for i in range(12))
    html = shown(altered(run, "", results=rows, predictions=models, advice=told), "html")
    assert len(html.encode()) <= 300_000


def buffers(count: int) -> Callable[[dict[str, Any]], object]:
    def change(content: dict[str, Any]) -> None:
        one = content["workload"]["buffers"][0]
        content["workload"]["buffers"] = [{**one, "name": f"b{i}"} for i in range(count)]

    return change


def row(**fields: Any) -> Callable[[dict[str, Any]], object]:
    """Fields of the first measured row."""
    return lambda content: content["results"][0].update(fields)


EXTREMES: dict[str, Callable[[dict[str, Any]], object]] = {
    "10,000 buffers": buffers(10_000),
    "no buffer": buffers(0),
    "5,000 stages": row(stage_seconds={f"s{i}": 0.001 for i in range(5_000)}),
    "tiny time": row(median_seconds=1e-11, interval_seconds=[1e-12, 1e-10]),
    "vast time": row(median_seconds=1e14, interval_seconds=[1e13, 1e15]),
    "one vast frame": row(frame_seconds=[1e15] + [0.04] * 89),
    "vast set-up": row(setup_seconds=1e15),
    "name without letters": lambda content: (
        content["results"][0].update(strategy=""),
        content["recommendation"].update(baseline=None),
    ),
    "no rows": lambda content: content.update(results=[], recommendation=None),
    "integer of 400 digits": lambda content: content["workload"].update(parameters={"n": 10**400}),
}


@every("name", EXTREMES)
def test_a_profile_at_the_edges_of_the_format_is_a_right_page(name: str) -> None:
    content = json.loads(profile(predictions=(prediction(),), recommendation=recommendation()).to_json())
    EXTREMES[name](content)
    begin = time.thread_time()
    page = page_of(parse(json.dumps(content), "profile.json"))
    html, text = render(page, "html"), render(page, "txt", bars=True)
    assert time.thread_time() - begin < 30, "a few seconds; with the square of the buffers it was 100"
    assert len(html.encode()) < 400_000
    assert len(render(page, "md")) < markdown.LIMIT
    assert max(map(len, text.splitlines())) <= 80
    for said in (re.sub(r'href="data:[^"]*"', "", html), text):
        assert not re.search(r"\b(nan|inf)\b", said)


def test_bars_of_a_terminal_are_to_scale_and_predicted_ones_are_shaded() -> None:
    text = shown(gpu_profile(), "txt", bars=True)
    drawn = dict(re.findall(r"^(?:→ |  )(\S+) .* ([█▏▎▍▌▋▊▉]+) ", text, re.MULTILINE))
    cells = {name: len(bar.rstrip("▏▎▍▌▋▊▉")) for name, bar in drawn.items()}
    assert cells == {"pinned": 5, "zero-copy": 6, "pageable": 10}
    assert not re.search(r"[█░▒]", shown(gpu_profile(), "txt"))
    both = shown(cpu_profile(), "txt", bars=True)
    assert re.findall(r"zero-copy +45.0 ms +(\S+)", both) == ["▒▒▒░░░░"]


def test_a_number_stays_with_its_unit_but_code_keeps_its_blanks() -> None:
    told = advice(detail="It takes 12 ms, 3 sets and 5 %.", snippet="x = 12 % 5  # 3 ms")
    html = shown(profile(advice=(told,), results=(failed(detail="waited 3 s"),)), "html")
    assert "It takes 12\N{NO-BREAK SPACE}ms, 3 sets and 5\N{NO-BREAK SPACE}%." in html
    assert "x = 12 % 5  # 3 ms" in html
    assert "waited 3 s" in html
    assert "\N{NO-BREAK SPACE}" not in shown(profile(advice=(told,)), "md")


def test_templates_are_found_and_escape(tmp_path: Path) -> None:
    assert (html.directory() / "page.html.j2").is_file()
    package = tmp_path / "advisor"
    (package / "templates").mkdir(parents=True)
    assert html.directory(package) == package / "templates"
    (package / "templates").rmdir()
    assert html.directory(package) == tmp_path / "templates"
    made = html.environment()
    assert made.from_string("{{ x }}").render(x="<b>") == "&lt;b&gt;"
    assert made.from_string("{{ x }}").render(x=1.6000000000000003) == "1.6"
    with pytest.raises(UndefinedError):
        made.from_string("{{ missing }}").render()
    for golden in GOLDEN.rglob("*.html"):
        assert not re.search(r"\d\.\d{12,}", golden.read_text(encoding="utf-8")), golden


def test_code_in_markdown_is_whole_or_left_out() -> None:
    """Its last line waits for the results: code cut before it would read them too early."""
    for lines in (60, 400):
        code = "\n".join([*(f"step_{i} = {i}" for i in range(lines)), "stream.synchronize()"])
        text = shown(profile(recommendation=recommendation(), advice=(advice(snippet=code),)), "md")
        assert (f"```python\n{code}\n```" in text) == (lines == 60)
        assert ("Code for <code>pinned</code>: 401 lines, in report.html." in text) == (lines == 400)
