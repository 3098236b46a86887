"""Admission webhooks that a real API server calls for each write, the gate over HTTP, and the
scheduling gate that holds pods.
"""

from __future__ import annotations

import base64
import contextlib
from typing import TYPE_CHECKING

from aiohttp import web

from pytest_kscen.kube.api import STRATEGIC_PATCH
from pytest_kscen.kube.cache import Ref
from pytest_kscen.kube.webhooks import (
    HOST,
    LocalServers,
    admission_request,
    allowed,
    configuration,
    denied,
    webhook,
)
from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.objects.resources import (
    DEPLOYMENTS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from pytest_kscen.objects.scenarios import GROUP, SCENARIOS
from pytest_kscen.scenario import operation_ids
from pytest_kscen.scenario.builtin_waiters import DEFAULT, scheduler_of
from pytest_kscen.scenario.writes import HOUSEKEEPING, KUBELET, NAME, USERS, VERBS, Write, refusal

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from pytest_kscen.kube.api import Api
    from pytest_kscen.kube.informer import Informer
    from pytest_kscen.objects.resources import Obj


HELD = f"{GROUP}/held"


class HeldPods:
    """Pods that wait at a scheduling gate, for schedulers without support for scenarios.

    Pods are released one by one, by priority and then by arrival. A released pod cannot be gated
    again; where that matters, the scheduler's process is stopped instead.
    """

    def __init__(self, api: Api, pods: Informer) -> None:
        self._api = api
        self._pods = pods
        self._arrived: dict[str, int] = {}
        self._count = 0

        def changed(new: Obj | None, old: Obj | None) -> None:
            if new is None and old is not None:
                self._arrived.pop(old["metadata"]["uid"], None)
            elif new is not None and new["metadata"]["uid"] not in self._arrived:
                self._count += 1
                self._arrived[new["metadata"]["uid"]] = self._count

        pods.on_change(changed)

    async def release_next(self) -> bool:
        waiting = [
            pod
            for pod in self._pods
            if gates_of(pod) == [HELD] and not pod["metadata"].get("deletionTimestamp")
        ]
        if not waiting:
            return False
        pod = min(
            waiting,
            key=lambda pod: (
                -int(pod["spec"].get("priority") or 0),
                self._arrived[pod["metadata"]["uid"]],
            ),
        )
        try:
            released = await self._release(pod)
        except NotFound:
            await self._pods.lost(Ref.of(pod), pod["metadata"]["uid"])
        else:
            await self._pods.reached(released["metadata"]["resourceVersion"])
        return True

    async def release_all(self) -> None:
        """Release all pods, also those that are not in the cache yet; called when no scenario is
        active.
        """
        refused: ApiError | None = None
        for pod in (await self._api.list(PODS)).items:
            if HELD in gates_of(pod):
                try:
                    await self._release(pod)
                except NotFound:
                    continue
                except ApiError as error:
                    refused = error
        if refused:
            raise refused

    async def _release(self, pod: Obj) -> Obj:
        metadata = pod["metadata"]
        patch = {"spec": {"schedulingGates": [{"$patch": "delete", "name": HELD}]}}
        return await self._api.patch(
            PODS, metadata["name"], patch, metadata["namespace"], patch_type=STRATEGIC_PATCH
        )


def gates_of(pod: Obj) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


def hold_patch(pod: Obj) -> list[Obj]:
    """Return the JSON patch that adds the scheduling gate `HELD` to a new pod.

    Empty for a pod with a node, or of another scheduler.
    """
    spec = pod.get("spec") or {}
    if spec.get("nodeName") or scheduler_of(pod) != DEFAULT:
        return []
    return [
        {
            "op": "add",
            "path": "/spec/schedulingGates",
            "value": [*(spec.get("schedulingGates") or ()), {"name": HELD}],
        }
    ]


LABEL = f"{GROUP}/webhook"
SCALED = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS)
OBSERVED = [
    "*",
    "*/status",
    "*/scale",
    *(f"pods/{each}" for each in ("binding", "eviction", "resize", "ephemeralcontainers")),
]
BY_OTHERS = (
    "!['system:node:', 'system:kube-', 'system:serviceaccount:kube-system:']"
    ".exists(each, request.userInfo.username.startsWith(each)) && "
    f"request.userInfo.username != '{USERS}{KUBELET}'"
)
"""CEL condition for writers that are not the cluster's own controllers."""
KINDS = {(each.group, each.plural): each.kind for each in (PODS, *SCALED)}


