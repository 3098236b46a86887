"""Watches of the remote Api: end, interruption, recovery."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web
from scripted_server import refusal, watch_stream, watched_names

from pytest_kscen.kube.api import Event
from pytest_kscen.kube.informer import Informer
from pytest_kscen.objects.errors import ApiError
from pytest_kscen.objects.resources import CONFIG_MAPS, NODES, PODS


def test_watch_ends_with_server_stream(runner, server, api):
    server.enqueue(watch_stream(("ADDED", "a"), ("MODIFIED", "a")))
    watch = api.watch(PODS, "ns", resource_version="5", bookmarks=True, timeout=1.5)
    events = runner.call(asyncio.wait_for(_read_all(watch), 5))
    assert server.requests == [
        (
            "GET "
            "/api/v1/namespaces/ns/pods?resourceVersion=5&timeoutSeconds=2&allowWatchBookmarks=true&watch=true"
        )
    ]
    assert events == [
        Event("ADDED", {"metadata": {"name": "a"}}),
        Event("MODIFIED", {"metadata": {"name": "a"}}),
    ]


async def _read_all(watch: Any) -> list[Event]:
    return [event async for event in watch]


def test_watch_line_has_no_length_limit(runner, server, api):
    long = "x" * 3_000_000
    server.enqueue(watch_stream(("ADDED", long), ("ADDED", "b")))
    assert runner.call(watched_names(api.watch(PODS))) == [long, "b"]


@pytest.mark.parametrize("ends", ["half a line", "breaking off"])
def test_broken_watch_raises_after_complete_events(runner, server, api, ends):
    server.enqueue(watch_stream(("ADDED", "a"), ends=ends))
    seen: list[str] = []

    async def read() -> None:
        async for event in api.watch(PODS):
            # events before the interruption count
            seen.append(event.object["metadata"]["name"])  # noqa: PERF401

    with pytest.raises(
        ConnectionError, match=r"the watch /api/v1/pods\?watch=true was interrupted"
    ):
        runner.call(read())
    assert seen == ["a"]


def test_refused_watch_raises_its_reason(runner, server, api):
    server.enqueue(refusal(403, "Forbidden", "pods is forbidden"))
    with pytest.raises(ApiError, match="pods is forbidden"):
        runner.call(watched_names(api.watch(PODS)))


async def silent(_: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize(
    "answer", [silent, watch_stream(ends="never")], ids=["before it is open", "while it is open"]
)
def test_closed_watch_ends_for_its_reader(runner, server, api, connection, answer):
    server.enqueue(answer)

    async def close_while_reading() -> list[str]:
        watch = api.watch(PODS)
        reader = asyncio.ensure_future(watched_names(watch))
        await asyncio.sleep(0.05)
        watch.close()
        watch.close()
        return await asyncio.wait_for(reader, 1)

    assert runner.call(close_while_reading()) == []
    assert connection._streams == {}


def test_cancelled_reader_is_cancelled(runner, server, api, connection):
    server.enqueue(silent)

    async def cancel() -> None:
        reader = asyncio.ensure_future(watched_names(api.watch(PODS)))
        await asyncio.sleep(0.05)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader

    runner.call(cancel())
    assert connection._streams == {}


def test_closed_watch_has_no_events(runner, api):
    watch = api.watch(PODS)
    watch.close()
    assert runner.call(watched_names(watch)) == []


def test_closed_connection_ends_watches_and_refuses_requests(runner, server, api, connection):
    server.enqueue(watch_stream(("ADDED", "a"), ends="never"))

    async def close() -> list[str]:
        reader = asyncio.ensure_future(watched_names(api.watch(PODS)))
        await asyncio.sleep(0.05)
        await connection.close()
        return await asyncio.wait_for(reader, 1)

    assert runner.call(close()) == ["a"]
    with pytest.raises(ConnectionError, match="the connection is closed"):
        runner.call(api.get(NODES, "n"))


def test_informer_survives_watch_failures(runner, server, api, clock):
    def listing(version: str, *found: str) -> dict[str, Any]:
        metadata = {"resourceVersion": version}
        items = [
            {"metadata": {"name": name, "uid": name, "resourceVersion": version}} for name in found
        ]
        return {"metadata": metadata, "items": items}

    gone = {
        "type": "ERROR",
        "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"},
    }

    async def expired(_: web.Request) -> web.Response:
        return web.Response(text=json.dumps(gone) + "\n")

    server.enqueue(
        listing("1", "a"),
        watch_stream(ends="breaking off"),
        expired,
        listing("9", "a", "b"),
        watch_stream(ends="never"),
    )
    seen: list[str] = []
    there = asyncio.Event()

    def handle(new: Any, _: Any) -> None:
        seen.append(new["metadata"]["name"])
        if "b" in seen:
            there.set()

    async def follow() -> None:
        informer = Informer(api, clock, CONFIG_MAPS)
        informer.on_change(handle)
        running = asyncio.ensure_future(informer.run())
        await asyncio.wait(
            [running, asyncio.ensure_future(there.wait())],
            timeout=20,
            return_when=asyncio.FIRST_COMPLETED,
        )
        running.cancel()

    runner.call(follow())
    assert seen[0] == "a"
    assert seen[-1] == "b"
