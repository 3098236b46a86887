"""A row of the table of settings: how it is named in each place, how its text is read, and which parameters it fills."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

LEAST, MOST = 0, 1
PREFIX = "KSCEN_"


@dataclass(frozen=True, slots=True)
class Fills:
    """The parameter of volume churn, or of chaos profiles, that an option gives where a marker leaves it open."""

    kinds: tuple[str, ...]
    parameter: str
    bound: int | None = None
    """LEAST or MOST, if the parameter is a range."""
    actor: str = ""
    """Who asks for it, where that is one who may be switched off."""


@dataclass(frozen=True, slots=True)
class SwitchesOn:
    """What an option adds to the plan of a test that takes its plan from the command line: a profile, or actors of the churn."""

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
