"""One workflow's mistake is its own: it fails with its reason, in time, and the others go on."""

from __future__ import annotations

import pytest
from theatre import Theatre, Through, partition, suspend, template

from pytest_kscen.kube.actor import RunContext
from pytest_kscen.kube.in_process import InProcessApi
from pytest_kscen.objects.chaos_mesh import (
    CHAOS_LEFT,
    FAILED,
    KINDS,
    SHIPPED,
    SUCCEED,
    WORKFLOW_LABEL,
    phase_of,
)
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.errors import Forbidden, InternalError
from pytest_kscen.workflow.engine.manager import WorkflowManager
from pytest_kscen.workflow.engine.templates import LONGEST_DELAY, Retry
from pytest_kscen.workflow.engine.trees import Tree

CUT, KILL = KINDS["NetworkChaos"].resource, KINDS["PodChaos"].resource
EVERYWHERE = {"namespaces": ["default"]}


@pytest.fixture
def theatre():
    theatre = Theatre("mistakes")
    yield theatre
    theatre.close()


def begin(theatre, wrap=lambda api: api):
    context = RunContext(
        lambda agent: wrap(InProcessApi(theatre.server, agent=agent)),
        theatre.clock,
        theatre.chance,
        theatre.journal,
        "run",
    )
    theatre.runner.start(WorkflowManager(context.actor("workflow-engine")).run(), "engine")


def told(theatre, name="w"):
    found = {obj["metadata"]["name"]: obj for obj in theatre.all(SHIPPED.workflows)}[name]
    return phase_of(found), found["status"].get("message", "")


