"""The annotations of a stage's parameters: what it does to a buffer, or to a part of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

import numpy as np
from typing_extensions import TypeVar

from advisor.profiles.schema import AccessMode

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
            if is_part(key):
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


def is_part(key: object) -> bool:
    """Whether this is what an array is indexed with, and not a type."""
    parts = key if isinstance(key, tuple) else (key,)
    return any(part is ... or isinstance(part, (int, np.integer, slice)) for part in parts)
