"""A fleet's folder: a profile is checked and saved as it comes, with its row; `--resume` reads the rows.

    fleet.json                what was asked
    nvidia-h200/row.json      how that device's task ended, beside its profile.json and report.html

What a worker sends is as foreign as a file from anybody: it is read as `advisor report FILE` reads one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from advisor.errors import AdvisorError, FileProblem, UsageError
from advisor.fleet.planning import Device
from advisor.fleet.records import Answer, wrong
from advisor.profiles import outputs, reading
from advisor.profiles.fleets import FleetRecord, Foreseen, Row
from advisor.profiles.redaction import Redactor, here
from advisor.profiles.schema import Profile
from advisor.profiles.text_files import read_bytes
from advisor.texts import printable

RECORD, ROW, FAILURE = "fleet.json", "row.json", "failure.txt"
_FILES = (ROW, FAILURE, "profile.json", "report.html", "report.md")
_LARGEST = 1_000_000
Write = Callable[[Profile, Path], object]
"""Writes a device's report and profile into its folder."""


@dataclass
class Folder:
    """The rows of one run; those of an earlier one that it resumes among them."""

    path: Path
    record: FleetRecord
    sha256: str
    """Hash of the workload's file; every profile must have the same."""
    write: Write
    redactor: Redactor = field(default_factory=here)
    rows: dict[str, Row] = field(default_factory=dict)
    """By task."""
    codes: list[AdvisorError] = field(default_factory=list)

    def begin(self, *, resume: bool) -> int:
        """Takes the rows of an earlier run of the same request, or sets them aside; how many it took.

        Raises `UsageError` where there is none to resume, or it is of another request.
        """
        if resume:
            require_same(self.path, self.record)
            self.rows = {row.task: row for row in self._saved() if row.status == "profiled"}
        else:
            outputs.remove(self.path, *self._row_files())
        outputs.write(self.path, RECORD, self.record.model_dump_json(indent=1) + "\n")
        return len(self.rows)

    def _row_files(self) -> list[str]:
        files = [*self.path.glob(f"*/{ROW}"), *self.path.glob(f"*/*/{ROW}")]
        return sorted(str(file.relative_to(self.path)) for file in files)

    def _saved(self) -> Iterator[Row]:
        """Raises `UsageError` for a row whose profile would be read from elsewhere."""
        for name in self._row_files():
            with suppress(OSError, ValidationError):
                row = Row.model_validate_json(read_bytes(self.path / name, _LARGEST))
                folder = Path(name).parent
                links = [outputs.link_in(self.path, f"{folder}/{each}") for each in (ROW, "profile.json")]
                if row.status == "profiled" and (Path(row.folder) != folder or any(links)):
                    raise UsageError(
                        f"--resume: {self.path / name} refers to files outside its folder",
                        next_step=f"Remove {self.path / name} and run again.",
                    )
                yield row

    def label(self, key: str, name: str, others: Iterable[str]) -> str:
        """A device's name on the pages: numbered from the second of that name on."""
        names = {row.task.partition(" ")[0]: row.device for row in self.rows.values()}
        if key in names:
            return names[key]
        taken, number = {*names.values(), *others}, 1
        while (label := name if number == 1 else f"{name} #{number}") in taken:
            number += 1
        return label

    def end(self, row: Row, answer: Answer) -> Row:
        """Saves what came of a task; `row` is it without its end. Returns the whole row."""
        row = row.model_copy(update={"folder": outputs.free_folder(self.path, row.folder, _FILES)})
        answer = _shown(answer, self.redactor)
        folder = self.path / row.folder
        if answer.status == "profiled":
            try:
                made = self._checked(answer.profile, row)
                folder.mkdir(parents=True, exist_ok=True)
                self.write(made, folder)
                row = concluded(row, made)
            except FileProblem as problem:
                answer = Answer(status="failed", reason=problem.message, next_step=problem.next_step)
        if answer.status != "profiled":
            told = {"reason": _short(answer.reason), "next_step": _short(answer.next_step), "folder": ""}
            self.codes.append(_error(answer))
            row = row.model_copy(update={"status": "failed", **told})
            if answer.detail:
                outputs.write(folder, FAILURE, printable(answer.detail) + "\n")
        self.rows[row.task] = row
        outputs.write(folder, ROW, row.model_dump_json(indent=1) + "\n")
        return row

    def _checked(self, text: str, row: Row) -> Profile:
        """The profile that a worker sent. Raises `FileProblem` if it is damaged, or not of this workload."""
        name = f"the profile from {row.device}"
        made = reading.parse(text, name)
        reading.require_plausible(made, name)
        if made.workload.sha256 != self.sha256 or made.device.kind != row.kind:
            raise FileProblem(
                f"{name} is of another workload or device than requested",
                next_step="Check who can reach the scheduler: docs/fleet.md, Security.",
            )
        return made


