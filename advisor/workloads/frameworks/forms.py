"""The forms in which a stage may ask for its buffers, by name or by the type in an annotation."""

from __future__ import annotations

import difflib
from typing import Any, TypeVar, get_args

from advisor.errors import WorkloadError
from advisor.profiles.schema import ArrayForm

FORMS: tuple[ArrayForm, ...] = get_args(ArrayForm)
_EXPLAINED = (
    'arrays="torch" gives tensors, "numba" Numba arrays, "pointer" addresses as int, "dlpack" objects '
    "for from_dlpack; without it a stage gets NumPy or CuPy arrays."
)


def checked(arrays: object, stage: str) -> ArrayForm | None:
    """The form that `arrays=` names. Raises `WorkloadError` for any other value."""
    for form in FORMS:
        if arrays == form:
            return form
    if arrays is None:
        return None
    near = difflib.get_close_matches(str(arrays), FORMS, n=1)
    raise WorkloadError(
        f"stage {stage!r}: arrays is {arrays!r}, which is none of {', '.join(FORMS)}"
        + (f"; did you mean {near[0]!r}?" if near else ""),
        next_step=_EXPLAINED,
    )


def of_type(wanted: Any, stage: str, parameter: str) -> ArrayForm | None:
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
        f"stage {stage!r} wants buffer {parameter!r} as {getattr(wanted, '__name__', wanted)!s}, "
        "which is no array that advisor can make of a buffer",
        next_step=f"Write {parameter}: In[torch.Tensor] or In[int], or name the form: {_EXPLAINED}",
    )
