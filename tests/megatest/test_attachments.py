"""Times at which a volume counts as attached and as detached, to the second."""

from __future__ import annotations

import asyncio

import pytest
from tiny_storage import ATTACHING, DETACHING

from pytest_kscen.megatest.subject import (
    attach,
    attachment_name,
    detach,
    detach_everywhere,
    record_arrivals,
    request_attachment,
)
from pytest_kscen.objects.storage import REPLICATED_VOLUME_ATTACHMENTS

LATER = 3  # seconds
NAME = attachment_name("v", "node-1")


@pytest.fixture
def rv(world):
    """The volume, attached to node-1 at 10 s."""
    world.volume()
    subject = world.subject()
    world.ask(request_attachment(subject, subject.actor("somebody"), "node-1"))
    world.advance(10)
    return subject


@pytest.mark.parametrize(
    "act",
    [lambda rv, actor: detach(rv, actor, "node-1"), detach_everywhere],
    ids=["from one node", "from everywhere"],
)
def test_detachment_ends_when_the_volume_reports_it(world, rv, act):
    """The attachment object is deleted earlier."""
    detached, tasks = world.storage._attached, []

    async def later(spec, *, there):
        await world.runner.clock.sleep(LATER)
        await detached(spec, there=there)

    async def at_once(spec, *, there):
        tasks.append(asyncio.get_running_loop().create_task(later(spec, there=there)))

    world.storage._attached = at_once
    world.ask(act(rv, rv.actor("volume-attacher")))
    assert world.now == 10 + DETACHING + LATER
    assert world.names(REPLICATED_VOLUME_ATTACHMENTS) == []


def test_ready_attachment_is_the_one_that_was_created(world, rv):
    """An earlier attachment of the same name, which the view still shows, does not count."""

    async def again():
        await world.api.patch(REPLICATED_VOLUME_ATTACHMENTS, NAME, {"metadata": {"finalizers": []}})
        await world.api.delete(REPLICATED_VOLUME_ATTACHMENTS, NAME)
        await attach(rv, rv.actor("volume-attacher"), "node-1")

    world.ask(again())
    assert world.now == 10 + ATTACHING


def test_attachment_of_the_same_name_by_others_is_not_an_initial_one(world, rv):
    actor = rv.actor("volume-main")
    with record_arrivals(rv, actor, ["another"]):
        pass
    assert world.notes("attached") == []
    with record_arrivals(rv, actor, [rv.watch.attachments("v")[0]["metadata"]["uid"]]):
        pass
    assert world.notes("attached") == [(10, "attached", {"volume": "v", "node": "node-1"})]
