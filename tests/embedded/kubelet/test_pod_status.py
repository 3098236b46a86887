import pytest

from pytest_kscen.embedded.kubelet.container_status import ContainerRecord
from pytest_kscen.embedded.kubelet.pod_status import (
    PodFacts,
    PodFailureReason,
    may_restart,
    phase_of,
    status_of,
)
from pytest_kscen.embedded.kubelet.timings import RestartBackoff, go_duration

NOW = "2026-01-01T00:00:00Z"
WAITING, RUNNING = {"waiting": {"reason": "ContainerCreating"}}, {"running": {"startedAt": NOW}}


def ended(code):
    return {"terminated": {"exitCode": code}}


def crashing(code):
    return WAITING, ended(code)


def record(name, state, last=None, *, init=False, **spec):
    begun = "running" in state or "terminated" in state or last
    made = ContainerRecord(
        {"name": name, "image": "app:1", **spec},
        name,
        is_init=init,
        state=state,
        last_state=last or {},
    )
    made.id = "containerd://1" if begun else ""
    made.started = "running" in state
    made.ready = made.started or (init and state.get("terminated", {}).get("exitCode") == 0)
    return made


def pod(policy="Always", phase="Pending", **spec):
    return {
        "metadata": {"name": "p", "uid": "u"},
        "spec": {"restartPolicy": policy, **spec},
        "status": {"phase": phase},
    }


def facts(*records, **more):
    return PodFacts(list(records), "172.18.0.2", NOW, **more)


@pytest.mark.parametrize(
    ("policy", "mains", "phase"),
    [
        ("Always", [(WAITING, None)], "Pending"),
        ("Always", [(RUNNING, None)], "Running"),
        ("Always", [(RUNNING, None), (WAITING, None)], "Pending"),
        ("Always", [(ended(0), None)], "Running"),
        ("Always", [crashing(1)], "Running"),
        ("OnFailure", [(ended(1), None)], "Running"),
        ("OnFailure", [(ended(0), None)], "Succeeded"),
        ("OnFailure", [(ended(0), None), (ended(1), None)], "Running"),
        ("Never", [(ended(0), None)], "Succeeded"),
        ("Never", [(ended(0), None), (ended(1), None)], "Failed"),
        ("Never", [(ended(1), None), (RUNNING, None)], "Running"),
    ],
)
def test_phase_from_containers(policy, mains, phase):
    records = [record(f"c{number}", state, last) for number, (state, last) in enumerate(mains)]
    assert phase_of(pod(policy), facts(*records)) == phase


@pytest.mark.parametrize(
    ("policy", "init", "phase"),
    [
        ("Always", (WAITING, None), "Pending"),
        ("Always", (RUNNING, None), "Pending"),
        ("Always", crashing(1), "Pending"),
        ("Never", (ended(1), None), "Failed"),
        ("Never", (ended(0), None), "Pending"),
    ],
)
def test_phase_during_init_containers(policy, init, phase):
    assert (
        phase_of(pod(policy), facts(record("i", *init, init=True), record("c", WAITING))) == phase
    )


def test_finished_pod_has_final_phase():
    assert phase_of(pod(), facts(record("c", ended(0)), over=True)) == "Succeeded"
    assert phase_of(pod(), facts(record("c", ended(137)), over=True)) == "Failed"
    assert phase_of(pod(), facts(record("c", WAITING), over=True)) == "Failed"
    assert (
        phase_of(
            pod(),
            facts(
                record("c", ended(0)),
                over=True,
                failure=PodFailureReason("DeadlineExceeded", "late"),
            ),
        )
        == "Failed"
    )


def test_final_phase_is_kept():
    assert phase_of(pod(phase="Failed"), facts(record("c", RUNNING))) == "Failed"


def test_unknown_final_state_is_failure():
    status = status_of(
        pod(), facts(record("a", ended(0)), record("b", WAITING, ended(1)), over=True), NOW
    )
    states = [one["state"]["terminated"].get("reason") for one in status["containerStatuses"]]
    assert states == [None, "ContainerStatusUnknown"]


@pytest.mark.parametrize(
    ("spec", "policy", "code", "again"),
    [
        ({}, "Always", 0, True),
        ({}, "OnFailure", 0, False),
        ({}, "OnFailure", 1, True),
        ({}, "Never", 1, False),
        ({"restartPolicy": "Never"}, "Always", 1, False),
        (
            {
                "restartPolicyRules": [
                    {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
                ]
            },
            "Never",
            42,
            True,
        ),
        (
            {
                "restartPolicyRules": [
                    {"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [42]}}
                ]
            },
            "Never",
            42,
            False,
        ),
    ],
)
def test_restart_decision(spec, policy, code, again):
    assert may_restart(pod(policy), record("c", ended(code), **spec), code) is again


def test_succeeded_init_container_is_not_restarted():
    assert not may_restart(pod(), record("i", ended(0), init=True), 0)


def test_backoff_is_reset_after_ten_minutes():
    backoff = RestartBackoff()
    assert [backoff.next(now) for now in (0, 1, 20)] == [0, 10, 20]
    assert backoff.next(1000) == 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.8, "800ms"), (1, "1s"), (10, "10s"), (80, "1m20s"), (300, "5m0s"), (3725.5, "1h2m5.5s")],
)
def test_durations_are_formatted_as_in_go(seconds, text):
    assert go_duration(seconds) == text