class WebhookServer(LocalServers):
    """Server of the admission webhooks and of the gate, from `open` until it is closed."""

    def __init__(
        self,
        admit_write: Callable[[Write], Awaitable[None]],
        holds: Callable[[], bool],
        passed: Callable[[str], Awaitable[None]],
    ) -> None:
        """Prepare the server. `admit_write` is called with each write; `holds` returns True if new
        pods must wait; `passed` returns when a controller may work.
        """
        super().__init__()
        self._admit_write = admit_write
        self._holds = holds
        self._passed = passed
        self.url = ""
        """Base URL of the webhooks; empty before `open`."""
        self.gate_url = ""
        """URL of the gate, to which a controller's name is appended; empty before `open`."""

    async def open(self, tls: ssl.SSLContext) -> None:
        """Serve the webhooks over TLS, and the gate over plain HTTP, each at a free port."""

        async def validate(request: web.Request) -> web.Response:
            review = await admission_request(request)
            write = write_of(review)
            if why := refusal(write):
                return denied(review, why)
            if not review.get("dryRun"):
                await self._admit_write(write)
            return allowed(review)

        async def mutate(request: web.Request) -> web.Response:
            review = await admission_request(request)
            return allowed(review, hold_patch(review["object"]) if self._holds() else [])

        async def fill(request: web.Request) -> web.Response:
            review = await admission_request(request)
            return allowed(review, operation_ids.patch(review["object"]))

        async def gate(request: web.Request) -> web.Response:
            controller = request.match_info["controller"]
            await self._passed(controller)
            return web.json_response({"controller": controller, "may": "work"})

        webhooks = [
            web.post("/validate", validate),
            web.post("/mutate", mutate),
            web.post("/fill", fill),
        ]
        self.url = f"https://{HOST}:{await self.serve(webhooks, tls)}"
        gates = [web.get("/gate/{controller}", gate)]
        self.gate_url = f"http://{HOST}:{await self.serve(gates)}/gate/"


def write_of(review: Obj) -> Write:
    target, kind = review["resource"], review["kind"]
    namespace = "" if target["resource"] == NAMESPACES.plural else review.get("namespace") or ""
    # A review of a subresource may have the subresource's kind, such as Binding.
    name_of_kind = KINDS.get((target["group"], target["resource"]), kind["kind"])
    resource = Resource(
        target["group"],
        target["version"],
        target["resource"],
        name_of_kind,
        namespaced=bool(namespace),
    )
    new, old = review.get("object"), review.get("oldObject")
    name = review.get("name") or ((new or old or {}).get("metadata") or {}).get("name") or ""
    writer, verb = review["userInfo"]["username"], VERBS[review["operation"]]
    return Write(writer, verb, resource, review.get("subResource") or "", namespace, name, new, old)


async def register(
    api: Api, url: str, authority: bytes, own_user: str, *, policy: str = "Ignore"
) -> None:
    """Register the webhooks for all writes except those of the scenario controller's `own_user`.

    With the policy `Fail` no write is missed, and none is allowed while the webhooks do not
    answer.
    """
    bundle = base64.b64encode(authority).decode()
    is_foreign = f"request.userInfo.username != '{own_user}'"
    observed = (
        f"!(request.resource.resource in [{', '.join(repr(each.plural) for each in HOUSEKEEPING)}])"
    )
    not_by_owner = f"!has(request.subResource) || request.subResource != 'status' || {BY_OTHERS}"
    every = {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "operations": list(VERBS),
        "resources": OBSERVED,
    }
    pods = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": [PODS.plural],
    }
    scenarios = {
        "apiGroups": [GROUP],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [SCENARIOS.plural],
    }
    watching = _webhook(
        f"{url}/validate", bundle, policy, every, is_foreign, observed, not_by_owner
    )
    holding = _webhook(f"{url}/mutate", bundle, policy, pods)
    filling = {**_webhook(f"{url}/fill", bundle, policy, scenarios), "name": f"ids.{NAME}.{GROUP}"}
    await api.create(VALIDATING_WEBHOOKS, _configuration(VALIDATING_WEBHOOKS, watching))
    await api.create(MUTATING_WEBHOOKS, _configuration(MUTATING_WEBHOOKS, holding, filling))


async def unregister(api: Api) -> None:
    for resource in (VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS):
        with contextlib.suppress(NotFound):
            await api.delete(resource, NAME)


def _webhook(url: str, bundle: str, policy: str, rule: Obj, *conditions: str) -> Obj:
    return webhook(f"{NAME}.{GROUP}", url, bundle, policy, rule, *conditions)


def _configuration(resource: Resource, *webhooks: Obj) -> Obj:
    return configuration(resource, NAME, LABEL, *webhooks)
