"""`advisor profile`: one profile, or several: a sweep's values, or workloads, each into its folder."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.cli import options
from advisor.cli.console import (
    Output,
    began,
    interruptible,
    launcher,
    machine,
    put,
    require_figures,
    say,
    say_written,
    summarize,
)
from advisor.errors import INTERRUPTED, AdvisorError, NothingMeasured, UsageError, WorkloadError
from advisor.measure.options import OPTIONS, Options
from advisor.profiles.files import scratch

if TYPE_CHECKING:
    from advisor.measure.jobs import Settings
    from advisor.profiles.schema import Profile
    from advisor.profiles.sweeps import ProfileSet
    from advisor.report.page import Page
    from advisor.sweep import Step, Sweep


@options.takes(*OPTIONS)
def profile(**values: Any) -> None:
    """Measure a workload under every strategy and recommend one.

    Without a GPU, run the workload on the CPU and predict the strategies for the target devices.
    """
    from advisor import configuration
    from advisor.devices.environment import command_line
    from advisor.profiles import outputs
    from advisor.sweep import parse_sweep
    from advisor.workloads import outline

    targets = (values["workload"],) if values["module"] else outline.targets(values["workload"])
    values["workload"] = targets[0]
    source = configuration.command_line(**values)
    script = values["module"] or is_script(values["workload"], values["arguments"] or ())
    _require_recording(values, script=bool(script))
    sources = configuration.places(source, script=bool(script))
    merged = configuration.merged(sources)
    output = Output(merged.out, merged.formats, merged.details, merged.quiet)
    sweeps = parse_sweep(merged.sweep)
    if merged.save:
        outputs.baseline_folder(merged.save)
    _require_one(merged, targets, swept=bool(sweeps), printed=output.form is not None)
    command = command_line(sys.argv[1:])
    settings = configuration.settings_here(
        sources, say, command=command, script=bool(script), machine=machine()
    )
    if settings.backend == "cpu" and "nsys" in merged.trace and merged.nsys is None and not merged.quiet:
        say("--trace nsys has no effect: nothing runs on a GPU")
    timed = replace(settings, began=began())
    if len(targets) > 1:
        _profile_workloads(targets, settings, output)
    elif sweeps:
        _profile_sweep(sweeps, settings, output)
    elif output.form:
        _profile_to_stdout(timed, output.form)
    else:
        _profile_once(timed, output)


def _refuse(holds: object, message: str, next_step: str) -> None:
    if holds:
        raise UsageError(message, next_step=next_step)


def _require_one(merged: Options, targets: Sequence[str], *, swept: bool, printed: bool) -> None:
    """Raises `UsageError` for options of one profile where the command makes several."""
    count = len(targets)
    several = "--sweep" if swept else f"a run of {count} workloads" if count > 1 else ""
    wrong = f"--sweep takes one workload, and there are {count}"
    _refuse(swept and count > 1, wrong, f"Name one: {targets[0]}.")
    wrong = f"{several} writes one folder per {'value' if swept else 'workload'} and cannot print to stdout"
    _refuse(several and printed, wrong, "Give a directory: --out DIR.")
    wrong = "--save keeps one profile, of a run that writes one"
    _refuse(merged.save and (several or printed), wrong, "Omit --save.")
    wrong = "--apply needs one run that writes a report"
    _refuse(merged.apply and (swept or printed), wrong, "Omit --sweep and --out -.")


_SCRIPTS_ONLY = {
    "frame": "the frame of a workload is its function",
    "count_bytes": "of a workload all buffers are known",
    "tries": "a workload is measured under every strategy",
}
"""Options of scripts alone, and why a workload has none."""


def _require_recording(values: Mapping[str, Any], *, script: bool) -> None:
    """Raises `UsageError` for options of scripts that would have no effect, before anything is measured."""
    apply, tries = values["apply"] or "", values["tries"]
    file, _, function = apply.partition("::")
    for name, why in _SCRIPTS_ONLY.items():
        wrong = f"--{OPTIONS[name].key} applies only to scripts: {why}"
        _refuse(values[name] and not script, wrong, "Omit it.")
    _refuse(values["checked"] and not tries, "--check has no effect without --try", "Add --try.")
    wrong = "--apply has no effect on a script without --try"
    _refuse(apply and script and not tries, wrong, "Add --try.")
    wrong = f"--apply {apply}: a script's patch changes the files of its lines"
    _refuse(script and apply not in ("", options.THE_PATCH), wrong, "Omit the value.")
    wrong = f"--apply {apply} names no function"
    if apply == options.THE_PATCH:
        wrong = "--apply on a workload needs a function to change"
    elif function:
        wrong = f"--apply {apply}: {file} does not exist"
    step = "Name the function that the workload stands for: --apply FILE::FUNCTION."
    _refuse(apply and not script and not (function and Path(file).is_file()), wrong, step)


@contextmanager
def _telling_what_is_kept(*files: Path) -> Iterator[None]:
    """After Ctrl-C or on a full disk, says which file, the first that changed, has the figures so far."""

    def present() -> dict[Path, int]:
        return {file: file.stat().st_mtime_ns for file in files if file.exists()}

    def kept(otherwise: str = "") -> str:
        changed = dict(present().items() - before.items())
        file = next(filter(changed.__contains__, files), None)
        if file is None:
            return otherwise
        return f"measurements so far are in {file}\n  next: advisor report {shlex.quote(str(file))}"

    before = present()
    try:
        with interruptible(lambda: kept("nothing was measured")):
            yield
    except OSError:
        if where := kept():
            say(where, written=True)
        raise


def _profile_once(settings: Settings, output: Output) -> None:
    from advisor import pipeline
    from advisor.measure.progress import make_progress
    from advisor.profiles import outputs, reading
    from advisor.report import pages

    merged, names = settings.options, _names(settings, output.wanted)
    with (
        outputs.output_directory(merged.out, names, aside=True) as directory,
        _telling_what_is_kept(directory / pipeline.PARTIAL, directory / "profile.json"),
    ):
        with make_progress(quiet=merged.quiet) as progress:
            result = pipeline.profile(settings, progress, keep_in=directory, launcher=launcher(settings))
        directory.mkdir(parents=True, exist_ok=True)  # the workload may have removed it
        page, patch = pages.page_of(result), result.trials.patch if result.trials else None
        equal = {_patch_name(settings): patch.exact} if patch and patch.holds else {}
        reading.read_back(output.write(page, directory, further=equal))
        outputs.remove(directory, pipeline.PARTIAL)
    if merged.save:
        with outputs.output_directory(outputs.baseline_folder(merged.save), ["profile.json"]) as directory:
            say_written([outputs.write(directory, "profile.json", result.to_json())], quiet=merged.quiet)
    if merged.apply and not merged.tries:
        _apply_to_function(result, merged.apply)
    elif merged.apply and (equal or not pipeline.was_interrupted(result)):
        _apply(result)
    _end(result, page)


def _patch_name(settings: Settings) -> str:
    file = settings.file
    return f"{file.parent.name if file.stem == '__main__' else file.stem}.patch"


def _apply(result: Profile) -> None:
    """Applies the patch if its results were equal; otherwise raises `UsageError`."""
    from advisor.strategies.patches import apply
    from advisor.strategies.syntax import CannotWrite

    patch = result.trials.patch if result.trials else None
    if patch is None or not patch.holds:
        reason = f": {patch.reason}" if patch and patch.reason else ""
        wrong = f"there is no patch with equal results to apply{reason}"
        raise UsageError(wrong, next_step="See the report's trials.")
    try:
        apply(patch.texts)
    except CannotWrite as reason:
        raise UsageError(f"the patch does not apply: {reason}", next_step="Apply it by hand.") from None
    for file in patch.texts:
        say(f"changed {file}", written=True)


def _apply_to_function(result: Profile, target: str) -> None:
    """Page-locks the function's arrays that the recommended strategy page-locks; lists what is left to do."""
    from advisor.strategies.functions import written_as
    from advisor.strategies.patches import apply
    from advisor.strategies.syntax import CannotWrite

    file, _, function = target.partition("::")
    try:
        before = Path(file).read_bytes().decode()
        applied = written_as(result, before, function)
        if applied.written:
            apply({Path(file): (before, applied.text)})
    except (CannotWrite, SyntaxError, OSError, UnicodeDecodeError) as reason:
        say(f"{file} is not changed: {reason}", written=True)
        return
    for left_out in applied.left_out:
        say(f"not written to {file}: {left_out}", written=True)
    if applied.written:
        names = ", ".join(applied.written)
        say(f"changed {file}: {names}. Its results were not compared: run your tests.", written=True)
    if applied.left_out:
        say("the code to copy is in the report")


