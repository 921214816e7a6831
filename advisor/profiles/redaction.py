"""Keeps names of people and hosts, and secrets, out of reports that are attached to pull requests.

Environment variables are never read into a profile. Paths lose the working directory and the home directory,
texts the names of user and host, and what looks like a secret its value.
"""

from __future__ import annotations

import getpass
import platform
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from pathlib import Path

from advisor.profiles.base import RecordType, TextKind, cleaned
from advisor.profiles.schema import RAISED, WRONG_RESULTS, Profile
from advisor.profiles.secrets import FORMS, MASK, is_hidden, mask, masked, of_process, secret_values
from advisor.profiles.system_state import Environment
from advisor.texts import printable

WITHHELD = "withheld"
NO_HOME = "/"
"""The home of a user without one; nothing is shortened by it."""
_STEPS = frozenset((
    "host", "device", "to-device", "to-host", "to-peer", "synchronize", "host-copy", "copy-in", "copy-out",
    "length", "order", "until", "frame", "strategy", "setup",
))  # fmt: skip
"""Words of advisor's in labels: alone, or before a colon and the user's name."""
_BEGINNINGS = (RAISED, WRONG_RESULTS, "Interrupted")
"""Beginnings by which other parts recognize a text."""

_HOMES = re.compile(r"/(?:home|Users)/[^/\s'\":;,)]+")
_NOBODY = frozenset(
    ("root", "user", "users", "admin", "ubuntu", "nvidia", "jetson", "tegra-ubuntu", "localhost", "runner")
)
"""Names that come with a system: they identify nobody, and are ordinary words in texts."""
_SHORTEST_NAME = 3


def home() -> str:
    """The home directory, or `NO_HOME`: a container's user may have neither HOME nor an entry in passwd."""
    try:
        return str(Path.home())
    except RuntimeError:
        return NO_HOME


def without_home(text: str) -> str:
    return text if (own := home()) == NO_HOME else text.replace(own, "~")


class Masking:
    """Masks the texts of one record by their kind, for `advisor.profiles.base.cleaned`: free text whole by
    `text`, labels so that they still refer to one another, words of advisor's own never."""

    def __init__(self, text: Callable[[str], str]) -> None:
        self._text = text
        self._labels: dict[str, str] = {}

    def __call__(self, text: str, kind: TextKind) -> str:
        if kind is TextKind.WORD:
            return printable(FORMS.sub(MASK, text))
        if kind is TextKind.NAME:
            step, colon, name = text.partition(":")
            if step not in _STEPS:
                step, colon, name = "", "", text
            return f"{step}{colon}{self._name(name)}" if name else text
        begin = next((begin for begin in _BEGINNINGS if text.startswith(begin)), "")
        return begin + printable(self._text(text[len(begin) :]))

    def _name(self, name: str) -> str:
        """Masked names stay as many as they are: the second one that is masked alike gets a number."""
        if name not in self._labels:
            masked = printable(self._text(name))
            labels = self._labels.values() if masked != name else ()
            numbered = (f"{masked}{number}" if number > 1 else masked for number in count(1))
            self._labels[name] = next(label for label in numbered if label not in labels)
        return self._labels[name]


@dataclass(frozen=True)
class Redactor:
    """Hides in the texts of a run where it ran, who ran it, and its secrets."""

    home: str
    directory: str
    user: str
    host: str
    secrets: tuple[str, ...] = ()
    """Values that were given to names that look secret."""

    def mask(self, text: str) -> str:
        return mask(text, self.secrets)

    def hide(self, text: str) -> str:
        """The text with paths from the working directory on, `~` for homes, and names and secrets masked."""
        text = self.mask(text)
        if self.directory != "/":
            directory = rf"(?<![\w/.-]){re.escape(self.directory)}"
            text = re.sub(rf"{directory}/(?=[\w.])", "", text)
            text = re.sub(rf"{directory}/?(?![\w-]|\.\w)", ".", text)
        if self.home != "/":
            text = re.sub(rf"(?<![\w.-]){re.escape(self.home)}(?![\w.-])", "~", text)
        text = _HOMES.sub("~", text)
        for name, instead in self._names.items():
            text = re.sub(rf"(?<![^\W_]){re.escape(name)}(?![^\W_])", instead, text)
        return text

    @cached_property
    def _names(self) -> dict[str, str]:
        names = {self.host: "<host>", self.host.partition(".")[0]: "<host>", self.user: "<user>"}
        return {n: i for n, i in names.items() if len(n) >= _SHORTEST_NAME and n.lower() not in _NOBODY}


def here(*, include_host: bool = False) -> Redactor:
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # no such user, as in many containers
        user = ""
    try:
        directory = str(Path.cwd())
    except OSError:  # somebody removed it
        directory = "/"
    names = ("", "") if include_host else (user, platform.node())
    return Redactor(home(), directory, *names, secrets=tuple(of_process()))


def anonymous(profile: Profile, *, include_host: bool) -> Profile:
    """Homes and secrets are hidden always, the names of user and host unless they were asked for."""
    hidden = without_names(profile, here(include_host=include_host))
    if not include_host:
        return hidden
    named = hidden.environment.model_copy(update={"host_name": platform.node()})
    return hidden.model_copy(update={"environment": named})


def without_names(profile: Profile, redactor: Redactor) -> Profile:
    work, script = profile.workload, profile.script
    values = secret_values(script.arguments if script else (), work.parameters)
    redactor = replace(redactor, secrets=(*redactor.secrets, *values))
    parameters = {n: MASK if is_hidden(n, value) else value for n, value in work.parameters.items()}
    if script is not None:
        script = script.model_copy(update={"arguments": tuple(masked(script.arguments))})
    changes = {"workload": work.model_copy(update={"parameters": parameters}), "script": script}
    return hidden(profile.model_copy(update=changes), redactor)


def hidden(record: RecordType, redactor: Redactor) -> RecordType:
    return cleaned(record, Masking(redactor.hide))


def without_environment(profile: Profile) -> Profile:
    """The profile for publishing: what is known of the machine and its software is left out.

    The device stays, which the figures are of, and so do the warnings, which say what they are worth.
    """
    withheld = Environment(
        system=WITHHELD,
        machine=WITHHELD,
        python=WITHHELD,
        absent={"environment": "left out on request (--no-environment)"},
        warnings=profile.environment.warnings,
    )
    return profile.model_copy(update={"environment": withheld})
