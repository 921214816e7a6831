"""The page of a workload's profile: the verdict, what to change, and its evidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from advisor.profiles.conclusions import Recommendation
from advisor.profiles.schema import Measured, Predicted, Profile, Skipped
from advisor.report import blocks, words
from advisor.report.advising import findings, with_code
from advisor.report.answer import Answers, overlap_note, parts_table
from advisor.report.answering import WHERE, accuracy, answers, beside, predicted_answer
from advisor.report.machine import CPU_TITLE, ON_CPU, method, pairs, preferences, workload
from advisor.report.mixes import buffers, described
from advisor.report.page import Page, Section, around, circumstances, filled, lead
from advisor.report.recommendations import FIRST_FRAMES, failures, verdict_of, verdicts
from advisor.report.records import records_of
from advisor.report.tables import by_gpu, gaps, more_figures
from advisor.report.traces import traces
from advisor.verdicts.measured import baseline, speeds
from advisor.verdicts.reasons import all_failed, doubt, undoubted
from advisor.verdicts.scores import counted


def profile_page(profile: Profile, *, targets_first: bool = False) -> Page:
    """targets_first: the devices to predict come first, also of a profile that was measured on a GPU."""
    cpu, name = profile.device.kind == "cpu", words.name(profile.workload.name)
    leading = cpu or (targets_first and bool(profile.predictions))
    parameters = f"`{pairs(profile.workload.parameters)}`" * bool(profile.workload.parameters)
    created, device = words.created(profile.created), words.name(profile.device.name)
    predicted = (predictions(profile, leading=leading),) if profile.predictions else ()
    targets = words.listing((words.name(p.device.name) for p in profile.predictions), limit=3)
    where = f"on {targets}" * (len(profile.predictions) == 1)  # each of several is named with its verdict
    if not cpu:  # the device that was measured, or those that were predicted from its figures
        where = f"on {targets}, predicted from measurements on {device}" if leading else f"on {device}"
    sections = (
        _lead(profile, targets_first=targets_first),
        *(predicted if leading else ()),
        *stages(profile, badge="measured" * (leading and not cpu)),
        _advice(profile, findings(profile)),
        *(() if leading else predicted),
        noise(profile),
        Section("frames", f"Timeline of one frame{HERE * cpu}", traces(profile), nav="Timelines"),
        _circumstances(profile),
    )
    closed = tuple(replace(section, closed=True) for section in sections)
    return Page(
        "report",
        "memory strategy report",
        name,
        closed,
        basis="measured" if not cpu else "predicted" if predicted else "nothing",
        where=where,
        tool=f"advisor {words.name(profile.tool.version)}",
        created=created,
        summary=words.line(profile.workload.summary, 300),
        meta=tuple(filter(None, (parameters, created))),
        profile=profile,
        records=records_of(profile),
    )


def with_headlines(profile: Profile) -> Profile:
    """The profile whose recommendations have the sentence that its page begins with."""

    def headed(chosen: Recommendation | None, verdict: blocks.Verdict) -> Recommendation | None:
        return chosen and chosen.model_copy(update={"headline": described(verdict, profile).headline})

    predictions = []
    for each in profile.predictions:
        chosen = headed(each.recommendation, verdict_of(profile, each))
        predictions.append(each.model_copy(update={"recommendation": chosen}))
    chosen = headed(profile.recommendation, verdicts(profile)[0])
    return profile.model_copy(update={"recommendation": chosen, "predictions": tuple(predictions)})


def _doubtful(profile: Profile) -> bool:
    """Whether predictions rest on a workload that failed: none of them is a recommendation then."""
    return all_failed(profile) and any(p.recommendation for p in profile.predictions)


def _lead(profile: Profile, *, targets_first: bool) -> Section:
    """The lead. `targets_first`: no warnings, since the machine's state is that of an earlier run."""
    block = answers(profile, targets_first=targets_first)
    steps = [answer.verdict.next_step for answer in block.items]
    next_step = steps[0] if len(steps) > 1 and len(set(steps)) == 1 else ""  # said once, for all devices
    warnings = () if targets_first else tuple(map(words.line, profile.environment.warnings))
    tables = tuple(buffers(profile))
    if tables and len(block.items) == 1:  # a page has it beside the chart
        block = replace(block, items=(replace(block.items[0], buffers=tables[0]),))
        tables = (replace(tables[0], forms="md"), *tables[1:])
    return lead(
        blocks.Banners("note", tuple(map(words.line, profile.notes)), forms="html txt"),
        *around(
            blocks.Failures(failures(profile)),
            blocks.Banners("doubtful", (f"{FIRST_FRAMES}.",) * _doubtful(profile), "doubt"),
            block,
            beside(profile, targets_first=targets_first),
            *tables,
            drawn=any(answer.bars for answer in block.items) and not _doubtful(profile),
        ),
        blocks.Prose(next_step, label="Next", kind="next together"),
        blocks.Banners("warning", warnings, "caution"),
    )


