"""Reads an export of nsys: per strategy where it has our ranges, else as any program, GPU by GPU: its copies,
migrations, kernels and idle time in its steady frames.

The memory it takes is 30 to 60 bytes for each piece of work and 20 for each call of the host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from advisor.devices.catalogue import named
from advisor.errors import FileProblem, UsageError, nearest
from advisor.nsys.database import COPY_KINDS, NEEDED, THREAD_BITS, Database, Tables, opened
from advisor.nsys.gpu_traces import GpuFigures
from advisor.nsys.ranges import Intervals, ranges_of, recurring, steady_frames, union
from advisor.nsys.strategies import strategies
from advisor.nsys.work import GpuWork, allocations, read_calls, read_work
from advisor.profiles.base import Record, Text, Word, optional
from advisor.profiles.programs import GpuTrace, Link, ProgramTrace
from advisor.profiles.traces import StrategyTrace
from advisor.texts import quoted

KNOWN_SCHEMA = 3
"""Major version of nsys's export schema that the tables are read by (2023.4 writes 3.7.2)."""


class FileTrace(Record):
    """One file: our strategies, or any program."""

    tool: Word | None = None
    strategies: tuple[StrategyTrace, ...] = ()
    program: ProgramTrace | None = optional("What the GPUs of any program did")
    notes: tuple[Text, ...] = ()


def read(path: Path, frame: str | None = None) -> FileTrace:
    """Reads a SQLite export: its strategies where it has our ranges, else any program's, whose frames are the
    NVTX ranges `frame`. With a frame it is any program's even with our ranges; "" is for what repeats. Raises
    `FileProblem` where it is not an export of nsys, is damaged, or of an unknown form."""
    with opened(path) as database:
        about = database.settings("META_DATA_EXPORT")
        version, notes = about.get("EXPORT_SCHEMA_VERSION", ""), list[str]()
        major = version.partition(".")[0]
        if major.isdecimal() and int(major) > KNOWN_SCHEMA:
            notes.append(
                f"The export's schema {version} is newer than this advisor supports ({KNOWN_SCHEMA}); only "
                "the readable part is shown."
            )
        for table in NEEDED:
            lacking = [c for c in NEEDED[table] if database.has(table) and not database.has(table, c)]
            if lacking:
                notes.append(f"{table} was skipped: it has no column {', '.join(lacking)}.")
        if database.readable(Tables.COPIES) and not database.has(COPY_KINDS, "id", "name"):
            notes.append(f"{COPY_KINDS} is missing: directions of copies follow the numbers of nsys 2023.4.")
        if notes and not any(map(database.readable, NEEDED)):
            raise FileProblem(
                f"{path} is an export whose tables this advisor does not support: {notes[0]}",
                next_step="Export it with an older nsys, or upgrade: pip install -U gpu-memory-advisor",
            )
        parts = (about.get("EXPORT_PRODUCT_NAME"), about.get("EXPORT_PRODUCT_VERSION"))
        tool = " ".join(filter(None, parts)) or None
        frames = steady_frames(database) if frame is None else []
        trace = FileTrace(
            tool=tool,
            strategies=strategies(database, frames) if frames else (),
            program=None if frames else program(database, frame),
        )
        notes += [
            f"Rows of {table} skipped: {count} (no start, size or kind, or an end before the start)."
            for table, count in database.unusable.items()
        ]
        for gpu in trace.program.gpus if frame and trace.program else ():
            if gpu.frames is None or gpu.frames.source != "nvtx":
                what = "its frames are what repeats" if gpu.frames else "nothing repeats, so it has no frames"
                notes.append(f"{gpu.label}: its process has no NVTX range {quoted(frame or '')}; {what}.")
        return trace.model_copy(update={"notes": tuple(notes)})


Known = dict[tuple[int, int], dict[str, Any]]
"""What is known of each GPU, by the process and its number of the CUDA device."""
_ANY = -1
"""In place of the process, where no table has it."""
_GAP = 10_000
"""Nanoseconds without work that are not kept as a gap."""
_SHARE_OF_LINK = 0.8
"""Part of a PCIe link's specified rate that copies reach: 12 to 13 of 15.75 GB/s on PCIe 3, 25 to 27 of 31.5
on PCIe 4, 55 to 57 of 63 on PCIe 5 (advisor/model/defaults.toml)."""

_WAYS = ("to-device", "to-host")
_LINKS: Mapping[str, tuple[float, tuple[str, ...]]] = {
    "PCIe 3 x16": (15.75e9, ("V100-PCIE-16GB", "V100-PCIE-32GB", "V100-SXM2-32GB")),
    "PCIe 4 x16": (31.5e9, ("A100-PCIE-40GB", "A30", "A40", "RTX 3080 Ti", "RTX 3090 Ti")),
    "PCIe 5 x16": (63e9, ("H100 NVL", "H200 NVL")),
}
"""Bytes per second in one direction, as specified, and cards without an entry in the catalogue whose link is
certain, by NVIDIA's data sheets and product briefs (A40: PB-09976-001, A100: PB-10137-001; the RTX 3080 Ti
and 3090 Ti have the GA102 of the RTX 3090). Not here: an A10G, whose boards no data sheet describes, and
GH200 144G, whose link is not PCIe."""


