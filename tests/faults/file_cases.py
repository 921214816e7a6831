"""Of the matrix: damaged, hostile and impossible files, and what is no file in the place of one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.faults.case import FILES, PROFILE, SAVED, SECRET, SHORT, Case, Content, saved, workload

_MISNAMED: dict[str, Callable[[dict[str, Any]], object]] = {
    "advice.0.strategy": lambda p: p["advice"][0].update(strategy="ghost"),
    "advice.0.device": lambda p: p["advice"][0].update(device="ghost"),
    "advice.0.gain.over": lambda p: p["advice"][0]["gain"].update(over="ghost"),
    "predictions.0.recommendation.tied_with": lambda p: p["predictions"][0]["recommendation"].update(
        tied_with=["ghost"]
    ),
    "predictions.0.recommendation.excluded": lambda p: p["predictions"][0]["recommendation"].update(
        excluded={"ghost": "1 GiB"}
    ),
    "predictions.0.results.0.terms": lambda p: p["predictions"][0]["results"][0]["terms"].update(
        {"host:ghost": 0.1}
    ),
    "traffic.waits.0.stage": lambda p: p["traffic"].update(
        waits=[{"stage": "ghost", "line": "w.py:1", "call": "get", "write": "nothing", "count": 1.0}]
    ),
    "trace.missing.0.strategy": lambda p: p["trace"].update(
        missing=[{"strategy": "ghost", "reason": "none"}]
    ),
}
"""By the key that names what is nowhere in the profile."""


def profiles() -> Iterator[Case]:
    """Saved profiles that are damaged, contradict themselves, or are none; more in test_wrong_input.py."""
    text = PROFILE.read_text(encoding="utf-8")
    files: dict[str, Content] = {
        "a number": "3",
        "null": "null",
        "the last brace is missing": text.rstrip()[:-1],
        "not UTF-8": b"\xff" + text.encode(),
        "null bytes": b"\0" * 1000,
        "nested objects": '{"a":' * 50_000,
        "NaN": text.replace('"rounds":', '"rounds": NaN, "x":', 1),
        "format true": saved(lambda p: p.update(format=True)),
        "no results": saved(lambda p: p.pop("results")),
        "a negative time": saved(lambda p: p["results"][0].update(median_seconds=-1.0)),
        "a time as text": saved(lambda p: p["results"][0].update(median_seconds="1")),
        "an infinite time": saved(lambda p: p["results"][0].update(median_seconds=1e999)),
        "a year a frame": saved(lambda p: p["results"][0].update(median_seconds=1e10)),
        "a strategy twice": saved(lambda p: p["results"].append(p["results"][0])),
        "a huge integer": text.replace('"format": 2', '"format": ' + "9" * 6000, 1),
        "gzip that ends early": b"\x1f\x8b\x08\x00abc",
        "a budget below zero": saved(lambda p: p["preferences"].update(memory_budget_bytes=-1)),
        "a speedup of zero": saved(lambda p: p["predictions"][0]["recommendation"].update(speedup=0)),
        "an unknown buffer": saved(lambda p: p["workload"]["stages"][0].update(access={"ghost": "in"})),
        "an endless FIFO": lambda path: __import__("os").mkfifo(path),
        "a folder": Path.mkdir,
    }
    for name, content in files.items():
        yield Case(f"profile: {name}", ("report", "p.json", "--out", "out"), 5, {"p.json": content})
    for key, misname in _MISNAMED.items():
        files = {"p.json": saved(misname)}
        yield Case(
            f"profile: nothing has the name in {key}", ("report", "p.json"), 5, files, (f"{key}: ", "'ghost'")
        )
    yield Case("compare: damaged", ("compare", "p.json", "p.json"), 5, {"p.json": text[:900]})
    yield Case(
        "compare: another file", ("compare", "p.json", "w.py"), 5, {"p.json": text, "w.py": workload()}
    )
    told: dict[str, Any] = {
        "notes": [f"token={SECRET}"],
        "command": f"advisor profile --set password={SECRET}",
    }
    telling = {
        "p.json": saved(lambda p: (p.update(told), p["workload"]["parameters"].update(api_key=SECRET)))
    }
    for command in (("report", "p.json", "--format", "html,md,json"), ("compare", "p.json", "p.json")):
        yield Case(
            f"profile: secrets of another's, {command[0]}",
            (*command, "--out", "out"),
            0,
            telling,
            never=(SECRET,),
        )
    markup = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    hostile = saved(lambda p: p.update(notes=[markup, "\x1b[2J\x00", "::error::planted"], command=markup))
    yield Case(
        "profile: markup, controls and commands in texts",
        ("report", "p.json", "--out", "out"),
        0,
        {"p.json": hostile},
        never_shown=("<img src=x", "<script>alert"),
    )


def configurations() -> Iterator[Case]:
    """advisor.toml, device files and traces."""
    for name, text in {
        "no TOML": "a = [",
        "an unknown key": "no_such = 1",
        "a wrong type": "rounds = 'x'",
        "not UTF-8": b"\xff\xfe",
        "a huge number": f"rounds = {'9' * 6000}",
        "deeply nested": "a = " + "[" * 20_000,
        "a dotted key of 50,000 parts": ".".join("a" * 50_000) + " = 1",
        "a table of the wrong kind": "rounds = {}",
        "a wrong number of seconds": "max-seconds = 1e99",
        "a wrong size": f"memory-budget = '{'9' * 40_000}'",
    }.items():
        code = 2 if "wrong" in name or name == "an unknown key" else 5
        yield Case(
            f"advisor.toml: {name}",
            ("profile", "w.py", *SHORT),
            code,
            {"w.py": workload(), "advisor.toml": text},
        )
    for name, text in {
        "empty": "",
        "no TOML": "[[[",
        "an unknown key": "name = 'x'\nno_such = 1",
        "binary": bytes(range(256)),
        "a wrong class": "name = 'x'\nmemory_class = 'none'",
    }.items():
        command = ("predict", str(PROFILE), "--target", "d.toml", "--out", "out")
        yield Case(f"device file: {name}", command, 5, {"d.toml": text})
    for name, text in {
        "empty": "",
        "no database": "hello" * 100,
        "a header alone": b"SQLite format 3\0" + b"\0" * 84,
        "binary": bytes(range(256)) * 100,
    }.items():
        yield Case(f"trace: {name}", ("trace", "t.sqlite"), 5, {"t.sqlite": text})
    for name, text in {
        "empty": "",
        "binary": bytes(range(256)) * 100,
        "1 MB of lines": "\n" * 1_000_000,
        "endless testcases": "nvbandwidth\n" + "Running a. bandwidth (GB/s) 1\n" * 30_000,
        "endless titles": "Host to Device Bandwidth\n" * 40_000,
        "a size of 6,000 digits": "bandwidthTest-H2D-Pinned, Bandwidth = 9.0 GB/s, Time = 1 s, "
        f"Size = {'9' * 6000} bytes",
        "JSON of another shape": '{"nvbandwidth": {"testcases": [[1], 2]}}',
        "larger than it may be": "x" * 2_000_000,
        "a FIFO": os.mkfifo,
    }.items():
        command = ("devices", "import", "f.txt", "--base", "h100-sxm")
        yield Case(f"output of nvbandwidth: {name}", command, 5, {"f.txt": text})
    yield Case("trace: missing", ("trace", "none.sqlite"), 5)
    yield Case("trace: another file", ("trace", "t.nsys-rep"), 5, {"t.nsys-rep": "no report"})


def files() -> Iterator[Case]:
    """FIFOs, devices and links in the place of every file that is read."""
    made: dict[str, Content] = {
        "a FIFO": os.mkfifo,
        "a link to itself": lambda path: path.symlink_to(path),
        "/dev/zero": lambda path: path.symlink_to("/dev/zero"),
    }
    for name, make in made.items():
        yield Case(f"workload: {name}", ("profile", "w.py", *SHORT), 5, {"w.py": make})
        yield Case(f"profile: {name}", ("report", "p.json"), 5, {"p.json": make})
        yield Case(f"baseline: {name}", ("compare", "p.json", "q.json"), 5, {**SAVED, "q.json": make})
        yield Case(f"advisor.toml: {name}", ("profile", "w.py", *SHORT), 5, {**FILES, "advisor.toml": make})
        yield Case(
            f"device: {name}", ("predict", "p.json", "--target", "d.toml"), 5, {**SAVED, "d.toml": make}
        )
        yield Case(f"export: {name}", ("trace", "t.sqlite"), 5, {"t.sqlite": make})
        yield Case(f"nsys report: {name}", ("trace", "t.nsys-rep"), 5, {"t.nsys-rep": make})
    gh200 = (Path(PROFILE).parents[3] / "advisor/devices/gh200.toml").read_text(encoding="utf-8")
    lines = gh200.splitlines()
    for name, text in {
        "a figure of 1e400": gh200.replace("= ", "= 1e400 # ", 3),
        "endless keys": lambda path: path.write_text("\n".join(f"k{i} = 1" for i in range(200_000))),
        "deep arrays": "name = " + "[" * 50_000,
        "a deep dotted key": ".".join("a" * 30_000) + " = 1",
        "a huge number": "name = " + "9" * 100_000,
        "a name of control characters": 'name = "\\u001b]0;x\\u0007\\n::error::x"',
        "a byte order mark": b"\xff\xfen\0a\0",
        "without its link": "\n".join(line for line in lines if "link" not in line),
        "secrets": f'token = "{SECRET}"\npassword = "{SECRET}"\n[[[',
    }.items():
        yield Case(
            f"device file: {name}",
            ("predict", "p.json", "--target", "d.toml", "--out", "out"),
            5,
            {**SAVED, "d.toml": text},
            never=(SECRET,) if name == "secrets" else (),
        )
