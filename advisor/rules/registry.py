"""The rules, in the order they speak, and their thresholds as the user set them.

To add one: write its function in the module of its subject, its text in a file of its name, and list it in
`RULES`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import get_args

from advisor import units
from advisor.errors import AdvisorError, UsageError, nearest
from advisor.profiles.conclusions import Preferences
from advisor.profiles.schema import MemoryClass
from advisor.rules import capacity, copies, line_rules, machine, managed, waits, zero_copy
from advisor.rules.base import COPYING, WRITE_COMBINED, Rule, Threshold
from advisor.rules.snippets.libraries import opening
from advisor.strategies.registry import BASELINE
from advisor.texts import from_markdown

RULES: tuple[Rule, ...] = (
    Rule(
        "pageable-transfer",
        copies.pageable_transfer,
        (BASELINE,),
        traced=copies.TRACED_PAGEABLE,
        judge_line=line_rules.pageable_transfer,
    ),
    Rule("staged-transfer", copies.staged_transfer, ("staged",), traced=copies.TRACED_STAGED),
    Rule("small-transfers", copies.small_transfers, (BASELINE,), judge_line=line_rules.small_transfers),
    Rule("serial-copies", copies.serial_copies, traced=copies.TRACED_SERIAL),
    Rule("device-resident", copies.device_resident),
    Rule("implicit-wait", waits.implicit_wait, (BASELINE,), judge_line=line_rules.implicit_wait),
    Rule("hidden-host-copy", copies.hidden_host_copy, judge_line=line_rules.hidden_host_copy),
    Rule("pin-per-frame", capacity.pin_per_frame, judge_line=line_rules.pin_per_frame),
    Rule("pinned-over-budget", capacity.pinned_over_budget, (capacity.LOCKING,)),
    Rule("duplicate-allocation", capacity.duplicate_allocation, (BASELINE,)),
    Rule("oversubscription", capacity.oversubscription),
    Rule("zero-copy-reread", zero_copy.zero_copy_reread, ("zero-copy",)),
    Rule("zero-copy-uncoalesced", zero_copy.zero_copy_uncoalesced, ("zero-copy", COPYING)),
    Rule("texture-in-mapped-memory", zero_copy.texture_in_mapped_memory, ("zero-copy", COPYING)),
    Rule("uncached-host-read", zero_copy.uncached_host_read),
    Rule("write-combined-read", zero_copy.write_combined_read, (WRITE_COMBINED,)),
    Rule("write-combined-without-gain", zero_copy.write_combined_without_gain, (WRITE_COMBINED,)),
    Rule("page-fault-migration", managed.page_fault_migration, ("managed",), traced=managed.TRACED_FAULTS),
    Rule("ping-pong-migration", managed.ping_pong_migration, (managed.MANAGED,), traced=managed.TRACED_TURNS),
    Rule("prefetch-unsupported", managed.prefetch_unsupported),
    Rule("system-memory-available", zero_copy.system_memory_available, ("system", BASELINE)),
    Rule("coherence-reversed", zero_copy.coherence_reversed, (zero_copy.CACHED, zero_copy.UNCACHED)),
    Rule("numa-remote", machine.numa_remote),
    Rule("link-below-best", machine.link_below_best),
    Rule("peer-access-off", machine.peer_access_off, (BASELINE, machine.PEER)),
    Rule("host-staged-peer-copy", machine.host_staged_peer_copy),
    Rule("one-link-for-two", machine.one_link_for_two),
    Rule("unbalanced-split", machine.unbalanced_split),
    Rule("host-bound-frame", waits.host_bound_frame),
    Rule("missing-synchronisation", waits.missing_synchronisation),
    Rule("unstable-measurement", machine.unstable_measurement),
    Rule("repeated-upload", None, judge_line=line_rules.repeated_upload),
    Rule("round-trip", None, judge_line=line_rules.round_trip),
    Rule("pageable-async-copy", None, judge_line=line_rules.pageable_async_copy),
    Rule("unread-upload", None, judge_line=line_rules.unread_upload),
    Rule("shared-dram-copy", None, judge_line=line_rules.shared_dram_copy),
)


def by_id(rule_id: str, where: str = "", error: type[AdvisorError] = UsageError) -> Rule:
    """The rule of that id. Raises that error with the nearest ids; `where` begins its message."""
    for rule in RULES:
        if rule.id == rule_id:
            return rule
    wrong = f"there is no rule {rule_id!r}{nearest(rule_id, [rule.id for rule in RULES], 2)}"
    raise error(": ".join(filter(None, (where, wrong))), next_step="`advisor rules` lists them.")


def limits(rule: Rule, wanted: Preferences) -> dict[str, float]:
    return {t.name: wanted.thresholds.get(f"{rule.id}.{t.name}", t.default) for t in rule.text.thresholds}


def changed(preferences: Preferences, rules: Collection[Rule]) -> dict[str, tuple[Threshold, float]]:
    """The thresholds of these rules that have another value than their default, by RULE.THRESHOLD."""
    set_to = [(rule, t, limits(rule, preferences)[t.name]) for rule in rules for t in rule.text.thresholds]
    return {f"{rule.id}.{t.name}": (t, value) for rule, t, value in set_to if value != t.default}


def thresholds(values: Mapping[str, object], where: str) -> dict[str, float]:
    """`{"zero-copy-reread.passes": "2"}` as numbers. `where` begins the messages. Raises `UsageError`."""
    return {key: _value(key, value, where) for key, value in values.items()}


def _value(key: str, value: object, where: str) -> float:
    rule_id, dot, name = key.partition(".")
    if not dot or not rule_id or not name:
        step = "Write zero-copy-reread.passes=2; `advisor rules ID` lists a rule's thresholds."
        raise UsageError(f"{where} {key!r} is not RULE.THRESHOLD", next_step=step)
    rule = by_id(rule_id, where)
    known = {each.name: each for each in rule.text.thresholds}
    if name not in known:
        listed = f"Choose from {', '.join(known)} (see `advisor rules {rule.id}`)."
        raise UsageError(
            f"{where} {key}: {rule.id} has no threshold {name!r}{nearest(name, known, 2)}",
            next_step=listed if known else "No thresholds.",
        )
    threshold = known[name]
    number = _number(value, threshold)
    low, high = threshold.written(threshold.low), threshold.written(threshold.high)
    span = f"{low} or more" if math.isinf(threshold.high) else f"{low} to {high}"
    give = f"Give {span}; the default is {threshold.written(threshold.default)}"
    if number is None:
        step = f"{give} ({threshold.meaning})."
        raise UsageError(f"{where} {key} = {value!r} is not a number", next_step=step)
    if not threshold.low <= number <= threshold.high:
        raise UsageError(f"{where} {key} = {value} is out of range", next_step=f"{give}.")
    return number


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


def overview(rules: Sequence[Rule]) -> str:
    entries = (f"- {rule.id}: {rule.text.title}, on {_classes(rule)}" for rule in rules)
    return from_markdown("\n".join(entries))


def describe(rule: Rule) -> str:
    """The rule in Markdown, as it stands in docs/rules.md."""
    text = rule.text
    needed = ", ".join(f"`{each if isinstance(each, str) else each.example}`" for each in rule.requires)
    facts = [
        f"- Applies to: {_classes(rule)}",
        *([] if _is_general(rule) else [f"- Elsewhere: {text.elsewhere}"]),
        *([f"- Needs figures for: {needed}"] if needed else []),
        f"- Silence it with: `--ignore {rule.id}`",
    ]
    thresholds = ["No thresholds: the intervals decide."]
    if known := text.thresholds:
        setting = f"`--rule {rule.id}.{known[0].name}=VALUE`, or in `advisor.toml`"
        items = (f"- `{t.name}` = {t.written(t.default)}: {t.meaning}. Source: {t.source}" for t in known)
        thresholds = [f"Thresholds, set with {setting}:", "\n".join(items)]
    paragraphs = (
        f"## `{rule.id}`",
        f"**{text.title}.**",
        text.explanation,
        "\n".join(facts),
        *thresholds,
        *("Bad:", f"```python\n{text.bad}\n```"),
        *("Good:", f"```python\n{text.good}\n```"),
        f"Example: {text.example}",
        "Sources:",
        "\n".join(f"- {source}" for source in text.sources),
    )
    return "\n\n".join(paragraphs) + "\n"


def explain(rule: Rule) -> str:
    """The same as plain text, with the functions that its code calls."""
    functions = opening(rule.text.bad + rule.text.good)
    called = f"The functions it calls:\n\n```python\n{functions.rstrip()}\n```" if functions else ""
    return from_markdown(f"{describe(rule)}\n{called}")


def _is_general(rule: Rule) -> bool:
    return set(rule.text.memory_classes) == set(get_args(MemoryClass))


def _classes(rule: Rule) -> str:
    return "all memory classes" if _is_general(rule) else ", ".join(rule.text.memory_classes)
