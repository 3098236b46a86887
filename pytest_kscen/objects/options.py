"""Definition of an option (flag, parser, effect on the plan) and the parsers of options' texts.

Chaos profiles and the pytest plugin define options with it; the plugin reads the values. Must not
import pytest.
"""

from __future__ import annotations

import pathlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable


LEAST, MOST = 0, 1
PREFIX = "KSCEN_"


@dataclass(frozen=True, slots=True)
class Fills:
    """Effect of an option: it sets a parameter of volume churn or of chaos profiles that the marker
    does not set.
    """

    kinds: tuple[str, ...]
    parameter: str
    bound: int | None = None
    """LEAST or MOST, if the parameter is a range."""
    actor: str = ""
    """Name of the actor or profile with the parameter, if it can be switched off."""


@dataclass(frozen=True, slots=True)
class SwitchesOn:
    """Effect of an option: it adds a profile, or actors of the churn, to the plan of a test that
    takes its plan from the command line.
    """

    profile: str = ""
    parameter: str = ""


@dataclass(frozen=True, slots=True)
class Option:
    """Setting of a test run, given as a flag, in the configuration file or in the environment. A
    switch is a flag without a value, and true or false elsewhere.
    """

    flag: str
    parse: Callable[[str], Any]
    metavar: str
    help: str
    default: str = ""
    effect: Fills | SwitchesOn | None = None

    @property
    def name(self) -> str:
        """Key in the configuration file, and attribute of pytest's namespace."""
        return self.flag.lstrip("-").replace("-", "_")

    @property
    def variable(self) -> str:
        name = self.name.upper()
        return name if name.startswith(PREFIX) else f"{PREFIX}{name}"

    @property
    def is_switch(self) -> bool:
        return not self.metavar

    @property
    def in_file(self) -> Literal["args", "string"]:
        """Type of the setting in pytest's configuration file: a list or a text."""
        return "args" if "," in self.metavar else "string"

    @property
    def described(self) -> str:
        return f"{self.help} (default: {self.default})" if self.default else self.help


TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def duration(text: str) -> float:
    from pytest_kscen.objects.arguments import seconds_of_text

    seconds = seconds_of_text(text)
    if not 0 < seconds < float("inf"):
        raise ValueError(f"invalid value {text!r}: give more than zero, as in 90s or 1h30m")
    return seconds


def count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) == 0:
        raise ValueError(f"invalid value {text!r}: give a whole number, 1 or more")
    return int(text)


def group_size(text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise ValueError(
            f"invalid value {text!r}: give a whole number, or 0 for half of the machines"
        )
    return int(text)


def share(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        # per cent
        hint = f" ({text} % is {number / 100:g})" if 1 < number <= 100 else ""  # noqa: PLR2004
        raise ValueError(
            f"invalid value {text!r}: give a number from 0 to 1, as in 0.01 for 1 %{hint}"
        )
    return number


def names(text: str) -> tuple[str, ...]:
    found = tuple(name.strip() for name in text.split(","))
    if not all(found):
        raise ValueError(
            f"invalid value {text!r}: give names separated by commas, as in availability,none"
        )
    return found


def context(text: str) -> str:
    if not text.strip():
        raise ValueError(
            f"invalid value {text!r}: name a context, or leave it out for the current one"
        )
    return text


def namespace(text: str) -> str:
    from pytest_kscen.objects.names import dns1123_label

    found = text.strip()
    if dns1123_label(found):
        raise ValueError(
            f"invalid value {text!r}: give 63 of a-z, 0-9 and - at most, with no - at "
            "either end, as in my-vms"
        )
    return found


def quantity(text: str) -> str:
    from pytest_kscen.objects import quantities

    try:
        if quantities.parse(text).nanos > 0:
            return text
    except ValueError:
        pass
    raise ValueError(
        f"invalid value {text!r}: give a quantity of more than zero, as in 100Mi or 1Gi"
    )


def switch(text: str) -> bool:
    if text.lower() not in TRUE + FALSE:
        raise ValueError(f"{text!r} is neither true nor false: give one of the two")
    return text.lower() in TRUE


def existing_file(text: str) -> pathlib.Path:
    path = pathlib.Path(text).expanduser()
    if not path.is_file():
        raise ValueError(f"there is no file {text!r}")
    return path


def folder(text: str) -> pathlib.Path:
    if not text.strip():
        raise ValueError(f"invalid value {text!r}: name a folder in which runs can be kept")
    path = pathlib.Path(text).expanduser()
    if path.exists() and not path.is_dir():
        raise ValueError(f"{text!r} is not a folder")
    return path
