"""Leftovers of a killed run are cleared before a run by hand; foreign objects are kept."""

from __future__ import annotations

import warnings

import pytest

from pytest_kscen.chaos.clients import add_rule, job, sweep_node
from pytest_kscen.chaos.network_blocks import deny_policy
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.megatest.churn import Churn
from pytest_kscen.objects.resources import CILIUM_NETWORK_POLICIES, JOBS
from pytest_kscen.objects.storage import REPLICATED_VOLUMES
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.preflight import ForeignVolumesWarning
from pytest_kscen.run.runner import ScenarioRunner, bring_storage

DEAD, GO, THEIRS = (
    {"kscen.io/run": "dead0000"},
    {"chaos.megatest/type": "split-brain"},
    {"app": "theirs"},
)


@pytest.fixture
def cluster():
    cluster = EmbeddedCluster("earlier")
    yield cluster
    cluster.close()


@pytest.mark.parametrize("churn", [Churn(max_volumes=5), Churn(max_volumes=5, pod_destroyer=True)])
def test_run_without_chaos_clears_leftovers_without_blaming_the_storage(cluster, churn):
    parent = cluster.parent()
    policy = deny_policy("dead", parent.namespace, ["node-1"], ["node-2", "node-3"], labels=DEAD)
    cluster.runner.call(parent.api_for("earlier").create(CILIUM_NETWORK_POLICIES, policy))
    runner = ScenarioRunner(cluster, Plan(churn), parent=lambda: parent)
    assert runner.run("20m").verdict == "valid"
    assert cluster.runner.call(parent.api_for("earlier").list(CILIUM_NETWORK_POLICIES)).items == []
    runner.close()


@pytest.mark.parametrize("waited", [20, 600])
def test_losses_by_hand_of_a_killed_run_are_found_at_any_age(cluster, waited):
    dead = ScenarioRunner(cluster, Plan(), parent=cluster.parent)
    run = dead.__enter__()
    run.chaos.losses("node-1", "node-2", 0.5)
    run.signal_handlers.close()  # nobody acts for it any more
    cluster.advance(waited)

    runner = ScenarioRunner(cluster, Plan(), parent=cluster.parent)
    with runner as run:
        swept = [
            (one.data["node"], one.data["rules"])
            for one in run.journal
            if one.what == "rules-swept"
        ]
        assert sorted(swept) == [("node-1", 1), ("node-2", 1)]
    runner.close()
    dead.close()


@pytest.mark.parametrize("churn", [None, Churn(max_volumes=5)])
def test_run_by_hand_clears_leftovers(cluster, churn):
    parent = cluster.parent()
    nested, above = cluster.api("earlier"), parent.api_for("earlier")

    def names(api, resource):
        return [one["metadata"]["name"] for one in cluster.runner.call(api.list(resource)).items]

    for name, labels in (("dead", DEAD), ("go", GO), ("theirs", THEIRS)):
        policy = deny_policy(
            name, parent.namespace, ["node-1"], ["node-2", "node-3"], labels=labels
        )
        cluster.runner.call(above.create(CILIUM_NETWORK_POLICIES, policy))
        script = add_rule(name, "10.0.0.2", 1.0) if labels is DEAD else "true"
        cluster.runner.call(nested.create(JOBS, job(name, "node-1", script, 600, labels)))
    cluster.advance("20s")

    runner = ScenarioRunner(cluster, Plan(churn), parent=lambda: parent)
    with runner as run:
        assert names(above, CILIUM_NETWORK_POLICIES) == ["theirs"]
        assert names(nested, JOBS) == ["theirs"]
        swept = sweep_node(run.context.actor("test"), "look", "node-1", "kscen/", {})
        assert cluster.runner.call(swept) == 0
        assert [
            (one.data["node"], one.data["rules"])
            for one in run.journal
            if one.what == "rules-swept"
        ] == [("node-1", 1)]
    assert run.outcome.leftovers == []
    runner.close()


def leave_rule_and_power_off(cluster):
    """Leave a rule of a killed run on node-1, which is powered off now."""
    cluster.parent()
    leaves = job("dead", "node-1", add_rule("dead", "10.0.0.2", 1.0), 600, DEAD)
    cluster.runner.call(cluster.api("earlier").create(JOBS, leaves))
    cluster.advance("20s")
    cluster.site.machines.power_off("node-1")
    cluster.advance("2m")


def test_booting_machine_is_swept_when_it_is_back(cluster):
    leave_rule_and_power_off(cluster)

    async def boot():
        await cluster.runner.clock.sleep(70)
        cluster.site.machines.power_on("node-1")

    cluster.runner.start(boot(), "boot")
    runner = ScenarioRunner(cluster, Plan(), parent=cluster.parent)
    with runner as run:
        assert [one for one in run.journal if one.what == "not-swept"] == []
        assert 65 < run.journal.now < 75
    assert run.outcome.verdict == "valid"
    runner.close()


def test_unsweepable_machine_makes_the_run_unknown_and_is_left_to_the_next(
    cluster,
):
    leave_rule_and_power_off(cluster)
    runner = ScenarioRunner(cluster, Plan(), parent=cluster.parent)
    for number in (1, 2):
        with runner as run:
            pass
        assert (run.outcome.verdict, run.outcome.leftovers) == ("unknown", [])
        assert [one.data["nodes"] for one in run.journal if one.what == "not-swept"] == [
            ["node-1"]
        ], number
        assert 150 <= run.outcome.lasted < 160
    runner.close()


def leave_volumes(cluster):
    bring_storage(cluster, "conditions")
    for name in "ab":
        metadata = {"name": name, "labels": DEAD}
        body = {
            "metadata": metadata,
            "spec": {"size": "100Mi", "replicatedStorageClassName": "availability"},
        }
        cluster.runner.call(cluster.api("dead").create(REPLICATED_VOLUMES, body))


def test_volumes_of_other_runs_on_an_owned_cluster_are_not_reported(cluster):
    leave_volumes(cluster)
    runner = ScenarioRunner(cluster, Plan())
    with warnings.catch_warnings(record=True) as reported, runner:
        pass
    assert [each for each in reported if each.category is ForeignVolumesWarning] == []
    runner.close()


def test_volumes_of_other_runs_on_a_foreign_cluster_are_reported_with_the_remedy(
    cluster,
):
    leave_volumes(cluster)
    cluster.owned = False
    runner = ScenarioRunner(cluster, Plan())
    with pytest.warns(ForeignVolumesWarning) as reported, runner:
        pass
    assert [str(warning.message) for warning in reported] == [
        (
            "2 volumes of other runs are on the tested cluster, and take capacity and time "
            "from this run's; if these runs are over: "
            "kubectl delete replicatedvolumeattachments,replicatedvolumes -l "
            "'kscen.io/run in (dead0000)'"
        )
    ]
    runner.close()
