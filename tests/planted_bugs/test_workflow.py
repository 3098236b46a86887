"""Each bug of the workflow engine changes a table, a decision or a delay, and leaves nothing."""

from types import SimpleNamespace

import pytest

from planted_bugs import workflow
from planted_bugs.catalogue import planted
from planted_bugs.workflow import AWAKE, CHILD_FAILED, CHILD_SUCCEED, CREATED
from pytest_kscen.clock import VirtualRunner
from pytest_kscen.objects.chaos_mesh import FAILED, HOLDING, INIT, SUCCEED, WAITING_FOR_CHILD
from pytest_kscen.workflow.engine import actors, triggers
from pytest_kscen.workflow.engine.processor import EventProcessor
from pytest_kscen.workflow.engine.templates import Branch, Template
from pytest_kscen.workflow.engine.trees import Tree, TreeNode, scheduler_of
from pytest_kscen.workflow.engine.triggers import OperableTrigger
from pytest_kscen.workflow.tables import WORKFLOW, state_machine_of
from pytest_kscen.workflow.tables.machine import (
    EventType,
    Finish,
    NodeAction,
    NodeEvent,
    NodeResult,
    NotifyAfter,
    WorkflowKey,
)

KEY = WorkflowKey("default", "w")


def node(name="s", type_="Serial", children=(), **fields):
    template = Template(name, type_, {}, children=tuple(children), **fields)
    return TreeNode(name, template, "", 0.0, {"metadata": {"uid": name}})


def tree(root, *nodes):
    definition = SimpleNamespace(entry="s", exit="", templates={})
    return Tree(KEY, definition, root, {one.name: one for one in nodes})


def alternative(type_, event, phase, of, at):
    """Steps that the node's table has for the event, by the guards of its tree."""
    machine = WORKFLOW if type_ == "Workflow" else state_machine_of(type_)
    return next(one.steps for one in machine.cell(event, phase) if of.holds(one.guard, at))


def finishes(steps):
    return [step.result for step in steps if isinstance(step, Finish)]


def with_children(type_, *phases):
    parent = node(type_=type_, children="abc")
    children = [node(f"c{number}") for number in range(len(phases))]
    for child, phase in zip(children, phases, strict=True):
        child.phase = phase
    parent.children = [child.name for child in children]
    return tree(parent, parent, *children), parent


def started_by_serial():
    serial = node(children="abc")
    return list(scheduler_of(serial)(tree(serial), serial))


def serial_after_failure():
    of, parent = with_children("Serial", FAILED)
    return finishes(alternative("Serial", CHILD_FAILED, WAITING_FOR_CHILD, of, parent))


def parallel_after_one_child():
    of, parent = with_children("Parallel", SUCCEED, INIT)
    steps = alternative("Parallel", CHILD_SUCCEED, WAITING_FOR_CHILD, of, parent)
    return finishes(steps)


def serial_after_abort():
    of, parent = with_children("Serial", SUCCEED)
    parent.ending = EventType.ABORTED
    return finishes(alternative("Serial", CHILD_SUCCEED, WAITING_FOR_CHILD, of, parent))


def chaos_at_its_end():
    chaos = node(type_="NetworkChaos")
    steps = alternative("NetworkChaos", AWAKE, HOLDING, tree(chaos), chaos)
    return NodeAction.DELETE_CHAOS in steps


def event_of_deleted_chaos():
    return triggers.chaos_event(None, {"metadata": {"name": "c"}})


def suspend_waits():
    suspend = node(type_="Suspend")
    steps = alternative("Suspend", CREATED, INIT, tree(suspend), suspend)
    return any(isinstance(step, NotifyAfter) for step in steps)


