"""What looks like a secret: by the name it is given to, by its form, or as the value of such a name.

Covered: values of options, parameters and environment variables whose names look secret, wherever they
reappear; `name=value` and `name: value` in texts; credentials in URLs; Bearer and Basic headers; JSON web
tokens; private keys in PEM; and the forms below. Not covered: a secret under a harmless name and without a
form of its own, one that is cut, encoded or encrypted, and anything in pictures or binary files.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

MASK = "***"

_SECRETS = frozenset((
    "password", "passwd", "passphrase", "pwd", "secret", "secrets", "token", "tokens", "credential",
    "credentials", "auth", "authorization", "apikey", "bearer", "cookie", "jwt", "signature", "sig",
))  # fmt: skip
_KEYS = frozenset(("api", "access", "account", "private", "secret", "ssh", "encryption", "signing", "auth"))
"""Before "key" these make a secret of it; a key alone may be a number."""
_WORD = re.compile(r"[a-z]+|[A-Z]+(?![a-z])|[A-Z][a-z]*")
_OPTION = re.compile(r"(-{0,2}[\w.-]+)=(.*)", re.DOTALL)
_ASSIGNED = re.compile(
    r"""(?P<name>[A-Za-z][\w-]*)(?P<between>["']?\s*(?P<sign>=|:(?!//))\s*["']?)(?P<value>[^\s"',;&?<>()]+)"""
)
_IN_URL = re.compile(r"(?<=://)[^/@\s]+@")
_HEADER = re.compile(r"\b(bearer|basic)(\s+)(?=\S*\d)[\w.~+/=-]{8,}", re.IGNORECASE)
_FORMS = re.compile(
    "|".join((
        r"\bgh[pousr]_\w{16,}|\bgithub_pat_\w{16,}",  # GitHub
        r"\bgl(?:pat|dt|cbt|ptt|rt|ft|soat|agent|oas|imt)-[\w-]{16,}",  # GitLab
        r"\b(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{12,}",  # Amazon
        r"\bAIza[\w-]{30,}|\bya29\.[\w-]{16,}|\bGOCSPX-[\w-]{16,}",  # Google
        r"\b(?:sk|rk|pk)_(?:live|test|prod)_\w{10,}|\bwhsec_[\w+/=]{16,}",  # Stripe
        r"\bxox[a-z]-[\w-]{8,}|\bxapp-[\w-]{8,}|hooks\.slack\.com/services/[\w/]+",  # Slack
        r"\bhf_\w{16,}|\bapi_org_\w{16,}",  # Hugging Face
        r"\bsk-[\w-]{16,}",  # OpenAI, Anthropic
        r"\bnpm_\w{30,}|\bpypi-[\w-]{16,}|\brubygems_[0-9a-f]{32,}|\boy2[a-z0-9]{40,}",  # package registries
        r"\bdckr_(?:pat|oat)_[\w-]{16,}|\bcio[A-Za-z0-9]{32}\b",  # Docker, crates.io
        r"\beyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*){0,3}",  # JSON web tokens
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:(?!-----END)[\s\S])*(?:-----END [A-Z ]*PRIVATE KEY-----)?",
    ))
)  # fmt: skip
"""The prefixes that those who give tokens document; gitleaks' rules have the same."""
_SHORTEST, _SHORTEST_OF_ENVIRONMENT = 4, 8
"""A shorter value stands in too many texts by chance."""


def is_secret(name: str) -> bool:
    """Whether an option, a parameter or a variable of that name looks like one that holds a secret."""
    words = [word.lower() for word in _WORD.findall(name)]
    keys = any(second == "key" and first in _KEYS for first, second in pairwise(words))
    return keys or not _SECRETS.isdisjoint(words)


def masked(arguments: Sequence[str]) -> list[str]:
    """Arguments of a command, `***` for the values of options that look like secrets."""
    kept: list[str] = []
    hidden = False
    for argument in arguments:
        kept.append(MASK if hidden and not argument.startswith("--") else _masked(argument))
        hidden = argument.startswith("-") and "=" not in argument and is_secret(argument)
    return kept


def _masked(argument: str) -> str:
    found = _OPTION.fullmatch(argument)
    if found is None:
        return argument
    return f"{found[1]}={MASK if is_secret(found[1]) else _masked(found[2])}"


def given(arguments: Sequence[str], parameters: Mapping[str, object]) -> list[str]:
    """The secret values among arguments and parameters."""
    values = [
        argument.removeprefix(shown.removesuffix(MASK))
        for argument, shown in zip(arguments, masked(arguments), strict=True)
        if argument != shown
    ]
    values += [value for name, value in parameters.items() if isinstance(value, str) and is_secret(name)]
    return [value for value in values if len(value) >= _SHORTEST and value != MASK]


def of_process(
    arguments: Sequence[str] | None = None, variables: Mapping[str, str] | None = None
) -> list[str]:
    """The secret values that this process was given: by its command line and its environment."""
    variables = os.environ if variables is None else variables
    told = [value for name, value in variables.items() if is_secret(name)]
    long = [value for value in told if len(value) >= _SHORTEST_OF_ENVIRONMENT]
    return given(sys.argv[1:] if arguments is None else arguments, {}) + long


def mask(text: str, values: Iterable[str] = ()) -> str:
    """The text without these values, and without what has the name or the form of a secret."""
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, MASK)
    text = _FORMS.sub(MASK, _HEADER.sub(rf"\1\2{MASK}", _IN_URL.sub(f"{MASK}@", text)))
    return _ASSIGNED.sub(_without_value, text)


def _without_value(found: re.Match[str]) -> str:
    """`name: word` is prose where the word has no digit; `name=word` is an assignment."""
    value = found["value"]
    prose = found["sign"] == ":" and not any(character.isdigit() for character in value)
    if prose or value.startswith(MASK) or not is_secret(found["name"]):
        return found[0]
    return f"{found['name']}{found['between']}{MASK}"
