"""Leases: holder, acquisition by the next candidate, and loss, to the second."""

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


class UnreliableApi(ForwardingApi):
    """API of one candidate, which can be made unavailable."""

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


class LeaseTest:
    def __init__(self):
        self.runner = VirtualRunner()
        self.clock = self.runner.clock
        self.server = ApiServer(self.clock, Chance("leases"), Kinds(builtin_kinds()))
        self.api = InProcessApi(self.server, agent="test")
        self.runner.call(self.api.create(NAMESPACES, {"metadata": {"name": "default"}}))
        self.apis, self.record, self.holding = {}, [], {}

    def lease(self, holder):
        self.apis[holder] = UnreliableApi(InProcessApi(self.server, agent=holder))
        return Lease(self.apis[holder], self.clock, "post", "default", holder)

    def try_take(self, lease):
        return self.runner.call(lease.take())

    async def _work(self, holder):
        self.record.append(f"{holder} begins at {self.clock.now() - self.start:g}")
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.record.append(f"{holder} ends at {self.clock.now() - self.start:g}")

    def hold(self, lease):
        async def begin():
            return asyncio.get_running_loop().create_task(lease.hold(self._work(lease.holder)))

        self.start = self.clock.now()
        self.holding[lease.holder] = self.runner.call(begin())

    def end(self, holder):
        """Cancel the work and return its exception."""
        task = self.holding.pop(holder)
        task.cancel()
        self.runner.call(asyncio.wait([task]))
        return None if task.cancelled() else task.exception()

    def wait_for(self, lease):
        """Return the seconds until the lease is acquired."""
        began = self.clock.now()
        while self.try_take(lease):
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
def lease_test():
    with contextlib.closing(LeaseTest()) as lease_test:
        yield lease_test


def test_second_candidate_receives_holder_name(lease_test):
    assert lease_test.try_take(lease_test.lease("a")) == ""
    assert lease_test.try_take(lease_test.lease("b")) == "a"
    assert (
        lease_test.spec["holderIdentity"],
        lease_test.spec["leaseDurationSeconds"],
        lease_test.spec["leaseTransitions"],
    ) == ("a", 15, 0)


def test_clock_step_expires_no_lease(lease_test):
    a, b = lease_test.lease("a"), lease_test.lease("b")
    lease_test.try_take(a)
    assert lease_test.try_take(b) == "a"
    b._clock = SimpleNamespace(now=lambda: lease_test.clock.now() + 3600)
    assert lease_test.try_take(b) == "a"
    assert b.pause > 0


def test_held_lease_is_renewed(lease_test):
    a, b = lease_test.lease("a"), lease_test.lease("b")
    lease_test.try_take(a)
    lease_test.hold(a)
    assert lease_test.try_take(b) == "a"
    assert not b.is_renewed
    lease_test.runner.advance(2)
    assert lease_test.try_take(b) == "a"
    assert b.is_renewed
    lease_test.runner.advance(1000)
    assert lease_test.try_take(b) == "a"
    assert lease_test.record == ["a begins at 0"]


def test_lease_is_released_after_work(lease_test):
    a, b = lease_test.lease("a"), lease_test.lease("b")
    lease_test.try_take(a)
    lease_test.hold(a)
    lease_test.runner.advance(5)
    assert lease_test.end("a") is None
    assert lease_test.record == ["a begins at 0", "a ends at 5"]
    assert holder_of({"spec": lease_test.spec}) == ""
    assert lease_test.wait_for(b) == 0
    assert (lease_test.spec["holderIdentity"], lease_test.spec["leaseTransitions"]) == ("b", 1)


@pytest.mark.parametrize("killed_before", [0, 1, 14, 3600])
def test_abandoned_lease_expires_15_seconds_after_first_seen(lease_test, killed_before):
    a, b = lease_test.lease("a"), lease_test.lease("b")
    lease_test.try_take(a)
    lease_test.runner.advance(killed_before)
    assert lease_test.wait_for(b) == pytest.approx(15)
    assert not b.is_renewed
    assert lease_test.spec["holderIdentity"] == "b"


def test_one_of_two_concurrent_candidates_wins(lease_test):
    found = [lease_test.lease(name) for name in "ab"]

    async def both():
        return await asyncio.gather(*(each.take() for each in found))

    assert sorted(lease_test.runner.call(both())) in (["", "a"], ["", "b"])


def test_unavailable_api_keeps_lease_until_expiry(lease_test):
    a = lease_test.lease("a")
    lease_test.try_take(a)
    lease_test.hold(a)
    lease_test.apis["a"].is_down = True
    lease_test.runner.advance(120)
    lease_test.apis["a"].is_down = False
    lease_test.runner.advance(3)
    assert lease_test.record == ["a begins at 0"]
    assert lease_test.try_take(lease_test.lease("b")) == "a"


def test_partitioned_holder_stops_at_first_renewal(lease_test):
    a, b = lease_test.lease("a"), lease_test.lease("b")
    lease_test.try_take(a)
    lease_test.hold(a)
    lease_test.apis["a"].is_down = True
    assert lease_test.wait_for(b) == pytest.approx(15)
    lease_test.apis["a"].is_down = False
    lease_test.runner.advance(2)
    assert lease_test.record == ["a begins at 0", "a ends at 16"]
    lost = lease_test.end("a")
    assert (type(lost), str(lost)) == (LeaseLost, "the Lease default/post is held by b now")
    assert lease_test.spec["holderIdentity"] == "b"


def test_forbidden_renewal_loses_lease(lease_test):
    a = lease_test.lease("a")
    lease_test.try_take(a)
    lease_test.hold(a)
    lease_test.apis["a"].refuses = Forbidden("leases may not be written")
    lease_test.runner.advance(3)
    assert lease_test.record == ["a begins at 0", "a ends at 2"]
    assert (
        str(lease_test.end("a"))
        == "the Lease default/post cannot be renewed: leases may not be written"
    )


def test_concurrent_foreign_write_keeps_lease(lease_test):
    a = lease_test.lease("a")
    lease_test.try_take(a)
    lease_test.hold(a)
    look = a._read

    async def slow():
        found = await look()
        a._read = look
        await lease_test.api.patch(LEASES, "post", {"metadata": {"labels": {"a": "b"}}}, "default")
        return found

    a._read = slow
    lease_test.runner.advance(3)
    assert lease_test.record == ["a begins at 0"]
    assert lease_test.spec["renewTime"] != lease_test.spec["acquireTime"]


@pytest.mark.parametrize(
    ("holder", "why"),
    [
        ("c", "the Lease default/post is held by c now"),
        ("", "the Lease default/post is held by no holder now"),
        (None, "the Lease default/post was removed by another client"),
    ],
)
def test_foreign_change_loses_lease(lease_test, holder, why):
    a = lease_test.lease("a")
    lease_test.try_take(a)
    lease_test.hold(a)
    if holder is None:
        lease_test.runner.call(lease_test.api.delete(LEASES, "post", "default"))
    else:
        lease_test.runner.call(
            lease_test.api.patch(LEASES, "post", {"spec": {"holderIdentity": holder}}, "default")
        )
    lease_test.runner.advance(3)
    assert lease_test.record == ["a begins at 0", "a ends at 2"]
    assert str(lease_test.end("a")) == why
