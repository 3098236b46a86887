"""Table of chaos profiles, by name."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Protocol

from pytest_kscen.chaos.network_blocker import NetworkBlock
from pytest_kscen.chaos.network_degrader import NetworkDegrade
from pytest_kscen.chaos.pod_destroyer import PodDestroy
from pytest_kscen.chaos.vm_reboter import VmReboot
from pytest_kscen.objects.arguments import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.clock import Signal
    from pytest_kscen.kube.actor import RunContext


class Profile(Protocol):
    """A kind of chaos with its parameters: a generator of incidents."""

    @property
    def profile(self) -> str: ...

    @property
    def soonest(self) -> float:
        """Seconds before which it has no incident."""

    def needs_machines(self) -> int:
        """How many virtual machines its incidents need; none, and it needs no parent cluster
        either.
        """

    async def run(self, context: RunContext, stop: Signal) -> None:
        """Cause incidents until the signal; then undo what is on and return."""


PROFILES: dict[str, type[Any]] = {
    kind.profile: kind for kind in (NetworkBlock, NetworkDegrade, VmReboot, PodDestroy)
}
ALIASES = {"degrade": NetworkDegrade.profile}


def kind_of(name: str, parameters: Iterable[str] = ()) -> type[Any]:
    """The profile of this name, if it has these parameters; a ValueError lists the valid ones
    and the nearest.
    """
    name = ALIASES.get(name, name)
    if name not in PROFILES:
        raise ValueError(
            f"there is no chaos profile {name!r}{nearest(name, PROFILES)}; the profiles "
            f"are {', '.join(PROFILES)}"
        )
    known = [field.name for field in dataclasses.fields(PROFILES[name])]
    for parameter in parameters:
        if parameter not in known:
            raise ValueError(
                f"the chaos profile {name!r} has no parameter "
                f"{parameter!r}{nearest(parameter, known)}; "
                f"its parameters are {', '.join(known)}"
            )
    return PROFILES[name]
