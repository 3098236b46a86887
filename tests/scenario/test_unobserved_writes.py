"""Waiting for writes that the server has and the cache does not have yet."""

import pytest

from pytest_kscen.kube.cache import ObjectCache, Ref
from pytest_kscen.objects.resources import PODS
from pytest_kscen.scenario.waiting import ASKED, EVENT_DELAY, Convergence
from tests.scenario.objects import pod

REF = Ref("default", "p")


class DelayedCache(ObjectCache):
    """One that shows what it is told to."""

    async def synced(self):
        pass

    def of(self, resource):
        return self


@pytest.fixture
def cluster(runner):
    return runner.cluster


@pytest.fixture
def wait(cluster):
    """A pod's binding is expected, and waited for: the picture, what lets the binding in, and
    what comes of it.
    """
    api, picture, came = cluster.api("test"), DelayedCache(PODS), []
    convergence, expected = Convergence(api, picture, cluster.runner.clock, 0.1), []

    async def life():
        await convergence.see(PODS)
        expected.append(
            convergence.expect(
                PODS, REF, _is_bound, lambda: came.append("missed"), is_admitted=False
            )
        )
        await convergence.reached([])
        came.append("rest")

    made = cluster.runner.call(api.create(PODS, {**pod("p"), "status": {}}, "default"))
    picture._put(REF, made)
    cluster.runner.start(life(), "life")
    cluster.advance(0)
    return picture, lambda: convergence.mark_admitted(expected[0]), came


def _is_bound(seen):
    return bool(seen and seen["spec"].get("nodeName"))


def test_writes_on_the_server_are_awaited(cluster, wait):
    picture, admit_write, came = wait
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
    assert came == []

    picture._put(REF, cluster.runner.call(cluster.api("test").get(PODS, "p", "default")))
    cluster.advance(EVENT_DELAY)
    assert came == ["rest"]


def test_refused_writes_are_not_awaited(cluster, wait):
    _, admit_write, came = wait
    admit_write()
    cluster.advance(ASKED * EVENT_DELAY - 0.1)
    assert came == []
    cluster.advance(1)
    assert came == ["missed", "rest"]


def test_writes_not_yet_admitted_are_not_on_the_server(cluster, wait):
    _, admit_write, came = wait
    cluster.advance(10 * EVENT_DELAY)
    assert came == []
    admit_write()
    cluster.advance((ASKED + 1) * EVENT_DELAY)
    assert came == ["missed", "rest"]
