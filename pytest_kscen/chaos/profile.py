"""Base of chaos profiles: the facts that a profile declares, and the options that it takes.

Other modules read a profile's facts through this base and do not name single profiles. Imported
when pytest starts, so it must not import clients, faults or asyncio.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from pytest_kscen.objects import options
from pytest_kscen.objects.arguments import require_range
from pytest_kscen.objects.options import LEAST, MOST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_kscen.chaos.clients import ClusterClients
    from pytest_kscen.clock import Signal
    from pytest_kscen.kube.actor import RunContext
    from pytest_kscen.objects.resources import Obj, Resource

MACHINES, NODES, LINKS, PODS, VOLUMES = "machines", "nodes", "links", "pods", "volumes"
TARGETS = (MACHINES, NODES, LINKS, PODS, VOLUMES)
"""Kinds of targets that a profile may declare."""


@dataclass(frozen=True, slots=True)
class ChaosOption:
    """A command-line option of a profile: it fills one parameter, or switches the profile on.

    Profiles that declare an equal option share it. It is also an environment variable and an ini
    key, named after the flag.
    """

    flag: str
    parse: Callable[[str], Any]
    metavar: str
    help: str
    default: str = ""
    parameter: str = ""
    """Field of the profile; empty for a switch."""
    bound: int | None = None
    """LEAST or MOST, if the parameter is a range."""

    @classmethod
    def switch(cls, flag: str, help: str) -> ChaosOption:
        """Define the switch that adds the profile to tests with plan_from_command_line."""
        return cls(flag, options.switch, "", help)


def range_options(
    parameter: str, flag: str, noun: str, default: tuple[str, str]
) -> tuple[ChaosOption, ChaosOption]:
    """Define `<flag>-min` and `<flag>-max`, which fill the two ends of a range of seconds."""
    return (
        ChaosOption(
            *(f"{flag}-min", options.duration, "TIME", f"minimum {noun}", default[0]),
            parameter=parameter,
            bound=LEAST,
        ),
        ChaosOption(
            *(f"{flag}-max", options.duration, "TIME", f"maximum {noun}", default[1]),
            parameter=parameter,
            bound=MOST,
        ),
    )


PERIOD = range_options("period", "--chaos-period", "time between two incidents", ("1m", "5m"))
INCIDENT = range_options("incident", "--chaos-incident", "duration of an incident", ("10s", "1m"))


@dataclass(frozen=True, slots=True)
class CreatedObjects:
    """Objects of one resource that a profile's incidents create.

    Preflight checks that the cluster serves the resource. Cleanup deletes the objects that have a
    label of a run.
    """

    resource: Resource
    in_parent: bool = False
    """True if they are in the parent cluster, in the namespace of the virtual machines."""
    namespace: str = ""
    """Namespace in the tested cluster; empty for resources without one."""
    takes_all: bool = False
    """True if all objects of the resource are deleted before a run, on clusters that we made."""


class Profile(ABC):
    """A kind of chaos with its parameters: a generator of incidents.

    Write a subclass that is a frozen dataclass: its fields are the parameters of
    `@pytest.mark.chaos("name", …)`, its class attributes are the facts. A profile with invalid
    parameters raises a ValueError whose message begins with `parameter=`.
    """

    name: ClassVar[str]
    """Name in markers, options, reports and the journal; unique."""
    aliases: ClassVar[tuple[str, ...]] = ()
    targets: ClassVar[tuple[str, ...]]
    """Kinds of targets: of TARGETS."""
    creates: ClassVar[tuple[CreatedObjects, ...]]
    """Objects that its incidents create; () if they create none."""
    cuts_links: ClassVar[bool] = False
    """True if its effect is on the network between two nodes: only volumes can show it."""
    options: ClassVar[tuple[ChaosOption, ...]] = ()
    """Command-line options that it takes."""
    weights: ClassVar[Mapping[str, int]] = {}
    """Variants, each with its weight; empty if there is one variant."""

    @property
    @abstractmethod
    def soonest(self) -> float:
        """Earliest time of an incident, in seconds since the run began."""

    @abstractmethod
    async def run(self, context: RunContext, stop: Signal) -> None:
        """Cause incidents until `stop` is given; then undo active faults and return."""

    def needs_machines(self) -> int:
        """Return the number of virtual machines that incidents need; 0 if no parent cluster is
        needed.
        """
        return 0

    def missing_machines(self, count: int, found: str) -> str:
        """Return why `count` machines are too few, and what to do; empty if they are enough.

        `found` names the machines and their namespace, for the message.
        """
        needed = self.needs_machines()
        if count >= needed:
            return ""
        return f"{self.name} needs {needed} virtual machines: there are {found}: see --vm-namespace"

    @property
    def required_pods(self) -> tuple[tuple[str, str], ...]:
        """Namespaces and label selectors; at least one pod must exist for each pair."""
        return ()

    def without_incidents(self, *, makes_volumes: bool) -> str:
        """Return why no incident can happen in such a plan, and what to do; empty if one can."""
        del makes_volumes
        return ""

    def warnings(self) -> Iterator[str]:
        """Yield warnings about parameters that are not advisable."""
        yield from ()

    @classmethod
    def is_leftover(cls, obj: Obj) -> bool:
        """Return True if an object with its labels belongs to a run that is over."""
        del obj
        return True

    @classmethod
    async def undo_leftover(cls, clients: ClusterClients, obj: Obj) -> None:
        """Undo the effect of a leftover object, which is deleted afterwards."""
        del clients, obj

    @classmethod
    async def clear_leftovers(cls, context: RunContext, *, own: bool) -> None:
        """Undo effects of incidents that are not objects of `creates`.

        Called before a run for effects of earlier runs, and after it, with `own`, for its own.
        Other users may share the cluster: change only objects with a label or a mark of a run.
        """
        del context, own


class HasTimes(Protocol):
    """Parameters of a profile whose incidents follow each other after pauses, each for a drawn
    time.
    """

    @property
    def period(self) -> tuple[float, float]: ...
    @property
    def incident(self) -> tuple[float, float]: ...


def valid_times(profile: HasTimes) -> None:
    """Raise ValueError unless `period` and `incident` are ranges of seconds."""
    require_range("period", profile.period)
    require_range("incident", profile.incident)


def valid_variants(variants: object, known: Mapping[str, int]) -> None:
    """Raise ValueError unless these are a tuple of one or more known variants."""
    if (
        not isinstance(variants, tuple)
        or not variants
        or any(variant not in known for variant in variants)
    ):
        raise ValueError(f"variants={variants!r}: give one or more of {', '.join(known)}")
