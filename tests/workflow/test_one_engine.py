"""Of several engines on one cluster one drives at a time: the next goes on where it was, and
nothing is done or told twice.
"""

from __future__ import annotations

import asyncio
import collections

import pytest
from forest import Forest
from theatre import partition, suspend, template

from pytest_kscen.clock import Signal
from pytest_kscen.kube.leases import LeaseLost
from pytest_kscen.objects.chaos_mesh import phase_of
from pytest_kscen.objects.resources import LEASES
from pytest_kscen.run.preflight import PreflightRefused
from pytest_kscen.run.workflow_setup import LEASE_NAME, LEASE_NAMESPACE, Leading
from pytest_kscen.workflow.engine.manager import WorkflowManager

CUT = {
    "entry": "all",
    "templates": [
        template("all", "Serial", children=["cut", "rest"]),
        partition("cut", "60s"),
        suspend("rest"),
    ],
}


class Engine:
    """One, from when it is started: it waits for its turn, and drives."""

    def __init__(self, forest, name):
        self.forest, self.leading, self.told, self.began = (
            forest,
            Leading(forest.cluster, name),
            [],
            None,
        )
        self.task = forest.call(self._begin())
        forest.runner.advance(0.1)

    async def _begin(self):
        return asyncio.get_running_loop().create_task(self._live())

    async def _live(self):
        if await self.leading.wait(Signal(), self.told.append):
            self.began = self.forest.runner.clock.now()
            await self.leading.begin(WorkflowManager(self.forest.actor()).run)
            await self.leading.live()

    def end(self):
        self.task.cancel()
        self.forest.call(asyncio.wait([self.task]))

    def kill(self, monkeypatch):
        """It says no farewell."""
        monkeypatch.setattr(self.leading.lease, "_give_back", lambda: asyncio.sleep(0))
        self.end()


@pytest.fixture(scope="module")
def forest():
    forest = Forest("one engine")
    forest.stop()
    yield forest
    forest.close()


@pytest.fixture
def start(forest):
    started = []

    def start(name):
        started.append(Engine(forest, name))
        return started[-1]

    yield start
    for engine in started:
        engine.end()


@pytest.fixture
def heard(forest):
    heard = []
    forest.journal.follow(heard.append)
    return heard


def begun(forest, start, apart=0.0):
    """A workflow in whose midst the first engine is, while another waits that came so many
    seconds later.
    """
    first = start("first")
    forest.runner.advance(apart)
    second = start("second")
    name = forest.put_on(CUT)
    forest.runner.advance(10)
    assert len(forest.chaos(name)) == 1
    assert (second.told, second.began) == ([first.leading.lease.holder], None)
    return first, second, name


def comes_to_its_end_once(forest, heard, name):
    workflow, nodes = forest.end(name)
    assert phase_of(workflow) == "Succeed"
    assert [phase_of(node) for node in nodes.values()] == ["Succeed"] * 3
    told = collections.Counter(
        (entry.data["node"], entry.at, entry.data["phase"])
        for entry in heard
        if entry.what == "workflow-node"
    )
    assert set(told.values()) == {1}
    creates = [entry for entry in heard if entry.what == "wrote" and entry.data["verb"] == "create"]
    assert sum("networkchaos" in entry.data["resource"] for entry in creates) == 1
    forest.free(name)


def test_second_engine_waits_while_the_first_holds_the_lease(forest, start, heard):
    _, second, name = begun(forest, start)
    comes_to_its_end_once(forest, heard, name)
    assert second.began is None


def test_second_engine_continues_after_the_first_ended(forest, start, heard):
    first, second, name = begun(forest, start)
    first.end()
    ended = forest.runner.clock.now()
    forest.runner.advance(3)
    assert 0 <= second.began - ended <= 2
    comes_to_its_end_once(forest, heard, name)


@pytest.mark.parametrize("apart", [0, 0.5, 1, 1.7])
def test_second_engine_continues_within_17_seconds_after_the_first_was_killed(
    forest, start, heard, monkeypatch, apart
):
    first, second, name = begun(forest, start, apart)
    first.kill(monkeypatch)
    killed = forest.runner.clock.now()
    forest.runner.advance(18)
    assert 10 < second.began - killed <= 17
    comes_to_its_end_once(forest, heard, name)


def test_engine_losing_the_lease_ends_at_once(forest, start, heard):
    first, second, name = begun(forest, start)
    forest.call(
        forest.api.patch(
            LEASES,
            LEASE_NAME,
            {"spec": {"holderIdentity": second.leading.lease.holder}},
            LEASE_NAMESPACE,
        )
    )
    forest.runner.advance(3)
    lost = first.task.exception()
    assert (type(lost), str(lost)) == (
        LeaseLost,
        f"the Lease {LEASE_NAMESPACE}/{LEASE_NAME} is held by {second.leading.lease.holder} now",
    )
    comes_to_its_end_once(forest, heard, name)


def test_run_is_refused_where_an_engine_runs_and_creates_nothing(forest, start):
    first, run = start("first"), Leading(forest.cluster, "pytest")
    began = forest.runner.clock.now()
    with pytest.raises(PreflightRefused) as refused:
        forest.call(run.claim())
    assert str(refused.value) == (
        f"the workflows of this cluster are driven by {first.leading.lease.holder}, which "
        "holds the Lease "
        "kube-system/workflow-engine.kscen.io: end that first; if it was killed, try "
        "again when 15 s are over"
    )
    assert forest.runner.clock.now() - began <= 4


def test_run_starts_when_the_lease_of_a_killed_engine_has_expired(forest, start, monkeypatch):
    start("first").kill(monkeypatch)
    began, run = forest.runner.clock.now(), Leading(forest.cluster, "pytest")
    forest.call(run.claim())
    assert forest.runner.clock.now() - began == pytest.approx(15)
    forest.call(forest.api.delete(LEASES, LEASE_NAME, LEASE_NAMESPACE))
