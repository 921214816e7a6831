"""The text of changes of a script, as they are written into its files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from advisor.measure.trying.changes import ScriptChange
from advisor.profiles.crossings import Place
from advisor.profiles.trials import Trial
from advisor.strategies.allocators import BY_NAME, VARIABLE
from advisor.strategies.edits import Change, edited
from advisor.strategies.syntax import CannotWrite


def written_changes(
    kept: Iterable[Trial], changes: Mapping[str, ScriptChange], loop: Place, start: Path
) -> tuple[dict[str, tuple[str, str, tuple[str, ...]]], list[str]]:
    """By file: its text, the text with the changes, and their names. And what could not be written."""
    written: dict[str, tuple[str, str, tuple[str, ...]]] = {}
    texts: dict[str, list[Change]] = {}
    left_out = []
    for trial in kept:
        change = changes[trial.name]
        at = loop.line if str(start / loop.file) == change.file else None
        try:
            before, _, names = written.get(change.file) or (_text(change.file), "", ())
            mine = [*texts.get(change.file, ()), *_edits(change, at)]
            after = edited(before, mine)
        except CannotWrite as reason:
            left_out.append(f"{trial.title}: {reason}")
            continue
        texts[change.file] = mine
        written[change.file] = before, after, (*names, trial.name)
    return written, left_out


def _text(file: str) -> str:
    """With its line ends as they are, which the patch keeps. Raises `CannotWrite` where it is not UTF-8."""
    try:
        return Path(file).read_bytes().decode()
    except UnicodeDecodeError:
        raise CannotWrite(f"{Path(file).name} is not in UTF-8") from None


def is_variable(change: ScriptChange) -> bool:
    allocator = BY_NAME.get(change.name)
    return allocator is not None and allocator.library == "torch"


def _edits(change: ScriptChange, loop: int | None) -> Iterator[Change]:
    """Raises `CannotWrite` where an array is page-locked that another file uploads too, and of a variable."""
    if change.kind == "allocator":
        if is_variable(change):
            raise CannotWrite(f"run the script with {VARIABLE}={BY_NAME[change.name].setting}")
        yield Change("allocator", change.line, allocator=change.name)
        return
    origin = change.origin_line if change.origin_file == change.file else None
    others = {line for file, line in change.uploads if file == change.file}
    if len(others) < len(change.uploads):
        raise CannotWrite("another file uploads the same array")
    yield Change(change.kind, change.line, origin, loop, (*sorted(others),))
