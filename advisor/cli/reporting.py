"""`advisor report` and `advisor predict`: what is made of saved profiles."""

from __future__ import annotations

from pathlib import Path

from advisor.cli import options
from advisor.cli.console import require_figures, show


def report(
    files: options.Profiles,
    rule: options.Threshold = None,
    ignore: options.Ignore = None,
    objective: options.Objective = None,
    memory_budget: options.MemoryBudget = None,
    out: options.OutBeside = None,
    formats: options.Formats = "html,md",
    quiet: options.Quiet = False,
) -> None:
    """Render the report of a profile again.

    Several profiles of one workload on one device that differ in one parameter give the page of a sweep.
    Advice and verdict are made again where other preferences than the recorded ones are given.
    """
    from advisor import configuration, pipeline, profiles, report, series, settings

    wanted = settings.parse_formats(formats)
    said = configuration.command_line(rule or (), ignore or (), objective, memory_budget)
    loaded = [(file, profiles.load(file)) for file in files]
    loaded = [
        (file, pipeline.conclude_again(made, configuration.preferences(said, recorded=made.preferences)))
        for file, made in loaded
    ]
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
    rule: options.Threshold = None,
    ignore: options.Ignore = None,
    objective: options.Objective = None,
    memory_budget: options.MemoryBudget = None,
    out: options.Out = Path("advisor-prediction"),
    formats: options.Formats = "html,md,json",
    quiet: options.Quiet = False,
) -> None:
    """Predict the strategies of a profile for other devices.

    What was measured on a GPU takes the place of what the model would have to guess.
    """
    from advisor import configuration, pipeline, profiles, report, settings
    from advisor.devices.catalogue import DEFAULT_TARGETS

    wanted = settings.parse_formats(formats)
    targets = settings.load_targets(target or DEFAULT_TARGETS)
    said = configuration.command_line(rule or (), ignore or (), objective, memory_budget)
    made = profiles.load(file)
    wanted_by = configuration.preferences(said, recorded=made.preferences)
    result = pipeline.conclude(made.model_copy(update={"preferences": wanted_by}), targets)
    with settings.output_directory(out) as directory:
        show(report.summary(result), report.write(result, directory, wanted), quiet)
    require_figures(result)
