"""Pods, each with the line that a real server prints for it."""

import pytest

from pytest_kscen.embedded.apiserver.wire.tables import Printer
from pytest_kscen.embedded.apiserver.wire.tables.workloads import POD_COLUMNS
from pytest_kscen.embedded.apiserver.wire.tables.workloads import pod_row_conditions as conditions

NOW = 1767225600.0 + 3600
RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
AGO_100S, AGO_50M = "2026-01-01T00:58:20Z", "2026-01-01T00:10:00Z"
READY, INITIALIZED = {"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "True"}
UNREADY = {"type": "Ready", "status": "False"}


def waiting(reason):
    return {"waiting": {"reason": reason}}


def ended(code, reason="", signal=0):
    return {"terminated": {"exitCode": code, "reason": reason, "signal": signal}}


def status(name, state, *, ready=False, restarts=0, last="", started=False):
    last_state = {"terminated": {"exitCode": 1, "finishedAt": last}} if last else {}
    return {
        "name": name, "state": state, "ready": ready, "restartCount": restarts, "lastState": last_state, "started": started
    }  # fmt: skip


def pod(phase, *containers, inits=(), conditions=(), spec=None, deleted=False, **more):
    metadata = {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"}
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:59:00Z"
    return {
        "metadata": metadata,
        "spec": {"containers": [{"name": "a"}, {"name": "b"}], **(spec or {})},
        "status": {
            "phase": phase,
            "containerStatuses": list(containers),
            "initContainerStatuses": list(inits),
            "conditions": list(conditions),
            **more,
        },
    }


INITS = {"initContainers": [{"name": "i"}, {"name": "j"}]}
SIDECAR = {"initContainers": [{"name": "i", "restartPolicy": "Always"}]}
SIDECAR_AND_INIT = {"initContainers": [{"name": "i", "restartPolicy": "Always"}, {"name": "j"}]}
GATED = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
BOTH = (
    status("a", RUNNING, ready=True),
    status("b", RUNNING, ready=True, restarts=3, last=AGO_100S),
)


@pytest.mark.parametrize(
    ("pod", "cells"),
    [
        (pod("Pending"), ("0/2", "Pending", "0")),
        (pod("Running", *BOTH, conditions=[READY]), ("2/2", "Running", "3 (100s ago)")),
        (
            pod(
                "Running",
                status("a", RUNNING, ready=True),
                status("b", waiting("CrashLoopBackOff"), restarts=5, last=AGO_50M),
            ),
            ("1/2", "CrashLoopBackOff", "5 (50m ago)"),
        ),
        (
            pod(
                "Succeeded", status("a", ended(0, "Completed")), status("b", ended(0, "Completed"))
            ),
            ("0/2", "Completed", "0"),
        ),
        (
            pod(
                "Running",
                status("a", ended(0, "Completed")),
                status("b", RUNNING, ready=True),
                conditions=[READY],
            ),
            ("1/2", "Running", "0"),
        ),
        (
            pod(
                "Running",
                status("a", ended(0, "Completed")),
                status("b", RUNNING, ready=True),
                conditions=[UNREADY],
            ),
            ("1/2", "NotReady", "0"),
        ),
        (
            pod("Running", status("a", ended(0, "Completed")), status("b", ended(2, "Error"))),
            ("0/2", "Error", "0"),
        ),
        (pod("Failed", reason="Evicted"), ("0/2", "Evicted", "0")),
        (
            pod("Failed", status("a", ended(0, signal=9)), status("b", ended(7))),
            ("0/2", "Signal:9", "0"),
        ),
        (pod("Pending", inits=[status("i", RUNNING)], spec=INITS), ("0/2", "Init:0/2", "0")),
        (
            pod(
                "Pending",
                inits=[status("i", ended(0)), status("j", waiting("ErrImagePull"), restarts=2)],
                spec=INITS,
            ),
            ("0/2", "Init:ErrImagePull", "2"),
        ),
        (
            pod("Pending", inits=[status("i", ended(0)), status("j", ended(1))], spec=INITS),
            ("0/2", "Init:ExitCode:1", "0"),
        ),
        (
            pod("Pending", inits=[status("i", ended(1, "Error"))], spec=INITS),
            ("0/2", "Init:Error", "0"),
        ),
        (
            pod(
                "Running",
                status("a", RUNNING, ready=True),
                status("b", RUNNING, ready=True, restarts=1, last=AGO_50M),
                inits=[status("i", RUNNING, ready=True, restarts=2, last=AGO_100S, started=True)],
                conditions=[READY, INITIALIZED],
                spec=SIDECAR,
            ),
            ("3/3", "Running", "3 (100s ago)"),
        ),
        (
            pod(
                "Pending",
                inits=[status("i", RUNNING, ready=True, started=True), status("j", RUNNING)],
                spec=SIDECAR_AND_INIT,
            ),
            ("1/3", "Init:1/2", "0"),
        ),
        (pod("Pending", conditions=[GATED]), ("0/2", "SchedulingGated", "0")),
        (pod("Running", *BOTH, deleted=True), ("2/2", "Terminating", "3 (100s ago)")),
        (pod("Running", reason="NodeLost", deleted=True), ("0/2", "Unknown", "0")),
        (pod("Succeeded", deleted=True), ("0/2", "Succeeded", "0")),
    ],
)
def test_pod_cells(pod, cells):
    row = Printer(POD_COLUMNS, NOW).of_one(pod)["rows"][0]
    assert row["cells"][:5] == ["p", *cells, "60m"]


def test_wide_pod_cells():
    gates = {
        "readinessGates": [{"conditionType": "x/y"}, {"conditionType": "x/z"}],
        "nodeName": "n",
    }
    one = pod(
        "Running",
        conditions=[{"type": "x/y", "status": "True"}],
        spec=gates,
        podIPs=[{"ip": "10.0.0.1"}],
    )
    assert Printer(POD_COLUMNS, NOW).of_one(one)["rows"][0]["cells"][5:] == [
        "10.0.0.1",
        "n",
        "<none>",
        "1/2",
    ]
    assert (
        Printer(POD_COLUMNS, NOW).of_one(pod("Running"))["rows"][0]["cells"][5:] == ["<none>"] * 4
    )


def test_finished_pod_row_has_condition():
    assert conditions(pod("Running")) == []
    assert conditions(pod("Succeeded"))[0]["type"] == "Completed"
    assert (
        Printer(POD_COLUMNS, NOW).of_one(pod("Failed"))["rows"][0]["conditions"][0]["reason"]
        == "Failed"
    )
