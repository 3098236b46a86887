"""Conditions that tolerate an overdue request, and conditions that do not."""

from __future__ import annotations

import pytest

from pytest_kscen.megatest.actors import resize
from pytest_kscen.megatest.churn import Growth
from pytest_kscen.megatest.subject import attach
from pytest_kscen.objects.storage import HEALTH_SOURCES, REPLICATED_VOLUME_REPLICAS

LATE = "failed: TimeoutError('v was not attached to {node} within 300 s')"
HINDERED = (
    "failed: HinderedError('v was not attached to {node} within 300 s: v-0 is being deleted')"
)


@pytest.fixture
def deleted(world):
    """Findings while the disk on node-1 is being deleted and nothing is attached or grows; the
    health source is a parameter.
    """
    world.storage.attaches = False
    world.storage._grow = lambda volume: world.runner.clock.sleep(0)
    world.volume()
    world.advance(10)
    world.ask(
        world.api.patch(
            REPLICATED_VOLUME_REPLICAS, "v-0", {"metadata": {"finalizers": ["held/back"]}}
        )
    )
    world.ask(world.api.delete(REPLICATED_VOLUME_REPLICAS, "v-0"))
    return lambda source: world.subject(health=HEALTH_SOURCES[source])


def results(world):
    return [(at, data["result"]) for at, _, data in world.notes("ended")]


@pytest.mark.parametrize(
    ("source", "node", "result"),
    [
        ("conditions", "node-1", LATE),
        ("effectiveLayout", "node-1", HINDERED),
        ("ready", "node-1", HINDERED),
        ("ready", "node-2", LATE),  # it has a disk of its own
    ],
)
def test_disk_being_deleted_tolerates_newer_storage_on_its_node(
    world, deleted, source, node, result
):
    rv = deleted(source)
    with pytest.raises(TimeoutError if result == LATE else OSError, match="was not attached"):
        world.ask(attach(rv, rv.actor("volume-attacher"), node))
    assert results(world) == [(310, result.format(node=node))]


@pytest.mark.parametrize(("source", "why"), [("conditions", ""), ("ready", "HinderedError")])
def test_disk_being_deleted_tolerates_a_resize_of_newer_storage(world, deleted, source, why):
    world.start(resize(deleted(source), Growth((20.0, 20.0), ("2Mi", "2Mi"), "1Gi")))
    world.advance(320)
    ((at, result),) = results(world)
    assert at == 330
    assert result.startswith(
        f"failed: {why or 'TimeoutError'}('v did not grow to 10Mi within 300 s"
    )
