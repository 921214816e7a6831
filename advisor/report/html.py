"""One HTML file that needs no network: style, charts and the profile itself inside.

Its script adds comforts and nothing that is said nowhere else; the page's policy allows that script and that
style alone, by their digests.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from dataclasses import dataclass
from urllib.parse import quote

from markupsafe import Markup

from advisor.profiles.schema import Profile
from advisor.report import templates
from advisor.report.view import view

# The page stays below 400 KB: a larger profile is packed, and one that is too large even so is left out.
PLAIN_LENGTH = 50_000
EMBEDDED_LENGTH = 245_000
MOST_FRAMES = 150_000
"""More than these do not fit, so that nobody need try: a frame takes more than two bytes, packed."""


@dataclass(frozen=True)
class Download:
    """The profile as a link; no `href` where it is too large to carry."""

    filename: str
    href: str


def render_html(profile: Profile) -> str:
    """The whole page of one profile."""
    return page("report.html.j2", report=view(profile), download=download(profile))


def page(template: str, **context: object) -> str:
    """A page with our style and script, which alone are not escaped, and the digests its policy allows."""
    style, script = _asset("report.css"), _asset("report.js")
    return (
        templates.page_environment()
        .get_template(template)
        .render(
            style=Markup(style),
            style_digest=_digest(style),
            script=Markup(script),
            script_digest=_digest(script),
            **context,
        )
    )


def _asset(name: str) -> str:
    return (templates.directory() / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _without_frames(profile: Profile) -> Profile:
    """The page carries the final's blocks, not the frames in them; profile.json has both."""
    blocks = tuple(block.model_copy(update={"frame_seconds": ()}) for block in profile.blocks)
    return profile.model_copy(update={"blocks": blocks})


def download(profile: Profile) -> Download:
    """The raw profile as a data: link, which a browser saves without a script."""
    if sum(len(row.frame_seconds) for row in profile.measured().values()) > MOST_FRAMES:
        return Download("profile.json", "")
    text = _without_frames(profile).model_dump_json()
    if len(text) <= PLAIN_LENGTH:
        plain = quote(text, safe="{}[]:,._-+/ ").replace(" ", "%20")
        return Download("profile.json", f"data:application/json,{plain}")
    packed = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
    if len(packed) <= EMBEDDED_LENGTH:
        return Download("profile.json.gz", f"data:application/gzip;base64,{packed}")
    return Download("profile.json", "")
