"""`advisor devices`: the catalogue, one device of it, and this machine measured for it."""

from __future__ import annotations

import typer

from advisor.cli import options
from advisor.cli.console import AROUND, INTERRUPTED, choose_backend, say

_CPU_ALONE = ("measure the CPU", "measures the CPU alone")

devices = typer.Typer(rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})


@devices.callback(invoke_without_command=True)
def devices_command(context: typer.Context) -> None:
    """List the devices that can be predicted for."""
    from advisor.model.device_texts import describe_all

    if context.invoked_subcommand is None:
        print(describe_all())


@devices.command("show")
def devices_show(name: options.Device) -> None:
    """Tell all that is known of a device, with sources, and what the model assumes."""
    from advisor.model.device_texts import describe_one

    print(describe_one(name))


@devices.command("calibrate")
def devices_calibrate(
    out: options.EntryOut = None,
    gpu: options.Gpu = None,
    no_gpu: options.NoGpu = False,
    base: options.Base = None,
    name: options.EntryName = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure this machine in under two minutes; write a catalogue entry to predict with anywhere.

    Without a GPU the CPU alone is measured; --base puts it into the entry of a card of the catalogue.
    """
    from advisor.calibration import calibrations, output
    from advisor.devices.catalogue import load
    from advisor.measure.progress import make_progress

    request = calibrations.Request(
        backend=choose_backend(gpu, no_gpu, quiet, without=_CPU_ALONE),
        gpu=gpu or 0,
        base=load(base) if base else None,
        name=name,
    )
    request.check()
    output.check(out, has_entry=request.makes_entry, force=force)
    try:
        with make_progress(quiet=quiet) as progress:
            found = calibrations.calibrate(request, progress, AROUND.get().calibrating)
    except KeyboardInterrupt:
        say("interrupted: nothing was written")
        raise typer.Exit(INTERRUPTED) from None
    print(output.give(found, out))
    if not quiet:
        say(output.remarks(found, out))
