"""Memory of one run: every allocation is booked by kind when it is made and freed in every path.

Placements take their memory here and never free it themselves; leaving the `with` block gives all of it
back in reverse order, also when an allocation half-way fails. Host memory comes from a chosen NUMA node.
"""

from __future__ import annotations

import ctypes
import math
import os
import platform
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from advisor import units
from advisor.devices.host import ROOT, gpu_numa_node
from advisor.profiles.schema import MemoryKind
from advisor.strategies.backend import Array, Backend, HostFlag, ordinary_memory


class AllocationFailed(Exception):
    """Memory of a kind could not be had; the text says how much and why."""


Give = Callable[[int], object]
Node = int | None
"""A NUMA node; None leaves it to the system."""
Held = tuple[int, Give]
"""Memory's pointer, and what frees it."""


class ReusedAllocations:
    """Memory that one arena gave back and the next may take, so that buffers alike lie in the same place. On
    an H200 blocks of frames differ by 5 to 12 % with the place, and by 1.5 to 4 % in one place. Managed
    memory is never on it: where its pages are and what was advised of them would come along."""

    def __init__(self) -> None:
        self._held: dict[Hashable, list[Held]] = {}
        self._of: Hashable = None

    def use_for(self, what: Hashable) -> None:
        """Frees what is there for anything else."""
        if what != self._of:
            self.clear()
            self._of = what

    def take(self, like: Hashable) -> Held | None:
        """The last such allocation that was put there; None where there is none."""
        there = self._held.get(like)
        return there.pop() if there else None

    def put(self, like: Hashable, allocation: Held) -> None:
        self._held.setdefault(like, []).append(allocation)

    def clear(self) -> None:
        for there in self._held.values():
            while there:
                pointer, give = there.pop()
                give(pointer)


class Arena:
    def __init__(
        self,
        backend: Backend,
        node: Node = None,
        nodes: Sequence[Node] = (),
        reused: ReusedAllocations | None = None,
    ) -> None:
        """`node`: the NUMA node that host memory shall come from; None leaves it to the system. `nodes`:
        those for buffers of each GPU of the workload, where it has several. `reused`: takes memory from there
        where it can, and gives it back there."""
        self.backend = backend
        self._reused = reused
        self._node = node
        self._nodes = nodes
        self.requested: Counter[MemoryKind] = Counter()
        self.pooled: Counter[MemoryKind] = Counter()
        """Bytes that pools took beyond what they were asked for."""
        self._owned: dict[int, Array] = {}
        self._cleanup = ExitStack()

    def __enter__(self) -> Arena:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        with suppress(Exception) if error else nullcontext():  # the first error says what happened
            self._cleanup.close()

    def on(self, gpu: int) -> Arena:
        """The same record of allocations, for memory of that GPU of the workload."""
        other = copy(self)
        other.backend = self.backend.gpus[gpu]
        other._node = self._nodes[gpu] if self._nodes else self._node
        return other

    def pad(self, nbytes: int) -> None:
        """Takes that much on both sides, unbooked, so that what comes after lies elsewhere; 0 takes none."""
        if nbytes:
            self._owned[0] = np.empty(nbytes, np.uint8)
            self._cleanup.callback(self.backend.free, self.backend.malloc(nbytes))

    def pageable(self, nbytes: int) -> int:
        """malloc, as any ordinary array has it. The host's pointer."""
        return self._book("pageable", nbytes, lambda: self._malloc(nbytes), self._owned.pop)

    def pinned(self, nbytes: int, *flags: HostFlag) -> int:
        at = self.backend
        return self._book("pinned", nbytes, lambda: at.host_alloc(nbytes, *flags), at.free_host, *flags)

    def registered(self, nbytes: int, *, mapped: bool = False) -> int:
        """Pageable memory on pages of its own, locked afterwards. The host's pointer."""
        backend = self.backend

        def take() -> int:
            pointer = self._malloc(nbytes)
            try:
                backend.host_register(pointer, nbytes, mapped=mapped)
            except BaseException:
                del self._owned[pointer]
                raise
            return pointer

        def give(pointer: int) -> None:
            backend.host_unregister(pointer)
            del self._owned[pointer]

        return self._book("pinned", nbytes, take, give, "registered", mapped)

    def staging(self, nbytes: int) -> None:
        """Books what CuPy's pinned pool takes for such uploads: a power of two (cupy issues 3625, 8111)."""
        kind = self.backend.kind_of("pinned")
        self.requested[kind] += nbytes
        if kind == "pinned":
            self.pooled[kind] += (1 << max(nbytes - 1, 0).bit_length()) - nbytes

    def pool_array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """An array of the library's own pool, whose size the footprint knows."""
        array = self.backend.pool_array(shape, dtype)
        kind, nbytes = self.backend.kind_of("device"), math.prod(shape) * dtype.itemsize
        self.requested[kind] += nbytes
        if self.backend.pool_reserved() is not None:
            self.pooled[kind] -= nbytes
        return array

    def managed(self, nbytes: int) -> int:
        return self._book("managed", nbytes, lambda: self.backend.malloc_managed(nbytes), self.backend.free)

    def device(self, nbytes: int) -> int:
        return self._book("device", nbytes, lambda: self.backend.malloc(nbytes), self.backend.free)

    def _malloc(self, nbytes: int) -> int:
        pointer, memory = ordinary_memory(nbytes)
        self._owned[pointer] = memory
        return pointer

    def _book(
        self, kind: MemoryKind, nbytes: int, take: Callable[[], int], give: Give, *how: Hashable
    ) -> int:
        """`how` tells apart what is not alike beside its kind and size."""
        reused = self._reused if kind != "managed" else None
        like = (kind, nbytes, self._node, id(self.backend), *how)
        allocation = reused.take(like) if reused else None
        if allocation is None:
            try:
                with preferring(self._node if kind in ("pinned", "pageable") else None):
                    allocation = take(), give
            except Exception as problem:
                reason = str(problem) or type(problem).__name__
                wrong = f"allocating {units.size(nbytes)} of {kind} memory failed: {reason}"
                raise AllocationFailed(wrong) from problem
        elif kind in ("pinned", "pageable"):
            ctypes.memset(allocation[0], 0, nbytes)  # as new pages are
        pointer, give = allocation
        if reused:
            self._cleanup.callback(reused.put, like, allocation)
        else:
            self._cleanup.callback(give, pointer)
        self.requested[self.backend.kind_of(kind)] += nbytes
        return pointer


