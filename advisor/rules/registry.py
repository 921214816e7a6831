"""The rules, in the order they speak, and their thresholds as the user set them.

To add one: write its judgement and its text here, and list it in `RULES`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from advisor import units
from advisor.errors import UsageError, nearest
from advisor.profiles.conclusions import Preferences
from advisor.rules import (
    coherence_reversed,
    device_resident,
    duplicate_allocation,
    hidden_host_copy,
    host_bound_frame,
    host_staged_peer_copy,
    implicit_wait,
    link_below_best,
    missing_synchronisation,
    numa_remote,
    one_link_for_two,
    oversubscription,
    page_fault_migration,
    pageable_async_copy,
    pageable_transfer,
    peer_access_off,
    pin_per_frame,
    ping_pong_migration,
    pinned_over_budget,
    prefetch_unsupported,
    repeated_upload,
    round_trip,
    serial_copies,
    small_transfers,
    staged_transfer,
    system_memory_available,
    texture_in_mapped_memory,
    unbalanced_split,
    uncached_host_read,
    unread_upload,
    unstable_measurement,
    write_combined_read,
    write_combined_without_gain,
    zero_copy_reread,
    zero_copy_uncoalesced,
)
from advisor.rules.base import COPYING, PEER, WRITE_COMBINED, Rule
from advisor.rules.texts import Threshold
from advisor.strategies.registry import BASELINE

RULES: tuple[Rule, ...] = (
    Rule(
        "pageable-transfer",
        pageable_transfer.judge,
        (BASELINE,),
        traced=pageable_transfer.TRACED,
        judge_line=pageable_transfer.judge_line,
    ),
    Rule("staged-transfer", staged_transfer.judge, ("staged",), traced=staged_transfer.TRACED),
    Rule("small-transfers", small_transfers.judge, (BASELINE,), judge_line=small_transfers.judge_line),
    Rule("serial-copies", serial_copies.judge, traced=serial_copies.TRACED),
    Rule("device-resident", device_resident.judge),
    Rule("implicit-wait", implicit_wait.judge, (BASELINE,), judge_line=implicit_wait.judge_line),
    Rule("hidden-host-copy", hidden_host_copy.judge, judge_line=hidden_host_copy.judge_line),
    Rule("pin-per-frame", pin_per_frame.judge, judge_line=pin_per_frame.judge_line),
    Rule("pinned-over-budget", pinned_over_budget.judge, (pinned_over_budget.LOCKING,)),
    Rule("duplicate-allocation", duplicate_allocation.judge, (BASELINE,)),
    Rule("oversubscription", oversubscription.judge),
    Rule("zero-copy-reread", zero_copy_reread.judge, ("zero-copy",)),
    Rule("zero-copy-uncoalesced", zero_copy_uncoalesced.judge, ("zero-copy", COPYING)),
    Rule("texture-in-mapped-memory", texture_in_mapped_memory.judge, ("zero-copy", COPYING)),
    Rule("uncached-host-read", uncached_host_read.judge),
    Rule("write-combined-read", write_combined_read.judge, (WRITE_COMBINED,)),
    Rule("write-combined-without-gain", write_combined_without_gain.judge, (WRITE_COMBINED,)),
    Rule(
        "page-fault-migration", page_fault_migration.judge, ("managed",), traced=page_fault_migration.TRACED
    ),
    Rule(
        "ping-pong-migration",
        ping_pong_migration.judge,
        (ping_pong_migration.MANAGED,),
        traced=ping_pong_migration.TRACED,
    ),
    Rule("prefetch-unsupported", prefetch_unsupported.judge),
    Rule("system-memory-available", system_memory_available.judge, ("system", BASELINE)),
    Rule(
        "coherence-reversed",
        coherence_reversed.judge,
        (coherence_reversed.CACHED, coherence_reversed.UNCACHED),
    ),
    Rule("numa-remote", numa_remote.judge),
    Rule("link-below-best", link_below_best.judge),
    Rule("peer-access-off", peer_access_off.judge, (BASELINE, PEER)),
    Rule("host-staged-peer-copy", host_staged_peer_copy.judge),
    Rule("one-link-for-two", one_link_for_two.judge),
    Rule("unbalanced-split", unbalanced_split.judge),
    Rule("host-bound-frame", host_bound_frame.judge),
    Rule("missing-synchronisation", missing_synchronisation.judge),
    Rule("unstable-measurement", unstable_measurement.judge),
    Rule("repeated-upload", None, judge_line=repeated_upload.judge_line),
    Rule("round-trip", None, judge_line=round_trip.judge_line),
    Rule("pageable-async-copy", None, judge_line=pageable_async_copy.judge_line),
    Rule("unread-upload", None, judge_line=unread_upload.judge_line),
)


def by_id(rule_id: str) -> Rule:
    for rule in RULES:
        if rule.id == rule_id:
            return rule
    ids = [rule.id for rule in RULES]
    raise UsageError(
        f"there is no rule {rule_id!r}{nearest(rule_id, ids, 2)}", next_step="`advisor rules` lists them."
    )


def limits(rule: Rule, preferences: Preferences) -> dict[str, float]:
    return {
        t.name: preferences.thresholds.get(f"{rule.id}.{t.name}", t.default) for t in rule.text.thresholds
    }


def changed(preferences: Preferences, rules: Collection[Rule]) -> dict[str, tuple[Threshold, float]]:
    """The thresholds of these rules that have another value than their default, by RULE.THRESHOLD."""
    return {
        f"{rule.id}.{t.name}": (t, limits(rule, preferences)[t.name])
        for rule in rules
        for t in rule.text.thresholds
        if limits(rule, preferences)[t.name] != t.default
    }


def thresholds(values: Mapping[str, object], where: str) -> dict[str, float]:
    """`{"zero-copy-reread.passes": "2"}` as numbers. `where` begins the messages. Raises `UsageError`."""
    return {key: _value(key, value, where) for key, value in values.items()}


def require(rule_id: str, where: str) -> Rule:
    """The rule of that id. Raises `UsageError` that names the place, with the nearest ids."""
    try:
        return by_id(rule_id)
    except UsageError as unknown:
        raise UsageError(f"{where} {rule_id}: {unknown.message}", next_step=unknown.next_step) from None


def _value(key: str, value: object, where: str) -> float:
    threshold = _threshold(key, where)
    number = _number(value, threshold)
    give = f"Give {_range(threshold)}; the default is {threshold.written(threshold.default)}"
    if number is None:
        step = f"{give} ({threshold.meaning})."
        raise UsageError(f"{where} {key} = {value!r} is not a number", next_step=step)
    if not threshold.low <= number <= threshold.high:
        raise UsageError(f"{where} {key} = {value} is out of range", next_step=f"{give}.")
    return number


def _threshold(key: str, where: str) -> Threshold:
    rule_id, dot, name = key.partition(".")
    if not dot or not rule_id or not name:
        raise UsageError(
            f"{where} {key!r} is not RULE.THRESHOLD",
            next_step="Write zero-copy-reread.passes=2; `advisor rules ID` lists a rule's thresholds.",
        )
    rule = require(rule_id, where)
    known = {threshold.name: threshold for threshold in rule.text.thresholds}
    if name in known:
        return known[name]
    raise UsageError(
        f"{where} {key}: {rule.id} has no threshold {name!r}{nearest(name, known, 2)}",
        next_step=f"Choose from {', '.join(known)} (see `advisor rules {rule.id}`)."
        if known
        else "No thresholds.",
    )


def _number(value: object, threshold: Threshold) -> float | None:
    """A number in the unit's notation: a size for bytes, a share also as 10 %. None unless it is finite."""
    if isinstance(value, bool):
        return None
    try:
        if isinstance(value, str) and threshold.unit == "bytes":
            return float(units.parse_size(value))
        if isinstance(value, str) and threshold.unit == "ratio" and value.rstrip().endswith("%"):
            number = float(value.rstrip()[:-1]) / 100
        else:
            number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _range(threshold: Threshold) -> str:
    low, high = threshold.written(threshold.low), threshold.written(threshold.high)
    return f"{low} or more" if math.isinf(threshold.high) else f"{low} to {high}"
