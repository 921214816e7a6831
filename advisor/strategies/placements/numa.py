"""Host memory on a chosen NUMA node: the policy of the calling thread while memory is taken and locked.

The driver pins pages where the kernel's memory policy puts them; on machines with one node this does
nothing. Linux system calls by number, since libnuma need not be installed.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from advisor.devices.host import ROOT, gpu_numa_node

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
    """The node for `local`, `remote` or a number; None: leave it to the system.

    `permitted` tells whether a thread may set its policy; without it the kernel is asked.
    Raises ValueError, with the nodes there are, when the machine cannot do what is asked.
    """
    there, permitted = nodes(root), permitted or may_set_policy
    local = gpu_numa_node(pci_bus_id, root=root) if pci_bus_id else None
    if wanted == "local":
        return local if len(there) > 1 and permitted() else None
    if not permitted():
        raise ValueError("set_mempolicy is not permitted; containers need the capability SYS_NICE")
    if wanted == "remote":
        others = [node for node in there if node != local and node in _listed(root, "has_cpu")]
        if local is None or not others:
            raise ValueError(f"no node is remote from the GPU; nodes with memory: {there}")
        return others[0]
    if not wanted.isdecimal() or int(wanted) not in there:
        raise ValueError(f"{wanted!r} is not local, remote or one of the nodes with memory: {there}")
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
