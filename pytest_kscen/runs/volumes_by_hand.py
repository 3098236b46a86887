"""Volumes that a test makes itself. They live like those of the churn, checked from ready on, until the run has been judged."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from pytest_kscen.megatest.churn import Churn
from pytest_kscen.megatest.destiny import Destiny, drawn_name
from pytest_kscen.megatest.placement import nodes_of
from pytest_kscen.megatest.season import unless
from pytest_kscen.megatest.subject import Subject
from pytest_kscen.megatest.unready import shortcomings
from pytest_kscen.megatest.volume import MOST_ATTACHMENTS, make
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.names import dns1123_subdomain
from pytest_kscen.objects.numbers import is_whole
from pytest_kscen.objects.storage import REPLICATED_STORAGE_CLASSES
from pytest_kscen.reports.story import told_lacks
from pytest_kscen.runs.preflight import NO_STORAGE

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.runs.run import Run

PATIENCE = 60.0  # seconds within which the API has to show a volume that was made
LONGEST_NAME = 120  # of a volume, by the storage's definition: its replicas' names are longer


class Volume:
    """One volume, as the API shows it now."""

    def __init__(self, destiny: Destiny, rv: Subject) -> None:
        self._rv = rv
        self._destiny = destiny
        self._view = rv.view

    @property
    def name(self) -> str:
        return self._destiny.name

    @property
    def storage_class(self) -> str:
        return self._destiny.storage_class

    @property
    def object(self) -> Obj | None:
        """The ReplicatedVolume; None when it is gone. It is the caller's own, as everything here is."""
        return copy.deepcopy(self._rv.volume)

    @property
    def replicas(self) -> list[Obj]:
        return copy.deepcopy(self._view.replicas(self.name))

    @property
    def nodes(self) -> list[str]:
        """Where it has replicas, those with data first."""
        return nodes_of(self._view.replicas(self.name))

    @property
    def attached_to(self) -> list[str]:
        """The nodes on which it is attached now."""
        return [one["spec"]["nodeName"] for one in self._view.attachments(self.name) if is_true(one, "Attached")]

    def ready(self) -> bool:
        """Whether everything that it promises holds, and it is attached to as many nodes as was asked."""
        return self._rv.health.is_ready(self._rv.volume) and len(self.attached_to) >= self._destiny.attachments

    healthy = ready

    def standing(self) -> str:
        """What it lacks, for whoever has waited for it in vain."""
        if self._rv.volume is None:
            return f"the volume {self.name} is ready: it is not there"
        told = told_lacks(shortcomings(self._rv))
        wanted = self._destiny.attachments
        attached = f"attached to {len(self.attached_to)} of {wanted} nodes" if wanted else ""
        return f"the volume {self.name} is ready: {'; '.join(filter(None, (told, attached)))}"

    def __repr__(self) -> str:
        return f"<volume {self.name} on {', '.join(self.nodes) or 'no node'}>"


class VolumesByHand:
    """`run.volumes`."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._names: dict[str, None] = {}

    def create(self, storage_class: str, *, attach: int = 0, size: str = "100Mi", name: str = "") -> Volume:
        """Make a volume and attach it to so many nodes, 2 at most; it is there when this returns, and ready later.

        What the API refuses, it says: `objects.errors.AlreadyExists` of a volume that others made.
        """
        self._run.must_be_on()
        if not is_whole(attach, least=0) or attach > MOST_ATTACHMENTS:
            raise ValueError(f"attach={attach!r}: a volume can be attached to 0, 1 or 2 nodes")
        _check_name(name)
        if name in self._names:
            raise ValueError(f"name={name!r}: this run has made a volume of this name")
        Churn(size=size)
        self._run.call(self._look_up(storage_class))
        drawn, key = drawn_name(self._run.stage.chance.stream("volumes by hand"))
        destiny = Destiny(name or drawn, storage_class, size, attachments=attach, key=name or key)
        return self._run.do(self._begin(destiny))

    async def _look_up(self, storage_class: str) -> None:
        try:
            there = (await self._run.stage.actor("by-hand").api.list(REPLICATED_STORAGE_CLASSES)).items
        except NotFound:
            raise ValueError(f"the tested cluster has no {REPLICATED_STORAGE_CLASSES.qualified}: {NO_STORAGE}") from None
        names = sorted(one["metadata"]["name"] for one in there)
        if storage_class not in names:
            raise ValueError(f"there is no storage class {storage_class!r}; there are {', '.join(names) or 'none'}")

    async def _begin(self, destiny: Destiny) -> Volume:
        stage, season, name = self._run.stage, self._run.life.season, destiny.name
        rv = Subject(name, stage, season, season.view(stage), destiny.key)
        async with rv.view:
            life = await unless(season.abandoned, make(rv, destiny))
            if life is None:
                raise InterruptedError(f"the volume {name} was not made: the run was told to leave everything as it is")
            self._names[name] = None
            self._run.life.start(life(), name)
            await rv.view.until(name, lambda: rv.volume, timeout=PATIENCE, awaited=f"the volume {name} was not there")
        return Volume(destiny, rv)


def _check_name(name: object) -> None:
    """An empty one is drawn."""
    if isinstance(name, str) and (not name or (len(name) <= LONGEST_NAME and not dns1123_subdomain(name))):
        return
    may_be = f"{LONGEST_NAME} of a-z, 0-9, - and . at most, with a-z or 0-9 at either end and beside each ."
    raise ValueError(f"name={name!r}: give {may_be}, as in my-volume")
