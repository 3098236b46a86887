"""Actions of an actor in the journal and in the log."""

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
def run_context(runner, journal):
    return RunContext(lambda agent: None, runner.clock, Chance("actor"), journal, "run1")


def recorded_entries(journal):
    return [(entry.at, entry.actor, entry.what, entry.data) for entry in journal]


def run_action(runner, actor, error=None):
    async def do():
        async with actor.doing("attach", volume="v", node="n"):
            await runner.clock.sleep(2)
            if error:
                raise error

    return do()


def test_action_is_recorded_and_logged(runner, journal, run_context, caplog):
    caplog.set_level(logging.INFO, "pytest_kscen")
    runner.call(run_action(runner, run_context.actor("volume-attacher/v")))
    what = {"action": "attach", "volume": "v", "node": "n"}
    assert recorded_entries(journal) == [
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


def test_log_record_has_journal_time(runner, run_context, caplog):
    caplog.set_level(logging.INFO, "pytest_kscen")
    runner.call(runner.clock.sleep(5))
    late = replace(run_context, journal=Journal(runner.clock))
    runner.call(run_action(runner, late.actor("volume-attacher/v")))
    assert (
        [record.at for record in caplog.records] == [entry.at for entry in late.journal] == [0, 2]
    )
    late.journal.close()


def test_failed_action_is_warning(runner, journal, run_context, caplog):
    with pytest.raises(TimeoutError):
        runner.call(
            run_action(runner, run_context.actor("volume-attacher/v"), TimeoutError("too late"))
        )
    assert recorded_entries(journal)[1][3]["result"] == "failed: TimeoutError('too late')"
    assert [(record.levelname, record.result) for record in caplog.records] == [
        ("WARNING", "failed: TimeoutError('too late')")
    ]


def test_cancelled_action_is_not_failed(runner, journal, run_context, caplog):
    with pytest.raises(asyncio.CancelledError):
        runner.call(
            run_action(runner, run_context.actor("volume-attacher/v"), asyncio.CancelledError())
        )
    assert recorded_entries(journal)[1][3]["result"] == "stopped"
    assert caplog.records == []


def test_transient_actor_chance_is_equal_and_not_kept(run_context):
    passing = [
        run_context.actor("volume-main/v", temporary=True).chance.below(10**9) for _ in range(2)
    ]
    staying = run_context.actor("volume-main/v").chance.below(10**9)
    assert passing == [staying, staying]
    assert run_context.actor("volume-main/v").chance.below(10**9) != staying


def test_chance_uses_key_and_rest_uses_name(run_context, journal):
    keyed, plain = (
        run_context.actor("volume-main/w", key="volume-main/v"),
        replace(run_context, chance=Chance("actor")).actor("volume-main/v"),
    )
    assert keyed.chance.below(10**9) == plain.chance.below(10**9)
    keyed.note("seen")
    assert [who for _, who, _, _ in recorded_entries(journal)] == ["volume-main/w"]


def test_numbered_actor_logs_under_its_kind(run_context, caplog):
    names = [
        run_context.next_name(kind)
        for kind in ("blocker", "blocker", "pods/app=agent", "blocker", "pods/app=agent")
    ]
    assert names == ["blocker", "blocker/2", "pods/app=agent", "blocker/3", "pods/app=agent/2"]
    run_context.actor(names[1]).log(logging.WARNING, "skips")
    assert [(record.name, record.message) for record in caplog.records] == [
        ("pytest_kscen.blocker", "blocker/2: skips")
    ]


def test_detail_may_have_name_of_log_record_attribute(run_context, caplog):
    with caplog.at_level(logging.INFO):
        run_context.actor("cleaner").log(logging.INFO, "begins", name="job-1", message="hello")
    (record,) = caplog.records
    assert record.getMessage() == "cleaner: begins name=job-1 message=hello"
    assert (record.name, record.name_, record.message_) == (
        "pytest_kscen.cleaner",
        "job-1",
        "hello",
    )
