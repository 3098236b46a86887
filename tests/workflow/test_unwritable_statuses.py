"""Refused status writes: reported, ended in time, and nothing done twice."""

from __future__ import annotations

import asyncio

import pytest
from engine_env import EngineEnv, partition, suspend, template
from test_engine_mistakes import ForwardingProxy

from pytest_kscen.kube.actor import RunContext
from pytest_kscen.kube.in_process import InProcessApi
from pytest_kscen.objects.chaos_mesh import FAILED, KINDS, RUNNING, SHIPPED, SUCCEED, phase_of
from pytest_kscen.objects.errors import Forbidden, InternalError
from pytest_kscen.objects.resources import EVENTS
from pytest_kscen.workflow.engine.manager import WorkflowManager
from pytest_kscen.workflow.engine.pending_writes import LONGEST_PAUSE, WRITE_TIMEOUT
from pytest_kscen.workflow.story import stories

CUT = KINDS["NetworkChaos"].resource
NODES, WORKFLOWS = SHIPPED.nodes, SHIPPED.workflows
IN_EFFECT = {
    "experiment": {"desiredPhase": "Run"},
    "conditions": [{"type": "AllInjected", "status": "True"}],
}
WORDS = {"refuses": "not by me", "never answers": "context deadline exceeded"}
RETRY = int(LONGEST_PAUSE) + 20
"""Seconds after which all that was refused is asked for again, also if somebody has to be waited
for meanwhile.
"""
HOWS = pytest.mark.parametrize("how", WORDS)


class WebhookApi(ForwardingProxy):
    """API with a webhook before patches."""

    def __init__(self, api, guard):
        super().__init__(api)
        self._guard = guard

    async def patch(self, resource, *arguments, subresource="", **options):
        await self._guard.judge(resource, subresource)
        return await self._api.patch(resource, *arguments, subresource=subresource, **options)


class StatusWebhook:
    def __init__(self, clock):
        self._clock = clock
        self.how, self.refused = "", set()

    async def judge(self, resource, subresource):
        if (resource, subresource) in self.refused:
            if self.how == "never answers":
                await self._clock.sleep(10)
                raise InternalError(WORDS[self.how])
            raise Forbidden(WORDS[self.how])


class WebhookEngine(EngineEnv):
    def __init__(self):
        super().__init__("unwritten")
        self.guard, self.engine, self.entries = StatusWebhook(self.clock), None, []
        self.journal.follow(self.entries.append)
        self.restart()

    def restart(self):
        self.stop()
        context = RunContext(
            lambda agent: WebhookApi(InProcessApi(self.server, agent=agent), self.guard),
            self.clock,
            self.chance,
            self.journal,
            "run",
        )

        async def begin():
            return asyncio.get_running_loop().create_task(
                WorkflowManager(context.actor("workflow-engine", temporary=True)).run()
            )

        self.engine = self.call(begin())

    def stop(self):
        if self.engine:
            self.engine.cancel()
            self.call(asyncio.wait([self.engine]))

    def refuse(self, how, *resources, also=()):
        self.guard.how, self.guard.refused = (
            how,
            {(resource, "status") for resource in resources} | set(also),
        )

    def allow(self):
        self.guard.refused = set()

    def inject(self):
        """Set the status of the only chaos object as its daemon would."""
        (chaos,) = self.all(CUT)
        self.call(self.api.patch(CUT, chaos["metadata"]["name"], {"status": IN_EFFECT}, "default"))

    def reported(self):
        (workflow,) = self.all(WORKFLOWS)
        return phase_of(workflow), (workflow.get("status") or {}).get("message", "")

    def phases(self):
        return {node["spec"]["templateName"]: phase_of(node) for node in self.all(NODES)}

    def created(self):
        """Return the number of created chaos objects."""
        writes = [entry.data for entry in self.entries if entry.what == "wrote"]
        return sum(
            data["verb"] == "create" and data["resource"].startswith("networkchaos.")
            for data in writes
        )

    def story(self):
        return stories(self.entries)["default", "w"].workflow


