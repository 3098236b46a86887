"""Waiting for writes that the server has and the cache does not have yet."""

import pytest

from pytest_kscen.kube.cache import ObjectCache, Ref
from pytest_kscen.objects.resources import PODS
from pytest_kscen.scenario.waiting import EVENT_DELAY, MISSED_READS, Convergence
from tests.scenario.objects import pod

REF = Ref("default", "p")


class DelayedCache(ObjectCache):
    """Cache that shows the objects it is given."""

    async def synced(self):
        pass

    def of(self, resource):
        return self


@pytest.fixture
def cluster(runner):
    return runner.cluster


@pytest.fixture
def wait(cluster):
    """Wait for a pod's binding: the cache, a function that admits the binding, and the results."""
    api, object_cache, events = cluster.api("test"), DelayedCache(PODS), []
    convergence, expected = Convergence(api, object_cache, cluster.runner.clock, 0.1), []

    async def life():
        await convergence.watch(PODS)
        expected.append(
            convergence.expect(
                PODS, REF, _is_bound, lambda: events.append("missed"), is_admitted=False
            )
        )
        await convergence.reached([])
        events.append("rest")

    made = cluster.runner.call(api.create(PODS, {**pod("p"), "status": {}}, "default"))
    object_cache._put(REF, made)
    cluster.runner.start(life(), "life")
    cluster.advance(0)
    return object_cache, lambda: convergence.mark_admitted(expected[0]), events


def _is_bound(seen):
    return bool(seen and seen["spec"].get("nodeName"))


def test_writes_on_the_server_are_awaited(cluster, wait):
    object_cache, admit_write, events = wait
    admit_write()
    bound = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n"},
    }
    cluster.runner.call(
        cluster.api("test").create(PODS, bound, "default", name="p", subresource="binding")
    )
    cluster.advance(10 * EVENT_DELAY)
    assert events == []

    object_cache._put(REF, cluster.runner.call(cluster.api("test").get(PODS, "p", "default")))
    cluster.advance(EVENT_DELAY)
    assert events == ["rest"]


def test_refused_writes_are_not_awaited(cluster, wait):
    _, admit_write, events = wait
    admit_write()
    cluster.advance(MISSED_READS * EVENT_DELAY - 0.1)
    assert events == []
    cluster.advance(1)
    assert events == ["missed", "rest"]


def test_writes_not_yet_admitted_are_not_on_the_server(cluster, wait):
    _, admit_write, events = wait
    cluster.advance(10 * EVENT_DELAY)
    assert events == []
    admit_write()
    cluster.advance((MISSED_READS + 1) * EVENT_DELAY)
    assert events == ["missed", "rest"]