def require_same(folder: Path, record: FleetRecord) -> None:
    """Raises `UsageError` unless the folder holds a run of the same request."""
    before = _record(folder / RECORD)
    if before is None:
        raise UsageError(
            f"--resume: {folder} does not hold the results of advisor fleet",
            next_step="Give its folder with --out, or omit --resume.",
        )
    if before.request != record.request:
        raise UsageError(
            f"--resume: {folder} was made with other files, options or another version of advisor",
            next_step="Give the options of that run, or omit --resume to start over.",
        )


def concluded(row: Row, made: Profile) -> Row:
    """The row of a profile."""
    told = made.recommendation
    seconds = {r.strategy: r.median_seconds for r in made.measured().values() if made.device.kind == "cuda"}
    fastest = min(seconds.values(), default=1.0)
    predicted = any(result.status == "predicted" for p in made.predictions for result in p.results)
    return row.model_copy(
        update={
            "status": "profiled",
            "device": row.device,
            "memory_class": made.device.memory_class,
            "strategy": told.strategy if told else None,
            "verdict": told.verdict if told else None,
            "basis": "measured" if seconds else "predicted" if predicted else "none",
            "predicted": tuple(_foreseen(made)),
            "costs": {name: each / fastest for name, each in seconds.items()},
        }
    )


def _foreseen(made: Profile) -> Iterator[Foreseen]:
    for each in made.predictions:
        if each.recommendation and each.recommendation.strategy:
            told = each.recommendation
            yield Foreseen(device=each.device.name, strategy=str(told.strategy), verdict=told.verdict)


def slug(text: str) -> str:
    """A name of one folder."""
    return re.sub(r"[^a-z0-9=.,+]+", "-", text.lower()).strip("-.")[:100] or "device"


def task_of(device: Device, value: str, *, each: bool) -> str:
    """By which a row is found again."""
    return f"{device.key(each=each)} {value}".strip()


def _record(path: Path) -> FleetRecord | None:
    if not path.is_file():
        return None
    try:
        return FleetRecord.model_validate_json(read_bytes(path, _LARGEST))
    except ValidationError as problem:
        raise FileProblem(
            f"{path} is damaged: {wrong(problem)}", next_step="Remove it and run again."
        ) from None


def _shown(answer: Answer, redactor: Redactor) -> Answer:
    """What a page may tell of it: a worker may have sent anything."""
    told = {name: redactor.hide(getattr(answer, name)) for name in ("reason", "next_step", "detail")}
    return answer.model_copy(update=told)


def _short(text: str) -> str:
    return printable(text)[:1900]


def _error(answer: Answer) -> AdvisorError:
    """The error of a task, with its exit code, for a fleet without any result."""
    error = AdvisorError(answer.reason, next_step=answer.next_step, detail=printable(answer.detail))
    error.exit_code = answer.exit_code
    return error


def rows_in_order(rows: Sequence[Row]) -> tuple[Row, ...]:
    """By device, then by value as given."""
    return tuple(sorted(rows, key=lambda row: (row.status != "profiled", row.kind, row.device)))