@pytest.fixture
def engine_env():
    engine_env = WebhookEngine()
    yield engine_env
    engine_env.stop()
    engine_env.close()


TWO = (
    template("all", "Serial", children=["one", "two"]),
    suspend("one", "5s"),
    suspend("two", "2m"),
)


@HOWS
def test_workflow_reports_an_unwritable_status_until_it_is_written(engine_env, how, caplog):
    engine_env.create_workflow("all", *TWO)
    engine_env.runner.advance(2)
    engine_env.refuse(how, NODES)
    engine_env.runner.advance(40)
    (one,) = (
        node["metadata"]["name"]
        for node in engine_env.all(NODES)
        if node["spec"]["templateName"] == "one"
    )
    why = f"the status of {one} cannot be written: {WORDS[how]}"
    assert engine_env.reported() == (RUNNING, why)
    assert engine_env.story().message == why
    assert engine_env.phases() == {"all": "WaitingForChild", "one": "Holding"}
    event_text = {
        (event["involvedObject"]["kind"], event["type"], event["message"])
        for event in engine_env.all(EVENTS)
    }
    assert {
        ("Workflow", "Warning", why),
        ("WorkflowNode", "Warning", f"its status cannot be written: {WORDS[how]}"),
    } <= event_text
    assert why in caplog.text
    engine_env.allow()
    engine_env.runner.advance(RETRY)
    assert engine_env.reported() == (RUNNING, "")
    assert engine_env.story().message == ""
    assert engine_env.phases() == {"all": "WaitingForChild", "one": SUCCEED, "two": "Holding"}
    assert "StatusWritten" in {event["reason"] for event in engine_env.all(EVENTS)}
    engine_env.runner.advance(120)
    assert engine_env.reported() == (SUCCEED, "")


@HOWS
@pytest.mark.parametrize("resource", [NODES, WORKFLOWS], ids=["of nodes", "of workflows"])
@pytest.mark.parametrize(
    "from_the_first", [True, False], ids=["from the first", "while chaos is on"]
)
def test_workflow_with_unwritable_statuses_ends_in_time_without_chaos(
    engine_env, how, resource, from_the_first
):
    if from_the_first:
        engine_env.refuse(how, resource)
    engine_env.create_workflow(
        "all",
        template("all", "Serial", children=["cut", "rest"]),
        partition("cut", "20s"),
        suspend("rest", "1h"),
    )
    engine_env.runner.advance(5)
    if not from_the_first:
        engine_env.inject()
        engine_env.runner.advance(1)
        engine_env.refuse(how, resource)
    if resource == WORKFLOWS and not from_the_first:
        patch = {"metadata": {"annotations": {"workflow.chaos-mesh.org/abort": "true"}}}
        engine_env.call(engine_env.api.patch(WORKFLOWS, "w", patch, "default"))
    engine_env.runner.advance(WRITE_TIMEOUT + 4 * LONGEST_PAUSE)
    assert engine_env.all(CUT) == []
    if resource == NODES:
        phase, why = engine_env.reported()
        assert phase == FAILED
        assert f"could not be written within 300 s: {WORDS[how]}" in why
    engine_env.allow()
    engine_env.runner.advance(RETRY)
    assert set(engine_env.phases().values()) == {FAILED} or engine_env.phases() == {
        "all": FAILED,
        "cut": SUCCEED,
    }
    phase, why = engine_env.reported()
    assert phase == FAILED
    assert (
        why == "the workflow was aborted"
        if resource == WORKFLOWS and not from_the_first
        else f"within 300 s: {WORDS[how]}" in why
    )
    assert engine_env.created() <= 1


