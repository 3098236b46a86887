"""Dispatch to webhooks: mutating ones in sequence, then validating ones in parallel.

A failed call refuses the write, or is skipped under failurePolicy Ignore. After a change the
plugins run again, and so do earlier webhooks with reinvocationPolicy IfNeeded.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.admission.webhooks.configuration import (
    WebhookConfigurations,
    address_of,
    call_for,
)
from pytest_kscen.embedded.apiserver.admission.webhooks.review import (
    CallError,
    ReviewCall,
    WebhookVerdict,
    admission_request,
    encode_review,
    parse_response,
    version_for,
)
from pytest_kscen.embedded.apiserver.decoding import decode
from pytest_kscen.embedded.apiserver.patching import materialised
from pytest_kscen.objects.errors import BadRequest, internal, quoted
from pytest_kscen.objects.patches import PatchError, json_patch

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.embedded.apiserver.admission.chain import Review
    from pytest_kscen.embedded.apiserver.admission.webhooks.configuration import (
        Webhook,
        WebhookCall,
    )
    from pytest_kscen.embedded.apiserver.store import Store
    from pytest_kscen.objects.resources import Obj

logger = logging.getLogger(__name__)


class Webhooks:
    """Webhook admission of one cluster; implements `chain.WebhookAdmission`.

    Calls run in threads and block the cluster's time. Refusals of validating webhooks are reported
    in the order of the configurations, although the calls run in parallel.
    """

    def __init__(self) -> None:
        self._mutating = WebhookConfigurations("mutatingwebhookconfigurations")
        self._validating = WebhookConfigurations("validatingwebhookconfigurations")
        self.mutating, self.validating = self._mutating.matching, self._validating.matching

    def any_configured(self, store: Store) -> bool:
        return self._mutating.any_configured(store) or self._validating.any_configured(store)

    async def mutate(self, review: Review, rerun_plugins: Callable[[], None]) -> None:
        reinvoked_before: list[Webhook] = []
        due: list[Webhook] = []
        changed = False
        for each in self._mutating.calls(review):
            if await _mutate_with(each, review):
                changed, due = True, list(reinvoked_before)
            if each.webhook.reinvoked:
                reinvoked_before.append(each.webhook)
        if not changed:
            return
        before = dict(review.new or {})
        rerun_plugins()
        if review.new != before:
            due = reinvoked_before
        for webhook in due:
            second_call = call_for(webhook, review)
            if second_call:
                await _mutate_with(second_call, review)

    async def validate(self, review: Review) -> None:
        calls = list(self._validating.calls(review))
        outcomes: list[Any] = await asyncio.gather(
            *(_review_with(each, review, mutating=False) for each in calls), return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, WebhookVerdict):
                review.request.warnings.extend(outcome.warnings)
        for outcome in outcomes:
            refusal = outcome.refusal if isinstance(outcome, WebhookVerdict) else outcome
            if refusal is not None:
                raise refusal


async def _mutate_with(each: WebhookCall, review: Review) -> bool:
    """Call a mutating webhook; return True if it changed the object."""
    verdict = await _review_with(each, review, mutating=True)
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


def _patched(each: WebhookCall, review: Review, new: Obj, operations: list[Obj]) -> Obj:
    """Return the object with a webhook's patch, decoded and defaulted again."""
    kind = review.core.kind_of(review.request)
    is_whole = new.get("kind") == kind.resource.kind
    shown = materialised(each.kind.to_served(new) if is_whole else new)
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


async def _review_with(
    each: WebhookCall, review: Review, *, mutating: bool
) -> WebhookVerdict | None:
    """Call a webhook and return its verdict, or None if the call failed and failures are ignored.

    A dry run is refused if the webhook has side effects. Raises InternalError for other failures.
    """
    webhook, name = each.webhook, quoted(each.webhook.name)
    if review.request.options.dry_run and not webhook.supports_dry_run:
        raise BadRequest(f"admission webhook {name} does not support dry run")
    uid = review.core.chance.stream("admission reviews").uid()
    try:
        version = version_for(webhook.versions)
        address = address_of(webhook, review.core.store)
        body = encode_review(admission_request(review, each.kind, uid), version)
        answer = await asyncio.get_running_loop().run_in_executor(
            None, _call, address, body, webhook.timeout
        )
        return parse_response(answer, ReviewCall(webhook.name, uid, version, mutating))
    except CallError as error:
        if not webhook.fails_open:
            raise internal(f"failed calling webhook {name}: {error}") from None
        logger.warning("failed calling webhook %s, which is allowed to: %s", name, error)
        return None


def _call(*parts: Any) -> Obj:
    from pytest_kscen.embedded.apiserver.admission.webhooks.calling import call

    try:
        return call(*parts)
    except CallError as error:
        raise CallError(f"failed to call webhook: {error}") from None
