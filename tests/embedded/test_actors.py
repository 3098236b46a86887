import asyncio

import pytest

from pytest_kscen.clock import StalledError
from pytest_kscen.embedded.actors import actors
from pytest_kscen.objects.resources import DEPLOYMENTS, NAMESPACES


def named(role, api, runner, chance):
    cast = actors(role, lambda _: api, runner.clock, chance)
    for _, life in cast:
        life.close()
    return [name for name, _ in cast]


def test_actors_have_fixed_order_and_names(api, runner, chance):
    everything = named("embedded", api, runner, chance)
    assert everything == named("embedded", api, runner, chance)
    assert len(set(everything)) == len(everything)
    assert everything[0] == "informers"


def test_real_control_plane_replaces_controllers(api, runner, chance):
    few = named("controlplane", api, runner, chance)
    assert set(few) < set(named("embedded", api, runner, chance))
    assert not [name for name in few if name.endswith("-controller")]


def test_idle_cluster_settles_within_an_instant(api, runner, chance):
    for name, life in actors("embedded", lambda _: api, runner.clock, chance):
        runner.start(life, name)
    runner.advance(0)
    runner.advance(0)
    before = runner.call(api.list(NAMESPACES)).resource_version
    runner.advance(600)
    assert runner.call(api.list(NAMESPACES)).resource_version == before


def test_settled_cluster_has_only_heartbeats(world, template, runner):
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template()}
    world.create(DEPLOYMENTS, "web", spec)
    world.advance(1)
    before = world.now
    with pytest.raises(StalledError):
        runner.call(asyncio.Event().wait())
    assert world.now == before


@pytest.mark.parametrize("role", ["embedded", "controlplane"])
def test_close_leaves_no_tasks(role, api, runner, chance):
    for name, life in actors(role, lambda _: api, runner.clock, chance):
        runner.start(life, name)
    runner.advance(1)
    runner.close()
    assert list(runner.loop.tasks()) == []