def chosen_branches():
    task = node(type_="Task", branches=(Branch("a", "exitCode == 0"), Branch("b", "exitCode != 0")))
    task.template.body["task"] = {"container": {"name": "main"}}
    terminated = {"name": "main", "state": {"terminated": {"exitCode": 0}}}
    pod = {
        "metadata": {"name": "s", "namespace": "default"},
        "spec": {"containers": [{"name": "main"}]},
        "status": {"containerStatuses": [terminated]},
    }

    async def get(*_):
        return pod

    async def log(*_, **__):
        return ""

    objects = SimpleNamespace(api=SimpleNamespace(get=get, log=log))
    run(actors.ACTORS[NodeAction.EVALUATE](SimpleNamespace(node_objects=objects), tree(task), task))
    return task.chosen


def result_with_a_failed_child():
    of, parent = with_children("Parallel", SUCCEED, FAILED)
    return of.result(NodeResult.AS_CHILDREN, parent)


def run(coroutine):
    runner = VirtualRunner()
    try:
        return runner.call(coroutine)
    finally:
        runner.close()


def events_after(act, seconds):
    """Names of the nodes whose events are in the queue so many seconds later."""
    runner = VirtualRunner()
    trigger = OperableTrigger("test", runner.clock)
    runner.start(trigger.run(), "trigger")
    runner.advance(1)

    async def acting():
        act(trigger)

    runner.call(acting())
    runner.advance(seconds)
    names = [event.node for events in trigger._waiting.values() for event in events]
    runner.close()
    return names


def later(trigger, name, seconds):
    trigger.notify_delay(NodeEvent(KEY, name, AWAKE), seconds)


def events_of_a_deleted_workflow():
    def delete(trigger):
        later(trigger, "old", 10)
        trigger.forget(KEY)

    return events_after(delete, 20)


def events_before_a_later_one():
    runner = VirtualRunner()
    trigger = OperableTrigger("test", runner.clock)
    runner.start(trigger.run(), "trigger")

    async def acting(name, seconds):
        later(trigger, name, seconds)

    runner.call(acting("late", 100))
    runner.advance(1)
    runner.call(acting("soon", 5))
    runner.advance(10)
    names = [event.node for events in trigger._waiting.values() for event in events]
    runner.close()
    return names


def event_of_an_old_attempt():
    task = node(type_="Task")
    task.attempt = 2
    saved = []

    async def save(*_):
        saved.append(task.waiting_reason)

    processor = SimpleNamespace(
        _repository=SimpleNamespace(trees={KEY: tree(task, task)}),
        _save_status=save,
        reporter=SimpleNamespace(report_wait=lambda *_: None),
    )
    event = NodeEvent(KEY, "s", EventType.POD_WAITS, "not scheduled", about="s")
    run(EventProcessor.take(processor, event))
    return saved


CASES = {
    # bug: (what is done, what follows, what follows with the bug)
    "serial-skips-first-child": (started_by_serial, ["a"], ["b"]),
    "serial-continues-after-failure": (serial_after_failure, [NodeResult.FAILED], []),
    "parallel-ends-with-first-child": (parallel_after_one_child, [], [NodeResult.SUCCEED]),
    "next-child-after-abort": (serial_after_abort, [NodeResult.AS_ENDED], []),
    "chaos-not-deleted": (chaos_at_its_end, True, False),
    "lost-chaos-unnoticed": (
        event_of_deleted_chaos,
        (EventType.OBJECT_LOST, triggers.OBJECT_LOST_MESSAGE),
        None,
    ),
    "suspend-without-duration": (suspend_waits, True, False),
    "all-branches-chosen": (chosen_branches, ["a"], ["a", "b"]),
    "failed-child-forgotten": (result_with_a_failed_child, FAILED, SUCCEED),
    "timer-of-deleted-workflow-kept": (events_of_a_deleted_workflow, [], ["old"]),
    "earlier-delay-missed": (events_before_a_later_one, ["soon"], []),
    "events-of-old-attempt-taken": (event_of_an_old_attempt, [], ["not scheduled"]),
}


@pytest.mark.parametrize("bug", workflow.BUGS, ids=lambda bug: bug.name)
def test_bug_changes_what_the_engine_does(bug):
    act, sound, broken = CASES[bug.name]
    assert act() == sound
    with planted(bug.name):
        assert act() == broken
    assert act() == sound
