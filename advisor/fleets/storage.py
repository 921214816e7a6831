"""A fleet's folder: a profile is checked and saved as it comes, with its row; `--resume` reads the rows.

    fleet.json                the request
    nvidia-h200/row.json      how that device's task ended, beside its profile.json and report.html

What a worker sends is as foreign as a file from anybody: it is read as `advisor report FILE` reads one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

from pydantic import ValidationError

from advisor.errors import AdvisorError, FileProblem, UsageError
from advisor.fleets.planning import Answer, Device, Item
from advisor.fleets.request import Request
from advisor.measure.progress import Progress
from advisor.profiles import outputs, reading
from advisor.profiles.base import first_error
from advisor.profiles.files import read_bytes
from advisor.profiles.fleets import LARGEST, ROW, FleetRecord, PredictedChoice, Row
from advisor.profiles.redaction import here
from advisor.profiles.schema import Profile
from advisor.report import pages
from advisor.texts import printable, toml_string
from advisor.verdicts.scores import counted
from advisor.version import __version__

RECORD, FAILURE = "fleet.json", "failure.txt"
_FILES = (ROW, FAILURE, "profile.json", "report.html", "report.md")


class Results:
    """The rows of one run and of the one it resumes; saved and reported as they arrive."""

    def __init__(
        self, request: Request, directory: Path, progress: Progress, tell: Callable[[str], None]
    ) -> None:
        self._request, self._path, self._progress, self._tell = request, directory, progress, tell
        self._waits: set[str] = set()
        self.record = request.record()
        self.redactor = here(include_host=request.template.include_host)
        self._sha256 = hashlib.sha256(request.package.files[request.package.file]).hexdigest()
        self.rows: dict[str, Row] = {}
        """By task."""
        self.unfit_rows: list[Row] = []
        self.errors: list[AdvisorError] = []
        self._labels: dict[str, str] = {}
        self._total = 0

    def begin(self, *, resume: bool) -> None:
        """Takes the rows of an earlier run of the same request, or removes them.

        Raises `UsageError` where there is none to resume, or of another request, `FileProblem` if damaged.
        """
        if resume:
            folder, path = self._path, self._path / RECORD
            if not path.is_file():
                wrong = f"--resume: {folder} does not hold the results of advisor fleet"
                raise UsageError(wrong, next_step="Give its folder with --out, or omit --resume.")
            try:
                before = FleetRecord.model_validate_json(read_bytes(path, LARGEST))
            except ValidationError as problem:
                wrong = f"{path} is damaged: {first_error(problem)}"
                raise FileProblem(wrong, next_step="Remove it and run again.") from None
            if before.request != self.record.request:
                raise UsageError(
                    f"--resume: {folder} was made with other files, options or another version of advisor",
                    next_step="Give the options of that run, or omit --resume to start over.",
                )
            self.rows = {row.task: row for row in self._saved() if row.status == "profiled"}
            self._labels = {row.key: row.device for row in self.rows.values()}
        else:
            outputs.remove(self._path, *self._row_files())
        outputs.write(self._path, RECORD, self.record.model_dump_json(indent=1) + "\n")
        if self.rows:
            self._tell(f"resumed: {len(self.rows)} profiled before")

    def unprofiled(self, device: Device) -> Sequence[Item]:
        """What is not yet profiled on this device: each value of the swept parameter."""
        key, items = self._request.key(device), list[Item]()
        if key not in self._labels:
            name = f"{device.name} ({device.host})" if self._request.template.include_host else device.name
            numbered = (f"{name} #{number}" if number > 1 else name for number in count(1))
            self._labels[key] = next(label for label in numbered if label not in self._labels.values())
        label = self._labels[key]
        for value, shown in self._request.values.items():
            row = Row(
                task=f"{key} {shown}".strip(),
                device=label,
                kind=device.kind,
                memory_class=device.memory_class,
                value=shown,
                status="not run",
                folder="/".join(map(slug, filter(None, (label, shown)))),
            )
            if row.task not in self.rows:
                items.append(Item(row, device, value))
        self._total += len(items)
        self._progress.start(self._total)
        return items

    def unfit(self, worker: str, host: str, why: AdvisorError) -> None:
        """Adds a row, without the worker's address unless hosts may be named."""
        name = host if host and self._request.template.include_host else f"worker {len(self.unfit_rows) + 1}"
        row = Row(task=worker, device=name, status="unfit", reason=why.message, next_step=why.next_step)
        self.unfit_rows.append(row)
        self._tell(f"{name} cannot take part: {worker}")

    def waits(self, reason: str) -> None:
        if reason not in self._waits:
            self._waits.add(reason)
            self._tell(f"waiting: {reason}")

    def begun(self, item: Item) -> None:
        again = "again: " if item.tried else ""
        self._progress.begin(f"{again}{item.row.device} {item.row.value}".strip())

    def ended(self, item: Item, answer: Answer, seconds: float) -> None:
        name = outputs.free_folder(self._path, item.row.folder, _FILES)
        row, folder = item.row.model_copy(update={"seconds": seconds, "folder": name}), self._path / name
        if answer.status == "profiled":
            try:
                sent = f"the profile from {row.device}"
                profile = reading.parse(answer.profile, sent)
                if profile.workload.sha256 != self._sha256 or profile.device.kind != row.kind:
                    wrong = f"{sent} is of another workload or device than requested"
                    step = "Check who can reach the scheduler: docs/fleet.md, Security."
                    raise FileProblem(wrong, next_step=step)
                folder.mkdir(parents=True, exist_ok=True)
                outputs.set_aside(folder)
                pages.write(pages.page_of(profile), folder, (*self._request.formats, "json"))
                row = concluded(row, profile)
            except FileProblem as problem:
                answer = Answer(status="failed", reason=problem.message, next_step=problem.next_step)
        if answer.status != "profiled":
            texts = (answer.reason, answer.next_step, answer.detail)
            reason, step, detail = (printable(self.redactor.hide(text)) for text in texts)
            failed = {"status": "failed", "folder": "", "reason": reason[:1900], "next_step": step[:1900]}
            row = row.model_copy(update=failed)
            error = AdvisorError(reason, next_step=step, detail=detail)
            error.exit_code = answer.exit_code
            self.errors.append(error)
            if detail:
                outputs.write(folder, FAILURE, detail + "\n")
        self.rows[row.task] = row
        outputs.write(folder, ROW, row.model_dump_json(indent=1) + "\n")
        self._progress.end()
        result = row.strategy or row.status
        self._tell(f"{row.device} {row.value}".strip() + f": {result} ({seconds:.0f} s)")

    def _row_files(self) -> list[str]:
        files = [*self._path.glob(f"*/{ROW}"), *self._path.glob(f"*/*/{ROW}")]
        return sorted(str(file.relative_to(self._path)) for file in files)

    def _saved(self) -> Iterator[Row]:
        """Raises `UsageError` for a row whose profile would be read from elsewhere."""
        for name in self._row_files():
            with suppress(OSError, ValidationError):
                row = Row.model_validate_json(read_bytes(self._path / name, LARGEST))
                folder = Path(name).parent
                links = [outputs.link_in(self._path, f"{folder}/{each}") for each in (ROW, "profile.json")]
                if row.status == "profiled" and (Path(row.folder) != folder or any(links)):
                    raise UsageError(
                        f"--resume: {self._path / name} refers to files outside its folder",
                        next_step=f"Remove {self._path / name} and run again.",
                    )
                yield row


