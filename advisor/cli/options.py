"""The options of the command line, each with its help. `advisor profile` has those of `measure.options`."""

from __future__ import annotations

import math
from collections.abc import Callable
from inspect import Parameter, Signature, signature
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand

from advisor.errors import UsageError
from advisor.measure.options import OPTIONS, Option

THE_PATCH = "patch"
"""Meaning of --apply without a value."""
Command = TypeVar("Command", bound=Callable[..., None])


def of_profile(name: str, **other: Any) -> Any:
    """An option of `advisor profile` for another command, which may change its help."""
    option = OPTIONS[name]
    facts = {"metavar": option.metavar, "help": option.help, **other}
    return typer.Option(f"--{option.key}", *option.short, rich_help_panel=option.panel, **facts)


def takes(*names: str) -> Callable[[Command], Command]:
    """Adds these options of `advisor profile` to a command as `**given`; `configuration` reads the texts."""

    def add(command: Command) -> Command:
        own = signature(command, eval_str=True).parameters.values()
        parameters = [parameter for parameter in own if parameter.kind is not Parameter.VAR_KEYWORD]
        command.__signature__ = Signature([*parameters, *(_parameter(OPTIONS[name]) for name in names)])  # type: ignore[attr-defined]
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
    """Help in plain text, with the options under their panels' titles."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            title = (
                getattr(parameter, "rich_help_panel", None) or f"{parameter.param_type_name}s".capitalize()
            )
            if record := parameter.get_help_record(ctx):
                names, text = record
                panels.setdefault(title, []).append((names, text))
        for title, records in panels.items():
            with formatter.section(title):
                formatter.write_dl(records)


class ProfileCommand(Grouped):
    """Suggests the -- that a script's own options need."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses as typer does, with a hint about scripts where an option is unknown.

        --apply may stand without a value.
        """
        end = args.index("--") if "--" in args else len(args)
        pairs = pairwise((*args[:end], ""))
        completed = [
            f"{one}={THE_PATCH}" if one == "--apply" and "::" not in following else one
            for one, following in pairs
        ]
        try:
            return super().parse_args(ctx, [*completed, *args[end:]])
        except Exception as problem:
            if type(problem).__name__ == "NoSuchOption" and hasattr(problem, "message"):
                problem.message = f"{problem.message} (Put the script's own arguments after --.)"
            raise


def _out(folder: str | Path, give: str = OPTIONS["out"].give) -> Path:
    """An empty variable of a shell is no directory, though a path of it is the working one."""
    if not str(folder).strip():
        raise UsageError("--out is empty", next_step=give)
    return Path(folder)


def number(option: str, low: int, high: float, *, whole: bool = False) -> Callable[[Any], float]:
    """Makes a parser of typer's for a number within its ends, which raises `UsageError`."""

    def parse(text: Any) -> float:
        complaint = "is out of range"
        try:
            if low <= (value := int(text) if whole else float(text)) <= high:
                return value
        except ValueError:
            complaint = "is not a whole number" if whole else "is not a number"
        ends = f"{low} or more" if high == math.inf else f"{low} to {high}"
        raise UsageError(f"{option} {text} {complaint}", next_step=f"Give {ends}.")

    return parse


def _argument(metavar: str, help: str) -> Any:
    return typer.Argument(metavar=metavar, help=help)


def _named(metavar: str, help: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, metavar=metavar, help=help, **more)


def _flag(name: str, help: str) -> Any:
    return typer.Option(name, help=help)


