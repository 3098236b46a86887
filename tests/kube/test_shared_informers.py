"""Informers shared by actors: one watch, kept while in use, with isolated listeners."""

from __future__ import annotations

import pytest

from pytest_kscen.chance import Chance
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.journal import Journal
from pytest_kscen.kube.actor import RunContext
from pytest_kscen.kube.informer import SharedInformers
from pytest_kscen.objects.resources import CONFIG_MAPS


@pytest.fixture
def cluster():
    cluster = EmbeddedCluster(0, nodes=0)
    yield cluster
    cluster.close()


@pytest.fixture
def shared(cluster):
    clock = cluster.runner.clock
    journal = Journal(clock)
    run_context = RunContext(cluster.api, clock, Chance(0), journal, "run-1")
    shared = SharedInformers.of_run(run_context)
    assert SharedInformers.of_run(run_context) is shared
    yield shared
    journal.close()


def write(cluster, name):
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
    }
    cluster.runner.call(cluster.api("test").create(CONFIG_MAPS, body))
    cluster.runner.advance(0)


def names(notified_names):
    return lambda new, old: notified_names.append((new or old)["metadata"]["name"])


def test_shared_caches_live_while_in_use(cluster, shared):
    cache = shared.of(CONFIG_MAPS)

    async def acquire():
        task = shared.acquire()
        assert shared.acquire() is task
        await cache.synced()
        await shared.release()
        assert not task.done()
        await shared.release()
        return task

    assert cluster.runner.call(acquire()).cancelled()
    write(cluster, "unseen")
    assert cache.get("unseen", "default") is None


def test_new_listener_receives_current_objects(cluster, shared):
    async def hear():
        notified_names = []
        async with shared.listen() as ears:
            ears.on_change(shared.of(CONFIG_MAPS), names(notified_names))
            await shared.of(CONFIG_MAPS).synced()
        return notified_names

    write(cluster, "a")
    first = cluster.runner.call(hear())
    cluster.runner.call(cluster.api("test").delete(CONFIG_MAPS, "a", "default"))
    write(cluster, "b")
    second = cluster.runner.call(hear())
    assert ("a" in first, "b" in first, "a" in second, "b" in second) == (True, False, False, True)


def test_listener_crash_affects_only_its_actor(cluster, shared):
    notified_names, crashes = [], []

    def clumsy(new, _):
        if new["metadata"]["name"] == "b":
            raise KeyError("lost")

    async def crash():
        async with shared.listen() as ears:
            ears.on_change(shared.of(CONFIG_MAPS), clumsy)
            try:
                await ears.run()
            except KeyError as error:
                crashes.append(error)

    async def listen():
        async with shared.listen() as ears:
            ears.on_change(shared.of(CONFIG_MAPS), names(notified_names))
            await ears.run()

    cluster.runner.start(crash(), "crash")
    cluster.runner.start(listen(), "listen")
    cluster.runner.advance(0)
    for name in "abc":
        write(cluster, name)
    assert [repr(error) for error in crashes] == ["KeyError('lost')"]
    assert [name for name in notified_names if name in "abc"] == ["a", "b", "c"]
