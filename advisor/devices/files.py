"""The text files of /proc, /sys and /etc. Reading never raises: a file may be missing, closed, or empty."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path


class Tree:
    """The files below `root`; "/" in use, a copy made by hand in tests."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def text(self, path: str) -> str | None:
        """The file without the blanks and zero bytes around it; None where it cannot be read or is empty."""
        try:
            text = (self._root / path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        return text.strip().strip("\0") or None

    def number(self, path: str) -> int | None:
        """The whole number that the file holds and nothing else."""
        text = self.text(path)
        return int(text) if text is not None and re.fullmatch(r"-?\d+", text, re.ASCII) else None

    def hertz(self, path: str, unit: int = 1) -> int | None:
        """A clock; 0 and less mean that the driver does not know it."""
        number = self.number(path)
        return number * unit if number is not None and number > 0 else None

    def kibibytes(self, path: str, field: str) -> int | None:
        """A field of /proc/meminfo or a node's meminfo, in bytes: they say kB and mean KiB."""
        found = re.search(rf"\b{field}:\s*(\d+) kB", self.text(path) or "", re.ASCII)
        return int(found[1]) * 1024 if found else None

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        try:
            return (self._root / path).exists()
        except OSError:
            return False

    def glob(self, pattern: str) -> Iterator[str]:
        """Paths that match, numbers in their order: node2 before node10."""
        try:
            found = [str(path.relative_to(self._root)) for path in self._root.glob(pattern)]
        except OSError:
            found = []
        return iter(sorted(found, key=_natural))


def _natural(path: str) -> list[tuple[int, str]]:
    parts: list[str] = re.findall(r"\d+|\D+", path)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]
