"""Damaged files of every kind that is read: each is refused with a message or read, never a crash or a hang.

A handful here, the same every time; `make fuzz` tries 100,000, others each time. What is read is also shown:
parts that contradict one another are to be refused where a file is read, not where a report is drawn from it.
An input that fails is kept in `data/damaged` and tried by every run from then on.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import resource
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from builders import cpu_profile, vector_add_trace
from builders import profile as gpu_profile

from advisor import configuration
from advisor.configuration import FILE
from advisor.devices import catalogue, host_rates
from advisor.errors import AdvisorError
from advisor.measure.jobs import Settings
from advisor.model.machines import describe_one
from advisor.nsys import exports
from advisor.profiles import reading
from advisor.report import pages, traces
from advisor.report.page import Page
from advisor.rules import advise
from advisor.verdicts.comparing import comparisons

DATA = Path(__file__).parent / "data"
KEPT = DATA / "damaged"
TRIES = int(os.environ.get("ADVISOR_FUZZ", "200"))
"""Damaged files in all."""
FIRST = int(os.environ.get("ADVISOR_FUZZ_FIRST", "0"))
"""The number of the first one, which its damage follows from."""
SECONDS = 10.0
MEGABYTES = 500
HOSTILE: tuple[Any, ...] = (
    None, True, "", -1, 0, 1, 2**31, 2**63 - 1, 2**63, 10**400, 5e-324, 1e-13, 1e308, -0.0, math.inf,
    math.nan, [], {}, [[]], [None], {"": 0}, "x" * 5000, "\x00", "\x1b]0;x\x07", "\u202eabc", "\ud83d",
    "<script>alert(1)</script>", "]]>&lt;", "`|$(id)`", "::error::x", "../../etc/passwd", "%s%n{0}", "nan",
    "1e999", "\n\n# x", "pageable", "cuda",
)  # fmt: skip


def show(page: Page) -> None:
    """The page in every form."""
    for form in ("txt", "md", "html"):
        pages.render(page, form)


def profile(path: Path) -> None:
    """Everything that is made of a profile."""
    loaded = advise.concluded(reading.load(path))
    show(pages.page_of(loaded))
    advise.conclude(loaded, host_rates.load_targets(["orin-nano", "h200"]))


def baseline(path: Path) -> None:
    """A profile as the BASE of a comparison."""
    found = comparisons.compare(*map(advise.concluded, (reading.load(path), whole())), anyway=True)
    show(pages.comparison_page(found))


def device(path: Path) -> None:
    """The entry of a device, and a prediction for it."""
    describe_one(str(path))
    advise.conclude(cpu_profile(traffic=vector_add_trace()), [catalogue.load(str(path))])


def options(path: Path) -> None:
    """The settings of a run in whose folder the file lies."""
    path.rename(path.with_name(FILE))
    found = configuration.places(configuration.command_line(workload="w.py"), path.parent)
    made: Settings = configuration.make_settings(found, backend="cpu")
    configuration.parse_formats(configuration.merged(found).formats)
    assert made.file == Path("w.py")


def export(path: Path) -> None:
    """What an export of nsys says."""
    pages.render(traces.trace_page(exports.read(path)), "txt")


@cache
def whole() -> Any:
    return reading.load(DATA / "h200-vector_add-again.json")


READERS: dict[str, Callable[[Path], None]] = {
    "profile": profile, "baseline": baseline, "device": device, "options": options, "export": export,
}  # fmt: skip


@cache
def samples(kind: str) -> list[bytes]:
    if kind == "device":
        home = Path(catalogue.__file__).parent
        return [(home / f"{name}.toml").read_bytes() for name in ("gh200", "orin-nano", "t4", "agx-thor")]
    if kind == "options":
        page = (DATA.parents[1] / "docs" / "configuration.md").read_text(encoding="utf-8")
        shown = page.partition("```toml\n")[2].partition("```")[0]
        return [shown.replace("my-jetson.toml", "h200").encode()]
    if kind == "export":
        return [(DATA / "nsys" / f"h200-{name}.sqlite").read_bytes() for name in ("pinned", "managed")]
    files = [(DATA / name).read_bytes() for name in ("h200-reread-1.json", "profile-format-2.json")]
    made = (cpu_profile(traffic=vector_add_trace()), gpu_profile(traffic=vector_add_trace()))
    return [*files, *(each.model_dump_json().encode() for each in made)]


def reads(kind: str, data: bytes, folder: Path) -> None:
    """Reads and shows the file, or refuses it with a message of bounded length, within the time."""
    path = folder / f"damaged{'.toml' if kind in ('device', 'options') else '.json'}"
    path.write_bytes(data)
    begin, message = time.process_time(), "read"
    try:
        READERS[kind](path)
    except AdvisorError as refused:
        message = refused.message
    finally:
        # Never written over: a journalling file system waits for the disk then.
        for left in folder.iterdir():
            left.unlink()
    assert 0 < len(message) < 3000
    assert time.process_time() - begin < SECONDS


Changes = list[tuple[float, int, int]]
"""Where, by share of the length; a byte; what is done."""


def bytes_damaged(data: bytes, changes: Changes, folder: Path) -> bytes:
    """Bytes replaced, put in, taken out; pieces doubled, moved; the end cut off."""
    made = bytearray(data)
    for place, byte, what in changes:
        at = int(place * len(made))
        if what <= 2:
            made[at : at + 1] = bytes([byte])
        elif what == 3:
            made[at:at] = bytes([byte]) * (1 + byte % 5)
        elif what == 4:
            del made[at : at + byte]
        elif what == 5:
            made[at:at] = made[at : at + byte]
        elif what == 6:
            made[at:at] = json.dumps(HOSTILE[byte % len(HOSTILE)]).encode("utf-8", "replace")
        elif byte < 40:
            del made[at:]
    return bytes(made)


def spots(tree: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Every place in a tree of JSON: what it stands in, and its key there."""
    keys = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        found.append((tree, key))
        spots(tree[key], found)
    return found