# NUMA: the policy of the calling thread while memory is taken and locked. The driver pins pages where the
# kernel's policy puts them; on machines with one node this does nothing. By number of the system call, since
# libnuma need not be installed.

_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}
_GET_MEMPOLICY = {"x86_64": 239, "aarch64": 236}
_PREFERRED = 1
_MASK_BITS = 1024


@dataclass(frozen=True)
class Policy:
    """A memory policy of Linux: its mode with its flags, and the nodes it names as bits."""

    mode: int
    nodes: int


def nodes(root: Path = ROOT) -> tuple[int, ...]:
    """The NUMA nodes that have memory; empty where the system does not say."""
    return _listed(root, "has_memory")


def chosen_node(
    wanted: str, pci_bus_id: str | None, root: Path = ROOT, *, permitted: Callable[[], bool] | None = None
) -> int | None:
    """The node for `local`, `remote` or a number; None: leave it to the system. `permitted` tells whether a
    thread may set its policy; without it the kernel is asked. Raises ValueError, with the nodes there are,
    when the machine cannot do what is asked."""
    there, permitted = nodes(root), permitted or may_set_policy
    known = ", ".join(map(str, there))
    local = gpu_numa_node(pci_bus_id, root=root) if pci_bus_id else None
    if wanted == "local":
        return local if len(there) > 1 and permitted() else None
    if not permitted():
        raise ValueError("set_mempolicy is not permitted; containers need the capability SYS_NICE")
    if wanted == "remote":
        others = [node for node in there if node != local and node in _listed(root, "has_cpu")]
        if local is None or not others:
            raise ValueError(f"no node is remote from the GPU; nodes with memory: {known}")
        return others[0]
    if not wanted.isdecimal() or int(wanted) not in there:
        raise ValueError(f"{wanted!r} is not local, remote or one of the nodes with memory: {known}")
    return int(wanted)


@contextmanager
def preferring(node: int | None) -> Iterator[None]:
    """Memory that this thread takes meanwhile comes from that node as long as it has any."""
    if node is None:
        yield
        return
    before = policy()
    _set_policy(Policy(_PREFERRED, 1 << node))
    try:
        yield
    finally:
        _set_policy(before)  # numactl may have set it


def policy(machine: str = platform.machine()) -> Policy:
    """The calling thread's policy. Raises OSError where the system does not say."""
    mode, words = ctypes.c_int(), (ctypes.c_uint64 * (_MASK_BITS // 64))()
    nowhere, no_flags = ctypes.c_void_p(None), ctypes.c_ulong(0)
    _call(_GET_MEMPOLICY, machine, ctypes.byref(mode), words, ctypes.c_ulong(_MASK_BITS), nowhere, no_flags)
    return Policy(mode.value, sum(word << (64 * i) for i, word in enumerate(words)))


def may_set_policy(machine: str = platform.machine()) -> bool:
    """Whether the calling thread may set its policy; Docker's default profile refuses it."""
    try:
        _set_policy(policy(machine))
    except OSError:
        return False
    return True


def _set_policy(wanted: Policy) -> None:
    parts = ((wanted.nodes >> shift) & (2**64 - 1) for shift in range(0, _MASK_BITS, 64))
    words = (ctypes.c_uint64 * (_MASK_BITS // 64))(*parts)
    named = wanted.nodes != 0
    bits = ctypes.c_ulong(_MASK_BITS if named else 0)
    _call(_SET_MEMPOLICY, platform.machine(), wanted.mode, words if named else None, bits)


def _call(numbers: Mapping[str, int], machine: str, *arguments: object) -> None:
    number = numbers.get(machine)
    if number is None:
        raise OSError(0, f"memory policies are not supported on {machine}")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(ctypes.c_long(number), *arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"the kernel rejects memory policies: {os.strerror(code)}")


def _listed(root: Path, name: str) -> tuple[int, ...]:
    try:
        text = (root / "sys/devices/system/node" / name).read_text(encoding="utf-8")
    except OSError:
        return ()
    ends = (part.partition("-")[::2] for part in text.strip().split(",") if part)
    return tuple(node for first, last in ends for node in range(int(first), int(last or first) + 1))
