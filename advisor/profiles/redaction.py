"""What a report that is attached to a pull request must not tell: names of people and hosts, and secrets.

Environment variables are never read into a profile. Paths lose the working directory and the home directory,
texts the names of user and host, and what looks like a secret its value.
"""

from __future__ import annotations

import getpass
import platform
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from advisor.profiles.base import Record
from advisor.profiles.homes import home
from advisor.profiles.schema import Profile
from advisor.profiles.system_state import Environment

Written = TypeVar("Written", bound=Record)
MASK = "***"
WITHHELD = "withheld"

_SECRETS = frozenset((
    "password", "passwd", "passphrase", "pwd", "secret", "secrets", "token", "tokens", "credential",
    "credentials", "auth", "authorization", "apikey", "bearer", "cookie",
))  # fmt: skip
_KEYS = frozenset(("api", "access", "private", "secret", "ssh", "encryption", "signing", "auth"))
"""Before "key" these make a secret of it; a key alone may be a number."""
_WORD = re.compile(r"[a-z]+|[A-Z]+(?![a-z])|[A-Z][a-z]*")
_ASSIGNMENT = re.compile(r"(-{0,2}[\w.-]+)=(.*)", re.DOTALL)
_IN_URL = re.compile(r"(?<=://)[^/@\s]+@")
# The prefixes that GitHub, GitLab, Hugging Face, OpenAI, Amazon and Slack give their tokens.
_SHAPES = re.compile(
    r"\b(?:gh[pousr]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|hf_\w{16,}|sk-[\w-]{16,}|AKIA[0-9A-Z]{12,}"
    r"|xox[abprs]-[\w-]{8,})"
)
_HOMES = re.compile(r"/(?:home|Users)/[^/\s'\":;,)]+")
_NOBODY = frozenset(
    ("root", "user", "users", "admin", "ubuntu", "nvidia", "jetson", "tegra-ubuntu", "localhost", "runner")
)
"""Names that come with a system: they say nothing, and stand in texts as words of their own."""
_SHORTEST_NAME = 3
_SHORTEST_SECRET = 4
"""A shorter value stands in too many texts by chance."""


@dataclass(frozen=True)
class Redactor:
    """Hides what the texts of a run must not tell: where it ran, by whom, and its secrets."""

    home: str
    directory: str
    user: str
    host: str
    secrets: tuple[str, ...] = ()
    """Values that the command line gave to options that look secret."""

    def hide(self, text: str) -> str:
        """The text with paths from the working directory on, `~` for homes, and names and secrets masked."""
        for secret in self.secrets:
            text = text.replace(secret, MASK)
        if self.directory != "/":
            directory = rf"(?<![\w/.-]){re.escape(self.directory)}"
            text = re.sub(rf"{directory}/(?=[\w.])", "", text)
            text = re.sub(rf"{directory}/?(?![\w-]|\.\w)", ".", text)
        if self.home != "/":
            text = re.sub(rf"(?<![\w.-]){re.escape(self.home)}(?![\w.-])", "~", text)
        text = _HOMES.sub("~", text)
        for name, instead in self._names.items():
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", instead, text)
        return _SHAPES.sub(MASK, _IN_URL.sub(f"{MASK}@", text))

    @cached_property
    def _names(self) -> dict[str, str]:
        told = {self.host: "<host>", self.host.partition(".")[0]: "<host>", self.user: "<user>"}
        return {n: i for n, i in told.items() if len(n) >= _SHORTEST_NAME and n.lower() not in _NOBODY}


def is_secret(name: str) -> bool:
    """Whether an option or a parameter of that name looks like one that holds a secret."""
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


def _secrets(profile: Profile) -> tuple[str, ...]:
    """The values that are masked where they were given, to be masked wherever else they stand."""
    arguments = profile.script.arguments if profile.script else ()
    given = [
        a.removeprefix(m.removesuffix(MASK))
        for a, m in zip(arguments, masked(arguments), strict=True)
        if a != m
    ]
    given += [str(value) for name, value in profile.workload.parameters.items() if is_secret(name)]
    long = {value for value in given if len(value) >= _SHORTEST_SECRET and value != MASK}
    return tuple(sorted(long, key=len, reverse=True))


def _masked(argument: str) -> str:
    found = _ASSIGNMENT.fullmatch(argument)
    if found is None:
        return argument
    return f"{found[1]}={MASK if is_secret(found[1]) else _masked(found[2])}"


def anonymous(profile: Profile, *, include_host: bool) -> Profile:
    """Homes and secrets are hidden always, the names of user and host unless they were asked for."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # no such user, as in many containers
        user = ""
    redactor = Redactor(home(), str(Path.cwd()), user, platform.node())
    if not include_host:
        return without_names(profile, redactor)
    named = profile.environment.model_copy(update={"host_name": redactor.host})
    hidden = without_names(profile, replace(redactor, user="", host=""))
    return hidden.model_copy(update={"environment": named})


def without_names(profile: Profile, redactor: Redactor) -> Profile:
    """The profile without the names of user, host and directories, and without secrets."""
    redactor = replace(redactor, secrets=_secrets(profile))
    work, told, hide = profile.workload, profile.environment, redactor.hide
    parameters = {
        name: MASK if is_secret(name) else hide(value) if isinstance(value, str) else value
        for name, value in work.parameters.items()
    }
    absent = {what: hide(why) for what, why in told.absent.items()}
    warnings = tuple(map(hide, told.warnings))
    # Why there is no trace may be what the user's code said under nsys.
    missing = tuple(_texts(none, ("reason",), hide) for none in profile.trace.missing)
    trace = _texts(profile.trace, ("reason",), hide).model_copy(update={"missing": missing})
    script = profile.script
    if script is not None:
        runs = []
        for run in script.measured:
            ranges = tuple(_texts(each, ("name",), hide) for each in run.ranges)
            runs.append(run.model_copy(update={"ranges": ranges, "notes": tuple(map(hide, run.notes))}))
        arguments = tuple(map(hide, masked(script.arguments)))
        script = script.model_copy(update={"arguments": arguments, "measured": tuple(runs)})
    return profile.model_copy(
        update={
            "command": hide(profile.command),
            "workload": _texts(work, ("file", "summary"), hide).model_copy(update={"parameters": parameters}),
            "results": tuple(_texts(row, ("reason", "detail", "next_step"), hide) for row in profile.results),
            "environment": told.model_copy(update={"absent": absent, "warnings": warnings}),
            "notes": tuple(map(hide, profile.notes)),
            "script": script,
            "trace": trace,
        }
    )


def _texts(record: Written, names: Sequence[str], hide: Callable[[str], str]) -> Written:
    """The record with these of its texts hidden."""
    return record.model_copy(
        update={name: hide(getattr(record, name)) for name in names if hasattr(record, name)}
    )


def without_environment(profile: Profile) -> Profile:
    """The profile for publishing: what is known of the machine and its software is left out.

    The device stays, which the figures are of, and so do the warnings, which say what they are worth.
    """
    left = Environment(
        system=WITHHELD,
        machine=WITHHELD,
        python=WITHHELD,
        absent={"environment": "left out on request (--no-environment)"},
        warnings=profile.environment.warnings,
    )
    return profile.model_copy(update={"environment": left})
