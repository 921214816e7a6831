"""Placements of which facts do not say all: how a buffer moves, what is hinted, what stays on one side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from advisor.profiles.schema import BufferRecord, Device, Side, WorkloadRecord
from advisor.strategies.arena import Arena
from advisor.strategies.backend import Hint
from advisor.strategies.parts import WHOLE, Bounds, index_of, overlapping
from advisor.strategies.placement import Layout, Placed, Placement, flag_is_off, on_each
from advisor.strategies.schedule import Traits


class Staged(Placement):
    """To the device as cupy.asarray does it, by a CPU copy into CuPy's pinned pool and an asynchronous copy;
    to the host as cupy.asnumpy does it, into pageable memory."""

    def place(self, arena: Arena, layout: Layout, gpus: Sequence[int] = (0,)) -> Placed:
        """A host array that all GPUs share, and device arrays of CuPy's pool; every move makes a new one, as
        the calls do."""
        arena.staging(layout.nbytes)
        begun = layout.at(arena.backend, arena.pageable(layout.nbytes), None)
        on_host: dict[str, Any] = {"host": begun.host}

        def on(gpu: int) -> Placed:
            backend, on_gpu = arena.on(gpu).backend, arena.on(gpu).pool_array(layout.shape, layout.dtype)
            arrays = {"device": on_gpu}

            def to_device(_: Any) -> Any:
                arrays["device"] = backend.upload(on_host["host"])
                return arrays["device"]

            def to_host(_: Any) -> Any:
                on_host["host"] = backend.download(arrays["device"])
                return on_host["host"]

            def move_part(side: Side, part: Bounds, _: Any) -> None:
                """`device[:n] = cupy.asarray(host[:n])`, and the other way round."""
                index = index_of(part)
                if not on_host["host"][index].size:
                    backend.synchronize()
                elif side == "device":
                    with backend.current():
                        arrays["device"][index] = backend.upload(on_host["host"][index])
                else:
                    on_host["host"][index] = backend.download(arrays["device"][index])

            placed = replace(begun, device=on_gpu, by_host=True, remade=True)
            return replace(placed, to_device=to_device, to_host=to_host, move_part=move_part)

        return on_each(gpus, on)


class ManagedPrefetch(Placement):
    """cudaMallocManaged, and cudaMemPrefetchAsync to the side that needs it at each change of side; contents
    that are overwritten there are discarded first, where the driver can (CUDA 13). Where
    concurrentManagedAccess is 0, cudaStreamAttachMemAsync in its place.
    """

    def _reached(self, arena: Arena, host: int, layout: Layout) -> Placed:
        backend, placed = arena.backend, super()._reached(arena, host, layout)
        attaching = flag_is_off(backend.device(), "concurrent_managed_access")

        def move(side: Side, part: Bounds, _: Any) -> None:
            """From its first to its last byte: pages hold what lies between rows, too."""
            spans = layout.spans(part)
            if attaching and spans:
                backend.attach(host, side)
            elif spans:
                first, last = spans[0].offset, spans[-1].end
                backend.prefetch(host + first, last - first, side)

        discard = partial(backend.discard, host, layout.nbytes)
        return replace(
            placed,
            to_device=partial(move, "device", WHOLE),
            to_host=partial(move, "host", WHOLE),
            move_part=move,
            bring=discard if backend.discards and not attaching else None,
        )


@dataclass(frozen=True, kw_only=True)
class ManagedAdvised(ManagedPrefetch):
    """Like managed-prefetch, with cudaMemAdvise derived from the annotations: read-mostly for what is written
    in set-up only; else preferred location on the GPU, accessed by the host where host stages use it. On
    several GPUs each prefers the regions that it alone touches, and the first that uses it the rest.
    """

    regions: tuple[tuple[int, Bounds], ...] = ()
    """The parts of the buffer that stages on several GPUs touch, each with its GPU."""

    def adapted(self, buffer: BufferRecord, workload: WorkloadRecord) -> ManagedAdvised:
        on_gpus = [s for s in workload.stages if s.side == "device" and s.name in buffer.access]
        touched = dict.fromkeys((stage.gpu, buffer.regions.get(stage.name, WHOLE)) for stage in on_gpus)
        several = len({gpu for gpu, _ in touched}) > 1
        host, device = workload.touching(buffer, "host"), workload.touching(buffer, "device")
        hints: tuple[Hint, ...] = ()
        if all(mode == "in" for mode in (*device.values(), *host.values())):
            hints = ("read-mostly",)
        elif device:
            hints = ("prefer-device", "accessed-by-host") if host else ("prefer-device",)
        return replace(self, hints=hints, regions=tuple(touched) if several else ())

    def unavailable(self, device: Device) -> str | None:
        if flag_is_off(device, "concurrent_managed_access"):
            return f"{device.name} does not support hints on managed memory (concurrentManagedAccess is 0)"
        return super().unavailable(device)

    def place(self, arena: Arena, layout: Layout, gpus: Sequence[int] = (0,)) -> Placed:
        """One memory, with its hints given before it is first touched. A GPU prefers what no other one
        touches, and has the rest mapped."""
        placed = super().place(arena, layout, gpus)
        for hint in self.hints:
            arena.on(gpus[0]).backend.advise(placed.host_pointer, layout.nbytes, hint)
        for gpu, part in self.regions if "prefer-device" in self.hints else ():
            alone = not any(other != gpu and overlapping(part, bounds) for other, bounds in self.regions)
            if spans := layout.spans(part):
                first, size = spans[0].offset, spans[-1].end - spans[0].offset
                hint = "prefer-device" if alone else "accessed-by-device"
                arena.on(gpu).backend.advise(placed.host_pointer + first, size, hint)
        return placed


@dataclass(frozen=True, kw_only=True)
class OneSided(Placement):
    """malloc for the host alone; for GPUs cudaMalloc on one or, between which it crosses, on several."""

    not_on_cpu: str = ""

    def traits(self, device: Device) -> Traits:
        return Traits(moves="copies" if self.between_gpus else "never", peer=self.between_gpus)

    def place(self, arena: Arena, layout: Layout, gpus: Sequence[int] = (0,)) -> Placed:
        if self.host_kind == "pageable":
            return layout.at(arena.backend, arena.pageable(layout.nbytes), None)

        def on(gpu: int) -> Placed:
            at = arena.on(gpu)
            pointer = at.device(layout.nbytes)
            return replace(layout.at(at.backend, None, pointer), device_pointer=pointer)

        return self._crossing(on_each(gpus, on), arena, layout, gpus)


HOST_ONLY = OneSided(host_kind="pageable", device_kind="pageable")
DEVICE_ONLY = OneSided(host_kind="device", device_kind="device")


@dataclass(frozen=True, kw_only=True)
class External(Placement):
    """Another placement behind foreign memory: the host copies between the two before and after. This is the
    copy that `np.copyto(managed, image)` hides: the data has to get into memory of the right kind, and that
    costs a pass over it on the CPU."""

    inner: Placement

    @staticmethod
    def before(inner: Placement) -> External:
        own = inner.device_kind
        return External(host_kind="pageable", device_kind=own, hints=inner.hints, inner=inner)

    @property
    def own(self) -> Placement:
        return self.inner

    def traits(self, device: Device) -> Traits:
        return replace(self.inner.traits(device), foreign=True)

    def unavailable(self, device: Device) -> str | None:
        return self.inner.unavailable(device)

    def place(self, arena: Arena, layout: Layout, gpus: Sequence[int] = (0,)) -> Placed:
        foreign = layout.at(arena.backend, arena.pageable(layout.nbytes), None).host
        inner = self.inner.place(arena, layout, gpus)
        own = inner.host
        assert own is not None
        assert foreign is not None
        return replace(
            inner,
            host=foreign,
            copy_in=lambda part: np.copyto(own[index_of(part)], foreign[index_of(part)]),
            copy_out=lambda part: np.copyto(foreign[index_of(part)], own[index_of(part)]),
        )
