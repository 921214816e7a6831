"""Nodes of fake machines, and the real memory policy of this one."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from builders import cuda_device
from fakes import RecordingBackend

from advisor.strategies.arena import (
    Arena,
    Policy,
    _set_policy,
    chosen_node,
    may_set_policy,
    nodes,
    policy,
    preferring,
)

BUS = "0000:3B:00.0"


def machine(root: Path, memory: str, *, cpus: str | None = None, gpu_node: str = "1") -> Path:
    files = {
        "devices/system/node/has_memory": memory,
        "devices/system/node/has_cpu": memory if cpus is None else cpus,
        f"bus/pci/devices/{BUS.lower()}/numa_node": gpu_node,
    }
    for name, text in files.items():
        (root / "sys" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "sys" / name).write_text(f"{text}\n")
    return root


def test_a_system_or_an_architecture_that_does_not_say(tmp_path: Path) -> None:
    assert nodes(tmp_path) == ()
    assert chosen_node("local", BUS, tmp_path) is None
    assert not may_set_policy("riscv64")
    with pytest.raises(OSError, match="riscv64"):
        policy("riscv64")


GRACE = {"cpus": "0", "gpu_node": "0"}
"""On GH200 the GPU's own memory is a node without processors, no remote one; it can be named."""
UNKNOWN = {"gpu_node": "-1"}
NO_REMOTE, THERE, REFUSED = "no node is remote", r"nodes with memory: 0, 1$", "SYS_NICE"


@pytest.mark.parametrize(
    ("wanted", "memory", "facts", "permitted", "chosen"),
    [
        ("local", "0-1", {}, True, 1),
        ("local", "0", {}, True, None),  # nothing to choose
        ("local", "0-1", UNKNOWN, True, None),
        ("local", "0-1", {}, False, None),  # Docker's default profile refuses these calls
        ("remote", "0-1", {}, True, 0),
        ("remote", "0-3", {}, True, 0),
        ("remote", "0-1", GRACE, True, NO_REMOTE),
        ("remote", "0-1", UNKNOWN, True, NO_REMOTE),
        ("remote", "0-1", {}, False, REFUSED),
        ("0", "0-1", {}, True, 0),
        ("1", "0-1", GRACE, True, 1),
        ("3", "0,2-3,8", {}, True, 3),
        ("0", "0-1", {}, False, REFUSED),
        *((wanted, "0-1", {}, True, f"^{wanted!r} is .* {THERE}") for wanted in ("2", "near", "-1", "", "²")),
    ],
)
def test_the_chosen_node(
    wanted: str, memory: str, facts: dict[str, Any], permitted: bool, chosen: Any, tmp_path: Path
) -> None:
    there = machine(tmp_path, memory, **facts)
    with pytest.raises(ValueError, match=chosen) if isinstance(chosen, str) else nullcontext():
        assert chosen_node(wanted, BUS, there, permitted=lambda: permitted) == chosen
    if facts == UNKNOWN:
        assert chosen_node("local", None, there, permitted=lambda: permitted) is None


# This machine's own kernel


@pytest.fixture
def untouched() -> Policy:
    try:
        return policy()
    except OSError as problem:
        pytest.skip(f"the memory policy cannot be read here: {problem}")


def here() -> int:
    return nodes()[0] if nodes() else 0


def test_the_policy_is_preferred_for_a_while_also_with_an_error(untouched: Policy) -> None:
    with preferring(here()):
        assert policy() == Policy(1, 1 << here())
    assert policy() == untouched
    with preferring(None):
        assert policy() == untouched
    with pytest.raises(KeyError), preferring(here()):
        raise KeyError
    assert policy() == untouched
    with pytest.raises(OSError, match="Invalid argument"), preferring(1000):
        pass
    assert policy() == untouched


def test_a_policy_that_the_user_chose_is_kept(untouched: Policy) -> None:
    """As `numactl --membind` sets it; asking whether policies may be set must not change it either."""
    bound = Policy(2, 1 << here())
    _set_policy(bound)
    try:
        with preferring(here()):
            assert policy() != bound
        assert (policy(), may_set_policy(), policy()) == (bound, True, bound)
    finally:
        _set_policy(untouched)
    assert policy() == untouched


class Looking(RecordingBackend):
    """Notes the policy under which memory is taken."""

    def __init__(self) -> None:
        super().__init__(device=cuda_device(concurrent_managed_access=1))
        self.policies: dict[str, Policy] = {}

    def _call(self, name: str, *arguments: object) -> None:
        self.policies.setdefault(name, policy())
        super()._call(name, *arguments)


def test_page_locked_memory_alone_is_taken_from_the_node(untouched: Policy) -> None:
    backend = Looking()
    with Arena(backend, node=here()) as arena:
        for take in (arena.pinned, arena.registered, arena.managed, arena.device):
            take(64)
    preferred = {name for name, policy in backend.policies.items() if policy == Policy(1, 1 << here())}
    assert preferred == {"host_alloc", "host_register"}
    assert policy() == untouched
