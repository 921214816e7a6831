"""`make docs`: the documentation as a site, every link and anchor in order, that needs no network."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from running import REPOSITORY

pytestmark = pytest.mark.skipif(find_spec("mkdocs") is None, reason="mkdocs is not installed")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(built)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return built


def test_every_page_is_in_it_and_can_be_searched(site: Path) -> None:
    pages = {path.relative_to(REPOSITORY / "docs") for path in (REPOSITORY / "docs").rglob("*.md")}
    assert {page for page in pages if not (site / page).with_suffix(".html").is_file()} == set()
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    assert any(doc["location"] == "glossary.html" for doc in index["docs"])
    assert any("indifference" in doc["text"] for doc in index["docs"])


def test_it_loads_nothing_from_elsewhere(site: Path) -> None:
    loads = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*?(?:src|href)="(?:https?:)?//[^"]*""")
    assert [found for page in site.rglob("*.html") for found in loads.findall(page.read_text("utf-8"))] == []


def test_lists_and_tables_are_drawn(site: Path) -> None:
    paragraphs = (
        p for page in site.rglob("*.html") for p in re.findall(r"<p>.*?</p>", page.read_text("utf-8"), re.S)
    )
    assert [p for p in paragraphs if re.search(r"\n\s*(- |\d+\. |\|)|```", p)] == []
