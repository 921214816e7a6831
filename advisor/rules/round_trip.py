"""round-trip: what a download brought goes back to the GPU unchanged."""

from advisor.profiles.crossings import Crossing
from advisor.rules.base import Finding, Limits
from advisor.rules.lines import LineCase
from advisor.rules.snippets.lines import UserLine, kept


def judge_line(case: LineCase, limits: Limits) -> Finding | None:
    crossing, repeats = case.crossing, case.crossing.repeats
    if crossing.kind != "upload" or repeats is None or repeats.checked < limits["checked"]:
        return None
    share = repeats.returned / repeats.checked
    saved = case.frame_seconds * share
    if share < limits["share"] or not case.is_worth(saved, limits):
        return None
    source = repeats.returned_from
    return case.advice(
        f"Keep {case.what} on the GPU instead of bringing it back",
        f"{repeats.returned} of {repeats.checked} uploads brought the very bytes that {case.at(source)} had "
        "downloaded: the array is still on the GPU.",
        case.sampled,
        "The gain is the time of the uploads; the download can go too if the host does not read it.",
        saved=saved,
        after=kept(case.line, _download(case, source)),
    )


def _download(case: LineCase, source: object) -> UserLine | None:
    """The line that brought the bytes to the host, as far as this frame has it."""
    its: list[Crossing] = [c for _, c in case.scope.crossings if c.kind == "download" and c.place == source]
    return UserLine.of(its[0]) if its else None
