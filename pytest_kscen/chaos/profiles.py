"""Built-in chaos profiles, the registry of all profiles, and their lookup by name.

A profile's class has its facts and parameters; faults and draws are in a module for each kind,
which is imported when a run begins. This module is imported when pytest starts, so it has
few imports.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from pytest_kscen.chaos.profile import (
    INCIDENT,
    LINKS,
    MACHINES,
    PERIOD,
    PODS,
    TARGETS,
    ChaosOption,
    CreatedObjects,
    Profile,
    valid_times,
    valid_variants,
)
from pytest_kscen.extensions import Registry
from pytest_kscen.objects import options as parsers
from pytest_kscen.objects.arguments import (
    CountRange,
    Duration,
    DurationRange,
    in_words,
    is_whole_number,
    nearest,
    parameter_types,
    require_range,
)
from pytest_kscen.objects.resources import CILIUM_NETWORK_POLICIES, JOBS
from pytest_kscen.objects.storage import AGENT_LABEL, CONTROLLER_LABEL, NAMESPACE
from pytest_kscen.objects.virtualization import VIRTUAL_MACHINE_OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pytest_kscen.chance import Stream
    from pytest_kscen.chaos.clients import ClusterClients
    from pytest_kscen.clock import Signal
    from pytest_kscen.kube.actor import RunContext
    from pytest_kscen.objects.resources import Obj

PAIR = 2
EVERYTHING, DRBD, SPLIT_BRAIN = "blocking-everything", "blocking-drbd", "split-brain"
LOSSES, LATENCY = "losses", "latency"
JOBS_NAMESPACE = "default"
REBOOT_PERIOD = (60.0, 300.0)
SHORTEST_REBOOT_PERIOD = 300.0
"""Seconds: with less, a slowly booting machine would be restarted again and again."""
LONGER_REBOOT_PERIOD = (300.0, 360.0)
PODS_AT_ONCE = {AGENT_LABEL: (1, 2), CONTROLLER_LABEL: (1, 3)}
OTHER_PODS_AT_ONCE = (1, 1)


@dataclass(frozen=True, slots=True)
class NetworkBlock(Profile):
    """Cut the network between machines; ranges are in seconds, a group size of 0 is one half."""

    period: tuple[float, float] = (60.0, 300.0)
    incident: tuple[float, float] = (10.0, 60.0)
    group_size: int = 0
    variants: tuple[str, ...] = (EVERYTHING, DRBD, SPLIT_BRAIN)

    name: ClassVar[str] = "network-block"
    targets: ClassVar[tuple[str, ...]] = (LINKS,)
    creates: ClassVar[tuple[CreatedObjects, ...]] = (
        CreatedObjects(CILIUM_NETWORK_POLICIES, in_parent=True, takes_all=True),
    )
    cuts_links: ClassVar[bool] = True
    weights: ClassVar[dict[str, int]] = {EVERYTHING: 30, DRBD: 30, SPLIT_BRAIN: 40}
    options: ClassVar[tuple[ChaosOption, ...]] = (
        ChaosOption.switch(
            "--enable-chaos-network-block",
            (
                "block connections between machines: all TCP, one volume's DRBD, or split brain "
                "(default: off)"
            ),
        ),
        *PERIOD,
        *INCIDENT,
        ChaosOption(
            "--chaos-partition-group-size",
            parsers.group_size,
            "N",
            "number of machines on one side of a split brain; 0 is half of them",
            "0",
            parameter="group_size",
        ),
    )

    def __post_init__(self) -> None:
        valid_times(self)
        valid_variants(self.variants, self.weights)
        if not is_whole_number(self.group_size, 0):
            raise ValueError(f"group_size={self.group_size!r}: give a whole number, 0 for one half")

    @property
    def soonest(self) -> float:
        return self.period[0]

    def needs_machines(self) -> int:
        return max(PAIR, self.group_size + 1 if SPLIT_BRAIN in self.variants else 0)

    def missing_machines(self, count: int, found: str) -> str:
        if self.needs_machines() > count > 1 and self.group_size >= count:
            return (
                f"{self.name}: a group of {self.group_size} leaves no machine on the other side: "
                f"there are {found}: give --chaos-partition-group-size (or group_size) "
                f"{count - 1} at most, or 0 for half"
            )
        return Profile.missing_machines(self, count, found)

    def without_incidents(self, *, makes_volumes: bool) -> str:
        if makes_volumes or set(self.variants) != {DRBD}:
            return ""
        return (
            f"{self.name} has no incident in this run unless the cluster has volumes already: "
            f"{DRBD}, its only variant, cuts a volume's link, and the plan makes none: declare "
            "volume_churn, or give other variants too"
        )

    async def run(self, context: RunContext, stop: Signal) -> None:
        from pytest_kscen.chaos.incidents import repeat_incidents
        from pytest_kscen.chaos.network_blocks import draw_block

        await repeat_incidents(
            context, stop, self, "chaos-network-blocker", partial(draw_block, self)
        )


@dataclass(frozen=True, slots=True)
class NetworkDegrade(Profile):
    """Lose packets between two machines or load their link; `loss` is a share from 0 to 1."""

    period: tuple[float, float] = (60.0, 300.0)
    incident: tuple[float, float] = (10.0, 60.0)
    loss: float = 0.01
    variants: tuple[str, ...] = (LOSSES, LATENCY)

    name: ClassVar[str] = "network-degrade"
    aliases: ClassVar[tuple[str, ...]] = ("degrade",)
    targets: ClassVar[tuple[str, ...]] = (LINKS,)
    creates: ClassVar[tuple[CreatedObjects, ...]] = (
        CreatedObjects(JOBS, namespace=JOBS_NAMESPACE, takes_all=True),
    )
    cuts_links: ClassVar[bool] = True
    weights: ClassVar[dict[str, int]] = {LOSSES: 50, LATENCY: 50}
    options: ClassVar[tuple[ChaosOption, ...]] = (
        ChaosOption.switch(
            "--enable-chaos-network-degrade",
            "drop packets between two machines, or load their link (default: off)",
        ),
        *PERIOD,
        *INCIDENT,
        ChaosOption(
            "--chaos-loss-percent",
            parsers.share,
            "SHARE",
            "share of lost packets, from 0.0 to 1.0: 0.01 is 1 %%",
            "0.01",
            parameter="loss",
        ),
    )

    def __post_init__(self) -> None:
        valid_times(self)
        valid_variants(self.variants, self.weights)
        valid_loss(self.loss)

    @property
    def soonest(self) -> float:
        return self.period[0]

    def needs_machines(self) -> int:
        return PAIR

    async def run(self, context: RunContext, stop: Signal) -> None:
        from pytest_kscen.chaos.incidents import repeat_incidents
        from pytest_kscen.chaos.network_degradation import draw_degradation

        await repeat_incidents(
            context, stop, self, "chaos-network-degrader", partial(draw_degradation, self)
        )


@dataclass(frozen=True, slots=True)
class VmReboot(Profile):
    """Restart machines, hard; the period is in seconds.

    The default period is drawn from one to five minutes; times below five minutes are drawn again
    from five to six minutes. A declared period is used unchanged.
    """

    period: tuple[float, float] | None = None

    name: ClassVar[str] = "vm-reboot"
    targets: ClassVar[tuple[str, ...]] = (MACHINES,)
    creates: ClassVar[tuple[CreatedObjects, ...]] = (
        CreatedObjects(VIRTUAL_MACHINE_OPERATIONS, in_parent=True),
    )
    options: ClassVar[tuple[ChaosOption, ...]] = (
        ChaosOption.switch(
            "--enable-chaos-vm-reboot", ("restart machines without a shutdown (default: off)")
        ),
        *PERIOD,
    )

    def __post_init__(self) -> None:
        if self.period is not None:
            require_range("period", self.period)

    @property
    def soonest(self) -> float:
        return self.period[0] if self.period else SHORTEST_REBOOT_PERIOD

    def needs_machines(self) -> int:
        return 1

    def warnings(self) -> Iterator[str]:
        shortest = in_words(SHORTEST_REBOOT_PERIOD)
        if self.is_below_minimum:
            yield (
                f"{self.name}: the period's least value is below {shortest}: a machine that takes "
                f"longer to boot is restarted again and again: leave the period out, or give "
                f"{shortest} or more"
            )

    @property
    def is_below_minimum(self) -> bool:
        return self.period is not None and self.period[0] < SHORTEST_REBOOT_PERIOD

    def pause(self, chance: Stream) -> float:
        drawn = chance.between(*(self.period or REBOOT_PERIOD))
        if self.period is None and drawn < SHORTEST_REBOOT_PERIOD:
            return chance.between(*LONGER_REBOOT_PERIOD)
        return drawn

    async def run(self, context: RunContext, stop: Signal) -> None:
        from pytest_kscen.chaos.vm_operations import reboot_machines

        await reboot_machines(self, context, stop)

    @classmethod
    def is_leftover(cls, obj: Obj) -> bool:
        from pytest_kscen.chaos.vm_operations import is_over

        return is_over(obj)

    @classmethod
    async def undo_leftover(cls, clients: ClusterClients, obj: Obj) -> None:
        from pytest_kscen.chaos.vm_operations import undo_stop

        await undo_stop(clients, obj)


@dataclass(frozen=True, slots=True)
class PodDestroy(Profile):
    """Delete pods with a label; ranges are (least, most), the period in seconds.

    Without a label, pods of the storage's agents and of its controllers are deleted in parallel.
    """

    label: str | None = None
    namespace: str = NAMESPACE
    pods: tuple[int, int] | None = None
    period: tuple[float, float] = (30.0, 60.0)

    name: ClassVar[str] = "pod-destroy"
    targets: ClassVar[tuple[str, ...]] = (PODS,)
    creates: ClassVar[tuple[CreatedObjects, ...]] = ()

    def __post_init__(self) -> None:
        require_range("period", self.period)
        if self.pods is not None:
            require_range("pods", self.pods, whole=True)
        if self.label is not None:
            valid_label(self.label)
        if not isinstance(self.namespace, str) or not self.namespace:
            raise ValueError(f"namespace={self.namespace!r}: give a name")

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.label,) if self.label else tuple(PODS_AT_ONCE)

    @property
    def soonest(self) -> float:
        return self.period[0]

    @property
    def required_pods(self) -> tuple[tuple[str, str], ...]:
        return tuple((self.namespace, label) for label in self.labels)

    async def run(self, context: RunContext, stop: Signal) -> None:
        from pytest_kscen.chaos.pod_deletions import destroy_pods

        await destroy_pods(self, context, stop)


def valid_loss(loss: object) -> None:
    if isinstance(loss, bool) or not isinstance(loss, int | float) or not 0 <= loss <= 1:
        raise ValueError(
            f"loss={loss!r}: give the share of packets that get lost, from 0 to 1: 0.05 is 5 %"
        )


def valid_label(label: object) -> None:
    from pytest_kscen.objects.selectors import parse_labels

    why = ""
    try:
        if isinstance(label, str) and parse_labels(label):
            return
    except ValueError as error:
        why = f"{error}: "
    raise ValueError(f"label={label!r}: {why}write it as in app=agent")


PARAMETER_TYPES = (
    *(DurationRange, CountRange, Duration),
    *(str, int, float, bool, tuple[str, ...], Any),
)
"""Annotations of profiles' parameters; each may have `| None`."""