@HOWS
def test_no_chaos_is_created_before_its_status_is_written(engine_env, how):
    engine_env.create_workflow(
        "all",
        template("all", "Serial", children=["rest", "cut"]),
        suspend("rest", "5s"),
        partition("cut", "20s"),
    )
    engine_env.runner.advance(4)
    engine_env.refuse(how, NODES)
    engine_env.runner.advance(100)
    assert engine_env.all(CUT) == []
    engine_env.allow()
    for _ in range(RETRY // 5):
        engine_env.runner.advance(0 if engine_env.all(CUT) else 5)
    engine_env.inject()
    engine_env.runner.advance(21)
    assert (engine_env.reported(), engine_env.created()) == ((SUCCEED, ""), 1)


@HOWS
@pytest.mark.parametrize("is_back", [False, True], ids=["and is refused as well", "and is not"])
@pytest.mark.parametrize("annotations_refused", [False, True], ids=["", "and nothing can be noted"])
def test_restarted_engine_injects_nothing_twice(engine_env, how, is_back, annotations_refused):
    engine_env.create_workflow(
        "all",
        template("all", "Serial", children=["cut", "rest"]),
        partition("cut", "20s"),
        suspend("rest", "5s"),
    )
    engine_env.runner.advance(1)
    engine_env.inject()
    engine_env.runner.advance(1)
    engine_env.refuse(how, NODES, also={(NODES, "")} if annotations_refused else ())
    engine_env.runner.advance(50)
    assert (engine_env.all(CUT), engine_env.phases()["cut"]) == ([], "Holding")
    engine_env.stop()
    if is_back:
        engine_env.allow()
    engine_env.restart()
    engine_env.runner.advance(100)
    engine_env.allow()
    engine_env.runner.advance(RETRY)
    phase, why = engine_env.reported()
    assert (engine_env.created(), engine_env.all(CUT)) == (1, [])
    if annotations_refused:
        assert (phase, why) == (
            FAILED,
            "cut: its resource or its labels were deleted, and not by the engine",
        )
    else:
        assert (phase, why, engine_env.phases()) == (
            SUCCEED,
            "",
            {"all": SUCCEED, "cut": SUCCEED, "rest": SUCCEED},
        )


def test_unwritten_end_is_known_to_the_next_engine(engine_env):
    engine_env.create_workflow("all", *TWO)
    engine_env.runner.advance(124)
    engine_env.refuse("refuses", WORKFLOWS)
    engine_env.runner.advance(20)
    assert engine_env.reported() == (RUNNING, "")
    engine_env.stop()
    engine_env.allow()
    engine_env.restart()
    engine_env.runner.advance(20)
    assert (engine_env.reported(), engine_env.phases()) == (
        (SUCCEED, ""),
        {"all": SUCCEED, "one": SUCCEED, "two": SUCCEED},
    )
    assert all(
        "workflow.kscen.io/unwritten" not in node["metadata"].get("annotations", {})
        for node in (*engine_env.all(NODES), *engine_env.all(WORKFLOWS))
    )


def test_exit_handler_completes_with_unwritable_statuses(engine_env):
    engine_env.create_workflow("rest", suspend("rest", "5s"), partition("cut", "20s"), onExit="cut")
    engine_env.runner.advance(1)
    engine_env.refuse("refuses", NODES)
    engine_env.runner.advance(WRITE_TIMEOUT + 20)
    phase, why = engine_env.reported()
    assert (phase, engine_env.created()) == (FAILED, 0)
    assert "could not be written within 300 s: not by me" in why


def test_notes_of_another_workflow_are_ignored(engine_env):
    engine_env.create_workflow("all", *TWO)
    engine_env.runner.advance(2)
    engine_env.refuse("refuses", WORKFLOWS)
    engine_env.runner.advance(WRITE_TIMEOUT)
    (workflow,) = engine_env.all(WORKFLOWS)
    annotations = workflow["metadata"]["annotations"]
    engine_env.allow()
    engine_env.call(engine_env.api.delete(WORKFLOWS, "w", "default"))
    engine_env.runner.advance(5)
    metadata = {"name": "copy", "namespace": "default", "annotations": annotations}
    engine_env.create(WORKFLOWS, {"metadata": metadata, "spec": workflow["spec"]})
    engine_env.runner.advance(130)
    assert engine_env.reported() == (SUCCEED, "")


@pytest.mark.parametrize(
    "text",
    [
        "1",
        "{",
        "[]",
        '{"uid": "%s"}',
        '{"uid": "%s", "status": {"engine": {"noted": "x", "ending": "y"}}}',
    ],
)
def test_invalid_note_is_ignored(engine_env, text):
    engine_env.create_workflow("all", *TWO)
    engine_env.runner.advance(2)
    engine_env.stop()
    for resource in (WORKFLOWS, NODES):
        for obj in engine_env.all(resource):
            note = {"workflow.kscen.io/unwritten": text.replace("%s", obj["metadata"]["uid"])}
            patch = {"metadata": {"annotations": note}}
            engine_env.call(
                engine_env.api.patch(resource, obj["metadata"]["name"], patch, "default")
            )
    engine_env.restart()
    engine_env.runner.advance(130)
    assert engine_env.reported() == (SUCCEED, "")


def test_next_engine_reads_notes_of_another_attempt(engine_env):
    engine_env.create_workflow("cut", partition("cut", "2m", retry={"limit": 2}))
    engine_env.runner.advance(1)
    engine_env.inject()
    engine_env.runner.advance(1)
    engine_env.call(
        engine_env.api.delete(CUT, engine_env.all(CUT)[0]["metadata"]["name"], "default")
    )
    engine_env.runner.advance(1)
    engine_env.refuse("refuses", NODES)
    engine_env.inject()
    engine_env.runner.advance(125)  # it is removed, and over
    engine_env.restart()
    engine_env.allow()
    engine_env.runner.advance(200)
    assert (engine_env.phases(), engine_env.reported()[0], engine_env.created()) == (
        {"cut": SUCCEED},
        SUCCEED,
        2,
    )


def test_notes_expire_when_the_status_can_be_written(engine_env):
    engine_env.create_workflow(
        "all",
        template("all", "Serial", children=["cut", "rest"]),
        partition("cut", "2m"),
        suspend("rest", "10m"),
    )
    engine_env.runner.advance(1)
    engine_env.refuse("refuses", NODES)
    engine_env.inject()
    engine_env.runner.advance(1)  # that it is held is noted
    engine_env.refuse("refuses", NODES, also=[(NODES, "")])
    engine_env.runner.advance(122)  # that it is over is not
    engine_env.allow()
    engine_env.runner.advance(RETRY)
    engine_env.restart()
    engine_env.runner.advance(800)
    assert (engine_env.phases(), engine_env.reported()) == (
        {"all": SUCCEED, "cut": SUCCEED, "rest": SUCCEED},
        (SUCCEED, ""),
    )


def test_abandoned_workflow_starts_nothing_more(engine_env, monkeypatch):
    async def patch(self, resource, name, *arguments, subresource="", **options):
        if name.startswith("all-"):
            await self._guard.judge(resource, subresource)
        return await self._api.patch(resource, name, *arguments, subresource=subresource, **options)

    monkeypatch.setattr(WebhookApi, "patch", patch)
    engine_env.create_workflow(
        "all",
        template("all", "Serial", children=["rest", "cut"]),
        suspend("rest", "5s"),
        partition("cut", "10m"),
    )
    engine_env.runner.advance(2)
    engine_env.refuse("refuses", NODES)
    engine_env.runner.advance(WRITE_TIMEOUT + RETRY)
    assert (engine_env.reported()[0], engine_env.created()) == (FAILED, 0)


def test_long_active_chaos_is_observed_before_its_deadline(engine_env, monkeypatch):
    listed = InProcessApi.list

    async def answer_slowly(self, resource, *arguments, **options):
        if resource == CUT:
            await engine_env.clock.sleep(0.2)
        return await listed(self, resource, *arguments, **options)

    engine_env.create_workflow("cut", partition("cut", "10m"))
    engine_env.runner.advance(1)
    engine_env.stop()
    engine_env.inject()
    engine_env.runner.advance(120)
    monkeypatch.setattr(InProcessApi, "list", answer_slowly)
    engine_env.engine = None
    engine_env.restart()
    engine_env.runner.advance(5)
    assert (engine_env.phases(), engine_env.reported()) == ({"cut": "Holding"}, (RUNNING, ""))
