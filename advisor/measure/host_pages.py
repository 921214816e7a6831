"""The pages of the buffers' host memory: huge or not, and on which NUMA node the kernel put them."""

from __future__ import annotations

import mmap
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from advisor.profiles.row_figures import HostPages
from advisor.strategies.placements.numa import page_nodes

MOST_PAGES = 64
"""Pages of a buffer that are asked for their node, spread over all of it."""
_SMAPS = Path("/proc/self/smaps")
_MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) .*\n((?:[A-Z]\w+:.*\n?)+)", re.MULTILINE)
Span = tuple[int, int]
"""The first byte's address, and how many bytes."""


def host_pages(
    arrays: Iterable[Any],
    smaps: Path = _SMAPS,
    nodes_of: Callable[[Sequence[int]], list[int]] = page_nodes,
) -> HostPages | None:
    """Pages of the buffers' host arrays; None where the host has none. Touches no memory.

    Shares of a mapping that holds more than a buffer are taken to be spread evenly over it.
    """
    spans = [(int(array.ctypes.data), int(array.nbytes)) for array in arrays if array is not None]
    spans = [span for span in spans if span[1]]
    if not spans:
        return None
    nodes, why = _nodes(spans, nodes_of)
    huge = _huge_bytes(spans, smaps)
    absent = {"nodes": why} if why else {}
    if huge is None:
        absent["huge_bytes"] = f"{_SMAPS} cannot be read, or does not list the buffers' pages"
    total = sum(nbytes for _, nbytes in spans)
    return HostPages(bytes=total, huge_bytes=huge, nodes=nodes, absent=absent)


def _nodes(
    spans: Sequence[Span], nodes_of: Callable[[Sequence[int]], list[int]]
) -> tuple[dict[str, float], str]:
    """The share of each node; else why there is none: the driver's own mappings have no pages to ask for."""
    weights: defaultdict[str, float] = defaultdict(float)
    try:
        for begin, nbytes in spans:
            step = max(mmap.PAGESIZE, nbytes // MOST_PAGES)
            told = nodes_of(range(begin, begin + nbytes, step))
            for node in told:
                if node >= 0:
                    weights[str(node)] += nbytes / len(told)
    except OSError as problem:
        return {}, f"move_pages: {problem.strerror}"
    total = sum(weights.values())
    if not total:
        return {}, "the kernel does not report the node of these pages"
    return {node: weight / total for node, weight in sorted(weights.items())}, ""


def _huge_bytes(spans: Sequence[Span], smaps: Path) -> int | None:
    try:
        text = smaps.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = []
    for first, last, body in _MAPPING.findall(text):
        begin, end = int(first, 16), int(last, 16)
        shared = [min(end, start + nbytes) - max(begin, start) for start, nbytes in spans]
        if max(shared) > 0:
            huge = _huge_of(body, end - begin)
            found += [huge * each // (end - begin) for each in shared if each > 0]
    return sum(found) if found else None


def _huge_of(body: str, nbytes: int) -> int:
    """Bytes on huge pages of a mapping: all of one made of them explicitly."""
    told = re.findall(r"^(AnonHugePages|KernelPageSize): +(\d+) kB", body, re.MULTILINE)
    fields = {name: int(kilobytes) * 1024 for name, kilobytes in told}
    return nbytes if fields.get("KernelPageSize", 0) > mmap.PAGESIZE else fields.get("AnonHugePages", 0)
