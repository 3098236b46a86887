"""Controllers that take part in a scenario: simulated controllers in their order, and controllers
that react before them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.objects.arguments import nearest
from pytest_kscen.objects.resources import Resource
from pytest_kscen.objects.scenarios import EVERY
from pytest_kscen.scenario.builtin_waiters import WAITER_REGISTRY, WAITERS, WHERE_SERVED
from pytest_kscen.scenario.writes import WITHOUT_WAITER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from pytest_kscen.scenario.models import ScenarioSpec, Scheduling
    from pytest_kscen.scenario.waiting import ControllerWaiter

BUILT_IN_NAMES = tuple(each.name for each in (*WAITERS, *WHERE_SERVED))
BY_CLOCK = {
    "cronjob-controller": "it acts by the clock, but a scenario has steps only",
    "ttl-after-finished-controller": ("it acts by the clock, but a scenario has steps only"),
}

_NOT_HELD_HERE = (
    "cannot be held; an embedded cluster can hold each of them, and a control plane all together"
)


@dataclass
class ControllerRegister:
    """Waiters of one cluster's controllers, built-in and added by users, with the functions that
    prompt or reset these controllers. One per cluster; it outlives scenarios.
    """

    waiters: dict[str, ControllerWaiter] = field(
        default_factory=lambda: {each.name: each for each in WAITERS}
    )

    prompts: dict[str, Callable[[], Awaitable[bool]]] = field(default_factory=dict)
    """Functions by controller that give it its next work, and return False when none is left."""

    cleanups: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """Functions that are called when a scenario is over, however it ended."""

    parts: dict[str, str] = field(default_factory=dict)
    """Programs by controller, for controllers that can only be held together with their program."""

    ungated: Collection[str] = ()
    """Controllers, or "*", that have no gate on this cluster, so they can be neither simulated nor
    disabled.
    """

    partly_gated: Collection[str] = ()
    """Controllers that can be simulated, but may also write outside their turn."""

    scheduling: Scheduling | None = None
    """Scheduler of the cluster, if scenarios may configure it."""

    resets: list[Callable[[], None]] = field(default_factory=list)
    """Functions that reset a controller's state of earlier pods on an empty cluster, so that a
    scenario gives the same result each time.
    """

    reports_attempts: bool = False
    """True if the scheduler reports its attempts itself."""

    def add(self, waiter: ControllerWaiter, *, replace: bool = False) -> None:
        """Register a waiter for a controller of your own, which then takes part unless a
        scenario disables it.

        A built-in waiter is replaced only with `replace=True`; raises ValueError for an object
        that is no waiter.
        """
        if lacks := [
            part
            for part in ("name", "resources", "unfinished", "quiet", "is_idle")
            if not hasattr(waiter, part)
        ]:
            why: str = (
                f"it has no {', '.join(lacks)}; derive it from Waiter, or see ControllerWaiter"
            )
        elif not isinstance(waiter.name, str) or waiter.name in ("", EVERY):
            why = f"{waiter.name!r} is no controller's name"
        elif odd := [each for each in waiter.resources if not isinstance(each, Resource)]:
            why = f"{odd[0]!r} is no Resource, as pytest_kscen.objects.resources has them"
        else:
            why = ""
        if why:
            raise ValueError(f"{waiter!r} is no waiter: {why}")
        if waiter.name in BUILT_IN_NAMES and not replace:
            raise ValueError(
                f"{waiter.name!r} has a waiter already: give yours another name, or pass "
                "replace=True"
            )
        self.waiters[waiter.name] = waiter


@dataclass(frozen=True)
class Participants:
    """Controllers that take part in one scenario: simulated controllers and controllers that react
    before them.
    """

    register: ControllerRegister
    simulated: list[str]
    disabled: list[str]

    @classmethod
    def of(cls, register: ControllerRegister, spec: ScenarioSpec) -> Participants:
        disabled = spec.controllers.before.disabled if spec.controllers.before else []
        return cls(
            register,
            [each.name for each in spec.controllers.simulated.enabled],
            [each.name for each in disabled],
        )

    @property
    def reports_attempts(self) -> bool:
        return self.register.reports_attempts

    @property
    def known(self) -> Collection[str]:
        return self.register.waiters

    @property
    def before(self) -> list[ControllerWaiter]:
        if EVERY in self.disabled:
            return []
        absent = {*self.simulated, *self.disabled}
        return [
            each
            for name, each in self.register.waiters.items()
            if not {name, self.register.parts.get(name)} & absent
        ]

    def forget(self) -> None:
        """Reset all state of earlier pods, since the cluster is empty: the same scenario then
        gives the same placements.
        """
        for forget in self.register.resets:
            forget()

    async def prompt(self, name: str) -> bool:
        """Give a controller its next work, such as a held pod; return False if it needs none or
        none is left.
        """
        prompt = self.register.prompts.get(name)
        return prompt is not None and await prompt()

    def waiter(self, name: str) -> ControllerWaiter:
        return self.register.waiters[name]

    def find_error(self, spec: ScenarioSpec) -> str:
        if spec.controllers.simulated.disabled:
            return "simulationControllers are never enabled by default, so none can be disabled"
        if unknown := [name for name in self.simulated if name in WITHOUT_WAITER]:
            return (
                f"{', '.join(unknown)}: it has no waiter, so its end is unknown and it cannot be "
                "simulated; register a waiter for it"
            )
        return self._find_name_error(
            [each.name for each in spec.controllers.before.enabled]
            if spec.controllers.before
            else []
        )

    def _find_name_error(self, before: list[str]) -> str:
        if EVERY in self.disabled and EVERY in self.register.ungated:
            return (
                f'"{EVERY}" cannot be disabled on this cluster: its own programs {_NOT_HELD_HERE}'
            )
        if EVERY in self.disabled and len(self.disabled) > 1:
            return (
                f'"{EVERY}" disables all, and must be the only entry of disabled; the entries are '
                f"{', '.join(self.disabled)}"
            )
        for name in (*self.simulated, *before, *(name for name in self.disabled if name != EVERY)):
            if why := self._name_error(name):
                return why
        if both := set(self.simulated) & {*before, *self.disabled}:
            return (
                f"{', '.join(sorted(both))}: a simulated controller cannot also be enabled or "
                "disabled in presimulationControllers"
            )
        if twice := {name for name in self.simulated if self.simulated.count(name) > 1}:
            return f"{', '.join(sorted(twice))}: a controller is simulated once"
        return ""

    def _name_error(self, name: str) -> str:
        if why := BY_CLOCK.get(name):
            return f"the controller {name!r} cannot be part of a scenario: {why}"
        if name in self.register.ungated and name in (*self.simulated, *self.disabled):
            return f"{name!r} is one of this cluster's own programs, which {_NOT_HELD_HERE}"
        programs = dict.fromkeys(self.register.parts.values())
        known = [*self.register.waiters, *WITHOUT_WAITER, *programs]
        if (program := self.register.parts.get(name)) and name in (*self.simulated, *self.disabled):
            return (
                f"{name!r} is a part of {program} on this cluster, which is held as a whole; "
                "an embedded cluster can hold it alone"
            )
        if name in self.simulated and name in programs:
            return (
                f"{name!r} contains many controllers and cannot be simulated; an embedded "
                "cluster can simulate each of them"
            )
        return "" if name in known else _unknown_name_error(name, known)


def _unknown_name_error(name: str, known: Collection[str]) -> str:
    if waiter := WAITER_REGISTRY.get(name):
        resources = ", ".join(each.qualified for each in waiter.resources)
        return (
            f"the controller {name!r} cannot take part: this cluster does not serve "
            f"{resources}: create the CustomResourceDefinition before the scenario"
        )
    return (
        f"there is no controller {name!r}{nearest(name, known)}; there are "
        f"{', '.join(sorted(known))}"
    )
