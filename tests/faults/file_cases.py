"""Of the matrix: damaged, hostile and impossible files, and what is no file in the place of one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.faults.case import FILES, PROFILE, ROOT, SAVED, SECRET, SHORT, Case, Content, saved

_TEXT = PROFILE.read_text(encoding="utf-8")
_DAMAGED: dict[str, Content] = {
    "the last brace is missing": _TEXT.rstrip()[:-1],
    "not UTF-8": b"\xff" + _TEXT.encode(),
    "null bytes": b"\0" * 1000,
    "a huge integer": _TEXT.replace('"format": 2', '"format": ' + "9" * 6000, 1),
    "gzip that ends early": b"\x1f\x8b\x08\x00abc",
    "a folder": Path.mkdir,
}
_GH200 = (ROOT / "advisor/devices/gh200.toml").read_text(encoding="utf-8")
_T4 = (ROOT / "advisor/devices/t4.toml").read_text(encoding="utf-8")
_LINK = "figures.pinned_to_device_bytes_per_second"


def _without(text: str, *keys: str) -> str:
    """A device of the catalogue without some of its figures."""
    return "\n".join(line for line in text.splitlines() if not line.startswith(keys))


_DEVICES: dict[str, tuple[Content, str]] = {
    "empty": ("", ""),
    "binary": (bytes(range(256)), ""),
    "a figure of 1e400": (_GH200.replace("= ", "= 1e400 # ", 3), ""),
    "endless keys": ("\n".join(f"k{i} = 1" for i in range(200_000)), ""),
    "deep arrays": ("name = " + "[" * 50_000, ""),
    "a deep dotted key": (".".join("a" * 30_000) + " = 1", ""),
    "a huge number": ("name = " + "9" * 100_000, ""),
    "a name of control characters": ('name = "\\u001b]0;x\\u0007\\n::error::x"', ""),
    "secrets": (f'token = "{SECRET}"\npassword = "{SECRET}"\n[[[', ""),
    "without its link": (_without(_GH200, "link_", "pinned_to_device"), _LINK),
    "tiny memory": (
        _without(_T4, "memory_bytes") + "\nmemory_bytes = {value = 5e-324, source = 'x'}",
        "e-324",
    ),
}
"""Entries, and what is said beside their name."""
_SETTINGS: dict[str, tuple[int, Content]] = {
    "no TOML": (5, "a = ["),
    "an unknown key": (2, "no_such = 1"),
    "a wrong type": (2, "rounds = 'x'"),
    "a table of the wrong kind": (2, "rounds = {}"),
    "a wrong number of seconds": (2, "max-seconds = 1e99"),
    "a wrong size": (2, f"memory-budget = '{'9' * 40_000}'"),
}
_EXPORTS: dict[str, Content] = {
    "empty": "",
    "a header alone": b"SQLite format 3\0" + b"\0" * 84,
    "binary": bytes(range(256)) * 100,
}
_BANDWIDTH = "bandwidthTest-H2D-Pinned, Bandwidth = 9.0 GB/s, "
_RATES: dict[str, Content] = {
    "empty": "",
    "binary": bytes(range(256)) * 100,
    "1 MB of lines": "\n" * 1_000_000,
    "endless testcases": "nvbandwidth\n" + "Running a. bandwidth (GB/s) 1\n" * 30_000,
    "endless titles": "Host to Device Bandwidth\n" * 40_000,
    "an endless line": _BANDWIDTH * 20_000,
    "a size of 6,000 digits": f"{_BANDWIDTH}Time = 1 s, Size = {'9' * 6000} bytes",
    "JSON of another shape": '{"nvbandwidth": {"testcases": [[1], 2]}}',
    "deep JSON": "nvbandwidth" + "{" * 9999,
    "larger than it may be": "x" * 2_000_000,
    "a FIFO": os.mkfifo,
}
_NO_FILES: dict[str, Content] = {
    "a FIFO": os.mkfifo,
    "a link to itself": lambda path: path.symlink_to(path),
    "/dev/zero": lambda path: path.symlink_to("/dev/zero"),
}


def profiles() -> Iterator[Case]:
    """Saved profiles that are damaged or none; what contradicts itself is in test_profiles.py."""
    report = ("report", "p.json", "--out", "out")
    for name, content in _DAMAGED.items():
        yield Case(f"profile: {name}", report, 5, {"p.json": content})
    damaged = {"p.json": _TEXT[:900]}
    yield Case("compare: damaged", ("compare", "p.json", "p.json"), 5, damaged)
    command = f"advisor profile --set password={SECRET}"
    told: dict[str, Any] = {"notes": [f"token={SECRET}"], "command": command}
    telling = saved(lambda p: (p.update(told), p["workload"]["parameters"].update(api_key=SECRET)))
    for words in (("report", "p.json", "--format", "html,md,json"), ("compare", "p.json", "p.json")):
        name = f"profile: secrets of another's, {words[0]}"
        yield Case(name, (*words, "--out", "out"), 0, {"p.json": telling}, never=(SECRET,))
    markup = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    hostile = saved(lambda p: p.update(notes=[markup, "\x1b[2J\x00", "::error::planted"], command=markup))
    never = ("<img src=x", "<script>alert")
    name = "profile: markup, controls and commands in texts"
    yield Case(name, report, 0, {"p.json": hostile}, never_shown=never)


def configurations() -> Iterator[Case]:
    """advisor.toml, device files and traces."""
    for name, (code, text) in _SETTINGS.items():
        files = {**FILES, "advisor.toml": text}
        yield Case(f"advisor.toml: {name}", ("profile", "w.py", *SHORT), code, files)
    for name, (text, said) in _DEVICES.items():
        command = ("predict", "p.json", "--target", "d.toml", "--out", "out")
        never = (SECRET,) if name == "secrets" else ()
        yield Case(f"device file: {name}", command, 5, {**SAVED, "d.toml": text}, (said,), never)
    for name, text in _EXPORTS.items():
        yield Case(f"trace: {name}", ("trace", "t.sqlite"), 5, {"t.sqlite": text})
    for name, text in _RATES.items():
        command = ("devices", "import", "f.txt", "--base", "h100-sxm")
        yield Case(f"output of nvbandwidth: {name}", command, 5, {"f.txt": text})
    yield Case("trace: another file", ("trace", "t.nsys-rep"), 5, {"t.nsys-rep": "no report"})


def files() -> Iterator[Case]:
    """FIFOs, devices and links in the place of every file that is read."""
    for name, make in _NO_FILES.items():
        for what, command, file in (
            ("workload", ("profile", "w.py", *SHORT), "w.py"),
            ("profile", ("report", "p.json"), "p.json"),
            ("baseline", ("compare", "p.json", "q.json"), "q.json"),
            ("advisor.toml", ("profile", "w.py", *SHORT), "advisor.toml"),
            ("device", ("predict", "p.json", "--target", "d.toml"), "d.toml"),
            ("export", ("trace", "t.sqlite"), "t.sqlite"),
            ("nsys report", ("trace", "t.nsys-rep"), "t.nsys-rep"),
        ):
            yield Case(f"{what}: {name}", command, 5, {**FILES, **SAVED, file: make})
