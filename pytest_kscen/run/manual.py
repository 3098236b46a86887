"""Volumes and faults that a test creates itself; both last until the run is judged, at most.

`Run.volumes` and `Run.chaos` are the entries. Each call runs the cluster's loop until it is done.
"""

from __future__ import annotations

import contextlib
import copy
from typing import TYPE_CHECKING

from pytest_kscen.chaos import manual_faults
from pytest_kscen.chaos.incidents import EXPECTED_ERRORS, cause_incident
from pytest_kscen.judge.incidents import update_incidents
from pytest_kscen.megatest.churn import Churn, VolumePlan, drawn_name
from pytest_kscen.megatest.health import shortcomings
from pytest_kscen.megatest.subject import Subject, nodes_of
from pytest_kscen.megatest.view import run_until
from pytest_kscen.megatest.volume import MOST_ATTACHMENTS, create_volume
from pytest_kscen.objects.arguments import is_whole_number
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.names import dns1123_subdomain
from pytest_kscen.objects.storage import REPLICATED_STORAGE_CLASSES
from pytest_kscen.report.story import reasons_not_ready
from pytest_kscen.run.preflight import NO_STORAGE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from pytest_kscen.chaos.incidents import Fault, Incident
    from pytest_kscen.journal import Entry
    from pytest_kscen.judge.incidents import IncidentRecord
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.run.context import Run


PATIENCE = 60.0  # seconds within which the API has to show a volume that was made
LONGEST_NAME = 120  # of a volume, by the storage's definition: its replicas' names are longer


class VolumeHandle:
    """Volume that a test has created. All answers are read from the run's watch, and are copies."""

    def __init__(self, volume_plan: VolumePlan, rv: Subject) -> None:
        self._rv = rv
        self._volume_plan = volume_plan
        self._view = rv.watch

    @property
    def name(self) -> str:
        return self._volume_plan.name

    @property
    def storage_class(self) -> str:
        return self._volume_plan.storage_class

    @property
    def object(self) -> Obj | None:
        """ReplicatedVolume as the watch has it; None when it is gone.

        The copy is the caller's own.
        """
        return copy.deepcopy(self._rv.volume)

    @property
    def replicas(self) -> list[Obj]:
        return copy.deepcopy(self._view.replicas(self.name))

    @property
    def nodes(self) -> list[str]:
        """Nodes with replicas, nodes with data first."""
        return nodes_of(self._view.replicas(self.name))

    @property
    def attached_to(self) -> list[str]:
        """Nodes to which it is attached now."""
        return [
            one["spec"]["nodeName"]
            for one in self._view.attachments(self.name)
            if is_true(one, "Attached")
        ]

    def ready(self) -> bool:
        """Return True if its health is ready and it is attached to as many nodes as requested."""
        return (
            self._rv.health.is_ready(self._rv.volume)
            and len(self.attached_to) >= self._volume_plan.attachments
        )

    healthy = ready

    def describe_state(self) -> str:
        """Describe what keeps it from being ready, for the message of a wait that timed out."""
        if self._rv.volume is None:
            return f"the volume {self.name} is ready: it is not there"
        reasons = reasons_not_ready(shortcomings(self._rv))
        wanted = self._volume_plan.attachments
        attached = f"attached to {len(self.attached_to)} of {wanted} nodes" if wanted else ""
        return f"the volume {self.name} is ready: {'; '.join(filter(None, (reasons, attached)))}"

    def __repr__(self) -> str:
        return f"<volume {self.name} on {', '.join(self.nodes) or 'no node'}>"


