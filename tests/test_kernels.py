"""`advisor.kernel`: sources and their lines, signatures, arguments and launch shapes, without a GPU."""

from __future__ import annotations

import ast
import ctypes
import ctypes.util
import re
import sys
import sysconfig
import types
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from every import every
from fake_cupy import FakeCupy
from field import profiled
from rendering import Accepted, refusals
from running import FILES, REPOSITORY

import advisor
from advisor.errors import WorkloadError
from advisor.workloads.kernels import Kernel, KernelNeedsGpu, Signature, Source, read_signatures


def libraries() -> list[Path | str]:
    """Every NVRTC of the wheels here, newest first, then the system's."""
    packages = Path(sysconfig.get_paths()["purelib"])
    paths: list[Path | str] = sorted(packages.glob("nvidia/**/libnvrtc.so.*"), reverse=True)
    system = ctypes.util.find_library("nvrtc")
    return [*paths, *([system] if system else [])]


class Nvrtc:
    def __init__(self, path: Path | str) -> None:
        self._library = ctypes.CDLL(str(path))
        self._include = Path(path).parent.parent / "include"

    @property
    def architectures(self) -> list[int]:
        """75 for sm_75, and so on."""
        count = ctypes.c_int()
        self._require(self._library.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
        known = (ctypes.c_int * count.value)()
        self._require(self._library.nvrtcGetSupportedArchs(known))
        return list(known)

    def log(self, source: str, architecture: int, *options: str) -> str:
        """Compiles; the compiler's log, empty where it has nothing to say, and an error where it fails."""
        program = ctypes.c_void_p()
        arguments = [f"--gpu-architecture=sm_{architecture}", *options]
        if self._include.is_dir():
            arguments.append(f"-I{self._include}")
        self._require(
            self._library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"k.cu", 0, None, None)
        )
        try:
            texts: Any = (ctypes.c_char_p * len(arguments))(*(option.encode() for option in arguments))
            failed = self._library.nvrtcCompileProgram(program, len(arguments), texts)
            size = ctypes.c_size_t()
            self._require(self._library.nvrtcGetProgramLogSize(program, ctypes.byref(size)))
            text = ctypes.create_string_buffer(size.value)
            self._require(self._library.nvrtcGetProgramLog(program, text))
            words = text.value.decode()
            assert not failed or "error" in words, f"NVRTC failed with {failed}"
            return words
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _require(self, outcome: int) -> None:
        assert outcome == 0, f"NVRTC failed with {outcome}"


SCALE = """
extern "C" __global__ void scale(const float* a, float* b, int n, float factor)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[i] = a[i] * factor;
}
"""


class OnGpu:
    """An array as CuPy, PyTorch and Numba show one."""

    def __init__(self, address: int, shape: tuple[int, ...], dtype: str = "float32") -> None:
        self.shape = shape
        self.__cuda_array_interface__ = {"data": (address, False), "typestr": np.dtype(dtype).str}


class Compiling(FakeCupy):
    """A CuPy that compiles modules, and fails with `log` where there is one."""

    class CompileException(Exception):
        """As `cupy.cuda.compiler` has it."""

    def __init__(self, log: str = "") -> None:
        super().__init__()
        self.compiled: list[tuple[Any, ...]] = []
        self.launches: list[tuple[Any, ...]] = []
        self._log = log
        self.cuda.compiler = types.SimpleNamespace(CompileException=self.CompileException)

    def RawModule(self, *, code: str, options: tuple[str, ...], name_expressions: Any) -> Any:  # noqa: N802
        def compile_() -> None:
            self.compiled.append((code, options, name_expressions))
            if self._log:
                raise self.CompileException(self._log)

        def launch(grid: Any, block: Any, arguments: Any, *, shared_mem: int) -> None:
            self.launches.append((grid, block, arguments, shared_mem))

        return types.SimpleNamespace(compile=compile_, get_function=lambda name: launch)


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Compiling:
    fake = Compiling()
    monkeypatch.setitem(sys.modules, "cupy", fake)
    return fake


A, B = OnGpu(0x100, (10, 100)), OnGpu(0x200, (10, 100))


def test_it_is_launched_with_the_signature_s_types_and_a_thread_for_each_element(cupy: Compiling) -> None:
    kernel = advisor.kernel(SCALE, "scale")
    kernel(A, B, 1000, 2)
    kernel(A, B, np.int64(7), 0.5, grid=(2, 3), block=(16, 16), shared=64)
    kernel(0x300, B, 7, True, size=65, block=32)
    kernel(0x300, 0x400, 7, 1, grid=5)
    arguments = [arguments for _, _, arguments, _ in cupy.launches]
    assert arguments[:3] == [(0x100, 0x200, 1000, 2), (0x100, 0x200, 7, 0.5), (0x300, 0x200, 7, 1)]
    kinds = (np.uint64, np.uint64, np.int32, np.float32)
    assert all(tuple(map(type, each)) == kinds for each in arguments)
    assert [(grid, block, shared) for grid, block, _, shared in cupy.launches] == [
        ((4,), (256,), 0),
        ((2, 3), (16, 16), 64),
        ((3,), (32,), 0),
        ((5,), (256,), 0),
    ]


