"""Copy rates of the user's own host, in place of the catalogue's and the model's.

They are given with --host, or read from the output of nvbandwidth, bandwidthTest and UnifiedMemoryPerf. How
fast a host copies depends on its memory and link more than on the card: its own rate at one size tells its
other copies better than any constant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median

from advisor import units
from advisor.devices.catalogue import System, load, under
from advisor.devices.entries import CatalogueEntry, Figure
from advisor.errors import FileProblem, UsageError
from advisor.profiles.files import read_bytes
from advisor.texts import shortened

RATES = {
    "pinned_up": "pinned_to_device_bytes_per_second",
    "pinned_down": "pinned_to_host_bytes_per_second",
    "pageable_up": "pageable_to_device_bytes_per_second",
    "pageable_down": "pageable_to_host_bytes_per_second",
}
"""Names that --host has for figures of a catalogue entry."""
_NAMES = {key: name for name, key in RATES.items()}
_GIVEN = ("given with --host", "read from the output of")
_SPREADS = {"pinned": 0.07, "pageable": 0.2, "zero": 0.07}
"""Share by which a host's rate at one size is off at its other sizes, by kind of memory (docs/devices.md)."""
_OTHER_WAY = {"pinned": (0.85, 1.25), "pageable": (0.65, 1.25)}
"""Rate of the way that is not given over the given one: most of twelve published cards, and of eight."""
EXAMPLE = "--host pinned_up=12GB/s,pageable_up=6GB/s"
LARGEST = 1 << 20
"""Bytes of an output that is read."""
_FASTEST = 2e12
"""Bytes per second: no link of a host is faster."""


def parse(text: str) -> dict[str, Figure]:
    """`pinned_up=12GB/s,pageable_up=6GB/s` as figures of an entry. Raises `UsageError`."""
    figures = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if name not in RATES or not equals:
            raise UsageError(
                f"--host {shortened(part, 60)} is not one of {', '.join(RATES)} with a rate",
                next_step=f"For example: {EXAMPLE}.",
            )
        if RATES[name] in figures:
            raise UsageError(f"--host gives {name} twice", next_step="Give each rate once.")
        figures[RATES[name]] = _figure(RATES[name], _rate(name, value), f"{_GIVEN[0]} {name}")
    if not figures:
        raise UsageError("--host is empty", next_step=f"For example: {EXAMPLE}.")
    return figures


def _rate(name: str, text: str) -> float:
    size = text.removesuffix("/s")
    try:
        rate = 0.0 if size.endswith("b") else float(units.parse_size(size))  # 12Gb/s are bits elsewhere
    except ValueError:
        rate = 0.0
    if not 1e6 <= rate <= _FASTEST:
        raise UsageError(
            f"--host {name}={shortened(text, 60)} is not a rate between 1 MB/s and 2 TB/s",
            next_step=f"Write it as in {EXAMPLE}.",
        )
    return rate


def _figure(key: str, rate: float, source: str) -> Figure:
    spread = _SPREADS[key.partition("_")[0]]
    return Figure(value=rate, low=rate * (1 - spread), high=rate * (1 + spread), source=source)


def with_rates(entry: CatalogueEntry, figures: Mapping[str, Figure]) -> CatalogueEntry:
    """The entry with these figures in place of its own.

    What the catalogue read on another host goes too: the other way takes about the given rate, copies of
    pageable memory and zero-copy what the model makes of it. Raises `UsageError` for more than the link.
    """
    link = entry.figures.link_bytes_per_second
    for key, figure in figures.items():
        if link is not None and figure.value > link.value:
            raise UsageError(
                f"{_NAMES.get(key, key)}: {units.rate(figure.value)} is more than the link of {entry.name} "
                f"carries ({units.rate(link.value)})",
                next_step="Check the unit of the rate, and that it is of this card.",
            )
    own_host = entry.memory_class == "coherent" or "total_global_mem" in entry.attributes
    others = {} if link is None or own_host else _of_the_same_host(figures)
    changed = {**others, **figures}
    return entry.model_copy(update={"figures": entry.figures.model_copy(update=changed)})


