"""What a fault is done with: an actor's hands in both clusters, and the few things that every fault does with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.virtualization import STOPPED, VIRTUAL_MACHINES, phase_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_kscen.kube.actor import Actor, Stage
    from pytest_kscen.objects.resources import Obj, Resource

GOING = 120.0  # seconds within which an object that was deleted has to be gone
TYPE, NODE_A, NODE_B = "chaos.megatest/type", "chaos.megatest/node-a", "chaos.megatest/node-b"
INCIDENT = "kscen.io/incident"


class Impossible(Exception):
    """The fault cannot be: the cluster has not what it needs."""


@dataclass(frozen=True, slots=True)
class Hands:
    """One actor in the tested cluster and in its parent."""

    nested: Actor
    parent: Actor | None
    namespace: str
    """Where the machines are, in the parent."""
    ours: frozenset[str] | None = None
    """Which of those may be acted on; None if all may."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Those of the run's volumes."""

    @classmethod
    def of(cls, stage: Stage, name: str) -> Hands:
        if stage.parent is None:
            return cls(stage.actor(name), None, "", keys=stage.keys)
        return cls(stage.actor(name), stage.in_parent(name), stage.parent.namespace, stage.parent.machines, stage.keys)

    @property
    def in_parent(self) -> Actor:
        if self.parent is None:
            raise Impossible(f"{self.nested.name} acts on virtual machines, and this run knows of no parent cluster that has them")
        return self.parent

    async def machines(self) -> dict[str, Obj]:
        """The virtual machines that are the tested cluster's nodes, by name."""
        listing = await self.in_parent.api.list(VIRTUAL_MACHINES, self.namespace)
        machines = {vm["metadata"]["name"]: vm for vm in listing.items}
        return {name: vm for name, vm in machines.items() if self.ours is None or name in self.ours}

    async def must_have(self, names: Sequence[str]) -> dict[str, Obj]:
        """The virtual machines, when these are among them."""
        machines = await self.machines()
        for name in names:
            if name not in machines:
                known = ", ".join(machines) or "none"
                raise Impossible(f"there is no virtual machine {name!r} in the namespace {self.namespace!r}; there are {known}")
        return machines

    async def must_run(self, names: Sequence[str]) -> dict[str, Obj]:
        """The virtual machines, when these are among them and none is off."""
        machines = await self.must_have(names)
        for name in names:
            if phase_of(machines[name]) == STOPPED:
                raise Impossible(f"the virtual machine {name} is off: name one that runs, or end first what has stopped it")
        return machines


async def put(actor: Actor, resource: Resource, obj: Obj) -> Obj:
    """Make the object; one of the same name goes first."""
    await make_way(actor, resource, obj)
    return await actor.api.create(resource, obj)


async def make_way(actor: Actor, resource: Resource, obj: Obj) -> None:
    """See that there is none of this name."""
    metadata = obj["metadata"]
    try:
        await actor.api.get(resource, metadata["name"], metadata["namespace"])
    except NotFound:
        pass
    else:
        actor.note("in-the-way", resource=resource.qualified, name=metadata["name"])
        await remove(actor, resource, metadata["name"], metadata["namespace"])


async def remove(actor: Actor, resource: Resource, name: str, namespace: str) -> None:
    """Delete the object with what hangs on it, and see that it is gone."""
    try:
        await actor.api.delete(resource, name, namespace, propagation="Background")
    except NotFound:
        return
    await wait_for(actor.api, actor.clock, resource, name, namespace, condition=lambda obj: obj is None, timeout=GOING)