MISTAKES = {
    "a probe that asks nothing": ({"probes": [{"name": "x", "when": "Start"}]}, "needs one of"),
    "a back-off without end": (
        {"retry": {"limit": 1, "backoff": {"duration": "abc"}}},
        "'abc' is no duration",
    ),
    "a back-off that shrinks": (
        {"retry": {"limit": 1, "backoff": {"duration": "1s", "factor": 0.5}}},
        "factor",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_internal_error_fails_only_its_workflow(theatre, mistake):
    fields, why = MISTAKES[mistake]
    begin(theatre)
    theatre.put_on(
        "bad", template("bad", "Serial", children=["rest"], **fields), suspend("rest", "2s")
    )
    theatre.put_on("ok", suspend("ok", "2s"), name="other")
    theatre.runner.advance(10)
    phase, message = told(theatre)
    assert (phase, told(theatre, "other")) == (FAILED, (SUCCEED, ""))
    assert why in message


@pytest.mark.parametrize("is_there_before", [False, True])
def test_invalid_workflow_does_not_end_the_engine(theatre, monkeypatch, caplog, is_there_before):
    def judge(workflow):
        if workflow["metadata"]["name"] == "w":
            raise RecursionError("it is too deep")
        return []

    monkeypatch.setattr("pytest_kscen.workflow.engine.manager.validate", judge)
    if not is_there_before:
        begin(theatre)
    theatre.put_on("rest", suspend("rest", "2s"))
    theatre.put_on("ok", suspend("ok", "2s"), name="other")
    if is_there_before:
        begin(theatre)
    theatre.runner.advance(10)
    why = "RecursionError('it is too deep')"
    assert (told(theatre), told(theatre, "other")) == (
        (FAILED, f"it cannot be read: {why}"),
        (SUCCEED, ""),
    )
    assert f"cannot be read kind=Workflow object=default/w error={why}" in caplog.text


def test_workflow_that_can_only_fail_is_reported_first(theatre):
    begin(theatre)
    theatre.put_on(
        "all", template("all", "Serial", children=["rest", "nobody"]), suspend("rest", "1h")
    )
    theatre.runner.advance(1)
    phase, message = told(theatre)
    assert (phase, theatre.all(SHIPPED.nodes)) == (FAILED, [])
    assert "there is no template 'nobody'" in message


@pytest.mark.parametrize("metadata", [{}, {"labels": {WORKFLOW_LABEL: "w"}}])
def test_foreign_node_does_not_stop_the_engine(theatre, metadata):
    theatre.put_on("rest", suspend("rest", "2s"))
    spec = {
        "templateName": "rest",
        "workflowName": "w",
        "type": "Suspend",
        "startTime": "2026-01-01T00:00:00Z",
    }
    theatre.create(
        SHIPPED.nodes, {"metadata": {"name": "x", "namespace": "default", **metadata}, "spec": spec}
    )
    begin(theatre)
    theatre.runner.advance(5)
    assert told(theatre) == (SUCCEED, "")


class Deaf(Through):
    """Shows nobody any NetworkChaos."""

    async def list(self, resource, *arguments, **options):
        if resource == CUT:
            raise Forbidden("nobody looks at those")
        return await self._api.list(resource, *arguments, **options)


def test_unwatchable_kind_fails_its_node(theatre):
    begin(theatre, Deaf)
    theatre.put_on("cut", partition("cut", "1h"))
    theatre.runner.advance(30)
    assert told(theatre) == (FAILED, "cut: networkchaos cannot be watched: nobody looks at those")


class Slow(Through):
    """Its webhook for PodChaos never answers."""

    clock = None

    async def create(self, resource, *arguments, **options):
        if resource == KILL:
            await self.clock.sleep(10)
            raise InternalError("context deadline exceeded")
        return await self._api.create(resource, *arguments, **options)


def test_slow_request_delays_others_only_briefly(theatre):
    Slow.clock = theatre.clock
    begin(theatre, Slow)
    kill = template(
        "kill",
        "PodChaos",
        deadline="10s",
        podChaos={"action": "pod-kill", "mode": "all", "selector": EVERYWHERE},
    )
    theatre.put_on(
        "both",
        template("both", "Parallel", children=["cut", "kill"], deadline="30s"),
        partition("cut", "5s"),
        kill,
    )
    theatre.runner.advance(1)
    assert theatre.all(CUT)
    theatre.runner.advance(35)
    assert theatre.all(CUT) == []
    theatre.runner.advance(5)
    assert told(theatre) == (FAILED, "kill: context deadline exceeded")


def test_unexpected_error_ends_one_workflow(theatre, monkeypatch):
    def break_down(tree, node):
        raise ZeroDivisionError("nobody has foreseen this")

    begin(theatre)
    theatre.put_on(
        "all",
        template("all", "Serial", children=["rest"], retry={"limit": 2}),
        suspend("rest", "5s"),
    )
    theatre.put_on("ok", suspend("ok", "20s"), name="other")
    theatre.runner.advance(2)
    monkeypatch.setattr("pytest_kscen.workflow.engine.transitions.may_retry", break_down)
    monkeypatch.setattr(
        "pytest_kscen.workflow.engine.trees.Tree.result", lambda *_: break_down(None, None)
    )
    theatre.runner.advance(10)
    monkeypatch.undo()
    theatre.runner.advance(20)
    phase, message = told(theatre)
    assert (phase, told(theatre, "other")[0]) == (FAILED, SUCCEED)
    assert "nobody has foreseen this" in message


def test_chaos_is_removed_before_a_workflow_fails_by_an_unexpected_error(theatre, monkeypatch):
    def break_down(*_):
        raise ZeroDivisionError("nobody has foreseen this")

    begin(theatre)
    both = template("both", "Parallel", children=["cut", "rest"])
    theatre.put_on(
        "all",
        template("all", "Serial", children=["both"]),
        both,
        partition("cut", "1h"),
        suspend("rest", "5s"),
    )
    theatre.runner.advance(2)
    (chaos,) = theatre.all(CUT)
    held = {"metadata": {"finalizers": ["example.com/held"]}}
    theatre.call(theatre.api.patch(CUT, chaos["metadata"]["name"], held, "default"))
    holds = Tree.holds
    monkeypatch.setattr(
        Tree,
        "holds",
        lambda tree, guard, node: (
            holds(tree, guard, node) if node.template.is_chaos else break_down()
        ),
    )
    theatre.runner.advance(10)
    assert [phase_of(obj) for obj in theatre.all(SHIPPED.workflows)] == ["Running"]
    theatre.call(
        theatre.api.patch(
            CUT, chaos["metadata"]["name"], {"metadata": {"finalizers": None}}, "default"
        )
    )
    theatre.runner.advance(10)
    phase, message = told(theatre)
    assert (phase, theatre.all(CUT)) == (FAILED, [])
    assert "nobody has foreseen this" in message


def test_chaos_of_a_broken_node_is_removed(theatre, monkeypatch):
    def break_down(*_):
        raise ZeroDivisionError("nobody has foreseen this")

    begin(theatre)
    theatre.put_on("cut", partition("cut", "1h"))
    theatre.runner.advance(2)
    monkeypatch.setattr("pytest_kscen.workflow.engine.transitions.Transition._step", break_down)
    theatre.runner.advance(70)
    assert theatre.all(CUT) == []


class Keeping(Through):
    """Lets nobody remove a NetworkChaos."""

    keeps = True

    async def delete(self, resource, *arguments, **options):
        if resource == CUT and Keeping.keeps:
            raise Forbidden("not yet")
        return await self._api.delete(resource, *arguments, **options)


def test_failed_removal_for_a_broken_node_is_retried(theatre, monkeypatch):
    def break_down(*_):
        raise ZeroDivisionError("nobody has foreseen this")

    begin(theatre, Keeping)
    theatre.put_on("cut", partition("cut", "1h"))
    theatre.runner.advance(2)
    monkeypatch.setattr(Keeping, "keeps", True)
    monkeypatch.setattr("pytest_kscen.workflow.engine.transitions.Transition._step", break_down)
    theatre.runner.advance(1000)
    (node,) = theatre.all(SHIPPED.nodes)
    assert (phase_of(node), is_true(node, CHAOS_LEFT), len(theatre.all(CUT))) == (FAILED, True, 1)
    monkeypatch.setattr(Keeping, "keeps", False)
    theatre.runner.advance(130)
    (node,) = theatre.all(SHIPPED.nodes)
    assert (theatre.all(CUT), is_true(node, CHAOS_LEFT)) == ([], False)


@pytest.mark.parametrize("edge", ["at_start", "at_end"])
def test_unexpected_probe_error_ends_one_workflow(theatre, monkeypatch, edge):
    async def break_down(_):
        raise ZeroDivisionError("nobody has foreseen this")

    monkeypatch.setattr(f"pytest_kscen.workflow.probes.ProbeRunner.{edge}", break_down)
    begin(theatre)
    there = {"apiVersion": "v1", "kind": "Namespace", "name": "default"}
    theatre.put_on(
        "rest",
        suspend("rest", "2s"),
        probes=[{"name": "calm", "when": "Edges", "kubernetes": there}],
    )
    theatre.put_on("ok", suspend("ok", "5s"), name="other")
    theatre.runner.advance(10)
    phase, message = told(theatre)
    assert (phase, told(theatre, "other")) == (FAILED, (SUCCEED, ""))
    assert "its probes cannot be run: ZeroDivisionError('nobody has foreseen this')" in message


def test_delay_grows_to_its_limit():
    patient = Retry.of(
        {"limit": 5, "backoff": {"duration": "1s", "factor": 2, "maxDuration": "5s"}}
    )
    assert [patient.delay_before(attempt) for attempt in (2, 3, 4, 5)] == [1, 2, 4, 5]
    assert (
        Retry.of({"limit": 10, "backoff": {"duration": "1s", "factor": 1e60}}).delay_before(99)
        == LONGEST_DELAY
    )
