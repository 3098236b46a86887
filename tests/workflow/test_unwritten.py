"""While the API refuses what becomes of a workflow's nodes, or never answers, it says so, ends
in time, does nothing twice.
"""

from __future__ import annotations

import asyncio

import pytest
from test_engine_mistakes import Through
from theatre import Theatre, partition, suspend, template

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


class Guarded(Through):
    """With a webhook before what is patched."""

    def __init__(self, api, guard):
        super().__init__(api)
        self._guard = guard

    async def patch(self, resource, *arguments, subresource="", **options):
        await self._guard.judge(resource, subresource)
        return await self._api.patch(resource, *arguments, subresource=subresource, **options)


class Guard:
    def __init__(self, clock):
        self._clock = clock
        self.how, self.refused = "", set()

    async def judge(self, resource, subresource):
        if (resource, subresource) in self.refused:
            if self.how == "never answers":
                await self._clock.sleep(10)
                raise InternalError(WORDS[self.how])
            raise Forbidden(WORDS[self.how])


class Guarding(Theatre):
    def __init__(self):
        super().__init__("unwritten")
        self.guard, self.engine, self.entries = Guard(self.clock), None, []
        self.journal.follow(self.entries.append)
        self.restart()

    def restart(self):
        self.stop()
        context = RunContext(
            lambda agent: Guarded(InProcessApi(self.server, agent=agent), self.guard),
            self.clock,
            self.chance,
            self.journal,
            "run",
        )

        async def begin():
            return asyncio.get_running_loop().create_task(
                WorkflowManager(context.actor("workflow-engine", passing=True)).run()
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
        """As whoever injects would say it of the only chaos that there is."""
        (chaos,) = self.all(CUT)
        self.call(self.api.patch(CUT, chaos["metadata"]["name"], {"status": IN_EFFECT}, "default"))

    def told(self):
        (workflow,) = self.all(WORKFLOWS)
        return phase_of(workflow), (workflow.get("status") or {}).get("message", "")

    def phases(self):
        return {node["spec"]["templateName"]: phase_of(node) for node in self.all(NODES)}

    def created(self):
        """How many chaos resources."""
        writes = [entry.data for entry in self.entries if entry.what == "wrote"]
        return sum(
            data["verb"] == "create" and data["resource"].startswith("networkchaos.")
            for data in writes
        )

    def story(self):
        return stories(self.entries)["default", "w"].workflow


@pytest.fixture
def theatre():
    theatre = Guarding()
    yield theatre
    theatre.stop()
    theatre.close()


TWO = (
    template("all", "Serial", children=["one", "two"]),
    suspend("one", "5s"),
    suspend("two", "2m"),
)


@HOWS
def test_workflow_reports_an_unwritable_status_until_it_is_written(theatre, how, caplog):
    theatre.put_on("all", *TWO)
    theatre.runner.advance(2)
    theatre.refuse(how, NODES)
    theatre.runner.advance(40)
    (one,) = (
        node["metadata"]["name"]
        for node in theatre.all(NODES)
        if node["spec"]["templateName"] == "one"
    )
    why = f"the status of {one} cannot be written: {WORDS[how]}"
    assert theatre.told() == (RUNNING, why)
    assert theatre.story().message == why
    assert theatre.phases() == {"all": "WaitingForChild", "one": "Holding"}
    said = {
        (event["involvedObject"]["kind"], event["type"], event["message"])
        for event in theatre.all(EVENTS)
    }
    assert {
        ("Workflow", "Warning", why),
        ("WorkflowNode", "Warning", f"its status cannot be written: {WORDS[how]}"),
    } <= said
    assert why in caplog.text
    theatre.allow()
    theatre.runner.advance(RETRY)
    assert theatre.told() == (RUNNING, "")
    assert theatre.story().message == ""
    assert theatre.phases() == {"all": "WaitingForChild", "one": SUCCEED, "two": "Holding"}
    assert "StatusWritten" in {event["reason"] for event in theatre.all(EVENTS)}
    theatre.runner.advance(120)
    assert theatre.told() == (SUCCEED, "")


@HOWS
@pytest.mark.parametrize("resource", [NODES, WORKFLOWS], ids=["of nodes", "of workflows"])
@pytest.mark.parametrize(
    "from_the_first", [True, False], ids=["from the first", "while chaos is on"]
)
def test_workflow_with_unwritable_statuses_ends_in_time_without_chaos(
    theatre, how, resource, from_the_first
):
    if from_the_first:
        theatre.refuse(how, resource)
    theatre.put_on(
        "all",
        template("all", "Serial", children=["cut", "rest"]),
        partition("cut", "20s"),
        suspend("rest", "1h"),
    )
    theatre.runner.advance(5)
    if not from_the_first:
        theatre.inject()
        theatre.runner.advance(1)
        theatre.refuse(how, resource)
    if resource == WORKFLOWS and not from_the_first:
        patch = {"metadata": {"annotations": {"workflow.chaos-mesh.org/abort": "true"}}}
        theatre.call(theatre.api.patch(WORKFLOWS, "w", patch, "default"))
    theatre.runner.advance(WRITE_TIMEOUT + 4 * LONGEST_PAUSE)
    assert theatre.all(CUT) == []
    if resource == NODES:
        phase, why = theatre.told()
        assert phase == FAILED
        assert f"could not be written within 300 s: {WORDS[how]}" in why
    theatre.allow()
    theatre.runner.advance(RETRY)
    assert set(theatre.phases().values()) == {FAILED} or theatre.phases() == {
        "all": FAILED,
        "cut": SUCCEED,
    }
    phase, why = theatre.told()
    assert phase == FAILED
    assert (
        why == "the workflow was aborted"
        if resource == WORKFLOWS and not from_the_first
        else f"within 300 s: {WORDS[how]}" in why
    )
    assert theatre.created() <= 1


@HOWS
def test_no_chaos_is_created_before_its_status_is_written(theatre, how):
    theatre.put_on(
        "all",
        template("all", "Serial", children=["rest", "cut"]),
        suspend("rest", "5s"),
        partition("cut", "20s"),
    )
    theatre.runner.advance(4)
    theatre.refuse(how, NODES)
    theatre.runner.advance(100)
    assert theatre.all(CUT) == []
    theatre.allow()
    for _ in range(RETRY // 5):
        theatre.runner.advance(0 if theatre.all(CUT) else 5)
    theatre.inject()
    theatre.runner.advance(21)
    assert (theatre.told(), theatre.created()) == ((SUCCEED, ""), 1)


@HOWS
@pytest.mark.parametrize("is_back", [False, True], ids=["and is refused as well", "and is not"])
@pytest.mark.parametrize("annotations_refused", [False, True], ids=["", "and nothing can be noted"])
def test_restarted_engine_injects_nothing_twice(theatre, how, is_back, annotations_refused):
    theatre.put_on(
        "all",
        template("all", "Serial", children=["cut", "rest"]),
        partition("cut", "20s"),
        suspend("rest", "5s"),
    )
    theatre.runner.advance(1)
    theatre.inject()
    theatre.runner.advance(1)
    theatre.refuse(how, NODES, also={(NODES, "")} if annotations_refused else ())
    theatre.runner.advance(50)
    assert (theatre.all(CUT), theatre.phases()["cut"]) == ([], "Holding")
    theatre.stop()
    if is_back:
        theatre.allow()
    theatre.restart()
    theatre.runner.advance(100)
    theatre.allow()
    theatre.runner.advance(RETRY)
    phase, why = theatre.told()
    assert (theatre.created(), theatre.all(CUT)) == (1, [])
    if annotations_refused:
        assert (phase, why) == (
            FAILED,
            "cut: its resource or its labels were deleted, and not by the engine",
        )
    else:
        assert (phase, why, theatre.phases()) == (
            SUCCEED,
            "",
            {"all": SUCCEED, "cut": SUCCEED, "rest": SUCCEED},
        )


def test_unwritten_end_is_known_to_the_next_engine(theatre):
    theatre.put_on("all", *TWO)
    theatre.runner.advance(124)
    theatre.refuse("refuses", WORKFLOWS)
    theatre.runner.advance(20)
    assert theatre.told() == (RUNNING, "")
    theatre.stop()
    theatre.allow()
    theatre.restart()
    theatre.runner.advance(20)
    assert (theatre.told(), theatre.phases()) == (
        (SUCCEED, ""),
        {"all": SUCCEED, "one": SUCCEED, "two": SUCCEED},
    )
    assert all(
        "workflow.kscen.io/unwritten" not in node["metadata"].get("annotations", {})
        for node in (*theatre.all(NODES), *theatre.all(WORKFLOWS))
    )


def test_exit_handler_completes_with_unwritable_statuses(theatre):
    theatre.put_on("rest", suspend("rest", "5s"), partition("cut", "20s"), onExit="cut")
    theatre.runner.advance(1)
    theatre.refuse("refuses", NODES)
    theatre.runner.advance(WRITE_TIMEOUT + 20)
    phase, why = theatre.told()
    assert (phase, theatre.created()) == (FAILED, 0)
    assert "could not be written within 300 s: not by me" in why


def test_notes_of_another_workflow_are_ignored(theatre):
    theatre.put_on("all", *TWO)
    theatre.runner.advance(2)
    theatre.refuse("refuses", WORKFLOWS)
    theatre.runner.advance(WRITE_TIMEOUT)
    (workflow,) = theatre.all(WORKFLOWS)
    annotations = workflow["metadata"]["annotations"]
    theatre.allow()
    theatre.call(theatre.api.delete(WORKFLOWS, "w", "default"))
    theatre.runner.advance(5)
    metadata = {"name": "copy", "namespace": "default", "annotations": annotations}
    theatre.create(WORKFLOWS, {"metadata": metadata, "spec": workflow["spec"]})
    theatre.runner.advance(130)
    assert theatre.told() == (SUCCEED, "")


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
def test_invalid_note_is_ignored(theatre, text):
    theatre.put_on("all", *TWO)
    theatre.runner.advance(2)
    theatre.stop()
    for resource in (WORKFLOWS, NODES):
        for obj in theatre.all(resource):
            note = {"workflow.kscen.io/unwritten": text.replace("%s", obj["metadata"]["uid"])}
            patch = {"metadata": {"annotations": note}}
            theatre.call(theatre.api.patch(resource, obj["metadata"]["name"], patch, "default"))
    theatre.restart()
    theatre.runner.advance(130)
    assert theatre.told() == (SUCCEED, "")


def test_next_engine_reads_notes_of_another_attempt(theatre):
    theatre.put_on("cut", partition("cut", "2m", retry={"limit": 2}))
    theatre.runner.advance(1)
    theatre.inject()
    theatre.runner.advance(1)
    theatre.call(theatre.api.delete(CUT, theatre.all(CUT)[0]["metadata"]["name"], "default"))
    theatre.runner.advance(1)
    theatre.refuse("refuses", NODES)
    theatre.inject()
    theatre.runner.advance(125)  # it is removed, and over
    theatre.restart()
    theatre.allow()
    theatre.runner.advance(200)
    assert (theatre.phases(), theatre.told()[0], theatre.created()) == (
        {"cut": SUCCEED},
        SUCCEED,
        2,
    )


def test_notes_expire_when_the_status_can_be_written(theatre):
    theatre.put_on(
        "all",
        template("all", "Serial", children=["cut", "rest"]),
        partition("cut", "2m"),
        suspend("rest", "10m"),
    )
    theatre.runner.advance(1)
    theatre.refuse("refuses", NODES)
    theatre.inject()
    theatre.runner.advance(1)  # that it is held is noted
    theatre.refuse("refuses", NODES, also=[(NODES, "")])
    theatre.runner.advance(122)  # that it is over is not
    theatre.allow()
    theatre.runner.advance(RETRY)
    theatre.restart()
    theatre.runner.advance(800)
    assert (theatre.phases(), theatre.told()) == (
        {"all": SUCCEED, "cut": SUCCEED, "rest": SUCCEED},
        (SUCCEED, ""),
    )


def test_abandoned_workflow_starts_nothing_more(theatre, monkeypatch):
    async def patch(self, resource, name, *arguments, subresource="", **options):
        if name.startswith("all-"):
            await self._guard.judge(resource, subresource)
        return await self._api.patch(resource, name, *arguments, subresource=subresource, **options)

    monkeypatch.setattr(Guarded, "patch", patch)
    theatre.put_on(
        "all",
        template("all", "Serial", children=["rest", "cut"]),
        suspend("rest", "5s"),
        partition("cut", "10m"),
    )
    theatre.runner.advance(2)
    theatre.refuse("refuses", NODES)
    theatre.runner.advance(WRITE_TIMEOUT + RETRY)
    assert (theatre.told()[0], theatre.created()) == (FAILED, 0)


def test_long_active_chaos_is_observed_before_its_deadline(theatre, monkeypatch):
    listed = InProcessApi.list

    async def slowly(self, resource, *arguments, **options):
        if resource == CUT:
            await theatre.clock.sleep(0.2)
        return await listed(self, resource, *arguments, **options)

    theatre.put_on("cut", partition("cut", "10m"))
    theatre.runner.advance(1)
    theatre.stop()
    theatre.inject()
    theatre.runner.advance(120)
    monkeypatch.setattr(InProcessApi, "list", slowly)
    theatre.engine = None
    theatre.restart()
    theatre.runner.advance(5)
    assert (theatre.phases(), theatre.told()) == ({"cut": "Holding"}, (RUNNING, ""))
