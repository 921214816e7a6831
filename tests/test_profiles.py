"""profile.json: what is saved comes back, and what is damaged is refused with a reason."""

from __future__ import annotations

import json
import math
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import builders
import jsonschema
import pytest
from every import every
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.errors import FileProblem
from advisor.profiles import schema
from advisor.profiles.files import read_whole, write_atomically
from advisor.profiles.reading import load, parse
from advisor.profiles.schema import Profile
from advisor.rules.advise import concluded
from advisor.texts import printable

DATA = Path(__file__).parent / "data"
SAMPLE = DATA / "profile-format-2.json"
"""With something in every part. Never changed: it must be readable as long as its format is."""


@pytest.mark.parametrize(
    "profile", [builders.profile(), builders.cpu_profile(), builders.script_profile("--n", "1"), load(SAMPLE)]
)
def test_what_is_saved_comes_back(profile: Profile, tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    profile.save(path)
    assert load(path) == profile
    assert json.loads(path.read_text(encoding="utf-8"))["format"] == schema.FORMAT == 2


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).map(printable)
LONGEST = 1e15
"""Seconds: what a profile may say at most."""
positive = st.floats(min_value=1e-12, max_value=LONGEST)
sizes = st.dictionaries(st.sampled_from(["pageable", "pinned", "device"]), st.integers(0, 2**63 - 1))
scalars = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans() | texts


@settings(max_examples=60, deadline=None)
@given(positive, sizes, st.dictionaries(texts, scalars, max_size=3), texts)
def test_any_figures_come_back_to_the_last_digit(
    seconds: float, bytes_of: dict[str, int], parameters: dict[str, Any], text: str
) -> None:
    row = builders.measured("pinned", seconds, spread=0)
    footprint = row.footprint.model_copy(update={"requested": bytes_of, "reserved": bytes_of})
    stages = {"stage_seconds": {text: seconds}, "footprint": footprint}
    workload = builders.vector_add_workload().model_copy(update={"parameters": parameters, "summary": text})
    profile = builders.profile(results=(row.model_copy(update=stages),), workload=workload, command=text)
    again = parse(profile.model_dump_json(indent=1), "text")
    assert again == profile
    for name, value in parameters.items():
        assert type(again.workload.parameters[name]) is type(value)


DROPPED = {"mix_bound", "steady_bytes", "stopped"}
"""Keys that nothing reads any more: profiles that have them are read without."""


def holds(value: Any, written: Any) -> bool:
    """Whether all that was written is there; keys that came later may be, too."""
    if isinstance(written, dict):
        return all(key in value and holds(value[key], written[key]) for key in written.keys() - DROPPED)
    if isinstance(written, list):
        return len(value) == len(written) and all(map(holds, value, written))
    return bool(value == written)


def test_the_sample_of_format_2_is_read() -> None:
    profile = load(SAMPLE)
    assert set(profile.final.contestants) == {block.contestant for block in profile.blocks}
    assert (profile.recommendation.strategy, profile.recommendation.verdict) == ("pinned", "fastest")
    again = concluded(profile.model_copy(update={"recommendation": None}))
    assert again.recommendation.speedup == pytest.approx(2.0), "the blocks alone say the same"
    assert (again.recommendation.strategy, again.recommendation.verdict) == ("pinned", "fastest")
    written = json.loads(SAMPLE.read_text(encoding="utf-8"))
    assert holds(json.loads(profile.to_json()), written)


def refused(text: str, step: str = "") -> str:
    with pytest.raises(FileProblem) as raised:
        parse(text, "p.json")
    assert raised.value.exit_code == 5
    assert raised.value.next_step.startswith(step)
    assert raised.value.next_step
    assert raised.value.message.startswith("p.json ")
    return raised.value.message.removeprefix("p.json ")


def changed(change: Callable[[dict[str, Any]], object]) -> str:
    """The sample as text, after a change to its JSON."""
    content = json.loads(SAMPLE.read_text(encoding="utf-8"))
    change(content)
    return json.dumps(content)


