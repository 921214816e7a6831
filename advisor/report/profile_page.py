"""The page of a workload's profile: the verdict, what to change, and its evidence."""

from __future__ import annotations

from dataclasses import replace

from advisor.profiles.conclusions import Recommendation
from advisor.profiles.schema import Profile
from advisor.report import blocks, words
from advisor.report.advising import findings, with_code
from advisor.report.answering import answers, beside
from advisor.report.evidence import HERE, noise, predictions, stages
from advisor.report.machine import environment, measured_label, method, pairs, preferences, workload
from advisor.report.mixes import buffers, described
from advisor.report.page import Page, Section, around, circumstances, filled, lead
from advisor.report.recommendations import FIRST_FRAMES, failures, prediction_verdict, verdicts
from advisor.report.records import records_of
from advisor.report.traces import traces
from advisor.verdicts.caveats import all_failed, doubt

_FROM_FIRST_FRAMES = "The workload failed under every strategy here: all below is based on its first frames."


def profile_page(profile: Profile, *, targets_first: bool = False) -> Page:
    """targets_first: the devices to predict come first, also of a profile that was measured on a GPU."""
    cpu, name = profile.device.kind == "cpu", words.name(profile.workload.name)
    leading = cpu or (targets_first and bool(profile.predictions))
    parameters = pairs(profile.workload.parameters)
    created, concluded, timelines = words.created(profile.created), findings(profile), traces(profile)
    predicted = (predictions(profile, leading=leading),) if profile.predictions else ()
    badge = "measured" * (leading and not cpu)
    page = Page(
        kind="report",
        brand="memory strategy report",
        name=name,
        where=_where(profile, leading=leading),
        basis="measured" if not cpu else "predicted" if predicted else "nothing",
        summary=words.line(profile.workload.summary, 300),
        meta=tuple(filter(None, (f"`{parameters}`" if parameters else "", created))),
        sections=(
            _lead(profile, targets_first=targets_first),
            *(predicted if leading else ()),
            *stages(profile, badge=badge),
            _advice(profile, concluded),
            *(() if leading else predicted),
            noise(profile),
            *(
                [Section("frames", f"Timeline of one frame{HERE * cpu}", timelines, nav="Timelines")]
                if timelines
                else []
            ),
            _circumstances(profile),
        ),
        tool=f"advisor {words.name(profile.tool.version)}",
        created=created,
        profile=profile,
        records=records_of(profile),
    )
    return replace(page, sections=tuple(replace(section, closed=True) for section in page.sections))


def with_headlines(profile: Profile) -> Profile:
    """The profile whose recommendations have the sentence that its page begins with."""

    def headed(chosen: Recommendation | None, verdict: blocks.Verdict) -> Recommendation | None:
        return chosen and chosen.model_copy(update={"headline": described(verdict, profile).headline})

    first, host_only = verdicts(profile)[0], doubt(profile) == "host only"
    predictions = []
    for each in profile.predictions:
        verdict = first if host_only else prediction_verdict(profile, each)
        predictions.append(each.model_copy(update={"recommendation": headed(each.recommendation, verdict)}))
    chosen = headed(profile.recommendation, first)
    return profile.model_copy(update={"recommendation": chosen, "predictions": tuple(predictions)})


def _where(profile: Profile, *, leading: bool) -> str:
    """The device that was measured, or those that were predicted from its figures."""
    device = words.name(profile.device.name)
    if profile.device.kind == "cpu":
        return ""
    if not leading:
        return f"on {device}"
    targets = words.listing(
        (words.name(prediction.device.name) for prediction in profile.predictions), limit=3
    )
    return f"on {targets}, predicted from measurements on {device}"


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
        blocks.Prose(_FROM_FIRST_FRAMES * doubtful, forms="html"),
        blocks.Findings(items, forms="html" if doubtful else "html txt"),
        None if fired else blocks.Prose("No rule found anything to change.", forms="html"),
        blocks.Fold(more, filled(blocks.Findings(quiet)), kind="folded"),
    )
    return Section("advice", "Advice", parts, nav="Advice")


def _circumstances(profile: Profile) -> Section:
    cpu, wanted, machine = profile.device.kind == "cpu", preferences(profile), environment(profile)
    settings = filled(blocks.Facts(wanted))
    ran = f"{words.line(profile.workload.file, 120)} {pairs(profile.workload.parameters)}"
    return circumstances(
        blocks.Fold("Objective, budget and rule settings", settings, open=True, forms="html txt"),
        method=method(profile),
        ran=workload(profile),
        machine=machine,
        facts=(
            blocks.Fact("device", words.name(profile.device.name) + f" ({measured_label(profile)})" * cpu),
            blocks.Fact("workload", ran),
            blocks.Fact("command", words.code(profile.command, 500)),
            *machine[:10],
            *wanted[:10],
        ),
        notes=tuple(map(words.line, profile.notes)),
        origin=f"advisor {words.name(profile.tool.version)}, {words.created(profile.created)}",
    )