def test_it_is_compiled_once_for_each_device(cupy: Compiling) -> None:
    kernel = advisor.kernel(SCALE, "scale", options=["-DTILE=32"])
    for device in (0, 0, 1, 0):
        cupy.current_device = device
        kernel(A, B, 1, 1)
    options = ("-DTILE=32", f"-I{Path(__file__).resolve().parent}")
    assert cupy.compiled == [(SCALE, options, ("scale",))] * 2


def test_a_template_s_name_is_a_cplusplus_expression(cupy: Compiling) -> None:
    source = "template <typename T> __global__ void twice(T* a, T x, int n) { if (n) a[0] = x; }\n"
    kernel = advisor.kernel(source, "twice<float>")
    kernel(A, np.float32(2), 3)
    assert cupy.compiled[0][2] == ("twice<float>",)
    with pytest.raises(WorkloadError, match=r"argument 2 .* is 2, "):
        kernel(A, 2, 3)


FIT = (A, B, 1, 1)
REFUSED: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "three arguments": ((A, B, 1), {}),
    "an int of 1 << 31": ((A, B, 1 << 31, 1), {}),
    "a float for an int": ((A, B, 1.5, 1), {}),
    "an array for an int": ((A, B, B, 1), {}),
    "an array of float64": ((OnGpu(1, (3,), "float64"), B, 1, 1), {}),
    "a float for an array": ((A, 2.5, 1, 1), {}),
    "no array at all": ((1, 2, 3, 4), {}),
    "block=2048": (FIT, {"block": 2048}),
    "a grid of four": (FIT, {"grid": (1, 1, 1, 1)}),
    "size=0": (FIT, {"size": 0}),
}


def test_what_does_not_fit_is_refused(cupy: Compiling, accepted: Accepted) -> None:
    scale = advisor.kernel(SCALE, "scale")
    calls = {name: partial(scale, *arguments, **shape) for name, (arguments, shape) in REFUSED.items()}
    calls["a file of another name"] = partial(advisor.kernel, "workload_files/scal.cu", "scale")
    calls["a kernel of another name"] = partial(advisor.kernel, SCALE, "scal")
    accepted(refusals(calls).replace(f"{REPOSITORY}/", ""), "kernels-refused.txt")
    assert cupy.launches == []


def test_on_the_cpu_it_is_refused(cupy: Compiling) -> None:
    kernel, array = advisor.kernel(SCALE, "scale"), np.zeros(3, np.float32)
    tensor = types.SimpleNamespace(device=types.SimpleNamespace(type="cpu"))
    for argument in (array, tensor):
        with pytest.raises(KernelNeedsGpu):
            kernel(argument, argument, 3, 1)


def test_without_a_twin_the_cpu_says_so() -> None:
    assert len(profiled(FILES / "cuda_file.py").measured()) == 2
    with pytest.raises(WorkloadError, match="'scale' runs only on a GPU") as caught:
        profiled(FILES / "cuda_file.py", "twin=False")
    assert "cpu=" in caught.value.next_step


# Sources

WRONG = """
extern "C" __global__ void wrong(float* a)
{
    a[0] = missing;
}
"""


def refused(source: str, log: str, monkeypatch: pytest.MonkeyPatch) -> WorkloadError:
    monkeypatch.setitem(sys.modules, "cupy", Compiling(log))
    with pytest.raises(WorkloadError) as caught:
        advisor.kernel(source, "wrong")(A)
    return caught.value


