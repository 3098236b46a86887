"""When an agent tells what its kernel says: bad news and answers at once, the rest together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_kscen.models.storage.agent import ARRIVES, GOES, LATEST, PROGRESS_EVERY, Pace
from pytest_kscen.models.storage.drbd import Connection, Disk, Replication, Role, State, Status
from pytest_kscen.models.storage.volume_view import Address, Replica

ANSWER = ("Diskful", Address("10.0.0.1", 7000), "", 0, False)
REPLICA = Replica(
    {},
    "v-0",
    "node-1",
    "Diskful",
    leaving=False,
    held=True,
    in_quorum=True,
    in_sync=True,
    initialized=True,
)
LINKED = Connection(State.CONNECTED, Role.SECONDARY, Disk.UP_TO_DATE, Replication.ESTABLISHED)
LOST = Connection(State.CONNECTING)
WELL = Status(
    Role.SECONDARY, Disk.UP_TO_DATE, 1024, True, False, {"node-2": LINKED, "node-3": LINKED}
)
FILLING = Connection(
    State.CONNECTED, Role.SECONDARY, Disk.UP_TO_DATE, Replication.SYNC_TARGET, 50.0, 512
)


def linked(**links):
    return WELL._replace(connections={name.replace("_", "-"): link for name, link in links.items()})


@pytest.mark.parametrize(
    ("status", "wait"),
    [
        (WELL, 0),
        (WELL._replace(role=Role.PRIMARY), 0),
        (WELL._replace(quorum=False), 0),
        (WELL._replace(disk_state=Disk.OUTDATED), 0),
        (WELL._replace(suspended=True), 0),
        (linked(node_2=LINKED, node_3=LOST), GOES),
        (linked(node_2=LINKED, node_3=LINKED, node_4=LOST), ARRIVES),
        (linked(node_2=LINKED, node_3=LINKED, node_4=LOST)._replace(quorum=False), ARRIVES),
        (linked(node_2=LINKED, node_3=LINKED, node_4=LINKED), 0),
        (linked(node_2=LINKED), LATEST),
        (linked(node_2=LINKED, node_3=LINKED._replace(peer_role=Role.PRIMARY)), LATEST),
        (linked(node_2=LINKED, node_3=FILLING), PROGRESS_EVERY),
    ],
)
def test_how_long_news_may_wait(status, wait):
    pace = Pace()
    pace.tell(REPLICA, WELL, ANSWER)
    assert pace.wait(REPLICA, status, ANSWER, 100.0) == wait
    assert pace.wait(REPLICA, status, ANSWER, 100.0 + wait) == 0


def test_only_what_is_told_sooner_than_it_was_going_to_be_wants_a_look_of_its_own():
    pace = Pace()
    pace.tell(REPLICA, WELL, ANSWER)
    assert pace.sooner(REPLICA, linked(node_2=LINKED), 100.0) == LATEST
    assert pace.sooner(REPLICA, linked(node_2=LINKED, node_4=LOST), 101.0) == ARRIVES - 1
    assert pace.sooner(REPLICA, linked(node_2=LINKED), 102.0) is None
    assert pace.sooner(REPLICA, linked(node_2=LINKED, node_4=LOST), 103.0) is None
    assert pace.sooner(REPLICA, WELL._replace(suspended=True), 104.0) == 0
    pace.tell(REPLICA, WELL._replace(suspended=True), ANSWER)
    assert pace.sooner(REPLICA, linked(node_2=LINKED)._replace(suspended=True), 105.0) == LATEST


def test_what_is_again_as_it_was_told_wants_no_look():
    pace = Pace()
    pace.tell(REPLICA, WELL, ANSWER)
    assert pace.sooner(REPLICA, WELL, 99.0) is None
    assert pace.sooner(REPLICA, linked(node_2=LINKED, node_3=LOST), 100.0) == GOES
    assert pace.sooner(REPLICA, WELL, 100.5) is None
    assert pace.sooner(REPLICA, linked(node_2=LINKED, node_3=LOST), 100.7) == GOES


def test_who_gave_orders_is_answered_at_once():
    pace = Pace()
    pace.tell(REPLICA, WELL, ANSWER)
    answer = (*ANSWER[:-1], True)
    assert pace.wait(REPLICA, linked(node_2=LINKED, node_3=LOST), answer, 100.0) == 0


def test_a_new_agent_contradicts_what_the_api_says_and_else_waits():
    coming = linked(node_2=LINKED, node_3=LOST)
    new = replace(REPLICA, in_quorum=False, in_sync=False)
    assert Pace().wait(new, coming, ANSWER, 0.0) == ARRIVES
    assert Pace().wait(replace(new, initialized=False), coming, ANSWER, 0.0) == 0, (
        "that it has the volume's first data"
    )
    assert Pace().wait(new, WELL, ANSWER, 0.0) == 0
    assert Pace().wait(REPLICA, coming, ANSWER, 0.0) == ARRIVES
    assert Pace().wait(REPLICA, coming._replace(quorum=False), ANSWER, 0.0) == 0
    assert Pace().wait(REPLICA, coming._replace(disk_state=Disk.INCONSISTENT), ANSWER, 0.0) == 0
