"""What an actor says of its own deeds: in the journal, and in the log of its kind."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from pytest_kscen.chance import Chance
from pytest_kscen.clock import VirtualRunner
from pytest_kscen.journal import Journal
from pytest_kscen.kube.actor import RunContext


@pytest.fixture
def runner():
    runner = VirtualRunner()
    yield runner
    runner.close()


@pytest.fixture
def journal(runner):
    journal = Journal(runner.clock)
    yield journal
    journal.close()


@pytest.fixture
def stage(runner, journal):
    return RunContext(lambda agent: None, runner.clock, Chance("actor"), journal, "run1")


def told(journal):
    return [(entry.at, entry.actor, entry.what, entry.data) for entry in journal]


def deed(runner, actor, error=None):
    async def do():
        async with actor.doing("attach", volume="v", node="n"):
            await runner.clock.sleep(2)
            if error:
                raise error

    return do()


def test_a_deed_begins_and_ends(runner, journal, stage, caplog):
    caplog.set_level(logging.INFO, "pytest_kscen")
    runner.call(deed(runner, stage.actor("volume-attacher/v")))
    what = {"action": "attach", "volume": "v", "node": "n"}
    assert told(journal) == [
        (0, "volume-attacher/v", "began", what),
        (2, "volume-attacher/v", "ended", {**what, "result": "done", "took": 2}),
    ]
    assert [(record.name, record.levelname, record.message) for record in caplog.records] == [
        (
            "pytest_kscen.volume-attacher",
            "INFO",
            "volume-attacher/v: begins action=attach volume=v node=n",
        ),
        (
            "pytest_kscen.volume-attacher",
            "INFO",
            "volume-attacher/v: ended action=attach volume=v node=n result=done took=2.0",
        ),
    ]
    assert (caplog.records[1].actor, caplog.records[1].took) == ("volume-attacher/v", 2)


def test_a_log_record_has_the_journals_time(runner, stage, caplog):
    caplog.set_level(logging.INFO, "pytest_kscen")
    runner.call(runner.clock.sleep(5))
    late = replace(stage, journal=Journal(runner.clock))
    runner.call(deed(runner, late.actor("volume-attacher/v")))
    assert (
        [record.at for record in caplog.records] == [entry.at for entry in late.journal] == [0, 2]
    )
    late.journal.close()


def test_a_deed_that_fails_is_a_warning(runner, journal, stage, caplog):
    with pytest.raises(TimeoutError):
        runner.call(deed(runner, stage.actor("volume-attacher/v"), TimeoutError("too late")))
    assert told(journal)[1][3]["result"] == "failed: TimeoutError('too late')"
    assert [(record.levelname, record.result) for record in caplog.records] == [
        ("WARNING", "failed: TimeoutError('too late')")
    ]


def test_a_deed_that_is_stopped_has_not_failed(runner, journal, stage, caplog):
    with pytest.raises(asyncio.CancelledError):
        runner.call(deed(runner, stage.actor("volume-attacher/v"), asyncio.CancelledError()))
    assert told(journal)[1][3]["result"] == "stopped"
    assert caplog.records == []


def test_a_passing_actors_chance_is_the_same_and_is_not_kept(stage):
    passing = [stage.actor("volume-main/v", passing=True).chance.below(10**9) for _ in range(2)]
    staying = stage.actor("volume-main/v").chance.below(10**9)
    assert passing == [staying, staying]
    assert stage.actor("volume-main/v").chance.below(10**9) != staying


def test_chance_goes_by_the_key_and_everything_else_by_the_name(stage, journal):
    keyed, plain = (
        stage.actor("volume-main/w", key="volume-main/v"),
        replace(stage, chance=Chance("actor")).actor("volume-main/v"),
    )
    assert keyed.chance.below(10**9) == plain.chance.below(10**9)
    keyed.note("seen")
    assert [who for _, who, _, _ in told(journal)] == ["volume-main/w"]


def test_one_more_of_a_kind_has_a_name_and_a_log_of_its_own_kind(stage, caplog):
    names = [
        stage.one_more(kind)
        for kind in ("blocker", "blocker", "pods/app=agent", "blocker", "pods/app=agent")
    ]
    assert names == ["blocker", "blocker/2", "pods/app=agent", "blocker/3", "pods/app=agent/2"]
    stage.actor(names[1]).log(logging.WARNING, "skips")
    assert [(record.name, record.message) for record in caplog.records] == [
        ("pytest_kscen.blocker", "blocker/2: skips")
    ]


def test_a_particular_may_be_called_what_a_log_record_has_itself(stage, caplog):
    with caplog.at_level(logging.INFO):
        stage.actor("cleaner").log(logging.INFO, "begins", name="job-1", message="hello")
    (record,) = caplog.records
    assert record.getMessage() == "cleaner: begins name=job-1 message=hello"
    assert (record.name, record.name_, record.message_) == (
        "pytest_kscen.cleaner",
        "job-1",
        "hello",
    )
