"""What a report that is attached to a pull request must not tell: names of people and hosts, and secrets.

Environment variables are never read into a profile. Paths lose the working directory and the home directory,
texts the names of user and host, and what looks like a secret its value.
"""

from __future__ import annotations

import getpass
import platform
import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from advisor.profiles.base import Record, cleaned
from advisor.profiles.homes import home
from advisor.profiles.masking import Masking
from advisor.profiles.schema import Profile
from advisor.profiles.secrets import MASK, given, is_hidden, mask, masked, of_process
from advisor.profiles.system_state import Environment

Written = TypeVar("Written", bound=Record)
WITHHELD = "withheld"

_HOMES = re.compile(r"/(?:home|Users)/[^/\s'\":;,)]+")
_NOBODY = frozenset(
    ("root", "user", "users", "admin", "ubuntu", "nvidia", "jetson", "tegra-ubuntu", "localhost", "runner")
)
"""Names that come with a system: they identify nobody, and are ordinary words in texts."""
_SHORTEST_NAME = 3


@dataclass(frozen=True)
class Redactor:
    """Hides what the texts of a run must not tell: where it ran, by whom, and its secrets."""

    home: str
    directory: str
    user: str
    host: str
    secrets: tuple[str, ...] = ()
    """Values that were given to names that look secret."""

    def mask(self, text: str) -> str:
        """The text without secrets."""
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
        told = {self.host: "<host>", self.host.partition(".")[0]: "<host>", self.user: "<user>"}
        return {n: i for n, i in told.items() if len(n) >= _SHORTEST_NAME and n.lower() not in _NOBODY}


def here(*, include_host: bool = False) -> Redactor:
    """The names of this process, its user and its machine."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # no such user, as in many containers
        user = ""
    names = ("", "") if include_host else (user, platform.node())
    return Redactor(home(), _working_directory(), *names, secrets=tuple(of_process()))


def _working_directory() -> str:
    try:
        return str(Path.cwd())
    except OSError:  # somebody removed it
        return "/"


def anonymous(profile: Profile, *, include_host: bool) -> Profile:
    """Homes and secrets are hidden always, the names of user and host unless they were asked for."""
    hidden = without_names(profile, here(include_host=include_host))
    if not include_host:
        return hidden
    named = hidden.environment.model_copy(update={"host_name": platform.node()})
    return hidden.model_copy(update={"environment": named})


def without_names(profile: Profile, redactor: Redactor) -> Profile:
    """The profile without the names of user, host and directories, and without secrets."""
    arguments = profile.script.arguments if profile.script else ()
    redactor = replace(redactor, secrets=(*redactor.secrets, *given(arguments, profile.workload.parameters)))
    work, script = profile.workload, profile.script
    parameters = {n: MASK if is_hidden(n, value) else value for n, value in work.parameters.items()}
    if script is not None:
        script = script.model_copy(update={"arguments": tuple(masked(script.arguments))})
    told = {"workload": work.model_copy(update={"parameters": parameters}), "script": script}
    return hidden(profile.model_copy(update=told), redactor)


def hidden(record: Written, redactor: Redactor) -> Written:
    """The record without names and secrets in its texts."""
    found: Written = cleaned(record, Masking(redactor.hide))
    return found


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
