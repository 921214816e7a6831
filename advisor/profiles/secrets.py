"""What looks like a secret: by the name it is given to, by its form, or as the value of such a name.

Covered: values of options, parameters and environment variables whose names look secret, and passwords in
the URLs of arguments and variables, wherever they reappear; `name=value`, `name: value` and `("name",
"value")` in texts; logins of a `.netrc` and of curl; credentials in URLs; Bearer and Basic headers; JSON web
tokens; private keys in PEM; and the forms below. Not covered: a secret under a harmless name and without a
form of its own, a bare word without a digit after `name:`, which is mostly prose, one that is cut, encoded or
encrypted, and anything in pictures or binary files.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from advisor.texts import printable

MASK = "***"

_SECRETS = frozenset((
    "pass", "pw", "pwd", "otp", "sshpass", "tokens", "auth", "authorization", "bearer", "cookie", "jwt",
    "sessionid", "signature", "sig",
))  # fmt: skip
_ENDINGS = (
    "password", "passwd", "passphrase", "secret", "secrets", "token", "credential", "credentials", "apikey",
    "secretkey", "privatekey", "accesskey",
)  # fmt: skip
"""Of words: PGPASSWORD is one word."""
_COUNTED = frozenset(("tokens",))
"""A number under such a name is a size."""
_KEYS = frozenset(("api", "access", "account", "private", "secret", "ssh", "encryption", "signing", "auth"))
"""Before "key" these make a secret of it; a key alone may be a number."""
_WORD = re.compile(r"[a-z]+|[A-Z]+(?![a-z])|[A-Z][a-z]*")
_OPTION = re.compile(r"(-{0,2}[\w.-]+)=(.*)", re.DOTALL)
_SIGN = r"=>|->|:=|(?<![=!<>])=(?!=)|:[ \w\[\]|.]{1,60}=(?!=)|:(?!//)|>(?=[^\s<]*</)|(?<=\s)is(?=\s)"
_ASSIGNED = re.compile(
    rf"""(?<![\w-])(?P<name>[\w-]+)(?=(?P<between>\\*["']?\]?\s*(?P<sign>{_SIGN})\s*\\*"""
    r"""(?:[bBfFrRuU]{1,2}(?=["']))?))"""
)
_VALUE = re.compile(
    r""""{3}[\s\S]*?(?:"{3}|\Z)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|"""
    r"""[(\[{<][^()\[\]{}]*[)\]}]?|[^\s"';&?<>()]+"""
)
_ADJACENT = re.compile(r"""\s*(?:[bBfFrRuU]{1,2})?(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""")
"""One more literal of the same value."""
_PAIR = re.compile(
    r"""(?<=[(\[])(?P<open>\s*(?:[bBfFrRuU]{1,2})?\\*["'])(?P<name>[\w-]+)"""
    r"""(?P<between>\\*["'](?P<sign>,)\s*\\*(?:[bBfFrRuU]{1,2})?)(?=["'])"""
)
"""As in a list of headers: `("token", "value")`."""
_OPTION_IN_TEXT = re.compile(r"(?<![\w-])(?P<name>--?[A-Za-z][\w-]*)(?P<between>\s+)(?P<value>[^\s-]\S*)")
_PASSWORD_IN_URL = re.compile(r"://[^\s/:@]{0,200}:([^\s/?#@]{1,500})@")
_IN_URL = re.compile(r"(\w:/{1,2})[^\s/:@]{1,200}:[^\s?#]{0,500}@|(://)[^/\s@]{1,500}@")
"""A path that was made of a URL has one slash."""
_HEADER = re.compile(r"\b(bearer|basic|token)(\s+)(?=\S*\d)[\w.~+/=-]{8,}", re.IGNORECASE)
_AUTHORIZATION = re.compile(
    r"""\b(authorization\W{1,6}(?:bearer|basic|token|digest|negotiate)\s+)[^\s'",;]{4,}""", re.IGNORECASE
)
_LOGIN = re.compile(
    r"""(\blogin\s+\S{1,200}\s+(?:account\s+\S{1,200}\s+)?password\s+|\bsshpass\s+-p\s*|"""
    r"""(?<![\w-])(?:-u|--user|--proxy-user)[\s=]+(?!\d+:\d+\b)[^\s:'"]{1,200}:)[^\s'",;]+"""
)
"""As in a `.netrc`, and in commands: `curl -u name:password`."""
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
        r"\beyJ[\w-]{8,2000}\.[\w-]{4,}(?:\.[\w-]*){0,3}",  # JSON web tokens
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:(?!-----END)[\s\S])*(?:-----END [A-Z ]*PRIVATE KEY-----)?",
    ))
)  # fmt: skip
"""The prefixes that those who give tokens document; gitleaks' rules have the same."""
_HINTS = (
    "pass", "pw", "otp", "auth", "bearer", "cookie", "jwt", "session", "sig", "secret", "token", "credential",
    "key", "basic", ":/", "-u ", "-user",
)  # fmt: skip
_HINT_OF_FORM = re.compile(
    r"gh[pousr]_|github_pat_|gl[a-z]+-|A(?:KIA|SIA|BIA|CCA)|AIza|ya29|GOCSPX|_(?:live|test|prod)_|whsec_|xox|xapp|"
    r"hooks\.slack|hf_|api_org_|sk-|npm_|pypi-|rubygems_|oy2|dckr_|cio|eyJ|-----BEGIN"
)
_SHORTEST, _SHORTEST_OF_ENVIRONMENT, _SHORTEST_NUMBER = 4, 8, 6
"""A shorter value stands in too many texts by chance; a shorter number is a size."""
_KNOWN: set[str] = set()
"""What this process learned of: a worker its job's, the parent the workload's parameters."""