def _of_the_same_host(figures: Mapping[str, Figure]) -> dict[str, Figure | None]:
    derived: dict[str, Figure | None] = {}
    for key in figures.keys() & {RATES["pinned_up"], RATES["pinned_down"]}:
        way = "read" if key == RATES["pinned_up"] else "write"
        derived |= {key.replace("pinned", "pageable"): None, f"zero_copy_{way}_bytes_per_second": None}
    for key in figures.keys() & _NAMES.keys():
        kind, _, way = _NAMES[key].partition("_")
        rate, (low, high) = figures[key].value, _OTHER_WAY[kind]
        source = f"{_LIKE} {way}, {figures[key].source}: {low:g} to {high:g} of it on most published hosts"
        other = Figure(value=rate, low=rate * low, high=rate * high, source=source)
        derived[RATES[f"{kind}_{'down' if way == 'up' else 'up'}"]] = other
    return derived


_LIKE = "as"


def given_rates(entry: CatalogueEntry, *, inferred: bool = False) -> dict[str, Figure]:
    """The entry's copy rates that a user gave, by name; `inferred`: those that follow from them too."""
    figures = {name: getattr(entry.figures, figure) for name, figure in RATES.items()}
    begins = (*_GIVEN, *[f"{_LIKE} up, ", f"{_LIKE} down, "] * inferred)
    return {name: x for name, x in figures.items() if x is not None and x.source.startswith(begins)}


# What NVIDIA's programs print


@dataclass(frozen=True)
class Output:
    """Output of a program: its name, the device it names, rates by figure of an entry. `pageable_beyond`:
    seconds that a byte to or from pageable memory takes beyond one of page-locked memory."""

    program: str
    device: str | None
    rates: dict[str, float]
    pageable_beyond: float | None = None

    def figures(self, base: CatalogueEntry) -> dict[str, Figure]:
        """Figures for an entry; the base's page-locked rate completes what is known of pageable memory."""
        rates = dict(self.rates)
        if self.pageable_beyond is not None:
            for way in ("up", "down"):
                known = getattr(base.figures, RATES[f"pinned_{way}"]) or base.figures.link_bytes_per_second
                if known is not None:
                    rates[RATES[f"pageable_{way}"]] = 1 / (1 / known.value + self.pageable_beyond)
        return {key: _figure(key, rate, f"{_GIVEN[1]} {self.program}") for key, rate in rates.items()}


def read(file: Path) -> Output:
    """The rates in a file with a program's output. Raises `FileProblem`."""
    try:
        data = read_bytes(file, LARGEST)
    except OSError as problem:
        step = "Give a file with what nvbandwidth, bandwidthTest or UnifiedMemoryPerf printed."
        raise FileProblem(f"cannot read {file}: {problem.strerror or problem}", next_step=step) from None
    if len(data) > LARGEST:
        step = "Give the output of one run of the program."
        raise FileProblem(f"{file} has more than {LARGEST >> 20} MiB", next_step=step)
    return parsed(data.decode("utf-8", "replace"))


def parsed(text: str) -> Output:
    """The rates in a program's output. Raises `FileProblem` where there are none, or of several cards."""
    lines = [line for each in text.splitlines() if (line := each.strip())]
    cards = list(dict.fromkeys(name[2] for line in lines if (name := re.match(_DEVICE, line))))
    if "UMhint" in text:
        output = _unified_memory_perf(lines)
    elif "nvbandwidth" in text:
        cards = list(dict.fromkeys(n[2] for line in lines if (n := re.match(_DEVICE, line)) and n[1] == "0"))
        output = Output("nvbandwidth", next(iter(cards), None), dict(_nvbandwidth(text, lines)))
    else:
        output = Output("bandwidthTest", next(iter(cards), None), _bandwidth_test(lines))
    if len(cards) > 1 and output.program != "UnifiedMemoryPerf":
        step = "Give the output for one of them, for example with --device=0."
        raise FileProblem(f"the file has rates of several cards: {', '.join(cards[:4])}", next_step=step)
    if not output.rates and output.pageable_beyond is None:
        raise FileProblem(
            "the file has no rate between 1 MB/s and 2 TB/s of copies between host and GPU",
            next_step="Give the whole output of nvbandwidth, bandwidthTest or UnifiedMemoryPerf (times, not "
            "-reportAsBandwidth).",
        )
    return output


