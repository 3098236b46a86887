"""Errors in one workflow fail it with a reason and in time; others continue."""

from __future__ import annotations

import pytest
from engine_env import EngineEnv, ForwardingProxy, partition, suspend, template

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
def engine_env():
    engine_env = EngineEnv("mistakes")
    yield engine_env
    engine_env.close()


def begin(engine_env, wrap=lambda api: api):
    context = RunContext(
        lambda agent: wrap(InProcessApi(engine_env.server, agent=agent)),
        engine_env.clock,
        engine_env.chance,
        engine_env.journal,
        "run",
    )
    engine_env.runner.start(WorkflowManager(context.actor("workflow-engine")).run(), "engine")


def reported(engine_env, name="w"):
    found = {obj["metadata"]["name"]: obj for obj in engine_env.all(SHIPPED.workflows)}[name]
    return phase_of(found), found["status"].get("message", "")


MISTAKES = {
    "a probe that asks nothing": ({"probes": [{"name": "x", "when": "Start"}]}, "needs one of"),
    "a back-off without end": (
        {"retry": {"limit": 1, "backoff": {"duration": "abc"}}},
        "'abc' is not a duration",
    ),
    "a back-off that shrinks": (
        {"retry": {"limit": 1, "backoff": {"duration": "1s", "factor": 0.5}}},
        "factor",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_internal_error_fails_only_its_workflow(engine_env, mistake):
    fields, why = MISTAKES[mistake]
    begin(engine_env)
    engine_env.create_workflow(
        "bad", template("bad", "Serial", children=["rest"], **fields), suspend("rest", "2s")
    )
    engine_env.create_workflow("ok", suspend("ok", "2s"), name="other")
    engine_env.runner.advance(10)
    phase, message = reported(engine_env)
    assert (phase, reported(engine_env, "other")) == (FAILED, (SUCCEED, ""))
    assert why in message


@pytest.mark.parametrize("is_there_before", [False, True])
def test_invalid_workflow_does_not_end_the_engine(engine_env, monkeypatch, caplog, is_there_before):
    def judge(workflow):
        if workflow["metadata"]["name"] == "w":
            raise RecursionError("it is too deep")
        return []

    monkeypatch.setattr("pytest_kscen.workflow.engine.manager.validate", judge)
    if not is_there_before:
        begin(engine_env)
    engine_env.create_workflow("rest", suspend("rest", "2s"))
    engine_env.create_workflow("ok", suspend("ok", "2s"), name="other")
    if is_there_before:
        begin(engine_env)
    engine_env.runner.advance(10)
    why = "RecursionError('it is too deep')"
    assert (reported(engine_env), reported(engine_env, "other")) == (
        (FAILED, f"it cannot be read: {why}"),
        (SUCCEED, ""),
    )
    assert f"cannot be read kind=Workflow object=default/w error={why}" in caplog.text


def test_workflow_that_can_only_fail_is_reported_first(engine_env):
    begin(engine_env)
    engine_env.create_workflow(
        "all", template("all", "Serial", children=["rest", "nobody"]), suspend("rest", "1h")
    )
    engine_env.runner.advance(1)
    phase, message = reported(engine_env)
    assert (phase, engine_env.all(SHIPPED.nodes)) == (FAILED, [])
    assert "there is no template 'nobody'" in message


@pytest.mark.parametrize("metadata", [{}, {"labels": {WORKFLOW_LABEL: "w"}}])
def test_foreign_node_does_not_stop_the_engine(engine_env, metadata):
    engine_env.create_workflow("rest", suspend("rest", "2s"))
    spec = {
        "templateName": "rest",
        "workflowName": "w",
        "type": "Suspend",
        "startTime": "2026-01-01T00:00:00Z",
    }
    engine_env.create(
        SHIPPED.nodes, {"metadata": {"name": "x", "namespace": "default", **metadata}, "spec": spec}
    )
    begin(engine_env)
    engine_env.runner.advance(5)
    assert reported(engine_env) == (SUCCEED, "")


class HidesNetworkChaos(ForwardingProxy):
    """API that lists no NetworkChaos."""

    async def list(self, resource, *arguments, **options):
        if resource == CUT:
            raise Forbidden("nobody looks at those")
        return await self._api.list(resource, *arguments, **options)


def test_unwatchable_kind_fails_its_node(engine_env):
    begin(engine_env, HidesNetworkChaos)
    engine_env.create_workflow("cut", partition("cut", "1h"))
    engine_env.runner.advance(30)
    assert reported(engine_env) == (
        FAILED,
        "cut: networkchaos cannot be watched: nobody looks at those",
    )


class Slow(ForwardingProxy):
    """API whose webhook for PodChaos never answers."""

    clock = None

    async def create(self, resource, *arguments, **options):
        if resource == KILL:
            await self.clock.sleep(10)
            raise InternalError("context deadline exceeded")
        return await self._api.create(resource, *arguments, **options)


def test_slow_request_delays_others_only_briefly(engine_env):
    Slow.clock = engine_env.clock
    begin(engine_env, Slow)
    kill = template(
        "kill",
        "PodChaos",
        deadline="10s",
        podChaos={"action": "pod-kill", "mode": "all", "selector": EVERYWHERE},
    )
    engine_env.create_workflow(
        "both",
        template("both", "Parallel", children=["cut", "kill"], deadline="30s"),
        partition("cut", "5s"),
        kill,
    )
    engine_env.runner.advance(1)
    assert engine_env.all(CUT)
    engine_env.runner.advance(35)
    assert engine_env.all(CUT) == []
    engine_env.runner.advance(5)
    assert reported(engine_env) == (FAILED, "kill: context deadline exceeded")


def test_unexpected_error_ends_one_workflow(engine_env, monkeypatch):
    def break_down(tree, node):
        raise ZeroDivisionError("nobody has foreseen this")

    begin(engine_env)
    engine_env.create_workflow(
        "all",
        template("all", "Serial", children=["rest"], retry={"limit": 2}),
        suspend("rest", "5s"),
    )
    engine_env.create_workflow("ok", suspend("ok", "20s"), name="other")
    engine_env.runner.advance(2)
    monkeypatch.setattr("pytest_kscen.workflow.engine.transitions.may_retry", break_down)
    monkeypatch.setattr(
        "pytest_kscen.workflow.engine.trees.Tree.result", lambda *_: break_down(None, None)
    )
    engine_env.runner.advance(10)
    monkeypatch.undo()
    engine_env.runner.advance(20)
    phase, message = reported(engine_env)
    assert (phase, reported(engine_env, "other")[0]) == (FAILED, SUCCEED)
    assert "nobody has foreseen this" in message


def test_chaos_is_removed_before_a_workflow_fails_by_an_unexpected_error(engine_env, monkeypatch):
    def break_down(*_):
        raise ZeroDivisionError("nobody has foreseen this")

    begin(engine_env)
    both = template("both", "Parallel", children=["cut", "rest"])
    engine_env.create_workflow(
        "all",
        template("all", "Serial", children=["both"]),
        both,
        partition("cut", "1h"),
        suspend("rest", "5s"),
    )
    engine_env.runner.advance(2)
    (chaos,) = engine_env.all(CUT)
    held = {"metadata": {"finalizers": ["example.com/held"]}}
    engine_env.call(engine_env.api.patch(CUT, chaos["metadata"]["name"], held, "default"))
    holds = Tree.holds
    monkeypatch.setattr(
        Tree,
        "holds",
        lambda tree, guard, node: (
            holds(tree, guard, node) if node.template.is_chaos else break_down()
        ),
    )
    engine_env.runner.advance(10)
    assert [phase_of(obj) for obj in engine_env.all(SHIPPED.workflows)] == ["Running"]
    engine_env.call(
        engine_env.api.patch(
            CUT, chaos["metadata"]["name"], {"metadata": {"finalizers": None}}, "default"
        )
    )
    engine_env.runner.advance(10)
    phase, message = reported(engine_env)
    assert (phase, engine_env.all(CUT)) == (FAILED, [])
    assert "nobody has foreseen this" in message


def test_chaos_of_a_broken_node_is_removed(engine_env, monkeypatch):
    def break_down(*_):
        raise ZeroDivisionError("nobody has foreseen this")

    begin(engine_env)
    engine_env.create_workflow("cut", partition("cut", "1h"))
    engine_env.runner.advance(2)
    monkeypatch.setattr("pytest_kscen.workflow.engine.transitions.Transition._step", break_down)
    engine_env.runner.advance(70)
    assert engine_env.all(CUT) == []


class UndeletableChaos(ForwardingProxy):
    """API that refuses to delete a NetworkChaos."""

    keeps = True

    async def delete(self, resource, *arguments, **options):
        if resource == CUT and UndeletableChaos.keeps:
            raise Forbidden("not yet")
        return await self._api.delete(resource, *arguments, **options)


def test_failed_removal_for_a_broken_node_is_retried(engine_env, monkeypatch):
    def break_down(*_):
        raise ZeroDivisionError("nobody has foreseen this")

    begin(engine_env, UndeletableChaos)
    engine_env.create_workflow("cut", partition("cut", "1h"))
    engine_env.runner.advance(2)
    monkeypatch.setattr(UndeletableChaos, "keeps", True)
    monkeypatch.setattr("pytest_kscen.workflow.engine.transitions.Transition._step", break_down)
    engine_env.runner.advance(1000)
    (node,) = engine_env.all(SHIPPED.nodes)
    assert (phase_of(node), is_true(node, CHAOS_LEFT), len(engine_env.all(CUT))) == (
        FAILED,
        True,
        1,
    )
    monkeypatch.setattr(UndeletableChaos, "keeps", False)
    engine_env.runner.advance(130)
    (node,) = engine_env.all(SHIPPED.nodes)
    assert (engine_env.all(CUT), is_true(node, CHAOS_LEFT)) == ([], False)


@pytest.mark.parametrize("edge", ["at_start", "at_end"])
def test_unexpected_probe_error_ends_one_workflow(engine_env, monkeypatch, edge):
    async def break_down(_):
        raise ZeroDivisionError("nobody has foreseen this")

    monkeypatch.setattr(f"pytest_kscen.workflow.probes.ProbeRunner.{edge}", break_down)
    begin(engine_env)
    there = {"apiVersion": "v1", "kind": "Namespace", "name": "default"}
    engine_env.create_workflow(
        "rest",
        suspend("rest", "2s"),
        probes=[{"name": "calm", "when": "Edges", "kubernetes": there}],
    )
    engine_env.create_workflow("ok", suspend("ok", "5s"), name="other")
    engine_env.runner.advance(10)
    phase, message = reported(engine_env)
    assert (phase, reported(engine_env, "other")) == (FAILED, (SUCCEED, ""))
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
