"""What would change the verdict: other preferences, more reading, other sizes, fewer frames to a set-up."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import get_args

import numpy as np

from advisor.profiles.conclusions import Objective, Recommendation, Sensitivity
from advisor.profiles.schema import Predicted, Profile
from advisor.report import blocks, words
from advisor.report.page import Section, filled
from advisor.report.recommendations import AMONG, SENTENCES, sentence
from advisor.report.tables import setup_costs
from advisor.strategies.registry import BASELINE
from advisor.verdicts.caveats import doubt
from advisor.verdicts.choice import code_change
from advisor.verdicts.measured import aim_of, baseline, compared, contestants_of, recommend, speeds
from advisor.verdicts.reasons import counted as counts
from advisor.verdicts.scores import counted, figures_of

_BLIND = (
    "Predicted from the traced traffic, without the measured times: the factor, in powers of two up to 64, "
    "from which the model would recommend another strategy."
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
    """Nothing is told of a workload whose verdict is in doubt."""
    measured = profile.device.kind != "cpu" and bool(profile.measured()) and not doubt(profile)
    parts = filled(
        _choice(profile) if measured and profile.recommendation else None,
        _predicted_choice(profile) if profile.device.kind == "cpu" else None,
        None if profile.script else _model(profile),
        _setup(profile) if measured else None,
    )
    return Section("sensitivity", "What would change the verdict", parts, nav="Sensitivity", forms="html")


def _choice(profile: Profile) -> Choice:
    objectives = [o for o in get_args(Objective) if _counts(profile, o)]
    made = ((o, recommend(_with(profile, o))) for o in objectives)
    told = {o: found for o, found in made if found is not None}
    seconds = figures_of(list(profile.measured().values()), "time")
    data = {
        "contestants": {
            words.name(one.name): [
                *(one.physical_bytes, one.code_change, one.left, one.dropped),
                *(one.mixed, float(f"{seconds.get(one.name, 0.0):.6g}")),
            ]
            for one in contestants_of(profile)
        },
        "objectives": {o: _data(profile, o, found) for o, found in told.items()},
        "budget": profile.preferences.memory_budget_bytes,
        "sentences": SENTENCES,
        "among": AMONG,
    }
    return _written((blocks.Fact(f"by {o}", sentence(found)) for o, found in told.items()), data)


def _predicted_choice(profile: Profile) -> Choice | None:
    """By the likely times; the draws, which say how sure that is, are not in the profile."""
    trusted = [made for made in profile.predictions if made.recommendation and not doubt(profile, made)]
    some = any(row.status == "predicted" and row.latency_seconds for made in trusted for row in made.results)
    by_time = _likely(profile, "time")
    objectives = {"time": by_time, **({"throughput": _likely(profile, "throughput")} if some else {})}
    objectives |= {"footprint": by_time}
    told = {words.name(made.device.name): made.recommendation for made in trusted}
    data = {
        "predicted": True,
        "objectives": {
            o: {name: rows for name, rows in by_device.items() if name in told}
            for o, by_device in objectives.items()
        },
        "baseline": BASELINE,
        "indifference": profile.preferences.indifference,
        "objective": profile.preferences.objective,
        "budget": profile.preferences.memory_budget_bytes,
    }
    facts = (blocks.Fact(name, sentence(found), predicted=True) for name, found in told.items() if found)
    return _written(facts, data) if told else None


def _likely(profile: Profile, objective: Objective) -> dict[str, list[list[object]]]:
    """By device: name, seconds, bytes and code change of each strategy."""
    return {
        words.name(made.device.name): [
            [words.name(row.strategy), row.likely_seconds, row.physical_bytes, code_change(row)]
            for row in made.results
            if isinstance(row, Predicted)
        ]
        for made in counted(profile, objective).predictions
    }


def _written(facts: Iterable[blocks.Fact], data: Mapping[str, object]) -> Choice:
    return Choice(tuple(facts), json.dumps(data, separators=(",", ":")))


def _counts(profile: Profile, objective: Objective) -> bool:
    """Whether the objective has figures, and says something that time does not."""
    rows = tuple(profile.measured().values())
    if objective == "throughput":
        return any(row.latency_seconds is not None for row in rows)
    return bool(figures_of(rows, objective)) and bool(compared(profile, objective).names)


def _with(profile: Profile, objective: Objective) -> Profile:
    wanted = profile.preferences.model_copy(update={"objective": objective})
    return profile.model_copy(update={"preferences": wanted})


def _data(profile: Profile, objective: Objective, found: Recommendation) -> dict[str, object]:
    """The upper triangles of the pairs, as far as their digits matter."""
    pairs, aim = compared(profile, objective), aim_of(_with(profile, objective))
    above = np.triu_indices(len(pairs.names), 1)
    error = np.minimum(pairs.error, 1e6)
    return {
        "names": [words.name(name) for name in pairs.names],
        "difference": np.round(pairs.difference[above], 7).tolist(),
        "error": np.round(error[above], 7).tolist(),
        "freedom": (np.floor(pairs.freedom[above] * 10) / 10).tolist(),
        "processes": pairs.processes,
        "baseline": aim.baseline,
        "indifference": aim.indifference,
        "certainty": aim.certainty,
        "untrusted": found.verdict == "untrusted",
        "best": counts(objective).best,
    }


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
