"""The profiles that a test can declare, by name."""

from __future__ import annotations

import dataclasses
import difflib
from typing import TYPE_CHECKING, Any, Protocol

from pytest_kscen.chaos.pods import PodDestroy

if TYPE_CHECKING:
    from pytest_kscen.clock import Signal
    from pytest_kscen.kube.actor import Stage


class Profile(Protocol):
    """A kind of chaos with its parameters: a generator of incidents."""

    @property
    def profile(self) -> str: ...

    async def run(self, stage: Stage, stop: Signal) -> None:
        """Cause incidents until the signal; then undo what is on and return."""


PROFILES: dict[str, type[Any]] = {PodDestroy.profile: PodDestroy}


def profile(name: str, **parameters: Any) -> Profile:
    """The profile of this name; a ValueError lists the valid names or parameters and the nearest."""
    if name not in PROFILES:
        raise ValueError(f"there is no chaos profile {name!r}{_nearest(name, PROFILES)}; the profiles are {', '.join(PROFILES)}")
    kind = PROFILES[name]
    known = [field.name for field in dataclasses.fields(kind)]
    for parameter in parameters:
        if parameter not in known:
            raise ValueError(
                f"the chaos profile {name!r} has no parameter {parameter!r}{_nearest(parameter, known)}; "
                f"its parameters are {', '.join(known)}"
            )
    return kind(**parameters)  # type: ignore[no-any-return]


def _nearest(word: str, words: Any) -> str:
    found = difflib.get_close_matches(word, list(words), 1)
    return f" (did you mean {found[0]!r}?)" if found else ""
