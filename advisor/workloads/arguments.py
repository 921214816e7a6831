"""Annotations of stages' parameters; the checked arguments of `Buffer`, `host`, `device` and `@workload`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
from typing_extensions import TypeVar

from advisor.errors import WorkloadError, nearest
from advisor.profiles.schema import AccessMode, ArrayForm

FORMS: tuple[ArrayForm, ...] = get_args(ArrayForm)
FORMS_EXPLAINED = (
    'arrays="torch" gives tensors, "numba" Numba arrays, "pointer" addresses as int, "dlpack" objects '
    "for from_dlpack; without it a stage gets NumPy or CuPy arrays."
)

_DEFERRED: Mapping[str, Callable[[object], object]] = {
    "a coroutine function": inspect.iscoroutinefunction,
    "a generator function": inspect.isgeneratorfunction,
    "an asynchronous generator function": inspect.isasyncgenfunction,
}


def integer_of(value: object, what: str, least: int, most: int | None, next_step: str) -> int:
    """The number itself. Raises `WorkloadError` for what is no integer within the limits."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):  # type: ignore[operator]
        limits = f", {least} or more" if most is None else f" from {least} to {most}"
        raise WorkloadError(f"{what} is {value!r}; it must be an integer{limits}", next_step=next_step)
    return int(value)  # type: ignore[call-overload, no-any-return]


def form_of(arrays: object, stage: str) -> ArrayForm | None:
    """The form that `arrays=` names. Raises `WorkloadError` for any other value."""
    for form in FORMS:
        if arrays == form:
            return form
    if arrays is None:
        return None
    raise WorkloadError(
        f"stage {stage!r}: arrays is {arrays!r}, which is not one of {', '.join(FORMS)}"
        f"{nearest(str(arrays), FORMS)}",
        next_step=FORMS_EXPLAINED,
    )


def shape_of(shape: object) -> tuple[int, ...]:
    """The dimensions. Raises `WorkloadError` for what is no shape."""
    parts = shape if isinstance(shape, (tuple, list)) else (shape,)
    if not parts or not all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in parts):
        raise WorkloadError(
            f"the shape is {shape!r}; it must be a positive integer or a tuple of them",
            next_step="Write Buffer(1024, np.float32) or Buffer((480, 640), np.uint8).",
        )
    return tuple(int(n) for n in parts)


def dtype_of(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """The NumPy dtype. Raises `WorkloadError` for one without a fixed size, and for objects."""
    try:
        element = np.dtype(dtype)
    except (TypeError, ValueError):
        element = None
    unusable = element is None or element.hasobject or element.itemsize == 0 or element.subdtype is not None
    if dtype is None or element is None or unusable:
        wrong = f"the dtype is {dtype!r}; it must be a NumPy dtype of fixed size without objects"
        raise WorkloadError(wrong, next_step="Write Buffer(1024, np.float32), for example.")
    return element


def function_of(function: object, where: str) -> Callable[..., object]:
    """The function itself. Raises `WorkloadError` for what cannot be called."""
    if not callable(function):
        step = "Pass the function itself; do not call it."
        raise WorkloadError(f"{where} was given {function!r}, which is not a function", next_step=step)
    return function


def require_plain(function: Callable[..., object], who: str) -> None:
    """Raises `WorkloadError` for a function whose body does not run when it is called."""
    called = (function, getattr(function, "__call__", None))  # noqa: B004
    for kind, tells in _DEFERRED.items():
        if any(map(tells, called)):
            raise WorkloadError(
                f"{who} is {kind}: calling it does not run its body",
                next_step="Write a plain function without async or yield. To call one that has them, run it "
                "to completion: asyncio.run(...), or a for loop.",
            )


T = TypeVar("T", default=Any)
"""The type a stage gets the buffer as: `In[torch.Tensor]`; by default the side's own array."""


@dataclass(frozen=True)
class Access:
    """A stage's access to a buffer, or to a part of it; carried by the annotations `In`, `Out` and `InOut`.

    part: what stands in the brackets of `In[0, :]`; None for all of the buffer.
    """

    mode: AccessMode
    part: Any = None


if TYPE_CHECKING:  # to a type checker a buffer is whatever the stage does with it
    In: TypeAlias = Annotated[T, Access("in")]
    Out: TypeAlias = Annotated[T, Access("out")]
    InOut: TypeAlias = Annotated[T, Access("inout")]
else:

    class _Annotation:
        """`In[torch.Tensor]` says the form that the stage wants, `In[0, :]` the part that it touches."""

        access: ClassVar[Access]

        def __class_getitem__(cls, key: Any) -> Any:
            indices = key if isinstance(key, tuple) else (key,)
            # What an array is indexed with is no type.
            if any(index is ... or isinstance(index, (int, np.integer, slice)) for index in indices):
                return Annotated[Any, Access(cls.access.mode, key)]
            return Annotated[key, cls.access]

    class In(_Annotation):
        """The stage reads the buffer and leaves it as it is. On the host it gets a read-only view."""

        access = Access("in")

    class Out(_Annotation):
        """The stage overwrites all of the buffer and needs nothing of what was there."""

        access = Access("out")

    class InOut(_Annotation):
        """The stage reads the buffer, or changes a part of it."""

        access = Access("inout")
