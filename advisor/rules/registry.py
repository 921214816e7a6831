"""The rules, in the order they speak.

To add one: write its file here, list it in `RULES`, document it in docs/rules.md.
"""

from __future__ import annotations

import difflib
import json
from pathlib import Path

from advisor.errors import UsageError
from advisor.rules import (
    coherence_reversed,
    device_resident,
    duplicate_allocation,
    hidden_host_copy,
    host_bound_frame,
    link_below_best,
    missing_synchronisation,
    numa_remote,
    oversubscription,
    page_fault_migration,
    pageable_transfer,
    pin_per_frame,
    ping_pong_migration,
    pinned_over_budget,
    prefetch_unsupported,
    serial_copies,
    small_transfers,
    staged_transfer,
    system_memory_available,
    uncached_host_read,
    unstable_measurement,
    write_combined_read,
    write_combined_without_gain,
    zero_copy_reread,
    zero_copy_uncoalesced,
)
from advisor.rules.base import Rule

RULES: tuple[Rule, ...] = (
    pageable_transfer.RULE,
    staged_transfer.RULE,
    small_transfers.RULE,
    serial_copies.RULE,
    device_resident.RULE,
    hidden_host_copy.RULE,
    pin_per_frame.RULE,
    pinned_over_budget.RULE,
    duplicate_allocation.RULE,
    oversubscription.RULE,
    zero_copy_reread.RULE,
    zero_copy_uncoalesced.RULE,
    uncached_host_read.RULE,
    write_combined_read.RULE,
    write_combined_without_gain.RULE,
    page_fault_migration.RULE,
    ping_pong_migration.RULE,
    prefetch_unsupported.RULE,
    system_memory_available.RULE,
    coherence_reversed.RULE,
    numa_remote.RULE,
    link_below_best.RULE,
    host_bound_frame.RULE,
    missing_synchronisation.RULE,
    unstable_measurement.RULE,
)


def examples() -> dict[str, str]:
    """A run and what a rule says of it, word for word, by the rule's id; written by its test."""
    text = Path(__file__).with_name("examples.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def by_id(rule_id: str) -> Rule:
    """The rule of that id. Raises `UsageError`, with the nearest ids."""
    for rule in RULES:
        if rule.id == rule_id:
            return rule
    ids = [rule.id for rule in RULES]
    near = difflib.get_close_matches(rule_id, ids, n=2)
    raise UsageError(
        f"there is no rule {rule_id!r}" + (f"; did you mean {' or '.join(near)}?" if near else ""),
        next_step=f"Choose from {', '.join(ids)} (see `advisor rules`).",
    )