def _check_parameters(profile: type[Profile]) -> str:
    """Return why a parameter cannot be filled from a marker or an option; empty if all can."""
    try:
        found = parameter_types(profile)
    except ValueError as error:
        return str(error)
    for name, type_ in found.items():
        if type_ not in PARAMETER_TYPES:
            shown = type_.__name__ if type(type_) is type else type_
            return (
                f"its field {name!r} has the annotation {shown}, which no marker can fill: "
                "write DurationRange, CountRange or Duration of pytest_kscen.chaos, or str, int, "
                "float, bool, tuple[str, ...] or Any"
            )
    return ""


def _check_profile(profile: type[Profile], others: Mapping[str, type[Profile]]) -> str:
    """Return why a profile cannot be registered beside the others; empty if it can."""
    parameters = getattr(profile, "__dataclass_params__", None)
    if not isinstance(profile, type) or parameters is None or not parameters.frozen:
        return "it is not a frozen dataclass: write `@dataclass(frozen=True)` above its class"
    if not isinstance(profile.targets, tuple) or not set(profile.targets) <= set(TARGETS):
        return f"targets = {profile.targets!r}: give a tuple of {', '.join(map(repr, TARGETS))}"
    if why := _check_parameters(profile):
        return why
    for other in others.values():
        shared = {profile.name, *profile.aliases} & {other.name, *other.aliases}
        if shared:
            return (
                f"{min(shared)!r} is a name or an alias of {other.name!r} "
                f"({other.__module__}.{other.__qualname__}) too: choose another one"
            )
    return ""


