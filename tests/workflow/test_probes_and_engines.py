"""Probes end with their engine and workflow; the next engine continues with their results."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest
from engine_env import EngineEnv, ForwardingProxy, partition, suspend, template

from pytest_kscen.objects.chaos_mesh import KINDS, SHIPPED
from pytest_kscen.workflow.engine.manager import WorkflowManager

NETWORK_CHAOS = KINDS["NetworkChaos"].resource
ON = [{"type": "Selected", "status": "True"}, {"type": "AllInjected", "status": "True"}]


class ProbedEngine(EngineEnv):
    """Environment with an engine, and the times at which probes ran."""

    def __init__(self):
        super().__init__()
        self.asked = []
        self.journal.follow(
            lambda entry: entry.what == "workflow-probe" and self.asked.append(self.clock.now())
        )
        self.engine = None

    def begin(self, actor=None):
        async def begin():
            return asyncio.get_running_loop().create_task(
                WorkflowManager(actor or self.actor()).run()
            )

        self.engine = self.call(begin())
        self.runner.advance(0.5)

    def end(self):
        self.engine.cancel()
        self.call(asyncio.wait([self.engine]))
        self.asked.clear()

    def probe_times_in(self, seconds):
        self.asked.clear()
        self.runner.advance(seconds)
        return len(self.asked)

    def probes(self):
        (workflow,) = self.all(SHIPPED.workflows)
        return {each["name"]: each["verdict"] for each in workflow["status"].get("probes", ())}


@pytest.fixture
def probed_engine():
    probed_engine = ProbedEngine()
    yield probed_engine
    probed_engine.close()


def probe(when, expression="true", **fields):
    there = {"apiVersion": "v1", "kind": "Namespace", "name": "default", "expression": expression}
    return {"name": when.lower(), "when": when, "interval": "5s", "kubernetes": there, **fields}


def create_chaos_on(probed_engine, *probes):
    probed_engine.create_workflow("a", partition("a", "100s"), probes=list(probes))
    probed_engine.runner.advance(0.5)
    (chaos,) = probed_engine.all(NETWORK_CHAOS)
    patch = {"status": {"experiment": {"desiredPhase": "Run"}, "conditions": ON}}
    probed_engine.call(
        probed_engine.api.patch(NETWORK_CHAOS, chaos["metadata"]["name"], patch, "default")
    )


@pytest.mark.parametrize("when", ["OnChaos", "Continuous"])
def test_probes_end_with_their_engine_and_the_next_continues(probed_engine, when):
    probed_engine.begin()
    create_chaos_on(probed_engine, probe(when))
    assert probed_engine.probe_times_in(20) >= 4
    probed_engine.end()
    assert probed_engine.probe_times_in(20) == 0
    probed_engine.begin()
    assert probed_engine.probe_times_in(21) >= 4
    probed_engine.runner.advance(60)
    assert probed_engine.probes() == {when.lower(): "Passed"}
    assert probed_engine.probe_times_in(60) == 0


def test_probe_results_are_remembered(probed_engine):
    probed_engine.begin()
    create_chaos_on(
        probed_engine, probe("OnChaos", "false", stopOnFailure=False), probe("Continuous")
    )
    probed_engine.runner.advance(1)
    assert probed_engine.probes() == {"onchaos": "Failed", "continuous": "Passed"}
    probed_engine.end()
    probed_engine.begin()
    assert probed_engine.probes() == {"onchaos": "Failed", "continuous": "Passed"}


class DeletedWhileWritten(ForwardingProxy):
    """API that deletes the workflow just before its Running phase is written."""

    async def patch(self, resource, name, patch, *where, **options):
        if resource == SHIPPED.workflows and any(
            part.get("value", {}).get("phase") == "Running" for part in patch[1:]
        ):
            await self._api.delete(SHIPPED.workflows, name, "default")
        return await self._api.patch(resource, name, patch, *where, **options)


def test_deleted_workflow_is_not_probed(probed_engine):
    actor = probed_engine.actor()
    probed_engine.begin(dataclasses.replace(actor, api=DeletedWhileWritten(actor.api)))
    probed_engine.create_workflow("a", suspend("a"), probes=[probe("Continuous")])
    probed_engine.runner.advance(60)
    assert probed_engine.all(SHIPPED.workflows) == []
    assert probed_engine.probe_times_in(60) == 0


@pytest.mark.parametrize("when", ["Start", "End"])
def test_probe_results_do_not_reach_another_workflow_of_the_name(probed_engine, when):
    probed_engine.begin()
    probed_engine.create_workflow(
        "a", suspend("a", "2s"), probes=[probe(when, "false", failureThreshold=3)]
    )
    probed_engine.runner.advance(4)
    probed_engine.call(probed_engine.api.delete(SHIPPED.workflows, "w", "default"))
    probed_engine.create_workflow("a", suspend("a", "40s"))
    assert probed_engine.probe_times_in(30) == 0
    (workflow,) = probed_engine.all(SHIPPED.workflows)
    assert (workflow["status"]["phase"], "message" in workflow["status"]) == ("Running", False)


@pytest.mark.parametrize("restarts", [False, True])
def test_exit_handler_completes_when_a_probe_fails_meanwhile(probed_engine, restarts):
    probed_engine.begin()
    tidy = template("tidy", "Serial", children=["one", "two"])
    calm = probe("Continuous", "false", initialDelay="10s")
    probed_engine.create_workflow(
        "a",
        suspend("a", "5s"),
        tidy,
        suspend("one", "20s"),
        suspend("two", "1s"),
        onExit="tidy",
        probes=[calm],
    )
    probed_engine.runner.advance(12)
    if restarts:
        probed_engine.end()
        probed_engine.begin()
    probed_engine.runner.advance(20)
    phases = {
        node["spec"]["templateName"]: node["status"]["phase"]
        for node in probed_engine.all(SHIPPED.nodes)
    }
    assert phases == dict.fromkeys(("a", "tidy", "one", "two"), "Succeed")
    (workflow,) = probed_engine.all(SHIPPED.workflows)
    assert workflow["status"]["phase"] == "Failed"
    assert workflow["status"]["message"].startswith("the probe 'continuous' has failed")
