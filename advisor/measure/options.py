"""The options of `advisor profile`, each written once: default, limits, help, and where it can be said.

The command line, `advisor.profile` and advisor.toml take them from here;
`advisor.configuration` reads and checks them. `advisor --help` needs this module, so it imports nothing
heavy: pydantic would more than double the time that takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class Option:
    """One option. Its `name` is that of `advisor.profile`; the command line and advisor.toml have `key`."""

    name: str
    key: str
    default: Any
    help: str
    panel: str
    metavar: str | None = None
    short: tuple[str, ...] = ()
    limits: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of pydantic's `Field`: ge, le, gt, pattern."""
    give: str = ""
    """The next step after a wrong value, where limits and help do not make it plain."""
    positional: bool = False
    file: bool = False
    """advisor.toml may say it."""
    call: bool = True
    """`advisor.profile` takes it."""
    script: bool = True
    """It means something for a script, a file without @workload."""

    @property
    def repeatable(self) -> bool:
        return self.default == () or self.name in ("rules", "placement")

    @property
    def is_flag(self) -> bool:
        return self.default is False

    @property
    def range(self) -> str:
        """`1 to 1000`, `above 0`; empty without limits."""
        low, high = self.limits.get("ge"), self.limits.get("le")
        if low is None:
            above, below = (self.limits.get(limit) for limit in ("gt", "lt"))
            ends = (f"{word} {end}" for word, end in (("above", above), ("below", below)) if end is not None)
            return " and ".join(ends)
        return f"{low} or more" if high is None else f"{low} to {high}"

    @property
    def facts(self) -> str:
        """`default: 3; 1 to 1000`, as far as there is any."""
        nothing = self.is_flag or self.default in ((), "", None)
        return "; ".join(filter(None, ("" if nothing else f"default: {self.default}", self.range)))


def _option(default: Any, help: str, metavar: str | None = None, **more: Any) -> Any:
    return field(default=default, metadata={"help": help, "metavar": metavar, **more})


_file = partial(_option, panel="Workload", positional=True)
_parameter = partial(_option, panel="Workload", script=False)
_recording = partial(_option, panel="Workload", call=False)
_names = partial(_option, panel="Strategies and devices", file=True)
_gpu = partial(_option, panel="Strategies and devices")
_judging = partial(_option, panel="Objective and rules", file=True)
_conclusion = partial(_judging, script=False)
_measuring = partial(_option, panel="Measuring", file=True)
_tracing = partial(_option, panel="Tracing", call=False, script=False)
_output = partial(_option, panel="Output", call=False)
_SECONDS = {"gt": 0, "lt": 10**8, "allow_inf_nan": False}


