"""Actors on the simulated storage of the embedded cluster."""

from __future__ import annotations

import pytest

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.journal import Journal
from pytest_kscen.kube.actor import RunContext
from pytest_kscen.megatest.churn import Churn
from pytest_kscen.megatest.view import RunState
from pytest_kscen.megatest.volume import multivolume
from pytest_kscen.objects.storage import (
    HEALTH_SOURCES,
    REPLICATED_VOLUME_ATTACHMENTS,
    REPLICATED_VOLUME_REPLICAS,
    REPLICATED_VOLUMES,
)
from pytest_kscen.run.runner import bring_storage


@pytest.mark.parametrize(
    ("generation", "shakers"),
    [("conditions", False), ("conditions", True), ("effectiveLayout", False), ("ready", False)],
    ids=["calm", "shaken", "effectiveLayout", "ready"],
)
def test_five_minutes(generation, shakers):
    cluster = EmbeddedCluster("actors")
    bring_storage(cluster, generation)
    runner, state = cluster.runner, RunState()
    journal = Journal(runner.clock)
    context = RunContext(
        cluster.api,
        runner.clock,
        cluster.chance,
        journal,
        "run1",
        health=HEALTH_SOURCES[generation],
    )
    churn = Churn(
        max_volumes=2,
        lifetime=(60.0, 120.0),
        resizer=shakers,
        replica_destroyer=shakers,
        replica_creator=shakers,
    )
    runner.start(multivolume(context, churn, state), "multivolume")
    runner.advance(300)
    state.counters_frozen.give()
    state.cleanup_started.give()
    runner.advance(120)
    entries = list(journal)
    ended = [entry.data for entry in entries if entry.what == "ended"]
    assert {one["result"] for one in ended} <= {"done", "stopped"}, [
        one for one in ended if one["result"] not in {"done", "stopped"}
    ]
    assert {"attach", "detach", "delete the volume"} <= {one["action"] for one in ended}
    assert (
        {"create a replica", "delete a replica", "resize the volume"}
        <= {one["action"] for one in ended}
    ) is shakers
    assert len([entry for entry in entries if entry.what == "ready"]) >= 4
    if not shakers:
        assert [entry for entry in entries if entry.what == "condition-changed"] == []
    for resource in (REPLICATED_VOLUMES, REPLICATED_VOLUME_REPLICAS, REPLICATED_VOLUME_ATTACHMENTS):
        assert runner.call(cluster.api("test").list(resource)).items == []
    journal.close()
    cluster.close()