@every("version", [0, 1, 3, 99, "1", None, True, [1], 1.5, "2"])
def test_an_unknown_format(version: Any) -> None:
    step = (
        "Profile again, or use the advisor that wrote it" if version == 1 else "If a newer advisor wrote it"
    )
    message = refused(changed(put("format", version)), step)
    assert message == f"has format {version!r}; this advisor reads format 2"


@every(
    ("texts", "told"),
    [
        (
            ("{}", "[]", "3", "null", '"text"', '{"more": NaN}'),
            'is not a profile: the key "format" is missing',
        ),
        (("", "x", "{", "\ufeff{}", '{"format": 1,}', "[" * 100_000, "1" * 5000), "is damaged: "),
    ],
)
def test_what_is_no_profile(texts: tuple[str, ...], told: str) -> None:
    assert [text for text in texts if not refused(text).startswith(told)] == []


def put(place: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Puts a value at a place of the JSON, such as `results.0.median_seconds`; `…` doubles what is there."""

    def change(content: Any) -> None:
        *steps, last = (int(step) if step.isdigit() else step for step in place.split("."))
        for step in steps:
            content = content[step]
        content[last] = 2 * content[last] if value is ... else value

    return change


STAGES, PRIMES = json.loads(SAMPLE.read_text(encoding="utf-8"))["workload"]["stages"], (997, 991, 983)
ROW, ADVISED, BUFFER = "results.0", "predictions.0.recommendation", "workload.buffers.0"
FRAME_STAGES = [stage for stage in STAGES if stage["phase"] == "frame"]
LOOP = {"number": 0, "until": "c", "at_most": 9}
SPAN = {"track": "host", "label": "x", "begin_seconds": 0.5, "end_seconds": 0.1}
LINE = {"source": "events", "frame_seconds": 1.0, "spans": [SPAN]}
WAIT = {"stage": "ghost", "line": "w.py:1", "call": "get", "write": "nothing", "count": 1.0}
NO_SOUND_VALUES = (
    ("device", None, "device"),
    ("environment.hostname", "x", "environment.hostname"),
    ("device.kind", "tpu", "device.kind"),
    ("method.confidence", 1.0, "method.confidence"),
    ("preferences.memory_budget_bytes", -1, "memory_budget"),
    ("advice.0.gain.bytes", 10**400, "gain.bytes"),
    ("advice.0.strategy", "ghost", "advice.0.strategy: "),
    ("advice.0.device", "ghost", "advice.0.device: there"),
    ("advice.0.gain.over", "ghost", "advice.0.gain.over: there"),
    (f"{ROW}.status", "great", "results.0"),
    ("results.0.median_seconds", "1", "measured.median_seconds"),
    *((f"{ROW}.median_seconds", wrong, "measured.median_seconds") for wrong in (-1, 0, math.nan, math.inf)),
    (f"{ROW}.median_seconds", 1e-13, "measured.median_seconds: Input"),
    (f"{ROW}.interval_seconds", [0.01, 0.02], "results.0.median_seconds: 0.04 is not within"),
    *((f"{ROW}.interval_seconds", wrong, "measured.interval_seconds") for wrong in ([1.0], [0.05, 0.01])),
    (f"{ROW}.setup_seconds", 1.1e15, "results.0.measured.setup_seconds"),
    (f"{ROW}.frame_seconds", [], "frame_seconds"),
    (f"{ROW}.frame_seconds", [1e-320] * 90, "results.0.measured.frame_seconds.0"),
    (f"{ROW}.frames_per_round", [3], "frames_per_round"),
    (f"{ROW}.footprint.physical_bytes", 2**63, "footprint.physical_bytes"),
    (f"{ROW}.footprint.requested.other", 1, "footprint.requested"),
    (f"{ROW}.timeline", LINE, "results.0.timeline.spans.0.end_seconds"),
    ("results", ..., "the strategy 'pageable' appears twice"),
    ("recommendation.interval", [9.0, 1.0], "recommendation.interval"),
    *(("recommendation.speedup", wrong, "recommendation.speedup") for wrong in (9.0, 0)),
    *((f"recommendation.{key}", "other", f"recommendation.{key}") for key in ("strategy", "baseline")),
    ("recommendation.tied_with", ["other"], "recommendation.tied_with"),
    (f"{ADVISED}.tied_with", ["ghost"], f"{ADVISED}.tied_with"),
    (f"{ADVISED}.excluded", {"ghost": "1 GiB"}, f"{ADVISED}.excluded"),
    ("final.alias", "ghost", "final.alias: there is no contestant"),
    ("predictions.0.results.0.status", "measured", "predictions.0.results.0"),
    ("predictions.0.results.0.likely_seconds", 1.0, "predictions.0.results.0.likely_seconds"),
    ("predictions.0.results.0.terms.host:ghost", 0.1, "predictions.0.results.0.terms"),
    ("predictions.0.results", [], f"{ADVISED}.strategy"),
    ("predictions", ..., "predictions: the device"),
    ("predictions.0.results", ..., "predictions.0.results: the strategy 'pageable' appears twice"),
    ("traffic.waits", [WAIT], "traffic.waits.0.stage"),
    ("traffic.traffic.0.buffer", "ghost", "traffic.traffic.0.buffer"),
    ("traffic.traffic.0.bytes_read", 1e308, "bytes_read: 1e+308"),
    ("traffic.valid_bytes", {"ghost": 1.0}, "traffic.valid_bytes"),
    ("trace.missing", [{"strategy": "ghost", "reason": "none"}], "trace.missing.0.strategy"),
    (f"{BUFFER}.bytes", 5, "buffers.0.bytes"),
    (f"{BUFFER}.access.ghost", "in", f"{BUFFER}.access"),
    (f"{BUFFER}.valid", "ghost", f"{BUFFER}.valid"),
    (f"{BUFFER}.regions", {"add": [[0, 0]]}, "does not lie in"),
    (f"{BUFFER}.shape", [-1], "buffers.0.shape"),
    (f"{BUFFER}.shape", [], "buffers.0.shape: ()"),
    (f"{BUFFER}.dtype", 'x");import os;("', "buffers.0.dtype"),
    (f"{BUFFER}.dtype", "[('a', '<f4')] # x", "buffers.0.dtype: NumPy"),
    (f"{BUFFER}.name", "a; import os", "buffers.0.name"),
    (f"{BUFFER}.name", "if", "buffers.0.name: 'if'"),
    ("workload.stages", [], "no stage belongs to the frame"),
    ("workload.stages.0.name", "p\nimport os #", "stages.0.name"),
    ("workload.stages.1.every", 999_999_999, "workload.stages.1.every"),
    ("workload.stages", [{**s, "every": n} for s, n in zip(STAGES, PRIMES, strict=False)], "stages: every"),
    ("workload.stages", [{**s, "every": 2, "loop": LOOP} for s in FRAME_STAGES], "cannot be in a loop"),
)
"""A place in the sample, what is put there, and where the message says that it is wrong."""


@every(("place", "value", "where"), NO_SOUND_VALUES, ids=lambda part: part if isinstance(part, str) else "")
def test_a_damaged_file_says_where(place: str, value: Any, where: str) -> None:
    message = refused(changed(put(place, value)))
    assert message.startswith("is damaged: ")
    assert where in message


@every(("place", "value"), [("recommendation.interval", None), (f"{BUFFER}.dtype", "[('a', '<f4')]")])
def test_a_part_that_may_be_missing_and_a_structured_array(place: str, value: Any) -> None:
    assert parse(changed(put(place, value)), "p.json").results


@every(
    ("change", "where"),
    [
        (put("crossings.1.loop", 1), "script.crossings.1.loop: there is no loop 1"),
        (put("crossings.1.frames", 501), "script.crossings.1.frames: its loop has 500"),
        (put("overhead_seconds", 9.0), "script.overhead_seconds"),
        (
            put("predictions", [{"device": "x", "seconds": [None], "likely_seconds": [None]}]),
            "script.predictions.0.seconds: it has 1 figures for 4 crossings",
        ),
    ],
)
def test_parts_of_a_script_that_contradict_one_another(
    change: Callable[[dict[str, Any]], object], where: str
) -> None:
    content = json.loads(builders.script_profile().to_json())
    change(content["script"])
    assert where in refused(json.dumps(content))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b'{"format": 1, "command": "\xe9"}')
    for name, told in (
        ("nothing.json", r"nothing.json does not exist\n"),
        ("latin", "is damaged: it is not UTF-8 text"),
        ("w.py", "Python code, not a profile"),
        (DATA / "profile-format-1.json", "has format 1; this advisor reads format 2"),
        (".", r"is a directory without a profile\.json"),
    ):
        with pytest.raises(FileProblem, match=told):
            load(tmp_path / name)


def test_a_directory_is_answered_with_the_files_in_it(tmp_path: Path) -> None:
    device = tmp_path / "device"
    for value in ("n=1", "n=2"):
        (device / value).mkdir(parents=True)
        builders.profile().save(device / value / "profile.json")
    for folder in (device, tmp_path):  # of a sweep, of a fleet that sweeps
        with pytest.raises(FileProblem, match="with 2 profiles") as told:
            load(folder)
        assert str(device / "n=1" / "profile.json") in told.value.next_step
    assert load(device / "n=2") == builders.profile(), "a directory with one is that one"


# Writing


@pytest.mark.parametrize("mask", [0o027, 0])
def test_the_files_mode_is_that_of_any_new_file(mask: int, tmp_path: Path) -> None:
    old = os.umask(mask)
    try:
        write_atomically(tmp_path / "p.json", "x")
        assert os.umask(mask) == mask, "the process's own mask is as it was"
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "p.json").stat().st_mode) == 0o666 & ~mask


@pytest.mark.parametrize("problem", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_write_keeps_the_old_file(
    problem: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise problem

    path = tmp_path / "p.json"
    path.write_text("old")
    monkeypatch.setattr(os, "replace", fail)
    told = FileProblem if isinstance(problem, OSError) else KeyboardInterrupt
    with pytest.raises(told, match="cannot be written: No space left" if told is FileProblem else None):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "nowhere" / "p.json", tmp_path / "folder"):
        with pytest.raises(FileProblem, match="cannot be written") as raised:
            builders.profile().save(path)
        assert "you can write to" in raised.value.next_step
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder"]


def test_what_is_too_large_is_refused_with_the_reason(tmp_path: Path) -> None:
    text, file = builders.profile().model_dump_json().encode(), tmp_path / "profile.json"
    file.write_bytes(text)
    assert read_whole(file, len(text)) == text
    with pytest.raises(FileProblem, match="the maximum for a report") as raised:
        read_whole(file, len(text) - 1)
    assert "--rounds" in raised.value.next_step


# The published JSON Schema is the program's own, and real files hold to it

ROOT = Path(__file__).parents[1]
PUBLISHED = ROOT / "docs" / "profile.schema.json"
REGENERATE = "python -m advisor.profiles.reading > docs/profile.schema.json"


def test_the_command_prints_what_is_published() -> None:
    done = subprocess.run(
        [sys.executable, *REGENERATE.split()[1:3]], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == PUBLISHED.read_text(encoding="utf-8"), f"run `{REGENERATE}`"
    assert done.stderr == ""


def test_profiles_and_the_sample_of_this_format_hold_to_it() -> None:
    published, sample = (json.loads(file.read_text(encoding="utf-8")) for file in (PUBLISHED, SAMPLE))
    made = (json.loads(each.to_json()) for each in (builders.profile(), builders.cpu_profile()))
    for content in (*made, sample):
        jsonschema.validate(content, published)
    for wrong in ({"format": 3}, {"extra": 1}, {"results": [{"status": "great"}]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**sample, **wrong}, published)
