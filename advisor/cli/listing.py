"""`advisor strategies`, `rules`, `devices` with its subcommands, and `new`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import typer

from advisor.cli import options
from advisor.cli.console import AROUND, interruptible, machine, read_trace, require_report, say
from advisor.errors import AdvisorError, UsageError

devices = typer.Typer(rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})


def strategies() -> None:
    """List the strategies, and what each is good and bad for."""
    from advisor.strategies.registry import describe

    print(describe())


def rules(rule: options.Rule = None) -> None:
    """List the rules, or explain one with an example."""
    from advisor.rules.registry import RULES, by_id, explain, overview

    print(explain(by_id(rule)) if rule is not None else overview(RULES))


def new(
    file: options.NewFile,
    arguments: options.ScriptArguments = None,
    like: options.Like = None,
    start: options.From = None,
    from_trace: options.FromTrace = None,
    frame: options.Frame = None,
    nsys: options.Nsys = None,
    force: options.ForceNew = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a commented workload to start from; it runs unchanged."""
    from advisor.workloads import starters

    sources = [n for n, value in (("--like", like), ("--from", start), ("--from-trace", from_trace)) if value]
    if len(sources) > 1:
        raise UsageError(f"{' and '.join(sources)} contradict each other", next_step="Omit one of them.")
    if arguments and not start:
        wrong = f"arguments without a script: {' '.join(arguments)}"
        raise UsageError(wrong, next_step="Name the script with --from.")
    require_report(from_trace is not None, frame=frame, nsys=nsys)
    if start:
        written = _from_call(file, start, arguments or [], force=force)
    else:
        text = None
        if from_trace:
            from advisor import configuration

            traced = read_trace(from_trace, nsys, frame or "", configuration.command_line()).program
            text = starters.outline(traced, from_trace, file)
        written = starters.write(file, like=like, text=text, force=force)
    for path in written:
        print(path)
    if not quiet:
        say(f"  next: advisor profile {shlex.quote(str(file))}")


def _from_call(file: Path, start: str, arguments: list[str], *, force: bool) -> list[Path]:
    """The workload of one call of FILE::FUNCTION, or of the function or statements around FILE:LINE, and its
    arrays."""
    from advisor.measure.observed import observe, workload_text
    from advisor.measure.stretches import Stretch, function_at
    from advisor.profiles.files import scratch
    from advisor.profiles.outputs import require_new
    from advisor.workloads import starters
    from advisor.workloads.outline import file_and_name

    source, name = file_and_name(start)
    path, _, line = start.rpartition(":")
    called: str | Stretch | None = name
    if name is None and line.isdecimal() and Path(path).is_file():
        source, called = Path(path), function_at(Path(path), int(line))
    if called is None or not source.is_file():
        wrong = f"--from {start} is neither FILE::FUNCTION nor FILE:LINE with an existing file"
        raise UsageError(wrong, next_step="Write --from pipeline.py::process or --from pipeline.py:34.")
    inputs, part = file.with_suffix(".npz"), file.with_name(f"{file.stem}_part.py")
    starters.require_name(file)
    require_new([file, inputs, *[part] * isinstance(called, Stretch)], force=force)
    if isinstance(called, str):
        text = workload_text(file, source, called, observe(source, called, inputs, arguments), inputs)
        return [*starters.write(file, text=text, force=force), inputs]
    with scratch() as folder:
        program = folder / source.name
        program.write_text(called.program, encoding="utf-8")
        try:
            call = observe(program, called.function, inputs, arguments, beside=source.parent)
        except AdvisorError as problem:
            where = f"the statements around line {line}"
            text = problem.message.replace(f"{program}::{called.function}", f"{source}, {where}")
            problem.message = text.replace(called.function, where).replace(str(program), str(source))
            raise
    text = workload_text(file, part, called.function, call, inputs, called.downloaded)
    written = starters.write(part, text=called.module, force=force)
    return [*starters.write(file, text=text, force=force), *written, inputs]


@devices.callback(invoke_without_command=True)
def devices_command(context: typer.Context) -> None:
    """List the devices that can be predicted."""
    from advisor.model.machines import describe_all

    if context.invoked_subcommand is None:
        print(describe_all())


@devices.command("show")
@options.takes("target_os")
def devices_show(name: options.Device, **values: Any) -> None:
    """Show what is known about a device, with sources."""
    from advisor import configuration
    from advisor.model.machines import describe_one

    source = configuration.command_line(**values)
    print(describe_one(name, source.values.get("target_os", "linux")))


@devices.command("calibrate")
def devices_calibrate(
    out: options.EntryOut = None,
    gpu: options.Gpu = None,
    host: options.HostOnly = False,
    base: options.Base = None,
    name: options.EntryName = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure this machine for predictions.

    In under two minutes, write a catalogue entry that predicts anywhere. Without a GPU, measure only the CPU;
    --base inserts it into the entry of a catalogue card.
    """
    from advisor.calibration import calibrations
    from advisor.devices.catalogue import load
    from advisor.measure.backends import choose_backend
    from advisor.measure.progress import make_progress
    from advisor.profiles import outputs

    if host and gpu is not None:
        raise UsageError("--gpu and --host contradict each other", next_step="Give only one of them.")
    tell = (lambda _: None) if quiet else say
    backend = choose_backend(gpu, host, tell, ("measure the CPU", "measures only the CPU"), machine())
    request = calibrations.Request(
        backend=backend, gpu=gpu or 0, base=load(base) if base else None, name=name
    )
    calibrations.check(request, out, force=force)
    with interruptible(lambda: "nothing was written"), make_progress(quiet=quiet) as progress:
        calibration = calibrations.calibrate(request, progress, AROUND.get().calibrating)
    if out and not force:
        out = outputs.unused(out)  # a file may have appeared since the measurements began
    print(calibrations.give(calibration, out))
    if not quiet:
        say(calibrations.remarks(calibration, out))


@devices.command("import")
def devices_import(
    file: options.BandwidthOutput,
    base: options.Card = None,
    out: options.EntryOut = None,
    name: options.EntryName = None,
    force: options.Force = False,
) -> None:
    """Use the copy rates that a benchmark printed.

    Write a catalogue entry with your host's rates, as nvbandwidth, bandwidthTest or UnifiedMemoryPerf printed
    them. Needs no GPU. The card is the one that the output names, or --base.
    """
    from advisor import units
    from advisor.calibration import calibrations
    from advisor.devices import host_rates
    from advisor.devices.catalogue import load, named
    from advisor.profiles.files import write_atomically

    calibrations.require_free(out, force=force)
    output = host_rates.read(file)
    entry = load(base) if base else named(output.device)
    if entry is None:
        device = f"{output.device!r}, which is not in the catalogue" if output.device else "no card"
        wrong = f"the output names {device}"
        raise UsageError(wrong, next_step="Name it with --base; `advisor devices` lists the cards.")
    figures = output.figures(entry)
    named_so = {"name": name or f"{entry.name} (your host)"}
    imported = host_rates.with_rates(entry, figures).model_copy(update=named_so)
    made_by = f"Made by `advisor devices import` from the output of {output.program}."
    text = calibrations.write(imported, [made_by])
    if out is None:
        print(text.rstrip("\n"))
        return
    write_atomically(out, text)
    print("\n".join(f"{key:<36} {units.rate(figure.value)}" for key, figure in figures.items()))
    say(calibrations.wrote(out))
