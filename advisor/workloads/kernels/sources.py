"""Where a kernel's source stands, so that an error names the user's own file and line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from advisor.errors import FileProblem, WorkloadError, nearest

_ERROR = re.compile(r"^(.*?)\((\d+)\): (?:catastrophic )?error(?: #[\w-]+)?:? *(.*)$", re.MULTILINE)
"""As NVRTC writes it: default_program(3): error: identifier "x" is undefined."""
_AROUND = 2


@dataclass(frozen=True)
class Source:
    """CUDA source. `file` and `first_line` are where its first line stands; file is None for unknown."""

    text: str
    file: Path | None
    first_line: int = 1

    @property
    def include_directory(self) -> Path | None:
        """Where its own headers lie."""
        return None if self.file is None else self.file.resolve().parent

    def place(self, line: int) -> str:
        """`scale.cu, line 3` of the source's third line."""
        if self.file is None:
            return f"line {line} of its source"
        return f"{self.file.name}, line {self.first_line + line - 1}"

    def excerpt(self, line: int) -> str:
        """The line between its neighbours, numbered as in the file, marked."""
        lines = self.text.splitlines()
        shown = range(max(line - 1 - _AROUND, 0), min(line + _AROUND, len(lines)))
        return "\n".join(
            f"{'>' if i == line - 1 else ' '} {self.first_line + i:4d} | {lines[i]}" for i in shown
        )


def find(source: str, caller: str) -> Source:
    """The source that `advisor.kernel` was given: CUDA text, or the path of a file beside the caller's.

    caller: the file that asks. Raises `FileProblem` for a file that cannot be read.
    """
    if "\n" not in source and "__global__" not in source:
        return _file(source, Path(caller))
    asking = Path(caller)
    try:
        before, found, _ = asking.read_text(encoding="utf-8").partition(source)
    except (OSError, UnicodeDecodeError):
        found = ""
    return Source(source, asking, before.count("\n") + 1) if found else Source(source, None)


def _file(name: str, caller: Path) -> Source:
    path = caller.parent / name
    try:
        return Source(path.read_text(encoding="utf-8"), path)
    except FileNotFoundError:
        beside = (p.name for p in path.parent.glob("*.cu*"))
        raise FileProblem(
            f"advisor.kernel: {path} does not exist{nearest(path.name, beside)}",
            next_step="Give CUDA source, or the path of a .cu file relative to the file that uses it.",
        ) from None
    except (OSError, UnicodeDecodeError) as problem:
        raise FileProblem(
            f"advisor.kernel: {path} cannot be read: {problem}", next_step="Give a CUDA source file."
        ) from None


def does_not_compile(source: Source, name: str, log: str) -> WorkloadError:
    """The compiler's first error in the user's terms: file, line, what is wrong; the whole log below."""
    first = _ERROR.search(log)
    if not first:
        return WorkloadError(
            f"kernel {name!r} does not compile", next_step="The compiler's log is below.", detail=log
        )
    file, line, said = first[1], int(first[2]), first[3]
    if Path(file).suffix in (".h", ".hpp", ".cuh", ".inl"):
        where, excerpt = f"{Path(file).name}, line {line}", ""
    else:
        where, excerpt = source.place(line), source.excerpt(line)
    return WorkloadError(
        f"kernel {name!r} does not compile: {where}: {said}",
        next_step="Fix the source. Line numbers in the compiler's log start at its first line.",
        detail=f"{excerpt}\n\n{log.strip()}".strip(),
    )
