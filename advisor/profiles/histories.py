"""Profiles of many commits, found below a folder and put in the order of their commits."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from advisor.errors import AdvisorError, FileProblem, NothingMeasured
from advisor.profiles.reading import load
from advisor.profiles.schema import Measured, Profile, Result

NAME = "profile.json"
QUICKEST = 0.05
"""Share of the frames on a CPU below the time that a history follows."""
_SHORT = 7
"""Characters of a commit, as git shortens it."""


@dataclass(frozen=True)
class Entry:
    """One profile without its raw samples, and when its code was made: by the commit, else by the run."""

    file: str
    profile: Profile
    time: datetime

    @property
    def label(self) -> str:
        """The commit, with + where a tracked file differed, ? where one may; otherwise the day."""
        commit = self.profile.commit
        if commit is None:
            return f"{self.time:%Y-%m-%d}"
        return commit.revision[:_SHORT] + {True: "+", None: "?", False: ""}[commit.changed]


@dataclass(frozen=True)
class LeftOut:
    """A file that is not part of the history, and why; a `script`'s profile is sound, but of a script."""

    file: str
    reason: str
    script: bool = False


@dataclass(frozen=True)
class History:
    """The profiles in order, and the files that are no part of it."""

    entries: tuple[Entry, ...]
    left_out: tuple[LeftOut, ...] = ()


def gather(directory: Path, conclude: Callable[[Profile], Profile]) -> History:
    """Every profile.json below the folder, links not followed, each as `conclude` makes it.

    What is damaged or no profile of a workload is left out, and so are folders that cannot be read. Raises
    `FileProblem` where the folder or a readable profile is missing, `NothingMeasured` where there are
    profiles of scripts alone.
    """
    entries: list[Entry] = []
    left_out: list[LeftOut] = []
    for path in _files(directory, left_out):
        name = str(path.relative_to(directory))
        try:
            entries.append(_entry(path, name, conclude))
        except AdvisorError as problem:
            # The message alone: the error itself carries what was read.
            reason = problem.message.removeprefix(f"{path} ")
            left_out.append(LeftOut(name, reason, isinstance(problem, NothingMeasured)))
    if not left_out and not entries:
        step = f"Keep one for each commit, such as {directory}/COMMIT/{NAME}."
        raise FileProblem(f"there is no {NAME} below {directory}", next_step=step)
    if not entries:
        raise (NothingMeasured if all(each.script for each in left_out) else FileProblem)(
            f"no {NAME} below {directory} can be used. {left_out[0].file}: {left_out[0].reason}",
            next_step="Profile a workload again: advisor profile FILE --out DIR.",
        )
    ordered = sorted(entries, key=lambda entry: (entry.time, entry.profile.created, entry.file))
    return History(tuple(ordered), tuple(left_out))


def _files(directory: Path, left_out: list[LeftOut]) -> list[Path]:
    """Paths of the profiles; folders that cannot be read are added to `left_out`."""

    def unreadable(problem: OSError) -> None:
        name = os.path.relpath(problem.filename or directory, directory)
        left_out.append(LeftOut(name, f"cannot be read: {problem.strerror}"))

    if not directory.is_dir():
        what = "is not a directory" if directory.exists() else "does not exist"
        raise FileProblem(f"{directory} {what}", next_step="Give the directory that holds the profiles.")
    walked = os.walk(directory, onerror=unreadable)
    return sorted(Path(folder, NAME) for folder, _, names in walked if NAME in names)


def _entry(path: Path, name: str, conclude: Callable[[Profile], Profile]) -> Entry:
    profile = load(path)
    if profile.script is not None:
        raise NothingMeasured("this is a profile of a script; a history needs profiles of workloads")
    written = profile.commit.committed if profile.commit else profile.created
    try:
        time = datetime.fromisoformat(written.replace("Z", "+00:00"))
        time = time.replace(tzinfo=time.tzinfo or timezone.utc).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        raise FileProblem(f"has a time that cannot be read: {written}") from None
    concluded = conclude(profile)
    rows = (_reduced(row, on_cpu=profile.device.kind == "cpu") for row in concluded.results)
    reduced = {"results": tuple(rows), "blocks": (), "windows": (), "traffic": None}
    return Entry(name, concluded.model_copy(update=reduced), time)


def _reduced(row: Result, *, on_cpu: bool) -> Result:
    """Without what a history does not tell, so that a thousand fit into memory. On a CPU with the frames that
    other programs slowed least, up to the median: at a load of 3 to 7 on two cores medians of the same code
    lay within a factor of 1.8, these within 1.6."""
    if not isinstance(row, Measured):
        return row
    changes: dict[str, object] = {"frame_seconds": (), "frames_per_round": (), "timeline": None}
    if on_cpu:
        frames = sorted(row.frame_seconds)
        quick = frames[int(QUICKEST * len(frames))]
        changes |= {"median_seconds": quick, "interval_seconds": (frames[0], row.median_seconds)}
    return row.model_copy(update=changes)