BUILT_IN: tuple[type[Profile], ...] = (NetworkBlock, NetworkDegrade, VmReboot, PodDestroy)
PROFILES: Registry[type[Profile]] = Registry(
    "profiles",
    "chaos profile",
    facts={"targets": 'targets = ("nodes",)', "creates": "creates = ()"},
    built_in=BUILT_IN,
    check=_check_profile,
)


def profile_named(name: str, parameters: Iterable[str] = ()) -> type[Any]:
    """Return the profile of this name or alias, if it has these parameters.

    Otherwise raise a ValueError that lists the valid ones and names the nearest.
    """
    if name not in PROFILES:
        aliases = {alias: each.name for each in PROFILES.values() for alias in each.aliases}
        name = aliases.get(name, name)
    if name not in PROFILES:
        raise ValueError(
            f"there is no chaos profile {name!r}{nearest(name, PROFILES)}; the profiles "
            f"are {', '.join(PROFILES)}"
        )
    known = [field.name for field in dataclasses.fields(PROFILES[name])]  # type: ignore[arg-type]
    for parameter in parameters:
        if parameter not in known:
            raise ValueError(
                f"the chaos profile {name!r} has no parameter "
                f"{parameter!r}{nearest(parameter, known)}; "
                f"its parameters are {', '.join(known)}"
            )
    return PROFILES[name]
