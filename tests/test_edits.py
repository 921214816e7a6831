"""Changes of memory written into a user's source, and a strategy into a workload's function: the least text,
or the reason why not."""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path

import pytest
from builders import profile, recommendation
from every import every
from hypothesis import given
from hypothesis import strategies as st
from rendering import Accepted

from advisor.cli.profiling import _apply_to_function
from advisor.strategies.edits import Change, edited
from advisor.strategies.functions import page_locked
from advisor.strategies.patches import apply, diff
from advisor.strategies.syntax import CannotWrite

CUPY = """\
import cupy as cp
import numpy as np

def main():
    gray = np.empty((4, 4), np.float32)  # é: kept
    table = np.load("t.npy")
    for i in range(10):
        d = cp.asarray(gray)   # up
        w = cp.asarray(table)
        out = (d *
               w).get()
        res = cp.asnumpy(d)
        print(out.sum(), res)
main()
"""
TORCH = """\
import torch
loader = DataLoader(
    data,
    batch_size=4,
)
fixed = DataLoader(data, pin_memory=False)
for x, y in loader:
    x, y = x.to(dev), y.to(dev, )
    z = torch.empty(4)
w = torch.zeros(4, 4)
"""

MOVED = """\
import numpy as np
import torch
a = np.zeros(9)
x = torch.zeros(4, 4)
for i in range(10):
    y = x.to("cuda")
    print(y.sum())
    out = y.detach().cpu().numpy()
"""
NUMBA = """\
from numba import cuda
import numpy as np
x = np.random.rand(9).astype("f4")
y = np.zeros_like(x) * 2
d = cuda.device_array(9)
for i in range(10):
    add[1, 9](x, y, d, 4)
    out = d.copy_to_host()
    total = out.sum()
"""


HEAD = "import cupy as cp\nimport numpy as np\n"
UP = "d = cp.asarray(gray)   # up"

