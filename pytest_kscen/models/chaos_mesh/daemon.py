"""Chaos Mesh's controller: selects the targets of each chaos object once, and injects and recovers
the effect.

A finalizer keeps a deleted object until its effects are undone. A status is written only after the
effect was observed.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.kube.cache import Ref
from pytest_kscen.models.chaos_mesh import status as chaos_status
from pytest_kscen.models.chaos_mesh.targets import (
    TARGET_GONE,
    Target,
    TargetGone,
    TargetPending,
    targets_of,
)
from pytest_kscen.objects.chaos_mesh import KINDS, RECORDS_FINALIZER, RUN
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import NODES, PODS

if TYPE_CHECKING:
    from collections.abc import Callable
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
    kind: str
    namespace: str
    name: str


class ChaosDaemon:
    """Controller of all kinds of chaos. `effect_of` returns an object's effect."""

    def __init__(
        self, context: ControllerContext, chance: Stream, effect_of: Callable[[Obj], Effect]
    ) -> None:
        self._context = context
        self._chance = chance
        self._effect_of = effect_of
        self._pods, self._nodes = context.informers.of(PODS), context.informers.of(NODES)
        self._chaos = {kind: context.informers.of(chaos.resource) for kind, chaos in KINDS.items()}
        self._by_pod = {
            kind: cache.index(
                "targets",
                lambda chaos: list(
                    dict.fromkeys(Target.of(one).ref for one in chaos_status.records_of(chaos))
                ),
            )
            for kind, cache in self._chaos.items()
        }
        self._pod_uids: dict[str, dict[Target, str]] = {}
        """Uids of the pods that each chaos object has selected."""
        self._controller = context.controller(
            self._reconcile, self._pods, self._nodes, *self._chaos.values()
        )

    async def run(self) -> Never:
        def chaos_changed(kind: str, new: Obj | None, old: Obj | None) -> None:
            if new:
                self._controller.enqueue(ChaosRef(kind, *Ref.of(new)))
            elif old and self._pod_uids.pop(old["metadata"]["uid"], None):
                self._effect_of(old).forget(old)

        for kind, cache in self._chaos.items():
            cache.on_change(functools.partial(chaos_changed, kind))

        def pod_changed(new: Obj | None, old: Obj | None) -> None:
            ref = Ref.of(new or old)  # type: ignore[arg-type]  # at least one is not None
            for kind, index in self._by_pod.items():
                for chaos in index.of(ref):
                    self._controller.enqueue(ChaosRef(kind, *Ref.of(chaos)))

        self._pods.on_change(pod_changed)
        await self._controller.run()

    async def _reconcile(self, subject: ChaosRef) -> float | None:
        chaos = self._chaos[subject.kind].get(subject.name, subject.namespace)
        if chaos is None or (chaos_status.is_deleted(chaos) and not chaos_status.is_held(chaos)):
            return None
        try:
            desired, reason = chaos_status.desired_phase(chaos, self._context.now())
        except ValueError as error:
            self._failed(chaos, "calculate the desired phase", str(error))
            return None
        records = chaos_status.records_of(chaos) or (self._select(chaos) if desired == RUN else [])
        chaos = await self._announce(chaos, desired, reason, records)
        effect = self._effect_of(chaos)
        if desired == RUN:
            injected = [await self._inject(effect, chaos, record) for record in records]
            records = [
                self._observe(effect, chaos, record) if must_observe else record
                for record, must_observe in injected
            ]
        else:
            records = [await self._recover(effect, chaos, record) for record in records]
        # Write the status; release a deleted object once everything is undone.
        if records != chaos_status.records_of(chaos):
            self._updated(chaos, "records")
        status = chaos_status.status_of(chaos, desired, records)
        is_undone = all(record["phase"] == chaos_status.NOT_INJECTED for record in records)
        if chaos_status.is_deleted(chaos) and (is_undone or chaos_status.is_released(chaos)):
            self._normal(
                chaos, "FinalizerInited", "Finalizer has been removed"
            )  # the reason that Chaos Mesh gives
            finalizers = [
                each for each in chaos["metadata"]["finalizers"] if each != RECORDS_FINALIZER
            ]
            await self._write(
                {**chaos, "metadata": {**chaos["metadata"], "finalizers": finalizers}}, status
            )
        elif status != chaos.get("status"):
            await self._write(chaos, status)
        return (
            chaos_status.remaining_duration(chaos, self._context.now()) if desired == RUN else None
        )

    def _select(self, chaos: Obj) -> list[Obj]:
        try:
            targets = targets_of(chaos, self._pods.objects, self._nodes, self._chance)
        except ValueError as reason:
            self._failed(chaos, "select targets", str(reason))
            return []
        pods = {target: self._pods.objects[target.ref]["metadata"]["uid"] for target in targets}
        self._pod_uids[chaos["metadata"]["uid"]] = pods
        return [chaos_status.new_record(target) for target in targets]

    async def _announce(self, chaos: Obj, desired: str, reason: str, records: list[Obj]) -> Obj:
        """Add the finalizer and write the desired phase before the effect: a restarted daemon can
        then undo it.
        """
        phase_written = ((chaos.get("status") or {}).get("experiment") or {}).get("desiredPhase")
        if (
            chaos_status.is_held(chaos)
            and phase_written == desired
            and bool(chaos_status.records_of(chaos)) == bool(records)
        ):
            return chaos
        metadata = chaos["metadata"]
        if not chaos_status.is_held(chaos):
            metadata = {
                **metadata,
                "finalizers": [*(metadata.get("finalizers") or ()), RECORDS_FINALIZER],
            }
            self._normal(chaos, "FinalizerInited", "Finalizer has been inited")
            self._updated(chaos, "finalizer")
        if phase_written != desired:
            if reason:
                self._normal(chaos, reason, PHASE_MESSAGES[reason])
            self._updated(chaos, "desiredPhase")
        return await self._write(
            {**chaos, "metadata": metadata}, chaos_status.status_of(chaos, desired, records)
        )

    async def _inject(self, effect: Effect, chaos: Obj, record: Obj) -> tuple[Obj, bool]:
        """Return the record after injection, and True if the effect has to be observed."""
        target, now = Target.of(record), self._context.timestamp()
        if chaos_status.has_vanished(record):
            return record, False
        pod = self._pod_of(chaos, target)
        if record["phase"] == chaos_status.INJECTED:
            if chaos_status.is_one_shot(chaos) or (
                pod and await effect.inject(chaos, target, pod) is not TARGET_GONE
            ):
                return record, False
            await effect.recover(chaos, target, None)
            return chaos_status.vanished(record, now), False
        match await effect.inject(chaos, target, pod):
            case TargetGone():
                await effect.recover(chaos, target, None)
                return chaos_status.vanished(record, now), False
            case TargetPending(reason):
                return self._not_injected(chaos, record, reason), False
        return record, True

    def _observe(self, effect: Effect, chaos: Obj, record: Obj) -> Obj:
        target = Target.of(record)
        if reason := effect.unseen(chaos, target):
            return self._not_injected(chaos, record, reason)
        self._normal(chaos, "Applied", f"Successfully apply chaos for {target.id}")
        return chaos_status.injected(record, self._context.timestamp())

    def _not_injected(self, chaos: Obj, record: Obj, reason: str) -> Obj:
        noted = chaos_status.not_injected(record, reason, self._context.timestamp())
        if reason and noted["events"] != record["events"]:
            self._failed(chaos, "apply chaos", reason)
        return noted

    async def _recover(self, effect: Effect, chaos: Obj, record: Obj) -> Obj:
        if record["phase"] == chaos_status.NOT_INJECTED:
            return record
        target, now = Target.of(record), self._context.timestamp()
        match await effect.recover(chaos, target, self._pod_of(chaos, target)):
            case TargetPending(reason):
                return (
                    chaos_status.with_event(
                        record, chaos_status.RECOVER, chaos_status.FAILED, reason, now
                    )
                    if reason
                    else record
                )
            case TargetGone():
                return chaos_status.vanished(record, now)
        if record["phase"] == chaos_status.INJECTED:
            self._normal(chaos, "Recovered", f"Successfully recover chaos for {target.id}")
        return chaos_status.recovered(record, now)

    def _pod_of(self, chaos: Obj, target: Target) -> Obj | None:
        """Return the selected pod, or None if it does not exist any more. A new pod with the same
        name is not returned.
        """
        pod = self._pods.objects.get(target.ref)
        chosen = self._pod_uids.setdefault(chaos["metadata"]["uid"], {})
        if pod and chosen.setdefault(target, pod["metadata"]["uid"]) == pod["metadata"]["uid"]:
            return pod
        return None

    async def _write(self, chaos: Obj, status: Obj) -> Obj:
        """Write object and status together: Chaos Mesh's kinds have no status subresource."""
        try:
            return await self._context.api.update(
                KINDS[chaos["kind"]].resource, {**chaos, "status": status}
            )
        except NotFound:
            return chaos

    def _normal(self, chaos: Obj, reason: str, message: str) -> None:
        self._context.recorder.normal(chaos, reason, message)

    def _updated(self, chaos: Obj, field: str) -> None:
        self._normal(chaos, "Updated", f"Successfully update {field} of resource")

    def _failed(self, chaos: Obj, activity: str, reason: str) -> None:
        self._context.recorder.warning(chaos, "Failed", f"Failed to {activity}: {reason}")
