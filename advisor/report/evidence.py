"""What was measured and predicted: the strategies side by side in tables and charts, device by device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from advisor import units
from advisor.model import accuracy
from advisor.model.measured import ModelAgainstRun
from advisor.profiles.schema import Measured, MemoryClass, Prediction, Profile, Skipped
from advisor.report import blocks, words
from advisor.report.charts import footprint_chart, frame_chart, overlap_note, prediction_chart
from advisor.report.distribution import distribution, spread
from advisor.report.failures import undoubted
from advisor.report.methods import measured_label
from advisor.report.more_figures import more_figures
from advisor.report.page import Section, filled
from advisor.report.recommendations import prediction_verdict
from advisor.report.tables import (
    apart,
    baseline,
    forecast_rows,
    forecasts,
    gaps,
    memory_told,
    overlaps,
    rows,
    setup_costs,
)
from advisor.verdicts.counting import counted

_ON_CPU = (
    "The workload ran here with NumPy for CuPy: this checks it, times its host stages and counts what each "
    "stage reads and writes. These times say nothing about a GPU's."
)
_PARTS = (
    "Parts are grouped by kind, not in the order of time, and each is a median of its own. The bracket below "
    "is the interval of the whole frame."
)
_BESIDE = "Predicted against measured on this device"


def evidence(profile: Profile, against: ModelAgainstRun) -> Section:
    """All of it; charts where something was measured. `against` is the model's comparison with the run."""
    cpu, missing = profile.device.kind == "cpu", gaps(profile.results)
    parts = filled(
        blocks.Prose(_ON_CPU if cpu else "", forms="html"),
        *(_side_by_side(profile, missing) if profile.measured() else _gaps(missing)),
        *(beside_model(against) if against.rows else ()),
    )
    return Section(
        "evidence",
        "Measured on this CPU, not on a GPU" if cpu else "Strategies side by side",
        parts if profile.results else (blocks.Prose("Nothing was run.", forms="html"),),
        nav="On this CPU" if cpu else "Strategies",
    )


def _side_by_side(profile: Profile, missing: tuple[blocks.Item, ...]) -> Iterator[blocks.Block]:
    cpu, raw = profile.device.kind == "cpu", profile.measured()
    ordered = fastest_first(counted(undoubted(profile)))
    measured = tuple(raw[name] for name in ordered.measured())
    yield strategies(profile)
    yield from _gaps(missing)
    yield blocks.Heading("Where the time of a frame goes", "stages")
    yield replace(frame_chart(ordered), notes=tuple(filter(None, (_PARTS, overlap_note(profile)))))
    if not cpu:
        yield blocks.Heading("Memory", "memory", "Memory")
        note = (
            "The physical total counts managed memory on a card on both sides, other memory that both sides "
            "see once."
        )
        yield replace(footprint_chart(ordered), notes=(note,))
    yield blocks.Heading("Spread of the frames", "spread", "" if cpu else "Frames")
    yield spread(measured)
    own = tuple(distribution(row, i) for i, row in enumerate(measured, 1))
    yield blocks.Fold("Each strategy on its own axis", (blocks.Group("strips", own),), kind="folded own")
    if not cpu:
        yield from more_figures(profile, measured)
        yield blocks.Heading("Set-up, and when it pays", "setup", "Set-up")
        yield _setup(profile, measured)


def _gaps(missing: tuple[blocks.Item, ...]) -> tuple[blocks.Block, ...]:
    """The short forms tell failures before the verdict."""
    return (
        blocks.Items(missing, "Strategies without figures", forms="html"),
        blocks.Items(tuple(gap for gap in missing if gap.status != "failed"), forms="md txt"),
    )


def _base_name(profile: Profile) -> str:
    base = baseline(profile)
    return words.name(base.strategy) if base else "baseline"


