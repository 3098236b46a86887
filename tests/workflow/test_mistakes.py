"""One workflow's mistake is its own: it fails with its reason, in time, and the others go on."""

from __future__ import annotations

import pytest
from theatre import Theatre, suspend, template

from pytest_kscen.objects.workflows import FAILED, SHIPPED, SUCCEED, WORKFLOW_LABEL, phase_of
from pytest_kscen.workflow.manager import WorkflowManager
from pytest_kscen.workflow.retries import LONGEST, Retry


@pytest.fixture
def theatre():
    theatre = Theatre("mistakes")
    yield theatre
    theatre.close()


def begin(theatre):
    theatre.runner.start(WorkflowManager(theatre.actor()).run(), "engine")


def told(theatre, name="w"):
    found = {obj["metadata"]["name"]: obj for obj in theatre.all(SHIPPED.workflows)}[name]
    return phase_of(found), found["status"].get("message", "")


MISTAKES = {
    "a probe that asks nothing": ({"probes": [{"name": "x", "when": "Start"}]}, "needs one of"),
    "a back-off without end": ({"retry": {"limit": 1, "backoff": {"duration": "abc"}}}, "'abc' is no duration"),
    "a back-off that shrinks": ({"retry": {"limit": 1, "backoff": {"duration": "1s", "factor": 0.5}}}, "factor"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_fails_its_workflow_and_no_other(theatre, mistake):
    fields, why = MISTAKES[mistake]
    begin(theatre)
    theatre.put_on("bad", template("bad", "Serial", children=["rest"], **fields), suspend("rest", "2s"))
    theatre.put_on("ok", suspend("ok", "2s"), name="other")
    theatre.runner.advance(10)
    phase, message = told(theatre)
    assert (phase, told(theatre, "other")) == (FAILED, (SUCCEED, ""))
    assert why in message


def test_what_can_only_fail_is_told_before_anything_is_done(theatre):
    begin(theatre)
    theatre.put_on("all", template("all", "Serial", children=["rest", "nobody"]), suspend("rest", "1h"))
    theatre.runner.advance(1)
    phase, message = told(theatre)
    assert (phase, theatre.all(SHIPPED.nodes)) == (FAILED, [])
    assert "there is no template 'nobody'" in message


@pytest.mark.parametrize("metadata", [{}, {"labels": {WORKFLOW_LABEL: "w"}}])
def test_somebody_elses_node_stops_no_engine(theatre, metadata):
    theatre.put_on("rest", suspend("rest", "2s"))
    spec = {"templateName": "rest", "workflowName": "w", "type": "Suspend", "startTime": "2026-01-01T00:00:00Z"}
    theatre.create(SHIPPED.nodes, {"metadata": {"name": "x", "namespace": "default", **metadata}, "spec": spec})
    begin(theatre)
    theatre.runner.advance(5)
    assert told(theatre) == (SUCCEED, "")


def test_what_nobody_has_foreseen_ends_one_workflow(theatre, monkeypatch):
    def break_down(tree, node):
        raise ZeroDivisionError("nobody has foreseen this")

    begin(theatre)
    theatre.put_on("all", template("all", "Serial", children=["rest"], retry={"limit": 2}), suspend("rest", "5s"))
    theatre.put_on("ok", suspend("ok", "20s"), name="other")
    theatre.runner.advance(2)
    monkeypatch.setattr("pytest_kscen.workflow.turns.may_retry", lambda node: break_down(None, node))
    monkeypatch.setattr("pytest_kscen.workflow.trees.Tree.result", lambda *_: break_down(None, None))
    theatre.runner.advance(10)
    monkeypatch.undo()
    theatre.runner.advance(20)
    phase, message = told(theatre)
    assert (phase, told(theatre, "other")[0]) == (FAILED, SUCCEED)
    assert "nobody has foreseen this" in message


def test_a_delay_grows_to_its_limit_and_no_further():
    patient = Retry.of({"limit": 5, "backoff": {"duration": "1s", "factor": 2, "maxDuration": "5s"}})
    assert [patient.delay_before(attempt) for attempt in (2, 3, 4, 5)] == [1, 2, 4, 5]
    assert Retry.of({"limit": 10, "backoff": {"duration": "1s", "factor": 1e60}}).delay_before(99) == LONGEST
