"""What would change the verdict: other preferences, more reading, other sizes, fewer frames to a set-up."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from advisor import units
from advisor.profiles.conclusions import Alternative, Preferences, Sensitivity
from advisor.profiles.schema import Profile
from advisor.report import blocks, words
from advisor.report.page import Section, filled
from advisor.report.recommendations import sentence, verdict_words
from advisor.report.tables import setup_costs
from advisor.strategies.registry import BASELINE
from advisor.verdicts.caveats import doubt
from advisor.verdicts.measured import baseline, speeds
from advisor.verdicts.scores import counted

_BLIND = (
    "Predicted from the traced traffic, without the measured times: how much larger before another "
    "strategy wins (up to 64×)."
)
_QUESTIONS: dict[str, str] = {
    "reads": "kernels read their inputs more often",
    "larger": "the buffers are larger",
    "smaller": "the buffers are smaller",
}
_SETUP = (
    "Set-up runs once: allocation, page-locking, set-up stages and the first frame. A strategy with a longer "
    "set-up than `{}` pays off after the given number of frames; for fewer frames, do not change."
)


@dataclass(frozen=True)
class Choice(blocks.Block):
    """Verdicts by objective or device, and the data with which a page decides for a memory budget."""

    rows: tuple[blocks.Fact, ...]
    data: str
    forms: blocks.Forms = field(default="html", kw_only=True)


def sensitivity(profile: Profile) -> Section:
    """Nothing is told of a workload whose verdict is in doubt, nor of what the profile has no figures for."""
    measured = profile.device.kind != "cpu" and bool(profile.measured()) and not doubt(profile)
    parts = filled(
        _choice(profile) if profile.alternatives else None,
        _model(profile),
        _setup(profile) if measured else None,
    )
    return Section("sensitivity", "What would change the verdict", parts, nav="Sensitivity", forms="html")


def _choice(profile: Profile) -> Choice:
    wanted, measured = profile.preferences, profile.device.kind != "cpu"
    data: dict[str, dict[str, list[tuple[int | None, str]]]] = {}
    for one in profile.alternatives:
        by_device = data.setdefault(one.objective, {})
        by_device.setdefault(words.name(one.device), []).append((one.budget_bytes, _told(one, measured)))
    if measured:
        facts = [blocks.Fact(f"by {name}", _at(by_device, wanted)) for name, by_device in data.items()]
    else:
        made = [(p.device.name, p.recommendation) for p in profile.predictions if not doubt(profile, p)]
        facts = [blocks.Fact(words.name(d), sentence(r), predicted=True) for d, r in made if r is not None]
    told = {
        "prefix": "" if measured else "Predicted, by the likely times alone: ",
        "objectives": {name: list(by_device.values()) for name, by_device in data.items()},
        "objective": wanted.objective,
        "budget": wanted.memory_budget_bytes,
    }
    return Choice(tuple(facts), json.dumps(told, separators=(",", ":"), ensure_ascii=False).replace("`", ""))


def _told(one: Alternative, measured: bool) -> str:
    if measured:
        return verdict_words(one)
    if one.strategy is None:
        return f"no strategy fits the memory budget on {words.name(one.device)}"
    gained = one.speedup is not None and one.strategy != BASELINE
    gain = f" (gain {units.ratio(one.speedup or 1.0)})" * gained
    return f"{words.name(one.strategy)} on {words.name(one.device)}{gain}"


def _at(by_device: Mapping[str, Sequence[tuple[int | None, str]]], wanted: Preferences) -> str:
    """What holds for the profile's own budget."""
    (choices,), budget = by_device.values(), wanted.memory_budget_bytes
    fits = (told for least, told in choices if least == budget or (least and budget and least <= budget))
    return next(fits, choices[-1][1])


def _setup(profile: Profile) -> blocks.Table:
    measured, base = tuple(counted(profile).measured().values()), baseline(profile)
    return blocks.Table(
        "setup",
        "strategy",
        tuple(map(blocks.Column, ("set-up", "additional set-up", "saved per frame", "pays off"))),
        setup_costs(measured, base, speeds(counted(profile))),
        caption=_SETUP.format(words.name(base.strategy) if base else "baseline"),
        identifier="setup",
        sortable=True,
        forms="html",
    )


def _model(profile: Profile) -> blocks.Table | None:
    """What the profile has of it: a row for each question, a column for each device."""
    cells = {(one.device, str(one.question)): blocks.TableCell(_turned(one)) for one in profile.sensitivity}
    devices = dict.fromkeys(device for device, _ in cells)
    rows = tuple(
        blocks.Row(
            text, tuple(cells.get((device, question), blocks.TableCell(blocks.NOTHING)) for device in devices)
        )
        for question, text in _QUESTIONS.items()
    )
    columns = (blocks.Column(words.name(d), basis="predicted", figures=False) for d in devices)
    if not devices:
        return None
    return blocks.Table("turns", "if", tuple(columns), rows, caption=_BLIND, identifier="turns", codes=False)


def _turned(found: Sensitivity) -> str:
    if found.factor is None or found.strategy is None:
        return "no change up to 64×"
    return f"{words.name(found.strategy)} from {found.factor}× {'smaller ' * (found.question == 'smaller')}on"
