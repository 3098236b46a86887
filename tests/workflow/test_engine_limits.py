"""Time limits of the engine: messages at expiry, and persistence across restarts."""

from __future__ import annotations

import asyncio

import pytest
from engine_env import EngineEnv, partition, suspend, task, template

from pytest_kscen.kube.actor import RunContext
from pytest_kscen.kube.in_process import InProcessApi
from pytest_kscen.objects.chaos_mesh import KINDS, SHIPPED
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import EVENTS, PODS
from pytest_kscen.workflow.engine import drive
from pytest_kscen.workflow.engine.repository import Repository

NETWORK_CHAOS = KINDS["NetworkChaos"].resource
IN_EFFECT = {
    "experiment": {"desiredPhase": "Run"},
    "conditions": [
        {"type": "AllInjected", "status": "True"},
        {"type": "Selected", "status": "True"},
    ],
}


class RestartableEngine(EngineEnv):
    """Environment with an engine that may be interrupted."""

    def __init__(self):
        super().__init__("limits")
        self.context = RunContext(
            lambda agent: InProcessApi(self.server, agent=agent),
            self.clock,
            self.chance,
            self.journal,
            "run",
        )
        self.engine = None
        self.restart()

    def restart(self):
        self.call(self._restarted())
        self.runner.advance(1)

    def stop(self):
        self.call(self._stopped())

    async def _stopped(self):
        if self.engine:
            self.engine.cancel()
            await asyncio.wait([self.engine])

    async def _restarted(self):
        await self._stopped()
        self.engine = asyncio.get_running_loop().create_task(drive(self.context, SHIPPED))

    def inject(self):
        """Set the status of the only chaos object as its daemon would."""
        (chaos,) = self.all(NETWORK_CHAOS)
        self.patch_chaos(chaos, {"status": IN_EFFECT})
        self.runner.advance(1)

    def patch_chaos(self, chaos, patch):
        self.call(self.api.patch(NETWORK_CHAOS, chaos["metadata"]["name"], patch, "default"))

    def reported(self):
        """Return phase and message of each node, by its template, and of the workflow."""
        (workflow,) = self.all(SHIPPED.workflows)
        named = {node["spec"]["templateName"]: node["status"] for node in self.all(SHIPPED.nodes)}
        return {
            name: (of["phase"], of.get("message", ""))
            for name, of in {**named, "": workflow["status"]}.items()
        }


@pytest.fixture
def played():
    played = RestartableEngine()
    yield played
    played.stop()
    played.close()


def namespace_probe(expression, when="End", **more):
    of = {"apiVersion": "v1", "kind": "Namespace", "name": "default", "expression": expression}
    return {"name": "calm", "when": when, "kubernetes": of, **more}


def test_node_ended_by_its_deadline_reports_it(played):
    both = template("both", "Parallel", children=["rest"], deadline="90s")
    played.create_workflow(
        "all",
        template("all", "Serial", children=["both", "late"]),
        both,
        suspend("rest", "1h"),
        task("late", deadline="5s"),
    )
    played.runner.advance(100)
    pod = next(
        node["metadata"]["name"]
        for node in played.all(SHIPPED.nodes)
        if node["spec"]["templateName"] == "late"
    )
    over = f"its deadline of 5s is over; its pod {pod} was still Pending"
    assert played.reported() == {
        "both": ("Succeed", "its deadline of 1m30s is over"),
        "rest": ("Succeed", "its parent's deadline is over"),
        "late": ("Failed", over),
        "all": ("Failed", f"late: {over}"),
        "": ("Failed", f"late: {over}"),
    }
    text = {(event["reason"], event["message"]) for event in played.all(EVENTS)}
    assert {
        ("NodeDeadlineExceed", "its deadline of 5s is over"),
        ("NodeFailed", over),
        ("ParentNodeDeadlineExceed", "its parent's deadline is over"),
    } <= text


