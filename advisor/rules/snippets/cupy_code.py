"""Every placement with NumPy and CuPy."""

from __future__ import annotations

from advisor.profiles.schema import BufferRecord, Device
from advisor.rules.snippets import helpers
from advisor.rules.snippets.base import Helper, Library, Way
from advisor.strategies.placements.base import Placement, flag_is_off

OWN_STREAM = """\
stream = cupy.cuda.Stream(non_blocking=True)  # memory cannot be attached to the null stream alone
stream.use()  # your kernels of this thread run on it from here on"""
_ADVICE = {
    "read-mostly": ("cudaMemAdviseSetReadMostly", "device"),
    "prefer-device": ("cudaMemAdviseSetPreferredLocation", "device"),
    "accessed-by-device": ("cudaMemAdviseSetAccessedBy", "device"),
    "accessed-by-host": ("cudaMemAdviseSetAccessedBy", "host"),
}
_FLAGS = {
    "write-combined": "cupy.cuda.runtime.hostAllocWriteCombined",
    "portable": "cupy.cuda.runtime.hostAllocPortable",
}
"""`mapped_empty` adds the flag for mapped memory itself."""
_IN_DEVICE_MEMORY = "{device} = cupy.empty({shape}, {dtype})"


def way(placement: Placement, buffer: BufferRecord, device: Device) -> Way:
    """How CuPy says it."""
    del buffer
    if placement.host_kind != placement.device_kind:
        return _copied(placement) if placement.locks else _STAGED if placement.staged else _PAGEABLE
    if placement.managed:
        return _managed(placement, device)
    return _mapped(placement) if placement.locks else _one_memory("system_empty", "", helpers.SYSTEM)


CUPY = Library(
    ("import cupy", "import numpy as np"),
    "stream = cupy.cuda.get_current_stream()  # the one your kernels run on",
    way,
)

_PAGEABLE = Way(
    ("{host} = np.empty({shape}, {dtype})", _IN_DEVICE_MEMORY),
    to_device="{device}.set({host}, stream={stream})",
    to_host="{device}.get(stream={stream}, out={host})",
)
_STAGED = Way(
    ("{host} = np.empty({shape}, {dtype})", _IN_DEVICE_MEMORY),
    to_device="{device} = cupy.asarray({host})  # through CuPy's pinned pool",
    to_host="cupy.asnumpy({device}, out={host})",
    rebinds=True,
)


def _copied(placement: Placement) -> Way:
    """Two memories with asynchronous copies between them."""
    if placement.registered:
        host, helper = "{host} = registered_empty({shape}, {dtype})", helpers.REGISTERED
    else:
        host, helper = f"{{host}} = pinned_empty({{shape}}, {{dtype}}{_flags(placement)})", helpers.PINNED
    return Way(
        (host, _IN_DEVICE_MEMORY),
        to_device="{device}.set({host}, stream={stream})  # in place of cupy.asarray({host})",
        to_host="{device}.get(stream={stream}, out={host}, blocking=False)  # not cupy.asnumpy",
        helpers=(helper,),
    )


def _flags(placement: Placement) -> str:
    wanted = [_FLAGS[flag] for flag in placement.host_flags if flag in _FLAGS]
    return f", {' | '.join(wanted)}" if wanted else ""


def _mapped(placement: Placement) -> Way:
    """Page-locked memory that kernels use in place."""
    if placement.registered:
        return _one_memory("mapped_registered_empty", "", helpers.REGISTERED, helpers.REGISTERED_MAPPED)
    return _one_memory("mapped_empty", _flags(placement), helpers.MAPPED)


def _one_memory(call: str, flags: str, *functions: Helper) -> Way:
    """One memory with a name for each side; nothing is moved on request."""
    return Way((f"{{host}}, {{device}} = {call}({{shape}}, {{dtype}}{flags})",), helpers=functions)


def _managed(placement: Placement, device: Device) -> Way:
    """Managed memory, moved by the driver, on request, or with hints."""
    made = _one_memory("managed_empty", "", helpers.MANAGED)
    if not placement.prefetched:
        return made
    attaches = flag_is_off(device, "concurrent_managed_access")
    moves = (helpers.ATTACH,) if attaches else (helpers.LOCATION, helpers.PREFETCH)
    advice = tuple(
        f'advise({{host}}, "{advice}", "{side}")'
        for advice, side in map(_ADVICE.__getitem__, placement.hints)
    )
    return Way(
        (*made.allocate, *advice),
        to_device='prefetch({host}, "device")',
        to_host='prefetch({host}, "host")',
        helpers=(*made.helpers, helpers.REQUIRE, *moves, *((helpers.ADVISE,) if advice else ())),
        stream=OWN_STREAM if attaches else None,
    )