_Text = str | None
_File = Path | None
_PROFILES = "A profile.json or its directory, also that of a sweep, a fleet or several workloads."
Profiles = Annotated[list[Path], _argument("PROFILE...", _PROFILES)]
OneProfile = Annotated[Path, _argument("PROFILE", "A profile.json, or its directory.")]
_BASE = "The earlier profile.json, folder, baseline or nsys report; with --run a workload: FILE[::NAME]."
BaseProfile = Annotated[Path, _argument("BASE", _BASE)]
HeadProfile = Annotated[_File, _argument("HEAD", "The new profile.json or directory; with --run a workload.")]
_AGAINST = (
    "With --run and one file: the git revision to use as BASE (default: the merge base with the remote's "
    "default branch). HEAD is the working tree."
)
Against = Annotated[_Text, _named("REV", _AGAINST)]
History = Annotated[Path, _argument("DIR", "The directory that holds the profiles.")]
Rule = Annotated[_Text, _argument("ID", "Explain this rule.")]
Device = Annotated[str, _argument("NAME", "A device's name, or a TOML file.")]
TraceFile = Annotated[Path, _argument("FILE", "A .nsys-rep of any program, or its .sqlite export.")]
_FRAME = "NVTX range that is one frame (default: what repeats, if anything does)."
Frame = Annotated[_Text, _named("NAME", _FRAME, "--frame")]
_TRACE_FAIL_IF = (
    "Gate: the id of a rule that must not give advice, advice for all of them, or ceiling=10% for what "
    "memory may change. Repeatable."
)
TraceFailIf = Annotated[list[str] | None, _named("GATE", _TRACE_FAIL_IF, "--fail-if")]
_TRACE_OUT = "Write the page to this directory; - writes to stdout."
TraceOut = Annotated[_File, of_profile("out", parser=_out, help=_TRACE_OUT)]
_TRACE_FORMATS = "Formats with --out, separated by commas: html, md, json, csv (default: html,md)."
TraceFormats = Annotated[_Text, of_profile("formats", help=_TRACE_FORMATS)]
NewFile = Annotated[Path, _argument("FILE", "The file to write; it ends in .py.")]

_COMPARED = (
    "Compare only this strategy; with --run, compare it besides the baseline and the recommended one. "
    "Repeatable."
)
Compared = Annotated[list[str] | None, of_profile("strategies", help=_COMPARED)]
_FAIL_IF = (
    "Gate: slower=5%, footprint=+10%, recommendation-changes, results-differ, crossing=+10%. Repeatable."
)
FailIf = Annotated[list[str] | None, _named("GATE", _FAIL_IF)]
Gpu = Annotated[int | None, of_profile("gpu", parser=number("--gpu", 0, math.inf, whole=True))]
Nsys = Annotated[_File, of_profile("nsys")]
Out = Annotated[Path, of_profile("out", parser=_out)]
_OUT_BESIDE = "Output directory (default: the profile's directory); - writes to stdout."
OutBeside = Annotated[_File, of_profile("out", parser=_out, help=_OUT_BESIDE)]
_ENTRY_OUT = "File to write the entry to; printed if omitted."
_TOML = "Give a file that ends in .toml."
EntryOut = Annotated[_File, _named("FILE.toml", _ENTRY_OUT, "--out", parser=lambda f: _out(f, _TOML))]
Formats = Annotated[str, of_profile("formats")]
NoEnvironment = Annotated[bool, of_profile("no_environment")]
Details = Annotated[bool, of_profile("details")]
Quiet = Annotated[bool, of_profile("quiet")]
Base = Annotated[_Text, _named("DEVICE", "Without a GPU: the card that this CPU hosts.")]
HostOnly = Annotated[bool, _flag("--host", "Measure only the CPU; needs no GPU.")]
Card = Annotated[_Text, _named("DEVICE", "The card, where the output does not name it.", "--base")]
BandwidthOutput = Annotated[Path, typer.Argument(metavar="FILE", help="What the program printed.")]
EntryName = Annotated[_Text, typer.Option("--name", help="The device's name in the entry.")]
_FROM_TRACE = "Outline it from a .nsys-rep or its .sqlite export."
FromTrace = Annotated[_File, _named("REPORT", _FROM_TRACE, "--from-trace")]
Like = Annotated[_Text, _named("WORKLOAD", "Copy this example, such as vector_add.")]
_FROM = "Write it from one call of this function, or of the code around a line."
From = Annotated[_Text, _named("FILE::FUNCTION|FILE:LINE", _FROM, "--from")]
_SCRIPT = "With --from: the script's own arguments."
ScriptArguments = Annotated[list[str] | None, _argument("[-- ARGUMENTS]", _SCRIPT)]

Run = Annotated[bool, _flag("--run", "Run two versions of a workload side by side and compare them.")]
Strict = Annotated[bool, _flag("--strict", "Treat inconclusive gates as failed.")]
Anyway = Annotated[
    bool, _flag("--anyway", "Compare and judge gates even if workload, device, parameters or results differ.")
]
Json = Annotated[bool, _flag("--json", "Print JSON.")]
Force = Annotated[bool, _flag("--force", "Overwrite the output file.")]
ForceNew = Annotated[bool, _flag("--force", "Overwrite the file.")]
Version = Annotated[bool, _flag("--version", "Print the version and exit.")]