_DEVICE = r"Device (\d{1,3}): ([^(]{1,100}?)\s*(?:\(|$)"
_TESTCASES = {
    "host_to_device_memcpy_ce": "pinned_to_device_bytes_per_second",
    "device_to_host_memcpy_ce": "pinned_to_host_bytes_per_second",
    "host_to_device_memcpy_sm": "zero_copy_read_bytes_per_second",
    "device_to_host_memcpy_sm": "zero_copy_write_bytes_per_second",
}


def _nvbandwidth(text: str, lines: Sequence[str]) -> Iterable[tuple[str, float]]:
    """The first GPU's column of each testcase; its host memory is page-locked."""
    rows = dict(_tables(lines))
    if (start := text.find("{")) >= 0:
        with suppress(ValueError, LookupError, TypeError, AttributeError, RecursionError):
            cases = json.loads(text[start:])["nvbandwidth"]["testcases"]
            with_rates = [case for case in cases if case.get("bandwidth_matrix")]
            rows = {case["name"]: str(case["bandwidth_matrix"][0][0]) for case in with_rates}
    for name, figure in _TESTCASES.items():
        if name in rows and (rate := _gigabytes(rows[name])):
            yield figure, rate


def _tables(lines: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Tables of the text, line by line: a search of the whole text could take hours on an odd file."""
    name, below = "", -1
    for line in lines:
        cells = line.split(maxsplit=2)
        if running := re.match(r"Running (\w+)\.", line):
            name, below = running[1], -1
        elif "bandwidth (GB/s)" in line:
            below = 0
        elif below >= 0:
            below += 1
            if below > 1 and cells[0] == "0" and len(cells) > 1:  # the first line numbers the columns
                yield name, cells[1]
                below = -1


def _gigabytes(value: object, scale: float = 1e9) -> float | None:
    try:
        rate = float(str(value)) * scale
    except ValueError:
        return None
    return rate if 1e6 <= rate <= _FASTEST else None


def _bandwidth_test(lines: Iterable[str]) -> dict[str, float]:
    """The rate of the largest size, by direction and kind of memory, of both its forms of output. Of several
    cards it prints the sum of rates that it measured one after another."""
    rates: dict[str, tuple[int, float]] = {}
    direction = memory = unit = cards = ""
    for line in lines:
        if title := re.match(r"(\w+ to \w+) Bandwidth(?:, (\d{1,3}) Device)?", line):
            direction, memory, unit, cards = title[1], "", "", title[2]
        elif kind := re.match("(PINNED|PAGEABLE) Memory Transfers", line):
            memory = kind[1]
        elif line.startswith("Write-Combined"):
            memory = ""
        elif header := re.match(r"Transfer Size \(Bytes\)\s+Bandwidth\((GB|MB)/s\)", line):
            unit = header[1]
        elif row := re.fullmatch(_ROW, line) or re.match(_CSV_ROW, line):
            each = {"way": direction, "memory": memory, "unit": unit, "cards": cards, **row.groupdict()}
            key, size = _FIGURES.get((each["way"], each["memory"])), int(each["size"])
            scale = _UNITS.get(each["unit"], 0.0) / max(int(each["cards"] or 1), 1)
            rate = _gigabytes(each["rate"], scale)
            if key and rate and size >= rates.get(key, (0, 0.0))[0]:
                rates[key] = size, rate
    return {figure: rate for figure, (_, rate) in rates.items()}


_FIGURES = {
    (way, memory): RATES[f"{kind}_{up_or_down}"]
    for up_or_down, ways in (("up", ("Host to Device", "H2D")), ("down", ("Device to Host", "D2H")))
    for kind, memories in (("pinned", ("PINNED", "Pinned")), ("pageable", ("PAGEABLE", "Paged")))
    for way, memory in product(ways, memories)
}
"""By the direction and the kind of memory, as either form has them."""
_ROW = r"(?P<size>\d{1,18})\s+(?P<rate>[\d.]{1,40})"
_CSV_ROW = (
    r"bandwidthTest-(?P<way>H2D|D2H)-(?P<memory>Pinned|Paged), Bandwidth = (?P<rate>[\d.]{1,40}) "
    r"(?P<unit>GB|MB)/s,.*?Size = (?P<size>\d{1,18}) bytes(?:, NumDevsUsed = (?P<cards>\d{1,3}))?"
)
_UNITS = {"GB": 1e9, "MB": 1e6}


_NUMBER = r"\d{1,18}(\.\d{1,18})?"
_LARGE = 1 << 20
"""Bytes of a matrix from which on copies outweigh their calls."""
_TRANSFERS = {"CPU to GPU Transfer Calls Time": ("up", 2), "GPU to CPU Transfer Calls Time": ("down", 1)}
"""Tables that -print-launch-transfer-results adds: the way, and how many matrices go it."""


def _unified_memory_perf(lines: Iterable[str]) -> Output:
    """Rates of its synchronous copies, MemCopy's and CpHpglk's, of the largest size in tables of transfers.

    Where there are none, what pageable memory takes beyond: MemCopy less CpPglAs of the whole, in which two
    matrices go up and one comes down. Only tables of mean times in ms count."""
    title, in_milliseconds = "Overall Time", True
    beyond, rates = [], {}
    for line in lines:
        if " For matrixMultiplyPerf" in line:
            title = line.partition(" For ")[0]
        elif line.startswith("Printing "):
            in_milliseconds = line.startswith("Printing Average") and line.endswith("(ms)")
        cells = line.split()
        if not in_milliseconds or len(cells) != 9 or not all(re.fullmatch(_NUMBER, x) for x in cells):
            continue
        size, row = int(float(cells[0])) * 1024, [float(cell) for cell in cells]
        if title == "Overall Time" and size >= _LARGE:
            beyond.append((row[5] - row[8]) * 1e-3 / (3 * size))
        elif title in _TRANSFERS and size >= _LARGE:
            way, matrices = _TRANSFERS[title]
            for kind, seconds in (("pageable", row[5]), ("pinned", row[7])):
                if seconds and (rate := _gigabytes(matrices * size / seconds, 1e3)):
                    rates[RATES[f"{kind}_{way}"]] = rate
    middle = median(beyond) if beyond and not rates else 0.0
    return Output("UnifiedMemoryPerf", None, rates, middle if 1 / _FASTEST < middle < 1e-6 else None)


def load_targets(
    names: Sequence[str], system: System = "linux", host: str | None = None
) -> tuple[CatalogueEntry, ...]:
    """The catalogue's entries of these names (which commas may separate) or files, each once, with that
    operating system and that host's copy rates. Raises `UsageError` or `FileProblem`."""
    each = (p.strip() for name in names for p in ([name] if name.endswith(".toml") else name.split(",")))
    entries = tuple(under(load(name), system) for name in dict.fromkeys(each))
    if host is None:
        return entries
    rates = parse(host)
    if not entries:
        raise UsageError(
            "--host gives the copy rates of a target's host, and no target is named",
            next_step=f"Name the card: --target rtx-3060 {EXAMPLE}.",
        )
    return tuple(with_rates(entry, rates) for entry in entries)
