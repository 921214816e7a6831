"""One HTML file that needs no network and no script: style, charts and the profile itself inside."""

from __future__ import annotations

import base64
import gzip
import hashlib
from dataclasses import dataclass
from urllib.parse import quote

from markupsafe import Markup

from advisor.profiles import Profile
from advisor.report import templates
from advisor.report.view import view

# The page stays below 300 KB: a larger profile is packed, and one that is too large even so is left out.
EMBEDDED_LENGTH = 160_000


@dataclass(frozen=True)
class Download:
    """The profile as a link; no `href` where it is too large to carry."""

    filename: str
    href: str
    size: int


def render_html(profile: Profile) -> str:
    """The whole page of one profile."""
    if profile.script is not None:
        from advisor.report import script_pages

        return script_pages.render_html(profile, profile.script)
    return page("report.html.j2", report=view(profile), download=download(profile))


def page(template: str, **context: object) -> str:
    """A page with our stylesheet, which alone is not escaped, and the digest that its policy allows."""
    style = (templates.directory() / "report.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        templates.page_environment()
        .get_template(template)
        .render(style=Markup(style), style_digest=f"sha256-{digest}", **context)
    )


def download(profile: Profile) -> Download:
    """The raw profile as a data: link, which a browser saves without a script."""
    text = profile.model_dump_json()
    plain = "data:application/json," + quote(text, safe="{}[]:,._-+/ ").replace(" ", "%20")
    if len(plain) <= EMBEDDED_LENGTH:
        return Download("profile.json", plain, len(text))
    packed = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
    if len(packed) <= EMBEDDED_LENGTH:
        return Download("profile.json.gz", f"data:application/gzip;base64,{packed}", len(text))
    return Download("profile.json", "", len(text))
