"""On two GPUs: what a split gains over one, what copies between them reach, what the loop adds by hand."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any

from fakes import job

from advisor.errors import NothingMeasured
from advisor.measure.backends import gpu_count, open_backend
from advisor.measure.frames import Ranges
from advisor.measure.placed_workload import PlacedWorkload, place
from advisor.strategies.backend import Backend
from advisor.workloads.loading import load
from tests.benchmarks.timing import alternate, paired_ratio, show

WORKLOADS = Path(__file__).parents[2] / "workloads"
SPLIT_GAIN, PEER_SHARE, MOST_ADDED = 1.8, 0.95, 1.01
FRAMES = 40
LARGE = 1 << 24


def run() -> None:
    """Each figure by itself: one that fails is told in full, and the others are still taken."""
    if gpu_count() < 2:
        raise NothingMeasured(f"two GPUs are needed; CUDA sees {gpu_count()}", next_step="Run it elsewhere.")
    backend = open_backend("cuda")
    backend.open_gpus(2)
    for part in (peer_copies, split_gain, by_hand):
        begin = perf_counter()
        try:
            part(backend)
        except Exception:
            traceback.print_exc()
            show(part.__name__, "failed", "a figure", met=False)
        print(f"    {part.__name__}: {perf_counter() - begin:.0f} s", flush=True)


@contextmanager
def standing(backend: Backend, name: str, strategy: str, n: int = LARGE) -> Iterator[PlacedWorkload]:
    """The example on its buffers, its first frames run."""
    file = WORKLOADS / f"{name}.py"
    loaded = load(file, None, {"n": str(n)})
    with place(job(file=str(file), strategy=strategy), loaded, backend, Ranges()) as made:
        made.loop.run_setup()
        made.loop.first_frame()
        for index in range(1, 6):
            made.loop.frame(index)
        yield made


def split_gain(backend: Backend) -> None:
    """Frames without their host stages."""
    for strategy in ("zero-copy", "registered", "pinned"):
        device_path = []
        for name in ("vector_add", "two_gpus_split"):
            seconds = []
            with standing(backend, name, strategy) as made:
                for index in range(10, 10 + FRAMES):
                    made.loop.reset()
                    begin = perf_counter()
                    made.loop.frame(index)
                    seconds.append(perf_counter() - begin - sum(made.loop.host_seconds.values()))
            device_path.append(median(seconds))
        one, two = device_path
        what = f"split of 2^24, {strategy}: times one GPU's device path"
        figure = f"{one / two:.2f} ({one * 1e3:.2f} / {two * 1e3:.2f} ms)"
        show(what, figure, f">= {SPLIT_GAIN}", met=one / two >= SPLIT_GAIN)


def peer_copies(backend: Backend) -> None:
    """The copies of the pipeline against bare ones in their place.

    In a frame both GPUs rest while the host produces, and the first has just written what is copied: so it is
    here before each bare copy, which comes behind the same event.
    """
    n, bare, (first, second) = 1 << 26, list[float](), backend.gpus
    with standing(backend, "two_gpus_pipeline", "peer", n) as made:
        timed = [made.loop.timed_frame(10 + i) for i in range(10)]
        ours = median(seconds["to-peer"] for seconds in timed)
        image, features = made.placed["image"], made.placed["features"]
        ends = features.on(1).device_pointer, 1, features.on(0).device_pointer, 0
        for _ in range(20):
            sleep(median(sum(seconds.values()) for seconds in timed))
            backend.xp.multiply(image.device, 2, out=features.on(0).device)
            second.order(second.stream, first.mark())
            second.hold(1e-4)
            begin = second.timestamp()
            backend.xp.cuda.runtime.memcpyPeerAsync(*ends, 4 * n, second.stream.ptr)
            end = second.timestamp()
            second.synchronize()
            bare.append(second.seconds_between(begin, end))
    ran, alike = (f"{4 * n / each / 1e9:.0f}" for each in (ours, median(bare)))
    figure = f"{median(bare) / ours:.3f} ({ran} GB/s; bare {alike})"
    met = median(bare) / ours >= PEER_SHARE
    show("peer copies of the pipeline", figure, f">= {PEER_SHARE}", met=met)


def by_hand(backend: Backend) -> None:
    for what, strategy, written in (("split", "pinned", _split), ("pipeline", "peer", _pipeline)):
        with standing(backend, f"two_gpus_{what}", strategy) as made:
            hand = written(made, backend)
            hand()
            times = alternate(partial(made.loop.frame, 1), hand, 150)
        ratio, low, high = paired_ratio(times)
        title = f"frame loop, {what}, {strategy}, 2^24: to one by hand"
        figure = f"{ratio:.4f} ({low:.4f} to {high:.4f}) of {median(times[1]) * 1e3:.2f} ms"
        show(title, figure, f"<= {MOST_ADDED}", met=ratio <= MOST_ADDED)


def _split(made: PlacedWorkload, backend: Backend) -> Callable[[], None]:
    """Both halves uploaded and added at once, each on its GPU's stream."""
    produce, *adding, consume = (stage.stage.function for stage in made.bound.frame)
    runtime, streams, half = backend.xp.cuda.runtime, [gpu.stream for gpu in backend.gpus], 2 * LARGE
    a, b, c = (made.placed[name] for name in "abc")
    on_gpus = [[each.on(gpu).device for each in (a, b, c)] for gpu in range(2)]
    up, down = runtime.memcpyHostToDevice, runtime.memcpyDeviceToHost

    def ends(buffer: Any, gpu: int) -> tuple[int, int]:
        """Its half on the GPU, and on the host."""
        return buffer.on(gpu).device_pointer + gpu * half, buffer.host_pointer + gpu * half

    uploads = [[(*ends(each, gpu), half, up, streams[gpu].ptr) for each in (a, b)] for gpu in range(2)]
    downloads = [(*reversed(ends(c, gpu)), half, down, streams[gpu].ptr) for gpu in range(2)]

    def frame() -> None:
        produce(a.host, b.host, 1)
        for gpu, add in enumerate(adding):
            for copy in uploads[gpu]:
                runtime.memcpyAsync(*copy)
            runtime.setDevice(gpu)
            add(backend.xp, *on_gpus[gpu])
        runtime.setDevice(0)
        for copy in downloads:
            runtime.memcpyAsync(*copy)
        for stream in streams:
            stream.synchronize()
        consume(c.host)

    return frame


