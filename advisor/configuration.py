"""The options of a run: of the command line or `advisor.profile`, `advisor.toml`, and pyproject.toml.

`advisor.measure.options` lists them; pydantic reads each value, and a wrong one is refused in one shape of
message. Each option counts by itself: what is given directly goes before
advisor.toml, and that before `[tool.advisor]` of pyproject.toml. The files are those of the nearest
directory, from the working directory upwards, that has either (as ruff looks for its own); a pyproject.toml
without `[tool.advisor]` does not count.
"""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from numbers import Real
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from advisor import units
from advisor.devices import host_rates
from advisor.errors import FileProblem, UsageError, nearest
from advisor.measure.backends import Machine, choose_backend
from advisor.measure.jobs import Settings
from advisor.measure.options import OPTIONS, Options
from advisor.profiles.conclusions import Preferences
from advisor.profiles.files import read_toml
from advisor.rules.registry import by_id, thresholds
from advisor.strategies import mixes, registry
from advisor.strategies.backend import BackendName
from advisor.workloads.outline import file_and_name, module_file
from advisor.workloads.parameters import parse_assignments

CALL = "advisor.profile:"


@dataclass(frozen=True)
class OptionSource:
    """The options given in one place. `where` names it in messages; "" is the command line."""

    where: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)

    def called(self, name: str) -> str:
        """The option's name there: `--max-seconds`, or `advisor.toml: max-seconds`."""
        key = OPTIONS[name].key
        return f"{self.where} {name if self.where == CALL else key}" if self.where else f"--{key}"

    def written(self, name: str, value: object) -> str:
        """An option and its value as written there: `--rounds 0`, or `advisor.profile: rounds=0`."""
        if self.where:
            return f"{self.called(name)}{'=' if self.where == CALL else ' '}{value!r}"
        return f"{self.called(name)} {shlex.quote(str(value))}" if value != "" else self.called(name)


def read(place: OptionSource, name: str, value: Any) -> Any:
    """The value as `Options` has it. Raises `UsageError` for one of another type or out of range."""
    option, kind = OPTIONS[name], _TYPES[name]
    if option.positional:  # names of files and a script's words need not be UTF-8
        return value if isinstance(value, str) else tuple(value)
    if get_origin(kind) is tuple and isinstance(value, str):
        value = (value,)
    converted = value
    percent = isinstance(value, str) and value.strip().endswith("%")
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if option.range and place.where and not percent and not is_number:
        converted = object()  # other text is a number on the command line alone, and true is none anywhere
    limited: Any = Annotated[kind, Field(**option.limits)]
    try:
        return TypeAdapter[Any](limited).validate_python(converted)
    except ValidationError as problem:
        error, choices = problem.errors()[0], _choices(kind)
    inside = error["type"] == "string_type" and error["loc"]
    kind_of_error = str(get_origin(kind).__name__ if inside else error["type"])
    complaint = _COMPLAINTS.get(kind_of_error.partition("_")[0]) or str(error["ctx"]["error"])
    wrong = value if place.where else error["input"]
    message = f"{place.written(name, wrong)} {complaint}{nearest(str(wrong), choices)}"
    unit = "seconds " if option.metavar == "SECONDS" else ""
    default = f"; the default is {option.default}" if option.default is not None else ""
    steps = {
        option.give: bool(option.give),
        f"Choose from {', '.join(choices)}.": bool(choices),
        f"Give one name, or a list of them. {option.help}": option.repeatable,
        f"Give {unit}{option.range}{default}.": bool(option.range),
    }
    raise UsageError(message, next_step=next((step for step, fits in steps.items() if fits), option.help))


def _share(value: object) -> object:
    """5% is 0.05."""
    if isinstance(value, str) and value.strip().endswith("%"):
        with suppress(ValueError):
            return float(value.strip()[:-1]) / 100
    return value


