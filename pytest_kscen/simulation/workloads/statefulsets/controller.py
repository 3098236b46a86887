"""The life of a StatefulSet: know the revisions, plan the steps, take them one by one, tell what came of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import AlreadyExists, ApiError, NotFound
from pytest_kscen.objects.resources import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS
from pytest_kscen.simulation.bench import follow
from pytest_kscen.simulation.workloads.claims import Claims
from pytest_kscen.simulation.workloads.owners import Dependents
from pytest_kscen.simulation.workloads.pods import in_terminating_namespace
from pytest_kscen.simulation.workloads.podstate import available_in
from pytest_kscen.simulation.workloads.revisions import Revisions
from pytest_kscen.simulation.workloads.statefulsets.identity import build_pod, labels_of, name_of, ordinal_of, revision_of
from pytest_kscen.simulation.workloads.statefulsets.plan import Step, Verb, View, is_running_and_ready, revision_for, steps
from pytest_kscen.simulation.workloads.statefulsets.status import status_of
from pytest_kscen.simulation.workloads.statefulsets.storage import Storage

if TYPE_CHECKING:
    from pytest_kscen.kube.informer import Ref
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.bench import Bench


class StatefulSets:
    """The controller."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._sets = bench.informers.of(STATEFUL_SETS)
        pods = bench.informers.of(PODS)
        revisions, volume_claims = map(bench.informers.of, (CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS))
        self._claims = Claims(bench, STATEFUL_SETS, PODS)
        self._revisions = Revisions(bench, STATEFUL_SETS, "controller.kubernetes.io/hash")
        self._storage = Storage(bench)
        self._controller = bench.controller(self._reconcile, self._sets, pods, revisions, volume_claims)
        follow(self._controller, self._sets)
        Dependents(self._controller.enqueue, self._sets, pods)

    async def run(self) -> None:
        await self._controller.run()

    async def _reconcile(self, ref: Ref) -> float | None:
        owner = self._sets.objects.get(ref)
        if owner is None:
            return None
        view, history, collisions = await self._look(owner)
        failure = None
        try:
            if not owner["metadata"].get("deletionTimestamp"):
                await self._take_steps(view)
        except ApiError as error:
            failure = error
        status = status_of(view, collisions)
        if status != owner.get("status"):
            await self._bench.write_status(STATEFUL_SETS, owner, status)
        if failure and not in_terminating_namespace(failure):
            raise failure
        in_use = {*map(revision_of, view.pods.values()), status["currentRevision"], status["updateRevision"]}
        await self._revisions.forget(owner, history, in_use)
        return self._next_available(view)

    async def _look(self, owner: Obj) -> tuple[View, list[Obj], int]:
        history = await self._revisions.of(owner)
        update, collisions = await self._revisions.latest(owner, history)
        named = (owner.get("status") or {}).get("currentRevision")
        current = next((revision for revision in history if revision["metadata"]["name"] == named), update)
        claimed = await self._claims.of(owner, adoptable=lambda pod: ordinal_of(pod["metadata"]["name"], owner) is not None)
        numbered = {ordinal_of(pod["metadata"]["name"], owner): pod for pod in claimed}
        pods = {ordinal: pod for ordinal, pod in numbered.items() if ordinal is not None}
        return View(owner, pods, current, update, self._bench.now()), history, collisions

    async def _take_steps(self, view: View) -> None:
        for step in list(steps(view)):
            match step.verb:
                case Verb.CREATE:
                    await self._create(view, step.ordinal)
                case Verb.KEEP:
                    await self._keep(view, step)
                case Verb.DELETE | Verb.CONDEMN:
                    await self._delete(view, step)

    async def _create(self, view: View, ordinal: int) -> None:
        owner, name = view.owner, name_of(view.owner, ordinal)
        what = f"Create Pod {name} in StatefulSet {owner['metadata']['name']}"
        await self._storage.provide(owner, ordinal)
        pod = build_pod(owner, ordinal, revision_for(view, ordinal))
        try:
            view.pods[ordinal] = await self._bench.api.create(PODS, pod, owner["metadata"]["namespace"])
        except AlreadyExists:
            raise
        except ApiError as error:
            self._bench.recorder.warning(owner, "FailedCreate", f"{what} failed error: {error.message}")
            raise
        self._bench.recorder.normal(owner, "SuccessfulCreate", f"{what} successful")

    async def _keep(self, view: View, step: Step) -> None:
        owner, pod = view.owner, view.pods[step.ordinal]
        await self._storage.provide(owner, step.ordinal)
        await self._storage.bequeath(owner, step.ordinal, pod, condemned=False)
        labels, identity = pod["metadata"].get("labels") or {}, labels_of(owner, step.ordinal)
        if not identity.items() <= labels.items():
            place = (pod["metadata"]["name"], {"metadata": {"labels": identity}}, pod["metadata"]["namespace"])
            view.pods[step.ordinal] = await self._bench.api.patch(PODS, *place)
            what = f"Update Pod {place[0]} in StatefulSet {owner['metadata']['name']} successful"
            self._bench.recorder.normal(owner, "SuccessfulUpdate", what)

    async def _delete(self, view: View, step: Step) -> None:
        owner, pod = view.owner, view.pods[step.ordinal]
        metadata = pod["metadata"]
        what = f"Delete Pod {metadata['name']} in StatefulSet {owner['metadata']['name']}"
        await self._storage.bequeath(owner, step.ordinal, pod, condemned=step.verb is Verb.CONDEMN)
        try:
            await self._bench.api.delete(PODS, metadata["name"], metadata["namespace"], precondition_uid=metadata["uid"])
        except NotFound:
            return
        except ApiError as error:
            self._bench.recorder.warning(owner, "FailedDelete", f"{what} failed error: {error.message}")
            raise
        view.pods[step.ordinal] = {**pod, "metadata": {**metadata, "deletionTimestamp": self._bench.timestamp()}}
        self._bench.recorder.normal(owner, "SuccessfulDelete", f"{what} successful")

    @staticmethod
    def _next_available(view: View) -> float | None:
        min_ready = view.owner["spec"].get("minReadySeconds", 0)
        ready = filter(is_running_and_ready, view.pods.values())
        return min((wait for pod in ready if (wait := available_in(pod, min_ready, view.now))), default=None)
