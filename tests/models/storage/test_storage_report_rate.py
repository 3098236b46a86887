"""Report rate of agents: failures and answers at once, other changes in batches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_kscen.models.storage.agent import (
    CONNECT_GRACE,
    PEER_REMOVAL_GRACE,
    PROGRESS_INTERVAL,
    REPORT_INTERVAL,
    ReportPacing,
)
from pytest_kscen.models.storage.drbd import (
    ConnectionState,
    DiskState,
    PeerConnection,
    ReplicationState,
    ResourceStatus,
    Role,
)
from pytest_kscen.models.storage.volume_view import ReplicaAddress, VolumeReplica

ANSWER = ("Diskful", ReplicaAddress("10.0.0.1", 7000), "", 0, False)
REPLICA = VolumeReplica(
    {},
    "v-0",
    "node-1",
    "Diskful",
    deleting=False,
    held=True,
    in_quorum=True,
    in_sync=True,
    initialized=True,
)
LINKED = PeerConnection(
    ConnectionState.CONNECTED, Role.SECONDARY, DiskState.UP_TO_DATE, ReplicationState.ESTABLISHED
)
LOST = PeerConnection(ConnectionState.CONNECTING)
WELL = ResourceStatus(
    Role.SECONDARY, DiskState.UP_TO_DATE, 1024, True, False, {"node-2": LINKED, "node-3": LINKED}
)
FILLING = PeerConnection(
    ConnectionState.CONNECTED,
    Role.SECONDARY,
    DiskState.UP_TO_DATE,
    ReplicationState.SYNC_TARGET,
    50.0,
    512,
)


def linked(**links):
    return WELL._replace(connections={name.replace("_", "-"): link for name, link in links.items()})


@pytest.mark.parametrize(
    ("status", "wait"),
    [
        (WELL, 0),
        (WELL._replace(role=Role.PRIMARY), 0),
        (WELL._replace(quorum=False), 0),
        (WELL._replace(disk_state=DiskState.OUTDATED), 0),
        (WELL._replace(suspended=True), 0),
        (linked(node_2=LINKED, node_3=LOST), PEER_REMOVAL_GRACE),
        (linked(node_2=LINKED, node_3=LINKED, node_4=LOST), CONNECT_GRACE),
        (linked(node_2=LINKED, node_3=LINKED, node_4=LOST)._replace(quorum=False), CONNECT_GRACE),
        (linked(node_2=LINKED, node_3=LINKED, node_4=LINKED), 0),
        (linked(node_2=LINKED), REPORT_INTERVAL),
        (linked(node_2=LINKED, node_3=LINKED._replace(peer_role=Role.PRIMARY)), REPORT_INTERVAL),
        (linked(node_2=LINKED, node_3=FILLING), PROGRESS_INTERVAL),
    ],
)
def test_report_delay_limits(status, wait):
    pace = ReportPacing()
    pace.record_report(REPLICA, WELL, ANSWER)
    assert pace.delay(REPLICA, status, ANSWER, 100.0) == wait
    assert pace.delay(REPLICA, status, ANSWER, 100.0 + wait) == 0


def test_only_reports_due_earlier_than_planned_need_their_own_check():
    pace = ReportPacing()
    pace.record_report(REPLICA, WELL, ANSWER)
    assert pace.delay_if_sooner(REPLICA, linked(node_2=LINKED), 100.0) == REPORT_INTERVAL
    assert (
        pace.delay_if_sooner(REPLICA, linked(node_2=LINKED, node_4=LOST), 101.0)
        == CONNECT_GRACE - 1
    )
    assert pace.delay_if_sooner(REPLICA, linked(node_2=LINKED), 102.0) is None
    assert pace.delay_if_sooner(REPLICA, linked(node_2=LINKED, node_4=LOST), 103.0) is None
    assert pace.delay_if_sooner(REPLICA, WELL._replace(suspended=True), 104.0) == 0
    pace.record_report(REPLICA, WELL._replace(suspended=True), ANSWER)
    assert (
        pace.delay_if_sooner(REPLICA, linked(node_2=LINKED)._replace(suspended=True), 105.0)
        == REPORT_INTERVAL
    )


def test_state_equal_to_the_reported_one_needs_no_check():
    pace = ReportPacing()
    pace.record_report(REPLICA, WELL, ANSWER)
    assert pace.delay_if_sooner(REPLICA, WELL, 99.0) is None
    assert (
        pace.delay_if_sooner(REPLICA, linked(node_2=LINKED, node_3=LOST), 100.0)
        == PEER_REMOVAL_GRACE
    )
    assert pace.delay_if_sooner(REPLICA, WELL, 100.5) is None
    assert (
        pace.delay_if_sooner(REPLICA, linked(node_2=LINKED, node_3=LOST), 100.7)
        == PEER_REMOVAL_GRACE
    )


def test_requester_is_answered_at_once():
    pace = ReportPacing()
    pace.record_report(REPLICA, WELL, ANSWER)
    answer = (*ANSWER[:-1], True)
    assert pace.delay(REPLICA, linked(node_2=LINKED, node_3=LOST), answer, 100.0) == 0


def test_new_agent_corrects_the_api_state_and_otherwise_waits():
    coming = linked(node_2=LINKED, node_3=LOST)
    new = replace(REPLICA, in_quorum=False, in_sync=False)
    assert ReportPacing().delay(new, coming, ANSWER, 0.0) == CONNECT_GRACE
    assert ReportPacing().delay(replace(new, initialized=False), coming, ANSWER, 0.0) == 0, (
        "that it has the volume's first data"
    )
    assert ReportPacing().delay(new, WELL, ANSWER, 0.0) == 0
    assert ReportPacing().delay(REPLICA, coming, ANSWER, 0.0) == CONNECT_GRACE
    assert ReportPacing().delay(REPLICA, coming._replace(quorum=False), ANSWER, 0.0) == 0
    assert (
        ReportPacing().delay(
            REPLICA, coming._replace(disk_state=DiskState.INCONSISTENT), ANSWER, 0.0
        )
        == 0
    )
