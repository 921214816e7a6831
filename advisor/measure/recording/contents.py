"""Whether a line moves the same bytes again: fingerprints of the crossings that are looked at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np

from advisor.measure.recording.events import Event
from advisor.measure.recording.lines import Site

WHOLE, FIRST_WHOLE, FIRST = 64 << 10, 64 << 20, 3
"""Bytes up to which an array is looked at whole: any, and the first crossings of a line."""
BLOCKS, BLOCK = 64, 512
"""Blocks of a larger one, and their bytes; their places are drawn once for each size."""
MOST_DOWNLOADS = 4096


@dataclass(slots=True, eq=False)
class LineContents:
    """What was seen of the bytes of a line."""

    site: Site
    checked: int = 0
    compared: int = 0
    same: int = 0
    returned: int = 0
    returned_from: Site | None = None
    latest: int = 0
    """Of those returned, what its line had downloaded last."""
    complete: bool = True
    false_share: float = 0.0
    last: tuple[int, int, bool] | None = None
    """Fingerprint of the crossing before, its number, and whether it is of all bytes."""


@dataclass
class Contents:
    """Fingerprints of all lines. whole: of all bytes, however large, where time does not matter."""

    whole: bool = False
    _places: dict[int, Any] = field(default_factory=dict)
    _downloads: dict[int, LineContents] = field(default_factory=dict)
    _random: Any = field(default_factory=lambda: np.random.default_rng(0))

    def look(self, line: LineContents, event: Event, number: int) -> None:
        """Compares with the line's crossing before, if that was looked at too."""
        data = host_bytes(event.host)
        if data is None or not data.size:
            return
        whole = self.whole or data.size <= (FIRST_WHOLE if number <= FIRST else WHOLE)
        part = data if whole else self._sample(data)
        mark = crc32(np.ascontiguousarray(part).data, data.size & 0xFFFFFFFF)
        line.checked += 1
        if line.last is not None and line.last[1:] == (number - 1, whole):
            line.compared += 1
            line.same += mark == line.last[0]
        if not whole:
            line.complete = False
            line.false_share = max(line.false_share, 1 - BLOCKS * BLOCK / data.size)
        line.last = mark, number, whole
        self._trip(line, event, mark)

    def _trip(self, line: LineContents, event: Event, mark: int) -> None:
        if event.kind == "download":
            if len(self._downloads) < MOST_DOWNLOADS:
                self._downloads[mark] = line
        elif (origin := self._downloads.get(mark)) is not None:
            line.returned += 1
            line.returned_from = origin.site
            line.latest += origin.last is not None and origin.last[0] == mark

    def _sample(self, data: Any) -> Any:
        blocks = data.size // BLOCK
        if (places := self._places.get(blocks)) is None:
            places = self._places[blocks] = np.sort(self._random.choice(blocks, BLOCKS, replace=False))
        return data[: blocks * BLOCK].reshape(blocks, BLOCK)[places]


def is_tensor(value: Any) -> bool:
    """Whether it is PyTorch's, which is not imported for that."""
    return hasattr(type(value), "untyped_storage")


def host_bytes(host: Any) -> Any:
    """The bytes of a contiguous array or tensor of the host, without a copy; None of others."""
    try:
        array = host.numpy(force=False) if is_tensor(host) else host
        if not isinstance(array, np.ndarray) or not array.flags.forc:
            return None
        return array.reshape(-1, order="A").view(np.uint8)
    except (TypeError, ValueError, RuntimeError):  # a dtype or a tensor without plain bytes
        return None
