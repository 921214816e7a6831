"""Texts that look like a secret: by the name it is given to, by its form, or as the value of such a name.

Covered: values of options, parameters and environment variables whose names look secret, and passwords in
the URLs of arguments and variables, wherever they or parts of them reappear; `name=value`, `name: value`,
`("name", "value")` and `{"name": NAME, "value": VALUE}` in texts; logins of a `.netrc` and of commands;
credentials in URLs; Bearer and Basic headers; and tokens and private keys by their own form. `secrets.toml`
lists names and forms. Not covered: a secret under a harmless name and without a form of its own, a bare word
without a digit after `name:`, which is mostly prose, one that is encoded or encrypted, and anything in
pictures or binary files.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

from advisor.profiles.files import read_toml
from advisor.texts import bounded, printable, without_first_word, without_last_word

MASK = "***"
_LISTS = read_toml(Path(__file__).with_suffix(".toml"))
_WORDS, _ENDINGS, _KEYS, _HINTS = (tuple(_LISTS[key]) for key in ("words", "endings", "before_key", "hints"))
FORMS = re.compile(rf"\b(?:{'|'.join(_LISTS['forms'].values())})")
_KIND = r"(?:[A-Z0-9]+ ){0,4}(?:PRIVATE KEY|PGP MESSAGE)(?: BLOCK)?"
_KEY = re.compile(
    rf"-{{4,5}} ?BEGIN {_KIND} ?-{{4,5}}(?:(?!--END|-- END)[\s\S])*(?:-{{2,5}} ?END {_KIND} ?-{{4,5}})?"
)
"""To its end, or to that of the text where it was cut."""
_END = re.compile(rf"-{{4,5}} ?END {_KIND} ?-{{4,5}}")
_ARMOUR = re.compile(r"""(?:[\w+/=\\"',|]+|[ \t]*\n[ \t\r]*|(?<=["']) +)*""", re.ASCII)
"""Its lines from the last to the first."""


def _without_keys(text: str) -> Iterator[str]:
    """The text in parts, without private keys, of which the beginning or the end may have been cut."""
    text, done = _KEY.sub(MASK, text), 0
    for match in _END.finditer(text):
        lines = _ARMOUR.match(text[done : match.start()][::-1])
        begin = match.start() - (len(lines[0]) if lines else 0)
        if text[begin] in "\"'" and text[begin] == text[match.end() : match.end() + 1]:
            begin += 1  # quotes around the whole
        yield f"{text[done:begin]}{MASK}"
        done = match.end()
    yield text[done:]


_LEAST, _ENOUGH = 8, 16
"""Characters of a part: half of the secret, within these bounds. Fewer stand in too many texts by chance."""
_LEAST_DISTINCT = 5
_BETWEEN = re.compile(r"""[\s,;:|&"'=]+""")
_LARGEST_JSON = 100_000


def pieces(value: str, is_secret: Callable[[str], bool]) -> Iterator[str]:
    """The lines of a secret, its fields between separators, and the texts in it if it is JSON."""
    yield from value.splitlines()
    yield value.strip().strip("\"'")
    if value.lstrip()[:1] in ("{", "["):
        if len(value) <= _LARGEST_JSON:
            yield from _of_json(value, is_secret)
    elif not _is_place(value):
        yield from _BETWEEN.split(value)


def _of_json(text: str, is_secret: Callable[[str], bool]) -> Iterator[str]:
    try:
        waiting = [("", json.loads(text))]
    except (ValueError, RecursionError):
        return
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(str(key), inner) for key, inner in value.items()]
        elif isinstance(value, list):
            waiting += [(name, inner) for inner in value]
        elif isinstance(value, str):
            random = re.search(r"\d", value) and re.search(r"[A-Za-z]", value) and not _is_place(value)
            if not name or is_secret(name) or random:
                yield from (value, *value.splitlines())


def _is_place(text: str) -> bool:
    """A path or a URL: parts of it stand in ordinary texts."""
    return "://" in text or text.lstrip("\"'").startswith(("/", "~", "./", "../"))


class Parts:
    """Masks parts of these secrets, in time proportional to the text."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._parts: dict[int, set[str]] = {}
        """By their length, the shortest parts of each secret that are enough of it."""
        for secret in secrets:
            if len(secret) <= _LEAST or len(set(secret)) < _LEAST_DISTINCT or _is_place(secret):
                continue
            if not re.search(r"\s", secret):
                length = min(_ENOUGH, max(_LEAST, len(secret) // 2))
                parts = (secret[at : at + length] for at in range(len(secret) - length + 1))
                self._parts.setdefault(length, set()).update(parts)

    def mask(self, text: str) -> str:
        spans = [
            (at, at + length)
            for length, parts in self._parts.items()
            for at in range(len(text) - length + 1)
            if text[at : at + length] in parts
        ]
        visible, done = [], 0
        for begin, end in sorted(spans):
            visible += [text[done:begin], MASK] if begin >= done else []
            done = max(done, end)
        return "".join((*visible, text[done:]))


_COUNTED = frozenset(("tokens",))
"""A number under such a name is a size."""
_PART = re.compile(r"[a-z]+|[A-Z]+(?![a-z])|[A-Z][a-z]*")
_OPTION = re.compile(r"(-{0,2}[\w.-]+)=(.*)", re.DOTALL)
_NO_PASSWORD = re.compile(
    r"[\d.,:x]*(?:\de[+-]?\d+)?|(?:bf|fp|tf|u?int|b?float|complex)\d{1,3}|half|single|double|auto"
)
_ELEMENT = r">(?=[^\s<](?:[^\s<>]*>){0,99}[^\s<>]*</)"
_SIGN = rf"=>|->|:=|(?<![=!<>])=(?!=)|:[ \w\[\]|.]{{1,60}}=(?!=)|:(?!//)|{_ELEMENT}|(?<=\s)is(?=\s)"
_ASSIGNED = re.compile(
    rf"""(?<![\w-])(?P<name>[\w-]+)(?=(?P<between>\\*["']?\]?\s*(?P<sign>{_SIGN})\s*\\*"""
    r"""(?:[bBfFrRuU]{1,2}(?=["']))?))"""
)
_LITERAL = r"""(?:"(?:\\.|[^"\\\n]|\n[ \t]+)*"|'(?:\\.|[^'\\\n]|\n[ \t]+)*')"""
_VALUE = re.compile(
    rf"""(?P<hidden>(?:"{{3}}[\s\S]*?(?:"{{3}}|\Z)|{_LITERAL})(?:\s*[bBfFrRuU]{{0,2}}{_LITERAL})*|"""
    r""""(?:\\.|[^"\\\n])*|'(?:\\.|[^'\\\n])*|"""
    r"""[(\[{<][^()\[\]{}]*[)\]}]?|[^\s"';&?<>()]+)"""
)
"""Adjacent literals are one value."""
_PAIR = re.compile(
    r"""(?<=[(\[])(?P<open>\s*(?:[bBfFrRuU]{1,2})?\\*["'])(?P<name>[\w-]+)"""
    r"""(?P<between>\\*["'](?P<sign>,)\s*\\*(?:[bBfFrRuU]{1,2})?)(?=["'])"""
)
"""Pairs in a list of headers: `("token", "value")`."""
_ENTRY = re.compile(
    r"""\b(?:[Nn]ame|[Kk]ey)\\*["']?\s{0,9}[:=]\s{0,9}\\*["']?(?P<name>[\w-]+)"""
    r"""(?P<between>\\*["']?(?P<sign>,|\s)\s{0,99}\\*["']?[Vv]alue\\*["']?\s{0,9}[:=]\s{0,9}\\*)(?=\S)"""
)
"""Entries in a list of variables: `{"name": "DB_PASSWORD", "value": "..."}`, in YAML and XML too."""
_VALUE_FIRST = re.compile(
    r"""(\b[Vv]alue\\*["']?\s{0,9}[:=]\s{0,9}\\*)("[^"\n]{1,2000}|'[^'\n]{1,2000}|[^\s"',}]{1,2000})"""
    r"""(?=["']?(?:,|\s)\s{0,99}\\*["']?(?:[Nn]ame|[Kk]ey)\\*["']?\s{0,9}[:=]\s{0,9}\\*["']?(?P<name>[\w-]+))"""
)
"""The same with the value before the name."""
_BLOCK = re.compile(
    r"(?<![\w-])(?P<name>[\w-]+)[\"']?(?P<between>:[ \t]*[|>][-+\d]{0,2}[ \t]*(?:\n|(?:\\r)?\\n))"
)
_LINES = re.compile(
    r"(?P<indent>[ \t]+)"
    r"(?P<hidden>(?:(?!\\n).)+(?:(?:\n|(?:\\r)?\\n)(?:(?P=indent)(?:(?!\\n).)+|(?=\n|\\n)))*)"
)
"""A value of several lines in YAML, and its name; its line ends may be escaped."""
_LIST = re.compile(r"(?<![\w-])(?P<name>[\w-]+)[\"']?(?P<between>:[ \t]*\n)")
_ITEMS = re.compile(r"[ \t]*- (?P<hidden>[^\n]*(?:\n[ \t]*- [^\n]*)*)")
"""A list of values in YAML, and its name."""
_OPTION_IN_TEXT = re.compile(r"(?<![\w-])(?P<name>--?[A-Za-z][\w-]*)(?P<between>\s+(?P<sign>))")
_WORD = re.compile(r"(?P<hidden>[^\s-]\S*)")
_NAMED = (
    *((_BLOCK, _LINES), (_LIST, _ITEMS), (_ASSIGNED, _VALUE), (_PAIR, _VALUE), (_ENTRY, _VALUE)),
    (_OPTION_IN_TEXT, _WORD),
)
"""Names of values, with what stands between the two, and the values' forms."""
_MASKED = re.compile(rf"""{re.escape(MASK)}[^\s"']*""")
"""A word that is hidden already; after it another literal, item or line of the value may follow."""
_OF_PROSE = (":", "is", "")
"""Signs that ordinary texts use, too."""
_PASSWORD_IN_URL = (
    re.compile(r"://[^\s/:@]{0,200}:([^\s/?#@]{1,500})@"),
    re.compile(r"""://[^\s/:]{0,200}:(?!\d{1,5}/)([^\s"'<>]{1,500})@"""),
)
"""Up to the first @, and to the last one: a password may hold it."""
_IN_URL = re.compile(
    r"""(\w:/{1,2})[^\s/:@]{1,200}:(?!\d{1,5}/)[^\s"'<>]{0,500}(?=@)|(://)[^/\s@]{1,500}(?:@[^/\s@"'<>]{1,500}){0,9}(?=@)"""
)
"""A path that was made of a URL has one slash; what begins with a port holds no password."""
_AUTHORIZATION = re.compile(
    r"""\b(authorization\W{1,6}(?:bearer|basic|token|digest|negotiate)\s+)[^\s'",;]{4,}""", re.IGNORECASE
)
_HEADER = re.compile(r"\b((?:bearer|basic|token)\s+)(?=\S*\d)[\w.~+/=-]{8,}", re.IGNORECASE)
_LOGIN = re.compile(
    r"""(\blogin\s+\S{1,200}\s+(?:account\s+\S{1,200}\s+)?password\s+|\bsshpass\s+-p\s*|"""
    r"""(?<![\w-])(?:-u|--user|--proxy-user)[\s=]+(?!\d+:\d+\b)[^\s:'"]{1,200}:|"""
    r"""\b(?:mysql|mariadb|7za?\b)\w*\b[^\n;|&]{0,200}?[\s'"]-p(?=[^\s'"])|\bredis-cli\b[^\n;|&]{0,200}?\s-a\s+|"""
    r"""\bdocker\s+login\b[^\n;|&]{0,200}?\s-p\s+)[^\s'",;]+"""
)
"""Passwords in a `.netrc`, and in commands: `curl -u name:password`, `mysql -ppassword`."""
_COOKIES = re.compile(r"""\b(cookie['"]?\s*:\s*['"]?)[\w.-]+=[^\n'"]+""", re.IGNORECASE)
_SHOWN_FIRST = ((form, r"\1") for form in (_AUTHORIZATION, _HEADER, _COOKIES, _LOGIN))
_UNNAMED = ((_IN_URL, r"\1\2"), *_SHOWN_FIRST, (FORMS, ""))
"""Secrets without a name, and what of them is shown."""
_SHORTEST, _SHORTEST_OF_ENVIRONMENT, _SHORTEST_NUMBER = 4, 8, 6
"""A shorter value stands in too many texts by chance; a shorter number is a size."""
_KNOWN: set[str] = set()
"""Secrets that this process learned of: a worker its job's, the parent the workload's parameters."""


def is_secret(name: str) -> bool:
    """Whether an option, a parameter or a variable of that name looks like one that holds a secret."""
    words = [word.lower() for word in _PART.findall(name)]
    keys = any(second == "key" and first in _KEYS for first, second in pairwise(words))
    return keys or any(word in _WORDS or word.endswith(_ENDINGS) for word in words)


def is_hidden(name: str, value: object) -> bool:
    """Whether a parameter's value is a secret by its name: a text, or a number too long to be a size."""
    if isinstance(value, (int, float)):
        counted = not _COUNTED.isdisjoint(word.lower() for word in _PART.findall(name))
        return is_secret(name) and not counted and len(str(value)) >= _SHORTEST_NUMBER
    return isinstance(value, str) and is_secret(name)


def masked(arguments: Sequence[str]) -> list[str]:
    """Arguments of a command, `***` for the values of options that look like secrets."""
    visible: list[str] = []
    before = ""
    for argument in arguments:
        named = before.startswith("-") and "=" not in before and is_secret(before)
        hidden = (named and not argument.startswith("--")) or (before == "-p" and _is_password(argument))
        visible.append(MASK if hidden else _masked(argument))
        before = argument
    return visible


def _is_password(value: str) -> bool:
    """Whether what follows `-p` may be one, and not a port, a precision, a path or the next option."""
    return not (value.startswith("-") or _is_place(value) or _NO_PASSWORD.fullmatch(value))


def _masked(argument: str) -> str:
    option = _OPTION.fullmatch(argument)
    if option is None:
        return f"-p{MASK}" if argument.startswith("-p") and _is_password(argument[2:]) else argument
    hidden = is_secret(option[1]) or (option[1] == "-p" and _is_password(option[2]))
    return f"{option[1]}={MASK if hidden else _masked(option[2])}"


def secret_values(arguments: Sequence[str], parameters: Mapping[str, object]) -> list[str]:
    """The secret values among arguments and parameters, and what they are made of."""
    values = [
        argument.removeprefix(masked_argument.removesuffix(MASK))
        for before, argument, masked_argument in zip(
            ("", *arguments), arguments, masked(arguments), strict=False
        )
        if argument != masked_argument
        # After -p, a word: texts have it for its own sake.
        and not ("-p" in (before, masked_argument[:2]) and argument.removeprefix("-p").lstrip("=").isalpha())
    ]
    values += [password for argument in arguments for password in _passwords(argument)]
    values += [str(value) for name, value in parameters.items() if is_hidden(name, value)]
    listed = [part.strip() for value in values for part in value.split(",")]
    passwords = dict.fromkeys((*values, *listed))
    short = [value for value in passwords if len(value) >= _SHORTEST and value != MASK]
    return list(dict.fromkeys((*short, *_long(values))))


def _long(values: Iterable[str]) -> Iterator[str]:
    """Parts of the secrets that are long enough to be looked for in every text."""
    for value in values:
        for part in (value, *pieces(value, is_secret)):
            if len(part.strip()) >= _SHORTEST_OF_ENVIRONMENT:
                yield part.strip()


def _passwords(text: str) -> list[str]:
    """Secrets of the URLs in a text, as they are and decoded."""
    passwords = [password for pattern in _PASSWORD_IN_URL for password in pattern.findall(text)]
    return [*passwords, *map(unquote, passwords)]


def remember(values: Iterable[str]) -> None:
    """Masks these in everything that this process writes from now on."""
    _KNOWN.update(values)


def of_process(
    arguments: Sequence[str] | None = None, variables: Mapping[str, str] | None = None
) -> list[str]:
    """The secret values this process knows: of its command line and environment, and what it remembers."""
    variables = os.environ if variables is None else variables
    # Every key is one; PWD is the shell's working directory.
    names = [n for n in variables if is_secret(n) or n.endswith(("_KEY", "_PAT"))]
    secrets = [variables[name] for name in names if name not in ("PWD", "OLDPWD")]
    secrets += [password for value in variables.values() if "://" in value for password in _passwords(value)]
    of_arguments = secret_values(sys.argv[1:] if arguments is None else arguments, {})
    return list(dict.fromkeys((*of_arguments, *_long(secrets), *_KNOWN)))


@lru_cache(maxsize=8)
def _known(values: tuple[str, ...]) -> tuple[tuple[str, ...], Parts]:
    """Each value as it is, and as Python, JSON and this program write it, longest first; their parts."""
    spellings = {
        form
        for value in values
        for form in (value, repr(value)[1:-1], json.dumps(value)[1:-1], printable(value))
    }
    return tuple(sorted(spellings, key=len, reverse=True)), Parts(spellings)


def may_hold_secrets(text: str) -> bool:
    """Whether `mask` has to look closely, which takes a second for a million characters."""
    lower = text.lower()
    return any(hint in lower for hint in _HINTS) or FORMS.search(text) is not None or "-----END" in text


def mask(text: str, values: Iterable[str] = ()) -> str:
    """The text without these values, longer parts of them, and what has the name or form of a secret."""
    spelled, parts = _known(tuple(values))
    for value in spelled:
        text = text.replace(value, MASK)
    text = parts.mask(text)
    if not may_hold_secrets(text):
        return text
    text = "".join(_without_keys(text))
    for form, shown in _UNNAMED:
        text = form.sub(shown + MASK, text)
    for name, value_form in _NAMED:
        text = "".join(_without_values(text, name, value_form))
    return _VALUE_FIRST.sub(
        lambda m: f"{m[1]}{_hidden(m[2], prose=False)}" if is_secret(m["name"]) else m[0], text
    )


def masked_and_bounded(text: str, most: int, values: Iterable[str] = ()) -> str:
    """The beginning and the end of a text, as `bounded` has them, without secrets.

    Secrets are masked before the text is cut, which could leave half of one; of a text that is too long for
    that, only words that are whole are looked at.
    """
    if len(text) <= 8 * most:
        return bounded(mask(text, values), most)
    head, tail = without_last_word(text[: 4 * most]), without_first_word(text[-4 * most :])
    between = f" [… {len(text) - len(head) - len(tail)} characters left out …] "
    return bounded(mask(head, values) + between + mask(tail, values), most)


def _without_values(text: str, name: re.Pattern[str], value_form: re.Pattern[str]) -> Iterator[str]:
    """The text in parts, without the values of secret names; a value may have names in it in turn."""
    done = 0
    for match in name.finditer(text):
        begin = match.end("between")
        if begin <= done or not is_secret(match["name"]):
            continue
        if value := value_form.match(text, begin):
            yield text[done : value.start("hidden")]
            yield _hidden(value["hidden"], prose=match.groupdict().get("sign") in _OF_PROSE)
            done = value.end()
    yield text[done:]


def _hidden(value: str, *, prose: bool) -> str:
    """`name: word` is prose where the word has no digit; `name=word` and a quoted one are values."""
    quote = value[:1] if value[:1] in "\"'" else ""
    is_prose = prose and not re.search(r"[\d\"']", value)
    bare = value.strip("\"'")
    if not bare or _MASKED.fullmatch(bare) or is_prose:
        return value
    end = quote if len(value) > 1 and value.endswith(quote) else ""
    begin = quote if end or "\n" not in value else ""  # of several lines, the first alone may be quoted
    return f"{begin}{MASK}{end}"
