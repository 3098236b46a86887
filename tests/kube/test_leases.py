"""Who holds a Lease, when the next one gets it, and how it is lost: to the second."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace

import pytest

from pytest_kscen.chance import Chance
from pytest_kscen.clock import VirtualRunner
from pytest_kscen.embedded.apiserver.builtin_kinds import builtin_kinds
from pytest_kscen.embedded.apiserver.kinds import Kinds
from pytest_kscen.embedded.apiserver.server import ApiServer
from pytest_kscen.kube.api import ForwardingApi
from pytest_kscen.kube.in_process import InProcessApi
from pytest_kscen.kube.leases import Lease, LeaseLost, holder_of
from pytest_kscen.objects.errors import Forbidden, ServiceUnavailable
from pytest_kscen.objects.resources import LEASES, NAMESPACES


class Line(ForwardingApi):
    """One candidate's, which may be down."""

    is_down, refuses = False, None

    def __init__(self, api):
        super().__init__(api)
        self.create = api.create

    async def get(self, *arguments, **options):
        if self.is_down:
            raise ServiceUnavailable("the line is down")
        return await self._api.get(*arguments, **options)

    async def update(self, *arguments, **options):
        if self.is_down:
            raise ServiceUnavailable("the line is down")
        if self.refuses:
            raise self.refuses
        return await self._api.update(*arguments, **options)


class Place:
    def __init__(self):
        self.runner = VirtualRunner()
        self.clock = self.runner.clock
        self.server = ApiServer(self.clock, Chance("leases"), Kinds(builtin_kinds()))
        self.api = InProcessApi(self.server, agent="test")
        self.runner.call(self.api.create(NAMESPACES, {"metadata": {"name": "default"}}))
        self.lines, self.did, self.holding = {}, [], {}

    def lease(self, holder):
        self.lines[holder] = Line(InProcessApi(self.server, agent=holder))
        return Lease(self.lines[holder], self.clock, "post", "default", holder)

    def taken(self, lease):
        return self.runner.call(lease.take())

    async def _work(self, holder):
        self.did.append(f"{holder} begins at {self.clock.now() - self.start:g}")
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.did.append(f"{holder} ends at {self.clock.now() - self.start:g}")

    def hold(self, lease):
        async def begin():
            return asyncio.get_running_loop().create_task(lease.hold(self._work(lease.holder)))

        self.start = self.clock.now()
        self.holding[lease.holder] = self.runner.call(begin())

    def end(self, holder):
        """Whatever it ended with."""
        task = self.holding.pop(holder)
        task.cancel()
        self.runner.call(asyncio.wait([task]))
        return None if task.cancelled() else task.exception()

    def wait_for(self, lease):
        """Seconds until it is ours."""
        began = self.clock.now()
        while self.taken(lease):
            self.runner.advance(lease.pause)
        return self.clock.now() - began

    @property
    def spec(self):
        return self.runner.call(self.api.get(LEASES, "post", "default"))["spec"]

    def close(self):
        for holder in list(self.holding):
            self.end(holder)
        self.server.close()
        self.runner.close()


@pytest.fixture
def place():
    with contextlib.closing(Place()) as place:
        yield place


def test_the_first_has_it_and_the_second_is_told_who(place):
    assert place.taken(place.lease("a")) == ""
    assert place.taken(place.lease("b")) == "a"
    assert (
        place.spec["holderIdentity"],
        place.spec["leaseDurationSeconds"],
        place.spec["leaseTransitions"],
    ) == ("a", 15, 0)


def test_who_sets_our_clock_makes_nothing_run_out(place):
    a, b = place.lease("a"), place.lease("b")
    place.taken(a)
    assert place.taken(b) == "a"
    b._clock = SimpleNamespace(now=lambda: place.clock.now() + 3600)
    assert place.taken(b) == "a"
    assert b.pause > 0


def test_it_is_renewed_for_as_long_as_it_is_held(place):
    a, b = place.lease("a"), place.lease("b")
    place.taken(a)
    place.hold(a)
    assert place.taken(b) == "a"
    assert not b.is_kept
    place.runner.advance(2)
    assert place.taken(b) == "a"
    assert b.is_kept
    place.runner.advance(1000)
    assert place.taken(b) == "a"
    assert place.did == ["a begins at 0"]


