"""Chaos lease: one run at a time uses foreign machines; refused runs name its holder."""

from __future__ import annotations

import dataclasses
import os
import signal

import pytest

from pytest_kscen.chaos.profiles import NetworkBlock, PodDestroy
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.journal import JournalLost, read
from pytest_kscen.kube.api import ForwardingApi
from pytest_kscen.kube.leases import LEASE_DURATION, LeaseLost, holder_of, lease_spec
from pytest_kscen.megatest.churn import Churn
from pytest_kscen.objects.errors import ApiError, Forbidden
from pytest_kscen.objects.resources import CILIUM_NETWORK_POLICIES, JOBS, LEASES
from pytest_kscen.objects.virtualization import VIRTUAL_MACHINE_OPERATIONS
from pytest_kscen.report.protocol import Report
from pytest_kscen.run.chaos_lease import NAME
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.preflight import PreflightRefused
from pytest_kscen.run.runner import ScenarioRunner

CUTS = Plan(chaos=(NetworkBlock(variants=("blocking-everything",)),))


class CallingReport(Report):
    """Archive that calls a function when a run starts."""

    def __init__(self, keep):
        self._keep = keep

    def start(self, run):
        self._keep(run.journal)


class World:
    """Embedded cluster whose parent counts as a foreign one."""

    def __init__(self):
        self.cluster = EmbeddedCluster("chaos-lease", nodes=3)
        self.parent = dataclasses.replace(
            self.cluster.parent(kubeconfig=None, namespace=""), owned=False
        )
        self.api = self.parent.api_for("test")
        self.runners = []

    def runner(self, keep=lambda _: None, **others):
        parent = dataclasses.replace(self.parent, **others)
        self.runners.append(
            ScenarioRunner(self.cluster, CUTS, parent=lambda: parent, reports=[CallingReport(keep)])
        )
        return self.runners[-1]

    @property
    def holder(self):
        leases = self.call(self.api.list(LEASES, self.parent.namespace)).items
        return next((holder_of(each) for each in leases if each["metadata"]["name"] == NAME), None)

    @property
    def holder_now(self):
        """Read the holder inside the event loop."""
        lease = self.cluster._host.server.core.store.get(
            ("coordination.k8s.io", "leases", self.parent.namespace, NAME)
        )
        return holder_of(lease)

    def cuts(self):
        return [
            each["metadata"]["name"]
            for each in self.call(self.api.list(CILIUM_NETWORK_POLICIES)).items
        ]

    def held_by(self, holder):
        metadata = {"name": NAME, "namespace": self.parent.namespace}
        spec = lease_spec(holder, LEASE_DURATION, self.cluster.runner.clock.now())
        self.call(self.api.create(LEASES, {"metadata": metadata, "spec": spec}))

    def call(self, coroutine):
        return self.cluster.runner.call(coroutine)


def claims(run):
    """Return the results of its claims."""
    ended = [entry.data for entry in run.journal if entry.what == "ended"]
    return [one["result"].partition(":")[0] for one in ended if one["action"] == "claim the Lease"]


@pytest.fixture
def world():
    world = World()
    yield world
    for runner in world.runners:
        runner.close()
    world.cluster.close()


def test_second_run_is_refused_and_keeps_the_chaos_of_the_first(world):
    with world.runner() as first, first.chaos.network_block("node-1", "node-2"):
        there = world.cuts()
        with pytest.raises(PreflightRefused) as refused, world.runner():
            """It does not come so far."""
        assert str(refused.value) == (
            "another run causes faults on the parent cluster, or needs it without any: "
            f"{world.holder} holds the Lease vms/{NAME} there. "
            "Wait for its end, or stop it; if it was killed, try again after 15 s"
        )
        assert f"run {first.context.run_id}, process " in world.holder
        assert world.cuts() == there != []
    assert (world.holder, claims(first), claims(world.runners[1].runs[0])) == (
        "",
        ["done"],
        ["failed"],
    )
    with world.runner() as second:
        assert f"run {second.context.run_id}, " in world.holder
    assert world.holder == ""


