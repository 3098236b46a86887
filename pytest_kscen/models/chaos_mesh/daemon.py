"""Chaos Mesh's life in a cluster: it takes hold of each chaos object, chooses its targets once, and
keeps them as is wanted.

Each is held by a finalizer until everything that was done for it is undone. What its status says
has been seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.kube.cache import Ref
from pytest_kscen.models.chaos_mesh import status as book
from pytest_kscen.models.chaos_mesh.targets import GONE, Gone, NotYet, Target, targets_of
from pytest_kscen.objects.chaos_mesh import KINDS, RECORDS_FINALIZER, RUN
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import NODES, PODS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Never

    from pytest_kscen.chance import Stream
    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.models.chaos_mesh.targets import Effect
    from pytest_kscen.objects.resources import Obj

PHASE_MESSAGES = {
    "Started": "Experiment has started",
    "Paused": "Experiment has been paused",
    "Deleted": "Experiment has been deleted",
    "TimeUp": "Time up according to the duration",
}


class ChaosRef(NamedTuple):
    """One chaos object."""

    kind: str
    namespace: str
    name: str


class ChaosDaemon:
    """The controller of all kinds of chaos.

    `effect_of` says who does what a chaos object wants done.
    """

    def __init__(
        self, context: ControllerContext, chance: Stream, effect_of: Callable[[Obj], Effect]
    ) -> None:
        self._context = context
        self._chance = chance
        self._effect_of = effect_of
        self._pods, self._nodes = context.informers.of(PODS), context.informers.of(NODES)
        self._chaos = {kind: context.informers.of(chaos.resource) for kind, chaos in KINDS.items()}
        self._by_pod = {
            kind: picture.index("targets", _pods_of) for kind, picture in self._chaos.items()
        }
        self._bodies: dict[str, dict[Target, str]] = {}
        """The uids of the pods that each chaos object has chosen."""
        self._controller = context.controller(
            self._reconcile, self._pods, self._nodes, *self._chaos.values()
        )

    async def run(self) -> Never:
        for kind, picture in self._chaos.items():
            # bound here
            picture.on_change(lambda new, old, kind=kind: self._chaos_changed(kind, new, old))  # type: ignore[misc]
        self._pods.on_change(self._pod_changed)
        await self._controller.run()

    def _chaos_changed(self, kind: str, new: Obj | None, old: Obj | None) -> None:
        if new:
            self._controller.enqueue(ChaosRef(kind, *Ref.of(new)))
        elif old and self._bodies.pop(old["metadata"]["uid"], None):
            self._effect_of(old).forget(old)

    def _pod_changed(self, new: Obj | None, old: Obj | None) -> None:
        ref = Ref.of(new or old)  # type: ignore[arg-type]  # one of them is there
        for kind, index in self._by_pod.items():
            for chaos in index.of(ref):
                self._controller.enqueue(ChaosRef(kind, *Ref.of(chaos)))

    # --- one look at one object ---

    async def _reconcile(self, subject: ChaosRef) -> float | None:
        chaos = self._chaos[subject.kind].get(subject.name, subject.namespace)
        if chaos is None or (book.is_deleted(chaos) and not book.is_held(chaos)):
            return None
        try:
            desired, why = book.desired_phase(chaos, self._context.now())
        except ValueError as error:
            self._failed(chaos, "calculate the desired phase", str(error))
            return None
        records = book.records_of(chaos) or (self._select(chaos) if desired == RUN else [])
        chaos = await self._announce(chaos, desired, why, records)
        records = await self._sync(chaos, desired, records)
        # Say what has become of it; and let go of what is to be deleted, once all of it is
        # undone.
        if records != book.records_of(chaos):
            self._updated(chaos, "records")
        status = book.status_of(chaos, desired, records)
        is_undone = all(record["phase"] == book.NOT_INJECTED for record in records)
        if book.is_deleted(chaos) and (is_undone or book.is_let_go(chaos)):
            self._normal(
                chaos, "FinalizerInited", "Finalizer has been removed"
            )  # the reason that Chaos Mesh gives
            left = [each for each in chaos["metadata"]["finalizers"] if each != RECORDS_FINALIZER]
            await self._write(
                {**chaos, "metadata": {**chaos["metadata"], "finalizers": left}}, status
            )
        elif status != chaos.get("status"):
            await self._write(chaos, status)
        return book.remaining_duration(chaos, self._context.now()) if desired == RUN else None

    def _select(self, chaos: Obj) -> list[Obj]:
        try:
            targets = targets_of(chaos, self._pods.objects, self._nodes, self._chance)
        except ValueError as why:
            self._failed(chaos, "select targets", str(why))
            return []
        pods = {target: self._pods.objects[target.ref]["metadata"]["uid"] for target in targets}
        self._bodies[chaos["metadata"]["uid"]] = pods
        return [book.new_record(target) for target in targets]

    async def _announce(self, chaos: Obj, desired: str, why: str, records: list[Obj]) -> Obj:
        """Before anything is done: the finalizer, and what is going to be."""
        said = ((chaos.get("status") or {}).get("experiment") or {}).get("desiredPhase")
        if (
            book.is_held(chaos)
            and said == desired
            and bool(book.records_of(chaos)) == bool(records)
        ):
            return chaos
        metadata = chaos["metadata"]
        if not book.is_held(chaos):
            metadata = {
                **metadata,
                "finalizers": [*(metadata.get("finalizers") or ()), RECORDS_FINALIZER],
            }
            self._normal(chaos, "FinalizerInited", "Finalizer has been inited")
            self._updated(chaos, "finalizer")
        if said != desired:
            if why:
                self._normal(chaos, why, PHASE_MESSAGES[why])
            self._updated(chaos, "desiredPhase")
        return await self._write(
            {**chaos, "metadata": metadata}, book.status_of(chaos, desired, records)
        )

    async def _sync(self, chaos: Obj, desired: str, records: Iterable[Obj]) -> list[Obj]:
        """Bring every target to where it is wanted, and look whether it is there."""
        effect = self._effect_of(chaos)
        if desired != RUN:
            return [await self._recover(effect, chaos, record) for record in records]
        put = [await self._inject(effect, chaos, record) for record in records]
        return [
            self._looked_at(effect, chaos, record) if is_put else record for record, is_put in put
        ]

    async def _inject(self, effect: Effect, chaos: Obj, record: Obj) -> tuple[Obj, bool]:
        """The record as it is now, and whether its effect is to be looked for."""
        target, now = Target.of(record), self._context.timestamp()
        if book.has_vanished(record):
            return record, False
        pod = self._pod_of(chaos, target)
        if record["phase"] == book.INJECTED:
            if book.is_one_shot(chaos) or (
                pod and await effect.inject(chaos, target, pod) is not GONE
            ):
                return record, False
            await effect.recover(chaos, target, None)
            return book.vanished(record, now), False
        match await effect.inject(chaos, target, pod):
            case Gone():
                await effect.recover(chaos, target, None)
                return book.vanished(record, now), False
            case NotYet(why):
                return self._waits(chaos, record, why), False
        return record, True

    def _looked_at(self, effect: Effect, chaos: Obj, record: Obj) -> Obj:
        target = Target.of(record)
        if why := effect.unseen(chaos, target):
            return self._waits(chaos, record, why)
        self._normal(chaos, "Applied", f"Successfully apply chaos for {target.id}")
        return book.injected(record, self._context.timestamp())

    def _waits(self, chaos: Obj, record: Obj, why: str) -> Obj:
        told = book.not_injected(record, why, self._context.timestamp())
        if why and told["events"] != record["events"]:
            self._failed(chaos, "apply chaos", why)
        return told

    async def _recover(self, effect: Effect, chaos: Obj, record: Obj) -> Obj:
        if record["phase"] == book.NOT_INJECTED:
            return record
        target, now = Target.of(record), self._context.timestamp()
        match await effect.recover(chaos, target, self._pod_of(chaos, target)):
            case NotYet(why):
                return (
                    book.with_event(record, book.RECOVER, book.FAILED, why, now) if why else record
                )
            case Gone():
                return book.vanished(record, now)
        if record["phase"] == book.INJECTED:
            self._normal(chaos, "Recovered", f"Successfully recover chaos for {target.id}")
        return book.recovered(record, now)

    def _pod_of(self, chaos: Obj, target: Target) -> Obj | None:
        """The very pod that was chosen."""
        pod = self._pods.objects.get(target.ref)
        chosen = self._bodies.setdefault(chaos["metadata"]["uid"], {})
        if pod and chosen.setdefault(target, pod["metadata"]["uid"]) == pod["metadata"]["uid"]:
            return pod
        return None

    async def _write(self, chaos: Obj, status: Obj) -> Obj:
        """Its status has no door of its own."""
        try:
            return await self._context.api.update(
                KINDS[chaos["kind"]].resource, {**chaos, "status": status}
            )
        except NotFound:
            return chaos

    # --- its voice ---

    def _normal(self, chaos: Obj, reason: str, message: str) -> None:
        self._context.recorder.normal(chaos, reason, message)

    def _updated(self, chaos: Obj, field: str) -> None:
        self._normal(chaos, "Updated", f"Successfully update {field} of resource")

    def _failed(self, chaos: Obj, activity: str, why: str) -> None:
        self._context.recorder.warning(chaos, "Failed", f"Failed to {activity}: {why}")


def _pods_of(chaos: Obj) -> list[Ref]:
    """Those whose changes are of interest."""
    return list(dict.fromkeys(Target.of(record).ref for record in book.records_of(chaos)))