@dataclass(frozen=True)
class Options:
    """All of them, as merged from every place that says some; help lists them in this order."""

    workload: str = _file(
        "",
        "Workload file (each of its workloads, without ::NAME), a folder of them, or any Python script that "
        "uses a GPU.",
        "FILE[::NAME]",
    )
    arguments: tuple[str, ...] = _file(
        (), "For a script (a file without @workload): its own arguments.", "[-- ARGUMENTS]"
    )
    module: bool = _recording(
        False, "For a script: run the module of that name, as `python -m` does.", short=("-m",)
    )
    frame: str = _recording(
        "",
        "For a script: the loop in this line is the frame (default: the loop that repeats the same transfers "
        "or waits).",
        "[FILE:]LINE",
        give="Give the line of a for or while of the script: 31, or of another file: camera.py:31.",
        limits={"pattern": r"^([^:]+:)?[1-9][0-9]{0,8}$"},
    )
    count_bytes: bool = _recording(
        False,
        "For a script: compare the recorded bytes with the driver's count (CUPTI). Each copy then takes 5 to "
        "10 µs more.",
    )
    tries: bool = _recording(
        False,
        "For a script: try memory changes on its lines, measure each, and write a patch of those that pay. "
        "The script runs a dozen times or more, in the current folder.",
    )
    checked: tuple[str, ...] = _recording(
        (),
        "With --try: a file that the script writes; it must stay the same with each change. Repeatable.",
        "FILE",
    )
    apply: str = _recording(
        "",
        "Change your files. With --try, without a value: apply the patch. For a workload: rewrite this "
        "function for the recommended strategy.",
        "[FILE::FUNCTION]",
    )
    parameters: tuple[str, ...] = _parameter((), "Set a parameter of the workload. Repeatable.", "NAME=VALUE")
    sweep: tuple[str, ...] = _parameter(
        (),
        "Profile each of these values: n=2**10..2**24, n=1..64:4, or n=1,2,8. Given twice: each pair.",
        "NAME=RANGE",
        call=False,
    )
    strategies: tuple[str, ...] = _names(
        (), "Run only this strategy. Repeatable. See `advisor strategies`.", "NAME", script=False
    )
    placement: Mapping[str, str] | None = _names(
        None,
        "Run a mix: use that strategy's placement for this buffer, --strategy's for the others. Repeatable.",
        "BUFFER=PLACEMENT",
        give="Write --placement table=zero-copy, once for each buffer.",
        script=False,
    )
    search: Literal["off", "auto", "exhaustive"] = _names(
        "auto",
        "Search for a faster mix of placements: off, auto (if one may gain), or exhaustive.",
        "off|auto|exhaustive",
        script=False,
    )
    targets: tuple[str, ...] = _names(
        (), "Predict for this device: a name or a TOML file. Repeatable, or names with commas.", "DEVICE"
    )
    target_os: Literal["linux", "windows", "wsl"] = _names(
        "linux", "Operating system assumed for predictions: linux, windows or wsl.", "NAME"
    )
    host: str | None = _names(
        None,
        "Copy rates of the target's host, where you know them: pinned_up=12GB/s,pageable_up=6GB/s.",
        "RATES",
    )
    gpu: int | None = _gpu(
        None, "Index of the GPU to measure (default: the first).", "NUMBER", limits={"ge": 0}
    )
    gpus: str = _gpu(
        "",
        "GPUs for a workload that runs on several, in its order: 0,1 (default: the first).",
        "NUMBERS",
        give="Give the numbers of different GPUs with commas: 0,1.",
        limits={"pattern": "^[0-9]{1,4}(,[0-9]{1,4})*$"},
        script=False,
    )
    no_gpu: bool = _gpu(False, "Ignore the GPU and predict instead.")
    objective: Literal["time", "latency-p99", "throughput", "energy", "footprint"] | None = _conclusion(
        None, "Optimize for time (default), latency-p99, throughput, energy or footprint.", "NAME"
    )
    indifference: float | None = _conclusion(
        None,
        "Treat strategies within this share of the fastest as equal: 5% (default), 1%.",
        "SHARE",
        give="Write a share between 0 and 1, such as 5% or 0.05.",
        limits={"gt": 0, "lt": 1},
    )
    memory_budget: int | None = _conclusion(
        None,
        "Recommend only strategies that fit: 2GiB, 512MiB.",
        "SIZE",
        give="Write 2GiB, 512MiB, or a number of bytes.",
    )
    rules: Mapping[str, Any] | None = _judging(
        None,
        "Set a threshold of a rule. Repeatable. See `advisor rules ID`.",
        "RULE.THRESHOLD=VALUE",
        give="Write --rule zero-copy-reread.passes=2; `advisor rules ID` lists a rule's thresholds.",
    )
    ignore: tuple[str, ...] = _judging((), "Silence this rule. Repeatable. See `advisor rules`.", "RULE")
    rounds: int = _measuring(
        3, "Minimum number of processes in the final.", "NUMBER", script=False, limits={"ge": 1, "le": 1000}
    )
    max_seconds: float = _measuring(
        60.0,
        "Time limit for the whole command; for each value of a sweep and each of several workloads. "
        "Scripts: only with --try, where the default is none.",
        "SECONDS",
        limits=_SECONDS,
    )
    timeout: float = _measuring(
        120.0, "Kill a process that takes longer. Scripts: none.", "SECONDS", limits=_SECONDS
    )
    seed: int = _measuring(
        0, "Random seed for run order and `rng`.", "NUMBER", limits={"ge": 0, "le": 2**32 - 1}, script=False
    )
    numa: str = _measuring(
        "local",
        "NUMA node for host memory: local (to the GPU), remote, or a number.",
        "NODE",
        give="Give local, remote, or the number of a node.",
        limits={"pattern": "^(local|remote|[0-9]+)$", "coerce_numbers_to_str": True},
        script=False,
    )
    allow_oversubscription: bool = _measuring(
        False, "Allow managed memory to exceed the free GPU memory.", script=False
    )
    trace: tuple[Literal["nsys"], ...] = _tracing(
        (),
        "nsys: run each strategy once more under Nsight Systems.",
        "nsys",
        give="Use --trace nsys; with --keep-nsys, Nsight Systems opens the recorded frames.",
        file=True,
    )
    nsys: Path | None = _tracing(None, "Path of nsys (default: search PATH and the usual places).", "PATH")  # noqa: RUF009
    keep_nsys: bool = _tracing(False, "Keep the .nsys-rep files. They contain your environment variables.")
    out: Path = _output(  # noqa: RUF009
        Path("advisor-report"),
        "Output directory; - writes to stdout.",
        "DIR",
        give="Give a directory; . is the working directory.",
        file=True,
    )
    formats: str = _output(
        "html,md,json", "Formats, separated by commas: html, md, json, csv.", "NAMES", file=True
    )
    save: str = _output("", "Keep the profile as a baseline, for advisor compare NAME.", "NAME")
    include_host: bool = _output(False, "Record the host and user names, hidden by default.")
    no_environment: bool = _output(
        False, "Omit details of the machine and its software, for publishing.", file=True
    )
    details: bool = _output(False, "Print the full report, not a screen of 25 lines.")
    quiet: bool = _output(False, "Print only the result: no progress, no messages.", short=("-q",), call=True)

    @property
    def chosen_gpus(self) -> tuple[int, ...]:
        return tuple(map(int, self.gpus.split(","))) if self.gpus else ()

    @property
    def first_gpu(self) -> int | None:
        return self.chosen_gpus[0] if self.gpus else self.gpu


_KEYS = {
    "tries": "try",
    "checked": "check",
    "parameters": "set",
    "strategies": "strategy",
    "targets": "target",
    "target_os": "os",
    "rules": "rule",
    "formats": "format",
}
"""Where the command line and the files have another name than Python."""
OPTIONS = {
    each.name: Option(
        each.name, _KEYS.get(each.name, each.name.replace("_", "-")), each.default, **each.metadata
    )
    for each in fields(Options)
}
"""By name, in the order of help."""
