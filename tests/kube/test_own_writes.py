import weakref

import pytest

from pytest_kscen.chance import Chance
from pytest_kscen.clock import VirtualRunner
from pytest_kscen.embedded.apiserver.builtin_kinds import builtin_kinds
from pytest_kscen.embedded.apiserver.kinds import Kinds
from pytest_kscen.embedded.apiserver.server import ApiServer
from pytest_kscen.kube.api import ApiWrite
from pytest_kscen.kube.in_process import InProcessApi
from pytest_kscen.kube.informer import MAX_REMEMBERED_SUBJECTS, Informers, OwnWrites
from pytest_kscen.objects.resources import CONFIG_MAPS, NAMESPACES, SECRETS


@pytest.fixture
def runner():
    runner = VirtualRunner()
    yield runner
    runner.close()


@pytest.fixture
def api(runner):
    api = InProcessApi(ApiServer(runner.clock, Chance(1), Kinds(builtin_kinds())))
    runner.call(api.create(NAMESPACES, {"metadata": {"name": "ns"}}))
    return api


@pytest.fixture
def informers(api, runner):
    informers = Informers(api, runner.clock)
    informers.of(CONFIG_MAPS)
    runner.start(informers.run(), "informers")
    runner.advance(0)
    return informers


def test_turn_waits_until_cache_has_own_writes(api, runner, informers):
    own, cache = OwnWrites(api, informers), informers.of(CONFIG_MAPS)

    async def act():
        await own.select_subject("a")
        await own.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, "ns")
        seen = [cache.get("a", "ns")]
        await own.select_subject("a")
        seen.append(cache.get("a", "ns"))
        await own.patch(CONFIG_MAPS, "a", {"data": {"x": "1"}}, "ns")
        await own.select_subject("a")
        seen.append(cache.get("a", "ns")["data"])
        await own.delete(CONFIG_MAPS, "a", "ns")
        await own.wait_until_visible()
        return [*seen, cache.get("a", "ns")]

    before, made, data, after = runner.call(act())
    assert before is None
    assert made["metadata"]["name"] == "a"
    assert data == {"x": "1"}
    assert after is None


def test_unfollowed_resources_are_not_awaited(api, runner, informers):
    own = OwnWrites(api, informers)

    async def act():
        await own.create(SECRETS, {"metadata": {"name": "a"}}, "ns")
        await own.wait_until_visible()

    runner.call(act())
    assert informers.known(SECRETS) is None


def test_writes_of_other_keys_are_not_awaited(api, runner, informers):
    own, cache = OwnWrites(api, informers), informers.of(CONFIG_MAPS)

    async def act():
        await own.select_subject("a")
        await own.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, "ns")
        await own.select_subject("b")
        seen = [cache.get("a", "ns")]
        await own.select_subject("a")
        return [*seen, cache.get("a", "ns")]

    before, after = runner.call(act())
    assert before is None
    assert after["metadata"]["name"] == "a"


def test_repeated_turn_keeps_key(api, runner, informers):
    own, cache = OwnWrites(api, informers), informers.of(CONFIG_MAPS)

    async def act():
        await own.select_subject("a")
        await own.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, "ns")
        await own.select_subject("b")
        await own.wait_until_visible()
        await own.create(CONFIG_MAPS, {"metadata": {"name": "b"}}, "ns")
        await own.select_subject("b")
        return cache.get("b", "ns")

    assert runner.call(act())


def test_finished_keys_are_forgotten(api, runner, informers):
    own = OwnWrites(api, informers)
    remembered = weakref.WeakSet()

    class Thing:
        """Key of a controller, which must be garbage-collected once unused."""

    async def act(number):
        thing = Thing()
        remembered.add(thing)
        await own.select_subject(thing)
        await own.create(CONFIG_MAPS, {"metadata": {"name": f"x{number}"}}, "ns")
        if number % 2:
            await own.delete(CONFIG_MAPS, f"x{number}", "ns")

    most = 0
    for number in range(500):
        runner.call(act(number))
        runner.advance(0)
        most = max(most, len(remembered))
    assert most <= MAX_REMEMBERED_SUBJECTS + 2


def test_unseen_writes_are_kept_without_limit(api, runner, informers):
    own, cache = OwnWrites(api, informers), informers.of(CONFIG_MAPS)

    async def act():
        for number in range(500):
            await own.select_subject(number)
            await own.create(CONFIG_MAPS, {"metadata": {"name": f"x{number}"}}, "ns")
        before = cache.get("x0", "ns")
        await own.select_subject(0)
        return before, cache.get("x0", "ns")

    before, after = runner.call(act())
    assert before is None
    assert after


def test_older_version_does_not_replace_a_newer_one(api, runner, informers):
    own = OwnWrites(api, informers)

    async def answer(version):
        return {"metadata": {"resourceVersion": version}}

    async def act():
        write = ApiWrite("patch", CONFIG_MAPS, "a", "ns")
        for version in ("10", "9"):
            await own._write(write, lambda version=version: answer(version))

    runner.call(act())
    assert own._written == {None: {CONFIG_MAPS: "10"}}
