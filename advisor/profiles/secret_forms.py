"""Secrets by their own form: the prefixes that those who give tokens document, and private keys in armour.

gitleaks' rules have the same prefixes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MASK = "***"
FORMS = re.compile(
    r"\b(?:" + "|".join((
        r"gh[pousr]_\w{16,}|github_pat_\w{16,}",  # GitHub
        r"gl(?:pat|dt|cbt|ptt|rt|ft|soat|agent|oas|imt|ffct)-[\w-]{16,}",  # GitLab
        r"(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{12,}",  # Amazon
        r"AIza[\w-]{30,}|ya29\.[\w-]{16,}|GOCSPX-[\w-]{16,}",  # Google
        r"(?:sk|rk|pk)_(?:live|test|prod)_\w{10,}|whsec_[\w+/=]{16,}",  # Stripe
        r"xox[a-z][-.][\w.-]{8,}|xapp-[\w-]{8,}|hooks\.slack\.com/services/[\w/]+",  # Slack
        r"hf_\w{16,}|api_org_\w{16,}",  # Hugging Face
        r"sk-(?=[\w-]{0,60}\d)[\w-]{16,}|gsk_\w{20,}|xai-[\w-]{20,}|pplx-\w{20,}|r8_\w{20,}",  # OpenAI …
        r"nvapi-[\w-]{16,}",  # NVIDIA
        r"npm_\w{30,}|pypi-[\w-]{16,}|rubygems_[0-9a-f]{32,}|oy2[a-z0-9]{40,}",  # package registries
        r"dckr_(?:pat|oat)_[\w-]{16,}|cio[A-Za-z0-9]{32}\b",  # Docker, crates.io
        r"eyJ[\w-]{8,2000}\.[\w-]{4,}(?:\.[\w-]*){0,3}",  # JSON web tokens
        r"hv[sbr]\.[\w-]{16,}",  # HashiCorp Vault
        r"\w{14}\.atlasv1\.[\w-]{40,}",  # HashiCorp Terraform
        r"SG\.[\w-]{16,}\.[\w-]{16,}|key-[0-9a-f]{32}\b|[0-9a-f]{32}-us\d{1,2}\b",  # SendGrid …
        r"do[opr]_v1_[0-9a-f]{32,}|dapi[0-9a-f]{32}\b|dp\.(?:pt|st|ct|sa|scim|audit)\.\w{30,}",  # clouds
        r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|sq0[a-z]{3}-[\w-]{22,}",  # Shopify, Square
        r"AT(?:ATT3|CTT3|BB)[\w=-]{20,}|lin_(?:api|oauth)_\w{32,}|ntn_\w{40,}|PMAK-[\w-]{30,}",  # Atlassian …
        r"NRAK-\w{20,}|gl(?:sa|c)_[\w+/=]{20,}|sntry[su]_[\w+/=-]{20,}|sq[uap]_[0-9a-f]{40}",  # monitoring
        r"pul-[0-9a-f]{40}|pscale_(?:tkn|pw|oauth)_[\w.-]{20,}|sbp_[0-9a-f]{40}|figd_[\w-]{20,}",
        r"tskey-[\w-]{16,}|lsv2_(?:pt|sk)_\w{20,}|AGE-SECRET-KEY-1[0-9A-Z]{20,}|LTAI\w{16,}",
        r"SK[0-9a-f]{32}\b|\d{8,10}:AA[\w-]{33}",  # Twilio, Telegram
    )) + ")"
)  # fmt: skip
_KIND = r"(?:[A-Z0-9]+ ){0,4}(?:PRIVATE KEY|PGP MESSAGE)(?: BLOCK)?"
_KEY = re.compile(
    rf"-{{4,5}} ?BEGIN {_KIND} ?-{{4,5}}(?:(?!--END|-- END)[\s\S])*(?:-{{2,5}} ?END {_KIND} ?-{{4,5}})?"
)
"""To its end, or to that of the text where it was cut."""
_END = re.compile(rf"-{{4,5}} ?END {_KIND} ?-{{4,5}}")
_ARMOUR = re.compile(r"""(?:[\w+/=\\"',|]+|[ \t]*\n[ \t\r]*|(?<=["']) +)*""", re.ASCII)
"""Its lines from the last to the first."""


def mask_forms(text: str) -> str:
    """The text without tokens of known forms."""
    return FORMS.sub(MASK, text)


def mask_private_keys(text: str) -> str:
    """The text without private keys, of which the beginning or the end may have been cut."""
    return "".join(_without_ends(_KEY.sub(MASK, text)))


def _without_ends(text: str) -> Iterator[str]:
    """The text in parts, without the lines above the end of a key."""
    done = 0
    for found in _END.finditer(text):
        lines = _ARMOUR.match(text[done : found.start()][::-1])
        yield f"{text[done : found.start() - (len(lines[0]) if lines else 0)]}{MASK}"
        done = found.end()
    yield text[done:]
