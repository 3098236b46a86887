"""Webhooks that a real API server calls: their local HTTPS servers, configurations and responses.

The owner opens the servers inside a loop and then runs `stay` until it is cancelled.
"""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

from pytest_kscen.kube.remote.connection import Sockets

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable
    from typing import Never

    from pytest_kscen.objects.resources import Obj, Resource

HOST = "127.0.0.1"
TIMEOUT = 10
DENIED = 403


class LocalServers:
    """HTTP servers on local ports, open until they are closed."""

    def __init__(self) -> None:
        self._runners: list[web.AppRunner] = []
        self._sockets = Sockets()

    async def serve(self, routes: list[web.RouteDef], tls: ssl.SSLContext | None = None) -> int:
        """Serve these routes and return the port."""
        app = web.Application(client_max_size=2**24)
        app.add_routes(routes)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0)
        self._runners.append(runner)
        await runner.setup()
        await web.SockSite(runner, self._sockets.listen(HOST), ssl_context=tls).start()
        return int(runner.addresses[0][1])

    async def stay(self) -> Never:
        """Keep the servers open until this is cancelled."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            for runner in self._runners:
                # An API server keeps its connections, opens new ones while it can, and does not
                # take part in an orderly shutdown.
                for site in list(runner.sites):
                    await site.stop()
                for each in runner.server.connections if runner.server else ():
                    if each.transport:
                        each.transport.abort()
                await runner.cleanup()
            # one turn of the loop, without waiting
            await self._sockets.end(lambda: asyncio.sleep(0))  # noqa: TID251
        raise AssertionError


async def admission_request(request: web.Request) -> Obj:
    """Return the request of an AdmissionReview."""
    review: Obj = orjson.loads(await request.read())["request"]
    return review


def allowed(review: Obj, patch: Iterable[Obj] = (), warnings: Iterable[str] = ()) -> web.Response:
    """Return a response that allows the request, with a patch if one is given."""
    response: dict[str, Any] = {"uid": review["uid"], "allowed": True}
    if patch := list(patch):
        response |= {
            "patchType": "JSONPatch",
            "patch": base64.b64encode(orjson.dumps(patch)).decode(),
        }
    return _answer(response, warnings)


def denied(review: Obj, message: str, warnings: Iterable[str] = ()) -> web.Response:
    return _answer(
        {"uid": review["uid"], "allowed": False, "status": {"message": message, "code": DENIED}},
        warnings,
    )


def _answer(response: Obj, warnings: Iterable[str]) -> web.Response:
    if texts := list(warnings):
        response = {**response, "warnings": texts}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    return web.Response(body=orjson.dumps(body), content_type="application/json")


def webhook(name: str, url: str, bundle: str, policy: str, rule: Obj, *conditions: str) -> Obj:
    """Return one webhook of a configuration. `bundle` is the authority's certificate in base64."""
    return {
        "name": name,
        "clientConfig": {"url": url, "caBundle": bundle},
        "rules": [rule],
        "matchConditions": [
            {"name": f"condition-{number}", "expression": each}
            for number, each in enumerate(conditions)
        ],
        "matchPolicy": "Exact",
        "failurePolicy": policy,
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": TIMEOUT,
        "admissionReviewVersions": ["v1"],
    }


def configuration(resource: Resource, name: str, label: str, *webhooks: Obj) -> Obj:
    """Return a configuration of validating or mutating webhooks."""
    metadata = {"name": name, "labels": {label: "true"}}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        "webhooks": [*webhooks],
    }
