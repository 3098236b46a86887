"""Error responses and broken connections in the remote Api."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web
from scripted_server import POD, drop_connection, refusal, watch_stream

from pytest_kscen.kube.remote import Access, Connection, RemoteApi
from pytest_kscen.kube.remote import connection as patience
from pytest_kscen.objects.errors import ApiError, NotFound, TooManyRequests, Unauthorized
from pytest_kscen.objects.resources import NODES, PODS


def test_error_response_becomes_matching_exception(runner, server, api):
    server.enqueue(refusal(404, "NotFound", 'pods "p" not found'))
    with pytest.raises(NotFound, match=r'^pods "p" not found$') as refused:
        runner.call(api.get(PODS, "p", "ns"))
    assert refused.value.status["reason"] == "NotFound"


def test_plain_text_error_is_api_error(runner, server, api):
    server.enqueue(web.Response(status=502, text="<html>bad gateway</html>"))
    with pytest.raises(ApiError, match="bad gateway") as refused:
        runner.call(api.create(PODS, {}, "ns"))
    assert refused.value.status["code"] == 502


def test_retry_after_is_honoured_for_each_method(runner, server, api, clock):
    server.enqueue(refusal(429, "TooManyRequests", "later", {"Retry-After": "3"}), {"done": True})
    assert runner.call(api.create(PODS, POD)) == {"done": True}
    assert server.bodies == [POD, POD]
    assert clock.slept == [3.0]


def test_eviction_blocked_by_budget_is_not_repeated(runner, server, api):
    server.enqueue(refusal(429, "TooManyRequests", "Cannot evict pod"))
    with pytest.raises(TooManyRequests, match="Cannot evict pod"):
        runner.call(api.create(PODS, {}, "ns", name="p", subresource="eviction"))
    assert len(server.requests) == 1


def test_read_is_repeated_after_broken_connection(runner, server, api):
    server.enqueue(
        drop_connection, watch_stream(("ADDED", "cut"), ends="breaking off"), {"found": True}
    )
    assert runner.call(api.get(PODS, "p", "ns")) == {"found": True}
    assert len(server.requests) == 3


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_write_outcome_is_unknown_after_broken_connection(runner, server, api, method):
    calls = {
        "POST": api.create(PODS, POD),
        "PUT": api.update(PODS, POD),
        "DELETE": api.delete(PODS, "p", "ns"),
    }
    server.enqueue({}, drop_connection)
    runner.call(api.get(NODES, "n"))
    with pytest.raises(
        ConnectionError, match=rf"^{method} http://127\.0\.0\.1:\d+/api/v1/namespaces/ns/pods"
    ):
        runner.call(calls.pop(method))
    assert len(server.requests) == 2
    for other in calls.values():
        other.close()


def test_unreachable_server_is_error(runner, server, api, clock):
    server.enqueue(*[drop_connection] * 9)
    with pytest.raises(ConnectionError, match="Server disconnected"):
        runner.call(api.get(PODS, "p", "ns"))
    assert len(server.requests) == 5
    assert clock.slept == [0.1, 0.2, 0.4, 0.8]


def test_expired_credentials_are_reloaded_once(runner, server):
    tokens = ["Bearer new", "Bearer new"]
    reload = lambda: Access(server.url, tokens.pop())  # noqa: E731
    connection = Connection(Access(server.url, "Bearer old"), runner.clock, reload)
    server.enqueue(
        refusal(401, "Unauthorized", "Unauthorized"),
        {"known": True},
        refusal(401, "Unauthorized", "Unauthorized"),
    )
    assert runner.call(RemoteApi(connection).get(NODES, "n")) == {"known": True}
    assert [headers["Authorization"] for headers in server.headers] == ["Bearer old", "Bearer new"]
    with pytest.raises(Unauthorized):
        runner.call(RemoteApi(connection).get(NODES, "n"))
    assert len(server.requests) == 3
    runner.call(connection.close())


def test_concurrent_requests_are_bounded(runner, server, api, monkeypatch):
    at_once = most = 0

    async def busy(_: web.Request) -> web.Response:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.001)
        at_once -= 1
        return web.json_response({})

    server.enqueue(*[busy] * 300)

    async def ask_all() -> list[Any]:
        return await asyncio.gather(*(api.get(NODES, "n") for _ in range(300)))

    assert runner.call(ask_all()) == [{}] * 300
    assert 1 < most <= patience.IN_FLIGHT
