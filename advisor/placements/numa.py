"""Host memory on a chosen NUMA node: the policy of the calling thread while memory is taken and locked.

The driver pins pages where the kernel's memory policy puts them; on machines with one node this does
nothing. Linux system calls by number, since libnuma need not be installed.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}
_DEFAULT, _PREFERRED = 0, 1
_MASK_BITS = 1024


def nodes(root: Path = Path("/")) -> tuple[int, ...]:
    """The NUMA nodes that have memory; empty where the system does not say."""
    try:
        text = (root / "sys/devices/system/node/has_memory").read_text()
    except OSError:
        return ()
    return tuple(number for part in text.strip().split(",") if part for number in _span(part))


def node_of(pci_bus_id: str, root: Path = Path("/")) -> int | None:
    """The node a PCI device hangs on; None where the system does not know (-1) or say."""
    path = root / "sys/bus/pci/devices" / pci_bus_id.lower() / "numa_node"
    try:
        node = int(path.read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def chosen_node(wanted: str, pci_bus_id: str | None, root: Path = Path("/")) -> int | None:
    """The node for `local`, `remote` or a number; None: leave it to the system.

    Raises ValueError, with the nodes there are, when the machine cannot do what is asked.
    """
    there = nodes(root)
    local = node_of(pci_bus_id, root) if pci_bus_id else None
    if wanted == "local":
        return local if len(there) > 1 and _may_set_policy() else None
    if not _may_set_policy():
        raise ValueError("set_mempolicy is refused here; containers need the capability SYS_NICE for it")
    if wanted == "remote":
        others = [node for node in there if node != local]
        if local is None or not others:
            raise ValueError(f"there is no node remote from the GPU; nodes with memory: {there}")
        return others[0]
    if not wanted.isdigit() or int(wanted) not in there:
        raise ValueError(f"{wanted!r} is not local, remote or one of the nodes with memory: {there}")
    return int(wanted)


@contextmanager
def preferring(node: int | None) -> Iterator[None]:
    """Memory that this thread takes meanwhile comes from that node as long as it has any."""
    if node is None:
        yield
        return
    _set_policy(_PREFERRED, 1 << node)
    try:
        yield
    finally:
        _set_policy(_DEFAULT, 0)


def _may_set_policy() -> bool:
    try:
        _set_policy(_DEFAULT, 0)
    except OSError:
        return False
    return True


def _set_policy(mode: int, mask: int) -> None:
    number = _SET_MEMPOLICY.get(platform.machine())
    if number is None:
        raise OSError(f"set_mempolicy is not known on {platform.machine()}")
    words = (ctypes.c_uint64 * (_MASK_BITS // 64))(
        *((mask >> shift) & (2**64 - 1) for shift in range(0, _MASK_BITS, 64))
    )
    libc = ctypes.CDLL(None, use_errno=True)
    argument = words if mode else None
    if libc.syscall(number, mode, argument, _MASK_BITS if mode else 0) != 0:
        raise OSError(ctypes.get_errno(), "set_mempolicy failed")


def _span(part: str) -> range:
    first, _, last = part.partition("-")
    return range(int(first), int(last or first) + 1)
