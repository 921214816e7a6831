"""Every CUDA kernel of the repository compiles for every GPU from sm_75 on, and for older ones where it can.

Nothing here needs a GPU: NVRTC comes from NVIDIA's wheel.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from nvrtc import Nvrtc, libraries
from running import REPOSITORY

NEW = (75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121)
"""T4, A100, RTX 3090, Orin, RTX 4090, H100, GB200, B300, Thor, RTX 5090, GB10."""
OLD = (50, 52, 53, 60, 61, 62, 70, 72)
"""Nano is 53, TX2 62, V100 70, Xavier 72. CUDA 13 dropped all of them."""
NOT_MEANT_TO = ("tests/test_kernel_sources.py", "tests/test_kernels.py", "tests/gpu/test_kernels_on_gpu.py")
"""Tests of what goes wrong."""


def kernels() -> Iterator[tuple[str, str, Path]]:
    """Where a source stands, its text, the folder of its headers: .cu files, strings in Python files."""
    folders = ("advisor", "workloads", "tests", "docs")
    for path in sorted(p for folder in folders for p in (REPOSITORY / folder).rglob("*")):
        shown = str(path.relative_to(REPOSITORY))
        if path.suffix == ".cu":
            yield shown, path.read_text(encoding="utf-8"), path.parent
        elif path.suffix == ".md":
            for number, text in enumerate(re.findall(r"^```cuda\n(.*?)^```$", path.read_text(), re.M | re.S)):
                yield f"{shown}-{number}", text, path.parent
        elif path.suffix == ".py" and shown not in NOT_MEANT_TO:
            python = path.read_text(encoding="utf-8")
            for number, text in enumerate(strings(ast.parse(python)) if "__global__" in python else ()):
                yield f"{shown}-{number}", text, path.parent


def strings(tree: ast.AST) -> Iterator[str]:
    """String constants that hold a kernel with a body; those in a string that is a Python file, too."""
    texts = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    for text in texts:
        if re.search(r"__global__[^;{]*\([^;{]*\)\s*\{", text):
            try:
                yield from strings(ast.parse(text))
            except SyntaxError:
                yield text


KERNELS = list(kernels())


def compilers() -> dict[int, Nvrtc]:
    """Which NVRTC compiles for which architecture."""
    found: dict[int, Nvrtc] = {}
    for path in libraries():
        try:
            compiler = Nvrtc(path)
        except OSError:
            continue
        for architecture in compiler.architectures:
            found.setdefault(architecture, compiler)
    return found


COMPILERS = compilers()


def test_the_kernels_are_found() -> None:
    places = {where for where, _, _ in KERNELS}
    assert {
        "workloads/reread.py-0",
        "tests/workload_files/scale.cu",
        "advisor/calibration/kernels.cu",
    } <= places


@pytest.mark.parametrize("architecture", [*OLD, *NEW])
def test_every_kernel_compiles(architecture: int) -> None:
    compiler = COMPILERS.get(architecture)
    if compiler is None:
        why = (
            "there is no NVRTC (pip install nvidia-cuda-nvrtc)" if not COMPILERS else "no NVRTC here knows it"
        )
        pytest.skip(f"sm_{architecture}: {why}")
    logs = {
        where: compiler.log(text, architecture, f"-I{folder}", "-default-device")
        for where, text, folder in KERNELS
    }
    wrong = {where: log for where, log in logs.items() if re.search(r"\berror\b", log)}
    assert wrong == {}


def test_a_wrong_kernel_is_found() -> None:
    if not COMPILERS:
        pytest.skip("there is no NVRTC (pip install nvidia-cuda-nvrtc)")
    architecture = max(COMPILERS)
    log = COMPILERS[architecture].log("__global__ void k() { x = 1; }", architecture)
    assert 'k.cu(1): error: identifier "x" is undefined' in log
