"""How much memory each measurement takes: beyond the caches, and a small share of what is free."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import psutil

from advisor.devices.host import ROOT, Tree, host_state
from advisor.profiles.schema import Device

_MIB = 1 << 20
_SHARE = 16
"""A buffer takes at most this part of the free memory, and no measurement holds more than three."""
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Sizes:
    """Bytes, powers of two. At one time at most 1 GiB of host, 1 GiB of device, 512 MiB of managed memory."""

    host: int
    transfer: int
    device: int
    managed: int
    l2: int
    """0 where the device does not tell its L2 cache."""
    host_cache: int | None


def measure_sizes(device: Device, device_free: int | None, *, root: Path = ROOT) -> Sizes:
    """The sizes for this machine as it is now."""
    available = int(psutil.virtual_memory().available)
    limit = host_state(root=root).memory_limit
    host_free = min(available, limit) if isinstance(limit, int) else available
    return choose(host_free, device_free, device, largest_cache(root=root))


def choose(host_free: int, device_free: int | None, device: Device, host_cache: int | None) -> Sizes:
    """Eight times the cache where memory allows: then at most an eighth of what is read can lie in it."""
    shared = device_free is None or bool(device.attributes.get("integrated", 0))
    device_free = host_free if device_free is None else min(device_free, host_free) if shared else device_free
    l2 = int(device.attributes.get("l2_cache_size", 0))
    host = _within(8 * (host_cache or 0), 64 * _MIB, 512 * _MIB, host_free // _SHARE)
    on_device = _within(8 * l2, 64 * _MIB, 512 * _MIB, device_free // _SHARE)
    both = min(host_free, device_free) // _SHARE
    either = _within(256 * _MIB, _MIB, 256 * _MIB, both)
    managed = _within(max(either, host), _MIB, 512 * _MIB, both)  # or the CPU's cache would hold it
    return Sizes(host=host, transfer=either, device=on_device, managed=managed, l2=l2, host_cache=host_cache)


def largest_cache(*, root: Path = ROOT) -> int | None:
    """Bytes of the largest cache of the first CPU; None where Linux does not tell."""
    tree = Tree(root)
    told = (tree.text(path) or "" for path in tree.glob("sys/devices/system/cpu/cpu0/cache/index*/size"))
    found = (re.fullmatch(r"(\d+)([KMG])", text, re.ASCII) for text in told)
    return max((int(match[1]) * _UNITS[match[2]] for match in found if match), default=None) or None


def _within(wanted: int, least: int, most: int, allowed: int) -> int:
    """A power of two from `least` to `most` that covers what is wanted; less where less is allowed."""
    wanted = min(max(wanted, least), most)
    covering = 1 << (wanted - 1).bit_length()
    return min(covering, most, 1 << max(allowed, 1 << 16).bit_length() - 1)
