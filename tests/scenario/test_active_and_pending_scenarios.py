"""External changes of active Scenarios and of pending ones."""

import pytest

from pytest_kscen.objects.resources import NODES
from pytest_kscen.objects.scenarios import SCENARIOS, phase_of
from pytest_kscen.scenario.waiting import Waiter
from tests.scenario.objects import create, done, node, pod, scenario


@pytest.fixture
def world(runner):
    """User of Scenarios through the API beside the scenario controller."""
    api, call = runner.cluster.api("user"), runner.cluster.runner.call

    class World:
        def apply(self, one):
            call(api.create(SCENARIOS, one))

        def delete(self, name):
            call(api.delete(SCENARIOS, name))

        def live(self, name):
            return call(api.get(SCENARIOS, name))

        def nodes(self):
            return [each["metadata"]["name"] for each in call(api.list(NODES)).items]

    return World()


@pytest.mark.parametrize("name", ["one", "two"])
def test_scenario_deleted_while_paused_makes_room(runner, world, name):
    runner.play(scenario(create(1, node()), name="one"))
    world.delete("one")
    world.apply(scenario(create(1, node("its-own")), done(1), name=name))
    runner.cluster.advance(5)

    assert phase_of(world.live(name)) == "Succeeded"
    assert world.nodes() == ["its-own"]


def test_scenarios_behind_an_active_one_are_pending(runner, world):
    one = runner.play(scenario(create(1, node()), name="one"))
    world.apply(scenario(done(1), name="two"))
    runner.cluster.advance(5)

    assert (one.phase, phase_of(world.live("two"))) == ("Paused", "Pending")


def test_ignored_operations_are_reported_for_a_succeeded_scenario(runner):
    with runner.scenario(["kube-scheduler"]) as played:
        played.create(node(), step=3)
        played.until_paused()
        played.create(pod("late"), step=2, id="late")
        played.done(step=4)

    assert (played.phase, played.message) == (
        "Succeeded",
        "ignored, because their steps are past: late",
    )


def test_failing_waiter_ends_only_its_scenario(runner):
    runner.controllers.add(Waiter("bad-controller", {NODES: lambda node: node["spec"]["nothing"]}))
    played = runner.play(scenario(create(1, node()), done(1), name="one"))
    other = runner.play(scenario(done(1), name="two"))

    assert (played.phase, played.message) == (
        "Failed",
        "step 1: the waiter of bad-controller has failed: KeyError('nothing')",
    )
    assert other.phase == "Succeeded"


def test_replacing_waiter_is_asked_itself(runner):
    for name, rule in ("one", lambda _: ""), ("two", lambda _: "is not painted"):
        runner.controllers.add(Waiter("painter", {NODES: rule}))
        played = runner.play(scenario(create(1, node()), done(1), name=name))

    assert (
        played.message == "step 1: not finished within 600 s: painter: Node node-1 is not painted"
    )


def test_finished_play_receives_no_events(runner):
    def handlers():
        return len(runner.scenario_player.controller.informer_of(NODES)._handlers)

    before = handlers()
    runner.play(scenario(create(1, node()), done(1)))
    runner.cluster.advance(1)
    assert handlers() == before
