"""The options of the command line, each with its help; the commands say which they take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from advisor.errors import UsageError


def _out(given: str | Path) -> Path:
    """An empty variable of a shell is no directory, though a path of it is the working one."""
    if not str(given).strip():
        raise UsageError("--out is empty", next_step="Name where it goes; . is the working directory.")
    return Path(given)


Workload = Annotated[
    str, typer.Argument(metavar="FILE[::NAME]", help="The workload file, or a CuPy script without one.")
]
Profiles = Annotated[
    list[Path], typer.Argument(metavar="PROFILE...", help="A profile.json, or several of a sweep.")
]
OneProfile = Annotated[Path, typer.Argument(metavar="PROFILE", help="A profile.json.")]
BaseProfile = Annotated[Path, typer.Argument(metavar="BASE", help="The profile.json of before.")]
HeadProfile = Annotated[Path, typer.Argument(metavar="HEAD", help="The profile.json of now.")]
Rule = Annotated[str | None, typer.Argument(metavar="ID", help="Explain this rule.")]
Device = Annotated[str, typer.Argument(metavar="NAME", help="A device's name, or a TOML file.")]

Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the workload; repeatable."),
]
Sweep = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=RANGE", help="Each of these values: n=2**10..2**24, n=1..64:4, or n=1,2,8."),
]
Strategy = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Only this strategy; repeatable. See `advisor strategies`."),
]
Compared = Annotated[
    list[str] | None,
    typer.Option("--strategy", metavar="NAME", help="Compare and judge this one only; repeatable."),
]
FailIf = Annotated[
    list[str] | None,
    typer.Option(metavar="GATE", help="slower=5%, footprint=+10% or recommendation-changes; repeatable."),
]
Strict = Annotated[bool, typer.Option("--strict", help="A gate that is inconclusive fails too.")]
Anyway = Annotated[
    bool, typer.Option("--anyway", help="Compare or judge though workload, device or parameters differ.")
]
Target = Annotated[
    list[str] | None,
    typer.Option(metavar="DEVICE", help="Predict for this device; repeatable. A name or a TOML file."),
]
Threshold = Annotated[
    list[str] | None,
    typer.Option(
        "--rule",
        metavar="RULE.THRESHOLD=VALUE",
        help="A rule's threshold; repeatable. See `advisor rules ID`.",
    ),
]
Ignore = Annotated[
    list[str] | None, typer.Option(metavar="RULE", help="Silence this rule; repeatable. See `advisor rules`.")
]
Objective = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="What to recommend by: time (the default), footprint or throughput."),
]
MemoryBudget = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Recommend nothing that needs more memory: 2GiB, 512MiB."),
]
Gpu = Annotated[int | None, typer.Option(min=0, help="Which GPU; the first where none is given.")]
NoGpu = Annotated[bool, typer.Option("--no-gpu", help="Use the CPU alone: profile predicts.")]
Rounds = Annotated[int, typer.Option(help="Processes per strategy.")]
MaxSeconds = Annotated[float, typer.Option(help="Sampling time per strategy, over all rounds.")]
Timeout = Annotated[float, typer.Option(help="Seconds after which a process is ended.")]
Seed = Annotated[int, typer.Option(min=0, help="Of the order of runs and of `rng`.")]
Numa = Annotated[
    str, typer.Option(metavar="NODE", help="Node of pinned memory: local (to the GPU), remote, or a number.")
]
Oversubscribe = Annotated[
    bool, typer.Option("--allow-oversubscription", help="Managed memory beyond what the GPU has free.")
]
Trace = Annotated[
    list[str] | None,
    typer.Option(
        metavar="nsys|chrome",
        help="nsys: run each strategy once more under Nsight Systems. "
        "chrome: write the frames for Perfetto and chrome://tracing. Repeatable.",
    ),
]
Nsys = Annotated[Path | None, typer.Option(metavar="PATH", help="The nsys to use; searched for without it.")]
KeepNsys = Annotated[
    bool,
    typer.Option("--keep-nsys", help="Keep the .nsys-rep files; they hold your environment variables."),
]
TraceFile = Annotated[Path, typer.Argument(metavar="FILE", help="A .nsys-rep, or its .sqlite export.")]
Json = Annotated[bool, typer.Option("--json", help="As JSON.")]
Out = Annotated[Path, typer.Option(parser=_out, metavar="DIR", help="Where the report goes; - is stdout.")]
OutBeside = Annotated[
    Path | None,
    typer.Option(parser=_out, metavar="DIR", help="Where it goes; beside the profile; - is stdout."),
]
PageFormats = Annotated[str, typer.Option("--format", help="Of html and md, separated by commas.")]
Formats = Annotated[str, typer.Option("--format", help="Of html, md and json, separated by commas.")]
IncludeHost = Annotated[
    bool, typer.Option("--include-host", help="Let the profile name this host; names are hidden without it.")
]
NoEnvironment = Annotated[
    bool, typer.Option("--no-environment", help="Leave out the machine and its software, for publishing.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no messages, results only.")]

EntryOut = Annotated[
    Path | None,
    typer.Option("--out", parser=_out, metavar="FILE.toml", help="Where the entry goes; printed without it."),
]
Base = Annotated[
    str | None, typer.Option(metavar="DEVICE", help="Without a GPU: the card that this CPU is to host.")
]
EntryName = Annotated[str | None, typer.Option("--name", help="The device's name in the entry.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the file of --out.")]
NewFile = Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; it ends in .py.")]
Like = Annotated[str | None, typer.Option(metavar="WORKLOAD", help="A copy of this example, vector_add say.")]
ForceNew = Annotated[bool, typer.Option("--force", help="Overwrite the file.")]
ScriptArguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[-- ARGUMENTS]", help="For a script, a file without @workload: its own arguments."
    ),
]
Version = Annotated[bool, typer.Option("--version", help="Print the version and exit.")]
