"""Health of a volume as reported by three generations of the storage."""

from __future__ import annotations

import pytest

from pytest_kscen.objects.storage import HEALTH_SOURCES, Observed


def conditions(**statuses):
    return {
        "status": {
            "conditions": [
                {"type": name, "status": status, "reason": "R"} for name, status in statuses.items()
            ]
        }
    }


def layout(**levels):
    return {"status": {"effectiveLayout": {"totalVoters": 3, "message": "m", **levels}}}


def test_health_source_names():
    assert {name: source.conditions for name, source in HEALTH_SOURCES.items()} == {
        "conditions": ("IOReady", "Quorum"),
        "effectiveLayout": ("QuorumMet", "IOWorks"),
        "ready": ("Ready",),
    }


@pytest.mark.parametrize("source", HEALTH_SOURCES.values(), ids=list(HEALTH_SOURCES))
@pytest.mark.parametrize(
    "volume",
    [None, {}, {"status": None}, {"status": {}}, {"status": {"conditions": None}}],
    ids=str,
)
def test_volume_without_status_is_not_ready(source, volume):
    assert source.read(volume) == {}
    assert not source.is_ready(volume)


@pytest.mark.parametrize(
    ("source", "volume", "seen", "ready"),
    [
        (
            "conditions",
            conditions(IOReady="True", Other="False"),
            {"IOReady": Observed("True", "R")},
            False,
        ),
        (
            "conditions",
            conditions(IOReady="True", Quorum="True"),
            {"IOReady": Observed("True", "R"), "Quorum": Observed("True", "R")},
            True,
        ),
        (
            "ready",
            conditions(Ready="False", IOReady="True"),
            {"Ready": Observed("False", "R")},
            False,
        ),
        (
            "ready",
            conditions(Ready="True", Resilient="False"),
            {"Ready": Observed("True", "R")},
            True,
        ),
        ("effectiveLayout", layout(totalVoters=0), {}, False),
        (
            "effectiveLayout",
            layout(failuresToTolerate=0, guaranteedMinimumDataRedundancy=0),
            {
                "QuorumMet": Observed("True", "QuorumMet", "m"),
                "IOWorks": Observed("True", "IOWorks", "m"),
            },
            True,
        ),
        (
            "effectiveLayout",
            layout(failuresToTolerate=-1, guaranteedMinimumDataRedundancy=-2),
            {
                "QuorumMet": Observed("False", "QuorumLost", "m"),
                "IOWorks": Observed("False", "InsufficientUpToDateReplicas", "m"),
            },
            False,
        ),
        (
            "effectiveLayout",
            layout(failuresToTolerate=1),
            {
                "QuorumMet": Observed("True", "QuorumMet", "m"),
                "IOWorks": Observed("Unknown", "StatusUnknown", "m"),
            },
            False,
        ),
    ],
)
def test_health_is_read_from_status(source, volume, seen, ready):
    assert HEALTH_SOURCES[source].read(volume) == seen
    assert HEALTH_SOURCES[source].is_ready(volume) is ready
