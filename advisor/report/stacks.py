"""What the stacked charts show: the parts of a frame, measured or predicted, and memory by kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import cycle

from advisor import units
from advisor.profiles.preferences import begin_to_end
from advisor.profiles.schema import Measured, MemoryKind, Predicted, Prediction, Profile, Side
from advisor.report import words
from advisor.report.charts import Category, Chart, Part, Stack, binary_step, chart

_OVERLAPPING = (
    "Where frames overlap ({}), stages run at the same time: each part is as long as it took, so that "
    "together they may exceed the time per frame, which the bracket shows."
)
_BEGIN_TO_END = (
    "Where frames overlap ({}), the bracket shows the latency of a frame: beside its parts it holds the "
    "time in which it waits for the frames around it."
)
_ROUNDING = 1e-9
_HOST_COPY = "host copy"
_TERMS: dict[str, tuple[str, Category]] = {
    "host-copy": (_HOST_COPY, "host-copy"),
    "to-device": ("to-device", "transfer"),
    "to-host": ("to-host", "transfer-2"),
    "synchronize": ("synchronize", "wait"),
}
_KINDS: tuple[MemoryKind, ...] = ("pageable", "pinned", "managed", "device")


def frame_chart(profile: Profile) -> Chart:
    """Time per stage of each measured strategy, with the interval of the whole frame."""
    chosen = profile.recommendation.strategy if profile.recommendation else None
    sides: dict[str, Side] = {s.name: s.side for s in profile.workload.stages}
    here = "on this CPU, not on a GPU" if profile.device.kind == "cpu" else "measured"
    return chart(
        "frame",
        f"Time of one frame by stage, {here}",
        [_measured_stack(row, sides, row.strategy == chosen) for row in profile.measured().values()],
    )


def overlap_note(profile: Profile) -> str:
    """Why parts may exceed the frame; nothing where no measured frames overlap."""
    return _overlap_note(profile, profile.measured().values())


def predicted_overlap_note(profile: Profile, prediction: Prediction) -> str:
    """The same of what was predicted for one device."""
    return _overlap_note(profile, (row for row in prediction.results if isinstance(row, Predicted)))


def _overlap_note(profile: Profile, rows: Iterable[Measured | Predicted]) -> str:
    names = [words.code(row.strategy) for row in rows if row.latency_seconds is not None]
    told = _BEGIN_TO_END if begin_to_end(profile.preferences.objective) else _OVERLAPPING
    return told.format(words.listing(names)) if names else ""


def prediction_chart(prediction: Prediction, index: int) -> Chart:
    """The terms of each predicted strategy, with the range of the whole frame."""
    chosen = prediction.recommendation.strategy if prediction.recommendation else None
    rows = sorted((r for r in prediction.results if isinstance(r, Predicted)), key=lambda r: r.likely_seconds)
    return chart(
        f"predicted-{index}",
        f"Predicted time of one frame by part on {words.name(prediction.device.name)}",
        [_predicted_stack(row, row.strategy == chosen) for row in rows],
        predicted=True,
    )


def footprint_chart(profile: Profile) -> Chart:
    """Reserved memory by kind; the value beside each name is the physical total."""
    chosen = profile.recommendation.strategy if profile.recommendation else None
    return chart(
        "footprint",
        "Memory reserved by kind",
        [_footprint_stack(row, row.strategy == chosen) for row in profile.measured().values()],
        write=units.size,
        step=binary_step,
    )


def _measured_stack(row: Measured, sides: Mapping[str, Side], emphasised: bool) -> Stack:
    parts = _measured_parts(row, sides)
    if row.latency_seconds is None:
        # Parts are medians of their own: they seldom add up to the median of the frame exactly. Where frames
        # overlap, the difference means nothing.
        rest = row.median_seconds - sum(p.amount for p in parts)
        if rest > _ROUNDING * row.median_seconds:
            parts = [*parts, Part("other", "rest", rest)]
    return Stack(
        label=row.strategy,
        value=units.seconds(row.median_seconds),
        note=words.seconds_between(*row.interval_seconds),
        parts=tuple(parts),
        middle=row.median_seconds,
        interval=row.interval_seconds,
        emphasised=emphasised,
    )


def _measured_parts(row: Measured, sides: Mapping[str, Side]) -> list[Part]:
    shades = _shades()
    stages = [
        Part(words.name(stage, 40), next(shades[sides[stage]]) if stage in sides else "rest", seconds)
        for stage, seconds in row.stage_seconds.items()
    ]
    host_copy = row.host_copy_seconds
    copied = [] if host_copy is None else [Part(_HOST_COPY, "host-copy", host_copy)]
    return [
        *stages,
        *copied,
        Part("copies", "transfer", row.transfer_seconds),
        Part("synchronize", "wait", row.synchronize_seconds),
    ]


def _shades() -> dict[str, Iterator[Category]]:
    """Two shades for each side, in turn, so that neighbours differ."""
    return {"host": cycle(("host", "host-2")), "device": cycle(("kernel", "kernel-2"))}


def _predicted_stack(row: Predicted, emphasised: bool) -> Stack:
    shades = _shades()
    return Stack(
        label=row.strategy,
        value=units.seconds(row.likely_seconds),
        note=words.seconds_between(row.low_seconds, row.high_seconds),
        parts=tuple(_term(term, seconds, shades) for term, seconds in row.terms.items()),
        middle=row.likely_seconds,
        interval=(row.low_seconds, row.high_seconds),
        emphasised=emphasised,
    )


def _term(term: str, seconds: float, shades: Mapping[str, Iterator[Category]]) -> Part:
    side, _, stage = term.partition(":")
    if stage and side in shades:
        return Part(words.name(stage, 40), next(shades[side]), seconds)
    name, category = _TERMS.get(term, (words.name(term, 40), "rest"))
    return Part(name, category, seconds)


def _footprint_stack(row: Measured, emphasised: bool) -> Stack:
    reserved = row.footprint.reserved
    return Stack(
        label=row.strategy,
        value=f"{units.size(row.footprint.physical_bytes)} physical",
        note="",
        parts=tuple(Part(kind, kind, reserved.get(kind, 0)) for kind in _KINDS),
        emphasised=emphasised,
    )
