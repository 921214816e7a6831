"""`make samples`: what was measured under reports/h200, concluded and rendered by today's rules."""

from __future__ import annotations

from pathlib import Path

from advisor import pipeline
from advisor.measure.contest import with_blocks
from advisor.measure.subjects import CONFIDENCE
from advisor.profiles import reading
from advisor.profiles.schema import Measured, Profile, Result
from advisor.report import pages
from advisor.verdicts.estimate import margins
from advisor.verdicts.scores import scores

MEASURED = Path(__file__).parents[1] / "reports" / "h200"


def main() -> None:
    """Blocks stay as they were measured; the rows' times, advice, verdict and pages are made from them."""
    for path in sorted(MEASURED.glob("*/profile.json")):
        made = pipeline.conclude(timed_again(reading.load(path)), ())
        page = pages.page_of(made)
        for name in pages.names(page.kind, pages.FORMATS):  # those of an earlier version are no list's
            (path.parent / name).unlink(missing_ok=True)
        pages.write(page, path.parent)
        print(f"{path.parent.name}: {pages.render(page, 'txt').splitlines()[2].strip()}")


def timed_again(profile: Profile) -> Profile:
    """The rows of the final's contestants with times and intervals by today's estimate of its blocks."""
    if profile.final is None:
        return profile
    names = [row.strategy for row in profile.results if isinstance(row, Measured) and row.samples == "blocks"]
    off = margins(scores(profile.blocks, "throughput"), names, CONFIDENCE)

    def again(row: Result) -> Result:
        if not isinstance(row, Measured) or row.strategy not in names:
            return row
        blocks = [block for block in profile.blocks if block.contestant == row.strategy]
        return with_blocks(row, blocks, off[row.strategy])

    return profile.model_copy(update={"results": tuple(map(again, profile.results))})


if __name__ == "__main__":
    main()