def _profile_to_stdout(settings: Settings, form: str) -> None:
    """One form of the report on stdout. No file is left: Ctrl-C before the first figures leaves nothing."""
    from advisor import pipeline
    from advisor.measure.progress import make_progress
    from advisor.profiles import reading
    from advisor.report import pages

    with scratch() as folder, make_progress(quiet=settings.options.quiet) as progress:
        result = pipeline.profile(settings, progress, keep_in=folder, launcher=launcher(settings))
    page = pages.page_of(result)
    put(written := pages.render(page, form))
    if form == "json":
        reading.require_readable(written, "the profile")
    _end(result, page)


def _end(result: Profile, page: Page) -> None:
    """The summary of a GitHub job, and the exit code: 130 after Ctrl-C, 3 for a script that failed, 4 without
    figures."""
    from advisor import pipeline

    summarize(page)
    if pipeline.was_interrupted(result):
        sys.exit(INTERRUPTED)
    if result.script and result.script.exit_code:
        error = f": {result.script.error}" if result.script.error else ""
        wrong = f"the script ended with exit code {result.script.exit_code}{error}"
        raise WorkloadError(wrong, next_step="The report has what was recorded until then.")
    require_figures(result)


def _names(settings: Settings, wanted: Sequence[str]) -> list[str]:
    from advisor import pipeline
    from advisor.nsys import capturing
    from advisor.report import pages

    traced = settings.strategies if settings.options.keep_nsys else ()
    reports = (f"{capturing.FOLDER}/{strategy.name}.nsys-rep" for strategy in traced)
    patches = [_patch_name(settings)] if settings.options.tries else []
    return [*pages.names("report", wanted), pipeline.PARTIAL, *reports, *patches]


