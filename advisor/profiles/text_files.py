"""The text of a saved file: read in seconds at most, packed with gzip or not; written in one step."""

from __future__ import annotations

import gzip
import os
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

from advisor.errors import FileProblem, UsageError

LARGEST = 150_000_000
"""Bytes of text: what takes about as long to read and show as a person waits. Checked by `make bench`."""
_MAGIC = b"\x1f\x8b"


def read_text(path: Path, largest: int = LARGEST) -> str:
    """The whole text. Raises `FileProblem` for more than `largest` bytes or damaged packing; `OSError`."""
    with path.open("rb") as file:
        packed = file.read(2) == _MAGIC
        file.seek(0)
        try:
            # One byte more than is allowed, so that too much can be told.
            data = (gzip.GzipFile(fileobj=file) if packed else file).read(largest + 1)
        except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
            raise FileProblem(
                f"{path} is damaged: {problem}", next_step="Save it again, or use an undamaged copy."
            ) from None
    if len(data) > largest:
        raise FileProblem(
            f"{path} holds more than {largest / 1e6:.0f} MB, the maximum for a report",
            next_step="Profile with fewer --rounds, fewer --max-seconds or fewer strategies.",
        )
    return data.decode("utf-8")


def as_path(given: object) -> Path:
    """The path of a profile. Raises `UsageError` for what is neither a str nor a path."""
    if isinstance(given, (str, os.PathLike)):
        return Path(given)
    raise UsageError(f"{given!r} is not a path", next_step="Give the path of a profile.json: str or Path.")


def write_atomically(path: Path, text: str, rename: Callable[[Path, Path], None] = os.replace) -> None:
    """Writes beside the target, then renames. Raises `FileProblem` when that cannot be done."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            temporary = Path(file.name)
            try:
                file.write(text)
                file.close()
                os.umask(mask := os.umask(0))
                temporary.chmod(0o666 & ~mask)
                rename(temporary, path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
    except OSError as problem:
        raise FileProblem(
            f"{path} cannot be written: {problem}", next_step="Choose a path you can write to."
        ) from None
