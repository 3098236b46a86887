"""What the remote Api makes of refusals and of connections that break."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web
from scripted import POD, drop, lines, refusal

from pytest_kscen.kube.remote import Access, Connection, RemoteApi
from pytest_kscen.kube.remote import connection as patience
from pytest_kscen.objects.errors import ApiError, NotFound, TooManyRequests, Unauthorized
from pytest_kscen.objects.resources import NODES, PODS


def test_a_refusal_is_the_error_that_the_server_means(runner, server, api):
    server.says(refusal(404, "NotFound", 'pods "p" not found'))
    with pytest.raises(NotFound, match=r'^pods "p" not found$') as refused:
        runner.call(api.get(PODS, "p", "ns"))
    assert refused.value.status["reason"] == "NotFound"


def test_a_refusal_in_plain_words_is_an_api_error_too(runner, server, api):
    server.says(web.Response(status=502, text="<html>bad gateway</html>"))
    with pytest.raises(ApiError, match="bad gateway") as refused:
        runner.call(api.create(PODS, {}, "ns"))
    assert refused.value.status["code"] == 502


def test_what_the_server_wants_repeated_is_repeated_whatever_it_is(runner, server, api, clock):
    server.says(refusal(429, "TooManyRequests", "later", {"Retry-After": "3"}), {"done": True})
    assert runner.call(api.create(PODS, POD)) == {"done": True}
    assert server.bodies == [POD, POD]
    assert clock.slept == [3.0]


def test_an_eviction_that_must_wait_for_others_is_not_repeated(runner, server, api):
    server.says(refusal(429, "TooManyRequests", "Cannot evict pod"))
    with pytest.raises(TooManyRequests, match="Cannot evict pod"):
        runner.call(api.create(PODS, {}, "ns", name="p", subresource="eviction"))
    assert len(server.asked) == 1


def test_a_read_whose_connection_broke_is_asked_again(runner, server, api):
    server.says(drop, lines(("ADDED", "cut"), ends="breaking off"), {"found": True})
    assert runner.call(api.get(PODS, "p", "ns")) == {"found": True}
    assert len(server.asked) == 3


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_a_write_whose_connection_broke_may_have_happened(runner, server, api, method):
    calls = {
        "POST": api.create(PODS, POD),
        "PUT": api.update(PODS, POD),
        "DELETE": api.delete(PODS, "p", "ns"),
    }
    server.says({}, drop)
    runner.call(api.get(NODES, "n"))
    with pytest.raises(
        ConnectionError, match=rf"^{method} http://127\.0\.0\.1:\d+/api/v1/namespaces/ns/pods"
    ):
        runner.call(calls.pop(method))
    assert len(server.asked) == 2
    for other in calls.values():
        other.close()


def test_a_server_that_is_gone_is_given_up(runner, server, api, clock):
    server.says(*[drop] * 9)
    with pytest.raises(ConnectionError, match="Server disconnected"):
        runner.call(api.get(PODS, "p", "ns"))
    assert len(server.asked) == 5
    assert clock.slept == [0.1, 0.2, 0.4, 0.8]


def test_credentials_that_expired_are_read_again_once(runner, server):
    tokens = ["Bearer new", "Bearer new"]
    reload = lambda: Access(server.url, tokens.pop())  # noqa: E731
    connection = Connection(Access(server.url, "Bearer old"), runner.clock, reload)
    server.says(
        refusal(401, "Unauthorized", "Unauthorized"),
        {"known": True},
        refusal(401, "Unauthorized", "Unauthorized"),
    )
    assert runner.call(RemoteApi(connection).get(NODES, "n")) == {"known": True}
    assert [headers["Authorization"] for headers in server.headers] == ["Bearer old", "Bearer new"]
    with pytest.raises(Unauthorized):
        runner.call(RemoteApi(connection).get(NODES, "n"))
    assert len(server.asked) == 3
    runner.call(connection.close())


def test_many_at_once_are_answered_in_bounded_parallel(runner, server, api, monkeypatch):
    at_once = most = 0

    async def busy(_: web.Request) -> web.Response:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.001)
        at_once -= 1
        return web.json_response({})

    server.says(*[busy] * 300)

    async def ask_all() -> list[Any]:
        return await asyncio.gather(*(api.get(NODES, "n") for _ in range(300)))

    assert runner.call(ask_all()) == [{}] * 300
    assert 1 < most <= patience.IN_FLIGHT
