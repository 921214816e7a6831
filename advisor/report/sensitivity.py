"""What would change the verdict: other preferences, more reading, other sizes, fewer frames to a set-up."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import get_args

import numpy as np

from advisor.devices.entries import CatalogueEntry
from advisor.model.measured import entry_of
from advisor.model.predict import predict
from advisor.profiles.conclusions import Recommendation
from advisor.profiles.preferences import Objective
from advisor.profiles.schema import Profile, Trace
from advisor.report import blocks, words
from advisor.report.bars import speeds
from advisor.report.failures import doubt
from advisor.report.page import Section, filled
from advisor.report.recommendations import decided
from advisor.report.tables import baseline, setup_costs
from advisor.verdicts.counting import counted
from advisor.verdicts.measured import aim_of, compared, contestants_of, figures_of, recommend
from advisor.verdicts.words import counted as counts

_FACTORS = (2, 4, 8, 16, 32, 64)
_BLIND = (
    "Predicted from the traced traffic, without the measured times: the factor, in powers of two up to 64, "
    "from which the model would recommend another strategy."
)
_SETUP = (
    "Set-up runs once: allocation, page-locking, set-up stages and the first frame. A strategy with a longer "
    "set-up than `{}` pays off after the given number of frames; for fewer frames, do not change."
)


@dataclass(frozen=True)
class Choice(blocks.Block):
    """The verdict for each objective, and the data from which a page's script decides for a memory budget."""

    rows: tuple[tuple[Objective, str], ...]
    data: str
    forms: blocks.Forms = field(default="html", kw_only=True)


def sensitivity(profile: Profile) -> Section:
    """Nothing is told of a workload whose verdict is in doubt."""
    measured = profile.device.kind != "cpu" and bool(profile.measured()) and not doubt(profile)
    parts = filled(
        _choice(profile) if measured and profile.recommendation else None,
        None if profile.script else _model(profile),
        _setup(profile) if measured else None,
    )
    return Section("sensitivity", "What would change the verdict", parts, nav="Sensitivity", forms="html")


def _choice(profile: Profile) -> Choice:
    objectives = [o for o in get_args(Objective) if _counts(profile, o)]
    made = ((o, recommend(_with(profile, o))) for o in objectives)
    told = {o: found for o, found in made if found is not None}
    data = {
        "contestants": {
            words.name(one.name): [one.physical_bytes, one.code_change, one.left, one.dropped]
            for one in contestants_of(profile)
        },
        "objectives": {o: _data(profile, o, found) for o, found in told.items()},
        "budget": profile.preferences.memory_budget_bytes,
    }
    return Choice(
        tuple((o, decided(found)) for o, found in told.items()), json.dumps(data, separators=(",", ":"))
    )


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
    devices = [profile.device] if profile.device.kind != "cpu" else [p.device for p in profile.predictions]
    entries = {words.name(device.name): entry_of(device) for device in devices}
    told = {name: dict(_turns(profile, entry)) for name, entry in entries.items() if entry is not None}
    told = {name: found for name, found in told.items() if found}
    questions = dict.fromkeys(question for found in told.values() for question in found)
    rows = tuple(
        blocks.Row(
            question, tuple(blocks.TableCell(found.get(question, blocks.NOTHING)) for found in told.values())
        )
        for question in questions
    )
    columns = tuple(blocks.Column(name, basis="predicted", figures=False) for name in told)
    if not rows:
        return None
    return blocks.Table("turns", "if", columns, rows, caption=_BLIND, identifier="turns", codes=False)


def _turns(profile: Profile, entry: CatalogueEntry) -> Iterator[tuple[str, str]]:
    """Each question with the first factor at which the model's choice is another one."""
    trace = profile.traffic
    if trace is None or not trace.traffic:
        return
    blind = profile.model_copy(update={"results": ()})
    now = predict(blind, entry).recommendation
    told = profile.recommendation
    if now is None or now.strategy is None or (told and told.strategy not in (now.strategy, *now.tied_with)):
        return
    device = {stage.name for stage in profile.workload.frame_stages("device")}
    changes: Mapping[str, tuple[Callable[[float], Profile], bool]] = {
        "kernels read their inputs more often": (lambda k: _reading(blind, trace, device, k), True),
        "the buffers are larger": (lambda k: _sized(blind, trace, k), True),
        "the buffers are smaller": (lambda k: _sized(blind, trace, k), False),
    }
    for question, (changed, up) in changes.items():
        yield question, _turn(now, changed, entry, up=up)


def _turn(
    now: Recommendation, changed: Callable[[float], Profile], entry: CatalogueEntry, *, up: bool
) -> str:
    for factor in _FACTORS:
        then = predict(changed(factor if up else 1 / factor), entry).recommendation
        if then and then.strategy and now.strategy not in (then.strategy, *then.tied_with):
            return f"{then.strategy} from {factor}× {'on' if up else 'smaller on'}"
    return f"no change up to {_FACTORS[-1]}×"


def _reading(profile: Profile, trace: Trace, device: set[str], factor: float) -> Profile:
    read = tuple(
        t.model_copy(update={"bytes_read": t.bytes_read * factor}) if t.stage in device else t
        for t in trace.traffic
    )
    return profile.model_copy(update={"traffic": trace.model_copy(update={"traffic": read})})


def _sized(profile: Profile, trace: Trace, factor: float) -> Profile:
    """Everything that goes with the buffers' size in proportion to it: bytes, arithmetic, time on the CPU."""
    moved = tuple(
        t.model_copy(update={"bytes_read": t.bytes_read * factor, "bytes_written": t.bytes_written * factor})
        for t in trace.traffic
    )
    done = tuple(
        w.model_copy(
            update={
                "flops": w.flops and w.flops * factor,
                "temporary_bytes": w.temporary_bytes * factor,
                "seconds": w.seconds and w.seconds * factor,
            }
        )
        for w in trace.work
    )
    buffers = tuple(
        b.model_copy(update={"bytes": max(1, round(b.bytes * factor))}) for b in profile.workload.buffers
    )
    stages = tuple(
        s.model_copy(update={"flops": s.flops and s.flops * factor}) for s in profile.workload.stages
    )
    return profile.model_copy(
        update={
            "traffic": trace.model_copy(update={"traffic": moved, "work": done}),
            "workload": profile.workload.model_copy(update={"buffers": buffers, "stages": stages}),
        }
    )