def _size(value: object) -> int:
    with suppress(ValueError):
        if isinstance(value, (int, str)) and not isinstance(value, bool):
            return units.parse_size(str(value))
    raise ValueError("is not a size above 0")


def _flat(table: object) -> dict[Any, object]:
    """`[rule.zero-copy-reread] passes = 2` as `zero-copy-reread.passes`, which in quotes is the same."""
    if not isinstance(table, Mapping) or not all(isinstance(name, str) for name in table):
        raise ValueError("is not a table of thresholds")
    flat: dict[Any, object] = {}
    for name, value in table.items():
        inner = value if isinstance(value, Mapping) else {}
        flat |= {f"{name}.{key}": number for key, number in inner.items()} or {name: value}
    return flat


def _not_empty(value: object) -> object:
    """An empty shell variable is not a directory, although Path("") is the working directory."""
    if not str(value).strip():
        raise ValueError("is empty")
    if "\0" in str(value):
        raise ValueError("has a null character, which no path can have")
    return value


_TYPES = get_type_hints(Options) | {
    "memory_budget": Annotated[int, BeforeValidator(_size)],
    "indifference": Annotated[float, BeforeValidator(_share)],
    "placement": dict[str, str],
    "rules": Annotated[dict[str, Any], BeforeValidator(_flat)],
    "out": Annotated[Path, BeforeValidator(_not_empty)],
}
_COMPLAINTS = {
    **dict.fromkeys(("greater", "less", "finite"), "is out of range"),
    **dict.fromkeys(("literal", "string"), "is not known"),
    "int": "is not a whole number",
    "float": "is not a number",
    "bool": "is not true or false",
    "tuple": "is not a list of names",
    "dict": "is not a table of buffers with their placements",
    "path": "is not a path",
}
"""Messages for pydantic's errors, by the first word of their type."""


def _choices(kind: Any) -> tuple[str, ...]:
    if get_origin(kind) is Literal:
        return get_args(kind)
    return tuple(choice for inner in get_args(kind) for choice in _choices(inner))


FILE = "advisor.toml"
FORMATS = ("html", "md", "json", "csv")
KEYS = {option.key: name for name, option in OPTIONS.items() if option.file}


def command_line(**options: Any) -> OptionSource:
    """Options of the command line. Raises `UsageError` for a wrong value."""
    values = {name: value for name, value in options.items() if value not in (None, False, [])}
    values |= {name: _pairs(name, values[name]) for name in ("rules", "placement") if name in values}
    return _read("", values)


def arguments(**options: object) -> OptionSource:
    """Arguments of `advisor.profile`. Raises `UsageError` for a wrong value, TypeError for a wrong name."""
    if unknown := sorted(options.keys() - OPTIONS.keys()):
        raise TypeError(f"got an unexpected keyword argument {unknown[0]!r}")
    return _read(CALL, {name: value for name, value in options.items() if value is not None})


