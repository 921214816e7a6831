"""Whatever a profile's strings hold is shown as text; test_report_text.py has it for every kind of page."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from builders import (
    advice,
    altered,
    catalogue_device,
    cuda_device,
    failed,
    measured,
    predicted,
    prediction,
    profile,
    recommendation,
    skipped,
    vector_add_workload,
)
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rendering import blocks, shown

from advisor.errors import FileProblem
from advisor.profiles.reading import parse
from advisor.profiles.schema import Profile
from advisor.profiles.system_state import Environment
from advisor.report import words
from advisor.report.blocks import Banners
from advisor.report.markdown import LIMIT, escape
from advisor.report.pages import page_of

HOSTILE = (
    "<script>document.title='taken'</script>", "<img src=x onerror=alert(1)>", "</title></style></svg>",
    "{{ 7 * 7 }}", "{% include 'x' %}", "{# no", "`", "```", "\n\n# big\n", "\n| a | b |\n", "|", "@user",
    "![x](http://x)", "**", "__", "~~~", "\\", "-->", "<!--", "]]>", "&lt;", "&",
    '"', "'", "$x$", "#12", "\x1b[2J", "\x00", "\u202e", "\u200f", "\r", "<https://x>", "    ", "- ", "> ",
    "</details>", "\n```\n", "\U0001f600", "[x](javascript:alert(1))",
)  # fmt: skip
pieces = st.lists(st.sampled_from(HOSTILE) | st.text(max_size=8), min_size=1, max_size=6)
times = st.sampled_from((1, 1, 1, 3_000))


def joined(pieces: list[str], times: int) -> str:
    """One text. A letter on both sides keeps it from being blank, and from ending in what a cut removes."""
    return f"a{''.join(pieces) * times}z"


def everywhere(text: str) -> Profile:
    """A profile with the text wherever a user's or a process's string can stand."""
    said = dict.fromkeys(("title", "detail", "strategy", "snippet"), text)
    told = advice(text, text, **said, sources=(text,), evidence=(), gain=None)
    chosen = recommendation(text, tied_with=(text,), reason=text, next_step=text)
    return profile(
        workload=altered(
            vector_add_workload(), "", name=text, file=text, summary=text, parameters={text: text}
        ),
        command=text,
        device=altered(cuda_device(), "", name=text),
        environment=Environment(
            system=text,
            machine=text,
            python=text,
            packages={text: text},
            absent={text: text},
            warnings=(text,),
        ),
        results=(
            measured("pageable", 0.04, stage_seconds={text: 0.01}),
            measured(text, 0.02),
            failed(text, text, text),
            skipped(text, text),
        ),
        recommendation=chosen,
        advice=(told,),
        predictions=(
            prediction(
                device=catalogue_device(text),
                results=(predicted(text, 0.02, terms={f"host:{text}": 0.02}), skipped("managed", text)),
                recommendation=chosen,
                assumptions=(text,),
            ),
        ),
        notes=(text,),
    )


class Tags(HTMLParser):
    """The tags of a page in order, with the names of their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.seen: list[tuple[str, ...]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, *(name for name, _ in attrs if name != "class")))

    def handle_endtag(self, tag: str) -> None:
        self.seen.append((f"/{tag}",))


def structure(html: str) -> list[tuple[str, ...]]:
    """All tags but code, which a pair of backticks in prose may add."""
    return [tag for tag in Tags(html).seen if tag[0] not in ("code", "/code")]


def markdown_structure(text: str) -> list[str]:
    """Types of all tokens but text and code; inline HTML is given as it is."""
    kept = []
    for block in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text):
        for token in (block, *(block.children or ())):
            if token.type in ("html_inline", "html_block"):
                kept += re.findall(r"<(?!/?code)[^>]*>", token.content)
            elif token.type not in ("text", "text_special", "code_inline"):
                kept.append(token.type)
    return kept


@given(pieces)
def test_markdown_shows_the_very_text_in_one_cell(pieces: list[str]) -> None:
    text = words.line(joined(pieces, 1), 5_000)
    table = f"| x | y |\n| - | - |\n| {escape(text, 50_000)} | end |\n"
    cells = [
        t for t in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(table) if t.children
    ]
    shown = ["".join(child.content for child in cell.children or ()) for cell in cells[2:]]
    assert [cell.replace("\u200b", "") for cell in shown] == [text.replace("\u200b", ""), "end"]


def test_long_text_is_cut_with_a_mark_and_markdown_stays_small() -> None:
    html = shown(everywhere("<b>" * 40_000), "html")
    assert "more characters]" in html
    assert "characters cut] …" in html
    many = everywhere("@" * 100_000)
    rows = (*many.results, *(failed(f"{'|' * 500}{i}", "@" * 500, "x" * 500) for i in range(50)))
    crowded = altered(many, "", results=rows, predictions=many.predictions * 30, advice=many.advice * 30)
    for run in (crowded, altered(crowded, "device", kind="cpu")):
        assert len(shown(run, "md")) < LIMIT


def test_a_lone_surrogate_is_refused_in_a_file_and_replaced_in_memory() -> None:
    text = profile().model_dump_json().replace('"vector_add"', '"vector_\\ud800"')
    with pytest.raises(FileProblem, match=r"profile\.json is damaged"):
        parse(text, "profile.json")
    run = profile(notes=()).model_copy(update={"notes": ("a\ud800z",)})
    assert blocks(page_of(run), Banners)[0].texts == ("a\N{REPLACEMENT CHARACTER}z",)
