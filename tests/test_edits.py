"""Changes of memory written into a user's source: the least text, or the reason why not."""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path

import pytest
from every import every
from hypothesis import given
from hypothesis import strategies as st

from advisor.strategies.edits import Change, edited
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


def added_and_removed(source: str, *changes: Change) -> tuple[list[str], list[str]]:
    """What the diff adds and takes away, without indentation."""
    rows = diff("x.py", source, edited(source, changes)).splitlines()[2:]
    added, removed = ([row[1:].strip() for row in rows if row[0] == sign] for sign in "+-")
    return added, removed


WAIT = "cp.cuda.get_current_stream().synchronize()  # until gray is copied: the host may write it again"
HEAD = "import cupy as cp\nimport numpy as np\n"
UP, BLOCKS = "d = cp.asarray(gray)   # up", "d = cp.asarray(gray, blocking=True)   # up"

CASES = {
    "lock: cupyx allocates": (
        CUPY,
        Change("lock", 8, 5, 7),
        ["import cupyx", "gray = cupyx.empty_pinned((4, 4), np.float32)  # é: kept", BLOCKS],
        ["gray = np.empty((4, 4), np.float32)  # é: kept", UP],
    ),
    "lock: what a library made is registered": (
        CUPY,
        Change("lock", 9, 6, 7),
        [
            "import weakref",
            "",
            "cp.cuda.runtime.hostRegister(table.ctypes.data, table.nbytes, 0)  # page-locked",
            "weakref.finalize(table, cp.cuda.runtime.hostUnregister, table.ctypes.data)",
            "w = cp.asarray(table, blocking=True)",
        ],
        ["w = cp.asarray(table)"],
    ),
    "lock: an attribute, a row for each argument, arguments that cupyx has not": (
        "import os\n" + HEAD + "class A:\n    def __init__(self):\n"
        "        self.gray = np.zeros(3, like=x)\n    def up(self):\n        return cp.asarray(\n"
        "            self.gray,\n        )\n",
        Change("lock", 8, 6, 20),
        [
            "import weakref",
            "cp.cuda.runtime.hostRegister(self.gray.ctypes.data, self.gray.nbytes, 0)  # page-locked",
            "weakref.finalize(self.gray, cp.cuda.runtime.hostUnregister, self.gray.ctypes.data)",
            "blocking=True,",
        ],
        [],
    ),
    "lock: a copy that takes no blocking=True is waited for": (
        CUPY.replace(UP, "d.set(gray)"),
        Change("lock", 8, 5, 7),
        ["import cupyx", "gray = cupyx.empty_pinned((4, 4), np.float32)  # é: kept", WAIT],
        ["gray = np.empty((4, 4), np.float32)  # é: kept"],
    ),
    "lock: another function's array of that name is left": (
        HEAD + "gray = np.full(3, 1)\ndef other(gray):\n    return cp.asarray(gray)\ndef same():\n"
        "    global gray\n    gray = gray\n    return cp.asarray(gray)\n"
        "for i in r:\n    d = cp.asarray(gray)\n",
        Change("lock", 11, 3, 10),
        [
            "import weakref",
            "",
            "cp.cuda.runtime.hostRegister(gray.ctypes.data, gray.nbytes, 0)  # page-locked",
            "weakref.finalize(gray, cp.cuda.runtime.hostUnregister, gray.ctypes.data)",
            "return cp.asarray(gray, blocking=True)",
            "d = cp.asarray(gray, blocking=True)",
        ],
        ["return cp.asarray(gray)", "d = cp.asarray(gray)"],
    ),
    "reuse: an expression over two lines": (
        CUPY,
        Change("reuse", 10, None, 7),
        [
            "import cupyx",
            "out_host = None",
            "out_device = (d *",
            "w)",
            "if out_host is None:",
            "out_host = cupyx.empty_pinned(out_device.shape, out_device.dtype)",
            "out = out_device.get(out=out_host)",
        ],
        ["out = (d *", "w).get()"],
    ),
    "reuse: asnumpy": (
        CUPY,
        Change("reuse", 12, None, 7),
        [
            "import cupyx",
            "res_host = None",
            "if res_host is None:",
            "res_host = cupyx.empty_pinned(d.shape, d.dtype)",
            "res = d.get(out=res_host)",
        ],
        ["res = cp.asnumpy(d)"],
    ),
    "hoist": (CUPY, Change("hoist", 9, None, 7), ["w = cp.asarray(table)"], ["w = cp.asarray(table)"]),
    "non-blocking: both calls, and a trailing comma": (
        TORCH,
        Change("non-blocking", 8, None, 7),
        ["x, y = x.to(dev, non_blocking=True), y.to(dev, non_blocking=True, )"],
        ["x, y = x.to(dev), y.to(dev, )"],
    ),
    "pin-memory: added": (
        TORCH,
        Change("pin-memory", 8, 2, 7),
        ["pin_memory=True,", "x, y = x.to(dev, non_blocking=True), y.to(dev, non_blocking=True, )"],
        ["x, y = x.to(dev), y.to(dev, )"],
    ),
    "pin-memory: after a comment; the copy asks already": (
        "import torch\nfixed = DataLoader(\n    data,\n    shuffle=(True)  # as it was\n)\n"
        "for x in fixed:\n    x = x.to(dev, non_blocking=True)\n",
        Change("pin-memory", 7, 2, 6),
        ["shuffle=(True),  # as it was", "pin_memory=True"],
        ["shuffle=(True)  # as it was"],
    ),
    "lock: torch": (
        MOVED,
        Change("lock", 6, library="torch"),
        ["x = torch.zeros(4, 4, pin_memory=True)"],
        ["x = torch.zeros(4, 4)"],
    ),
    "lock: torch, with a type": (
        MOVED.replace("x = torch.zeros", "x: torch.Tensor = torch.zeros"),
        Change("lock", 6, library="torch"),
        ["x: torch.Tensor = torch.zeros(4, 4, pin_memory=True)"],
        ["x: torch.Tensor = torch.zeros(4, 4)"],
    ),
    "lock: torch, beside a copy that does not wait": (
        MOVED + "p = torch.ones(9)\np.cuda(non_blocking=True)\n",
        Change("lock", 6, library="torch"),
        ["x = torch.zeros(4, 4, pin_memory=True)"],
        ["x = torch.zeros(4, 4)"],
    ),
    "lock: torch, of another's memory": (
        MOVED.replace("torch.zeros(4, 4)", "torch.from_numpy(a)"),
        Change("lock", 6, library="torch"),
        ["torch.cuda.cudart().cudaHostRegister(x.data_ptr(), x.nbytes, 0)  # page-locked"],
        [],
    ),
    "lock: arguments of a kernel": (
        NUMBA,
        Change("lock", 7, loop=6, library="numba"),
        [
            *("x_pinned = cuda.pinned_array_like(x)", "x_pinned[...] = x", "x = x_pinned"),
            *("y_pinned = cuda.pinned_array_like(y)", "y_pinned[...] = y", "y = y_pinned"),
        ],
        [],
    ),
    "reuse: numba": (
        NUMBA,
        Change("reuse", 8, loop=6, library="numba"),
        [
            "out_host = None",
            "if out_host is None:",
            "out_host = cuda.pinned_array(d.shape, d.dtype)",
            "out = d.copy_to_host(out_host)",
        ],
        ["out = d.copy_to_host()"],
    ),
    "reuse: torch, in turn since NumPy's arrays share it": (
        MOVED,
        Change("reuse", 8, loop=5, library="torch", tried=True),
        [
            "result_hosts = []  # page-locked, filled in turn",
            "result_device = y.detach()",
            "result_hosts.reverse()",
            "if len(result_hosts) < 2:",
            'result_hosts.append(torch.empty_like(result_device, device="cpu", pin_memory=True))',
            "out = result_hosts[-1].copy_(result_device).numpy()",
        ],
        ["out = y.detach().cpu().numpy()"],
    ),
    "reuse: several downloads in a line": (
        CUPY.replace("res = cp.asnumpy(d)", "res, other = cp.asnumpy(d), w.get()"),
        Change("reuse", 12, loop=7, tried=True),
        [
            *("import cupyx", "", "d_hosts = []  # page-locked, filled in turn", "", ""),
            *("w_hosts = []  # page-locked, filled in turn", ""),
            "d_hosts.reverse()",
            "if len(d_hosts) < 2:",
            "d_hosts.append(cupyx.empty_pinned(d.shape, d.dtype))",
            "w_hosts.reverse()",
            "if len(w_hosts) < 2:",
            "w_hosts.append(cupyx.empty_pinned(w.shape, w.dtype))",
            "res, other = d.get(out=d_hosts[-1]), w.get(out=w_hosts[-1])",
        ],
        ["res, other = cp.asnumpy(d), w.get()"],
    ),
}


