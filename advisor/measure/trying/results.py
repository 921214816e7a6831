"""What a script's run gave, so that a changed one can be held equal: downloads by line, output, files."""

from __future__ import annotations

import functools
import hashlib
import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from advisor.measure.recording.calls import DEPTH, Call, numba_classes, replace, wrapping
from advisor.measure.recording.running import own_frame
from advisor.profiles.base import Record
from advisor.profiles.crossings import Library

_CUPY = ("get", "item", "tolist", "__float__", "__int__", "__bool__", "__complex__")
_TORCH = ("cpu", "to", "copy_", "item", "tolist", "__float__", "__int__", "__bool__")


class Results(Record):
    """Digests of one run. `downloads`: of each line of the script that got something from the GPU, in the
    order of their first ones, which a patch does not change while it moves lines."""

    downloads: tuple[tuple[str, str], ...] = ()
    printed: tuple[str, ...] = ()
    files: dict[str, str] = Field(default_factory=dict)
    exit_code: int = 0


class Downloads:
    """Digests what the script's lines get from the GPU; in runs that are not timed."""

    def __init__(self, own: Callable[[str], bool]) -> None:
        self._own = own
        self._digests: dict[str, Any] = {}
        self._inside = False

    def install(self, library: Library, module: Any) -> None:
        if library == "numba":
            array, launcher = numba_classes(module)
            replace(array, "copy_to_host", wrapping(self._heard))
            replace(launcher, "__call__", wrapping(functools.partial(self._launched, module.synchronize)))
            return
        kind, names = (module.ndarray, _CUPY) if library == "cupy" else (module.Tensor, _TORCH)
        for name in names:
            replace(kind, name, wrapping(self._heard))
        if library == "cupy":
            replace(module, "asnumpy", wrapping(self._heard))

    def by_line(self) -> tuple[tuple[str, str], ...]:
        return tuple((line, digest.hexdigest()) for line, digest in self._digests.items())

    def _heard(self, call: Call, *args: Any, **options: Any) -> Any:
        ours = sys._getframe(DEPTH).f_globals.get("__name__", "").startswith("advisor.")
        if self._inside or ours:
            return call(*args, **options)
        self._inside = True
        try:
            result = call(*args, **options)
            if call.__name__ not in ("to", "copy_") or _is_download(result, *args):
                self._note(result)
        finally:
            self._inside = False
        return result

    def _launched(self, synchronize: Call, call: Call, kernel: Any, *args: Any) -> Any:
        """A kernel of Numba's, after which NumPy's arrays that it was given are copied back."""
        result = call(kernel, *args)
        for host in (each for each in args if isinstance(each, np.ndarray)):
            synchronize()
            self._note(host)
        return result

    def _note(self, result: Any) -> None:
        if (frame := own_frame(sys._getframe(), self._own)) is None:
            return
        line = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        digest = self._digests.setdefault(line, hashlib.blake2b(digest_size=16))
        digest.update(_bytes(result))


def _is_download(result: Any, *tensors: Any) -> bool:
    """Whether a call gave values of the GPU to a tensor on the host, where they have arrived then."""
    kinds = [each.device.type for each in tensors if hasattr(each, "device")]
    if result.device.type != "cpu" or all(kind == "cpu" for kind in kinds):
        return False
    import_module("torch").cuda.synchronize()
    return True


def _bytes(result: Any) -> bytes:
    """What stands for the bytes of NumPy's array or of a tensor; of anything else its text."""
    if isinstance(result, np.ndarray) and not result.dtype.hasobject:
        return _condensed(np.ascontiguousarray(result).reshape(-1).view(np.uint8))
    try:
        tensor = result.detach().resolve_conj().resolve_neg().contiguous()
        return _condensed(tensor.reshape(-1).view(import_module("torch").uint8).numpy())
    except (AttributeError, RuntimeError):
        return repr(result).encode()


_ROW = 4096
"""Words of a row: a large array's sums are 1 % of its bytes or less."""


def _condensed(values: np.ndarray) -> bytes:
    """Sums by row and by column of an array's 64-bit words, and the bytes after its last row. A word that
    changes changes two sums; changes of several hide only if they cancel out in each row and column. A digest
    of 8 MB takes 30 ms, which was most of a trial's time, the sums 1.5 ms."""
    rows = values.size // (8 * _ROW)
    words, rest = np.split(values, [rows * 8 * _ROW])
    table = words.view(np.uint64).reshape(rows, _ROW)
    sums = (table.sum(0).tobytes(), table.sum(1).tobytes()) if rows else ()
    return b"".join((*sums, rest.tobytes()))