def is_script(target: str, arguments: Sequence[str]) -> bool:
    """Whether the file is run as a script. Raises `UsageError` for a workload that is given arguments."""
    from advisor.workloads import outline

    file, name = outline.file_and_name(target)
    script = outline.is_script(file, name, arguments)
    if not script and arguments and file.exists():
        wrong = f"{target} is a workload and takes no arguments, but {arguments[0]!r} was given"
        raise UsageError(wrong, next_step="Set its parameters with --set NAME=VALUE.")
    return script


def _run_several(
    planned: ProfileSet, steps: Sequence[Step], output: Output
) -> tuple[ProfileSet, list[AdvisorError]]:
    """Runs all of them, writes and prints their page. Exit code 130 where Ctrl-C ended it."""
    from advisor.measure.progress import Labelled, make_progress
    from advisor.profiles import outputs
    from advisor.report import pages
    from advisor.sweep import Runner

    settings, wanted = steps[0].settings, output.wanted
    noun, out = "value" if planned.kind == "sweep" else "workload", settings.options.out
    inside = [f"{step.directory}/{name}" for step in steps for name in _names(settings, wanted)]
    names = [*pages.names(planned.kind, wanted), *inside]
    results: ProfileSet | None = None

    def done() -> str:
        finished = results and results.has_figures
        return f"finished {noun}s are in {out}" if finished else f"no {noun} was finished"

    with interruptible(done), outputs.output_directory(out, names, aside=True) as directory:
        with make_progress(quiet=output.quiet) as progress:
            runner = Runner(Labelled(progress, limits=True), directory, wanted, launcher(settings))
            results, problems = runner.run(steps, planned)
        page = pages.page_of(results)
        output.write(page, directory)
    summarize(page)
    if results.interrupted:
        say(f"interrupted: {done()}", written=True)
        sys.exit(INTERRUPTED)
    return results, problems


def _profile_sweep(sweeps: Sequence[Sweep], settings: Settings, output: Output) -> None:
    """One profile for each value. If all values fail, the first one's error is raised."""
    from advisor.profiles.sweeps import ProfileSet
    from advisor.sweep import steps_of

    name, parameters = settings.workload or settings.file.stem, tuple(each.parameter for each in sweeps)
    planned = ProfileSet(name, parameters, (), settings.command)
    results, problems = _run_several(planned, tuple(steps_of(sweeps, settings)), output)
    if not results.has_figures:
        raise next(iter(problems), NothingMeasured("no value could be measured or predicted"))


def _profile_workloads(targets: Sequence[str], settings: Settings, output: Output) -> None:
    """One profile for each workload, FILE::NAME. The exit code is the highest of all."""
    from advisor.profiles.sweeps import ProfileSet
    from advisor.sweep import Step

    split = [(Path(file), name) for file, _, name in (target.partition("::") for target in targets)]
    names = [name for _, name in split]
    steps = []
    for file, name in split:
        label = name if names.count(name) == 1 else f"{file.stem}.{name}"
        steps.append(Step(label, label, replace(settings, file=file, workload=name)))
    planned = ProfileSet("", ("workload",), (), settings.command, kind="workloads")
    results, problems = _run_several(planned, steps, output)
    codes = [problem.exit_code for problem in problems]
    for each in results.profiles:
        try:
            require_figures(each)
        except AdvisorError as error:
            codes.append(error.exit_code)
    sys.exit(max(codes, default=0))
