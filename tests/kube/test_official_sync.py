from __future__ import annotations

import threading

import kubernetes
import pytest
from kubernetes.client import ApiException
from kubernetes.dynamic import DynamicClient
from kubernetes.informer import SharedInformer
from kubernetes.stream import portforward, stream
from urllib3.exceptions import ReadTimeoutError

from pytest_kscen.chance import Chance
from pytest_kscen.clock import VirtualRunner
from pytest_kscen.embedded.apiserver.builtin_kinds import builtin_kinds
from pytest_kscen.embedded.apiserver.kinds import Kinds
from pytest_kscen.embedded.apiserver.server import ApiServer
from pytest_kscen.embedded.apiserver.wire import Wire
from pytest_kscen.kube.api import MERGE_PATCH, STRATEGIC_PATCH
from pytest_kscen.kube.official import sync_client
from pytest_kscen.kube.official.transport import call_of

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
def client(runner, server):
    with sync_client(Wire(server), runner) as client:
        yield client


@pytest.fixture
def core(client):
    return kubernetes.client.CoreV1Api(client)


def watch(core, **options):
    return kubernetes.watch.Watch().stream(core.list_namespaced_config_map, "default", **options)


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


def test_typed_calls_take_no_cluster_time(core, runner):
    before = runner.clock.now()
    core.create_namespaced_config_map("default", CONFIG_MAP)
    core.patch_namespaced_config_map(
        "c", "default", {"data": {"b": "2"}}, _content_type=MERGE_PATCH
    )
    assert core.read_namespaced_config_map("c", "default").data == {"a": "1", "b": "2"}
    assert [item.metadata.name for item in core.list_namespaced_config_map("default").items] == [
        "c"
    ]
    core.delete_namespaced_config_map("c", "default")
    assert core.list_namespaced_config_map("default").items == []
    assert runner.clock.now() == before


def test_error_is_raised_as_client_exception(core):
    with pytest.raises(ApiException) as refused:
        core.read_namespaced_config_map("nope", "default")
    assert (refused.value.status, refused.value.reason) == (404, "Not Found")
    assert refused.value.headers["content-type"] == "application/json"
    assert '"reason":"NotFound"' in refused.value.body


@pytest.mark.parametrize(
    ("body", "type_"),
    [
        ({"data": {}}, STRATEGIC_PATCH),
        ([{"op": "remove", "path": "/data"}], "application/json-patch+json"),
    ],
)
def test_dict_patch_is_strategic_merge(body, type_):
    sent = call_of(
        "PATCH",
        "https://host/path?force=true",
        {"Content-Type": "application/json-patch+json"},
        body,
    )
    assert sent[:3] == ("PATCH", "/path", "force=true")
    assert sent[3] == {"content-type": type_}


def test_returned_objects_are_copies(core):
    core.create_namespaced_config_map("default", CONFIG_MAP)
    core.read_namespaced_config_map("c", "default").data["a"] = "changed"
    assert core.read_namespaced_config_map("c", "default").data == {"a": "1"}


def test_watch_runs_loop_until_next_event_or_timeout(core, runner):
    core.create_namespaced_config_map("default", CONFIG_MAP)
    before = runner.clock.now()

    async def change_later():
        await runner.clock.sleep(10)
        core.replace_namespaced_config_map("c", "default", {**CONFIG_MAP, "data": {"a": "2"}})

    runner.start(change_later(), "changer")
    seen = [
        (event["type"], event["object"].data["a"], runner.clock.now() - before)
        for event in watch(core, timeout_seconds=60)
    ]
    assert seen == [("ADDED", "1", 0), ("MODIFIED", "2", 10)]
    assert runner.clock.now() - before == 60


def test_abandoned_watch_is_closed(core, open_watches):
    core.create_namespaced_config_map("default", CONFIG_MAP)
    for _ in watch(core):
        assert len(open_watches) == 1
        break
    assert open_watches == []


def test_watch_inside_running_loop_error_has_remedy(core, runner, open_watches):
    async def inside():
        list(watch(core, timeout_seconds=1))

    with pytest.raises(RuntimeError, match=r"watch with kubernetes.aio, or outside the loop"):
        runner.call(inside())
    assert open_watches == []


def test_call_inside_running_loop_is_served(core, runner):
    async def inside():
        return core.list_namespaced_config_map("default").items

    assert runner.call(inside()) == []


def test_raw_response_is_returned(core):
    core.create_namespaced_config_map("default", CONFIG_MAP)
    response = core.read_namespaced_config_map("c", "default", _preload_content=False)
    assert response.status == 200
    assert response.json()["data"] == {"a": "1"}
    events = core.list_namespaced_config_map(
        "default", watch=True, timeout_seconds=1, _preload_content=False
    )
    assert b'"type":"ADDED"' in events.read(20) + events.data
    assert events.read() == b""


def test_client_read_timeout_uses_cluster_time(core, runner, open_watches):
    before = runner.clock.now()
    with pytest.raises(ReadTimeoutError, match="read timeout=5"):
        list(watch(core, _request_timeout=5))
    assert runner.clock.now() - before == 5
    assert open_watches == []


def test_async_req_is_refused(core):
    with pytest.raises(RuntimeError, match=r"call it without async_req, or use kubernetes.aio"):
        core.list_namespaced_config_map("default", async_req=True)


def test_other_thread_is_refused_and_next_call_raises(core):
    refusals = []

    def elsewhere():
        with pytest.raises(RuntimeError) as refused:
            core.list_namespaced_config_map("default")
        refusals.append(refused.value)

    thread = threading.Thread(target=elsewhere, name="mine")
    thread.start()
    thread.join()
    with pytest.raises(RuntimeError, match=r"used in the thread 'mine'.*new_client_from_config"):
        core.list_namespaced_config_map("default")
    assert len(refusals) == 1
    assert core.list_namespaced_config_map("default").items == []


def test_swallowed_thread_refusal_is_raised_later(runner, server, caplog):
    client = sync_client(Wire(server), runner)
    informer = SharedInformer(
        kubernetes.client.CoreV1Api(client).list_namespaced_config_map, namespace="default"
    )
    informer.start()
    informer.stop()
    with pytest.raises(RuntimeError, match="a SharedInformer, too, runs"):
        client.close()


@pytest.mark.parametrize("way", [stream, portforward])
def test_exec_and_port_forward_are_refused(core, way):
    with pytest.raises(ApiException, match="read its log instead") as refused:
        way(core.connect_get_namespaced_pod_exec, "p", "default", command="sh")
    assert refused.value.status == 501
    assert core.list_namespaced_config_map("default").items == []


def test_dynamic_client_is_served(client, server, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    maps = DynamicClient(client).resources.get(api_version="v1", kind="ConfigMap")
    maps.create(body=CONFIG_MAP, namespace="default")
    assert maps.get("c", "default").data.a == "1"
    events = [
        (event["type"], event["object"].metadata.name)
        for event in maps.watch(namespace="default", timeout=5)
    ]
    assert events == [("ADDED", "c")]
    assert list(tmp_path.iterdir())
    client.close()
    assert list(tmp_path.iterdir()) == []
