"""The figures of a page as one flat table, for `--format csv`: plain numbers; heads name their units."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

from advisor.profiles import schema
from advisor.profiles.crossings import ScriptRun
from advisor.profiles.figures import FrameFigures
from advisor.profiles.programs import GpuTrace
from advisor.profiles.sweeps import ProfileSet
from advisor.report.recommendations import with_gain
from advisor.stats import Ratio
from advisor.verdicts.comparing.comparisons import Comparison
from advisor.verdicts.comparing.versions import PromisedSpeed
from advisor.verdicts.scores import bytes_of, seconds_of

Cell = Any
"""A text, a number, true or false; None is an empty cell."""
Record = Mapping[str, Cell]
"""A row by the heads of its columns."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet runs text that begins with one of them (OWASP, CSV Injection)."""


def to_csv(records: Sequence[Record]) -> str:
    """RFC 4180: one header, one line for each record, CRLF."""
    text, heads = io.StringIO(), dict.fromkeys(head for record in records for head in record)
    if not heads:
        return ""
    writer = csv.DictWriter(text, list(heads), lineterminator="\r\n")
    writer.writeheader()
    writer.writerows({head: _plain(cell) for head, cell in record.items()} for record in records)
    return text.getvalue()


def _plain(cell: Cell) -> Cell:
    if isinstance(cell, bool):
        return str(cell).lower()
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def to_json(records: Sequence[Record]) -> str:
    """The same rows as JSON, without cells that are empty or infinite."""
    rows = [{k: cell for k, cell in record.items() if cell not in (None, math.inf)} for record in records]
    return json.dumps({"rows": rows}, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def records_of(*profiles: schema.Profile) -> tuple[Record, ...]:
    """A row for each strategy on each device, measured or predicted; of a script, for each line."""
    return tuple(record for profile in profiles for record in _profile(profile))


def records_of_points(results: ProfileSet) -> tuple[Record, ...]:
    """Rows of each value or workload; what has no profile is one row, with its status and the reason."""
    rows: list[Record] = []
    for point in results.points:
        if point.profile:
            rows += records_of(point.profile)
            continue
        row: Record = {"workload": point.value}
        if results.kind == "sweep":
            values = point.value if isinstance(point.value, tuple) else (point.value,)
            swept = {f"parameter_{name}": v for name, v in zip(results.parameters, values, strict=True)}
            row = {"workload": results.workload, **swept}
        rows.append({**row, "kind": point.status, "reason": point.reason})
    return tuple(rows)


def compared(comparison: Comparison, promise: PromisedSpeed | None) -> tuple[Record, ...]:
    """The rows of BASE, then of HEAD, whose times over BASE's are added with their intervals.

    `promise`: the row of HEAD's strategy also has the speedup that BASE promised, and the one measured.
    """
    ratios = {(d.device.name, row.head.strategy): row.ratio for d in comparison.devices for row in d.rows}
    promised_row = (comparison.head.device.name, promise.strategy) if promise else None
    rows = []
    for record in sides_of(comparison.base, comparison.head):
        at = (record["device"], record["strategy"]) if record["side"] == "HEAD" else None
        added = _ratio("over_base", ratios.get(at) if at else None)
        if promise:
            added |= _ratio("promised", promise.promised if at == promised_row else None)
            added |= _ratio("got", promise.got if at == promised_row else None)
        rows.append({**record, **added})
    return tuple(rows)


def _ratio(head: str, ratio: Ratio | None) -> dict[str, Cell]:
    value, low, high = (ratio.value, ratio.low, ratio.high) if ratio else (None, None, None)
    return {head: value, f"{head}_low": low, f"{head}_high": high}


def sides_of(base: schema.Profile, head: schema.Profile) -> tuple[Record, ...]:
    sides = {"BASE": base, "HEAD": head}
    return tuple({"side": side, **record} for side, of in sides.items() for record in records_of(of))


def _profile(profile: schema.Profile) -> Iterator[Record]:
    workload, commit = profile.workload, profile.commit
    parameters = {f"parameter_{name}": value for name, value in workload.parameters.items()}
    origin = {"created": profile.created, "commit": commit.revision if commit else None}
    run = {"workload": workload.name, **parameters, **origin}
    for record in _lines(profile.script, profile.device.name) if profile.script else _strategies(profile):
        yield {**run, **record}


def _strategies(profile: schema.Profile) -> Iterator[Record]:
    parts: tuple[schema.Profile | schema.Prediction, ...] = (profile, *profile.predictions)
    for part in parts:
        where = {"device": part.device.name, "memory_class": part.device.memory_class}
        chosen = part.recommendation
        if chosen and isinstance(part, schema.Profile):
            chosen = with_gain(chosen, part)
        for row in part.results:
            placed = "; ".join(f"{buffer}={name}" for buffer, name in row.placements.items())
            strategy = {"kind": row.status, "strategy": row.strategy, "placements": placed or None}
            # The verdict is in the row of the recommended strategy.
            best = chosen if chosen and chosen.strategy == row.strategy else None
            verdict = {
                "recommended": best is not None if chosen and chosen.strategy else None,
                "verdict": _at(best, "verdict"),
                "gain": _at(best, "speedup"),
                **dict(zip(("gain_low", "gain_high"), _at(best, "interval") or (None, None), strict=True)),
            }
            yield {**where, **strategy, **verdict, **_figures(row)}


_MEASURED = ("device_path_seconds", "transfer_seconds", *FrameFigures.model_fields, "setup_seconds")


def _figures(row: schema.Result | schema.PredictedResult) -> Record:
    """Times of a frame; low and high are the interval if measured, the range if predicted."""
    copied, unknown = getattr(row, "transfer_bytes", {}), (None, None, None)
    middle, low, high = seconds_of(row) if isinstance(row, (schema.Measured, schema.Predicted)) else unknown
    return {
        "frame_seconds": middle,
        "frame_low_seconds": low,
        "frame_high_seconds": high,
        "latency_seconds": _at(row, "latency_seconds"),
        "p95_seconds": _at(row, "p95", "seconds"),
        "p99_seconds": _at(row, "p99", "seconds"),
        **{name: _at(row, name) for name in _MEASURED},
        "to_device_bytes": copied.get("to-device"),
        "to_host_bytes": copied.get("to-host"),
        "memory_bytes": bytes_of(row),
        "energy_joules": _at(row, "energy", "joules"),
        "reason": _at(row, "reason"),
    }


def _at(row: object, *names: str) -> Cell:
    """A part of a row; nothing where it has none."""
    return reduce(lambda part, name: getattr(part, name, None), names, row)


def flows_of(gpus: Sequence[GpuTrace], **side: str) -> tuple[Record, ...]:
    """A row for each kind of copies in an Nsight Systems report: totals of the frames, else of the run."""
    rows = []
    for gpu in gpus:
        frames = gpu.frames.steady_count if gpu.frames else None
        for flow in gpu.flows or ():
            figures = flow.model_dump(exclude={"kind", "where", "best_bytes_per_second"})
            row = {**side, "gpu": gpu.label, "kind": "traced", "frames": frames, **figures}
            rows.append({**row, "direction": flow.kind, "function": flow.where})
    return tuple(rows)


def _lines(run: ScriptRun, device: str) -> Iterator[Record]:
    """A row for each line and kind of crossing: totals that were measured, one occurrence where predicted."""
    for index, crossing in enumerate(run.crossings):
        at = {"file": crossing.place.file, "line": crossing.place.line, "crossing": crossing.kind}
        at |= {"call": crossing.call, "library": crossing.library, "loop": crossing.loop}
        counts = {"count": crossing.count, "bytes": crossing.bytes}
        seconds = crossing.host_seconds, crossing.kernel_seconds, crossing.stream_seconds
        names = "host_seconds", "kernel_seconds", "stream_seconds"
        empty = dict.fromkeys(("once_seconds", "once_low_seconds", "once_high_seconds"))
        basis = {"device": device, "kind": "measured"}
        yield {**basis, **at, **counts, **dict(zip(names, seconds, strict=True)), **empty}
        for prediction in run.predictions:
            likely, ends = prediction.likely_seconds[index], prediction.seconds[index] or (None, None)
            once = dict(zip(empty, (likely, *ends), strict=True))
            basis = {"device": prediction.device, "kind": "predicted"}
            yield {**basis, **at, **dict.fromkeys((*counts, *names)), **once}