def _pairs(name: str, words: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for word in words:
        key, value = (part.strip() for part in word.partition("=")[::2])
        problem = f"names {key!r} twice" if key in pairs else ""
        if problem or not (key and value):
            wrong = f"--{OPTIONS[name].key} {problem or f'{word!r} is not {OPTIONS[name].metavar}'}"
            raise UsageError(wrong, next_step=OPTIONS[name].give)
        pairs[key] = value
    return pairs


def places(
    source: OptionSource, directory: Path | None = None, *, script: bool = False
) -> tuple[OptionSource, ...]:
    """The configuration files, looked for from `directory` up, then the options given directly; a later
    source overrides an earlier one.

    For a script, options in files that do not apply to one are left out. Raises `UsageError` for a wrong
    value, or an option given directly that does not apply; `FileProblem` for a file that cannot be read.
    """
    of_files = tuple(files(directory or Path.cwd()))
    if not script:
        return (*of_files, source)
    for name in source.values:
        if not OPTIONS[name].script:
            only = "applies only to workloads, and this file has no @workload: it runs as a script"
            step = "Omit it, or write a workload: advisor new mine.py."
            raise UsageError(f"{source.called(name)} {only}", next_step=step)
    if "max_seconds" in source.values and not source.values.get("tries"):
        limit = source.called("max_seconds")
        raise UsageError(f"{limit} has no effect on a script without --try", next_step="Add --try.")
    for_scripts = [
        replace(file, values={name: v for name, v in file.values.items() if OPTIONS[name].script})
        for file in of_files
    ]
    return (*for_scripts, source)


def merged(sources: Sequence[OptionSource]) -> Options:
    """One value for each option: the last place wins; thresholds and silenced rules add up."""
    values = {name: value for source in sources for name, value in source.values.items()}
    values["ignore"] = tuple(rule for source in sources for rule in source.values.get("ignore", ()))
    limits = (source.values.get("rules", {}) for source in sources)
    values["rules"] = {name: limit for each in limits for name, limit in each.items()}
    return Options(**values)


def preferences(sources: Sequence[OptionSource], recorded: Preferences | None = None) -> Preferences:
    options, before = merged(sources), recorded or Preferences()
    silenced = {
        rule: source.where.rstrip(":") or "--ignore"
        for source in reversed(sources)
        for rule in source.values.get("ignore", ())
    }
    return Preferences(
        objective=options.objective or before.objective,
        indifference=options.indifference or before.indifference,
        memory_budget_bytes=options.memory_budget or before.memory_budget_bytes,
        thresholds={**before.thresholds, **(options.rules or {})},
        ignored={**silenced, **before.ignored},
    )


def files(directory: Path) -> Iterator[OptionSource]:
    """Options in the nearest directory with a configuration, pyproject.toml before advisor.toml."""
    for folder in (directory.resolve(), *directory.resolve().parents):
        pyproject, own = folder / "pyproject.toml", folder / FILE
        tool = _toml(pyproject).get("tool", {}) if pyproject.is_file() else {}
        section = tool.get("advisor") if isinstance(tool, dict) else None
        if section is not None:
            yield _options_in(section, "pyproject.toml: [tool.advisor]", folder)
        has_own = os.path.lexists(own)  # a FIFO or a dangling link too: reading it raises
        if has_own:
            yield _options_in(_toml(own), f"{FILE}:", folder)
        if section is not None or has_own:
            return


def _toml(path: Path) -> dict[str, Any]:
    try:
        return read_toml(path)
    except (OSError, ValueError) as problem:
        step = "It must be a valid TOML file. Fix or remove it."
        raise FileProblem(f"{path} cannot be read: {problem}", next_step=step) from None


def _options_in(table: object, where: str, folder: Path) -> OptionSource:
    if not isinstance(table, dict):
        raise UsageError(f"{where} is not a table", next_step=f"Its keys are {', '.join(KEYS)}.")
    if unknown := [f"{key!r}{nearest(key, KEYS)}" for key in table if key not in KEYS]:
        wrong = f"{where} unknown {'key' if len(unknown) == 1 else 'keys'} {', '.join(unknown)}"
        raise UsageError(wrong, next_step=f"Choose from {', '.join(KEYS)}.")
    values = dict(_read(where, {KEYS[key]: value for key, value in table.items()}).values)

    def relative(path: Path | str) -> str:
        return str(path) if Path(path).is_absolute() else os.path.relpath(folder / path)

    if "out" in values and str(values["out"]) != "-":
        values["out"] = Path(relative(values["out"]))
    if "targets" in values:
        values["targets"] = tuple(relative(t) if t.endswith(".toml") else t for t in values["targets"])
    return OptionSource(where, values)


def _read(where: str, options: Mapping[str, Any]) -> OptionSource:
    place = OptionSource(where)
    values = {name: read(place, name, value) for name, value in options.items()}
    if "rules" in values:
        values["rules"] = thresholds(values["rules"], place.called("rules"))
    if "placement" in values:
        mixes.require_placements(values["placement"], place.called("placement"))
    for rule_id in values.get("ignore", ()):
        by_id(rule_id, place.called("ignore"))
    return OptionSource(where, values)


def settings_here(
    sources: Sequence[OptionSource],
    tell: Callable[[str], None],
    *,
    command: str,
    script: bool = False,
    machine: Machine | None = None,
) -> Settings:
    """Settings of a run on this machine. `tell` is called, unless the run is quiet, if there is a GPU that
    cannot be used. Raises as `make_settings`, and then as `choose_backend`."""
    settings = make_settings(sources, backend="cpu", command=command, script=script)
    options, here = settings.options, machine or Machine()
    if script:  # it needs its own library alone
        here = replace(here, cupy=lambda: True)
    say = (lambda _: None) if options.quiet else tell
    if choose_backend(options.first_gpu, options.no_gpu, say, machine=here) == "cpu":
        return settings
    return replace(settings, backend="cuda", targets_under=None)


def make_settings(
    sources: Sequence[OptionSource], *, backend: BackendName, command: str = "", script: bool = False
) -> Settings:
    """Settings of a run. Without a GPU the default catalogue devices are predicted when no target is named.

    Raises `UsageError`, or `FileProblem` for a target's file.
    """
    options, given = merged(sources), {name for source in sources for name in source.values}
    file, name = (module_file(options.workload), None) if options.module else file_and_name(options.workload)
    if (options.nsys or options.keep_nsys) and "nsys" not in options.trace:
        option = "--nsys" if options.nsys else "--keep-nsys"
        raise UsageError(f"{option} has no effect without --trace nsys", next_step="Add --trace nsys.")
    # Strategies that were named are not searched for mixes unless --search asks.
    searched = "search" in given or not (options.strategies or options.arguments)
    with _naming_source(sources, "targets"):
        targets = host_rates.load_targets(options.targets, options.target_os, options.host)
    if options.chosen_gpus and options.gpu is not None:
        raise UsageError("--gpu and --gpus contradict each other", next_step="Omit --gpu.")
    if len(set(options.chosen_gpus)) < len(options.chosen_gpus):
        wrong = f"--gpus {options.gpus} names a GPU twice"
        raise UsageError(wrong, next_step="Give the numbers of different GPUs: 0,1.")
    with _naming_source(sources, "strategies"):
        chosen: tuple[registry.Strategy, ...] = registry.choose(options.strategies)
    if options.placement:
        chosen += mixes.requested(options.placement, chosen if options.strategies else chosen[:1])
    return Settings(
        options=options,
        file=file,
        workload=name,
        arguments=options.arguments if script else None,
        module=options.workload if options.module else "",
        assignments=parse_assignments(options.parameters),
        backend=backend,
        gpu=options.first_gpu or 0,
        gpus=options.chosen_gpus,
        strategies=chosen,
        targets=targets,
        targets_under=options.target_os if backend == "cpu" and not options.targets else None,
        trial_seconds=options.max_seconds if "max_seconds" in given else math.inf,
        timeout=options.timeout if not script or "timeout" in given else math.inf,
        command=command,
        search=options.search if searched else "off",
        preferences=preferences(sources),
    )


@contextmanager
def _naming_source(sources: Sequence[OptionSource], name: str) -> Iterator[None]:
    """The error for an unknown name says which file has it."""
    where = next((source.where for source in reversed(sources) if name in source.values), "")
    try:
        yield
    except UsageError as unknown:
        raise UsageError(f"{where} {unknown.message}".strip(), next_step=unknown.next_step) from None


def parse_formats(text: str) -> tuple[str, ...]:
    """`html,md,json` as names. Raises `UsageError` for an unknown one."""
    names = tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))
    unknown = [name for name in names if name not in FORMATS]
    if unknown or not names:
        wrong = f"there is no format {', '.join(unknown) or repr(text)}"
        raise UsageError(wrong, next_step=f"Choose from {', '.join(FORMATS)}, separated by commas.")
    return names
