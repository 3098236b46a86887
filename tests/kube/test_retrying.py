"""Requests that are asked again: when, for how long, and what an answer that was lost may have
done.
"""

from __future__ import annotations

import pytest

from pytest_kscen.chance import Chance
from pytest_kscen.clock import VirtualRunner
from pytest_kscen.embedded.apiserver.builtin_kinds import builtin_kinds
from pytest_kscen.embedded.apiserver.kinds import Kinds
from pytest_kscen.embedded.apiserver.server import ApiServer
from pytest_kscen.kube.api import ForwardingApi
from pytest_kscen.kube.in_process import InProcessApi
from pytest_kscen.kube.retrying import RetryingApi, may_be_done
from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.objects.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    InternalError,
    NotFound,
    TooManyRequests,
)
from pytest_kscen.objects.resources import NAMESPACES, PODS

OURS = {"kscen.io/run": "r"}


class Refusing(ForwardingApi):
    """Refuses with each of these in turn, before or after it has done what it was asked."""

    def __init__(self, api):
        super().__init__(api)
        self.before, self.after, self.asked = [], [], 0

    async def _answer(self, request):
        self.asked += 1
        if self.before:
            request.close()
            raise self.before.pop(0)
        answer = await request
        if self.after:
            raise self.after.pop(0)
        return answer

    async def create(self, *arguments, **options):
        return await self._answer(self._api.create(*arguments, **options))

    async def patch(self, *arguments, **options):
        return await self._answer(self._api.patch(*arguments, **options))

    async def delete(self, *arguments, **options):
        return await self._answer(self._api.delete(*arguments, **options))


class Place:
    def __init__(self):
        self.runner, chance = VirtualRunner(), Chance(1)
        self.inner = Refusing(
            InProcessApi(ApiServer(self.runner.clock, chance, Kinds(builtin_kinds())))
        )
        self.began = self.runner.clock.now()
        self.api = RetryingApi(self.inner, self.runner.clock, chance.stream("again"))

    @property
    def took(self):
        return self.runner.clock.now() - self.began

    def create(self, labels=OURS):
        obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": labels}}
        return self.runner.call(self.api.create(NAMESPACES, obj))


@pytest.fixture
def place():
    place = Place()
    yield place
    place.runner.close()


def test_what_may_pass_is_asked_again_later_and_later(place):
    place.inner.before = [
        TooManyRequests("slow down"),
        InternalError("no"),
        ConnectionResetError("gone"),
    ]
    place.create()
    assert place.inner.asked == 4
    assert 3.5 <= place.took <= 3.5 * 1.5


@pytest.mark.parametrize(
    ("before", "doubt"),
    [
        ([NotFound("no")], False),
        ([TooManyRequests("slow down"), NotFound("no")], False),
        ([InternalError("?"), TooManyRequests("slow down"), NotFound("no")], True),
        ([ConnectionResetError("gone"), NotFound("no")], True),
    ],
)
def test_a_refusal_after_a_lost_answer_leaves_it_open_what_was_done(place, before, doubt):
    place.inner.before = [*before]
    with pytest.raises(NotFound) as refusal:
        place.create()
    assert may_be_done(refusal.value) is doubt


def test_after_five_minutes_a_refusal_is_one(place):
    place.inner.before = [InternalError(f"no {number}") for number in range(100)]
    with pytest.raises(InternalError, match="no"):
        place.create()
    assert 300 <= place.took < 325


def test_what_cannot_pass_is_said_at_once(place):
    place.inner.before = [Forbidden("you may not")]
    with pytest.raises(Forbidden):
        place.create()
    assert (place.inner.asked, place.took) == (1, 0)


def test_what_was_made_although_its_answer_was_lost_is_ours(place):
    """The server has added a label of its own."""
    place.inner.after = [InternalError("the answer was lost")]
    assert place.create()["metadata"]["labels"] == {**OURS, "kubernetes.io/metadata.name": "n"}
    assert place.inner.asked == 2


@pytest.mark.parametrize("labels", [{}, {"kscen.io/run": "another"}])
def test_what_others_made_is_not_ours(place, labels):
    place.create(labels)
    place.inner.before = [InternalError("no")]
    with pytest.raises(AlreadyExists):
        place.create(OURS if labels else {})


def test_what_was_there_before_it_was_asked_for_is_not_made(place):
    """Ours or not: no answer was lost."""
    place.create()
    with pytest.raises(AlreadyExists):
        place.create()
    assert place.inner.asked == 2


def test_a_conflict_of_a_patch_or_a_deletion_passes(place):
    place.create()
    for request in (
        lambda: place.api.patch(NAMESPACES, "n", {"metadata": {"labels": {"a": "b"}}}),
        lambda: place.api.delete(NAMESPACES, "n"),
    ):
        place.inner.before = [Conflict("changed in between")]
        assert place.runner.call(request())["metadata"]["labels"]["a"] == "b"


def test_a_conflict_of_a_creation_passes(place):
    place.inner.before = [Conflict("the quota has changed")]
    assert place.create()["metadata"]["name"] == "n"
    assert place.inner.asked == 2


def test_what_exists_already_is_said_at_once(place):
    place.create()
    with pytest.raises(AlreadyExists):
        place.create()
    assert (place.inner.asked, place.took) == (2, 0)


def test_a_conflict_of_a_binding_is_said_at_once(place):
    place.inner.before = [Conflict("already bound")]
    with pytest.raises(Conflict):
        place.runner.call(
            place.api.create(
                PODS, {"metadata": {"name": "p"}}, "default", name="p", subresource="binding"
            )
        )
    assert place.inner.asked == 1


def test_what_is_gone_when_its_deletion_is_asked_again_is_told(place):
    place.create()
    place.runner.call(place.api.patch(NAMESPACES, "n", {"spec": {"finalizers": []}}))
    place.inner.before = [InternalError("no"), NotFound("gone")]
    with pytest.raises(NotFound):
        place.runner.call(place.api.delete(NAMESPACES, "n"))


def test_who_waits_in_vain_is_told_what_was_refused(place):
    async def forbidden(*_, **__):
        raise Forbidden("you cannot list namespaces")

    place.inner.list = forbidden
    wait = wait_for(
        place.api, place.runner.clock, NAMESPACES, "n", condition=lambda _: True, timeout=30
    )
    with pytest.raises(
        TimeoutError,
        match=(
            r"namespaces n was not as awaited within 30 s; .* Forbidden\('you cannot list "
            r"namespaces'"
        ),
    ):
        place.runner.call(wait)
    assert place.took == 30
