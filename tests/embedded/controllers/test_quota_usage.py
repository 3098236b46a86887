from __future__ import annotations

import pytest

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.objects.errors import Forbidden
from pytest_kscen.objects.resources import CONFIG_MAPS, PODS, RESOURCE_QUOTAS


@pytest.fixture
def cluster():
    cluster = EmbeddedCluster("quotas", nodes=1)
    yield cluster
    cluster.close()


@pytest.fixture
def api(cluster):
    api, runner = cluster.api("test"), cluster.runner

    class Asking:
        def __getattr__(self, verb):
            return lambda *arguments, **more: runner.ask(getattr(api, verb)(*arguments, **more))

    return Asking()


def quota(api, **hard):
    api.create(RESOURCE_QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}}, "default")


def pod(api, name, command="sleep 1000"):
    containers = [{"name": "c", "image": "busybox", "command": ["sh", "-c", command]}]
    spec = {"containers": containers, "restartPolicy": "Never", "terminationGracePeriodSeconds": 5}
    return api.create(PODS, {"metadata": {"name": name}, "spec": spec}, "default")


def status(api):
    return api.get(RESOURCE_QUOTAS, "q", "default").get("status")


def test_new_quota_counts_existing_objects(cluster, api):
    api.create(CONFIG_MAPS, {"metadata": {"name": "c"}}, "default")
    hard = {"pods": "3", "count/configmaps": "9", "count/widgets.example.com": "1"}
    quota(api, **hard)
    assert status(api) == {}
    cluster.advance(0)
    assert status(api) == {"hard": hard, "used": {"pods": "0", "count/configmaps": "2"}}


def test_deleted_and_finished_pods_release_quota(cluster, api):
    quota(api, pods="2")
    pod(api, "stays")
    pod(api, "ends", "sleep 60")
    assert status(api)["used"] == {"pods": "2"}
    with pytest.raises(
        Forbidden, match="exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"
    ):
        pod(api, "more")
    cluster.until(lambda: status(api)["used"] == {"pods": "1"}, timeout="2m")
    assert api.get(PODS, "ends", "default")["status"]["phase"] == "Succeeded"
    api.delete(PODS, "stays", "default")
    cluster.until(lambda: status(api)["used"] == {"pods": "0"}, timeout="1m")


def test_changed_quota_is_recounted(cluster, api):
    quota(api, pods="2")
    pod(api, "p")
    cluster.advance(0)
    api.patch(
        RESOURCE_QUOTAS, "q", {"spec": {"hard": {"pods": None, "count/pods": "5"}}}, "default"
    )
    cluster.advance(0)
    assert status(api) == {"hard": {"count/pods": "5"}, "used": {"count/pods": "1"}}
