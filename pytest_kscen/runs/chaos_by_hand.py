"""Faults that a test states itself: within a `with` block, or by a plain statement, which lasts until the run was judged."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pytest_kscen.chaos import byhand
from pytest_kscen.chaos.incidents import PASSING, cause
from pytest_kscen.checks.incidents import learn
from pytest_kscen.runs.volumes_by_hand import Volume

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from pytest_kscen.chaos.incidents import Fault, Incident
    from pytest_kscen.checks.incidents import IncidentRecord
    from pytest_kscen.journal import Entry
    from pytest_kscen.runs.run import Run

BY_HAND = "by-hand"


class Held:
    """A fault that is on."""

    def __init__(self, incident: Incident, record: IncidentRecord, run: Run) -> None:
        self._incident = incident
        self._record = record
        self._run = run
        self._was_undone = False

    def end(self) -> None:
        """Undo it, and see that it is undone."""
        self._was_undone = True
        self._run.call(self._incident.end())

    def __enter__(self) -> IncidentRecord:
        """What is known of it by now; the run's outcome has the same."""
        if self._was_undone:
            raise RuntimeError(f"{self._incident.id} is over: state the fault anew, as in `with run.chaos.…`")
        return self._record

    def __repr__(self) -> str:
        state = "on" if self._incident.is_on else "over"
        targets = {kind: names for kind, names in self._incident.targets.items() if kind != "vms" and names}  # named as nodes
        what = "; ".join(f"{kind} {', '.join(map(str, names))}" for kind, names in targets.items())
        return f"<{self._incident.id} is {state}: {what}>"

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end()


class ChaosByHand:
    """`run.chaos`. Machines go by the names of their nodes."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._known: dict[str, IncidentRecord] = {}
        self._learns = False

    def network_block(self, a: str, b: str, *, ports: Iterable[int] | None = None) -> Held:
        """No TCP between two machines, or none to these ports."""
        return self._cause(byhand.network_block(a, b, ports=ports))

    def drbd_block(self, a: str, b: str, volume: str | Volume) -> Held:
        """One volume's replication between two machines is cut."""
        return self._cause(byhand.drbd_block(a, b, volume.name if isinstance(volume, Volume) else volume))

    def split_brain(self, group_a: Iterable[str], group_b: Iterable[str]) -> Held:
        """No TCP between two groups of machines."""
        return self._cause(byhand.split_brain(group_a, group_b))

    def losses(self, a: str, b: str, loss: float) -> Held:
        """This share of the packets between two machines is lost: 0.05 is one in twenty."""
        return self._cause(byhand.losses(a, b, loss))

    def latency(self, a: str, b: str) -> Held:
        """The link between two machines is loaded."""
        return self._cause(byhand.latency(a, b))

    def vm_reboot(self, vm: str) -> Held:
        """A machine is reset; the fault is over when it is back."""
        return self._cause(byhand.vm_reboot(vm))

    def vm_stop(self, vm: str) -> Held:
        """A machine is switched off."""
        return self._cause(byhand.vm_stop(vm))

    def pod_destroy(self, label: str, count: int = 1) -> Held:
        """Pods of the storage with this label are deleted; the fault is over when others are ready in their place."""
        return self._cause(byhand.pod_destroy(label, count))

    def _follow(self) -> None:
        """From the first fault on: a run without any writes much that nobody is to hear."""
        if not self._learns:
            self._learns = True
            self._run.journal.follow(self._learn)

    def _learn(self, entry: Entry) -> None:
        """Of those that were made here: a long run's plan makes thousands, which the journal tells of at its end."""
        if entry.data.get("incident") in self._known or (entry.what == "incident-started" and entry.who == BY_HAND):
            learn(self._known, entry)

    def _cause(self, fault: Fault) -> Held:
        self._run.do(self._run.life.claim())
        self._follow()
        incident = self._run.do(self._caused(fault))
        return Held(incident, self._known[incident.id], self._run)

    async def _caused(self, fault: Fault) -> Incident:
        incident = await cause(self._run.stage, fault, by=BY_HAND)
        self._run.life.by_hand.append(incident)
        if fault.passes:
            self._run.life.start(_over(incident), f"end of {incident.id}")
        return incident


async def _over(incident: Incident) -> None:
    """A mistake of ours in it is not to be found out at the run's end; that it cannot be undone is said to whoever asks."""
    with contextlib.suppress(*PASSING):
        await incident.end()
