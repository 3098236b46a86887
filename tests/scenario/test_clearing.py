"""Deletions at a scenario's start while others delete objects."""

import pytest

from pytest_kscen.objects.errors import Forbidden, NotFound
from pytest_kscen.objects.resources import CONFIG_MAPS
from pytest_kscen.scenario.cluster_setup import NotClearedError, clear


class FailingDeletions:
    """API whose deletions end in an error; for a not-found error the deletion is done first."""

    def __init__(self, api, error):
        self._api, self._error = api, error

    def __getattr__(self, name):
        return getattr(self._api, name)

    async def delete(self, resource, name, namespace="", **options):
        if self._error is NotFound:
            await self._api.delete(resource, name, namespace, **options)
        raise self._error(f'{resource.qualified} "{name}"')


@pytest.fixture
def cluster(runner):
    api = runner.cluster.api("test")
    runner.cluster.runner.call(api.create(CONFIG_MAPS, {"metadata": {"name": "old"}}, "default"))
    return runner.cluster


def test_object_deleted_by_others_is_gone(cluster):
    api = cluster.api("test")
    cluster.runner.call(clear(FailingDeletions(api, NotFound), cluster.runner.clock))
    assert "old" not in [
        each["metadata"]["name"]
        for each in cluster.runner.call(api.list(CONFIG_MAPS, "default")).items
    ]


def test_refused_deletion_is_reported(cluster):
    with pytest.raises(
        NotClearedError, match='configmaps old could not be deleted: configmaps "old"'
    ):
        cluster.runner.call(
            clear(FailingDeletions(cluster.api("test"), Forbidden), cluster.runner.clock)
        )
