"""In calm weather nothing that a volume says of itself may ever change, whatever is done to it."""

from __future__ import annotations

import pytest
from storage_yard import RVR, Yard

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.journal import Journal
from pytest_kscen.kube.actor import Stage
from pytest_kscen.megatest.churn import Churn
from pytest_kscen.megatest.multivolume import multivolume
from pytest_kscen.megatest.season import Season
from pytest_kscen.objects.volume_health import HEALTH_SOURCES

CLASSES = ("none", "availability", "consistency-and-availability")
MINUTES = 3


def setbacks(yard):
    """Conditions of volumes that were whole once and are not being deleted, as they turn."""
    whole, found = set(), []

    def look(new, _):
        if not new or "deletionTimestamp" in new["metadata"]:
            return
        name, said = new["metadata"]["name"], (new.get("status") or {}).get("conditions") or []
        bad = [(one["type"], one["reason"], one["message"]) for one in said if one["status"] != "True"]
        if bad and name in whole:
            found.append((yard.now, name, bad))
        elif said and not bad:
            whole.add(name)

    yard.plant.volumes.on_change(look)
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("generation", ["conditions", "effectiveLayout", "ready"])
def test_volumes_that_are_attached_moved_and_grown_keep_all_their_conditions(generation, seed):
    cluster = EmbeddedCluster(f"calm {seed}")
    yard, season = Yard(cluster, generation), Season()
    found = setbacks(yard)
    journal = Journal(cluster.runner.clock)
    stage = Stage(cluster.api, cluster.runner.clock, cluster.chance, journal, "run1", health=HEALTH_SOURCES[generation])
    churn = Churn(
        storage_classes=CLASSES,
        max_volumes=5,
        lifetime=(40.0, 80.0),
        attacher_period=(2.0, 10.0),
        resizer=True,
        replica_creator=True,
    )
    cluster.runner.start(multivolume(stage, churn, season), "multivolume")
    yard.advance(60 * MINUTES)
    entries = list(journal)
    cluster.close()
    journal.close()
    assert {"attach", "detach", "create a replica"} <= {one.data["action"] for one in entries if one.what == "ended"}
    assert [one for one in entries if one.what == "condition-changed"] == []
    assert found == []


def test_who_has_not_joined_yet_takes_no_quorum_away(yard):
    (disk,) = yard.ready_volume(storage_class="none")
    found = setbacks(yard)
    one, two = [node for node in yard.node_names if node != disk["spec"]["nodeName"]][:2]
    yard.attach(one)
    yard.attach(two)
    yard.until(lambda: all(yard.of_attachment(node).get("Ready") == ("True", "Ready") for node in (one, two)))
    assert yard.kinds() == "1D2A"
    yard.detach(one)
    yard.until(lambda: yard.kinds() == "1D1A1T" and all(yard.said(RVR, x["metadata"]["name"]) for x in yard.replicas()))
    yard.advance(20)
    assert found == []


@pytest.mark.parametrize("seed", range(4))
def test_what_a_volume_can_lose_is_not_less_because_somebody_is_to_join(yard_of, seed):
    """Attached as soon as it can be, before all of its replicas have told."""
    yard, levels = yard_of("effectiveLayout", seed=f"early {seed}"), []

    def look(new, _):
        if new:
            levels.append((new.get("status") or {}).get("effectiveLayout", {}).get("failuresToTolerate", -1))

    yard.plant.volumes.on_change(look)
    yard.volume(storage_class="availability", maxAttachments=2)
    yard.until(lambda: levels and levels[-1] >= 0)
    reached = len(levels)
    for node in [node for node in yard.node_names if node not in yard.nodes()][:2]:
        yard.attach(node)
    yard.advance(20)
    assert min(levels[reached:]) >= 0
    assert levels[-1] == 1