def strategies(profile: Profile) -> blocks.Table:
    """The measured strategies; Markdown has it where there is no table of predictions."""
    named, label, cpu = _base_name(profile), measured_label(profile), profile.device.kind == "cpu"
    interval = f"{units.percent(profile.method.confidence)} interval"
    told = rows(fastest_first(counted(undoubted(profile))), overlaps(profile))
    columns = (
        blocks.Column("time per frame", notes=interval, brief="frame", bars="measured", ascending=True),
        blocks.Column(f"speed against `{named}`", brief=f"vs {named}"),
        blocks.Column("memory", "host and device" if apart(profile.device) else ""),
        blocks.Column("device path", forms="html"),
        blocks.Column("results", figures=False, forms="html"),
    )
    checked = all(row.verified for row in profile.measured().values())
    kept = len(columns) - checked
    return blocks.Table(
        "strategies",
        "strategy",
        columns[:kept],
        tuple(replace(row, cells=row.cells[:kept]) for row in told),
        caption=f"Fastest first, {label}. Beneath each figure its {interval} or what qualifies it."
        + " The results of all were compared and agree." * checked,
        title=f"Frames {label}:" * cpu,
        identifier="strategies",
        sortable=True,
        forms="html txt" if cpu and profile.predictions else "html md txt",
    )


def _setup(profile: Profile, measured: tuple[Measured, ...]) -> blocks.Table:
    return blocks.Table(
        "setup",
        "strategy",
        tuple(map(blocks.Column, ("set-up, once", "more set-up", "saved per frame", "pays"))),
        setup_costs(measured, baseline(profile), profile.method.confidence),
        caption="Set-up is paid once: allocate, pin, set-up stages, first frame. A strategy that costs more "
        f"of it than `{_base_name(profile)}` pays after so many frames; a program that runs fewer should not "
        "change.",
        identifier="setup",
        sortable=True,
        forms="html",
    )


def beside_model(found: ModelAgainstRun) -> tuple[blocks.Block, ...]:
    """Measured, predicted, predicted over measured, and where the measured time lies; the fastest first."""
    told = []
    for row in sorted(found.rows, key=lambda row: row.measured):
        between = words.seconds_between(row.low, row.high)
        outside = f"outside: {'slower' if row.measured > row.high else 'faster'} than predicted"
        cells = (
            blocks.TableCell(units.seconds(row.measured)),
            blocks.TableCell(units.seconds(row.likely), between, mark="forecast"),
            blocks.TableCell(units.ratio(row.ratio)),
            blocks.TableCell("inside") if row.inside else blocks.TableCell(outside, mark="outside"),
        )
        told.append(blocks.Row(words.name(row.strategy), cells))
    columns = (
        blocks.Column("measured"),
        blocks.Column("", basis="predicted"),
        blocks.Column("predicted / measured"),
        blocks.Column("measured lies in the range", figures=False),
    )
    times = f"{words.count(len(told), 'measured time')} {'lies' if len(told) == 1 else 'lie'}"
    knew = (
        f"{found.inside} of {times} in the predicted range. The model knew the catalogue's figures for "
        f"{words.name(found.device)} and what was traced, none of these times."
    )
    figures = blocks.Table("compared", "strategy", columns, tuple(told), label=_BESIDE, forms="html")
    fold = blocks.Fold("Strategy by strategy", (figures,), kind="folded")
    return blocks.Heading(_BESIDE), blocks.Prose(knew, forms="html"), fold


def fastest_first(profile: Profile) -> Profile:
    """The profile with its measured rows by their median; the other rows follow as they were."""
    measured = sorted(profile.measured().values(), key=lambda row: row.median_seconds)
    others = (row for row in profile.results if not isinstance(row, Measured))
    return profile.model_copy(update={"results": (*measured, *others)})


FEW_CASES = 10
"""Below so many published cases a share says little; chosen."""
WHERE = "docs/accuracy.md"
_RANGE = "Predicted. The bracket below is the range of the whole frame."


