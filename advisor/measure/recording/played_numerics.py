"""Kernels and cupyx.scipy on the mock of CuPy, computed by NumPy and SciPy in place of a GPU.

Kernels in CUDA C++ are computed if they are plain expressions; all others are listed as not run. cupyx.scipy
is computed by SciPy, without sparse matrices.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from advisor.measure.cupy_mock.arrays import lifted, stripped, wrapped
from advisor.measure.cupy_mock.checks import Watch, user_line
from advisor.measure.recording.played import CannotPlay, Played, tell

Values = dict[str, Any]
_ALIKE = (
    *("sqrt", "exp", "log", "log2", "log10", "log1p", "expm1", "sin", "cos", "tan", "sinh", "cosh", "tanh"),
    *("floor", "ceil", "hypot", "fmod", "fmax", "fmin"),
)
_FUNCTIONS = {name: getattr(np, name) for name in _ALIKE}
_FUNCTIONS |= {"abs": np.abs, "fabs": np.abs, "max": np.maximum, "min": np.minimum, "pow": np.power}
_OPERATORS: Mapping[type, Any] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide,
    ast.Lt: np.less, ast.LtE: np.less_equal, ast.Gt: np.greater, ast.GtE: np.greater_equal,
    ast.Eq: np.equal, ast.NotEq: np.not_equal,
    ast.And: np.logical_and, ast.Or: np.logical_or, ast.Not: np.logical_not, ast.USub: np.negative,
}  # fmt: skip
_TYPES = {"float": "f4", "double": "f8", "int": "i4", "bool": "?", "long long": "i8"}
_ASSIGNMENT = re.compile(
    r"(?:const\s+)?(?:(?P<type>[A-Z]|long long|float|double|int|bool)\s+)?"
    r"(?P<name>\w+)\s*(?P<operator>[-+*]?)=(?!=)(?P<value>.+)",
    re.DOTALL,
)
_REDUCTIONS: Mapping[str, Any] = {
    "a + b": np.add, "a * b": np.multiply, "max(a, b)": np.maximum, "min(a, b)": np.minimum,
}  # fmt: skip


class _Unplayable(Exception):
    """More than expressions of numbers."""


class Kernel:
    """A kernel of the mock, with the message for one that cannot be computed."""

    watch: ClassVar[Any]
    name = "kernel"

    def not_run(self) -> None:
        self.watch.runs_all_kernels = False
        effect = "was not run; without a GPU its new arrays are 0, others keep their values"
        tell(f"{user_line()}: kernel {self.name} {effect}")


class RawKernel(Kernel):
    def __init__(self, code: str, name: str, *_: Any, **__: Any) -> None:
        del code
        self.name = name

    def __call__(self, *_: Any, **__: Any) -> None:
        self.not_run()

    def __getitem__(self, _: Any) -> RawKernel:  # cupyx.jit's kernel[grid, block]
        return self

    def compile(self) -> None: ...


class ElementwiseKernel(Kernel):
    parts: tuple[str, ...] = ("operation", "name")
    """Arguments behind those that name inputs and outputs."""
    takes: frozenset[str] = frozenset(("size",))
    """Arguments of a call that are not arrays."""

    def __init__(self, in_params: str, out_params: str, *parts: str, **named: Any) -> None:
        self._parts = dict(zip(self.parts, parts, strict=False)) | named
        self.name = self._parts.get("name", self.name)
        self._inputs, self._outputs = _parameters(in_params), _parameters(out_params)

    def __call__(self, *args: Any, **how: Any) -> Any:
        types: Values = {}
        values: Values = {}
        parameters = (*self._inputs, *self._outputs)
        for (_, kind, name), argument in zip(parameters, stripped(args), strict=False):
            values[name] = argument
            if len(kind) == 1:  # a letter stands for a type
                types.setdefault(kind, np.asarray(argument).dtype)
        how = {name: how[name] for name in how.keys() & self.takes}
        shape = self._shape(values, **how)
        results = {
            name: values[name] if name in values else np.zeros(shape, types.get(kind, kind))
            for _, kind, name in self._outputs
        }
        try:
            self._run(values | results, types, list(results), **how)
        except (_Unplayable, SyntaxError):
            self.not_run()
        arrays = tuple(wrapped(array, self.watch) for array in results.values())
        return arrays if len(arrays) > 1 else arrays[0]

    def _shape(self, values: Values, **how: Any) -> Any:
        shapes = [np.shape(values[name]) for raw, _, name in self._inputs if not raw]
        return np.broadcast_shapes(*shapes) if how.get("size") is None else (how["size"],)

    def _run(self, values: Values, types: Values, outputs: Sequence[str], **_: Any) -> None:
        if any(raw for raw, *_ in (*self._inputs, *self._outputs)):
            raise _Unplayable
        _run(self._parts["operation"], values, types, outputs)


class ReductionKernel(ElementwiseKernel):
    parts = ("map_expr", "reduce_expr", "post_map_expr", "identity", "name")
    takes = frozenset(("axis", "keepdims"))
    name = "reduce_kernel"

    def _shape(self, values: Values, **how: Any) -> Any:
        return np.shape(np.sum(self._whole(values), **how))

    def _whole(self, values: Values) -> Any:
        return np.broadcast_arrays(*(values[name] for *_, name in self._inputs))[0]

    def _run(self, values: Values, types: Values, outputs: Sequence[str], **how: Any) -> None:
        reduction = _REDUCTIONS.get(self._parts["reduce_expr"].strip())
        if reduction is None:
            raise _Unplayable
        mapped = np.broadcast_to(_value(self._parts["map_expr"], values), self._whole(values).shape)
        values["a"] = reduction.reduce(mapped, **{"axis": None, **how})
        _run(self._parts["post_map_expr"], values, types, outputs)


def _parameters(text: str) -> list[tuple[bool, str, str]]:
    """Whether it is raw, type and name of each: "raw T x, int32 n"."""
    words = [part.split() for part in text.split(",") if part.strip()]
    return [("raw" in each[:-2], each[-2], each[-1]) for each in words]


def _run(code: str, values: Values, types: Values, outputs: Sequence[str]) -> None:
    """Assigns the outputs, which have their arrays in `values`, once all of the code was understood."""
    arrays = {name: values[name] for name in outputs}
    for statement in filter(str.strip, code.split(";")):
        match = _ASSIGNMENT.fullmatch(statement.strip())
        if match is None:
            raise _Unplayable
        name, operator = match["name"], match["operator"]
        value = _value(f"{name} {operator} ({match['value']})" if operator else match["value"], values)
        kind = match["type"]
        values[name] = value if kind is None else np.asarray(value).astype(_TYPES.get(kind) or types[kind])
        if name in arrays:
            values[name] = np.asarray(value).astype(arrays[name].dtype)
    for name, array in arrays.items():
        array[...] = values[name]


def _value(code: str, values: Values) -> Any:
    condition, mark, rest = code.partition("?")
    if mark:
        chosen, _, other = rest.partition(":")
        return np.where(_value(condition, values), _value(chosen, values), _value(other, values))
    python = re.sub(r"(\d\.?)f\b", r"\1", code.replace("&&", " and ").replace("||", " or "))
    python = " ".join(re.sub(r"!(?!=)", " not ", python).split())
    return _evaluated(ast.parse(python, mode="eval").body, values)


def _evaluated(node: Any, values: Values) -> Any:
    op: ast.AST
    match node:
        case ast.Constant(value=bool() | int() | float()):
            return node.value
        case ast.Name() if node.id in values:
            return values[node.id]
        case ast.Call(func=ast.Name(id=name)) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_evaluated(each, values) for each in node.args))
        case ast.UnaryOp():
            op, parts = node.op, [node.operand]
        case ast.BinOp():
            op, parts = node.op, [node.left, node.right]
        case ast.Compare(ops=[_]):
            op, parts = node.ops[0], [node.left, *node.comparators]
        case ast.BoolOp(values=[_, _]):
            op, parts = node.op, node.values
        case _:
            raise _Unplayable
    operands = [_evaluated(each, values) for each in parts]
    whole = all(np.asarray(each).dtype.kind in "iub" for each in operands)
    if type(op) not in _OPERATORS or (isinstance(op, ast.Div) and whole):  # C truncates the quotient
        raise _Unplayable
    return _OPERATORS[type(op)](*operands)


_SCIPY = ("fft", "interpolate", "linalg", "ndimage", "signal", "spatial", "special", "stats")


def scipy_modules(cupyx: Any, watch: Watch) -> list[ModuleType]:
    """cupyx.scipy's modules compute with SciPy's functions of the same name."""
    for name in _SCIPY:
        setattr(cupyx.scipy, name, _Scipy(name, watch))
    cupyx.scipy.sparse = Played("cupyx.scipy.sparse")
    cupyx.scipy.sparse.__path__ = []
    cupyx.scipy.sparse.linalg = Played("cupyx.scipy.sparse.linalg")
    return [*(getattr(cupyx.scipy, name) for name in _SCIPY), cupyx.scipy.sparse, cupyx.scipy.sparse.linalg]


class _Scipy(ModuleType):
    def __init__(self, name: str, watch: Any) -> None:
        super().__init__(f"cupyx.scipy.{name}")
        self._plain_name, self._watch = f"scipy.{name}", watch

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._watch.uses_cupyx = True
        try:
            member = getattr(import_module(self._plain_name), name)
        except ImportError as error:
            what = f"cupyx.{self._plain_name} is played by SciPy, which is missing: it cannot be played"
            raise CannotPlay(what) from error
        return lifted(member, self._watch)
