"""Pictures that actors share: watched once, kept while somebody looks, and a listener's crash is
his own.
"""

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
    stage = RunContext(cluster.api, clock, Chance(0), journal, "run-1")
    shared = SharedInformers.of_run(stage)
    assert SharedInformers.of_run(stage) is shared
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


def names(told):
    return lambda new, old: told.append((new or old)["metadata"]["name"])


def test_they_are_kept_while_somebody_looks(cluster, shared):
    picture = shared.of(CONFIG_MAPS)

    async def look():
        life = shared.look()
        assert shared.look() is life
        await picture.synced()
        await shared.leave()
        assert not life.done()
        await shared.leave()
        return life

    assert cluster.runner.call(look()).cancelled()
    write(cluster, "unseen")
    assert picture.get("unseen", "default") is None


def test_who_looks_anew_hears_of_what_is_there_then(cluster, shared):
    async def hear():
        told = []
        async with shared.listen() as ears:
            ears.on_change(shared.of(CONFIG_MAPS), names(told))
            await shared.of(CONFIG_MAPS).synced()
        return told

    write(cluster, "a")
    first = cluster.runner.call(hear())
    cluster.runner.call(cluster.api("test").delete(CONFIG_MAPS, "a", "default"))
    write(cluster, "b")
    second = cluster.runner.call(hear())
    assert ("a" in first, "b" in first, "a" in second, "b" in second) == (True, False, False, True)


def test_a_listeners_crash_is_his_own(cluster, shared):
    told, crashes = [], []

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
            ears.on_change(shared.of(CONFIG_MAPS), names(told))
            await ears.run()

    cluster.runner.start(crash(), "crash")
    cluster.runner.start(listen(), "listen")
    cluster.runner.advance(0)
    for name in "abc":
        write(cluster, name)
    assert [repr(error) for error in crashes] == ["KeyError('lost')"]
    assert [name for name in told if name in "abc"] == ["a", "b", "c"]
