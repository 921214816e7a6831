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
from typing import Any

import numpy as np

from advisor.measure.cupy_mock.arrays import stripped, wrapped
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


def elementwise_kernel(watch: Any) -> type:
    class ElementwiseKernel:
        def __init__(
            self, in_params: str, out_params: str, operation: str, name: str = "kernel", *_: Any, **__: Any
        ) -> None:
            self.name, self._operation = name, operation
            self._inputs, self._outputs = _parameters(in_params), _parameters(out_params)

        def __call__(self, *args: Any, size: int | None = None, **_: Any) -> Any:
            types, values = _bound((*self._inputs, *self._outputs), args)
            shapes = [np.shape(values[name]) for raw, _, name in self._inputs if not raw]
            shape = np.broadcast_shapes(*shapes) if size is None else (size,)
            results = _results(self._outputs, types, values, shape)
            self._run({**values, **results}, types)
            return _returned(results, watch)

        def _run(self, values: Values, types: Values) -> None:
            try:
                if any(raw for raw, *_ in (*self._inputs, *self._outputs)):
                    raise _Unplayable
                _run(self._operation, values, types, [name for *_, name in self._outputs])
            except (_Unplayable, SyntaxError):
                not_run(self.name, watch)

    return ElementwiseKernel


def reduction_kernel(watch: Any) -> type:
    class ReductionKernel:
        def __init__(self, in_params: str, out_params: str, *operation: Any, **named: Any) -> None:
            names = ("map_expr", "reduce_expr", "post_map_expr", "identity", "name")
            its = dict(zip(names, operation, strict=False)) | named
            self.name = its.get("name", "reduce_kernel")
            self._parts = its["map_expr"], its["reduce_expr"], its["post_map_expr"]
            self._inputs, self._outputs = _parameters(in_params), _parameters(out_params)

        def __call__(self, *args: Any, axis: Any = None, keepdims: bool = False, **_: Any) -> Any:
            types, values = _bound((*self._inputs, *self._outputs), args)
            whole = np.broadcast_arrays(*(values[name] for *_, name in self._inputs))[0]
            shape = np.shape(np.sum(whole, axis=axis, keepdims=keepdims))
            results = _results(self._outputs, types, values, shape)
            before, reduction, after = self._parts
            try:
                if reduction.strip() not in _REDUCTIONS:
                    raise _Unplayable
                mapped = np.broadcast_to(_value(before, values), whole.shape)
                a = _REDUCTIONS[reduction.strip()].reduce(mapped, axis=axis, keepdims=keepdims)
                _run(after, {**values, **results, "a": a}, types, list(results))
            except (_Unplayable, SyntaxError):
                not_run(self.name, watch)
            return _returned(results, watch)

    return ReductionKernel


def not_run(name: str, watch: Any) -> None:
    watch.runs_all_kernels = False
    effect = "was not run; without a GPU its new arrays are 0, others keep their values"
    tell(f"{user_line()}: kernel {name} {effect}")


def _parameters(text: str) -> list[tuple[bool, str, str]]:
    """Whether it is raw, type and name of each: "raw T x, int32 n"."""
    words = [part.split() for part in text.split(",") if part.strip()]
    return [("raw" in each[:-2], each[-2], each[-1]) for each in words]


def _bound(parameters: Sequence[tuple[bool, str, str]], args: Sequence[Any]) -> tuple[Values, Values]:
    """The types that letters stand for, and the arguments by name."""
    types: Values = {}
    values: Values = {}
    for (_, kind, name), argument in zip(parameters, stripped(tuple(args)), strict=False):
        values[name] = argument
        if len(kind) == 1:
            types.setdefault(kind, np.asarray(argument).dtype)
    return types, values


def _results(outputs: Sequence[tuple[bool, str, str]], types: Values, values: Values, shape: Any) -> Values:
    """The arrays that were given for the outputs, and new ones."""
    return {
        name: values[name] if name in values else np.zeros(shape, types.get(kind, kind))
        for _, kind, name in outputs
    }


def _returned(results: Values, watch: Any) -> Any:
    arrays = tuple(wrapped(array, watch) for array in results.values())
    return arrays if len(arrays) > 1 else arrays[0]


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
    if type(op) not in _OPERATORS or (isinstance(op, ast.Div) and whole):  # C cuts the quotient
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
        return lambda *args, **options: wrapped(member(*stripped(args), **stripped(options)), self._watch)
