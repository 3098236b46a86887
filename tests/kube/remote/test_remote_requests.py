"""Requests of the remote Api on the wire, and discovery of kinds."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from aiohttp import web
from scripted_server import POD, refusal

from pytest_kscen.kube.api import MAX_ANSWER_SIZE, HttpCall
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import DEPLOYMENTS, NODES, PODS, SERVICES, Resource

ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)


@pytest.mark.parametrize(
    ("call", "wire", "body"),
    [
        (lambda api: api.get(PODS, "p", "ns"), "GET /api/v1/namespaces/ns/pods/p", None),
        (
            lambda api: api.get(DEPLOYMENTS, "d", "ns", subresource="scale"),
            "GET /apis/apps/v1/namespaces/ns/deployments/d/scale",
            None,
        ),
        (lambda api: api.get(NODES, "n", "ignored"), "GET /api/v1/nodes/n", None),
        (
            lambda api: api.get(ROLES, "system:node"),
            "GET /apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
            None,
        ),
        (
            lambda api: api.get(PODS, "a/b?c", "ns"),
            "GET /api/v1/namespaces/ns/pods/a%2Fb%3Fc",
            None,
        ),
        (lambda api: api.create(PODS, POD), "POST /api/v1/namespaces/ns/pods", POD),
        (
            lambda api: api.create(PODS, POD, dry_run=True, field_manager="me"),
            "POST /api/v1/namespaces/ns/pods?dryRun=All&fieldManager=me",
            POD,
        ),
        (
            lambda api: api.create(PODS, {}, "ns", name="p", subresource="eviction"),
            "POST /api/v1/namespaces/ns/pods/p/eviction",
            {},
        ),
        (
            lambda api: api.update(PODS, POD, subresource="status"),
            "PUT /api/v1/namespaces/ns/pods/p/status",
            POD,
        ),
        (
            lambda api: api.patch(PODS, "p", {"a": 1}, "ns"),
            "PATCH /api/v1/namespaces/ns/pods/p",
            {"a": 1},
        ),
        (
            lambda api: api.apply(PODS, POD, field_manager="me", force=True),
            "PATCH /api/v1/namespaces/ns/pods/p?fieldManager=me&force=true",
            POD,
        ),
        (lambda api: api.delete(PODS, "p", "ns"), "DELETE /api/v1/namespaces/ns/pods/p", None),
        (
            lambda api: api.delete(
                PODS, "p", "ns", grace_period=0, propagation="Orphan", precondition_uid="u"
            ),
            "DELETE /api/v1/namespaces/ns/pods/p",
            {
                "kind": "DeleteOptions",
                "apiVersion": "v1",
                "gracePeriodSeconds": 0,
                "propagationPolicy": "Orphan",
                "preconditions": {"uid": "u"},
            },
        ),
        (
            lambda api: api.delete_collection(PODS, "ns", labels="a in (b,c)"),
            "DELETE /api/v1/namespaces/ns/pods?labelSelector=a+in+%28b%2Cc%29",
            None,
        ),
        (lambda api: api.resource_of("v1", "Pod"), "GET /api/v1", None),
    ],
)
def test_call_sends_one_request(server, api, call, wire, body):
    server.enqueue({"resources": [{"name": "pods", "kind": "Pod", "namespaced": True}]})
    server.loop.call(call(api))
    assert (server.requests, server.bodies) == ([wire], [body])


def test_list_has_version_and_typed_items(runner, server, api):
    server.enqueue(
        {
            "metadata": {"resourceVersion": "7", "continue": "more"},
            "items": [{"metadata": {"name": "p"}}],
        }
    )
    listing = runner.call(
        api.list(
            PODS, labels="a=b", fields="x=y", limit=1, continue_token="c", resource_version="0"
        )
    )
    assert server.requests == [
        (
            "GET "
            "/api/v1/pods?labelSelector=a%3Db&fieldSelector=x%3Dy&limit=1&continue=c&resourceVersion=0"
        )
    ]
    assert (listing.resource_version, listing.continue_token) == ("7", "more")
    assert listing.items == [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}]


def test_null_list_is_empty(runner, server, api):
    server.enqueue({"metadata": {"resourceVersion": "7"}, "items": None})
    assert runner.call(api.list(PODS)).items == []


def test_log_is_returned_as_text(runner, server, api):
    server.enqueue(web.Response(body=b"one\ntwo \xff\n"))
    assert runner.call(api.log("p", "ns", container="c")) == "one\ntwo \N{REPLACEMENT CHARACTER}\n"
    assert server.requests == ["GET /api/v1/namespaces/ns/pods/p/log?container=c"]


def test_actor_name_is_sent(runner, server, api):
    for named in (api, api.named("chaos")):
        runner.call(named.get(NODES, "n"))
    assert [headers["User-Agent"] for headers in server.headers] == ["pytest-kscen", "chaos"]


def test_patch_type_is_sent(runner, server, api):
    for kind in ("application/merge-patch+json", "application/json-patch+json"):
        runner.call(api.patch(NODES, "n", {}, patch_type=kind))
        assert server.headers[-1]["Content-Type"] == kind


def test_discovery_is_cached_until_kind_is_missing(runner, server, api):
    rows = [
        {"name": "deployments", "kind": "Deployment", "namespaced": True},
        {"name": "deployments/scale", "kind": "Scale", "namespaced": True},
    ]
    server.enqueue(
        {"resources": rows},
        {"resources": [*rows, {"name": "news", "kind": "New", "namespaced": False}]},
    )
    for _ in range(2):
        assert runner.call(api.resource_of("apps/v1", "Deployment")) == DEPLOYMENTS
    assert runner.call(api.named("other").resource_of("apps/v1", "New")) == Resource(
        "apps", "v1", "news", "New", namespaced=False
    )
    assert server.requests == ["GET /apis/apps/v1"] * 2


def test_unserved_kind_is_not_found(runner, server, api):
    server.enqueue(refusal(404, "NotFound", "the server could not find the requested resource"))
    with pytest.raises(NotFound, match=r'^no matches for kind "Scale" in version "none/v1"$'):
        runner.call(api.resource_of("none/v1", "Scale"))


def test_failing_api_group_is_skipped(runner, server, api):
    """An aggregated group whose own server is down fails so."""
    offered = [{"groupVersion": "metrics.k8s.io/v1beta1"}], [{"groupVersion": "apps/v1"}]
    verbs = ["delete", "get", "list", "watch"]
    server.enqueue(
        {
            "groups": [
                {"versions": versions, "preferredVersion": versions[0]} for versions in offered
            ]
        },
        {"resources": [{"name": "pods", "kind": "Pod", "namespaced": True, "verbs": verbs}]},
        web.Response(status=503, text="service unavailable"),
        {
            "resources": [
                {"name": "deployments", "kind": "Deployment", "namespaced": True, "verbs": verbs}
            ]
        },
    )
    assert runner.call(api.resources()) == [PODS, DEPLOYMENTS]


def test_endless_response_is_truncated(runner, server, api):
    async def pour(request):
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await response.write(b"x" * 2**20)
        return response

    server.enqueue(pour)
    answer = runner.call(
        asyncio.wait_for(api.proxy(SERVICES, "web:80", "ns", HttpCall("GET", "/")), 20)
    )
    assert (answer.status, len(answer.body)) == (200, MAX_ANSWER_SIZE)
