"""What speaks for the verdict: figures and charts of each device, and what would change it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from advisor import units
from advisor.model import accuracy
from advisor.model.measured import ModelAgainstRun
from advisor.profiles.conclusions import Alternative, Preferences
from advisor.profiles.schema import Measured, MemoryClass, Prediction, Profile, Skipped
from advisor.report import blocks, words
from advisor.report.answer import Answers
from advisor.report.answering import predicted_answer
from advisor.report.charts import footprint_chart, frame_chart, overlap_note, prediction_chart, recommended
from advisor.report.machine import ON_CPU
from advisor.report.mixes import placements
from advisor.report.page import Section, filled
from advisor.report.recommendations import sentence, verdict_words
from advisor.report.tables import by_gpu, gaps, memory_told, more_figures, places, setup_costs
from advisor.strategies.registry import BASELINE
from advisor.verdicts.caveats import doubt, undoubted
from advisor.verdicts.measured import baseline, speeds
from advisor.verdicts.scores import counted

_PARTS = "Grouped by kind, not by time; each part is a median. The bracket is the interval of the frame."
_PHYSICAL = "The physical total counts managed memory on a card once per side, other shared memory once."
_BESIDE = "Predicted and measured times on this device"


def stages(profile: Profile, *, badge: str = "") -> Section:
    cpu, missing = profile.device.kind == "cpu", gaps(profile.results)
    drawn: blocks.Block | None = None
    if profile.measured():
        notes = tuple(filter(None, (_PARTS, overlap_note(profile))))
        drawn = replace(frame_chart(fastest_first(counted(undoubted(profile)))), notes=notes)
    parts = filled(
        blocks.Prose(ON_CPU if cpu else "", forms="html"),
        drawn,
        *by_gpu(fastest_first(counted(profile))),
        blocks.Items(missing, "Not measured", forms="html"),
        blocks.Items(tuple(gap for gap in missing if gap.status != "failed"), forms="txt"),
    )
    return Section(
        "stages",
        "Measured on this CPU, not on a GPU" if cpu else "Where the time of a frame goes",
        parts or (blocks.Prose("Nothing was run.", forms="html"),),
        nav="On this CPU" if cpu else "Stages",
        badge=badge,
    )


def memory(profile: Profile, *, badge: str = "") -> Section:
    measured = tuple(fastest_first(counted(profile)).measured().values())
    chart = replace(footprint_chart(fastest_first(counted(undoubted(profile)))), notes=(_PHYSICAL,))
    parts = filled(chart, *placements(profile), *places(measured))
    return Section("memory", "Memory by kind", parts, nav="Memory", badge=badge, forms="html")


def noise(profile: Profile, against: ModelAgainstRun) -> Section:
    measured = tuple(fastest_first(counted(profile)).measured().values())
    parts = filled(
        *more_figures(measured, recommended(profile)),
        *(beside_model(against) if against.rows else ()),
    )
    return Section("noise", "How much frame times vary", parts, nav="Noise")


def beside_model(comparison: ModelAgainstRun) -> tuple[blocks.Block, ...]:
    """Measured, predicted, predicted over measured, and where the measured time lies; the fastest first."""
    told = []
    for one in sorted(comparison.rows, key=lambda one: one.measured):
        between, inside = words.seconds_between(one.low, one.high), blocks.TableCell("inside")
        if not one.inside:
            than = "slower" if one.measured > one.high else "faster"
            inside = blocks.TableCell(f"outside: {than} than predicted", mark="outside")
        likely = blocks.TableCell(units.seconds(one.likely), between, mark="forecast")
        cells = units.seconds(one.measured), likely, units.ratio(one.ratio), inside
        told.append(blocks.row(words.name(one.strategy), *cells))
    predicted = blocks.Column("", basis="predicted")
    where = blocks.Column("measured time in range", figures=False)
    heads = blocks.columns("measured", predicted, "predicted / measured", where)
    times = f"{words.count(len(told), 'measured time')} {'lies' if len(told) == 1 else 'lie'}"
    knew = (
        f"{comparison.inside} of {times} in the predicted range. The model used the catalogue figures for "
        f"{words.name(comparison.device)} and the traced traffic, but none of these times."
    )
    figures = blocks.Table("compared", "strategy", heads, tuple(told), label=_BESIDE, forms="html")
    fold = blocks.Fold("Strategy by strategy", (figures,), kind="folded")
    return blocks.Heading(_BESIDE, "model"), blocks.Prose(knew, forms="html"), fold


def fastest_first(profile: Profile) -> Profile:
    """The profile with its measured rows by their time, those outside the final after those in it, then the
    other rows as they were."""
    measured = sorted(profile.measured().values(), key=lambda row: (bool(row.outside), row.median_seconds))
    others = (row for row in profile.results if not isinstance(row, Measured))
    return profile.model_copy(update={"results": (*measured, *others)})


FEW_CASES = 10
"""Below so many published cases a share says little; chosen."""
WHERE = "docs/accuracy.md"
_RANGE = "Predicted. The bracket is the range of the frame."


def predictions(profile: Profile, *, leading: bool) -> Section:
    """All predictions; none of them marked as recommended where the workload failed.

    leading: the first section has their answers.
    """
    marked = counted(undoubted(profile)).predictions
    each = tuple(predicted_answer(profile, prediction) for prediction in profile.predictions)
    parts = filled(
        None if leading else Answers(each, forms="html txt"),
        blocks.Prose(f"Prediction accuracy: {WHERE}", forms="md txt"),
        *(_device(profile, one, i) for i, one in enumerate(marked)),
    )
    return Section("predictions", "Predicted frame time by part", parts, nav="Predictions", badge="predicted")


def _device(profile: Profile, marked: Prediction, index: int) -> blocks.Group:
    prediction, name = profile.predictions[index], words.name(marked.device.name)
    declined = tuple(r for r in prediction.results if isinstance(r, Skipped))
    told, memory = len(declined) < len(prediction.results), prediction.device.memory_class
    notes = filter(None, (_RANGE, overlap_note(profile, prediction)))
    chart = replace(prediction_chart(marked, index + 1), notes=tuple(notes)) if told else None
    assumptions = blocks.Bullets(tuple(map(words.line, prediction.assumptions)), forms="html")
    missing = gaps(declined)
    named = tuple(replace(gap, status=f"not predicted on {name}") for gap in missing)
    parts = filled(
        blocks.Prose(memory_told(prediction.device), forms="html"),
        blocks.Prose(error_sentence(memory) if told else "", forms="html"),
        chart,
        blocks.Items(tuple(replace(gap, status="") for gap in missing), "Not predicted", forms="html"),
        blocks.Items(named, forms="txt"),
        blocks.Fold("Assumptions", filled(assumptions)),
    )
    return blocks.Group("prediction", parts, name, "predicted")


def error_sentence(memory: MemoryClass | None) -> str:
    known = accuracy.by_class().get(memory) if memory else None
    if known is None:
        return f"No published figures for this memory class: the model's error is unknown ({WHERE})."
    told = "no choice could be checked"
    if known.right_share is not None:
        choices = words.count(known.choices, "choice")
        told = f"the best or within 5 % of it in {units.percent(known.right_share)} of {choices}"
    if known.inside_share is not None:
        told += f"; {units.percent(known.inside_share)} of the figures lie in the predicted range"
    few = f" Only {words.count(known.cases, 'case')}: too few to rely on." * (known.cases < FEW_CASES)
    figures = words.count(known.figures, "published figure")
    said = f"On devices left out of its fit, the model checked with {figures} for this memory class"
    return f"{said}: {told} ({WHERE}).{few}"


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
        facts = [
            blocks.Fact(words.name(p.device.name), sentence(p.recommendation), predicted=True)
            for p in profile.predictions
            if p.recommendation is not None and not doubt(profile, p)
        ]
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
    (choices,), budget = by_device.values(), wanted.memory_budget_bytes
    fits = (told for least, told in choices if least == budget or (least and budget and least <= budget))
    return next(fits, choices[-1][1])


def _setup(profile: Profile) -> blocks.Table:
    measured, base = tuple(counted(profile).measured().values()), baseline(profile)
    return blocks.Table(
        "setup",
        "strategy",
        blocks.columns("set-up", "additional set-up", "saved per frame", "pays off"),
        setup_costs(measured, base, speeds(counted(profile))),
        caption=_SETUP.format(words.name(base.strategy) if base else "baseline"),
        identifier="setup",
        sortable=True,
        forms="html",
    )


def _model(profile: Profile) -> blocks.Table | None:
    cells = {}
    for one in profile.sensitivity:
        smaller = "smaller " * (one.question == "smaller")
        told = f"{words.name(one.strategy)} from {one.factor}× {smaller}on" if one.strategy else ""
        cells[one.device, str(one.question)] = (
            told if one.factor is not None and told else "no change up to 64×"
        )
    devices = dict.fromkeys(device for device, _ in cells)
    rows = (
        blocks.row(text, *(cells.get((device, question), blocks.NOTHING) for device in devices))
        for question, text in _QUESTIONS.items()
    )
    heads = tuple(blocks.Column(words.name(d), basis="predicted", figures=False) for d in devices)
    if not devices:
        return None
    return blocks.Table("turns", "if", heads, tuple(rows), caption=_BLIND, identifier="turns", codes=False)