def _pipeline(made: PlacedWorkload, backend: Backend) -> Callable[[], None]:
    """Upload, kernel, copy to the other GPU behind an event, kernel, download."""
    produce, scale, root, consume = (stage.stage.function for stage in made.bound.frame)
    runtime, (first, second) = backend.xp.cuda.runtime, (gpu.stream for gpu in backend.gpus)
    image, features, result = (made.placed[name] for name in ("image", "features", "result"))
    done, size = backend.xp.cuda.Event(disable_timing=True), 4 * LARGE
    there, here = features.on(1), features.on(0)
    up = image.device_pointer, image.host_pointer, size, runtime.memcpyHostToDevice, first.ptr
    across = there.device_pointer, 1, here.device_pointer, 0, size, second.ptr
    down = result.host_pointer, result.device_pointer, size, runtime.memcpyDeviceToHost, second.ptr

    def frame() -> None:
        produce(image.host, 1)
        runtime.memcpyAsync(*up)
        scale(backend.xp, image.device, here.device)
        done.record(first)
        second.wait_event(done)
        runtime.memcpyPeerAsync(*across)
        runtime.setDevice(1)
        root(backend.xp, there.device, result.device)
        runtime.setDevice(0)
        runtime.memcpyAsync(*down)
        second.synchronize()
        consume(result.host)

    return frame
