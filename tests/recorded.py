"""Scripts recorded in this process: a GPU library of three calls, and a clock that the script advances."""

from __future__ import annotations

import builtins
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fakes import FakeClock

from advisor.measure.recording.assembling import Assembler
from advisor.measure.recording.calls import Calls, Gpu
from advisor.measure.recording.host_memory import Contents, Origins
from advisor.measure.recording.loops import NAME, Lines, Loops
from advisor.measure.recording.recorder import ScriptRecorder
from advisor.profiles.crossings import CrossingKind, ScriptRun


class Mark:
    """A CUDA event."""

    def __init__(self, clock: FakeClock, seconds: float = 0.0) -> None:
        self._clock, self.seconds = clock, seconds

    def record(self, _: object) -> None:
        self.seconds = self._clock.now


class Recording:
    """Runs sources as files of one folder; `gpu` is what they call."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *, has_gpu: bool = True) -> None:
        self.folder = folder
        self.clock = clock = FakeClock()
        for module in ("calls", "records"):
            monkeypatch.setattr(f"advisor.measure.recording.{module}.perf_counter", clock)
        self.loops = Loops(clock)
        lines = Lines(self.loops)
        self.origins = Origins(lines)
        self.recorder = ScriptRecorder(
            self.loops, lines, self.origins, Contents(whole=not has_gpu), clock, has_gpu=has_gpu
        )
        self.device = Gpu(
            event=lambda: Mark(clock), elapsed=lambda begin, end: 1e3 * (end.seconds - begin.seconds)
        )
        self.calls = Calls("cupy", self.recorder, self.device)
        self.recorder.readers["cupy"] = self.device.seconds_between
        monkeypatch.setattr(builtins, NAME, self.loops.table, raising=False)
        self.gpu = SimpleNamespace(
            up=self._crossing("upload"),
            down=self._crossing("download"),
            wait=self._crossing("wait"),
            lock=self._crossing("lock"),
            synchronize=self._crossing("wait", "Stream.synchronize"),
            work=self._work,
            pause=self.clock.advance,
            issue=self._issue,
            finish=self.calls.synchronizing("finish")(clock.advance),
            host=np.zeros(2, np.int32),
            thread=lambda call, *args: ThreadPoolExecutor(1).submit(call, *args).result(),
        )

    def run(self, source: str, name: str = "s.py") -> dict[str, Any]:
        """The script's names afterwards. SystemExit ends it as it would."""
        file = self.folder / name
        file.write_text(source, encoding="utf-8")
        names: dict[str, Any] = {"gpu": self.gpu, "np": np}
        self.recorder.recording = True
        with self.origins.watching(), suppress(SystemExit):
            exec(self.loops.compiled(source, str(file)), names)
        self.recorder.stop()
        self.loops.settle()
        self.recorder.settle()
        return names

    def record(self, named: int | None = None) -> ScriptRun:
        loop = self.loops.at(str(self.folder / "s.py"), named) if named else None
        run = ScriptRun(seconds=self.clock.now, overhead_seconds=0.0)
        return Assembler(self.recorder, self.folder, lambda _: (0.0, 1e-4), loop).completed(run)

    def _crossing(self, kind: CrossingKind, name: str = "") -> Any:
        """A call that crosses with the bytes of an array; factor: by how much converting its type makes it
        larger before."""

        def take(host: Any = None, seconds: float = 0.001, **_: int) -> None:
            self.clock.advance(seconds)

        def of(host: Any) -> Any:
            return self.gpu.host if host is None and kind != "wait" else host

        def size(host: Any = None, *_: Any, **__: Any) -> tuple[CrossingKind, int]:
            return kind, getattr(of(host), "nbytes", 0)

        def cross(kind: CrossingKind, call: Any, host: Any = None, *args: Any, **options: Any) -> None:
            event = self.calls.event(kind, name or kind, memory="pageable", host=of(host))
            event.device, event.locate = options.get("device"), lambda place: (place, None)
            event.bytes = options.get("factor", 1) * size(host)[1]
            self.calls.run(event, call, (host, *args), options, blocks=False)
            self.calls.crossed(event)

        return self.calls.copying(size, cross)(take)

    def _issue(self, stream_seconds: float) -> None:
        """An asynchronous upload: its call takes a millisecond, the copy longer."""
        event = self.calls.event("upload", "issue", asynchronous=True, memory="pinned", bytes=8)
        self.calls.run(event, self.clock.advance, (0.001,), {}, blocks=False)
        event.marks = (0, Mark(self.clock)), (0, Mark(self.clock, stream_seconds))
        self.calls.crossed(event)

    def _work(self, seconds: float = 0.01, *reads: int) -> None:
        self.recorder.launched(reads)
        self.clock.advance(seconds)
