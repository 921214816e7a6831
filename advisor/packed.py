"""The text of a saved file, packed with gzip or not, up to a size that can still be read in seconds."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import IO

from advisor.errors import FileProblem

LARGEST = 150_000_000
"""Bytes of text: what takes about as long to read and show as a person waits. Checked by `make bench`."""
_MAGIC = b"\x1f\x8b"


def read_text(path: Path) -> str:
    """The whole text. Raises `FileProblem` where it is too large, or packed and damaged; and `OSError`."""
    with path.open("rb") as file:
        packed = file.read(2) == _MAGIC
        file.seek(0)
        try:
            data = _read(gzip.GzipFile(fileobj=file) if packed else file)
        except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
            raise FileProblem(
                f"{path} is damaged: {problem}", next_step="Save it again, or give an undamaged copy."
            ) from None
    if len(data) > LARGEST:
        raise FileProblem(
            f"{path} holds more than {LARGEST / 1e6:.0f} MB, which is more than a report can show",
            next_step="Profile with fewer --rounds or less --max-seconds, or with fewer strategies.",
        )
    return data.decode("utf-8")


def _read(file: IO[bytes] | gzip.GzipFile) -> bytes:
    """One byte more than is allowed, so that the caller can tell."""
    return file.read(LARGEST + 1)
