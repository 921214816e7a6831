"""The rules, in the order they speak.

To add one: write its file here, list it in `RULES`, document it in docs/rules.md.
"""

from __future__ import annotations

import difflib
import textwrap

from advisor import units
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
from advisor.rules.base import Rule, Threshold

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


def describe(rule: Rule) -> str:
    """All there is to say of a rule, as plain text of 80 columns."""
    parts = [
        rule.id,
        rule.title,
        "",
        *textwrap.wrap(rule.why, 80, break_on_hyphens=False),
        "",
        *_item("Applies to", ", ".join(rule.memory_classes)),
        *_item("Elsewhere", rule.elsewhere),
        *_item("Looks at", ", ".join(rule.needs)),
        "",
        "Thresholds",
        *(line for threshold in rule.thresholds for line in _bullet(_threshold(threshold))),
        "",
        "Sources",
        *(line for source in rule.sources for line in _bullet(source)),
    ]
    return "\n".join(parts) + "\n"


def _threshold(threshold: Threshold) -> str:
    value = units.size(threshold.default) if threshold.unit == "bytes" else f"{threshold.default:g}"
    return f"{threshold.name} = {value}: {threshold.meaning}. Source: {threshold.source}"


def _item(label: str, text: str) -> list[str]:
    return textwrap.wrap(f"{label}: {text}", 80, subsequent_indent="  ", break_on_hyphens=False)


def _bullet(text: str) -> list[str]:
    return textwrap.wrap(
        text,
        80,
        initial_indent="  - ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
