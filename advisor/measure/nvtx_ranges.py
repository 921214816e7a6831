"""NVTX ranges: our own, and those of a script.

Ours are in the domain `advisor`: strategy:<name> > frame > host:<stage>, to-device, and so on. Names are few
and made once, since nvtx keeps every distinct message for ever; what varies (the frame's index) is the
payload. With no tool attached a range costs about 0.05 µs. A script's are timed by events on the stream: a
range's end waits for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import nvtx

from advisor.profiles.row_figures import ScriptRange


class Ranges:
    """Pushes and pops ranges; every push is popped in every path."""

    def __init__(self, domain: Any = None) -> None:
        self._domain: Any = domain or nvtx.get_domain("advisor")
        self._frame = self.attributes("frame")
        self.push, self.pop = _calls(self._domain)

    @property
    def listening(self) -> bool:
        """A tool is attached; else ranges are made for nobody. Tools attach when a process starts."""
        return self._frame is not None

    def attributes(self, message: str, category: str | None = None) -> Any:
        """What `push` takes for a range of that name; None when no tool listens."""
        more = {} if category is None else {"category": category}
        return self._domain.get_event_attributes(message=message, **more)

    def push_frame(self, index: int) -> None:
        """Opens the range of one frame, its index as payload."""
        if self._frame is not None:
            self._frame.payload = index
        self.push(self._frame)

    @contextmanager
    def strategy(self, name: str) -> Iterator[None]:
        self.push(self.attributes(f"strategy:{name}"))
        try:
            yield
        finally:
            self.pop()


def _calls(domain: Any) -> tuple[Callable[[Any], object], Callable[[], object]]:
    """Push and pop of a domain. Before nvtx 0.2.12 a domain had none, only functions that take its handle."""
    if hasattr(domain, "push_range"):
        return domain.push_range, domain.pop_range
    from nvtx import _lib

    handle = domain.handle
    return (lambda attributes: _lib.push_range(attributes, handle)), (lambda: _lib.pop_range(handle))


MOST = 20_000
"""Ranges that are timed; a script with more of them than that has them in a loop."""


class Marks(Protocol):
    """The stream's clock, of `advisor.measure.backends.imposing`."""

    def mark(self) -> Any:
        """A mark in the work of the current stream."""

    def seconds_between(self, begin: Any, end: Any) -> float:
        """Time between two marks that were reached."""


class RangeWatch:
    """Hears ranges begin and end, by CuPy's functions (`time_range` too) and by the nvtx package's."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self._open: list[tuple[str, Any]] = []
        self._closed: list[tuple[str, Any, Any]] = []

    def begin(self, name: object) -> None:
        self._open.append((str(name or "range"), self._marks.mark()))

    def end(self) -> None:
        """The innermost one closes; an end without a begin is the script's own affair."""
        if self._open:
            name, began = self._open.pop()
            if len(self._closed) < MOST:
                self._closed.append((name, began, self._marks.mark()))

    def ranges(self) -> tuple[ScriptRange, ...]:
        """All times of each name together, in the order they first ended; the device must be idle."""
        times_of: dict[str, list[float]] = {}
        for name, began, ended in self._closed:
            times_of.setdefault(name, []).append(self._marks.seconds_between(began, ended))
        return tuple(
            ScriptRange(name=name[:200], count=len(times), seconds=max(sum(times), 0.0))
            for name, times in times_of.items()
        )

    def listen_to_nvtx(self) -> None:
        """Puts listeners around the package's functions; `annotate` as decorator and with `with`."""
        annotate, push, pop = nvtx.annotate, nvtx.push_range, nvtx.pop_range
        watch = self

        class Annotate(annotate):  # type: ignore[misc, valid-type]
            def __init__(self, message: Any = None, *given: Any, **named: Any) -> None:
                super().__init__(message, *given, **named)
                self._heard = message

            def __enter__(self) -> Any:
                watch.begin(self._heard)
                return super().__enter__()

            def __exit__(self, *why: Any) -> Any:
                try:
                    return super().__exit__(*why)
                finally:
                    watch.end()

            def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
                def called(*given: Any, **named: Any) -> Any:
                    watch.begin(self._heard or function.__name__)
                    try:
                        return heard(*given, **named)
                    finally:
                        watch.end()

                heard = super().__call__(function)
                called.__name__, called.__doc__ = function.__name__, function.__doc__
                return called

        nvtx.annotate = Annotate
        nvtx.push_range = self.opening(push)
        nvtx.pop_range = self.closing(pop)

    def opening(self, push: Callable[..., Any]) -> Callable[..., Any]:
        """A function that begins a range by its name, with a listener before it."""

        def call(message: Any = None, *given: Any, **named: Any) -> Any:
            self.begin(message)
            return push(message, *given, **named)

        return call

    def closing(self, pop: Callable[..., Any]) -> Callable[..., Any]:
        """A function that ends a range, with a listener before it."""

        def call(*given: Any, **named: Any) -> Any:
            self.end()
            return pop(*given, **named)

        return call
