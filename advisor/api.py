"""The Python API: what the commands do, for notebooks and programs."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict, get_type_hints

from typing_extensions import Unpack

from advisor import configuration, pipeline
from advisor.devices.environment import command_line
from advisor.errors import AdvisorError, UsageError, WorkloadError
from advisor.measure import namespaces, revisions
from advisor.measure.jobs import Settings, Tree
from advisor.measure.launcher import Launcher
from advisor.measure.options import OPTIONS
from advisor.measure.progress import Progress, make_progress
from advisor.measure.version_measurement import Versions
from advisor.profiles import outputs, reading, schema
from advisor.profiles.files import scratch
from advisor.profiles.redaction import here
from advisor.report import html, pages
from advisor.report.page import Page
from advisor.report.profile_page import with_headlines
from advisor.rules import advise
from advisor.strategies.registry import BASELINE, STRATEGIES, choose
from advisor.verdicts.comparing import comparisons, versions
from advisor.verdicts.versions import Question
from advisor.workloads import outline
from advisor.workloads.loading import MODULE_PREFIX
from advisor.workloads.parameters import Value
from advisor.workloads.sources import source as source_of

if TYPE_CHECKING:
    from advisor.workloads.definition import Definition


class Shown:
    """How a result is shown in a notebook and at a prompt."""

    _page: ClassVar[Callable[[Any], Page]]

    def _repr_html_(self) -> str:
        return html.notebook_cell(self._page())

    def __repr__(self) -> str:
        """The verdict alone: all figures of a profile take 100,000 characters."""
        page = self._page()
        return f"<{type(self).__name__} of {page.title}: {pages.render(page, 'verdict')}>"

    __str__ = __repr__


class Profile(Shown, schema.Profile):
    """The result of one `advisor profile`, for programs and notebooks."""

    _page = pages.page_of

    @classmethod
    def of(cls, profile: schema.Profile) -> Profile:
        return cls.model_construct(profile.model_fields_set, **dict(with_headlines(profile)))

    def compare(
        self, other: schema.Profile | Path | str, *, strategies: Sequence[str] = (), anyway: bool = False
    ) -> Comparison:
        """`other` compared with this profile, as `advisor compare` does: this one is BASE, `other` HEAD."""
        return compare(self, other, strategies=strategies, anyway=anyway)


class Comparison(Shown, comparisons.Comparison):
    _page = pages.comparison_page


class VersionComparison(Shown, versions.VersionComparison):
    """Two versions of the code, compared by one run."""

    _page = pages.versions_page


def load(path: Path | str) -> Profile:
    """Reads a profile. Raises `AdvisorError`: missing, damaged or of an unknown format."""
    with naming_arguments():
        return Profile.of(advise.concluded(reading.load(path)))


def compare(
    base: schema.Profile | Path | str,
    head: schema.Profile | Path | str,
    *,
    strategies: Sequence[str] = (),
    anyway: bool = False,
) -> Comparison:
    """HEAD compared with BASE, as `advisor compare` does. Raises `AdvisorError` as the command does."""
    with naming_arguments():
        sides = [each if isinstance(each, schema.Profile) else reading.load(each) for each in (base, head)]
        comparison = comparisons.compare(*map(advise.concluded, sides), strategies=strategies, anyway=anyway)
    return Comparison(**vars(comparison))


def compare_versions(
    base: Path | str,
    head: Path | str | None = None,
    parameters: Mapping[str, Value] | None = None,
    *,
    against: str | None = None,
    **arguments: Unpack[Arguments],
) -> VersionComparison:
    """Runs two versions of a workload and compares them, as `advisor compare --run` does.

    base, head: two files, each "FILE" or "FILE::NAME"; or one file, whose working tree is HEAD and which at
    the revision `against` is BASE (by default the merge base with the remote's default branch). `strategies`
    take part beside the baseline and the recommended one. Raises `AdvisorError` as the command does, and
    `NothingToCompare` where HEAD runs and BASE has no such workload or fails.
    """
    _require_no_import()
    with naming_arguments():
        if not isinstance(against, str | None):
            raise UsageError(
                f"against={against!r} is not the name of a revision",
                next_step='Give a revision of git or a saved baseline, such as against="main".',
            )
        named = {"workload": str(base if head is None else head), "parameters": assignments(parameters or {})}
        source = configuration.arguments(**named, **arguments)
        settings = configuration.settings_here(configuration.places(source), _say, command="")
        with make_progress(quiet=settings.options.quiet) as progress:
            return run_versions(settings, progress, base, head, against=against)


def run_versions(
    settings: Settings,
    progress: Progress,
    base: Path | str,
    head: Path | str | None,
    *,
    against: str | None = None,
    limits: Sequence[float] = (),
    recommendations: bool = False,
    began: float | None = None,
    launching: Callable[[Settings], Launcher | None] = lambda _: None,
) -> VersionComparison:
    """`compare_versions` for settings that were made; `limits` are those of gates, which end it sooner.

    recommendations: a gate asks for those of both versions.
    """
    options, named = settings.options, settings.options.strategies
    fewer = choose((BASELINE, *named)) if settings.backend == "cpu" else STRATEGIES
    settings = replace(settings, strategies=fewer, began=time.monotonic() if began is None else began)
    question = Question(tuple(limits), strategies=tuple(named) or (BASELINE,))
    if options.indifference:
        question = replace(question, indifference=options.indifference, nearly=options.indifference)
    saved = None
    if against and outputs.is_baseline(Path(against)):
        saved = advise.concluded(reading.load(reading.in_directory(outputs.baseline_folder(against))))
    with _sides(settings, base, head, against) as (before, now, labels, note):
        missing = "" if before else note
        both = Versions(before or now, now, named, question, missing, recommendations)
        comparison = pipeline.compare_versions(
            both, labels, progress, launcher=launching(settings), note=note
        )
    if saved:
        gains = comparison.run.judged.gains
        promise = versions.promised_to_versions(saved, comparison.head, named, gains)
        comparison = replace(comparison, promise=promise)
    return VersionComparison(**vars(comparison))


@contextmanager
def _sides(
    settings: Settings, base: Path | str, head: Path | str | None, against: str | None
) -> Iterator[tuple[Settings | None, Settings, tuple[str, str], str]]:
    """Settings of BASE (None if it does not exist) and HEAD, their labels, and a note."""
    file, name = outline.file_and_name(str(base))
    if head is not None:
        if against is not None:
            wrong = "--against names a revision of one file, but two files were given"
            raise UsageError(wrong, next_step="Give one file, or omit --against.")
        earlier = replace(settings, file=file.absolute(), workload=name)
        now = replace(settings, file=settings.file.absolute())
        yield earlier, now, (here().hide(str(base)), here().hide(str(head))), ""
        return
    repository = revisions.repository(file)
    chosen = revisions.base_of(repository, against)
    now = replace(settings, file=file.absolute())
    if chosen.file is None:
        yield None, now, ("", ""), f"{repository.file} is new: BASE ({chosen.label}) does not have it"
        return
    with revisions.checkout(repository, chosen, settings.options.max_seconds) as (folder, stored):
        same = namespaces.same_folder(repository.top, folder)
        tree = Tree(user=str(repository.top), checkout=str(folder), folder=str(same))
        earlier = replace(settings, file=folder / chosen.file, workload=name, tree=tree)
        labels = (here().hide(f"{chosen.file} at {chosen.label}"), f"{repository.file} in the working tree")
        notes = revisions.dirty(repository), stored, revisions.dependencies(repository, chosen.commit)
        try:
            yield earlier, now, labels, " ".join(filter(None, notes))
        except AdvisorError as error:  # files of BASE go by their path in the repository
            error.message, error.detail = (
                text.replace(f"{folder}/", "") for text in (error.message, error.detail)
            )
            raise


class Arguments(TypedDict, total=False):
    """Arguments of `profile` by name: the options of `advisor profile` that a program has a use for.

    What is left out is advisor.toml's to say; docs/configuration.md has the meaning and the default of each.
    """

    arguments: Sequence[str]
    strategies: str | Sequence[str]
    placement: Mapping[str, str] | None
    search: str
    targets: str | Sequence[str]
    target_os: str
    host: str
    gpu: int | None
    gpus: str
    no_gpu: bool
    objective: str | None
    indifference: str | float | None
    memory_budget: str | int | None
    rules: Mapping[str, float] | None
    ignore: str | Sequence[str]
    rounds: int
    max_seconds: float
    timeout: float
    seed: int
    numa: str | int
    allow_oversubscription: bool
    quiet: bool


def profile(
    workload: str | Path | Definition,
    parameters: Mapping[str, Value] | None = None,
    **arguments: Unpack[Arguments],
) -> Profile:
    """Runs a workload under every strategy, as `advisor profile` does, and returns the profile.

    workload: a file, "FILE::NAME", or a function marked with @workload, of a file or of a notebook's cell.
    A script without @workload runs once, unchanged, and what crosses is told by line.
    Every strategy runs in separate processes, which import that file; see docs/api.md. Without a GPU the
    strategies are predicted for the targets. Nothing is written but what `Profile.save` is asked for.
    Raises `AdvisorError`; after Ctrl-C the profile holds what was measured, and a note.
    """
    _require_no_import()
    _SIGNATURE.bind(workload, parameters, **arguments)
    values = {**({"parameters": assignments(parameters)} if parameters else {}), **arguments}
    with naming_arguments(), source_of(workload) as target:
        named = outline.file_and_name(str(target))
        script = outline.is_script(*named, arguments.get("arguments", ()))
        name = str(workload) if isinstance(workload, (str, Path)) else workload.name
        return _profiled(str(target), name, values, script=script)


def _profiled(target: str, name: str, values: Mapping[str, Any], *, script: bool) -> Profile:
    """name: as the user called what is in `target`."""
    source = configuration.arguments(workload=target, **values)
    words = ["profile", name]  # the equivalent command line, for the report
    for option in OPTIONS.values():
        value = () if option.positional else source.values.get(option.name, ())
        if isinstance(value, dict):
            value = [f"{name}={number}" for name, number in value.items()]
        for each in value if isinstance(value, (tuple, list)) else (value,):
            words += [f"--{option.key}"] * (each is not False) + [str(each)] * (not isinstance(each, bool))
    sources, command = configuration.places(source, script=script), command_line(words)
    settings = configuration.settings_here(sources, _say, command=command, script=script)
    with scratch() as folder, make_progress(quiet=settings.options.quiet) as progress:
        return Profile.of(pipeline.profile(settings, progress, keep_in=folder))


def profile_cell(line: str, cell: str) -> Profile:
    """A notebook's cell as a script: `%%advisor`. It runs in its own process, with the notebook's modules.

    line: the script's arguments. Raises as `profile`.
    """
    try:
        arguments = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"%%advisor {line}: {error}", next_step="Close the quotation.") from None
    before = os.environ.get("PYTHONPATH")
    with naming_arguments(), scratch() as folder:
        file = folder / "cell.py"
        file.write_text(cell, encoding="utf-8")
        script = outline.is_script(file, None, ("a cell",))
        # Processes that start meanwhile find the modules of the working directory, after all others.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (before, str(Path.cwd()))))
        try:
            return _profiled(str(file), file.name, {"arguments": arguments}, script=script)
        finally:
            del os.environ["PYTHONPATH"]
            if before is not None:
                os.environ["PYTHONPATH"] = before


_OTHERS = (
    *("against", "anyway", "each", "local", "one-per-host", "out", "resume", "scheduler", "send", "where"),
)
"""Options of `advisor compare` and `advisor fleet` that `advisor.profile` does not have."""


@contextmanager
def naming_arguments() -> Iterator[None]:
    """Errors name the arguments of this module, `max_seconds`, not options, `--max-seconds`."""
    names = {OPTIONS[name].key: name for name in ("parameters", *Arguments.__annotations__)}
    names |= {key: key.replace("-", "_") for key in _OTHERS}
    try:
        yield
    except AdvisorError as error:
        error.message, error.next_step = (
            re.sub("--([a-z][a-z-]+)", lambda option: names.get(option[1], option[0]), text)
            for text in (error.message, error.next_step)
        )
        raise


_PLAIN = inspect.signature(profile)
_NAMED = (
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=OPTIONS[name].default, annotation=kind)
    for name, kind in get_type_hints(Arguments).items()
)
_SIGNATURE = _PLAIN.replace(parameters=[*list(_PLAIN.parameters.values())[:2], *_NAMED])
"""Has the defaults of the options, for `help` and notebooks; an unknown argument is a TypeError."""
profile.__signature__ = _SIGNATURE  # type: ignore[attr-defined]


def _require_no_import() -> None:
    """A worker imports the workload's file: profiling at import would start workers without end."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        name = frame.f_globals.get("__name__", "")
        if frame.f_code.co_name == "<module>" and name.startswith(MODULE_PREFIX):
            raise WorkloadError(
                "the workload file calls advisor.profile at import time, and every worker process imports it",
                next_step='Move the call under: if __name__ == "__main__":',
            )


def assignments(parameters: Mapping[str, Value]) -> list[str]:
    """Assignments in the form of `--set`. Raises `UsageError` for what is no plain value."""
    if not isinstance(parameters, Mapping):
        wrong = f"advisor.profile: parameters={parameters!r} is not a dict with names as keys"
        raise UsageError(wrong, next_step='Write parameters={"n": 4096}.')
    for name, value in parameters.items():
        plain = isinstance(value, (int, float, str)) or hasattr(value, "__index__")
        if not plain or str(value) != str(value).strip():
            raise UsageError(
                f"parameters[{name!r}] is {value!r}; it must be an int, float, bool or str without "
                "surrounding whitespace",
                next_step='Write parameters={"n": 4096}.',
            )
    return [f"{name}={value}" for name, value in parameters.items()]


def _say(text: str) -> None:
    print(text, file=sys.stderr)
