"""Admission chain: mutating plugins, hooks and webhooks, then validating ones.

The verbs call `Admission.review`, `mutate` and `validate` for each write. Plans are cached by kind
of write, since nearly all writes pass the same few plugins.
"""

from __future__ import annotations

import copy
import inspect
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pytest_kscen.objects.errors import Forbidden, forbidden, quoted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.store import Store
    from pytest_kscen.kube.api import Request
    from pytest_kscen.objects.resources import Obj, Resource

    Step = Callable[["Review"], None]
    WriteKey = tuple[str, str, str, str]


CREATE, UPDATE, DELETE, CONNECT = "CREATE", "UPDATE", "DELETE", "CONNECT"


@dataclass(slots=True)
class Review:
    """Write under admission; `new` is None for a deletion, `old` for a creation.

    Mutators replace the parts of `new` that they change, since some are a stored object's. `plan`
    is the chain's own.
    """

    operation: str
    request: Request
    core: Core
    new: Obj | None
    old: Obj | None
    plan: AdmissionPlan | None = None

    @property
    def obj(self) -> Obj:
        """The new object, or the old one in a deletion."""
        found = self.new if self.new is not None else self.old
        return {"metadata": {}} if found is None else found

    @property
    def name(self) -> str:
        metadata = self.obj["metadata"]
        return str(self.request.name or metadata.get("name") or "")

    @property
    def namespace(self) -> str:
        """The namespace of the write; for a namespace itself, its own name."""
        resource = self.request.resource
        return (
            self.name
            if (resource.group, resource.plural) == ("", "namespaces")
            else self.request.namespace
        )

    def forbidden(self, why: str) -> Forbidden:
        name = self.name or self.obj["metadata"].get("generateName") or ""
        return forbidden(self.request.resource, name, why)


class AdmissionPlugin(NamedTuple):
    """Built-in admission step for some kinds of writes.

    The functions must not wait and refuse with an ApiError. By default a plugin applies to all
    resources, to creations and updates, and not to subresources.
    """

    resources: Sequence[Resource] = ()  # none: all
    mutate: Callable[[Review], None] | None = None
    validate: Callable[[Review], None] | None = None
    operations: Collection[str] = (CREATE, UPDATE)
    subresources: Collection[str] | None = ("",)  # None: all

    def applies_to(self, key: WriteKey) -> bool:
        group, plural, subresource, operation = key
        return (
            operation in self.operations
            and (self.subresources is None or subresource in self.subresources)
            and (
                not self.resources
                or any((each.group, each.plural) == (group, plural) for each in self.resources)
            )
        )


class WebhookAdmission(Protocol):
    def any_configured(self, store: Store) -> bool:
        """Return True if any webhook is configured.

        Called for each write that matches no plugin, so it must be cheap.
        """

    @property
    def mutating(self) -> Callable[[Review], Collection[object]]:
        """Function that returns the mutating webhooks with a rule for a write."""

    @property
    def validating(self) -> Callable[[Review], Collection[object]]: ...

    async def mutate(self, review: Review, rerun_plugins: Callable[[], None]) -> None:
        """Call the mutating webhooks, which may change `review.new` in place.

        `rerun_plugins` applies the mutating plugins again after a change.
        """

    async def validate(self, review: Review) -> None: ...


@dataclass(slots=True)
class AdmissionPlan:
    """Steps for one kind of write, each list in the order of execution.

    Cached by group, plural, subresource and operation; hooks that are added or removed clear the
    cache.
    """

    mutators: list[Step]
    validators: list[Step]
    last_validators: list[Step]
    mutating_hooks: list[Hook]
    validating_hooks: list[Hook]
    is_empty: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_empty = not (
            self.mutators
            or self.validators
            or self.last_validators
            or self.mutating_hooks
            or self.validating_hooks
        )

    def run_mutators(self, review: Review) -> None:
        for step in self.mutators:
            step(review)


