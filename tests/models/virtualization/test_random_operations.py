"""Random operations on machines all finish, and machines end in the required state."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st
from machine_cluster import MachineCluster

from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import PODS
from pytest_kscen.objects.virtualization import FINISHED

VMS = st.sampled_from(["node-1", "node-2"])
DESTROY = "destroy its pods"
DEEDS = st.tuples(
    st.sampled_from(["Restart", "Stop", "Start", "Migrate", "Evict", DESTROY]), VMS, st.booleans()
)
STEPS = st.lists(
    st.tuples(DEEDS, st.sampled_from([0.0, 0.5, 3.0, 8.0, 20.0, 90.0])), min_size=1, max_size=12
)


def do(machine_cluster, name, deed):
    kind, vm, force = deed
    if kind != DESTROY:
        machine_cluster.operate(kind, vm, name=name, force=force and kind != "Start")
        return
    for pod in machine_cluster.pods(vm):
        with contextlib.suppress(NotFound):
            machine_cluster.call(
                machine_cluster.api.delete(
                    PODS, pod["metadata"]["name"], "vms", grace_period=0 if force else None
                )
            )


@settings(max_examples=6, deadline=None)
@given(STEPS)
def test_random_operations_all_finish(steps):
    machine_cluster = MachineCluster("whatever")
    with contextlib.closing(machine_cluster.cluster):
        for number, (deed, pause) in enumerate(steps):
            do(machine_cluster, f"op-{number}", deed)
            machine_cluster.advance(pause)
        machine_cluster.advance(400)
        for number, ((kind, *_), _) in enumerate(steps):
            assert kind == DESTROY or machine_cluster.phase_of(f"op-{number}") in FINISHED
        for vm in ("node-1", "node-2", "node-3"):
            phase = machine_cluster.phase(vm)
            assert phase in ("Running", "Stopped")
            assert (
                machine_cluster.machines[vm].powered
                == (phase == "Running")
                == (len(machine_cluster.pods(vm)) == 1)
            )
