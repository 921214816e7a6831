"""Changes that a record suggests for the lines of its slowest loop, what advice promises of each, and the
text of those that pay."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from advisor import units
from advisor.measure.trying.changes import is_variable
from advisor.profiles.conclusions import PAGE_LOCKED, Advice
from advisor.profiles.crossings import KERNEL_ARGUMENT, Ceiling, Crossing, LineAdvice, Place, ScriptRun
from advisor.profiles.trials import ChangeKind, Patch, Trial
from advisor.strategies.allocators import BY_NAME, VARIABLE
from advisor.strategies.edits import Change, edited
from advisor.strategies.patches import diff
from advisor.strategies.syntax import CannotWrite, loader_lines
from advisor.strategies.uses import made_once
from advisor.verdicts.ceilings import is_little

_LEAST_REPEATS = 2
"""Uploads that had the bytes of the one before, until keeping them out of the loop is tried: of large ones a
record compares two, the trial all."""
_INLINE_BYTES = 64 << 10
"""A copy of as much from pageable memory returns before it is made, so that page-locking spares no wait:
https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html."""
_PAGE_LOCKING = ("hidden-host-copy", "pageable-async-copy", "pageable-transfer")
_PROMISING: Mapping[ChangeKind, tuple[str, ...]] = {
    "lock": _PAGE_LOCKING,
    "reuse": _PAGE_LOCKING,
    "pin-memory": _PAGE_LOCKING,
    "hoist": ("repeated-upload",),
    "non-blocking": ("implicit-wait",),
}
"""Rules whose advice is what the change does. Of others only the figure `PAGE_LOCKED` is a promise."""


@dataclass(frozen=True)
class Candidate:
    """A change that the record suggests, and its trial before anything is measured."""

    trial: Trial
    change: Change
    promised: Mapping[int, float] = field(default_factory=dict)
    """Seconds of a frame by crossing: a patch counts each crossing once, whatever changes touch it."""


Suggestion = tuple[ChangeKind, Place | None, str]
"""A kind of change, the line where what crosses is made, and a title."""


def candidates(
    script: ScriptRun, loop: int, start: Path, advice: Iterable[LineAdvice] = ()
) -> tuple[Candidate, ...]:
    """Changes of the crossings of a loop. start: what files are relative to.

    Crossings that one change makes faster together are one candidate.
    """
    groups: dict[tuple[ChangeKind, Place], dict[int, Suggestion]] = {}
    for index, crossing in enumerate(script.crossings):
        for suggestion in _suggested(script, crossing, loop) if crossing.loop == loop else ():
            kind, origin, _ = suggestion
            groups.setdefault((kind, origin or crossing.place), {})[index] = suggestion
    advised = {each.crossing: each.advice for each in advice}
    return tuple(_candidate(script, group, start, advised) for group in groups.values())


def nothing_to_gain(ceiling: Ceiling | None, suggested: Sequence[Candidate]) -> str:
    """Why no trial is worth its time; empty where one is."""
    change = ""
    if ceiling is not None and ceiling.share is not None:  # frames were timed
        share = units.percent(ceiling.share)
        change = f"memory can change {units.seconds(ceiling.seconds)} ({share}) of a frame"
        if is_little(ceiling):
            return f"Nothing to gain: {change}."
    none = "none of the changes that --try makes applies to the loop's lines"
    return "" if suggested else f"Nothing was tried: {change and f'{change}, but '}{none}."


def allocator_candidates(script: ScriptRun, loop: int, file: Path) -> tuple[Candidate, ...]:
    """One for each allocator of the libraries that the loop uses. file: the script, which would set it."""
    libraries = {crossing.library for crossing in script.crossings if crossing.loop == loop}
    return tuple(
        Candidate(
            Trial(name=each.name, kind="allocator", title=f"allocator: {each.title}", outcome="open"),
            Change("allocator", 1, name=each.name, library=each.library, file=str(file)),
        )
        for each in BY_NAME.values()
        if each.library in libraries
    )


def _candidate(
    script: ScriptRun, group: Mapping[int, Suggestion], start: Path, advised: Mapping[int, Advice]
) -> Candidate:
    """The change of the first crossing of the group, with what is promised of all."""
    first, (kind, origin, title) = next(iter(group.items()))
    place = script.crossings[first].place
    named = origin if kind == "pin-memory" and origin else place
    its = [(i, advised[i]) for i in group if i in advised]
    promised = {i: seconds for i, advice in its if (seconds := _gain(kind, advice)) is not None}
    trial = Trial(
        name=f"{kind}-{named.line}",
        kind=kind,
        place=place,
        origin=origin,
        title=title,
        outcome="open",
        rule=next((each.rule for _, each in its if each.rule in _PROMISING.get(kind, ())), None),
        promised_seconds=sum(promised.values()) if promised else None,
    )
    uploads = [each for each in script.crossings if each.kind == "upload" and each.place != place]
    made_there = [each.place for each in uploads if origin and each.origin and each.origin.place == origin]
    change = Change(
        kind,
        place.line,
        origin.line if origin else None,
        name=trial.name,
        library=script.crossings[first].library,
        file=str(start / place.file),
        origin_file=str(start / origin.file) if origin else "",
        uploads=tuple((str(start / p.file), p.line) for p in made_there if kind == "lock"),
    )
    return Candidate(trial, change, promised)


def _gain(kind: ChangeKind, advice: Advice) -> float | None:
    """Seconds of a frame that the advice on a crossing promises of a change; None where it does not tell."""
    locked = [each.value for each in advice.evidence if each.label == PAGE_LOCKED]
    if locked and _PROMISING.get(kind) == _PAGE_LOCKING:
        return locked[0]
    return advice.gain.seconds_per_frame if advice.gain and advice.rule in _PROMISING.get(kind, ()) else None


def _suggested(script: ScriptRun, crossing: Crossing, loop: int) -> Iterator[Suggestion]:
    """Changes for one crossing, the one that spares more first."""
    if crossing.kind not in ("upload", "download"):
        return
    name, place = _name(crossing.place), script.loops[loop].place
    up, repeats = crossing.kind == "upload", crossing.repeats
    if up and repeats and _LEAST_REPEATS <= repeats.compared == repeats.same:
        yield ("hoist", None, f"upload {name} once")
    if up and crossing.library == "torch" and crossing.memory == "pinned" and not crossing.non_blocking:
        yield ("non-blocking", None, f"copy {name} without blocking")
    if crossing.memory != "pageable" or crossing.bytes <= _INLINE_BYTES * crossing.count:
        return
    each_frame = crossing.origin.each_frame if crossing.origin else None
    if not (up or crossing.call == KERNEL_ARGUMENT):
        if each_frame or (crossing.library == "torch" and each_frame is None):
            yield ("reuse", None, f"reuse {name}")
        return
    if crossing.library == "torch":
        text = _source(script, place)
        upload = crossing.place.line if crossing.place.file == place.file else 0
        lines = loader_lines(text, place.line, upload)
        if len(lines) == 1:  # of several it may be any
            loader = _place(place.file, text, lines[0])
            yield ("pin-memory", loader, f"pin the loader's memory, line {loader.line}")
            return
    origin = _origin(script, crossing, place)
    if origin and not each_frame:
        yield ("lock", origin, f"page-lock {_name(origin)} of line {origin.line}")


def _origin(script: ScriptRun, crossing: Crossing, loop: Place) -> Place | None:
    """The line that allocates what is uploaded; where that is not recorded, or may be of several arrays, the
    first that its file shows."""
    if crossing.library == "cupy":
        return crossing.origin.place if crossing.origin else None
    text = _source(script, crossing.place)
    at = loop.line if loop.file == crossing.place.file else None
    try:
        arrays = made_once(ast.parse(text), crossing.place.line, crossing.library, at)
    except (CannotWrite, SyntaxError):
        return None
    lines = [statement.lineno for statement in arrays.values()]
    return _place(crossing.place.file, text, lines[0]) if lines else None


def _source(script: ScriptRun, place: Place) -> str:
    """The file of a line; empty where there is none."""
    file = next((s for s in script.sources if s.file == place.file), None)
    return "\n".join(file.lines) if file else ""


def _place(file: str, text: str, line: int) -> Place:
    return Place(file=file, line=line, text=text.splitlines()[line - 1].strip())


def _name(place: Place) -> str:
    """The variables that the line sets."""
    name = re.match(r"([\w.]+(?:, [\w.]+)*)\s*(:[^=]*)?=(?!=)", place.text.strip())
    return name[1] if name else "the array"


def written_patch(
    chosen: Iterable[Candidate], loop: Place, start: Path, most: float
) -> tuple[Patch, tuple[str, ...]]:
    """The patch of these changes, and the names of those in it. What is uploaded once needs no page-locked
    memory. most: seconds of a frame that memory can change."""
    texts: dict[str, tuple[str, str]] = {}
    edits: dict[str, list[Change]] = {}
    written, left_out, once = list[Candidate](), list[str](), set[tuple[str, int]]()
    loop_file = str(start / loop.file)
    for each in chosen:
        change = each.change
        if change.kind == "lock" and (change.file, change.line) in once:
            continue
        try:
            if is_variable(change):
                raise CannotWrite(f"run the script with {VARIABLE}={BY_NAME[change.name].setting}")
            parts = {f: change.within(f, loop.line if f == loop_file else None) for f in change.files}
            several = {file: [*edits.get(file, ()), part] for file, part in parts.items()}
            before = {file: _text(file) for file in several}
            texts |= {file: (before[file], edited(before[file], several[file])) for file in several}
        except CannotWrite as reason:
            left_out.append(f"{each.trial.title} ({reason})")
            continue
        edits |= several
        written.append(each)
        if change.kind == "hoist":
            once.add((change.file, change.line))
    folder = start
    if not all(Path(file).is_relative_to(folder) for file in texts):
        folder = Path(os.path.commonpath([Path(file).parent for file in texts]))
    text = "".join(diff(os.path.relpath(file, folder), *both) for file, both in texts.items())
    promised = {i: seconds for each in written for i, seconds in each.promised.items()}
    patch = Patch(
        text=text,
        folder=os.path.relpath(folder, start) if folder != start else "",
        lines=sum(row[:1] in "+-" and row[:3] not in ("+++", "---") for row in text.splitlines() if row),
        left_out=tuple(left_out),
        promised_seconds=min(sum(promised.values()), most) if promised else None,
        reason="the trials ended before it was run" if text else "none of the changes could be written",
    )
    names = tuple(each.change.name for each in written)
    return patch.with_texts({Path(file): both for file, both in texts.items()}), names


def _text(file: str) -> str:
    """The file's text with its line ends, which the patch keeps. Raises `CannotWrite` if it is not UTF-8."""
    try:
        return Path(file).read_bytes().decode()
    except UnicodeDecodeError:
        raise CannotWrite(f"{Path(file).name} is not in UTF-8") from None