def tree_damaged(data: bytes, changes: Changes, folder: Path) -> bytes:
    """Values replaced by hostile ones or by others of the same file, taken out, doubled, emptied, renamed."""
    tree = json.loads(data)
    for place, byte, what in changes[:3]:
        every = spots(tree, [])
        # Long lists of numbers are most of a file: half of the places are chosen outside them.
        chosen = [spot for spot in every if not isinstance(spot[0], list)] if byte % 2 else every
        inside, key = chosen[int(place * len(chosen))]
        other, elsewhere = every[(byte * 7919 + int(place * 104729)) % len(every)]
        if what <= 2:
            inside[key] = deepcopy(HOSTILE[(byte + what) % len(HOSTILE)])  # the next damage may be within
        elif what == 3:
            inside[key] = json.loads(json.dumps(other[elsewhere]))
        elif what == 4:
            del inside[key]
        elif what == 5 and isinstance(inside, list):
            inside.insert(key, json.loads(json.dumps(inside[key])))
        elif what == 6 and isinstance(inside[key], (list, dict)):
            inside[key] = type(inside[key])()
        elif isinstance(inside[key], float):
            inside[key] *= 10 ** (byte % 40 - 20)
        elif isinstance(inside, dict):
            inside[f"{key}x"] = inside.pop(key)
    return json.dumps(tree).encode("utf-8", "replace")


def rows_damaged(data: bytes, changes: Changes, folder: Path) -> bytes:
    """Rows, tables and columns of an export changed by SQL, so that it stays one."""
    path = folder / "rows.sqlite"
    path.write_bytes(data)
    with sqlite3.connect(path) as made:
        for place, byte, what in changes:
            names = [row[0] for row in made.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            table = names[int(place * len(names))]
            columns = [row[1] for row in made.execute(f'PRAGMA table_info("{table}")')]
            column = columns[byte % len(columns)]
            changed = {
                4: f'INSERT INTO "{table}" SELECT * FROM "{table}"',
                5: f'DELETE FROM "{table}" WHERE rowid % 2 = {byte % 2}',
                6: f'DROP TABLE "{table}"' if len(names) > 1 else "SELECT 1",
                7: f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "c{byte}"',
            }
            # Not where SQLite itself does not let it: numbers beyond 64 bits, keys that occur twice.
            with suppress(sqlite3.Error, OverflowError, UnicodeEncodeError):
                if what <= 3:
                    update = f'UPDATE "{table}" SET "{column}" = ? WHERE rowid % 3 = {byte % 3}'
                    made.execute(update, (HOSTILE[byte % len(HOSTILE)],))
                else:
                    made.execute(changed[what])
    made.close()
    return path.read_bytes()


DAMAGED: tuple[tuple[str, Callable[[bytes, Changes, Path], bytes], float], ...] = (
    ("profile", bytes_damaged, 0.15), ("profile", tree_damaged, 0.05), ("baseline", bytes_damaged, 0.05),
    ("baseline", tree_damaged, 0.05), ("device", bytes_damaged, 0.2), ("options", bytes_damaged, 0.2),
    ("export", bytes_damaged, 0.2), ("export", rows_damaged, 0.1),
)  # fmt: skip
"""A reader, the kind of damage, and its share of the tries: fewer of those that take a report to draw."""


@pytest.mark.parametrize(("kind", "damage", "share"), DAMAGED)
def test_a_damaged_file_is_refused_or_shown(
    kind: str, damage: Callable[[bytes, Changes, Path], bytes], share: float, tmp_path: Path
) -> None:
    chosen, before = samples(kind), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(FIRST, FIRST + round(TRIES * share)):
        random = Random(f"{kind} {damage.__name__} {number}")
        count = random.choice((1, 1, 1, 2, 2, 3, 5, 8))
        changes = [(random.random(), random.randrange(256), random.randrange(8)) for _ in range(count)]
        data = damage(chosen[number % len(chosen)], changes, tmp_path)
        try:
            reads(kind, data, tmp_path)
        except BaseException:
            KEPT.mkdir(exist_ok=True)
            file = KEPT / f"{kind}-{hashlib.sha256(data).hexdigest()[:12]}"
            file.write_bytes(data)
            print("kept as", file)
            raise
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEGABYTES * 1024


@pytest.mark.parametrize("file", sorted(KEPT.glob("*-*")), ids=lambda file: file.name)
def test_what_once_failed_is_refused_or_shown(file: Path, tmp_path: Path) -> None:
    reads(file.name.partition("-")[0], file.read_bytes(), tmp_path)