ROWS = CUPY.replace("    table", "    rows = np.zeros(9)\n    table").replace("res = cp", "rows[i] = cp")
LOCK, REUSE, HOIST = Change("lock", 8, 5, 7), Change("reuse", 12, None, 7), Change("hoist", 9, None, 7)
TENSOR = Change("lock", 6, library="torch")
WRITTEN = {
    "allocator: after the imports": (CUPY, Change("allocator", 1, name="async-pool")),
    "allocator: no cupy": (TORCH, Change("allocator", 1, name="managed-prefetch-pool")),
    "lock: cupyx allocates": (CUPY, LOCK),
    "lock: an attribute, a row for each argument, arguments that cupyx has not": (
        "import os\nimport attr\n" + HEAD + "class A:\n    def __init__(self):\n"
        "        self.gray = np.zeros(3, like=x)\n    def up(self):\n        return cp.asarray(\n"
        "            self.gray,\n        )\n",
        Change("lock", 9, 7, 20),
    ),
    "lock: a copy that takes no blocking=True is waited for": (CUPY.replace(UP, "d.set(gray)"), LOCK),
    "lock: another function's array of that name is left": (
        HEAD + "gray = np.full(3, 1)\ndef other(gray):\n    return cp.asarray(gray)\ndef same():\n"
        "    global gray\n    gray = gray\n    return cp.asarray(gray)\n"
        "for i in r:\n    d = cp.asarray(gray)\n",
        Change("lock", 11, 3, 10),
    ),
    "hoist": (CUPY, HOIST),
    "non-blocking: both calls, and a trailing comma": (TORCH, Change("non-blocking", 8, None, 7)),
    "pin-memory: after a comment; the copy asks already": (
        "import torch\nfixed = DataLoader(\n    data,\n    shuffle=(True)  # as it was\n)\n"
        "for x in fixed:\n    x = x.to(dev, non_blocking=True)\n",
        Change("pin-memory", 7, 2, 6),
    ),
    "pin-memory: switched off before": (TORCH, Change("pin-memory", 8, 6, 7)),
    "pin-memory: computed elsewhere": (TORCH.replace("=False", "=flag"), Change("pin-memory", 8, 6, 7)),
    "lock: torch, beside a copy that does not wait": (
        MOVED + "p = torch.ones(9)\np.cuda(non_blocking=True)\n",
        TENSOR,
    ),
    "lock: torch, of another's memory": (MOVED.replace("torch.zeros(4, 4)", "torch.from_numpy(a)"), TENSOR),
    "lock: arguments of a kernel": (NUMBA, Change("lock", 7, loop=6, library="numba")),
    "reuse: torch, in turn since NumPy's arrays share it": (
        MOVED,
        Change("reuse", 8, loop=5, library="torch", tried=True),
    ),
    "reuse: copied at once into an array that NumPy made": (ROWS, Change("reuse", 13, None, 8)),
    "a list keeps it": (ROWS.replace("np.zeros(9)", "[0] * 9"), Change("reuse", 13, None, 8)),
    "reuse: several downloads in a line": (
        CUPY.replace("res = cp.asnumpy(d)", "res, other = cp.asnumpy(d), w.get()"),
        Change("reuse", 12, loop=7, tried=True),
    ),
    "reuse: comments in what is moved stay": (
        CUPY.replace(
            "(d *\n               w)", "(\n            # scaled\n            d * w  # all\n        )"
        ),
        Change("reuse", 10, None, 7),
    ),
    "hoist: an array is set": (CUPY.replace("w = cp.asarray(table)", "w.set(table)"), HOIST),
    "hoist: nothing else is in the loop": (
        HEAD + "x = np.zeros(9)\nfor i in r:\n    cp.asarray(x)\n",
        Change("hoist", 5, None, 4),
    ),
    "hoist: a function of the user's may count its calls": (
        CUPY.replace("cp.asarray(table)", "noisy(cp.asarray(table))"),
        HOIST,
    ),
    "not seen": (CUPY, Change("lock", 8)),
    "new in each frame": (TORCH, Change("lock", 8, 9, 7)),
    "no form of a call": (CUPY, Change("hoist", 13, None, 7)),
    "no download": (CUPY, Change("reuse", 8, None, 7)),
    "no loop": (CUPY, Change("hoist", 5, None, 7)),
    "already asynchronous": (TORCH, Change("non-blocking", 9, None, 7)),
    "may download": (
        "for x in loader:\n    x, y = x.to(dev), y.to(host)\n",
        Change("non-blocking", 2, None, 1),
    ),
    "copied by its address": (
        CUPY.replace("print(out", "d.data.copy_from_host_async(gray.ctypes.data, 64); print(out"),
        LOCK,
    ),
    "no place to wait": (CUPY.replace(UP, "yield d.set(gray)"), LOCK),
    "old line ends": (CUPY.replace("gray)   #", "gray)\r   #"), LOCK),
    "no loader": (TORCH, Change("pin-memory", 8, 9, 7)),
    "set in the loop": (CUPY.replace("w = cp.asarray(table)", "w = cp.asarray(out)"), HOIST),
    "changed in place": (CUPY.replace("print(out", "w[0] = 1; print(out"), HOIST),
    "name taken": (CUPY + "res_pinned = 3\n", REUSE),
    "downloads that are passed on": (
        CUPY.replace("print(out", "keep(d.get()); print(out").replace("; ", "\n        "),
        Change("reuse", 13, None, 7),
    ),
    "not always downloaded": (CUPY.replace("res = cp.asnumpy(d)", "res = i and cp.asnumpy(d).sum()"), REUSE),
    "a tensor that the loop makes": (
        MOVED.replace("    y = x", "    x = x + 1\n    y = x"),
        Change("lock", 7, loop=5, library="torch"),
    ),
    "asynchronous copies of what would be page-locked": (
        MOVED.replace('"cuda")', '"cuda", non_blocking=True)'),
        Change("lock", 6, loop=5, library="torch"),
    ),
    "called before": (CUPY.replace("res = cp.asnumpy(d)", "res = next(i) + cp.asnumpy(d * 2)"), REUSE),
    "several statements": ("import cupy\na = f(); b = g()\n", Change("hoist", 2, None, 1)),
    "cupy under no name": (
        CUPY.replace("import cupy as cp", "from cupy import asarray").replace("cp.", ""),
        Change("lock", 8, 6, 7),
    ),
}


def test_a_change_is_the_least_text_and_what_is_not_certain_is_not_written(accepted: Accepted) -> None:
    """The diff of each, or the reason."""
    told = []
    for name, (source, change) in WRITTEN.items():
        try:
            text = diff("x.py", source, edited(source, [change]))
        except CannotWrite as error:
            text = f"{error}\n"
        told.append(f"## {name}\n{text}")
    accepted("\n".join(told), "edits.txt")


def test_several_changes_share_an_import_and_the_patch_applies(tmp_path: Path) -> None:
    both = edited(CUPY, [HOIST, Change("lock", 9, 6, 7)])
    assert "    w = cp.asarray(table, blocking=True)\n    for i in range(10):\n" in both
    source = CUPY.replace("\n", "\r\n")
    after = edited(source, [LOCK, REUSE, HOIST])
    assert after.count("import cupyx") == 1
    assert after.count("\n") == after.count("\r\n")
    file, patch = tmp_path / "my x.py", tmp_path / "x.patch"
    patch.write_bytes(diff("my x.py", source, after).encode())
    for tool in (["git", "apply", str(patch)], ["patch", "--binary", "-p1", "-i", str(patch)], []):
        file.write_bytes(source.encode())
        if tool and shutil.which(tool[0]):
            subprocess.run(tool, cwd=tmp_path, check=True, capture_output=True)
        else:
            apply({file: (source, after)})
        assert file.read_bytes() == after.encode()


