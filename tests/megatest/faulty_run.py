"""Run of churn and all chaos in which all actors use a faulty API, in both clusters."""

from __future__ import annotations

import dataclasses

from pytest_kscen.chaos.profiles import NetworkBlock, NetworkDegrade, PodDestroy, VmReboot
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.kube.informer import Informer
from pytest_kscen.megatest.churn import Churn
from pytest_kscen.objects.storage import HEALTH_SOURCES, REPLICATED_VOLUMES
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.runner import ScenarioRunner, bring_storage

CHURN = Churn(max_volumes=5, resizer=True, replica_destroyer=True, replica_creator=True)
PERIOD, INCIDENT = (30.0, 90.0), (10.0, 60.0)
CHAOS = (
    NetworkBlock(PERIOD, INCIDENT),
    NetworkDegrade(PERIOD, INCIDENT, loss=0.05),
    VmReboot((150.0, 300.0)),
    PodDestroy(),
)


class FaultyRun:
    """Cluster whose actors use faulty APIs, and the true states of its volumes."""

    def __init__(self, seed, make_faulty):
        """`make_faulty` wraps an API in the faulty one."""
        self.make_faulty = make_faulty
        self.cluster = EmbeddedCluster(seed)
        self.chance = self.cluster.chance
        self.faults = {}
        self.truth = {}
        self.is_out = False
        bring_storage(self.cluster, "conditions")
        parent = self.cluster.parent()
        self._record_true_states(self.cluster.api("truth"))
        self.parent = dataclasses.replace(parent, api_for=self._faulty(parent.api_for))
        self.cluster.api = self._faulty(self.cluster.api)

    def _faulty(self, api_for):
        return lambda agent="": self.make_faulty(api_for(agent), self)

    def _record_true_states(self, api):
        informer = Informer(api, self.cluster.runner.clock, REPLICATED_VOLUMES)

        def handler(new, old):
            if new and not new["metadata"].get("deletionTimestamp"):
                for condition, seen in HEALTH_SOURCES["conditions"].read(new).items():
                    states = self.truth.setdefault((new["metadata"]["name"], condition), [])
                    if not states or states[-1] is not seen.holds:
                        states.append(seen.holds)

        informer.on_change(handler)
        self.cluster.runner.start(informer.run(), "truth")

    def runner(self):
        return ScenarioRunner(self.cluster, Plan(CHURN, CHAOS), parent=lambda: self.parent)

    def tasks(self):
        return [task.get_name() for task in self.cluster.runner.loop.tasks()]

    def close(self):
        self.cluster.close()


def failed(journal):
    """Return the actions that failed."""
    return {
        one.data["action"]
        for one in journal
        if one.what == "ended" and one.data["result"].startswith("failed")
    }


def assert_actors_alive(alive, journal, minutes):
    """Check that all actors were alive after so many minutes and active in the last five."""
    lately = {
        one.actor
        for one in journal
        if (minutes - 5) * 60 < one.at < minutes * 60 and one.what == "began"
    }
    assert {"multivolume", *(profile.name for profile in CHAOS)} <= set(alive)
    assert {"chaos-network-blocker", "chaos-network-degrader", "chaos-vm-reboter"} <= lately
    assert {"pod-destroyer/app=agent", "pod-destroyer/app=controller"} <= lately
    made = {one.data["volume"] for one in journal if one.what == "volume"}
    there = {name for name in made if name in alive}
    assert there
    for role in ("volume-resizer", "volume-replica-destroyer", "volume-replica-creator"):
        assert {name.partition("/")[2] for name in alive if name.startswith(f"{role}/")} == there
        assert any(who.startswith(f"{role}/") for who in lately)
    given_back = {
        one.data["volume"]
        for one in journal
        if one.what == "began" and one.data["action"] == "detach everywhere"
    }
    assert {
        name.partition("/")[2] for name in alive if name.startswith("volume-attacher/")
    } >= there - given_back


def assert_changes_are_true(truth, journal):
    """Check that each recorded state is a true one, in order; some may have been missed."""
    noted = {}
    for one in journal:
        if one.what == "condition-changed":
            noted.setdefault((one.data["volume"], one.data["condition"]), []).append(
                one.data["observed"] == "True"
            )
    assert len(noted) > 10
    for key, states in noted.items():
        was = iter(truth[key])
        assert True in was
        assert all(state in was for state in states), (key, states, truth[key])
