"""Several profiles by one command: the values of `--sweep n=2**10..2**24`, or pairs of two parameters'
values; or one of each workload.

The values are read first, then each is profiled by itself; one that fails costs its row.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from urllib.parse import quote

from advisor import pipeline
from advisor.errors import AdvisorError, UsageError, WorkloadError
from advisor.measure.jobs import Done, Problem, Settings
from advisor.measure.launcher import Launcher, ProcessLauncher
from advisor.measure.measurement import job_of
from advisor.measure.progress import Labelled
from advisor.profiles import outputs, reading
from advisor.profiles.files import scratch
from advisor.profiles.redaction import here
from advisor.profiles.secrets import is_secret
from advisor.profiles.sweeps import Point, ProfileSet, Value, Values, in_order, link, values_of
from advisor.report import pages
from advisor.strategies.registry import BASELINE
from advisor.workloads.parameters import parse_assignments, parse_number

MOST_STEPS = 7
MOST_SIDE = 6
"""Values of each of two parameters: 36 profiles take more than half an hour."""
_NAME_LENGTH = 120


@dataclass(frozen=True)
class Step:
    """One run of several, such as `n=1024`; `value` is what is shown: of a sweep its value or values."""

    label: str
    value: Values
    settings: Settings

    @property
    def directory(self) -> str:
        """The folder of its own report."""
        name = quote(self.label, safe="=+, ")
        if len(name) <= _NAME_LENGTH:
            return name
        return f"{name[: _NAME_LENGTH - 9]}~{hashlib.sha256(self.label.encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class Sweep:
    """One parameter and its values, as `--set` takes them."""

    parameter: str
    values: tuple[str, ...]

    @property
    def labels(self) -> dict[str, Value]:
        """The values as pages and folders may name them, each by another name; by number under a secret's."""
        names: dict[str, Value] = {}
        redactor, secret = here(), is_secret(self.parameter)
        for number, text in enumerate(self.values, 1):
            plain = _plain(text)
            value = redactor.hide(plain) if isinstance(plain, str) else plain
            names[text] = f"value {number}" if secret or value in names.values() else value
        return names


def steps_of(sweeps: Sequence[Sweep], base: Settings) -> Iterator[Step]:
    """Each value, or pair of values, with its settings. Raises `UsageError`."""
    require_not_set(sweeps, base.assignments)
    names = [swept.parameter for swept in sweeps]
    for chosen in product(*(swept.labels.items() for swept in sweeps)):
        texts, values = zip(*chosen, strict=True)
        label = ",".join(map("{}={}".format, names, values))
        assignments = {**base.assignments, **dict(zip(names, texts, strict=True))}
        value = values if len(values) == 2 else values[0]
        yield Step(label, value, replace(base, assignments=assignments))


def require_not_set(sweeps: Sequence[Sweep], assignments: Mapping[str, str]) -> None:
    """Raises `UsageError` where `--set` fixes a parameter that is swept."""
    for name in (swept.parameter for swept in sweeps if swept.parameter in assignments):
        wrong = f"--sweep {name} and --set {name} contradict each other"
        raise UsageError(wrong, next_step="Omit one of them.")


def parse_sweep(texts: Sequence[str]) -> tuple[Sweep, ...]:
    """The one or two parameters of `--sweep`; none where it was not given. Raises `UsageError`."""
    if len(texts) > 2:
        wrong = f"--sweep was given {len(texts)} times: {', '.join(texts)}"
        raise UsageError(wrong, next_step="Sweep one parameter, or two; give the others with --set.")
    sweeps = tuple(map(_parse, texts))
    if len(sweeps) < 2:
        return sweeps
    if sweeps[0].parameter == sweeps[1].parameter:
        wrong = f"--sweep names {sweeps[0].parameter} twice"
        raise UsageError(wrong, next_step="Give all its values in one list.")
    for text, swept in zip(texts, sweeps, strict=True):
        count, name = len(swept.values), swept.parameter
        if count > MOST_SIDE:
            wrong = f"--sweep {text} has {count} values; of two parameters, each has at most {MOST_SIDE}"
            raise UsageError(wrong, next_step=f"Give fewer, such as --sweep {name}=LOW..HIGH:{MOST_SIDE}.")
    return sweeps


def _parse(text: str) -> Sweep:
    """A list of values, or a range whose ends are included and whose values lie a constant factor apart.

    Doublings by default, wider steps where that gives more than eight values.
    """
    bare = text.partition("=")[0].strip()
    start = f"--sweep {bare if bare.isidentifier() else 'n'}="
    forms = f"Write {start}1..64, {start}1..64:4 (four values), or {start}1,2,8,64."
    if bare.isidentifier() and not text.partition("=")[2].strip():
        raise UsageError(f"--sweep {bare} has no values", next_step=forms)
    ((name, values),) = parse_assignments([text], "--sweep").items()
    low, dots, high = values.partition("..")
    chosen = _range(text, low, high, forms) if dots else filter(None, map(str.strip, values.split(",")))
    distinct = tuple({_plain(value): value for value in reversed([*chosen])}.values())[::-1]
    if len(distinct) < 2:
        raise UsageError(f"--sweep {text} has fewer than two values", next_step=forms)
    return Sweep(name, distinct)


