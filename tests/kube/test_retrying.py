"""Retries: schedule, limit, and the effect of a request whose response was lost."""

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


class RefusingApi(ForwardingApi):
    """API that raises each of these errors in turn, before or after the request takes effect."""

    def __init__(self, api):
        super().__init__(api)
        self.before, self.after, self.attempts = [], [], 0

    async def _answer(self, request):
        self.attempts += 1
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


class RetryTest:
    def __init__(self):
        self.runner, chance = VirtualRunner(), Chance(1)
        self.inner = RefusingApi(
            InProcessApi(ApiServer(self.runner.clock, chance, Kinds(builtin_kinds())))
        )
        self.started_at = self.runner.clock.now()
        self.api = RetryingApi(self.inner, self.runner.clock, chance.stream("again"))

    @property
    def elapsed(self):
        return self.runner.clock.now() - self.started_at

    def create(self, labels=OURS):
        obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": labels}}
        return self.runner.call(self.api.create(NAMESPACES, obj))


@pytest.fixture
def retry():
    retry = RetryTest()
    yield retry
    retry.runner.close()


def test_transient_error_is_retried_with_backoff(retry):
    retry.inner.before = [
        TooManyRequests("slow down"),
        InternalError("no"),
        ConnectionResetError("gone"),
    ]
    retry.create()
    assert retry.inner.attempts == 4
    assert 3.5 <= retry.elapsed <= 3.5 * 1.5


@pytest.mark.parametrize(
    ("before", "doubt"),
    [
        ([NotFound("no")], False),
        ([TooManyRequests("slow down"), NotFound("no")], False),
        ([InternalError("?"), TooManyRequests("slow down"), NotFound("no")], True),
        ([ConnectionResetError("gone"), NotFound("no")], True),
    ],
)
def test_error_after_lost_response_has_unknown_outcome(retry, before, doubt):
    retry.inner.before = [*before]
    with pytest.raises(NotFound) as refusal:
        retry.create()
    assert may_be_done(refusal.value) is doubt


def test_retries_end_after_five_minutes(retry):
    retry.inner.before = [InternalError(f"no {number}") for number in range(100)]
    with pytest.raises(InternalError, match="no"):
        retry.create()
    assert 300 <= retry.elapsed < 325


def test_permanent_error_is_raised_immediately(retry):
    retry.inner.before = [Forbidden("you may not")]
    with pytest.raises(Forbidden):
        retry.create()
    assert (retry.inner.attempts, retry.elapsed) == (1, 0)


def test_creation_with_lost_response_is_recognized(retry):
    """The server adds a label, so the objects are not equal."""
    retry.inner.after = [InternalError("the answer was lost")]
    assert retry.create()["metadata"]["labels"] == {**OURS, "kubernetes.io/metadata.name": "n"}
    assert retry.inner.attempts == 2


@pytest.mark.parametrize("labels", [{}, {"kscen.io/run": "another"}])
def test_object_of_other_creator_is_refused(retry, labels):
    retry.create(labels)
    retry.inner.before = [InternalError("no")]
    with pytest.raises(AlreadyExists):
        retry.create(OURS if labels else {})


def test_existing_object_is_not_recognized_as_created(retry):
    """No response was lost, so the labels do not matter."""
    retry.create()
    with pytest.raises(AlreadyExists):
        retry.create()
    assert retry.inner.attempts == 2


def test_patch_and_deletion_conflicts_are_retried(retry):
    retry.create()
    for request in (
        lambda: retry.api.patch(NAMESPACES, "n", {"metadata": {"labels": {"a": "b"}}}),
        lambda: retry.api.delete(NAMESPACES, "n"),
    ):
        retry.inner.before = [Conflict("changed in between")]
        assert retry.runner.call(request())["metadata"]["labels"]["a"] == "b"


def test_creation_conflict_is_retried(retry):
    retry.inner.before = [Conflict("the quota has changed")]
    assert retry.create()["metadata"]["name"] == "n"
    assert retry.inner.attempts == 2


def test_already_exists_is_raised_immediately(retry):
    retry.create()
    with pytest.raises(AlreadyExists):
        retry.create()
    assert (retry.inner.attempts, retry.elapsed) == (2, 0)


def test_binding_conflict_is_raised_immediately(retry):
    retry.inner.before = [Conflict("already bound")]
    with pytest.raises(Conflict):
        retry.runner.call(
            retry.api.create(
                PODS, {"metadata": {"name": "p"}}, "default", name="p", subresource="binding"
            )
        )
    assert retry.inner.attempts == 1


def test_not_found_after_repeated_deletion_is_reported(retry):
    retry.create()
    retry.runner.call(retry.api.patch(NAMESPACES, "n", {"spec": {"finalizers": []}}))
    retry.inner.before = [InternalError("no"), NotFound("gone")]
    with pytest.raises(NotFound):
        retry.runner.call(retry.api.delete(NAMESPACES, "n"))


def test_timeout_error_names_refusal(retry):
    async def forbidden(*_, **__):
        raise Forbidden("you cannot list namespaces")

    retry.inner.list = forbidden
    wait = wait_for(
        retry.api, retry.runner.clock, NAMESPACES, "n", condition=lambda _: True, timeout=30
    )
    with pytest.raises(
        TimeoutError,
        match=(
            r"namespaces n did not reach the awaited state within 30 s; .* Forbidden\('you cannot list "
            r"namespaces'"
        ),
    ):
        retry.runner.call(wait)
    assert retry.elapsed == 30


def test_conflict_of_a_deletion_with_precondition_is_raised(retry):
    retry.create()
    retry.inner.before = [Conflict("the uid is another one")]
    with pytest.raises(Conflict):
        retry.runner.call(retry.api.delete(NAMESPACES, "n", precondition_uid="u"))
    assert (retry.inner.attempts, retry.elapsed) == (2, 0.0)  # the creation and the deletion
