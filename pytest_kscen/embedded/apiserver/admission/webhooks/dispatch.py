"""Asking the webhooks of a cluster: first one after another to change a write, then all at once to
judge it.

One that cannot be asked refuses the write, or is passed over if its configuration says so. When one
has changed the object, the gates look at it again, and so do those asked before that want to."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.admission.webhooks.configuration import (
    Configured,
    address_of,
    to_call,
)
from pytest_kscen.embedded.apiserver.admission.webhooks.review import (
    CallError,
    Question,
    Verdict,
    admission_request,
    encoded,
    verdict_of,
    version_for,
)
from pytest_kscen.embedded.apiserver.decoding import decode
from pytest_kscen.embedded.apiserver.patching import materialised
from pytest_kscen.objects.errors import BadRequest, internal, quoted
from pytest_kscen.objects.patches import PatchError, json_patch

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.embedded.apiserver.admission.chain import Review
    from pytest_kscen.embedded.apiserver.admission.webhooks.configuration import Call, Webhook
    from pytest_kscen.embedded.apiserver.store import Store
    from pytest_kscen.objects.resources import Obj

logger = logging.getLogger(__name__)


class Webhooks:
    """A `machinery.admission.chain.Outside`."""

    def __init__(self) -> None:
        self._mutating = Configured("mutatingwebhookconfigurations")
        self._validating = Configured("validatingwebhookconfigurations")
        self.mutating, self.validating = self._mutating.concerned, self._validating.concerned

    def are_there(self, store: Store) -> bool:
        return self._mutating.are_there(store) or self._validating.are_there(store)

    async def mutate(self, review: Review, again: Callable[[], None]) -> None:
        repeated: list[Webhook] = []
        due: list[Webhook] = []
        changed = False
        for each in self._mutating.calls(review):
            if await _change(each, review):
                changed, due = True, list(repeated)
            if each.webhook.is_repeated:
                repeated.append(each.webhook)
        if not changed:
            return
        before = dict(review.new or {})
        again()
        if review.new != before:
            due = repeated
        for webhook in due:
            call_again = to_call(webhook, review)
            if call_again:
                await _change(call_again, review)

    async def validate(self, review: Review) -> None:
        calls = list(self._validating.calls(review))
        asked: list[Any] = await asyncio.gather(
            *(_ask(each, review, mutating=False) for each in calls), return_exceptions=True
        )
        for outcome in asked:
            if isinstance(outcome, Verdict):
                review.request.warnings.extend(outcome.warnings)
        for outcome in asked:
            refusal = outcome.refusal if isinstance(outcome, Verdict) else outcome
            if refusal is not None:
                raise refusal


async def _change(each: Call, review: Review) -> bool:
    """Whether a webhook has changed the object."""
    verdict = await _ask(each, review, mutating=True)
    if verdict is None:
        return False
    review.request.warnings.extend(verdict.warnings)
    if verdict.refusal:
        raise verdict.refusal
    if not verdict.patch:
        return False
    if review.new is None:
        why = "attempted to modify the object, which is not supported for this operation"
        raise internal(f"admission webhook {quoted(each.webhook.name)} {why}")
    before = dict(review.new)
    after = _patched(each, review, review.new, verdict.patch)
    review.new.clear()
    review.new.update(after)
    return before != after


def _patched(each: Call, review: Review, new: Obj, operations: list[Obj]) -> Obj:
    """The object with a webhook's patch, decoded and with its defaults again."""
    kind = review.core.kind_of(review.request)
    is_whole = new.get("kind") == kind.resource.kind
    shown = materialised(each.kind.shown(new) if is_whole else new)
    try:
        body = {**json_patch(shown, operations), "apiVersion": new["apiVersion"]}
    except PatchError as error:
        raise internal(str(error)) from None
    if not is_whole:
        return body
    lenient = replace(
        review.request,
        options=replace(review.request.options, field_validation="Ignore"),
        warnings=[],
    )
    try:
        return decode(kind, lenient, body, new)
    except BadRequest as error:
        raise internal(
            error.message.partition(" cannot be handled as a ")[2].partition(": ")[2]
            or error.message
        ) from None


async def _ask(each: Call, review: Review, *, mutating: bool) -> Verdict | None:
    """A webhook's verdict; None if it could not be asked and that does not matter."""
    webhook, name = each.webhook, quoted(each.webhook.name)
    if review.request.options.dry_run and not webhook.bears_dry_run:
        raise BadRequest(f"admission webhook {name} does not support dry run")
    uid = review.core.chance.stream("admission reviews").uid()
    try:
        version = version_for(webhook.versions)
        address = address_of(webhook, review.core.store)
        body = encoded(admission_request(review, each.kind, uid), version)
        answer = await asyncio.get_running_loop().run_in_executor(
            None, _called, address, body, webhook.timeout
        )
        return verdict_of(answer, Question(webhook.name, uid, version, mutating))
    except CallError as error:
        if not webhook.fails_open:
            raise internal(f"failed calling webhook {name}: {error}") from None
        logger.warning("failed calling webhook %s, which is allowed to: %s", name, error)
        return None


def _called(*parts: Any) -> Obj:
    from pytest_kscen.embedded.apiserver.admission.webhooks.calling import call

    try:
        return call(*parts)
    except CallError as error:
        raise CallError(f"failed to call webhook: {error}") from None
