"""What the user gets of a calibration: a file or text on stdout, and remarks on stderr."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from advisor.calibration.calibrations import Calibration
from advisor.devices.catalogue import DEFAULT_TARGETS
from advisor.errors import FileProblem, UsageError
from advisor.model.device_texts import value

_CARD = DEFAULT_TARGETS[1]


def check(out: Path | None, *, has_entry: bool, force: bool) -> None:
    """Makes sure, before anything is measured, that the file can be written. Raises `UsageError`."""
    if out is None:
        return
    if not has_entry:
        raise UsageError(
            f"--out {out}: a CPU alone makes no device",
            next_step=f"Name a card that it hosts, --base {_CARD}, or leave --out out to see the figures.",
        )
    if out.suffix != ".toml":
        raise UsageError(
            f"--out {out} does not end in .toml, by which --target tells a file from a name",
            next_step=f"Write --out {out}.toml.",
        )
    if out.exists() and not force and not out.is_dir():
        raise UsageError(
            f"--out {out} exists", next_step="Choose another name, or add --force to replace it."
        )
    reason = _unwritable(out)
    if reason:
        raise UsageError(
            f"--out {out} cannot be written: {reason}", next_step="Choose a folder you may write to."
        )


def give(found: Calibration, out: Path | None) -> str:
    """Writes the file, if one is wanted; the text for stdout: the entry, or the figures in words where the
    entry is in a file or there is none. Raises `FileProblem`, with the entry's text in its detail."""
    if found.entry is None:
        return _figures(found)
    text = found.toml()
    if out is None:
        return text.rstrip("\n")
    part = out.with_name(f".{out.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        os.replace(part, out)
    except OSError as problem:
        raise FileProblem(
            f"{out} cannot be written: {problem.strerror or problem}",
            next_step="Save what is below under a name of your own.",
            detail=text,
        ) from None
    return _figures(found)


def remarks(found: Calibration, out: Path | None) -> str:
    """What is missing and why, and what to do next."""
    return "\n".join(_remarks(found, out))


def _remarks(found: Calibration, out: Path | None) -> Iterator[str]:
    for reason, keys in found.findings.missing_by_reason().items():
        yield f"missing: {', '.join(keys)}\n    {reason}"
    if found.entry is None:
        yield (
            "These figures can stand for the host of any PCIe card: its host stages and staged copies.\n"
            f"  next: advisor devices calibrate --no-gpu --base {_CARD} --out mine.toml"
        )
    elif out is None:
        yield "  next: save it with --out mine.toml, and predict with it: --target mine.toml"
    else:
        yield f"wrote {out}\n  next: advisor profile WORKLOAD.py --target {out}"


def _figures(found: Calibration) -> str:
    """What was measured, a line each."""
    figures = found.findings.figures()
    width = max(map(len, figures))
    return "\n".join(f"{key:<{width}}  {value(key, figure)}" for key, figure in figures.items())


def _unwritable(out: Path) -> str | None:
    if out.is_dir():
        return "it is a directory"
    if out.exists() and not os.access(out, os.W_OK):
        return "permission denied"
    try:
        with tempfile.TemporaryFile(dir=out.parent):
            return None
    except OSError as problem:
        return (problem.strerror or str(problem)).lower()
