"""Internal errors of the storage stop the cluster's clock; a lost lease is a pod crash.

A lease that is lost is a crash.
"""

from __future__ import annotations

import pytest

from pytest_kscen.clock import ActorCrashedError
from pytest_kscen.models.storage.agent import StorageAgent
from pytest_kscen.models.storage.controller import StorageController
from pytest_kscen.objects.resources import LEASES
from pytest_kscen.objects.storage import NAMESPACE

LEASE = "sds-replicated-volume-controller"


@pytest.mark.parametrize(
    ("program", "step", "name"),
    [(StorageController, "_view", "controller"), (StorageAgent, "_manage", "agent")],
)
def test_internal_error_stops_the_cluster_clock(storage_cluster, monkeypatch, program, step, name):
    def mistaken(*_):
        raise KeyError("lost")

    monkeypatch.setattr(program, step, mistaken)
    reported = (
        rf"^the actor kubelet crashed: SimulationError\(\"the simulated {name} in {name}-\S+ "
        r"failed: KeyError\('lost'\)\"\)$"
    )
    with pytest.raises(ActorCrashedError, match=reported):
        storage_cluster.ready_volume()


def test_controller_that_lost_the_lease_restarts(storage_cluster, caplog):
    first = storage_cluster.call(storage_cluster.api.get(LEASES, LEASE, NAMESPACE))["spec"][
        "holderIdentity"
    ]
    storage_cluster.call(
        storage_cluster.api.patch(
            LEASES, LEASE, {"spec": {"holderIdentity": "somebody-else"}}, NAMESPACE
        )
    )
    storage_cluster.advance(20)
    restarts = {
        pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]["restartCount"]
        for pod in storage_cluster.pods("controller")
    }
    assert restarts == {name: int(name == first) for name in restarts}
    assert [record.getMessage() for record in caplog.records] == [f"controller in {first} crashed"]
    caplog.clear()