class WatchedFile:
    """A file that the user named, before the script runs."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._before = self._changed()

    def _changed(self) -> int | None:
        return self._file.stat().st_mtime_ns if self._file.is_file() else None

    def digest(self) -> str:
        """Empty where the script did not write it: an older file proves nothing."""
        if self._changed() in (None, self._before):
            return ""
        return hashlib.blake2b(self._file.read_bytes(), digest_size=16).hexdigest()


class Equality:
    """What two runs of the unchanged script agree in, by which changed runs are judged."""

    def __init__(self, first: Results, second: Results) -> None:
        self.expected = first
        pairs = zip(first.downloads, second.downloads, strict=False)
        self._downloads = [at for at, (one, other) in enumerate(pairs) if one == other]
        self._files = [
            name for name, digest in first.files.items() if digest and second.files.get(name) == digest
        ]
        missing = [name for name, digest in first.files.items() if not digest]
        alike = len(first.printed) == len(second.printed)
        same = {at for at, line in enumerate(first.printed) if alike and line == second.printed[at]}
        timed = {at for at, line in enumerate(first.printed) if _is_time(line, printed_twice=at in same)}
        self._printed = sorted(same - timed)
        self.unlike = (
            *(
                f"what line {line} downloads"
                for at, (line, _) in enumerate(first.downloads)
                if at not in self._downloads
            ),
            *(f"the file {name}" for name in sorted({*first.files} - {*self._files, *missing})),
        )
        prints_others = len(same | timed) < len(first.printed)
        figures = not prints_others and any(re.search(r"\d", first.printed[at]) for at in self._printed)
        proves = not (self.unlike or missing) and bool(self._downloads or self._files or figures)
        if prints_others:
            self.unlike += ("some of what it prints",)
        differing = f"two unchanged runs differ in {'; '.join(self.unlike)}"
        if missing:
            differing = f"the script does not write {' and '.join(missing)} (--check)"
        self.unproved = "" if proves else differing if self.unlike or missing else _NOTHING_TO_COMPARE
        """Why a changed run without a difference is not known to be equal; empty where it is. What a script
        prints may differ, as times do; one that downloads other values differs from itself."""

    @property
    def compared(self) -> tuple[str, ...]:
        """What is compared, in words; the exit code alone proves nothing."""
        words = []
        if lines := len(self._downloads):
            words.append(f"what {lines} {'lines download' if lines > 1 else 'line downloads'}")
        if self._printed:
            words.append(f"{len(self._printed)} printed {'lines' if len(self._printed) > 1 else 'line'}")
        return (*words, *(f"the file {Path(name).name}" for name in self._files))

    def difference(self, changed: Results) -> str:
        """How a changed run differs, in words; empty where it does not."""
        if changed.exit_code != self.expected.exit_code:
            return f"the script ended with exit code {changed.exit_code}"
        for at in self._downloads:
            line, digest = self.expected.downloads[at]
            if [each for _, each in changed.downloads[at : at + 1]] != [digest]:
                return f"line {line} downloads other values"
        for name in self._files:
            if changed.files.get(name) != self.expected.files[name]:
                return f"the file {Path(name).name} differs"
        for number in self._printed:
            if changed.printed[number : number + 1] != (self.expected.printed[number],):
                return f"it prints another line {number + 1}"
        return ""


_DURATION = re.compile(r"\d\s?(?:[mun\u00b5]?s|sec(?:ond)?s?|fps|it/s|ns/op|[KMGT]?i?B/s)\b")
"""What a script prints of its own speed: two runs may agree in it, and a changed one differ."""
_SPEED = "time|runtime|elapsed|took|duration|latency|seconds|sec|ms|fps|throughput"
_OF_A_RUN = (
    "average|avg|batch|best|copy|cpu|cuda|cupy|device|download|epoch|execution|for|frame|gpu|host|in|is|iteration"
    "|kernel|max|mean|median|min|numba|numpy|of|per|processing|program|python|pytorch|run|running|script|second(?!s)"
    "|taken|the|to|torch|total|training|transfer|upload|wall|was"
)
_OWN_SPEED = re.compile(
    rf"(?=.*\d)(?=.*\b(?:{_SPEED}|per second)s?\b)(?:[\W\d_]|\b(?:{_SPEED}|{_OF_A_RUN})s?\b)*", re.IGNORECASE
)
"""A label of such words alone, and a number. Each word matches in one way: in two, many would take hours."""
_SECOND_FIGURE = re.compile(rf"\.\d+(?!\d)(?:(?!\b(?:{_SPEED})s?\b|\.\d).)*\.\d", re.IGNORECASE)
"""A further figure that no such word names, as after a simulation's time: "time 0.50, mean 0.2513"."""
_LAST_FIGURE = re.compile(r"(?<!\D)(\D+)(\d*\.\d+)\D*$")
"""The last figure of a line, and the words before it: each is looked at once, and there may be thousands."""
_LABEL = re.compile(r"\b(?:time|duration|(elapsed|took|fps|throughput))\b", re.IGNORECASE)
"""Words before a figure that may be a time; those in the group, before one that is."""
_DIGITS_OF_A_RESULT = 3
"""Two runs seldom take times that agree in so many digits; a simulated time does."""


def _is_time(line: str, *, printed_twice: bool) -> bool:
    """Whether a line tells the script's own speed, not a time that it computes. A label of other words, as
    "collision time", may be either: what two runs print alike is computed."""
    computed = printed_twice and _SECOND_FIGURE.search(line)
    if _DURATION.search(line) or (_OWN_SPEED.fullmatch(line) and not computed):
        return True
    if (last := _LAST_FIGURE.search(line)) is None:
        return False
    labels = [label for label in _LABEL.finditer(line, last.start(1)) if label.end() <= last.end(1)]
    digits = last[2].replace(".", "").lstrip("0")
    may_be_computed = printed_twice and len(digits) >= _DIGITS_OF_A_RESULT
    return any(label[1] for label in labels) or bool(labels and not may_be_computed)


_NOTHING_TO_COMPARE = (
    "no line downloads a result or prints a figure, and no file with results is named (--check FILE)"
)