def test_a_compile_error_names_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its log as made up here and, where there is an NVRTC, as that one writes it."""
    logs = ['/tmp/x/abc.cubin.cu(4): error: identifier "missing" is undefined\n      a[0] = missing;\n']
    logs += [Nvrtc(path).log(WRONG, max(Nvrtc(path).architectures)) for path in libraries()[:1]]
    line = 1 + Path(__file__).read_text(encoding="utf-8").splitlines().index("    a[0] = missing;")
    for log in logs:
        error = refused(WRONG, log, monkeypatch)
        assert f": test_kernels.py, line {line}: identifier" in error.message
        assert f"> {line:4d} |     a[0] = missing;" in error.detail
        assert log.strip() in error.detail
    changed = WRONG.replace("missing", "gone")
    error = refused(changed, 'default_program(4): error: identifier "gone" is undefined', monkeypatch)
    assert "line 4" in error.message
    assert "scale.h, line 2: what" in refused(WRONG, "/a/scale.h(2): error: what", monkeypatch).message
    plain = "nvrtc: error: invalid option"
    assert refused(WRONG, plain, monkeypatch).detail == plain


# Signatures


def read(source: str) -> Signature:
    (signature,) = read_signatures(source).values()
    return signature


def test_a_signature_is_read_through_comments_and_attributes() -> None:
    (signature,) = read_signatures((FILES / "scale.cu").read_text(encoding="utf-8")).values()
    assert signature.name == "scale"
    types = [(p.name, p.pointer, str(p.dtype)) for p in signature.parameters]
    assert types[1:] == [("b", True, "float32"), ("factor", False, "float32"), ("n", False, "int64")]


@every(
    ("declared", "dtype"),
    [
        ("unsigned n", "uint32"),
        ("unsigned long long n", "uint64"),
        ("long long int n", "int64"),
        ("const size_t n", "uint64"),
        ("unsigned char* __restrict__ n", "uint8"),
        ("const volatile int *n", "int32"),
        ("int n[16]", "int32"),
        ("__half *n", "float16"),
        ("float4* n", "None"),
        ("Pair<int, float> n", "None"),
    ],
)
def test_types_are_c_s_on_64_bit_linux(declared: str, dtype: str) -> None:
    (parameter,) = read(f"__global__ void k({declared}) {{}}").parameters
    assert (parameter.name, str(parameter.dtype)) == ("n", dtype)


def test_several_kernels() -> None:
    signatures = read_signatures(
        'extern "C" {\n__global__ void a() {}\n__global__ void __launch_bounds__(64, 2) b(void) {}\n}\n'
        "template <int N> __global__ void c(int* p) {}"
    )
    assert [(name, len(s.parameters)) for name, s in signatures.items()] == [("a", 0), ("b", 0), ("c", 1)]
    assert Kernel(Source("#define K __global__\n", None), "anything", ()).name == "anything"


# Sources as NVRTC takes them


NEW = (75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121)
"""T4, A100, RTX 3090, Orin, RTX 4090, H100, GB200, B300, Thor, RTX 5090, GB10."""
OLD = (50, 52, 53, 60, 61, 62, 70, 72)
"""Nano is 53, TX2 62, V100 70, Xavier 72. CUDA 13 dropped all of them."""
NOT_MEANT_TO = ("tests/test_kernels.py", "tests/gpu/test_kernels_on_gpu.py")
"""Tests of what goes wrong."""


def kernels() -> Iterator[tuple[str, str, Path]]:
    """Where a source stands, its text, the folder of its headers: .cu files, strings in Python files."""
    folders = ("advisor", "workloads", "tests", "docs")
    for path in sorted(p for folder in folders for p in (REPOSITORY / folder).rglob("*")):
        place = str(path.relative_to(REPOSITORY))
        if path.suffix == ".cu":
            yield place, path.read_text(encoding="utf-8"), path.parent
        elif path.suffix == ".md":
            for number, text in enumerate(re.findall(r"^```cuda\n(.*?)^```$", path.read_text(), re.M | re.S)):
                yield f"{place}-{number}", text, path.parent
        elif path.suffix == ".py" and place not in NOT_MEANT_TO:
            python = path.read_text(encoding="utf-8")
            for number, text in enumerate(strings(ast.parse(python)) if "__global__" in python else ()):
                yield f"{place}-{number}", text, path.parent


def strings(tree: ast.AST) -> Iterator[str]:
    """String constants that hold a kernel with a body, and no patterns that find one; those in a string that
    is a Python file, too."""
    texts = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    for text in texts:
        if re.search(r"__global__[^;{\\]*\([^;{\\]*\)\s*\{", text):
            try:
                yield from strings(ast.parse(text))
            except SyntaxError:
                yield text


KERNELS = list(kernels())


def compilers() -> dict[int, Nvrtc]:
    """Which NVRTC compiles for which architecture."""
    by_architecture: dict[int, Nvrtc] = {}
    for path in libraries():
        try:
            compiler = Nvrtc(path)
        except OSError:
            continue
        for architecture in compiler.architectures:
            by_architecture.setdefault(architecture, compiler)
    return by_architecture


COMPILERS = compilers()


@pytest.mark.parametrize("architecture", [*OLD, *NEW])
def test_every_kernel_compiles(architecture: int) -> None:
    assert {"workloads/reread.py-0", "tests/workload_files/scale.cu"} <= {where for where, _, _ in KERNELS}
    compiler = COMPILERS.get(architecture)
    if compiler is None:
        pytest.skip(f"no NVRTC here knows sm_{architecture} (pip install nvidia-cuda-nvrtc)")
    assert "error" in compiler.log("__global__ void k() { x = 1; }", architecture)
    logs = {
        where: compiler.log(text, architecture, f"-I{folder}", "-default-device")
        for where, text, folder in KERNELS
    }
    wrong = {where: log for where, log in logs.items() if re.search(r"\berror\b", log)}
    assert wrong == {}
