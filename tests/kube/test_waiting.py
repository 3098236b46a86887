"""Waiting for an object: intervals between lists when watches end early."""

from __future__ import annotations

import pytest

from pytest_kscen.chance import Chance
from pytest_kscen.clock import VirtualRunner
from pytest_kscen.clock.virtual import START
from pytest_kscen.kube.api import Event, Listing
from pytest_kscen.kube.retrying import RetryingApi
from pytest_kscen.kube.waiting import StateUnknown, wait_for
from pytest_kscen.objects.errors import Expired, ServiceUnavailable
from pytest_kscen.objects.resources import CONFIG_MAPS

GONE = Event("ERROR", Expired("too old").status)


class ShortWatchApi:
    """API whose watches send these events and end; the object exists from a given time on."""

    def __init__(self, clock, says, there_at, down_from=10_000):
        self.clock, self.says, self.there_at, self.down_from = clock, says, there_at, down_from
        self.lists = []

    async def list(self, *_, **__):
        now = self.clock.now() - START
        self.lists.append(now)
        if now >= self.down_from:
            raise ServiceUnavailable("no")
        return Listing(
            [{"metadata": {"name": "a", "namespace": "ns"}}] if now >= self.there_at else [],
            "1",
            "",
        )

    def watch(self, *_, **__):
        async def events():
            for event in self.says:
                yield event

        watch = events()
        return ClosableEvents(watch)


class ClosableEvents:
    def __init__(self, events):
        self.events = events

    def __aiter__(self):
        return self.events

    def close(self):
        pass


@pytest.fixture
def runner():
    runner = VirtualRunner()
    yield runner
    runner.close()


def wait(runner, api, timeout=60):
    return runner.call(
        wait_for(api, runner.clock, CONFIG_MAPS, "a", "ns", condition=bool, timeout=timeout)
    )


@pytest.mark.parametrize("says", [[], [GONE]], ids=["quiet", "error"])
def test_ended_watch_is_reopened_after_a_second(runner, says):
    api = ShortWatchApi(runner.clock, says, there_at=3)
    assert wait(runner, api)
    assert api.lists == [0, 1, 2, 3]


def test_timeout_error_names_watch_refusal(runner):
    with pytest.raises(
        TimeoutError,
        match=r"configmaps ns/a did not reach the awaited state within 5 s; the last refusal was Expired",
    ):
        wait(runner, ShortWatchApi(runner.clock, [GONE], there_at=1000), timeout=5)


@pytest.mark.parametrize("down_from", [0, 3])
def test_failing_lists_raise_unseen(runner, down_from):
    api = ShortWatchApi(runner.clock, [], there_at=1000, down_from=down_from)
    patient = RetryingApi(api, runner.clock, Chance("waiting").stream("x"), 10.0)
    with pytest.raises(
        StateUnknown, match="configmaps ns/a did not reach the awaited state within 60 s"
    ):
        wait(runner, patient)


def test_observed_state_is_not_reported_as_refusal(runner):
    with pytest.raises(
        TimeoutError, match=r"configmaps ns/a did not reach the awaited state within 5.5 s$"
    ) as late:
        wait(runner, ShortWatchApi(runner.clock, [], there_at=1000), timeout=5.5)
    assert type(late.value) is TimeoutError
