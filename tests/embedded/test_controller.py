import pytest

from pytest_kscen.clock import ActorCrashedError
from pytest_kscen.embedded.controller import Controller
from pytest_kscen.objects.errors import InternalError

START = 1767225600.0


class RecordingReconciler:
    """Controller that records reconciled keys and their times."""

    def __init__(self, runner):
        self.runner, self.looks, self.answers = runner, [], {}

    async def look(self, key):
        self.looks.append((key, round(self.runner.clock.now() - START, 3)))
        answer = self.answers.get(key, [None]).pop(0) if self.answers.get(key) else None
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def notebook(runner):
    return RecordingReconciler(runner)


@pytest.fixture
def controller(runner, notebook):
    controller = Controller("c", runner.clock, notebook.look)
    runner.start(controller.run(), "c")
    runner.advance(0)
    return controller


def inside(runner, function, *args):
    async def call():
        return function(*args)

    return runner.ask(call())


def test_key_is_queued_once(runner, controller, notebook):
    for key in ("a", "b", "a"):
        controller.enqueue(key)
    runner.advance(0)
    assert notebook.looks == [("a", 0), ("b", 0)]


def test_errors_requeue_key_with_backoff(runner, controller, notebook):
    notebook.answers["a"] = [InternalError("no"), ConnectionError(), InternalError("no")]
    controller.enqueue("a")
    runner.advance(1)
    assert notebook.looks == [("a", 0), ("a", 0.005), ("a", 0.015), ("a", 0.035)]
    notebook.answers["a"] = [InternalError("no")]
    controller.enqueue("a")
    runner.advance(1)
    assert notebook.looks[4:] == [("a", 1), ("a", 1.005)]


def test_key_is_requeued_after_requested_delay(runner, controller, notebook):
    notebook.answers["a"] = [30.0]
    controller.enqueue("a")
    runner.advance(60)
    assert notebook.looks == [("a", 0), ("a", 30)]


def test_latest_reconcile_decides_requeue_time(runner, controller, notebook):
    notebook.answers["a"] = [30.0, 50.0]
    controller.enqueue("a")
    runner.advance(10)
    controller.enqueue("a")
    runner.advance(100)
    assert notebook.looks == [("a", 0), ("a", 10), ("a", 60)]
    notebook.answers["a"] = [30.0, None]
    controller.enqueue("a")
    runner.advance(1)
    controller.enqueue("a")
    runner.advance(100)
    assert len(notebook.looks) == 5


def test_immediate_requeue_yields_to_other_tasks(runner, controller, notebook):
    turns = []

    async def other():
        for _ in range(3):
            turns.append(len(notebook.looks))
            await runner.clock.sleep(0)

    notebook.answers["a"] = [0.0] * 5
    runner.start(other(), "other")
    controller.enqueue("a")
    runner.advance(1)
    assert len(notebook.looks) == 6
    assert turns[-1] < 6


def test_earlier_requeue_time_is_kept(runner, controller, notebook):
    inside(runner, controller.enqueue_after, "a", 5)
    inside(runner, controller.enqueue_after, "a", 9)
    runner.advance(20)
    assert notebook.looks == [("a", 5)]
    inside(runner, controller.enqueue_after, "a", 9)
    inside(runner, controller.enqueue_after, "a", 5)
    runner.advance(20)
    assert notebook.looks == [("a", 5), ("a", 25)]


def test_unexpected_error_crashes_controller(runner, controller, notebook):
    notebook.answers["a"] = [KeyError("x")]
    controller.enqueue("a")
    with pytest.raises(ActorCrashedError, match="the actor c crashed"):
        runner.advance(1)


def test_controller_starts_when_ready(runner, notebook):
    gate = runner.loop.create_future()

    async def ready(_):
        await gate

    controller = Controller("c", runner.clock, notebook.look, ready=ready)
    runner.start(controller.run(), "c")
    controller.enqueue("a")
    runner.advance(3)
    assert notebook.looks == []
    gate.set_result(None)
    runner.advance(0)
    assert notebook.looks == [("a", 3)]