@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_task_ended_by_its_deadline_names_its_pod(played, phase):
    played.create_workflow(
        "long", task("long", ("rest", "exitCode == 0"), deadline="5s"), suspend("rest")
    )
    played.runner.advance(1)
    (pod,) = played.all(PODS)
    name = pod["metadata"]["name"]
    played.call(
        played.api.patch(PODS, name, {"status": {"phase": phase}}, "default", subresource="status")
    )
    played.runner.advance(10)
    assert (
        played.reported()["long"][1]
        == f"its deadline of 5s is over; its pod {name} was still {phase}"
    )


@pytest.mark.parametrize("is_held", [False, True], ids=["at once", "after its daemon has let go"])
def test_chaos_losing_its_labels_is_removed(played, is_held):
    played.create_workflow("cut", partition("cut", "100s"))
    played.runner.advance(1)
    played.inject()
    (chaos,) = played.all(NETWORK_CHAOS)
    played.patch_chaos(
        chaos,
        {"metadata": {"labels": None, "finalizers": ["example.com/held"] if is_held else None}},
    )
    played.runner.advance(20)
    if is_held:
        assert played.reported()["cut"][0] == "Running"
        played.patch_chaos(chaos, {"metadata": {"finalizers": None}})
        played.runner.advance(1)
    assert played.reported()["cut"] == (
        "Failed",
        "its resource or its labels were deleted, and not by the engine",
    )
    assert played.all(NETWORK_CHAOS) == []