def concluded(row: Row, profile: Profile) -> Row:
    advice, on_gpu = profile.recommendation, profile.device.kind == "cuda"
    measured = counted(profile).measured() if on_gpu else {}
    seconds = {name: row.median_seconds for name, row in measured.items() if profile.preferences.by_time}
    fastest = min(seconds.values(), default=1.0)
    predicted = any(result.status == "predicted" for p in profile.predictions for result in p.results)
    return row.model_copy(
        update={
            "status": "profiled",
            "memory_class": profile.device.memory_class,
            "strategy": advice.strategy if advice else None,
            "verdict": advice.verdict if advice else None,
            "basis": "measured" if measured else "predicted" if predicted else "none",
            "predicted": tuple(
                PredictedChoice(device=p.device.name, strategy=str(guess.strategy), verdict=guess.verdict)
                for p in profile.predictions
                if (guess := p.recommendation) and guess.strategy
            ),
            "costs": {name: each / fastest for name, each in seconds.items()},
        }
    )


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9=.,+]+", "-", text.lower()).strip("-.")[:100] or "device"


def write_placements(path: Path, record: FleetRecord) -> Path:
    """Writes the strategy of each device as TOML, and returns the path. Raises `FileProblem`."""
    lines = [f"# The memory strategy of each device, by `advisor fleet` {__version__}. See docs/fleet.md."]
    lines.append(f"workload = {toml_string(record.workload)}")
    entries = {(r.device, r.value): (r.strategy, r.verdict, "measured") for r in record.rows if r.strategy}
    for row in record.rows:
        for each in row.predicted:
            entries.setdefault((each.device, row.value), (each.strategy, each.verdict, "predicted"))
    for (name, at), (strategy, verdict, basis) in entries.items():
        lines += ["", "[[device]]", f"name = {toml_string(name.partition(' #')[0])}"]
        if at:
            parameter, _, value = at.partition("=")
            lines.append(f"parameters = {{ {toml_string(parameter)} = {toml_string(value)} }}")
        texts = {"strategy": strategy, "verdict": verdict or "", "basis": basis}
        lines += [f"{key} = {toml_string(text)}" for key, text in texts.items()]
    return outputs.write(path.parent, path.name, "\n".join(lines) + "\n")