def test_it_is_given_back_when_what_was_done_has_ended(place):
    a, b = place.lease("a"), place.lease("b")
    place.taken(a)
    place.hold(a)
    place.runner.advance(5)
    assert place.end("a") is None
    assert place.did == ["a begins at 0", "a ends at 5"]
    assert holder_of({"spec": place.spec}) == ""
    assert place.wait_for(b) == 0
    assert (place.spec["holderIdentity"], place.spec["leaseTransitions"]) == ("b", 1)


@pytest.mark.parametrize("killed_before", [0, 1, 14, 3600])
def test_one_that_nobody_keeps_runs_out_15_seconds_after_it_was_first_seen(place, killed_before):
    a, b = place.lease("a"), place.lease("b")
    place.taken(a)
    place.runner.advance(killed_before)
    assert place.wait_for(b) == pytest.approx(15)
    assert not b.is_kept
    assert place.spec["holderIdentity"] == "b"


def test_of_two_who_find_it_free_one_has_it(place):
    found = [place.lease(name) for name in "ab"]

    async def both():
        return await asyncio.gather(*(each.take() for each in found))

    assert sorted(place.runner.call(both())) in (["", "a"], ["", "b"])


def test_an_api_that_does_not_answer_loses_it_to_nobody(place):
    a = place.lease("a")
    place.taken(a)
    place.hold(a)
    place.lines["a"].is_down = True
    place.runner.advance(120)
    place.lines["a"].is_down = False
    place.runner.advance(3)
    assert place.did == ["a begins at 0"]
    assert place.taken(place.lease("b")) == "a"


def test_who_was_cut_off_while_another_took_it_ends_with_the_first_renewal(place):
    a, b = place.lease("a"), place.lease("b")
    place.taken(a)
    place.hold(a)
    place.lines["a"].is_down = True
    assert place.wait_for(b) == pytest.approx(15)
    place.lines["a"].is_down = False
    place.runner.advance(2)
    assert place.did == ["a begins at 0", "a ends at 16"]
    lost = place.end("a")
    assert (type(lost), str(lost)) == (LeaseLost, "the Lease default/post is held by b now")
    assert place.spec["holderIdentity"] == "b"


def test_who_may_not_renew_it_any_more_has_lost_it(place):
    a = place.lease("a")
    place.taken(a)
    place.hold(a)
    place.lines["a"].refuses = Forbidden("leases may not be written")
    place.runner.advance(3)
    assert place.did == ["a begins at 0", "a ends at 2"]
    assert (
        str(place.end("a")) == "the Lease default/post cannot be renewed: leases may not be written"
    )


def test_what_somebody_else_writes_beside_a_renewal_does_no_harm(place):
    a = place.lease("a")
    place.taken(a)
    place.hold(a)
    look = a._look

    async def slow():
        found = await look()
        a._look = look
        await place.api.patch(LEASES, "post", {"metadata": {"labels": {"a": "b"}}}, "default")
        return found

    a._look = slow
    place.runner.advance(3)
    assert place.did == ["a begins at 0"]
    assert place.spec["renewTime"] != place.spec["acquireTime"]


@pytest.mark.parametrize(
    ("holder", "why"),
    [
        ("c", "the Lease default/post is held by c now"),
        ("", "the Lease default/post is held by no holder now"),
        (None, "the Lease default/post was removed by another client"),
    ],
)
def test_whatever_somebody_makes_of_it_it_is_lost(place, holder, why):
    a = place.lease("a")
    place.taken(a)
    place.hold(a)
    if holder is None:
        place.runner.call(place.api.delete(LEASES, "post", "default"))
    else:
        place.runner.call(
            place.api.patch(LEASES, "post", {"spec": {"holderIdentity": holder}}, "default")
        )
    place.runner.advance(3)
    assert place.did == ["a begins at 0", "a ends at 2"]
    assert str(place.end("a")) == why
