"""What is reached over HTTPS: the two webhooks that a real API server calls for each write, and the gate for any controller.

It lives in the loop of whoever opened it, on loopback. A controller in any language asks the gate at the end of its loop, and
is answered when it may go on.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import EVENTS, LEASES, MUTATING_WEBHOOKS, PODS, VALIDATING_WEBHOOKS, Resource
from pytest_kscen.objects.scenarios import GROUP
from pytest_kscen.scenario.held import held
from pytest_kscen.scenario.writes import NAME, VERBS, Write

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable
    from typing import Never

    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj

HOST = "127.0.0.1"
LABEL = f"{GROUP}/webhook"
TIMEOUT = 10
NOT_LOOKED_AT = (EVENTS.plural, LEASES.plural, "endpoints", "endpointslices")


class Front:
    """Open until it is closed."""

    def __init__(
        self,
        let_in: Callable[[Write], Awaitable[None]],
        holds: Callable[[], bool],
        passed: Callable[[str], Awaitable[None]],
    ) -> None:
        """`let_in` hears of each write; `holds` says whether new pods have to wait; `passed` returns when a controller may work."""
        self._let_in = let_in
        self._holds = holds
        self._passed = passed
        self._runners: list[web.AppRunner] = []
        self.url = ""
        """Of the webhooks."""
        self.gate_url = ""
        """A controller's name goes behind it."""

    async def open(self, tls: ssl.SSLContext) -> None:
        webhooks = [web.post("/validate", self._validate), web.post("/mutate", self._mutate)]
        self.url = f"https://{HOST}:{await self._serve(webhooks, tls)}"
        self.gate_url = f"http://{HOST}:{await self._serve([web.get('/gate/{controller}', self._gate)])}/gate/"

    async def _serve(self, routes: list[web.RouteDef], tls: ssl.SSLContext | None = None) -> int:
        app = web.Application(client_max_size=2**24)
        app.add_routes(routes)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0)
        self._runners.append(runner)
        await runner.setup()
        await web.TCPSite(runner, HOST, 0, ssl_context=tls).start()
        return int(runner.addresses[0][1])

    async def stay(self) -> Never:
        """Be open until this is cancelled."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            for runner in self._runners:
                await _hang_up(runner)
                await runner.cleanup()
        raise AssertionError

    async def _validate(self, request: web.Request) -> web.Response:
        review = orjson.loads(await request.read())["request"]
        if not review.get("dryRun"):
            await self._let_in(write_of(review))
        return _allowed(review)

    async def _mutate(self, request: web.Request) -> web.Response:
        review = orjson.loads(await request.read())["request"]
        patch = held(review["object"]) if self._holds() else []
        return _allowed(review, patch)

    async def _gate(self, request: web.Request) -> web.Response:
        await self._passed(request.match_info["controller"])
        return web.json_response({"controller": request.match_info["controller"], "may": "work"})


async def _hang_up(runner: web.AppRunner) -> None:
    """An API server keeps its connections, opens new ones while it can, and would not answer a farewell."""
    for site in list(runner.sites):
        await site.stop()
    for each in runner.server.connections if runner.server else ():
        if each.transport:
            each.transport.abort()


def write_of(review: Obj) -> Write:
    """An AdmissionReview's request as a write."""
    asked, kind = review["resource"], review["kind"]
    namespace = review.get("namespace") or ""
    resource = Resource(asked["group"], asked["version"], asked["resource"], kind["kind"], namespaced=bool(namespace))
    new, old = review.get("object"), review.get("oldObject")
    name = review.get("name") or ((new or old or {}).get("metadata") or {}).get("name") or ""
    writer, verb = review["userInfo"]["username"], VERBS[review["operation"]]
    return Write(writer, verb, resource, review.get("subResource") or "", namespace, name, new, old)


def _allowed(review: Obj, patch: list[Obj] | None = None) -> web.Response:
    response: dict[str, Any] = {"uid": review["uid"], "allowed": True}
    if patch:
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(orjson.dumps(patch)).decode()}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    return web.Response(body=orjson.dumps(body), content_type="application/json")


async def register(api: Api, url: str, authority: bytes, ours: str, *, policy: str = "Ignore") -> None:
    """Have the API server call the webhooks for every write but those of `ours`, the scenario controller's own user.

    With the policy `Fail` no write is ever missed, and none is let in when nobody answers any more.
    """
    bundle = base64.b64encode(authority).decode()
    others = f"request.userInfo.username != '{ours}'"
    looked_at = f"!(request.resource.resource in [{', '.join(repr(each) for each in NOT_LOOKED_AT)}])"
    every = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": list(VERBS), "resources": ["*", "pods/binding", "*/scale"]}
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [PODS.plural]}
    watching = _webhook(f"{url}/validate", bundle, policy, every, others, looked_at)
    await api.create(VALIDATING_WEBHOOKS, _configuration(VALIDATING_WEBHOOKS, watching))
    await api.create(MUTATING_WEBHOOKS, _configuration(MUTATING_WEBHOOKS, _webhook(f"{url}/mutate", bundle, policy, pods)))


async def unregister(api: Api) -> None:
    """Take them away again, if they are there."""
    for resource in (VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS):
        with contextlib.suppress(NotFound):
            await api.delete(resource, NAME)


def _webhook(url: str, bundle: str, policy: str, rule: Obj, *conditions: str) -> Obj:
    return {
        "name": f"{NAME}.{GROUP}",
        "clientConfig": {"url": url, "caBundle": bundle},
        "rules": [rule],
        "matchConditions": [{"name": f"condition-{number}", "expression": each} for number, each in enumerate(conditions)],
        "matchPolicy": "Exact",
        "failurePolicy": policy,
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": TIMEOUT,
        "admissionReviewVersions": ["v1"],
    }


def _configuration(resource: Resource, webhook: Obj) -> Obj:
    metadata = {"name": NAME, "labels": {LABEL: "true"}}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "webhooks": [webhook]}
