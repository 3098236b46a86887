"""Workflows that observe a Service by StatusChecks and by probes during chaos."""

from __future__ import annotations

import pytest

from pytest_kscen.objects.chaos_mesh import SHIPPED

URL = "http://web.default/"


def service(run, **annotations):
    reported = {f"kscen.io/http-{name}": value for name, value in annotations.items()}
    container = {"name": "c", "image": "web:1", "ports": [{"containerPort": 8080}]}
    run.apply(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}, "annotations": reported},
                    "spec": {"containers": [container]},
                },
            },
        },
        available_within="2m",
    )
    run.advance("2s")  # for the endpoints


def workflow(entry, *templates, **spec):
    return {
        "apiVersion": "chaos-mesh.org/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "w"},
        "spec": {"entry": entry, "templates": list(templates), **spec},
    }


def template(name, kind, **fields):
    return {"name": name, "templateType": kind, **fields}


def status_check(name, *, deadline=None, abort=None, **body):
    http = {"url": URL, "criteria": {"statusCode": "200"}}
    more = {"deadline": deadline, "abortWithStatusCheck": abort}
    fields = {key: value for key, value in more.items() if value is not None}
    return template(
        name, "StatusCheck", statusCheck={"type": "HTTP", "http": http, **body}, **fields
    )


@pytest.fixture
def play(scenario_runner):
    def play(obj, **annotations):
        with scenario_runner as run:
            service(run, **annotations)
            create_workflow = run.workflow(obj)
            run.until(create_workflow.finished, timeout="1h")
        assert run.outcome.leftovers == []
        return create_workflow

    return play


def test_synchronous_check_passes_after_an_interval(play):
    played = play(workflow("check", status_check("check", mode="Synchronous", intervalSeconds=5)))
    assert (played.phase, played.duration) == ("Succeed", 5)


def test_continuous_check_lasts_until_its_deadline(play):
    played = play(workflow("check", status_check("check", mode="Continuous", deadline="33s")))
    assert (played.phase, played.duration) == ("Succeed", 33)


def test_failed_check_is_ignored_by_default(play):
    entry = template("entry", "Serial", children=["check", "after"])
    check = status_check("check", mode="Continuous", intervalSeconds=1, deadline="1m")
    played = play(
        workflow("entry", entry, check, template("after", "Suspend", deadline="1s")), status="503"
    )
    assert (played.phase, played.duration, played.node("check").duration) == ("Succeed", 4, 3)
    assert "the status check has failed" in played.node("check").message


def test_failed_check_aborts_if_configured(play):
    entry = template("entry", "Parallel", children=["check", "long"])
    check = status_check("check", mode="Continuous", intervalSeconds=1, deadline="1m", abort=True)
    played = play(
        workflow("entry", entry, check, template("long", "Suspend", deadline="10m")), status="503"
    )
    assert (played.phase, played.duration, played.node("long").phase) == ("Failed", 3, "Failed")
    why = (
        "the status check has failed: FailureThresholdExceed: http://web.default/ answered "
        "503, and 200 was expected"
    )
    assert played.message == f"check: {why}"
    assert played.node("check").message == why


@pytest.mark.parametrize(
    "late", [{"deadline": "33s"}, {"duration": "33s", "abort": True}], ids=["deadline", "duration"]
)
def test_synchronous_check_not_passing_in_time_fails(play, late):
    check = status_check("check", mode="Synchronous", failureThreshold=1000, **late)
    played = play(workflow("check", check), status="503")
    assert (played.phase, played.node("check").phase, played.duration) == ("Failed", "Failed", 33)


@pytest.mark.parametrize(("action", "score"), [("pod-failure", 0), ("container-kill", 100)])
def test_probe_during_chaos(scenario_runner, action, score):
    chaos = {
        "action": action,
        "mode": "all",
        "selector": {"labelSelectors": {"app": "web"}},
        "containerNames": ["c"],
    }
    probe = {
        "name": "answers",
        "when": "OnChaos",
        "http": {"url": URL},
        "interval": "2s",
        "initialDelay": "4s",
    }
    entry = template("entry", "PodChaos", deadline="20s", podChaos=chaos)
    with scenario_runner as run:
        service(run)
        create_workflow = run.workflow(
            workflow("entry", entry, probes=[{**probe, "stopOnFailure": False}])
        )
        run.until(create_workflow.finished)
        assert (create_workflow.phase, create_workflow.score) == ("Succeed", score)
        (result,) = create_workflow.live["status"]["probes"]
    assert result["count"] == 9  # each two seconds, the fourth and the last included


def test_deleted_workflow_is_not_probed(scenario_runner):
    probe = {"name": "answers", "when": "Continuous", "http": {"url": URL}, "interval": "2s"}
    with scenario_runner as run:
        service(run)
        run.workflow(
            workflow("entry", template("entry", "Suspend", deadline="10m"), probes=[probe])
        )
        run.advance("5s")
        run.call(run.cluster.api("test").delete(SHIPPED.workflows, "w", "default"))
        run.advance("20s")
        asked = [entry.at for entry in run.journal if entry.what == "workflow-probe"]
    assert len(asked) == 3


def test_every_form_of_a_probe_is_admitted(play):
    http = {
        "url": URL,
        "method": "POST",
        "headers": {"A": "b", "C": ["d", "e"]},
        "body": "hi",
        "criteria": {"statusCode": 200},
    }
    pods = {
        "apiVersion": "v1",
        "kind": "Pod",
        "labelSelector": "app=web",
        "expression": "objects.size() == 1",
    }
    command = {
        "container": {"image": "busybox", "command": ["sh", "-c", "echo 7"]},
        "expression": "stdout == '7'",
    }
    forms = {"http": http, "kubernetes": pods, "command": command}
    shared = {
        "when": "Start",
        "timeout": "10s",
        "interval": "1s",
        "initialDelay": "1s",
        "failureThreshold": 2,
        "weight": 2,
    }
    probes = [
        {"name": kind, kind: form, **shared, "stopOnFailure": True} for kind, form in forms.items()
    ]
    played = play(workflow("entry", template("entry", "Suspend", deadline="1s", probes=probes)))
    assert played.phase == "Succeed"