def test_run_starts_when_it_holds_the_lease(world, tmp_path):
    taken = []

    def take(journal):
        taken.append((world.holder_now, world.cluster.runner.clock.now()))
        journal.keep_in(tmp_path / "journal.jsonl")

    with world.runner() as first:
        with pytest.raises(PreflightRefused), world.runner(take):
            """It does not come so far."""
        assert first.journal.path is None
    assert taken == []
    with world.runner(take) as run:
        assert read(tmp_path / "journal.jsonl")[0].what == "run-started"
    assert [run.context.run_id in holder for holder, _ in taken] == [True]


def test_run_losing_the_lease_to_another_touches_nothing(world):
    class LeaseTakenReport(Report):
        def prepare(self, run):
            raise ValueError("a run that is still on writes there")

    runner = ScenarioRunner(
        world.cluster, CUTS, parent=lambda: world.parent, reports=[LeaseTakenReport()]
    )
    with pytest.raises(ValueError, match="still on"), runner:
        """It does not come so far."""
    assert (runner.runs, world.holder) == ([], None)


def test_run_suspended_while_waiting_keeps_the_lease(world, tmp_path):
    world.held_by("a run that is no more")
    world.cluster.runner.loop.call_later(LEASE_DURATION / 2, os.kill, os.getpid(), signal.SIGINT)
    runner = world.runner(lambda journal: journal.keep_in(tmp_path / "journal.jsonl"))
    outcome = runner.run("1h")
    assert (outcome.judged, outcome.stopped_early) == ("unknown", True)
    assert 0 < outcome.lasted < LEASE_DURATION
    assert "stopped-early" in [entry.what for entry in read(tmp_path / "journal.jsonl")]


def test_expiry_of_a_killed_runs_lease_is_awaited(world):
    world.held_by("a run that is no more")
    with world.runner() as run:
        assert run.journal.now == LEASE_DURATION
        (claimed_at,) = [
            entry.at
            for entry in run.journal
            if entry.what == "ended" and entry.data["action"] == "claim the Lease"
        ]
        assert claimed_at == LEASE_DURATION
        assert run.context.run_id in world.holder


def test_run_whose_lease_was_deleted_ends_as_unknown(world):
    runner = world.runner()

    async def remove():
        await world.cluster.runner.clock.sleep(10)
        await world.api.delete(LEASES, NAME, world.parent.namespace)

    world.cluster.runner.start(remove(), "saboteur")
    with pytest.raises(LeaseLost, match=f"the Lease vms/{NAME} was removed by another client"):
        runner.run("10m")
    outcome = runner.runs[0].outcome
    assert (outcome.judged, outcome.lasted) == ("unknown", 10.0)
    assert world.cuts() == []


class Refusing(ForwardingApi):
    """API that refuses all requests for one resource."""

    def __init__(self, api, refused, error):
        super().__init__(api)
        self.refused, self.error = refused, error

    async def get(self, resource, name, namespace="", **options):
        return await self._answer(resource, self._api.get(resource, name, namespace, **options))

    async def list(self, resource, namespace="", **options):
        return await self._answer(resource, self._api.list(resource, namespace, **options))

    def __getattr__(self, verb):
        return getattr(self._api, verb)

    async def _answer(self, resource, asking):
        if resource != self.refused:
            return await asking
        asking.close()
        raise self.error

    @classmethod
    def of(cls, world, resource, error):
        return world.runner(api_for=lambda name: cls(world.parent.api_for(name), resource, error))


def test_user_without_access_to_the_lease_gets_the_required_permission(world):
    with (
        pytest.raises(PreflightRefused) as refused,
        Refusing.of(world, LEASES, Forbidden("not for you")),
    ):
        """It does not come so far."""
    assert str(refused.value) == (
        "cannot check whether another run causes faults on the parent cluster: not for "
        "you. Grant this user get, create and "
        "update of leases.coordination.k8s.io in the namespace vms there"
    )