class VolumesByHand:
    """Volumes of a run that the test creates: `run.volumes`."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._names: dict[str, None] = {}

    def create(
        self, storage_class: str, *, attach: int = 0, size: str = "100Mi", name: str = ""
    ) -> VolumeHandle:
        """Create a volume and attach it to `attach` nodes, 2 at most. It exists when this returns,
        and is ready later.

        An API error is passed on: `objects.errors.AlreadyExists` for a volume that others made.
        """
        self._run.must_be_on()
        if not is_whole_number(attach, least=0) or attach > MOST_ATTACHMENTS:
            raise ValueError(f"attach={attach!r}: a volume can be attached to 0, 1 or 2 nodes")
        # An empty one is drawn.
        if not (
            isinstance(name, str)
            and (not name or (len(name) <= LONGEST_NAME and not dns1123_subdomain(name)))
        ):
            may_be = (
                f"{LONGEST_NAME} of a-z, 0-9, - and . at most, with a-z or 0-9 at either end "
                "and beside each ."
            )
            raise ValueError(f"name={name!r}: give {may_be}, as in my-volume")
        if name in self._names:
            raise ValueError(f"name={name!r}: this run has made a volume of this name")
        Churn(size=size)
        self._run.call(self._look_up(storage_class))
        drawn, key = drawn_name(self._run.context.chance.stream("volumes by hand"))
        volume_plan = VolumePlan(
            name or drawn, storage_class, size, attachments=attach, key=name or key
        )
        return self._run.do(self._begin(volume_plan))

    async def _look_up(self, storage_class: str) -> None:
        try:
            there = (
                await self._run.context.actor("by-hand").api.list(REPLICATED_STORAGE_CLASSES)
            ).items
        except NotFound:
            raise ValueError(
                f"the tested cluster has no {REPLICATED_STORAGE_CLASSES.qualified}: {NO_STORAGE}"
            ) from None
        names = sorted(one["metadata"]["name"] for one in there)
        if storage_class not in names:
            raise ValueError(
                f"there is no storage class {storage_class!r}; there are "
                f"{', '.join(names) or 'none'}"
            )

    async def _begin(self, volume_plan: VolumePlan) -> VolumeHandle:
        context, state, name = self._run.context, self._run.life.state, volume_plan.name
        rv = Subject(name, context, state, state.watch(context), volume_plan.key)
        async with rv.watch:
            life = await run_until(state.volumes_abandoned, create_volume(rv, volume_plan))
            if life is None:
                raise InterruptedError(f"the volume {name} was not made, because the run is ending")
            self._names[name] = None
            self._run.life.start_actor(life(), name)
            await rv.watch.until(
                name,
                lambda: rv.volume,
                timeout=PATIENCE,
                awaited=f"the volume {name} was not there",
            )
        return VolumeHandle(volume_plan, rv)


BY_HAND = "by-hand"


class ActiveFault:
    """Fault that a test has caused; it is active until `end`, or the end of its `with` block."""

    def __init__(self, incident: Incident, record: IncidentRecord, run: Run) -> None:
        self._incident = incident
        self._record = record
        self._run = run
        self._was_undone = False

    def end(self) -> None:
        """Undo the fault, and verify that it is undone."""
        self._was_undone = True
        self._run.call(self._incident.end())

    def __enter__(self) -> IncidentRecord:
        """Return the incident's record, which the run's outcome has too; it is updated as things
        happen.
        """
        if self._was_undone:
            raise RuntimeError(
                f"{self._incident.id} is over: state the fault anew, as in `with run.chaos.…`"
            )
        return self._record

    def __repr__(self) -> str:
        state = "on" if self._incident.is_on else "over"
        targets = {
            kind: names for kind, names in self._incident.targets.items() if kind != "vms" and names
        }  # named as nodes
        what = "; ".join(f"{kind} {', '.join(map(str, names))}" for kind, names in targets.items())
        return f"<{self._incident.id} is {state}: {what}>"

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()


class ChaosByHand:
    """Faults that a test causes: `run.chaos`. Machines are named as their nodes."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._known: dict[str, IncidentRecord] = {}
        self._learns = False

    def network_block(self, a: str, b: str, *, ports: Iterable[int] | None = None) -> ActiveFault:
        """Block TCP between two machines, on all ports or on these."""
        return self._cause(manual_faults.network_block(a, b, ports=ports))

    def drbd_block(self, a: str, b: str, volume: str | VolumeHandle) -> ActiveFault:
        """Block one volume's replication between two machines."""
        return self._cause(
            manual_faults.drbd_block(
                a, b, volume.name if isinstance(volume, VolumeHandle) else volume
            )
        )

    def split_brain(self, group_a: Iterable[str], group_b: Iterable[str]) -> ActiveFault:
        """Block TCP between two groups of machines."""
        return self._cause(manual_faults.split_brain(group_a, group_b))

    def losses(self, a: str, b: str, loss: float) -> ActiveFault:
        """Drop a share of the packets between two machines: 0.05 is one in twenty."""
        return self._cause(manual_faults.losses(a, b, loss))

    def latency(self, a: str, b: str) -> ActiveFault:
        """Load the link between two machines."""
        return self._cause(manual_faults.latency(a, b))

    def vm_reboot(self, vm: str) -> ActiveFault:
        """Reset a machine. The fault is over when its node is back."""
        return self._cause(manual_faults.vm_reboot(vm))

    def vm_stop(self, vm: str) -> ActiveFault:
        """Switch a machine off until the fault ends."""
        return self._cause(manual_faults.vm_stop(vm))

    def pod_destroy(self, label: str, count: int = 1) -> ActiveFault:
        """Delete `count` pods of the storage with this label.

        The fault is over when others are ready.
        """
        return self._cause(manual_faults.pod_destroy(label, count))

    def _learn(self, entry: Entry) -> None:
        """Update the records of this test's faults; the plan may have thousands of others."""
        if entry.data.get("incident") in self._known or (
            entry.what == "incident-started" and entry.actor == BY_HAND
        ):
            update_incidents(self._known, entry)

    def _cause(self, fault: Fault) -> ActiveFault:
        self._run.do(self._run.life.claim())
        # From the first fault on: a run without faults reports less.
        if not self._learns:
            self._learns = True
            self._run.journal.follow(self._learn)

        async def cause() -> Incident:
            incident = await cause_incident(self._run.context, fault, by=BY_HAND)
            self._run.life.incidents.append(incident)
            if fault.passes:
                self._run.life.start_actor(end_by_itself(incident), f"end of {incident.id}")
            return incident

        async def end_by_itself(incident: Incident) -> None:
            # An error that it cannot be undone is raised to the test's own wait.
            with contextlib.suppress(*EXPECTED_ERRORS):
                await incident.end()

        incident = self._run.do(cause())
        return ActiveFault(incident, self._known[incident.id], self._run)
