"""Reads the annotations of stages: strings are evaluated, slices made into regions."""

from __future__ import annotations

import inspect
import sys
from contextlib import suppress
from typing import Annotated, Any, TypeVar, get_args, get_origin

from advisor.errors import WorkloadError
from advisor.profiles.schema import ArrayForm
from advisor.strategies.parts import Part, Region, region_of
from advisor.workloads import definition
from advisor.workloads.arguments import FORMS_EXPLAINED
from advisor.workloads.definition import Access, Buffer, StageFunction


def annotated(function: StageFunction, annotation: Any, where: str) -> tuple[Access | None, Any]:
    """The access an annotation carries, and the type it asks for; a string is evaluated."""
    if isinstance(annotation, str):
        annotation = _evaluate(function, annotation, where)
    if isinstance(bare := getattr(annotation, "access", None), Access):
        return bare, Any
    if get_origin(annotation) is not Annotated:
        return None, Any
    wanted, *extras = get_args(annotation)
    for extra in extras:
        access = extra
        if not isinstance(extra, (Access, str)):
            access, _ = annotated(function, extra, where)
        if isinstance(access, Access):
            return access, wanted
    return None, Any


def form_of(wanted: Any, who: str, parameter: str) -> ArrayForm | None:
    """The form of `In[wanted]`: a tensor's class, a Numba array's, or int for the address.

    None for the bare `In` and for NumPy's and CuPy's own arrays. Told by the module's name, so that no
    library is imported. Raises `WorkloadError` for a type that names no form.
    """
    home = str(getattr(wanted, "__module__", "")).partition(".")[0]
    if wanted is Any or isinstance(wanted, TypeVar) or home in ("numpy", "cupy"):
        return None
    if home in ("torch", "numba"):
        return "torch" if home == "torch" else "numba"
    if wanted is int:
        return "pointer"
    raise WorkloadError(
        f"{who} takes buffer {parameter!r} as {getattr(wanted, '__name__', wanted)!s}, "
        "which is not a supported array type",
        next_step=f"Write {parameter}: In[torch.Tensor] or In[int], or name the form: {FORMS_EXPLAINED}",
    )


def part_of(key: Any, buffer: Buffer, where: str) -> Part | None:
    """What the stage touches of the buffer; None for all of it. Raises `WorkloadError` for no region."""
    if key is None or isinstance(key, Region):
        return key or buffer.valid
    if buffer.valid is not None:
        raise WorkloadError(
            f"{where}: its annotation has a slice, but {buffer.valid!r} already says how much of it is valid",
            next_step=f"Remove the slice, or valid={buffer.valid!r}.",
        )
    try:
        region = region_of(key, buffer.dimensions)
    except ValueError as problem:
        raise WorkloadError(
            f"{where}: {problem}",
            next_step="Write integers within the shape, slices without a step, `...`: InOut[0, :], In[:16].",
        ) from None
    return None if region.share == 1 else region


def _evaluate(function: StageFunction, text: str, where: str) -> Any:
    """A string annotation in the scope of its function; names of our own that a local import hides, too.

    A name that only annotations use is not in the closure: it may be a library that is imported already.
    Raises `WorkloadError` for a part that needs a name that is not known here.
    """
    plain = inspect.unwrap(function)
    problem: NameError | None = None
    with suppress(Exception):
        closure = inspect.getclosurevars(plain).nonlocals
        scope = {**getattr(plain, "__globals__", {}), **closure}
        try:
            return eval(text, scope)
        except NameError:
            try:
                return eval(text, {**sys.modules, **vars(definition), **scope})
            except NameError as unknown:
                problem = unknown
    if problem is not None and ":" in text:
        raise WorkloadError(
            f"{where}: the annotation {text} cannot be evaluated: {problem}",
            next_step="With `from __future__ import annotations`, an annotation can use only names of the "
            "module and names that the stage's body uses. Remove that import, or write a number.",
        )
    return getattr(definition, text.rpartition(".")[2], None)