@pytest.mark.parametrize("resource", [CILIUM_NETWORK_POLICIES, VIRTUAL_MACHINE_OPERATIONS])
def test_user_without_access_to_leftovers_is_refused_before_the_lease(world, resource):
    def take(_):
        pytest.fail("it does not come so far")

    def api_for(name):
        return Refusing(world.parent.api_for(name), resource, Forbidden("not for you"))

    with pytest.raises(PreflightRefused) as refused, world.runner(take, api_for=api_for):
        """It does not come so far."""
    assert (
        str(refused.value)
        == f"the parent cluster does not allow listing {resource.qualified}: not for you"
    )
    assert world.holder is None


def test_churn_destroying_pods_needs_access_to_earlier_jobs(world):
    world.cluster.owned = False
    api = world.cluster.api
    world.cluster.api = lambda name: Refusing(api(name), JOBS, Forbidden("not for you"))
    runner = ScenarioRunner(world.cluster, Plan(Churn(pod_destroyer=True)))
    with pytest.raises(
        PreflightRefused,
        match=r"^the tested cluster does not allow listing jobs.batch: not for you$",
    ):
        runner.run("1m")


def test_run_that_cannot_start_releases_the_lease(world, monkeypatch):
    async def refused(*_, **__):
        raise ApiError("not today")

    monkeypatch.setattr("pytest_kscen.run.lifecycle.clear_before", refused)
    with pytest.raises(ApiError, match="not today"), world.runner():
        """It does not come so far."""
    assert world.holder == ""


def test_missing_namespace_is_refused(world):
    runner = world.runner(namespace="nowhere")
    runner.plan = Plan()
    with pytest.raises(PreflightRefused) as refused, runner:
        """It does not come so far."""
    assert str(refused.value) == "the parent cluster has no namespace nowhere: check --vm-namespace"


def test_run_interrupted_at_the_start_releases_the_lease(world, monkeypatch):
    runner = world.runner()

    async def lost(context, **_):
        context.journal.on_lost(JournalLost("no room"))

    monkeypatch.setattr("pytest_kscen.run.lifecycle.clear_before", lost)
    with pytest.raises(JournalLost, match="no room"), runner:
        """It does not come so far."""
    assert world.holder == ""


def test_stopped_run_waits_no_longer(world):
    world.held_by("a run that is no more")
    runner = world.runner()

    async def stop():
        await world.cluster.runner.clock.sleep(3)
        runner.runs[0].life.stop()

    world.cluster.runner.start(stop(), "somebody")
    runner.run("10m")
    assert runner.runs[0].outcome.stopped_early
    assert runner.runs[0].outcome.lasted < LEASE_DURATION
    assert claims(runner.runs[0]) == ["stopped"]
    assert world.holder == "a run that is no more"


def test_jobs_of_the_tested_cluster_belong_to_one_run_at_a_time(world):
    """Chaos without machines is covered too."""
    world.cluster.owned = False
    with (
        world.runner(),
        pytest.raises(
            PreflightRefused,
            match="another run causes faults on the tested cluster, or needs it without any: run ",
        ),
    ):
        ScenarioRunner(world.cluster, Plan(chaos=(PodDestroy(),))).run("1m")


def test_pods_destroyed_by_churn_or_a_test_are_chaos(world):
    world.cluster.owned, taken = (
        False,
        "another run causes faults on the tested cluster, or needs it without any: run ",
    )
    with world.runner():
        with pytest.raises(PreflightRefused, match=taken):
            ScenarioRunner(world.cluster, Plan(Churn(pod_destroyer=True))).run("1m")
        with (
            ScenarioRunner(world.cluster, Plan()) as run,
            pytest.raises(PreflightRefused, match=taken),
        ):
            run.chaos.pod_destroy("app=agent")


def test_embedded_parent_needs_no_lease(world):
    with world.runner(owned=True):
        assert world.holder is None
