"""`advisor new`: a commented workload to start from, a copy of an example, or an outline of a report."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from advisor import units
from advisor.devices.catalogue import named
from advisor.errors import FileProblem, UsageError, nearest
from advisor.profiles.files import PACKAGE, shipped, write_atomically
from advisor.profiles.outputs import require_new
from advisor.profiles.programs import GpuTrace, ProgramTrace

_TAKEN = {"numpy", "cupy", "torch", "numba", "advisor", "parts", "cuda", "onnxruntime", "cv2"}
_WRITABLE = "Choose a directory you can write to."


def examples(package: Path = PACKAGE) -> dict[str, Path]:
    """The example workloads by name."""
    return {path.stem: path for path in sorted(shipped("examples", "workloads", package).glob("*.py"))}


def write(file: Path, *, like: str | None = None, text: str | None = None, force: bool = False) -> list[Path]:
    """Writes the workload, the text in place of the starter if there is one, and what it needs beside it; the
    paths, the workload's first. Raises `UsageError` for a name that Python cannot import, an example that is
    not there, or a file that exists (unless `force`) or cannot be written."""
    require_name(file)
    starter = template("starter.py").replace("starter.py", file.name)
    starter = starter.replace("def starter(", f"def {function_name(file)}(")
    texts = _example(file, like) if like else {file: text or starter}
    require_new(texts, force=force)
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, text)
    except OSError as problem:
        wrong = f"{problem.filename or file} cannot be written: {problem.strerror or problem}"
        raise UsageError(wrong, next_step=_WRITABLE) from None
    except FileProblem as problem:
        raise UsageError(problem.message, next_step=_WRITABLE) from None
    return list(texts)


def require_name(file: Path) -> None:
    """Raises `UsageError` for a name that Python cannot import."""
    if file.suffix != ".py" or not file.stem:
        raise UsageError(f"{file} does not end in .py", next_step=f"Write {file}.py, for example.")
    if file.stem in _TAKEN or file.stem in sys.stdlib_module_names:
        wrong = f"{file.name} would hide the module {file.stem!r} from other imports"
        raise UsageError(wrong, next_step="Choose another name.")


def template(name: str) -> str:
    return (shipped("templates", "templates") / name).read_text(encoding="utf-8")


def function_name(file: Path) -> str:
    name = re.sub(r"\W", "_", file.stem)
    return name if name.isidentifier() and not keyword.iskeyword(name) else f"workload_{name}"


def _example(file: Path, name: str) -> dict[Path, str]:
    """The example under its new name, and the files of parts/ that it speaks of under their own."""
    known = examples()
    if name not in known:
        step = f"Choose from {', '.join(known)}."
        raise UsageError(f"there is no example {name!r}{nearest(name, known)}", next_step=step)
    text = known[name].read_text(encoding="utf-8")
    parts = sorted(p for p in (known[name].parent / "parts").glob("*.*") if re.search(rf"\b{p.stem}\b", text))
    used = parts if re.search(r"^from parts\b", text, re.MULTILINE) else []
    return {file: text} | {file.parent / "parts" / p.name: p.read_text(encoding="utf-8") for p in used}


_MOST = 8
"""Buffers of one size; more are one buffer of as many rows."""
_ITEM = 4
"""Bytes of a float32."""


def outline(program: ProgramTrace | None, report: Path, file: Path) -> str:
    """The text of a workload for the GPU whose frames move most. Raises `UsageError` without uploads."""
    gpus = program.gpus if program else ()
    gpu = max(gpus, key=lambda each: sum(size * n for size, n in _moved(each, "uploads")), default=None)
    if gpu is None or not (inputs := list(_buffers(gpu, "uploads"))):
        step = f"Write one by hand: advisor new {file}."
        raise UsageError(f"{report} has no uploads or migrations to the GPU to outline", next_step=step)
    outputs = list(_buffers(gpu, "downloads")) or [("result", (1,))]
    names = [name for name, _ in (*inputs, *outputs)]
    lines = [f'            "{name}": Buffer({shape}, np.float32),' for name, shape in (*inputs, *outputs)]
    used = ", ".join([f"{name}: In" for name, _ in inputs] + [f"{name}: Out" for name, _ in outputs])
    # Arithmetic that takes as long on that GPU as its kernels did, where the catalogue has its rate.
    entry = named(gpu.name)
    seconds = gpu.kernel_seconds / gpu.units
    rate = entry.figures.flops_per_second if entry else None
    return template("outline.txt").format(
        file=file.name,
        report=report.name,
        function=function_name(file),
        what=f"One frame of {report.name} on {gpu.label}: {len(names)} buffers.",
        produced=", ".join(f"{name}: Out" for name, _ in inputs),
        fills="\n".join(f"        {name}.fill(frame % 256)" for name, _ in inputs),
        used=used,
        sums=" + ".join(f"{name}.max()" for name, _ in inputs),
        writes="\n".join(f"        {name}[...] = total" for name, _ in outputs),
        read=", ".join(f"{name}: In" for name, _ in outputs),
        reads="\n".join(f"        {name}.max()" for name, _ in outputs),
        kernels=units.seconds(seconds),
        flops=f", flops={seconds * rate.value:.3g}" if rate and seconds else "",
        buffers="\n".join(lines),
    )


def _moved(gpu: GpuTrace, way: str) -> tuple[tuple[int, int], ...]:
    """Bytes and number of what a frame moves that way; of the whole run where there are no frames."""
    sizes: tuple[tuple[int, int], ...] = getattr(gpu.frames, way) if gpu.frames else ()
    kind, side = ("host-to-device", "to-device") if way == "uploads" else ("device-to-host", "to-host")
    flows = [flow for flow in gpu.flows or () if flow.kind == kind]
    sizes = sizes or tuple((flow.bytes // flow.count, max(flow.count // gpu.units, 1)) for flow in flows)
    pages = sum(m.bytes for m in gpu.managed.migrations if m.direction == side) if gpu.managed else 0
    return (*sizes, *(((pages // gpu.units, 1),) if pages else ()))


def _buffers(gpu: GpuTrace, way: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of float32."""
    name, number = ("input" if way == "uploads" else "output"), 0
    for size, count in _moved(gpu, way):
        items = max(-(-size // _ITEM), 1)
        for _ in range(count if count <= _MOST else 1):
            yield f"{name}{number}", (items,) if count <= _MOST else (count, items)
            number += 1
