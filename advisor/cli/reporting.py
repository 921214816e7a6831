"""`advisor report` and `advisor predict`: what is made of saved profiles."""

from __future__ import annotations

from pathlib import Path

from advisor.cli import options
from advisor.cli.console import require_figures, show
from advisor.cli.streams import only_format, put


def report(
    files: options.Profiles,
    out: options.OutBeside = None,
    formats: options.Formats = "html,md",
    quiet: options.Quiet = False,
) -> None:
    """Render the report of a profile again.

    Several profiles of one workload on one device that differ in one parameter give the page of a sweep.
    """
    from advisor import profiles, report, series, settings

    wanted = settings.parse_formats(formats)
    loaded = [(file, profiles.load(file)) for file in files]
    directory = out or series.common_parent(files)
    together = series.gather(loaded, directory) if len(loaded) > 1 else None
    with settings.output_directory(directory) as folder:
        if together:
            show(report.sweep_summary(together), report.write_sweep(together, folder, wanted), quiet)
        else:
            show(report.summary(loaded[0][1]), report.write(loaded[0][1], folder, wanted), quiet)


def predict(
    file: options.OneProfile,
    target: options.Target = None,
    out: options.Out = Path("advisor-prediction"),
    formats: options.Formats = "html,md,json",
    quiet: options.Quiet = False,
) -> None:
    """Predict the strategies of a profile for other devices.

    What was measured on a GPU takes the place of what the model would have to guess.
    """
    from advisor import pipeline, profiles, report, settings
    from advisor.devices.catalogue import DEFAULT_TARGETS

    wanted = settings.parse_formats(formats)
    targets = settings.load_targets(target or DEFAULT_TARGETS)
    result = pipeline.conclude(profiles.load(file), targets)
    with settings.output_directory(out) as directory:
        show(report.summary(result), report.write(result, directory, wanted), quiet)
    require_figures(result)