def predictions(profile: Profile) -> Section:
    """All predictions; none of them marked as recommended where the workload failed."""
    marked, cpu = counted(undoubted(profile)).predictions, profile.device.kind == "cpu"
    notes = [overlaps(profile, made) for made in profile.predictions]
    table = blocks.Table(
        "forecasts",
        "strategy",
        tuple(blocks.Column(words.name(made.device.name)) for made in marked),
        forecasts(marked, notes),
        caption="Predicted time per frame: the likely value, beneath it the range. An arrow marks what is "
        "recommended.",
        title="Predicted time per frame:",
        identifier="forecasts",
        sortable=True,
        predicted=True,
        forms="html md" if cpu else "html",
    )
    parts = filled(
        table,
        *(_in_text(made, said) for made, said in zip(marked, notes, strict=True)),
        blocks.Prose(error_line(profile.predictions), forms="md") if cpu else None,
        blocks.Prose(f"How accurate predictions are: {WHERE}", forms="txt"),
        *(_device(profile, one, i) for i, one in enumerate(marked)),
    )
    return Section("predictions", "Predictions by device", parts, nav="Predictions", badge="predicted")


def _in_text(made: Prediction, notes: dict[str, str]) -> blocks.Table:
    """A terminal has room for one device, with its memory."""
    both = " (memory: host and device together)" if apart(made.device) else ""
    return blocks.Table(
        "forecast",
        "strategy",
        (blocks.Column("predicted", notes="range", bars="predicted"), blocks.Column("memory")),
        forecast_rows(made, notes),
        title=f"Predicted time per frame on {words.name(made.device.name)}{both}:",
        forms="txt",
    )


def _device(profile: Profile, marked: Prediction, index: int) -> blocks.Group:
    prediction, name = profile.predictions[index], words.name(marked.device.name)
    declined = tuple(r for r in prediction.results if isinstance(r, Skipped))
    told, memory = len(declined) < len(prediction.results), prediction.device.memory_class
    notes = filter(None, (_RANGE, overlap_note(profile, prediction)))
    chart = replace(prediction_chart(marked, index + 1), notes=tuple(notes)) if told else None
    verdict = None if profile.device.kind == "cpu" else prediction_verdict(profile, prediction)
    assumptions = blocks.Bullets(tuple(map(words.line, prediction.assumptions)), forms="html")
    missing = gaps(declined)
    named = tuple(replace(gap, status=f"not predicted on {name}") for gap in missing)
    parts = filled(
        blocks.Prose(memory_told(prediction.device), forms="html"),
        blocks.Verdicts((verdict,), level=4, forms="html") if verdict else None,
        blocks.Prose(error_sentence(memory) if told else "", forms="html"),
        chart,
        blocks.Items(tuple(replace(gap, status="") for gap in missing), "Not predicted", forms="html"),
        blocks.Items(named, forms="txt"),
        blocks.Fold("Assumptions", filled(assumptions)),
    )
    return blocks.Group("prediction", parts, name, "predicted")


def error_sentence(memory: MemoryClass | None) -> str:
    """The model's error for a device of that memory class, or that none is known."""
    known = accuracy.by_class().get(memory) if memory else None
    if known is None:
        return f"No published figures of this memory class: the model's error for it is not known ({WHERE})."
    told = "none of its choices could be checked"
    if known.right_share is not None:
        choices = words.count(known.choices, "choice")
        told = f"right or within 5 % in {units.percent(known.right_share)} of {choices}"
    if known.inside_share is not None:
        told += f"; {units.percent(known.inside_share)} of the figures lie in the predicted range"
    few = f" {words.count(known.cases, 'case')} only: these shares say little." * (known.cases < FEW_CASES)
    figures = words.count(known.figures, "published figure")
    said = f"On devices left out of its fit, the model against {figures} of this memory class"
    return f"{said}: {told} ({WHERE}).{few}"


def error_line(predictions: Sequence[Prediction]) -> str:
    """The same for all predicted devices in one line; nothing where nothing was predicted."""
    told = []
    for memory in dict.fromkeys(made.device.memory_class for made in predictions):
        known = accuracy.by_class().get(memory) if memory else None
        said = words.count(known.figures, "figure") if known else "none"
        if known and known.inside_share is not None:
            said += f", {units.percent(known.inside_share)} in range"
        few = " (few cases)" * (known is not None and known.cases < FEW_CASES)
        told.append(f"{memory or 'unknown class'} {said}{few}")
    return f"Model on devices left out: {'; '.join(told)}" if told else ""
