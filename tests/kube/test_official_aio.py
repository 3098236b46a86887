from __future__ import annotations

import asyncio

import pytest
from kubernetes.aio import client as aio
from kubernetes.aio.dynamic import DynamicClient
from kubernetes.aio.watch import Watch

from pytest_kscen.chance import Chance
from pytest_kscen.clock import VirtualRunner
from pytest_kscen.embedded.apiserver.builtin_kinds import builtin_kinds
from pytest_kscen.embedded.apiserver.kinds import Kinds
from pytest_kscen.embedded.apiserver.server import ApiServer
from pytest_kscen.embedded.apiserver.wire import Wire
from pytest_kscen.kube.api import MERGE_PATCH
from pytest_kscen.kube.official import aio_client

CONFIG_MAP = {"metadata": {"name": "c"}, "data": {"a": "1"}}


@pytest.fixture
def runner():
    runner = VirtualRunner()
    yield runner
    runner.close()


@pytest.fixture
def server(runner):
    return ApiServer(runner.clock, Chance(1), Kinds(builtin_kinds()))


@pytest.fixture
def core(server):
    return aio.CoreV1Api(aio_client(Wire(server)))


class SpiedWatch:
    """Watch that records whether it is closed."""

    def __init__(self, watch, open_watches):
        self._watch = watch
        self._open = open_watches
        self._open.append(self)

    async def __anext__(self):
        return await self._watch.__anext__()

    def close(self):
        if self in self._open:
            self._open.remove(self)
        self._watch.close()


@pytest.fixture
def open_watches(server, monkeypatch):
    opened, watch = [], server.watch
    monkeypatch.setattr(server, "watch", lambda request: SpiedWatch(watch(request), opened))
    return opened


def test_typed_calls_are_served(runner, core):
    async def body():
        await core.create_namespaced_config_map("default", CONFIG_MAP)
        await core.patch_namespaced_config_map(
            "c", "default", {"data": {"b": "2"}}, _content_type=MERGE_PATCH
        )
        found = await core.read_namespaced_config_map("c", "default")
        with pytest.raises(aio.ApiException) as refused:
            await core.read_namespaced_config_map("nope", "default")
        return found.data, refused.value.status, refused.value.reason

    assert runner.call(body()) == ({"a": "1", "b": "2"}, 404, "Not Found")


def test_watch_waits_in_cluster_time(runner, core):
    async def change_later():
        await runner.clock.sleep(400)
        await core.create_namespaced_config_map("default", CONFIG_MAP)

    async def body():
        before = runner.clock.now()
        async with Watch().stream(
            core.list_namespaced_config_map, "default", timeout_seconds=600
        ) as events:
            seen = [
                (event["type"], event["object"].metadata.name, runner.clock.now() - before)
                async for event in events
            ]
        return seen, runner.clock.now() - before

    runner.start(change_later(), "changer")
    assert runner.call(body()) == ([("ADDED", "c", 400)], 600)


def test_abandoned_watch_is_closed(runner, core, open_watches):
    async def body():
        await core.create_namespaced_config_map("default", CONFIG_MAP)
        async for _ in Watch().stream(core.list_namespaced_config_map, "default"):
            break

    runner.call(body())
    assert open_watches == []


def test_client_timeout_uses_cluster_time(runner, core, open_watches):
    async def body():
        async for _ in Watch().stream(
            core.list_namespaced_config_map, "default", timeout_seconds=60, _request_timeout=7
        ):
            pass

    before = runner.clock.now()
    with pytest.raises(TimeoutError):
        runner.call(body())
    assert runner.clock.now() - before == 7
    assert open_watches == []


def test_raw_response_is_returned(runner, core):
    async def body():
        await core.create_namespaced_config_map("default", CONFIG_MAP)
        response = await core.read_namespaced_config_map_without_preload_content("c", "default")
        return response.status, (await response.json())["data"]

    assert runner.call(body()) == (200, {"a": "1"})


def test_dynamic_client_is_served(runner, server, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    async def body():
        async with aio_client(Wire(server)) as client:
            maps = await (await DynamicClient(client)).resources.get(
                api_version="v1", kind="ConfigMap"
            )
            await maps.create(body=CONFIG_MAP, namespace="default")
            found = await maps.get("c", "default")
            return found.data.a, [
                event["type"] async for event in maps.watch(namespace="default", timeout=5)
            ]

    assert runner.call(body()) == ("1", ["ADDED"])
    assert list(tmp_path.iterdir()) == []


def test_other_event_loop_is_refused(runner, server):
    core = aio.CoreV1Api(aio_client(Wire(server), runner.loop))
    with pytest.raises(RuntimeError, match="make the test function async"):
        asyncio.run(core.list_namespaced_config_map("default"))
    assert runner.call(core.list_namespaced_config_map("default")).items == []