def _range(text: str, low: str, high: str, forms: str) -> tuple[str, ...]:
    high, colon, count = high.partition(":")
    try:
        first, last = parse_number(low), parse_number(high)
        steps = int(count) - 1 if colon else 1
        doublings = math.log2(last / first) if 0 < first < last < math.inf else 0.0
    except (ValueError, OverflowError):
        raise UsageError(f"--sweep {text} is not a range of numbers", next_step=forms) from None
    if not 0 < doublings < math.inf or not 1 <= steps < 100:
        wrong = f"--sweep {text}: the range must be increasing, start above 0 and have 2 to 100 values"
        raise UsageError(wrong, next_step=forms)
    factor = (last / first) ** (1 / steps)
    if not colon:
        # The least power of two that covers the range in `MOST_STEPS`; the last step may be cut short.
        exponent = max(1, math.ceil(doublings / MOST_STEPS - 1e-9))
        factor, steps = 2.0**exponent, max(1, math.ceil(doublings / exponent - 1e-9))
    middle = [first * factor**i for i in range(1, steps)]
    whole = isinstance(first, int) and isinstance(last, int)
    return (str(first), *(str(round(v)) if whole else f"{v:.6g}" for v in middle), str(last))


def _plain(text: str) -> Value:
    """The number that a text is, so that 2**10 and 1024 are the same value; other text as it is."""
    try:
        number = parse_number(text)
    except (ValueError, OverflowError):
        return text
    return number if math.isfinite(number) else text


LABEL_LENGTH = 18


@dataclass(frozen=True)
class Runner:
    """Runs one profile after the other, each with its report into a folder in `directory`."""

    progress: Labelled
    directory: Path
    formats: Sequence[str]
    launcher: Launcher | None = None
    """None for real processes, forked again for each value."""

    def run(self, steps: Sequence[Step], planned: ProfileSet) -> tuple[ProfileSet, list[AdvisorError]]:
        """The set with a point for every step, and the errors of those that could not be profiled.

        Ctrl-C ends it with what there is. Raises `AdvisorError` before anything runs where a value of a sweep
        cannot be read, KeyboardInterrupt before the first profile.
        """
        swept = planned.parameters if planned.kind == "sweep" else ()
        if swept:
            self._require_readable(steps, swept)
        points: list[Point] = []
        problems: list[AdvisorError] = []
        try:
            for step in steps:
                cut = f"{step.label[: LABEL_LENGTH - 1]}…"
                self.progress.label = cut if len(step.label) > LABEL_LENGTH else step.label
                points.append(self._point(step, swept, problems))
                if points[-1].profile and pipeline.was_interrupted(points[-1].profile):
                    break
        except KeyboardInterrupt:
            if not any(point.profile for point in points):
                raise
        missing = Point("", status="not run", reason="the run was interrupted")
        points += [replace(missing, value=step.value) for step in steps[len(points) :]]
        if swept:
            names = (point.profile.workload.name for point in points if point.profile)
            planned = replace(planned, workload=next(names, planned.workload))
        return replace(planned, points=in_order(points) if swept else points), problems

    def _require_readable(self, steps: Sequence[Step], swept: Sequence[str]) -> None:
        """Reads file and values in another process first, so that nothing runs if one is wrong."""
        settings = replace(steps[0].settings, backend="cpu")
        values = {name: dict.fromkeys(step.settings.assignments[name] for step in steps) for name in swept}
        self.progress.begin("checking the values")
        with scratch() as folder:
            launch = self.launcher or ProcessLauncher(settings.timeout)
            job = job_of(settings, "parameters", BASELINE, folder, "values")
            update = {"swept": tuple((name, tuple(texts)) for name, texts in values.items())}
            ended = launch(job.model_copy(update=update))
        self.progress.end()
        if isinstance(ended.outcome, Problem):
            raise ended.outcome.as_error()
        if not isinstance(ended.outcome, Done):
            wrong = f"the workload could not be loaded: {ended.reason}"
            raise WorkloadError(wrong, next_step="Check that the file runs with python.", detail=ended.log)

    def _point(self, step: Step, swept: Sequence[str], problems: list[AdvisorError]) -> Point:
        try:
            outputs.require_free(self.directory, [f"{step.directory}/{pipeline.PARTIAL}"])
            with outputs.output_directory(self.directory / step.directory) as folder:
                profile = pipeline.profile(
                    step.settings, self.progress, keep_in=folder, launcher=self.launcher
                )
                outputs.set_aside(folder)
                written = pages.write(pages.page_of(profile), folder, self.formats)
                reading.read_back(written)
                outputs.remove(folder, pipeline.PARTIAL)
        except AdvisorError as error:
            problems.append(error)
            hide = here(include_host=step.settings.options.include_host).hide
            reason, detail = hide(error.message), hide(error.detail)
            return Point(step.value, status="failed", reason=reason, detail=detail)
        page = folder / "report.html"
        href = link(f"{step.directory}/{page.name}") if page in written else ""
        return Point(values_of(profile, swept) if swept else step.value, profile, href=href)
