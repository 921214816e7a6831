"""The options of the command line, each with its help. `advisor profile` has those of `measure.options`."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand

from advisor.errors import UsageError
from advisor.measure.options import OPTIONS, Option

Command = TypeVar("Command", bound=Callable[..., None])


def of_profile(name: str, **other: Any) -> Any:
    """An option of `advisor profile` for any command, which may explain it otherwise."""
    option = OPTIONS[name]
    told = {"metavar": option.metavar, "help": option.help, **other}
    return typer.Option(f"--{option.key}", *option.short, rich_help_panel=option.panel, **told)


def takes(*names: str) -> Callable[[Command], Command]:
    """Gives a command these options of `advisor profile` for its `**given`: text, which one reader checks."""

    def add(command: Command) -> Command:
        own = signature(command, eval_str=True).parameters.values()
        kept = [parameter for parameter in own if parameter.kind is not Parameter.VAR_KEYWORD]
        command.__signature__ = Signature([*kept, *(_parameter(OPTIONS[name]) for name in names)])  # type: ignore[attr-defined]
        return command

    return add


def _parameter(option: Option) -> Parameter:
    kind: Any = bool if option.is_flag else list[str] | None if option.repeatable else str | None
    default: Any = False if option.is_flag else None
    facts = f"  [{option.facts}]" if option.facts else ""
    info = of_profile(option.name, help=option.help + facts)
    if option.positional:
        info = typer.Argument(metavar=option.metavar, help=option.help, rich_help_panel=option.panel)
    if option.name == "workload":
        kind, default = str, Parameter.empty
    return Parameter(option.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info])


class Grouped(TyperCommand):
    """Lists the options by what they are about, as typer does with Rich, in plain text."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The panels in the order of their first options."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            title = (
                getattr(parameter, "rich_help_panel", None) or f"{parameter.param_type_name}s".capitalize()
            )
            if record := parameter.get_help_record(ctx):
                panels.setdefault(title, []).append(record)
        for title, records in panels.items():
            with formatter.section(title):
                formatter.write_dl(records)


class ProfileCommand(Grouped):
    """Tells who forgot the -- before a script's own options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses as typer does, with a hint about scripts where an option is unknown."""
        try:
            return super().parse_args(ctx, args)
        except Exception as problem:
            if type(problem).__name__ == "NoSuchOption" and hasattr(problem, "message"):
                problem.message = f"{problem.message} (Put the script's own arguments after --.)"
            raise


def _out(given: str | Path) -> Path:
    """An empty variable of a shell is no directory, though a path of it is the working one."""
    if not str(given).strip():
        raise UsageError("--out is empty", next_step=OPTIONS["out"].give)
    return Path(given)


Profiles = Annotated[
    list[Path],
    typer.Argument(metavar="PROFILE...", help="A profile.json or its directory; several of a sweep."),
]
OneProfile = Annotated[Path, typer.Argument(metavar="PROFILE", help="A profile.json, or its directory.")]
BaseProfile = Annotated[
    Path,
    typer.Argument(
        metavar="BASE", help="The earlier profile.json or directory; with --run a workload: FILE[::NAME]."
    ),
]
HeadProfile = Annotated[
    Path | None,
    typer.Argument(metavar="HEAD", help="The new profile.json or directory; with --run a workload."),
]
Run = Annotated[
    bool,
    typer.Option("--run", help="Run two versions of a workload side by side and compare them."),
]
Against = Annotated[
    str | None,
    typer.Option(
        metavar="REV",
        help="With --run and one file: the git revision to use as BASE (default: the merge base with the "
        "remote's default branch). HEAD is the working tree.",
    ),
]
History = Annotated[Path, typer.Argument(metavar="DIR", help="The directory that holds the profiles.")]
Rule = Annotated[str | None, typer.Argument(metavar="ID", help="Explain this rule.")]
Device = Annotated[str, typer.Argument(metavar="NAME", help="A device's name, or a TOML file.")]

Compared = Annotated[
    list[str] | None,
    of_profile(
        "strategies",
        help="Compare only this strategy; with --run, compare it besides the baseline and the recommended "
        "one. Repeatable.",
    ),
]
FailIf = Annotated[
    list[str] | None,
    typer.Option(
        metavar="GATE", help="Gate: slower=5%, footprint=+10% or recommendation-changes. Repeatable."
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Treat inconclusive gates as failed.")]
Anyway = Annotated[
    bool, typer.Option("--anyway", help="Compare even if workload, device or parameters differ.")
]
Gpu = Annotated[int | None, of_profile("gpu", min=0)]
NoGpu = Annotated[bool, of_profile("no_gpu", help="Ignore the GPU and measure only the CPU.")]
Nsys = Annotated[Path | None, of_profile("nsys")]
TraceFile = Annotated[Path, typer.Argument(metavar="FILE", help="A .nsys-rep, or its .sqlite export.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Out = Annotated[Path, of_profile("out", parser=_out)]
OutBeside = Annotated[
    Path | None,
    of_profile(
        "out", parser=_out, help="Output directory (default: the profile's directory); - writes to stdout."
    ),
]
PageFormats = Annotated[str, of_profile("formats", help="html, md, or both separated by a comma.")]
Formats = Annotated[str, of_profile("formats")]
NoEnvironment = Annotated[bool, of_profile("no_environment")]
Details = Annotated[bool, of_profile("details")]
Quiet = Annotated[bool, of_profile("quiet")]

EntryOut = Annotated[
    Path | None,
    typer.Option(
        "--out", parser=_out, metavar="FILE.toml", help="File to write the entry to; printed if omitted."
    ),
]
Base = Annotated[
    str | None,
    typer.Option(metavar="DEVICE", help="Without a GPU: the card that this CPU hosts."),
]
EntryName = Annotated[str | None, typer.Option("--name", help="The device's name in the entry.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output file.")]
NewFile = Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; it ends in .py.")]
Like = Annotated[
    str | None,
    typer.Option(metavar="WORKLOAD", help="Copy this example, such as vector_add."),
]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="FILE::FUNCTION", help="Write it from one call of this function."),
]
ForceNew = Annotated[bool, typer.Option("--force", help="Overwrite the file.")]
Version = Annotated[bool, typer.Option("--version", help="Print the version and exit.")]