@every("case", CASES)
def test_a_change_is_the_least_text(case: str) -> None:
    source, change, added, removed = CASES[case]
    assert added_and_removed(source, change) == (added, removed)


REFUSED = {
    "not seen": (CUPY, Change("lock", 8), "was not seen"),
    "new in each frame": (TORCH, Change("lock", 8, 9, 7), "makes a new array in each frame"),
    "no form of a call": (CUPY, Change("hoist", 13, None, 7), "is not of the form name = call"),
    "no download": (CUPY, Change("reuse", 8, None, 7), "has no download x.get() with nothing else asked"),
    "no loop": (CUPY, Change("hoist", 5, None, 7), "not in the loop itself"),
    "already asynchronous": (TORCH, Change("non-blocking", 9, None, 7), "has no call of to or cuda without"),
    "may download": (
        "for x in loader:\n    x, y = x.to(dev), y.to(host)\n",
        Change("non-blocking", 2, None, 1),
        "copies to several places",
    ),
    "copied by its address": (
        CUPY.replace("print(out", "d.data.copy_from_host_async(gray.ctypes.data, 64); print(out"),
        Change("lock", 8, 5, 7),
        "copies from it by copy_from_host_async",
    ),
    "no place to wait": (CUPY.replace(UP, "yield d.set(gray)"), Change("lock", 8, 5, 7), "no place after"),
    "old line ends": (CUPY.replace("gray)   #", "gray)\r   #"), Change("lock", 8, 5, 7), "carriage return"),
    "no loader": (TORCH, Change("pin-memory", 8, 9, 7), "has no DataLoader"),
    "set in the loop": (
        CUPY.replace("w = cp.asarray(table)", "w = cp.asarray(out)"),
        Change("hoist", 9, None, 7),
        "out is set in the loop",
    ),
    "changed in place": (
        CUPY.replace("print(out", "w[0] = 1; print(out"),
        Change("hoist", 9, None, 7),
        "w is given other values in the loop",
    ),
    "name taken": (CUPY + "res_host = 3\n", Change("reuse", 12, None, 7), "the name res_host is taken"),
    "downloads that are passed on": (
        CUPY.replace("print(out", "keep(d.get()); print(out").replace("; ", "\n        "),
        Change("reuse", 13, None, 7),
        "line 13 passes on what it downloads",
    ),
    "not always downloaded": (
        CUPY.replace("res = cp.asnumpy(d)", "res = i and cp.asnumpy(d).sum()"),
        Change("reuse", 12, None, 7),
        "line 12 does not always download",
    ),
    "a tensor that the loop makes": (
        MOVED.replace("    y = x", "    x = x + 1\n    y = x"),
        Change("lock", 7, loop=5, library="torch"),
        "the file does not show which line makes what line 7 uploads",
    ),
    "asynchronous copies of what would be page-locked": (
        MOVED.replace('"cuda")', '"cuda", non_blocking=True)'),
        Change("lock", 6, loop=5, library="torch"),
        "line 6 may copy it asynchronously",
    ),
    "a stream": (
        NUMBA.replace("[1, 9]", "[1, 9, stream]"),
        Change("lock", 7, loop=6, library="numba"),
        "copies in a stream",
    ),
    "called before": (
        CUPY.replace("res = cp.asnumpy(d)", "res = next(i) + cp.asnumpy(d * 2)"),
        Change("reuse", 12, None, 7),
        "line 12 calls something before it downloads",
    ),
    "several statements": (
        "import cupy\na = f(); b = g()\n",
        Change("hoist", 2, None, 1),
        "several statements",
    ),
    "cupy under no name": (
        CUPY.replace("import cupy as cp", "from cupy import asarray").replace("cp.", ""),
        Change("lock", 8, 6, 7),
        "does not import cupy as a module",
    ),
}


