"""`make samples`: what was measured under reports/h200, concluded and rendered by today's rules."""

from __future__ import annotations

from pathlib import Path

from advisor.profiles import reading
from advisor.report import pages
from advisor.rules import advise

MEASURED = Path(__file__).parents[1] / "reports" / "h200"


def main() -> None:
    """Blocks stay as they were measured; the rows' times, advice, verdict and pages are made from them."""
    for path in sorted(MEASURED.glob("**/profile.json")):
        made = advise.conclude(reading.load(path), ())
        page = pages.page_of(made)
        for name in pages.names(page.kind, pages.FORMATS):  # those of an earlier version are no list's
            (path.parent / name).unlink(missing_ok=True)
        pages.write(page, path.parent)
        print(f"{path.parent.name}: {pages.render(page, 'txt').splitlines()[2].strip()}")


if __name__ == "__main__":
    main()