def advanced_with_restarts(played, seconds):
    for _ in range(seconds // 10):
        played.restart()
        played.runner.advance(9)


def test_chaos_timeouts_hold_across_engine_restarts(
    played,
):
    played.create_workflow("cut", partition("cut", "100s"))
    played.runner.advance(1)
    (chaos,) = played.all(NETWORK_CHAOS)
    played.patch_chaos(chaos, {"metadata": {"finalizers": ["example.com/stuck"]}})
    advanced_with_restarts(played, 50)
    assert "deletionTimestamp" not in played.all(NETWORK_CHAOS)[0]["metadata"]
    advanced_with_restarts(played, 20)
    assert "deletionTimestamp" in played.all(NETWORK_CHAOS)[0]["metadata"]
    advanced_with_restarts(played, 280)
    assert played.reported()["cut"][0] == "Running"
    advanced_with_restarts(played, 20)
    assert played.reported()["cut"] == (
        "Failed",
        "it was not gone within 300 s; deleting it is retried in the background",
    )


@pytest.mark.parametrize(
    "is_there", [True, False], ids=["while an engine is there", "while none is"]
)
def test_chaos_removed_before_injection_is_not_created_again(played, is_there):
    played.create_workflow("cut", partition("cut", "100s"))
    played.runner.advance(1)
    (chaos,) = played.all(NETWORK_CHAOS)
    if not is_there:
        played.stop()
    played.call(played.api.delete(NETWORK_CHAOS, chaos["metadata"]["name"], "default"))
    played.runner.advance(1)
    if not is_there:
        played.restart()
    played.runner.advance(1)
    assert played.reported()["cut"] == (
        "Failed",
        "its resource or its labels were deleted, and not by the engine",
    )
    assert played.all(NETWORK_CHAOS) == []


def test_chaos_removed_without_an_engine_counts_as_removed_in_time(played):
    played.create_workflow("cut", partition("cut", "5s"))
    played.runner.advance(1)
    played.inject()
    (chaos,) = played.all(NETWORK_CHAOS)
    played.patch_chaos(chaos, {"metadata": {"finalizers": ["example.com/stuck"]}})
    played.runner.advance(100)
    played.stop()
    played.patch_chaos(chaos, {"metadata": {"finalizers": None}})
    played.runner.advance(1000)
    played.restart()
    assert played.reported()["cut"] == ("Succeed", "")


def test_restart_does_not_shorten_a_backoff(played):
    retry = {"limit": 5, "backoff": {"duration": "10m"}}
    played.create_workflow(
        "rest",
        template(
            "rest",
            "Suspend",
            deadline="5s",
            retry=retry,
            probes=[namespace_probe("false", "Start")],
        ),
    )
    played.runner.advance(1)
    advanced_with_restarts(played, 500)
    (node,) = played.all(SHIPPED.nodes)
    assert (node["status"]["phase"], node["status"]["engine"]["attempt"]) == ("Init", 2)
    advanced_with_restarts(played, 200)
    (node,) = played.all(SHIPPED.nodes)
    assert node["status"]["engine"]["attempt"] == 3


@pytest.mark.parametrize("above", ["Serial", "Parallel"])
@pytest.mark.parametrize("restarts", [False, True])
def test_interrupted_task_with_a_failed_last_probe_is_a_failure_of_its_parent(
    played, above, restarts
):
    tried = task("late", probes=[namespace_probe("false")], retry={"limit": 3})
    played.create_workflow("all", template("all", above, children=["late"], deadline="10s"), tried)
    played.runner.advance(5)
    if restarts:
        played.restart()
    played.runner.advance(10)
    phase, why = played.reported()["late"]
    assert (phase, why.partition(": ")[0]) == ("Failed", "the probe 'calm' has failed")
    assert [played.reported()[name] for name in ("all", "")] == [("Failed", f"late: {why}")] * 2


def failing(name, **retry):
    """Task that fails after a second."""
    return task(name, ("rest", "exitCode % 0 == 1"), **({"retry": retry} if retry else {}))


@pytest.mark.parametrize("retried", ["", "inner", "outer"])
@pytest.mark.parametrize("restarts", [False, True])
def test_failed_node_stays_failed_when_its_deadline_precedes_the_next_attempt(
    played, retried, restarts
):
    retry = {
        name: {"limit": 1, "backoff": {"duration": "30s"}} if name == retried else {}
        for name in ("inner", "outer")
    }
    outer = template(
        "all",
        "Serial",
        children=["bad"],
        deadline="20s",
        **({"retry": retry["outer"]} if retry["outer"] else {}),
    )
    played.create_workflow("all", outer, failing("bad", **retry["inner"]), suspend("rest"))
    played.runner.advance(1)
    pods_end(played)
    played.runner.advance(1)
    if restarts:
        played.restart()
    played.runner.advance(60)
    why = "the branch to 'rest': expression 'exitCode % 0 == 1', column 10: it divides by zero"
    assert played.reported() == {
        "bad": ("Failed", why),
        "all": ("Failed", f"bad: {why}"),
        "": ("Failed", f"bad: {why}"),
    }


def pods_end(played):
    """Set the status as a kubelet would at the pod's end."""
    for pod in played.all(PODS):
        played.logs.begin(pod, "main").write("")
        ended = {"name": "main", "state": {"terminated": {"exitCode": 0}}}
        status = {"phase": "Succeeded", "containerStatuses": [ended]}
        name = pod["metadata"]["name"]
        played.call(
            played.api.patch(PODS, name, {"status": status}, "default", subresource="status")
        )


def test_node_aborted_during_cleanup_of_a_failed_attempt_is_not_retried(played):
    cut = partition("cut", "1h", retry={"limit": 3, "backoff": {"duration": "1s"}})
    name = played.create_workflow("cut", cut)["metadata"]["name"]
    played.runner.advance(1)
    (chaos,) = played.all(NETWORK_CHAOS)
    played.patch_chaos(chaos, {"metadata": {"finalizers": ["example.com/slow"]}})
    played.runner.advance(70)
    abort = {"metadata": {"annotations": {"workflow.chaos-mesh.org/abort": "true"}}}
    played.call(played.api.patch(SHIPPED.workflows, name, abort, "default"))
    played.runner.advance(1)
    played.restart()
    played.patch_chaos(chaos, {"metadata": {"finalizers": None}})
    played.runner.advance(5)
    assert played.reported()["cut"][0] == "Failed"
    assert played.all(NETWORK_CHAOS) == []


@pytest.mark.parametrize("restarts", [False, True])
def test_deadline_starts_after_the_first_probes(played, restarts):
    slow = namespace_probe("true", "Start", initialDelay="10s")
    played.create_workflow(
        "all",
        template("all", "Serial", children=["rest"], deadline="5s", probes=[slow]),
        suspend("rest", "1h"),
    )
    played.runner.advance(12)
    assert played.reported()["all"][0] == "WaitingForChild"
    if restarts:
        played.restart()
    played.runner.advance(1)
    assert played.reported()["rest"][0] == "Holding"
    played.runner.advance(3)
    assert played.reported()["all"] == ("Succeed", "its deadline of 5s is over")


@pytest.mark.parametrize("holds", [True, False])
def test_deadline_does_not_interrupt_the_last_probes(played, holds):
    probe = namespace_probe("true" if holds else "false", initialDelay="6m")
    both = template("both", "Parallel", children=["cut", "rest"], deadline="1m")
    played.create_workflow(
        "both", both, partition("cut", "10s", probes=[probe]), suspend("rest", "1h")
    )
    played.runner.advance(1)
    played.inject()
    played.runner.advance(350)
    assert (played.all(NETWORK_CHAOS), played.reported()["cut"][0]) == ([], "Running")
    played.runner.advance(50)
    phase, message = played.reported()["cut"]
    assert phase == ("Succeed" if holds else "Failed")
    assert message.startswith("the probe 'calm' has failed") is not holds


def test_change_of_a_started_node_is_reported_as_ignored(played, caplog):
    caplog.set_level("INFO")
    spec = [
        template("all", "Serial", children=["one", "two"]),
        suspend("one", "20s"),
        suspend("two"),
        suspend("three"),
    ]
    played.create_workflow("all", *spec)
    played.runner.advance(5)

    def change(number, **fields):
        spec[number] = {**spec[number], **fields}
        played.call(
            played.api.patch(SHIPPED.workflows, "w", {"spec": {"templates": spec}}, "default")
        )
        played.runner.advance(1)

    change(2, deadline="3s")
    change(0, children=["one", "two", "three"])
    change(1, deadline="1h")
    played.runner.advance(30)
    assert set(played.reported()) == {"all", "one", "two", ""}
    assert played.reported()[""] == ("Succeed", "")
    follows = "its spec was changed: nodes that begin from now on use the new one"
    kept = f"{follows}; these have begun with the old one: "
    reported = [
        (event["type"], event["message"])
        for event in played.all(EVENTS)
        if event["reason"] == "SpecChanged"
    ]
    assert sorted(reported) == [
        ("Normal", follows),
        ("Warning", f"{kept}all"),
        ("Warning", f"{kept}one"),
    ]
    assert [record.levelname for record in caplog.records if "changed" in record.getMessage()] == [
        "INFO",
        "WARNING",
        "WARNING",
    ]


def test_abort_during_the_last_probes_is_processed(played):
    rest = template(
        "rest", "Suspend", deadline="10s", probes=[namespace_probe("true", initialDelay="6m")]
    )
    (workflow,) = [played.create_workflow("rest", rest)]
    played.runner.advance(30)
    abort = {"metadata": {"annotations": {"workflow.chaos-mesh.org/abort": "true"}}}
    played.call(played.api.patch(SHIPPED.workflows, workflow["metadata"]["name"], abort, "default"))
    played.runner.advance(1)
    assert played.reported()["rest"] == ("Failed", "the workflow was aborted")


LATE = {"initialDelay": "6m", "interval": "1m", "failureThreshold": 30}


@pytest.mark.parametrize("child", ["cut", "rest"])
def test_failure_of_a_sibling_ends_the_last_probes(played, child):
    probes = [namespace_probe("true", **LATE)]
    cut, rest = (
        partition("cut", "10s", probes=probes),
        template("rest", "Suspend", deadline="10s", probes=probes),
    )
    bad = task("bad", command="sleep 100", deadline="60s")
    played.create_workflow(
        "both",
        template("both", "Parallel", children=["bad", child]),
        bad,
        *(each for each in (cut, rest) if each["name"] == child),
    )
    played.runner.advance(1)
    if child == "cut":
        played.inject()
    played.runner.advance(50)
    assert played.reported()[child][0] == ("Running" if child == "cut" else "Holding")
    assert played.all(NETWORK_CHAOS) == []
    played.runner.advance(10)
    pod = next(
        node["metadata"]["name"]
        for node in played.all(SHIPPED.nodes)
        if node["spec"]["templateName"] == "bad"
    )
    why = f"bad: its deadline of 1m is over; its pod {pod} was still Pending"
    assert (played.reported()[child], played.reported()["both"]) == (
        ("Failed", why),
        ("Failed", why),
    )


def test_node_not_started_has_no_last_probes(played):
    before, after = (
        namespace_probe("false", "Start"),
        {**namespace_probe("true", **LATE), "name": "late"},
    )
    played.create_workflow(
        "rest", template("rest", "Suspend", deadline="10s", probes=[before, after])
    )
    played.runner.advance(1)
    phase, message = played.reported()["rest"]
    assert (phase, message.startswith("before it began, the probe 'calm' has failed")) == (
        "Failed",
        True,
    )
    played.runner.advance(3600)
    asked = [entry.data["probe"] for entry in played.journal if entry.what == "workflow-probe"]
    assert asked == ["calm"]


@pytest.mark.parametrize("when", ["Continuous", "OnChaos"])
def test_node_aborted_before_its_first_probes_answered_runs_no_more_probes(played, when):
    before, during = (
        namespace_probe("true", "Start", initialDelay="30s"),
        {**namespace_probe("true", when), "name": "during"},
    )
    workflow = played.create_workflow(
        "rest", template("rest", "Suspend", deadline="1h", probes=[before, during])
    )
    played.runner.advance(5)
    abort = {"metadata": {"annotations": {"workflow.chaos-mesh.org/abort": "true"}}}
    played.call(played.api.patch(SHIPPED.workflows, workflow["metadata"]["name"], abort, "default"))
    played.runner.advance(1)
    assert played.reported()["rest"] == ("Failed", "the workflow was aborted")
    played.runner.advance(3600)
    assert [entry.data["probe"] for entry in played.journal if entry.what == "workflow-probe"] == []


def test_status_is_never_written_to_another_object_of_the_name():
    engine_env = EngineEnv()
    repository = Repository(engine_env.actor(), SHIPPED)
    tree = repository.add_tree(engine_env.create_workflow("entry", suspend("entry")))
    engine_env.call(engine_env.api.delete(SHIPPED.workflows, "w", "default"))
    engine_env.create_workflow("entry", suspend("entry"))
    tree.root.phase = "Succeed"
    with pytest.raises(NotFound):
        engine_env.call(repository.save(tree, tree.root))
    assert [each.get("status") for each in engine_env.all(SHIPPED.workflows)] == [None]
    engine_env.close()


NOBODY = {"url": "http://nobody.invalid", "criteria": {"statusCode": "200"}}
CHECK = {"mode": "Synchronous", "type": "HTTP", "http": NOBODY, "failureThreshold": 1000}


@pytest.mark.parametrize("engine_is_there", [True, False])
@pytest.mark.parametrize("mode", ["Synchronous", "Continuous"])
def test_removed_status_check_fails_its_node(played, mode, engine_is_there):
    played.create_workflow(
        "look", template("look", "StatusCheck", deadline="1h", statusCheck={**CHECK, "mode": mode})
    )
    played.runner.advance(5)
    if not engine_is_there:
        played.stop()
    (check,) = played.all(SHIPPED.status_checks)
    played.call(played.api.delete(SHIPPED.status_checks, check["metadata"]["name"], "default"))
    played.runner.advance(5)
    if not engine_is_there:
        played.restart()
    assert played.reported()["look"] == (
        "Failed",
        "its StatusCheck was deleted, and not by the engine",
    )
    assert played.all(SHIPPED.status_checks) == []