def program(database: Database, frame: str | None = None) -> ProgramTrace:
    """The work of each GPU in the export. `frame`: the NVTX range that is one frame, if any is. Raises
    `UsageError` where no range has that name."""
    names = recurring(database)
    ranges = ranges_of(database, frame) if frame else {}
    if frame and not ranges:
        known = [name for name, _ in names]
        step = f"It has: {', '.join(known)}." if known else "Omit --frame: none of its ranges recurs."
        raise UsageError(f"the report has no NVTX range {frame!r}{nearest(frame, known)}", next_step=step)
    calls = {process: each for process, each in read_calls(database).items() if not each.unnamed}
    works, gpus = read_work(database), []
    devices, places = _devices(database), [(work.process, work.device) for work in works]
    for (process, device), elsewhere in zip(places, list(_elsewhere(works)), strict=True):
        chosen = (frame, ranges[process]) if frame and process in ranges else None
        alone = [each for each, _ in places].count(process) == 1
        # Its work is given away, and its memory free for the next.
        trace = GpuFigures(database, works.pop(0), calls.get(process), chosen, elsewhere, alone).trace()
        listed = devices.get((process % THREAD_BITS, device)) or devices.get((_ANY, device))
        gpus.append(trace.model_copy(update=listed or {"label": f"GPU {device}"}))
    gpus.sort(key=lambda gpu: (gpu.label, gpu.process))
    labels = [gpu.label for gpu in gpus]
    for at, gpu in enumerate(gpus):
        if labels.count(gpu.label) > 1:
            label = f"{gpu.label} (process {gpu.process % THREAD_BITS})"
            gpus[at] = gpu.model_copy(update={"label": label})
    return ProgramTrace(
        gpus=tuple(gpus),
        allocations=allocations(database, None),
        ranges=names,
        absent=dict(_absent(database, gpus)),
    )


def _elsewhere(works: Sequence[GpuWork]) -> Iterator[Intervals]:
    """When other GPUs of its process worked, for each GPU; without short gaps, to save memory."""
    for work in works:
        others = [each for each in works if each.process == work.process and each is not work]
        pieces = [piece for each in others for piece in each.busy()]
        yield union([(begins, ends + _GAP) for begins, ends in pieces])


def _devices(database: Database) -> Known:
    devices: Known = {}
    if database.has("TARGET_INFO_GPU", "id", "name"):
        more = (c if database.has("TARGET_INFO_GPU", c) else "NULL" for c in ("isDiscrete", "asyncEngines"))
        columns = ", ".join(("id, name", *more))
        rows = database.rows(f"SELECT {columns} FROM TARGET_INFO_GPU WHERE id NOT NULL LIMIT 1000")
        for number, text, own, engines in rows:
            name = text and str(text)
            shares, engines = None if own is None else not own, engines and int(engines)
            known = {"label": f"GPU {int(number)}", "name": name, "links": _links(name)}
            devices[_ANY, int(number)] = {**known, "shares_dram": shares, "copy_engines": engines}
    if database.has("TARGET_INFO_CUDA_DEVICE", "gpuId", "cudaId", "pid"):
        rows = database.rows(
            "SELECT pid, cudaId, gpuId FROM TARGET_INFO_CUDA_DEVICE "
            "WHERE pid NOT NULL AND cudaId NOT NULL AND gpuId NOT NULL LIMIT 10000"
        )
        for pid, device, gpu in rows:
            devices[int(pid), int(device)] = devices.get((_ANY, int(gpu)), {"label": f"GPU {int(gpu)}"})
    return devices


def _links(name: str | None) -> dict[str, Link]:
    """Rates of page-locked copies by direction: the catalogue's, else 80 % of a PCIe link that is certain."""
    entry = named(name)
    if entry is None:
        card = re.sub(r"^(NVIDIA |Tesla |GeForce )+", "", name or "")
        certain = (_specified(rate, link) for link, (rate, cards) in _LINKS.items() if card in cards)
        return next(certain, {})
    links = {}
    if (specified := entry.figures.link_bytes_per_second) and entry.memory_class != "coherent":
        links = _specified(specified.value, f"the link of {entry.name}")
    for way in _WAYS:
        measured = getattr(entry.figures, f"pinned_{way.replace('-', '_')}_bytes_per_second")
        if measured is not None:
            links[way] = Link(bytes_per_second=measured.value, source=f"the catalogue's {entry.name}")
    return links


def _specified(bytes_per_second: float, link: str) -> dict[str, Link]:
    one = Link(bytes_per_second=_SHARE_OF_LINK * bytes_per_second, source=f"80 % of {link}")
    return dict.fromkeys(_WAYS, one)


_OPTIONS = {
    Tables.CALLS: ("CUDA calls of the host", "--trace=cuda"),
    Tables.MEMORY: ("sizes and kinds of allocations", "--cuda-memory-usage=true"),
    Tables.CPU_FAULTS: ("page faults by the CPU", "--cuda-um-cpu-page-faults=true"),
    Tables.GPU_FAULTS: ("page faults by the GPU", "--cuda-um-gpu-page-faults=true"),
    "CUDA_CALLCHAINS": ("the functions that made the calls", "--cudabacktrace=all --sample=process-tree"),
    "NVTX_EVENTS": ("NVTX ranges, which can mark the frames", "--trace=cuda,nvtx"),
}
"""Contents of tables that may be missing, and the option of nsys that records them."""


def _absent(database: Database, gpus: Sequence[GpuTrace]) -> Iterator[tuple[str, str]]:
    """Contents that were not recorded, and the options that would."""
    if not gpus:
        yield "any work of a GPU", "--trace=cuda,nvtx,osrt"
        return
    needless = () if any(gpu.managed for gpu in gpus) else (Tables.CPU_FAULTS, Tables.GPU_FAULTS)
    yield from (row for table, row in _OPTIONS.items() if not database.has(table) and table not in needless)
    if database.has(Tables.CALLS) and not any(gpu.host for gpu in gpus):
        yield "names of all CUDA calls of the host", "export the report again"
    if database.has(Tables.GRAPHS):
        yield "kernels and copies inside CUDA graphs", "--cuda-graph-trace=node"