def _advice(profile: Profile, concluded: tuple[blocks.Finding, ...]) -> Section:
    fired, quiet = tuple(f for f in concluded if f.fired), tuple(f for f in concluded if not f.fired)
    doubtful, silenced = _doubtful(profile), any(f.outcome == "silenced" for f in quiet)
    items = tuple(with_code(profile, fired, none=doubtful))
    more = f"{len(quiet)} more: rules that passed{', were silenced' * silenced} or do not apply"
    parts = filled(
        blocks.Findings(items, forms="html" if doubtful else "html txt"),
        None if fired else blocks.Prose("No rule found anything to change.", forms="html"),
        blocks.Fold(more, filled(blocks.Findings(quiet)), kind="folded"),
    )
    return Section("advice", "Advice", parts, nav="Advice")


def _circumstances(profile: Profile) -> Section:
    settings = filled(blocks.Facts(preferences(profile)))
    return circumstances(
        profile,
        blocks.Fold("Objective, budget and rule settings", settings, open=True, forms="html md txt"),
        command=profile.command,
        method=method(profile),
        ran=workload(profile),
        notes=tuple(map(words.line, profile.notes)),
    )


HERE = " on this CPU"
_PARTS = "The parts of a frame by kind, each a median."


def stages(profile: Profile, *, badge: str = "") -> Iterator[Section]:
    """The parts of each strategy's frame, and what has no figures, named in the title."""
    cpu = profile.device.kind == "cpu"
    missing = gaps(profile.results)
    ordered = fastest_first(counted(profile))
    rows = ordered.measured().values()
    caption = f"{_PARTS} {overlap_note(profile)}".strip()
    parts = filled(
        blocks.Prose(ON_CPU if cpu else "", forms="html"),
        parts_table(ordered, rows, caption) if rows else None,
        *by_gpu(ordered),
        None if rows or missing else blocks.Prose("Nothing was run.", forms="html"),
    )
    title, nav = (CPU_TITLE, "On this CPU") if cpu else ("Where the time of a frame goes", "Stages")
    if rows or not missing:
        yield Section("stages", title, parts, nav=nav, badge=badge)
    names = words.listing((name for gap in missing for name in gap.names), limit=4)
    brief = blocks.Items(tuple(gap for gap in missing if gap.status != "failed"), forms="txt")
    title = f"{'Not run on this CPU' if cpu else 'Not measured'}: {names}"
    inside = filled(blocks.Items(missing, forms="html"), brief)
    yield Section("missing", title, inside, nav="" if rows else nav)


def noise(profile: Profile) -> Section:
    ordered = by_time = fastest_first(counted(profile))
    if profile.preferences.objective in ("latency-p99", "energy"):  # set-up pays off in time
        wanted = profile.preferences.model_copy(update={"objective": "time"})
        by_time = ordered.model_copy(update={"preferences": wanted, "recommendation": None})
    base = baseline(profile) if profile.device.kind != "cpu" and not doubt(profile) else None
    rows = more_figures(tuple(ordered.measured().values()), base, speeds(by_time))
    title = f"Slowest frames, CPU time, energy, set-up{HERE * (profile.device.kind == 'cpu')}"
    return Section("noise", title, tuple(rows), nav="More figures")


def fastest_first(profile: Profile) -> Profile:
    """The profile with its measured rows by their time, those outside the final after those in it, then the
    other rows as they were."""
    measured = sorted(profile.measured().values(), key=lambda row: (bool(row.outside), row.median_seconds))
    others = (row for row in profile.results if not isinstance(row, Measured))
    return profile.model_copy(update={"results": (*measured, *others)})


_PREDICTED = "Predicted time of a frame on {}, its range and its parts."


def predictions(profile: Profile, *, leading: bool) -> Section:
    """All predictions; none of them marked as recommended where the workload failed.

    leading: the first section has their answers.
    """
    each = tuple(predicted_answer(profile, prediction) for prediction in profile.predictions)
    classes = dict.fromkeys(prediction.device.memory_class for prediction in profile.predictions)
    cards = []
    for marked in counted(undoubted(profile)).predictions:
        name, rows = words.name(marked.device.name), [r for r in marked.results if isinstance(r, Predicted)]
        caption = f"{_PREDICTED.format(name)} {overlap_note(marked)}".strip()
        missing = gaps(r for r in marked.results if isinstance(r, Skipped))
        named = tuple(replace(gap, status=f"not predicted on {name}") for gap in missing)
        assumptions = blocks.Bullets(tuple(map(words.line, marked.assumptions)), forms="html")
        rows.sort(key=lambda row: row.likely_seconds)
        inside = filled(
            parts_table(marked, rows, caption) if rows else None,
            blocks.Items(tuple(replace(gap, status="") for gap in missing), "Not predicted", forms="html"),
            blocks.Items(named, forms="txt"),
            blocks.Fold("Assumptions", filled(assumptions)),
        )
        cards.append(blocks.Group("prediction", inside, name, "predicted"))
    parts = filled(
        None if leading else Answers(each, forms="html txt"),
        *(blocks.Prose(accuracy(each), forms="html txt") for each in classes if each),
        blocks.Prose(f"Prediction accuracy: {WHERE}", forms="md"),  # a comment has room for code instead
        *cards,
    )
    return Section("predictions", "Predicted frame time by part", parts, nav="Predictions", badge="predicted")