def test_an_array_that_is_set_in_each_frame_is_set_before_the_loop() -> None:
    source = CUPY.replace("w = cp.asarray(table)", "w.set(table)")
    after = edited(source, [Change("hoist", 9, None, 7)])
    assert after.index("\n    w.set(table)\n") < after.index("for i in")
    assert "        w.set" not in after


@every("case", REFUSED)
def test_what_is_not_certain_is_not_written(case: str) -> None:
    source, change, reason = REFUSED[case]
    with pytest.raises(CannotWrite, match=reason.replace("(", r"\(").replace(")", r"\)")):
        edited(source, [change])


def test_several_changes_share_an_import_and_the_patch_applies(tmp_path: Path) -> None:
    changes = [Change("lock", 8, 5, 7), Change("reuse", 12, None, 7), Change("hoist", 9, None, 7)]
    with pytest.raises(CannotWrite, match="another change moves the same line"):
        edited(CUPY, [Change("lock", 9, 6, 7), changes[2]])
    source = CUPY.replace("\n", "\r\n")
    after = edited(source, changes)
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
    assert file.read_text(encoding="utf-8") == CUPY
    apply({**texts, link: ("c\n", "b\n")})
    assert link.is_symlink()
    assert [each.read_text(encoding="utf-8") for each in (file, tmp_path / "c.py")] == ["new\n", "b\n"]


def test_a_download_of_what_is_uploaded_in_its_line_keeps_the_wait_of_the_upload() -> None:
    source = CUPY.replace("w = cp.asarray(table)", "new = cp.asarray(gray * 2).get()")
    line = 1 + source.splitlines().index("        new = cp.asarray(gray * 2).get()")
    after = edited(source, [Change("lock", 8, 5, 7), Change("reuse", line, None, 7, tried=True)])
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


def test_an_allocator_is_set_after_the_imports() -> None:
    added, removed = added_and_removed(CUPY, Change("allocator", 1, name="async-pool"))
    setting = "cp.cuda.set_allocator(cp.cuda.MemoryAsyncPool().malloc)  # stream-ordered pool"
    assert (added, removed) == (["", setting], [])
    change = Change("allocator", 1, name="managed-prefetch-pool")
    prefetched = edited(CUPY.replace("\n", "\r\n"), [change])
    assert "import numpy as np\r\n\r\n\r\ndef prefetched(size):\r\n    memory = cp.cuda" in prefetched
    assert prefetched.count("\n") == prefetched.count("\r\n")
    with pytest.raises(CannotWrite, match="does not import cupy"):
        edited(TORCH, [change])