def test_files_with_other_texts_than_were_edited_stay_all_as_they_are(tmp_path: Path) -> None:
    file, link = tmp_path / "x.py", tmp_path / "gone.py"
    file.write_text(CUPY, encoding="utf-8")
    texts = {file: (CUPY, "new\n"), link: ("a\n", "b\n")}
    with pytest.raises(CannotWrite, match=r"gone\.py"):
        apply(texts)
    (tmp_path / "c.py").write_text("c\n", encoding="utf-8")
    link.symlink_to("c.py")
    with pytest.raises(CannotWrite, match=r"gone\.py has been changed since"):
        apply(texts)
    with pytest.raises(UnicodeEncodeError):
        apply({file: (CUPY, "new\n"), link: ("c\n", "\udcff")})
    assert file.read_text(encoding="utf-8") == CUPY
    apply({**texts, link: ("c\n", "b\n")})
    assert link.is_symlink()
    assert [each.read_text(encoding="utf-8") for each in (file, tmp_path / "c.py")] == ["new\n", "b\n"]


def test_a_download_of_what_is_uploaded_in_its_line_keeps_the_wait_of_the_upload() -> None:
    source = CUPY.replace("w = cp.asarray(table)", "new = cp.asarray(gray * 2).get()")
    line = 1 + source.splitlines().index("        new = cp.asarray(gray * 2).get()")
    after = edited(source, [LOCK, Change("reuse", line, None, 7, tried=True)])
    assert "new_device = cp.asarray(gray * 2, blocking=True)\n" in after
    assert "new = new_device.get(out=" in after


@given(st.text("é \tab", max_size=5), st.sampled_from(["", "# ünïcode\n"]), st.booleans())
def test_columns_count_characters(name: str, head: str, ends: bool) -> None:
    text = "".join(c for c in name if not c.isspace()) or "x"
    source = (
        f"{head}import cupy\nimport numpy as np\n{text} = np.zeros(3)\nfor i in r:\n    cupy.asarray({text})"
    )
    first = head.count("\n")
    after = edited(source + "\n" * ends, [Change("lock", 5 + first, 3 + first, 4 + first)])
    assert f"{text} = cupyx.zeros_pinned(3)\n" in after
    ast.parse(after)


MAKES, BEFORE = "    gray = np.empty((4, 4), np.float32)\n", "    total = 0.0\n    for frame in frames:\n"
FUNCTION = """\
import cupy as cp
import numpy as np

table = np.load("t.npy")

def process(frames, given):
    gray = np.empty((4, 4), np.float32)
    total = 0.0
    for frame in frames:
        np.multiply(frame, 0.5, out=gray)
        d = cp.asarray(gray)
        t = cp.asarray(table)
        g = cp.asarray(given)
        out = (d + t + g).get()
        total += float(out[0, 0]) + out.sum()
    return total
"""


FUNCTIONS = (
    ("gray table out", "", ""),
    ("given", "", ""),
    ("total", "", ""),
    ("out", "(d + t + g).get()", "frames.get()"),
    ("gray", "d = cp", "kept = gray; d = cp"),
    ("gray", "np.multiply(", "g = np.multiply("),
    ("gray", "    total = 0.0", "    gray = np.ones(3)"),
    ("gray", MAKES, "    with given as gray:\n        pass\n"),
    ("gray", "for frame in frames", "if frame := frames"),
    ("gray", f"{MAKES}{BEFORE}", f"{BEFORE}        gray = np.empty(4)\n"),
)


def test_a_functions_arrays_are_page_locked_where_its_text_shows_it_to_be_safe(accepted: Accepted) -> None:
    told = []
    for names, old, new in FUNCTIONS:
        source = FUNCTION.replace(old, new) if old else FUNCTION
        applied = page_locked(source, "process", names.split())
        text = diff("x.py", source, applied.text)
        assert bool(text) == bool(applied.written)
        told += [f"## {names}: {new.strip() or 'as it is'}", *applied.left_out, text]
    accepted("\n".join(told), "edits-of-functions.txt")


def test_a_function_that_is_not_there() -> None:
    with pytest.raises(CannotWrite, match="no function other"):
        page_locked(FUNCTION, "other", ["gray"])


@every("ends", ["\n", "\r\n", "", "\r\n-"])
def test_only_what_is_written_changes(ends: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Line ends stay, and a last line without one too. What is not surely better leaves every byte."""
    text = FUNCTION.replace("gray", "a").replace("\n", "\r\n" if "\r" in ends else "\n")
    source = (text if ends in ("\n", "\r\n") else text.rstrip()).encode()
    file = tmp_path / "camera.py"
    file.write_bytes(source)
    for strategy, verdict in (("pinned", "open"), ("zero-copy", "fastest"), (None, "keep")):
        _apply_to_function(
            profile(recommendation=recommendation(strategy, verdict=verdict)), f"{file}::process"
        )
        assert file.read_bytes() == source
        assert "is not changed" in capsys.readouterr().err
    _apply_to_function(profile(recommendation=recommendation("pinned")), f"{file}::process")
    said, after = capsys.readouterr().err, file.read_bytes()
    assert f"changed {file}: a." in said
    assert "b: process has no copy of an array of that name" in said
    assert b"a = cupyx.empty_pinned((4, 4), np.float32)" in after
    assert after.count(b"\n") == (after.count(b"\r\n") if "\r" in ends else after.count(b"\n"))
    assert after.endswith(b"\n") == source.endswith(b"\n")