def is_secret(name: str) -> bool:
    """Whether an option, a parameter or a variable of that name looks like one that holds a secret."""
    words = [word.lower() for word in _WORD.findall(name)]
    keys = any(second == "key" and first in _KEYS for first, second in pairwise(words))
    return keys or any(word in _SECRETS or word.endswith(_ENDINGS) for word in words)


def is_hidden(name: str, value: object) -> bool:
    """Whether a parameter's value is a secret by its name: a text, or a number too long to be a size."""
    if isinstance(value, (int, float)):
        counted = not _COUNTED.isdisjoint(word.lower() for word in _WORD.findall(name))
        return is_secret(name) and not counted and len(str(value)) >= _SHORTEST_NUMBER
    return isinstance(value, str) and is_secret(name)


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
    """The secret values among arguments and parameters; of a list its parts too."""
    values = [
        argument.removeprefix(shown.removesuffix(MASK))
        for argument, shown in zip(arguments, masked(arguments), strict=True)
        if argument != shown
    ]
    values += [found for argument in arguments for found in _PASSWORD_IN_URL.findall(argument)]
    values += [str(value) for name, value in parameters.items() if is_hidden(name, value)]
    parts = [part.strip() for value in values for part in value.split(",")]
    return [value for value in dict.fromkeys((*values, *parts)) if len(value) >= _SHORTEST and value != MASK]


def remember(values: Iterable[str]) -> None:
    """Masks these in whatever this process tells from now on."""
    _KNOWN.update(values)


def of_process(
    arguments: Sequence[str] | None = None, variables: Mapping[str, str] | None = None
) -> list[str]:
    """The secret values this process knows: of its command line and environment, and what it remembers."""
    variables = os.environ if variables is None else variables
    named = (value for name, value in variables.items() if _is_secret_variable(name))
    lines = [line.strip() for value in named for line in (value, *value.splitlines())]
    lines += [found for value in variables.values() for found in _PASSWORD_IN_URL.findall(value)]
    long = [line for line in lines if len(line) >= _SHORTEST_OF_ENVIRONMENT]
    return [*given(sys.argv[1:] if arguments is None else arguments, {}), *long, *_KNOWN]


def _is_secret_variable(name: str) -> bool:
    """As `is_secret`, but every key is one; PWD is the shell's working directory."""
    return name not in ("PWD", "OLDPWD") and (is_secret(name) or name.endswith(("_KEY", "_PAT")))


def _spelled(values: Iterable[str]) -> list[str]:
    """Each value as it is, and as Python, JSON and this program write it; longest first."""
    found = {
        form
        for value in values
        for form in (value, repr(value)[1:-1], json.dumps(value)[1:-1], printable(value))
    }
    return sorted(found, key=len, reverse=True)


def may_hold_secrets(text: str) -> bool:
    """Whether `mask` has to look closely, which takes a second for a million characters."""
    lower = text.lower()
    return any(hint in lower for hint in _HINTS) or _HINT_OF_FORM.search(text) is not None


def mask(text: str, values: Iterable[str] = ()) -> str:
    """The text without these values, and without what has the name or the form of a secret."""
    for value in _spelled(values):
        text = text.replace(value, MASK)
    if not may_hold_secrets(text):
        return text
    text = _AUTHORIZATION.sub(rf"\1{MASK}", _IN_URL.sub(rf"\1\2{MASK}@", text))
    text = _FORMS.sub(MASK, _LOGIN.sub(rf"\1{MASK}", _HEADER.sub(rf"\1\2{MASK}", text)))
    for pattern in (_ASSIGNED, _PAIR):
        text = "".join(_assignments(text, pattern))
    return _OPTION_IN_TEXT.sub(_option, text)


def _assignments(text: str, pattern: re.Pattern[str]) -> Iterator[str]:
    """The text in parts, without the values of secret names; a value may have names in it in turn."""
    done = 0
    for found in pattern.finditer(text):
        begin = found.end("between")
        if begin <= done or not is_secret(found["name"]):
            continue
        if value := _VALUE.match(text, begin):
            yield text[done:begin]
            yield _hidden(value[0], prose=found["sign"] in (":", "is"))
            done = value.end()
            while value[0][0] in "\"'" and (more := _ADJACENT.match(text, done)):
                done = more.end()
    yield text[done:]


def _option(found: re.Match[str]) -> str:
    value = _hidden(found["value"], prose=True) if is_secret(found["name"]) else found["value"]
    return f"{found['name']}{found['between']}{value}"


def _hidden(value: str, *, prose: bool) -> str:
    """`name: word` is prose where the word has no digit; `name=word` and a quoted one are values."""
    quote = value[0] if value[0] in "\"'" else ""
    said = prose and not re.search(r"[\d\"']", value)
    if value.strip("\"'").startswith(MASK) or said:
        return value
    end = quote if len(value) > 1 and value.endswith(quote) else ""
    return f"{quote}{MASK}{end}"
