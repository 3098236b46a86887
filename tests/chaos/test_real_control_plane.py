"""Faults on a real API server: each has its documented effect and leaves nothing."""

from __future__ import annotations

import contextlib
import re

import pytest

from pytest_kscen.clusters.controlplane.cluster import ControlPlaneCluster
from pytest_kscen.objects.resources import CILIUM_NETWORK_POLICIES, JOBS
from pytest_kscen.objects.virtualization import VIRTUAL_MACHINE_OPERATIONS
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.runner import ScenarioRunner

pytestmark = pytest.mark.controlplane

LOST = r"the link of {volume} from ({one} to {other}|{other} to {one}) is \w+"
FAULTS = {
    "network-block": (lambda chaos, one, other, _: chaos.network_block(one, other), LOST),
    "drbd-block": (lambda chaos, one, other, volume: chaos.drbd_block(one, other, volume), LOST),
    "losses": (
        lambda chaos, one, other, _: chaos.losses(one, other, 0.5),
        r"{one} lost [1-9]\d* packets from {other}",
    ),
    "latency": (
        lambda chaos, one, other, _: chaos.latency(one, other),
        r"{one} pushed \d{{3,}} Mbit/s to {other}",
    ),
    "pod-destroy": (
        lambda chaos, *_: chaos.pod_destroy("app=agent"),
        r"the pod agent-\w+ on node-\d is gone",
    ),
    "vm-reboot": (lambda chaos, one, *_: chaos.vm_reboot(one), r"{one} was restarted"),
}
SECONDS = {"losses": 5, "latency": 5}  # their Jobs tell at their end


@pytest.fixture(scope="module")
def cluster():
    with contextlib.closing(ControlPlaneCluster("chaos", nodes=3)) as cluster:
        yield cluster


@pytest.fixture
def runner(cluster):
    with contextlib.closing(ScenarioRunner(cluster, Plan(), parent=cluster.parent)) as runner:
        yield runner


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_by_hand(cluster, runner, fault):
    cause, effect = FAULTS[fault]
    with runner as run:
        volume = run.volumes.create(storage_class="consistency-and-availability")
        run.until(volume.ready, timeout="3m")
        one, other = volume.nodes[:2]
        with cause(run.chaos, one, other, volume.name) as incident:
            if fault in SECONDS:
                run.advance(SECONDS[fault])
            else:
                run.until(lambda: incident.had_effect, timeout="1m")
        assert incident.removed_at is not None

    expected = effect.format(volume=volume.name, one=one, other=other)
    assert any(re.fullmatch(expected, journal_records) for journal_records in incident.effects), (
        incident.effects
    )
    (seen,) = run.outcome.incidents
    assert (seen.effects, seen.failed, seen.not_undone) == (incident.effects, "", "")
    assert run.outcome.verdict == "valid", run.outcome.explain()
    left = {
        resource.plural: cluster.runner.call(api.list(resource)).items
        for api, resource in (
            (cluster.parent().api_for("test"), CILIUM_NETWORK_POLICIES),
            (cluster.parent().api_for("test"), VIRTUAL_MACHINE_OPERATIONS),
            (cluster.api("test"), JOBS),
        )
    }
    assert not any(left.values()), left
