"""The text of a workload that calls a function as it was called once: see observed.py."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from advisor.measure.observed import Argument, Observed
from advisor.workloads.starters import function_name

_WIDTH = 90
_EVERY_FRAME = "Every frame brings the inputs of that call; what stays (weights) belongs into setup=[...]."
_MODES = {"in": "In", "out": "Out", "inout": "InOut"}


def workload_text(file: Path, source: Path, function: str, call: Observed, inputs: Path) -> str:
    """A workload for `file` whose device stage calls `function` of `source`; `inputs` is an .npz file."""
    arrays = [a for a in call.arguments if a.kind == "array"]
    values = [a for a in call.arguments if a.kind == "value" and a.value is not None]
    fed = [a for a in arrays if a.mode != "out" and not a.on_device]
    stays = [a for a in arrays if a.mode != "out" and a.on_device]
    lines = [
        f'"""{function} of {source.name}, as it was called once; written by `advisor new`.',
        "",
        f"Run it with `advisor profile {file.name}`.",
        '"""',
        "",
        *_imports(file, source, function, call),
        "",
        *(_loading(inputs) if fed or stays else ()),
        "",
        "@workload",
        f"def {function_name(file)}({', '.join(map(_parameter, values))}) -> Workload:",
        f'    """One call of {function} for each frame."""',
        "",
        *_producing("load", "These were on the GPU: they are copied there once.", stays),
        *_producing("produce", _EVERY_FRAME, fed),
        *_calling(function, call),
        "",
        "    return Workload(",
        "        buffers={",
        *(
            f'            "{a.name}": Buffer({_shape(a)}, "{a.dtype}"{_scratch(a, call)}),'
            for a in call.arrays
        ),
        "        },",
        *(["        setup=[host(load)],"] if stays else ()),
        f"        frame=[{'host(produce), ' * bool(fed)}device(run){', host(use)' * bool(_used(call))}],",
        "    )",
    ]
    return "\n".join(lines) + "\n"


def _loading(inputs: Path) -> list[str]:
    return [
        f'with np.load(Path(__file__).with_name("{inputs.name}")) as file:',
        "    INPUTS = dict(file)",
        "",
    ]


def _producing(stage: str, comment: str, fed: Sequence[Argument]) -> list[str]:
    if not fed:
        return []
    return [
        f"    # {comment}",
        f"    def {stage}({', '.join(f'{a.name}: Out' for a in fed)}) -> None:",
        *(f'        np.copyto({a.name}, INPUTS["{a.name}"])' for a in fed),
        "",
    ]


def _calling(function: str, call: Observed) -> list[str]:
    """The stage that calls the function, and one that reads what it wrote into the host's memory."""
    arrays, used = call.arrays, _used(call)
    taken = [f"{a.name}: {_MODES[a.mode]}" for a in arrays]
    taken = [*(a.name for a in call.arguments if a.kind == "xp"), *taken]
    return [
        f"    def run({', '.join(taken)}) -> None:",
        f"        {_call(function, call)}",
        *(_using(used) if used else ()),
    ]


def _using(names: Sequence[str]) -> list[str]:
    return [
        "",
        f"    def use({', '.join(f'{name}: In' for name in names)}) -> None:",
        "        # What the CPU does with the result.",
        *(f"        {name}.max()" for name in names),
    ]


def _used(call: Observed) -> list[str]:
    """What the host reads: what is written there, or one input; nothing that was on the GPU."""
    there = [a for a in call.arrays if not a.on_device]
    written = [a.name for a in there if a.mode != "in"]
    return written or ([] if len(there) < len(call.arrays) else [a.name for a in there][:1])


def _scratch(array: Argument, call: Observed) -> str:
    """An output on the GPU never leaves it, unless it is all there is to compare strategies by."""
    return ", scratch=True" if array.on_device and array.mode == "out" and _used(call) else ""


def _imports(file: Path, source: Path, function: str, call: Observed) -> list[str]:
    modes = {_MODES[a.mode] for a in call.arrays} | {"In", "Out"}
    near = source.resolve().parent == file.resolve().parent
    path = [] if near else ["import sys"]
    own = [] if near else [f"sys.path.insert(0, {str(source.resolve().parent)!r})"]
    names = ", ".join(["Buffer", *sorted(modes), "Workload", "device", "host", "workload"])
    return [
        *path,
        "from pathlib import Path",
        "",
        "import numpy as np",
        "",
        f"from advisor import {names}",
        "",
        *own,
        f"from {source.stem} import {function}",
    ]


def _parameter(value: Argument) -> str:
    return f"{value.name}: {type(value.value).__name__} = {value.value!r}"


def _call(function: str, call: Observed) -> str:
    given = ", ".join(
        f"{a.name}={'None' if a.kind == 'value' and a.value is None else a.name}" for a in call.arguments
    )
    targets = [f"{a.name}[...]" if a.kind == "array" else a.name for a in call.results]
    text = f"{', '.join(targets)} = {function}({given})" if targets else f"{function}({given})"
    if len(text) <= _WIDTH:
        return text
    head, _, _ = text.partition(f"{function}(")
    rows = given.replace(", ", ",\n            ")
    return f"{head}{function}(\n            {rows},\n        )"


def _shape(array: Argument) -> str:
    return repr(array.shape[0]) if len(array.shape) == 1 else repr(array.shape)
