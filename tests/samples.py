"""`make samples`: what was measured under reports/h200, concluded and rendered by today's rules."""

from __future__ import annotations

from pathlib import Path

from advisor import pipeline
from advisor.profiles import reading
from advisor.report import pages

MEASURED = Path(__file__).parents[1] / "reports" / "h200"


def main() -> None:
    """What was measured stays as it is; advice, verdict and pages are made anew."""
    for path in sorted(MEASURED.glob("*/profile.json")):
        made = pipeline.conclude(reading.load(path), ())
        page = pages.page_of(made)
        pages.write(page, path.parent)
        print(f"{path.parent.name}: {pages.render(page, 'txt').splitlines()[2].strip()}")


if __name__ == "__main__":
    main()
