"""The same faults through a real API server: what it takes, what comes of it, and that nothing is left."""

from __future__ import annotations

import contextlib

import pytest

from pytest_kscen.chaos import byhand
from pytest_kscen.chaos.cleanup import clear_after, clear_before
from pytest_kscen.chaos.incidents import cause
from pytest_kscen.clusters.controlplane.cluster import ControlPlaneCluster
from pytest_kscen.journal import Journal
from pytest_kscen.kube.actor import Stage
from pytest_kscen.objects.cilium import CILIUM_NETWORK_POLICIES
from pytest_kscen.objects.resources import JOBS
from pytest_kscen.objects.virtualization import VIRTUAL_MACHINE_OPERATIONS

pytestmark = pytest.mark.controlplane


def test_faults_by_hand():
    with contextlib.closing(ControlPlaneCluster("chaos", nodes=2)) as cluster:
        parent, call = cluster.parent(), cluster.runner.call
        journal = Journal(cluster.runner.clock)
        stage = Stage(cluster.api, cluster.runner.clock, cluster.chance, journal, "run-1", owned=True, parent=parent)
        with contextlib.closing(journal):
            call(clear_before(stage))
            for fault in (byhand.network_block("node-1", "node-2"), byhand.losses("node-1", "node-2", 0.5)):
                incident = call(cause(stage, fault))
                cluster.advance(5)
                call(incident.end())
                assert not incident.is_on
            assert incident.effects != []
            call(clear_after(stage))
            left = [entry for entry in journal if entry.what in {"incident-failed", "incident-not-undone"}]
            assert left == []
            for api, resource in (
                (parent.api_for("test"), CILIUM_NETWORK_POLICIES),
                (parent.api_for("test"), VIRTUAL_MACHINE_OPERATIONS),
                (cluster.api("test"), JOBS),
            ):
                assert call(api.list(resource)).items == []
