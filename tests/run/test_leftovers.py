"""Search for leftovers with limited permissions and failing servers."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from types import SimpleNamespace

import pytest

from pytest_kscen.chaos import manual_faults
from pytest_kscen.chaos.incidents import cause_incident
from pytest_kscen.chaos.profile import CreatedObjects
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.clusters.kubeconfig import KubeconfigCluster
from pytest_kscen.journal import Journal
from pytest_kscen.kube.actor import RUN_LABEL, RunContext
from pytest_kscen.kube.api import ForwardingApi
from pytest_kscen.objects.errors import Forbidden, ServiceUnavailable
from pytest_kscen.objects.resources import CONFIG_MAPS, ENDPOINTS
from pytest_kscen.run.cleanup import leftovers


class OneNamespaceApi(ForwardingApi):
    """API whose user may read one namespace and writes through another API."""

    def __init__(self, api, namespace):
        super().__init__(api)
        self.namespace, self.create, self.delete = namespace, api.create, api.delete

    async def list(self, resource, namespace="", **options):
        if namespace != self.namespace:
            raise Forbidden(f"you cannot list {resource.plural} at the cluster scope")
        return await self._api.list(resource, namespace, **options)


class FailingApi(ForwardingApi):
    """API that fails for some resources for a while and forbids others."""

    def __init__(self, api, clock, until):
        super().__init__(api)
        self.clock, self.until = clock, until

    async def list(self, resource, namespace="", **options):
        if resource.plural == "ingresses" and self.clock.now() < self.until:
            raise ServiceUnavailable("the server is currently unable to handle the request")
        if resource.plural == "secrets":
            raise Forbidden("you cannot list secrets")
        return await self._api.list(resource, namespace, **options)


@pytest.fixture
def cluster():
    cluster = EmbeddedCluster("leftovers", nodes=3)
    yield cluster
    cluster.close()


@pytest.fixture
def context(cluster):
    journal, parent = Journal(cluster.runner.clock), cluster.parent()
    yield RunContext(
        cluster.api, cluster.runner.clock, cluster.chance, journal, "run-1", parent=parent
    )
    journal.close()


def reported(context):
    return [
        (entry.data["resource"], entry.data["why"])
        for entry in context.journal
        if entry.what == "not-listed"
    ]


def test_parent_is_searched_where_the_user_has_access(cluster, context):
    parent = context.parent
    narrow = dataclasses.replace(
        parent, api_for=lambda name: OneNamespaceApi(parent.api_for(name), parent.namespace)
    )
    context = dataclasses.replace(context, parent=narrow)
    cluster.advance(5)
    cluster.runner.call(cause_incident(context, manual_faults.network_block("node-1", "node-2")))
    left = cluster.runner.call(leftovers(context, context.actor("run"), 0))
    assert [name.partition("/")[0] for name in left] == ["ciliumnetworkpolicies"] * len(left) != []
    assert reported(context) == []


@pytest.mark.parametrize(
    ("recovers", "took", "unseen"),
    [(30, 30, ["secrets"]), (3600, 120, ["secrets", "ingresses.networking.k8s.io"])],
)
def test_unsearched_places_are_reported(cluster, context, recovers, took, unseen):
    began = cluster.now
    sick = dataclasses.replace(
        context, api_for=lambda name: FailingApi(cluster.api(name), context.clock, began + recovers)
    )
    assert cluster.runner.call(leftovers(sick, sick.actor("run"), 120)) == []
    assert cluster.now - began == took
    assert [resource for resource, _ in reported(context)] == unseen


def test_deprecation_warning_reaches_only_its_requester(cluster, caplog):
    """The embedded server warns like a real one."""
    with contextlib.closing(KubeconfigCluster(cluster.kubeconfig)) as theirs:
        journal = Journal(theirs.runner.clock)
        context = RunContext(theirs.api, theirs.runner.clock, theirs.chance, journal, "run-1")

        async def with_another_run(*others):
            await asyncio.gather(leftovers(context, context.actor("run"), 0), *others)

        theirs.runner.call(with_another_run())
        assert caplog.messages == []
        theirs.runner.call(with_another_run(theirs.api("somebody").list(ENDPOINTS)))
        assert len(caplog.messages) == 1
        assert "v1 Endpoints is deprecated in v1.33+" in caplog.messages[0]
        journal.close()


def test_objects_of_an_installed_profile_are_found_in_the_parent(cluster, context, monkeypatch):
    installed = SimpleNamespace(creates=(CreatedObjects(CONFIG_MAPS, in_parent=True),))
    monkeypatch.setattr("pytest_kscen.run.cleanup.PROFILES", {"installed": installed})
    parent = context.parent
    metadata = {"name": "fault", "namespace": parent.namespace, "labels": {RUN_LABEL: "run-1"}}
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    cluster.advance(5)
    cluster.runner.call(parent.api_for("test").create(CONFIG_MAPS, obj))
    nested = dataclasses.replace(context, api_for=lambda name: NoResources(cluster.api(name)))
    listing = cluster.runner.call(leftovers(nested, nested.actor("run"), 0))
    assert listing == [f"configmaps/{parent.namespace}/fault"]


class NoResources(ForwardingApi):
    async def resources(self):
        return []
