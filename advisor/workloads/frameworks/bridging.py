"""From the forms that a stage asks for to its arguments: shared, checked by address, never copied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from advisor.errors import WorkloadError
from advisor.profiles.schema import ArrayForm
from advisor.strategies.backend import Backend
from advisor.workloads.binding import BoundStage, BoundWorkload
from advisor.workloads.definition import StageFunction
from advisor.workloads.frameworks.base import Bridge, ExchangeBridge, PointerBridge, Unsharable
from advisor.workloads.frameworks.libraries import NumbaBridge, TorchBridge

_BRIDGES: dict[ArrayForm, type[Bridge]] = {
    "torch": TorchBridge,
    "numba": NumbaBridge,
    "pointer": PointerBridge,
    "dlpack": ExchangeBridge,
}


class StageBridges:
    """The bridges of one stage on one backend; none where it takes plain arrays."""

    def __init__(self, stage: BoundStage, backend: Backend) -> None:
        """Loads what the stage asks for. Raises `WorkloadError` where a library is missing."""
        self._stage = stage
        self.forms: Mapping[str, ArrayForm] = stage.forms_on(cpu=backend.xp is np)
        wanted = dict.fromkeys(self.forms.values())
        self._bridges = {form: _BRIDGES[form](backend, stage.side) for form in wanted}

    def probe(self, dtypes: Mapping[str, np.dtype[Any]]) -> None:
        """Raises `WorkloadError` for a buffer whose dtype a library does not have."""
        for buffer, form in self.forms.items():
            try:
                self._bridges[form].probe(dtypes[buffer])
            except Unsharable as problem:
                raise self._refused(buffer, str(dtypes[buffer]), form, problem) from None

    def shared(self, buffer: str, array: Any) -> Any:
        """The array in the form that the stage asks for. Raises `WorkloadError` where it would be a copy."""
        form = self.forms.get(buffer)
        if form is None:
            return array
        try:
            return self._bridges[form].share(array)
        except Unsharable as problem:
            raise self._refused(buffer, str(array.dtype), form, problem) from None

    def stream(self, plain: Any) -> Any:
        """The stream as the stage's library has it; `plain` where no library has its own."""
        return next((bridge.stream() for bridge in self._bridges.values()), plain)

    def around(self, function: StageFunction, *, takes_stream: bool) -> StageFunction:
        """The function in all that its libraries need around it; itself where they need nothing."""
        for bridge in self._bridges.values():
            function = bridge.around(function, takes_stream=takes_stream)
        return function

    def _refused(self, buffer: str, dtype: str, form: ArrayForm, problem: Unsharable) -> WorkloadError:
        return WorkloadError(
            f"stage {self._stage.name!r} asks for buffer {buffer!r} ({dtype}) as "
            f"{self._bridges[form].library}, which cannot share its memory: {problem}",
            next_step="Use a dtype the library supports, or take the buffer as a NumPy or CuPy array.",
        )


def require_libraries(bound: BoundWorkload, backend: Backend) -> None:
    """Loads every library that a stage asks for and asks it for its dtypes, before anything is placed.

    So that the time to import it is no strategy's set-up. Raises `WorkloadError`.
    """
    dtypes = {name: buffer.element for name, buffer in bound.workload.buffers.items()}
    for stage in bound.stages:
        StageBridges(stage, backend).probe(dtypes)