@dataclass(slots=True)
class Admission:
    """Admission chain of one cluster; without plugins, hooks and webhooks it admits everything.

    Order of a write: mutating plugins, hooks' mutate, mutating webhooks; then the verb validates;
    then validating plugins, hooks' validate, validating webhooks, and `last` (quotas).
    """

    plugins: Sequence[AdmissionPlugin] = ()
    last: Sequence[AdmissionPlugin] = ()  # validate after all others have passed
    webhooks: WebhookAdmission | None = None
    hooks: list[Hook] = field(default_factory=list)
    _plan_by_key: dict[WriteKey, AdmissionPlan] = field(default_factory=dict)

    def add(self, hook: Hook) -> None:
        self.hooks.append(hook)
        self._plan_by_key.clear()

    def remove(self, hook: Hook) -> None:
        self.hooks.remove(hook)
        self._plan_by_key.clear()

    def review(
        self, operation: str, request: Request, core: Core, new: Obj | None, old: Obj | None
    ) -> Review | None:
        """Return the review of a write, or None if no step applies to it.

        Callers skip admission on None, which is the usual case and must stay cheap.
        """
        plan = self._plan(operation, request)
        if plan.is_empty and (
            self.webhooks is None or not self.webhooks.any_configured(core.store)
        ):
            return None
        return Review(operation, request, core, new, old, plan)

    def mutate(self, review: Review) -> Awaitable[None] | None:
        """Run the mutating plugins; return an awaitable if hooks or webhooks remain to be called.

        Nearly all writes need no waiting and get None. `validate` works alike.
        """
        plan = review.plan = review.plan or self._plan(review.operation, review.request)
        for step in plan.mutators:
            step(review)
        if plan.mutating_hooks or (self.webhooks is not None and self.webhooks.mutating(review)):
            return self._await_mutation(review, plan)
        return None

    async def _await_mutation(self, review: Review, plan: AdmissionPlan) -> None:
        for hook in plan.mutating_hooks:
            await hook.run_mutate(review)
        if self.webhooks is not None and self.webhooks.mutating(review):
            await self.webhooks.mutate(review, lambda: plan.run_mutators(review))

    def validate(self, review: Review) -> Awaitable[None] | None:
        plan = review.plan or self._plan(review.operation, review.request)
        for step in plan.validators:
            step(review)
        if plan.validating_hooks or (
            self.webhooks is not None and self.webhooks.validating(review)
        ):
            return self._await_validation(review, plan)
        for step in plan.last_validators:
            step(review)
        return None

    async def admit(self, review: Review) -> None:
        """Mutate and validate at once, for requests in which the server sets no fields in
        between.
        """
        for step in (self.mutate, self.validate):
            if waiting := step(review):
                await waiting

    async def _await_validation(self, review: Review, plan: AdmissionPlan) -> None:
        for hook in plan.validating_hooks:
            await hook.run_validate(review)
        if self.webhooks is not None and self.webhooks.validating(review):
            await self.webhooks.validate(review)
        for step in plan.last_validators:
            step(review)

    def _plan(self, operation: str, request: Request) -> AdmissionPlan:
        resource = request.resource
        key = (resource.group, resource.plural, request.subresource, operation)
        plan = self._plan_by_key.get(key)
        if plan is None:
            plugins = [plugin for plugin in self.plugins if plugin.applies_to(key)]
            hooks = [hook for hook in self.hooks if hook.applies_to(key)]
            plan = self._plan_by_key[key] = AdmissionPlan(
                [plugin.mutate for plugin in plugins if plugin.mutate],
                [plugin.validate for plugin in plugins if plugin.validate],
                [
                    plugin.validate
                    for plugin in self.last
                    if plugin.validate and plugin.applies_to(key)
                ],
                [hook for hook in hooks if hook.mutate],
                [hook for hook in hooks if hook.validate],
            )
        return plan


@dataclass(frozen=True, slots=True)
class Hook:
    """Admission hook of a test, in this process: the counterpart of a webhook.

    `mutate` changes `review.new`; `validate` returns the reason of a refusal, or None. The review's
    objects are private copies. Both functions may raise an ApiError and may be coroutine functions.
    """

    name: str
    mutate: Callable[[Review], Any] | None = None
    validate: Callable[[Review], Any] | None = None
    resources: Sequence[Resource] = ()  # none: all
    operations: Collection[str] = (CREATE, UPDATE)
    subresources: Collection[str] | None = ("",)  # None: all

    def applies_to(self, key: WriteKey) -> bool:
        return AdmissionPlugin(
            self.resources, operations=self.operations, subresources=self.subresources
        ).applies_to(key)

    async def run_mutate(self, review: Review) -> None:
        own = _private_copy(review)
        done = self.mutate(own) if self.mutate else None
        if inspect.isawaitable(done):
            await done
        if review.new is not None and own.new is not None:
            # Apply the hook's changes, but keep managedFields, which hooks may not change.
            obj = review.new
            changed = copy.deepcopy(own.new)
            owners = {
                name: obj["metadata"][name]
                for name in ("managedFields",)
                if name in obj["metadata"]
            }
            rest = {
                name: value
                for name, value in changed["metadata"].items()
                if name != "managedFields"
            }
            obj.clear()
            obj.update({**changed, "metadata": {**rest, **owners}})

    async def run_validate(self, review: Review) -> None:
        verdict = self.validate(_private_copy(review)) if self.validate else None
        if inspect.isawaitable(verdict):
            verdict = await verdict
        if verdict:
            raise Forbidden(f"admission webhook {quoted(self.name)} denied the request: {verdict}")


def _private_copy(review: Review) -> Review:
    return replace(review, new=copy.deepcopy(review.new), old=copy.deepcopy(review.old))
