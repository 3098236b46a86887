"""Several engines on one cluster: one holds the lease, the next continues its work."""

from __future__ import annotations

import asyncio
import collections

import pytest
from engine_env import partition, suspend, template
from workflow_cluster import WorkflowCluster

from pytest_kscen.clock import Signal
from pytest_kscen.kube.leases import LeaseLost
from pytest_kscen.objects.chaos_mesh import phase_of
from pytest_kscen.objects.resources import LEASES
from pytest_kscen.run.preflight import PreflightRefused
from pytest_kscen.run.workflow_setup import LEASE_NAME, LEASE_NAMESPACE, EngineLease
from pytest_kscen.workflow.engine.manager import WorkflowManager

CUT = {
    "entry": "all",
    "templates": [
        template("all", "Serial", children=["cut", "rest"]),
        partition("cut", "60s"),
        suspend("rest"),
    ],
}


class Engine:
    """Engine that waits for the lease from its start and then runs."""

    def __init__(self, workflow_cluster, name):
        self.workflow_cluster, self.engine_lease, self.reported, self.began = (
            workflow_cluster,
            EngineLease(workflow_cluster.cluster, name),
            [],
            None,
        )
        self.task = workflow_cluster.call(self._begin())
        workflow_cluster.runner.advance(0.1)

    async def _begin(self):
        return asyncio.get_running_loop().create_task(self._live())

    async def _live(self):
        if await self.engine_lease.wait(Signal(), self.reported.append):
            self.began = self.workflow_cluster.runner.clock.now()
            await self.engine_lease.begin(WorkflowManager(self.workflow_cluster.actor()).run)
            await self.engine_lease.hold()

    def end(self):
        self.task.cancel()
        self.workflow_cluster.call(asyncio.wait([self.task]))

    def kill(self, monkeypatch):
        """Stop the engine without releasing its lease."""
        monkeypatch.setattr(self.engine_lease.lease, "_release", lambda: asyncio.sleep(0))
        self.end()


@pytest.fixture(scope="module")
def workflow_cluster():
    workflow_cluster = WorkflowCluster("one engine")
    workflow_cluster.stop()
    yield workflow_cluster
    workflow_cluster.close()


@pytest.fixture
def start(workflow_cluster):
    started = []

    def start(name):
        started.append(Engine(workflow_cluster, name))
        return started[-1]

    yield start
    for engine in started:
        engine.end()


@pytest.fixture
def recorded_entries(workflow_cluster):
    recorded_entries = []
    workflow_cluster.journal.follow(recorded_entries.append)
    return recorded_entries


def begun(workflow_cluster, start, apart=0.0):
    """Workflow that the first engine is executing while another engine, started later, waits."""
    first = start("first")
    workflow_cluster.runner.advance(apart)
    second = start("second")
    name = workflow_cluster.create_workflow(CUT)
    workflow_cluster.runner.advance(10)
    assert len(workflow_cluster.chaos(name)) == 1
    assert (second.reported, second.began) == ([first.engine_lease.lease.holder], None)
    return first, second, name


def ends_exactly_once(workflow_cluster, recorded_entries, name):
    workflow, nodes = workflow_cluster.end(name)
    assert phase_of(workflow) == "Succeed"
    assert [phase_of(node) for node in nodes.values()] == ["Succeed"] * 3
    reported = collections.Counter(
        (entry.data["node"], entry.at, entry.data["phase"])
        for entry in recorded_entries
        if entry.what == "workflow-node"
    )
    assert set(reported.values()) == {1}
    creates = [
        entry
        for entry in recorded_entries
        if entry.what == "wrote" and entry.data["verb"] == "create"
    ]
    assert sum("networkchaos" in entry.data["resource"] for entry in creates) == 1
    workflow_cluster.free(name)


def test_second_engine_waits_while_the_first_holds_the_lease(
    workflow_cluster, start, recorded_entries
):
    _, second, name = begun(workflow_cluster, start)
    ends_exactly_once(workflow_cluster, recorded_entries, name)
    assert second.began is None


def test_second_engine_continues_after_the_first_ended(workflow_cluster, start, recorded_entries):
    first, second, name = begun(workflow_cluster, start)
    first.end()
    ended = workflow_cluster.runner.clock.now()
    workflow_cluster.runner.advance(3)
    assert 0 <= second.began - ended <= 2
    ends_exactly_once(workflow_cluster, recorded_entries, name)


@pytest.mark.parametrize("apart", [0, 0.5, 1, 1.7])
def test_second_engine_continues_within_17_seconds_after_the_first_was_killed(
    workflow_cluster, start, recorded_entries, monkeypatch, apart
):
    first, second, name = begun(workflow_cluster, start, apart)
    first.kill(monkeypatch)
    killed = workflow_cluster.runner.clock.now()
    workflow_cluster.runner.advance(18)
    assert 10 < second.began - killed <= 17
    ends_exactly_once(workflow_cluster, recorded_entries, name)


def test_engine_losing_the_lease_ends_at_once(workflow_cluster, start, recorded_entries):
    first, second, name = begun(workflow_cluster, start)
    workflow_cluster.call(
        workflow_cluster.api.patch(
            LEASES,
            LEASE_NAME,
            {"spec": {"holderIdentity": second.engine_lease.lease.holder}},
            LEASE_NAMESPACE,
        )
    )
    workflow_cluster.runner.advance(3)
    lost = first.task.exception()
    assert (type(lost), str(lost)) == (
        LeaseLost,
        f"the Lease {LEASE_NAMESPACE}/{LEASE_NAME} is held by {second.engine_lease.lease.holder} now",
    )
    ends_exactly_once(workflow_cluster, recorded_entries, name)


def test_run_is_refused_where_an_engine_runs_and_creates_nothing(workflow_cluster, start):
    first, run = start("first"), EngineLease(workflow_cluster.cluster, "pytest")
    began = workflow_cluster.runner.clock.now()
    with pytest.raises(PreflightRefused) as refused:
        workflow_cluster.call(run.claim())
    assert str(refused.value) == (
        f"the workflows of this cluster are driven by {first.engine_lease.lease.holder}, which "
        "holds the Lease "
        "kube-system/workflow-engine.kscen.io: end that first; if it was killed, try "
        "again when 15 s are over"
    )
    assert workflow_cluster.runner.clock.now() - began <= 4


def test_run_starts_when_the_lease_of_a_killed_engine_has_expired(
    workflow_cluster, start, monkeypatch
):
    start("first").kill(monkeypatch)
    began, run = (
        workflow_cluster.runner.clock.now(),
        EngineLease(workflow_cluster.cluster, "pytest"),
    )
    workflow_cluster.call(run.claim())
    assert workflow_cluster.runner.clock.now() - began == pytest.approx(15)
    workflow_cluster.call(workflow_cluster.api.delete(LEASES, LEASE_NAME, LEASE_NAMESPACE))
