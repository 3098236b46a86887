"""One option: its row, where its value comes from (flag, environment, ini file) and how its text
is parsed.
"""

from __future__ import annotations

import os
import pathlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


LEAST, MOST = 0, 1
PREFIX = "KSCEN_"


@dataclass(frozen=True, slots=True)
class Fills:
    """The parameter of volume churn, or of chaos profiles, that an option gives where a marker
    leaves it open.
    """

    kinds: tuple[str, ...]
    parameter: str
    bound: int | None = None
    """LEAST or MOST, if the parameter is a range."""
    actor: str = ""
    """Who asks for it, where that is one who may be switched off."""


@dataclass(frozen=True, slots=True)
class SwitchesOn:
    """What an option adds to the plan of a test that takes its plan from the command line: a
    profile, or actors of the churn.
    """

    profile: str = ""
    parameter: str = ""


@dataclass(frozen=True, slots=True)
class Option:
    """One setting. A switch is a flag without a value; elsewhere it is true or false."""

    flag: str
    parse: Callable[[str], Any]
    metavar: str
    help: str
    default: str = ""
    effect: Fills | SwitchesOn | None = None

    @property
    def name(self) -> str:
        """Its ini key, and its name in pytest's namespace."""
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
        """What pytest takes it for in its configuration file: a list or a text."""
        return "args" if "," in self.metavar else "string"

    @property
    def described(self) -> str:
        return f"{self.help} (default: {self.default})" if self.default else self.help


# How the text of a setting becomes a value. What makes no sense is a ValueError that says what
# to give instead.


TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def duration(text: str) -> float:
    from pytest_kscen.objects.arguments import seconds_of_text

    seconds = seconds_of_text(text)
    if not 0 < seconds < float("inf"):
        raise ValueError(f"{text!r} is no length of time: give more than zero, as in 90s or 1h30m")
    return seconds


def count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) == 0:
        raise ValueError(f"{text!r} is no number of things: give a whole number, 1 or more")
    return int(text)


def group_size(text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise ValueError(
            f"{text!r} is no size of a group: give a whole number, or 0 for half of the machines"
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
            f"{text!r} is no share of packets: give a number from 0 to 1, as in 0.01 for 1 %{hint}"
        )
    return number


def names(text: str) -> tuple[str, ...]:
    found = tuple(name.strip() for name in text.split(","))
    if not all(found):
        raise ValueError(
            f"{text!r} is no list of names: separate them with commas, as in availability,none"
        )
    return found


def context(text: str) -> str:
    if not text.strip():
        raise ValueError(
            f"{text!r} is no context: name one, or leave it out for the kubeconfig's current one"
        )
    return text


def namespace(text: str) -> str:
    from pytest_kscen.objects.names import dns1123_label

    found = text.strip()
    if dns1123_label(found):
        raise ValueError(
            f"{text!r} is no namespace: give 63 of a-z, 0-9 and - at most, with no - at "
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
    raise ValueError(f"{text!r} is no size: give a quantity of more than zero, as in 100Mi or 1Gi")


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
        raise ValueError(f"{text!r} is no folder: name one in which runs can be kept")
    path = pathlib.Path(text).expanduser()
    if path.exists() and not path.is_dir():
        raise ValueError(f"{text!r} is not a folder")
    return path


# Where a setting's value comes from: the flag, then the environment, then the ini file.


READ_ELSEWHERE = {"CACHE"}


@dataclass(frozen=True, slots=True)
class Given:
    """A setting that somebody has given: its value, as it was written, and where."""

    value: Any
    text: str
    source: str


def read(config: pytest.Config, options: Iterable[Option]) -> dict[str, Given]:
    """What is given of these, by flag; a UsageError names the one that makes no sense."""
    found = {option.flag: _given(config, option) for option in options}
    return {flag: given for flag, given in found.items() if given is not None}


def misspelt(options: Iterable[Option]) -> list[str]:
    """Variables that nobody reads, named almost like one that is read; others may use our prefix
    for what is theirs.
    """
    known = {option.variable.removeprefix(PREFIX) for option in options} | READ_ELSEWHERE
    names = (name.removeprefix(PREFIX) for name in sorted(os.environ) if name.startswith(PREFIX))
    unknown = [name for name in names if name not in known]
    if not unknown:
        return []
    from pytest_kscen.objects.arguments import closest_match

    meant = {name: closest_match(name, sorted(known)) for name in unknown}
    return [
        f"{PREFIX}{name}: without effect, did you mean {PREFIX}{one}?"
        for name, one in meant.items()
        if one
    ]


def _given(config: pytest.Config, option: Option) -> Given | None:
    # Where pytest has an ini key from: its command line may say it too.
    key = option.name
    overridden = [said.partition("=")[0].strip() for said in config.getoption("override_ini") or ()]
    in_file: str = f"-o {key}" if key in overridden else f"{key} in {config.inipath}"
    try:
        written = config.getini(option.name)
    except (TypeError, ValueError) as error:  # TOML's types, where pytest wants text
        raise pytest.UsageError(f"{in_file}: {error}") from error
    sources = (
        (option.flag, config.getoption(option.name, None)),
        (option.variable, os.environ.get(option.variable)),
        (
            in_file,
            ",".join(one.strip(",") for one in written) if isinstance(written, list) else written,
        ),
    )
    for source, text in sources:
        if text is not None and (text != "" or source == option.flag):
            try:
                return Given(option.parse(str(text)), str(text), source)
            except ValueError as error:
                raise pytest.UsageError(f"{source}: {error}") from error
    return None
