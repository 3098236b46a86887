"""The admission chain: reviews, gates (mutate, then validate) and in-process hooks of a test."""

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
    Place = tuple[str, str, str, str]


# A write that wants to be let in, and what a gatekeeper is.


CREATE, UPDATE, DELETE, CONNECT = "CREATE", "UPDATE", "DELETE", "CONNECT"


@dataclass(slots=True)
class Review:
    """`new` is None for a deletion.

    Who changes it replaces the parts that it changes: some are a stored object's.
    """

    operation: str
    request: Request
    core: Core
    new: Obj | None
    old: Obj | None
    plan: Plan | None = None  # the chain's own: who looks at it

    @property
    def obj(self) -> Obj:
        """The new object; the old one of a deletion."""
        found = self.new if self.new is not None else self.old
        return {"metadata": {}} if found is None else found

    @property
    def name(self) -> str:
        metadata = self.obj["metadata"]
        return str(self.request.name or metadata.get("name") or "")

    @property
    def namespace(self) -> str:
        """Where it happens; for a namespace itself, its name."""
        resource = self.request.resource
        return (
            self.name
            if (resource.group, resource.plural) == ("", "namespaces")
            else self.request.namespace
        )

    def forbidden(self, why: str) -> Forbidden:
        name = self.name or self.obj["metadata"].get("generateName") or ""
        return forbidden(self.request.resource, name, why)


class Gate(NamedTuple):
    """What Kubernetes itself does with some kinds of writes.

    Neither function waits; a refusal is an ApiError.
    """

    resources: Sequence[Resource] = ()  # none: all
    mutate: Callable[[Review], None] | None = None
    validate: Callable[[Review], None] | None = None
    operations: Collection[str] = (CREATE, UPDATE)
    subresources: Collection[str] | None = ("",)  # None: all

    def concerns(self, place: Place) -> bool:
        group, plural, subresource, operation = place
        return (
            operation in self.operations
            and (self.subresources is None or subresource in self.subresources)
            and (
                not self.resources
                or any((each.group, each.plural) == (group, plural) for each in self.resources)
            )
        )


class Outside(Protocol):
    """Gatekeepers that live elsewhere: the webhooks that the cluster's own objects tell of."""

    def are_there(self, store: Store) -> bool:
        """Whether there are any; asked of each write that passes no gate here."""

    @property
    def mutating(self) -> Callable[[Review], Collection[object]]:
        """Tells who may want to change a write."""

    @property
    def validating(self) -> Callable[[Review], Collection[object]]: ...

    async def mutate(self, review: Review, again: Callable[[], None]) -> None:
        """Let them change the object; `again` passes it through the gates once more when they
        have.
        """

    async def validate(self, review: Review) -> None: ...


@dataclass(slots=True)
class Plan:
    """Who looks at one kind of write."""

    change: list[Step]
    judge: list[Step]
    judge_last: list[Step]
    changing_hooks: list[Hook]
    judging_hooks: list[Hook]
    is_empty: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_empty = not (
            self.change
            or self.judge
            or self.judge_last
            or self.changing_hooks
            or self.judging_hooks
        )

    def pass_gates(self, review: Review) -> None:
        for step in self.change:
            step(review)


@dataclass(slots=True)
class Admission:
    """The chain. Without gates, hooks and webhooks it lets everything through."""

    gates: Sequence[Gate] = ()
    last: Sequence[Gate] = ()  # those that judge when all others have agreed
    outside: Outside | None = None
    hooks: list[Hook] = field(default_factory=list)
    _plans: dict[Place, Plan] = field(default_factory=dict)

    def add(self, hook: Hook) -> None:
        self.hooks.append(hook)
        self._plans.clear()

    def remove(self, hook: Hook) -> None:
        self.hooks.remove(hook)
        self._plans.clear()

    def review(
        self, operation: str, request: Request, core: Core, new: Obj | None, old: Obj | None
    ) -> Review | None:
        """What gatekeepers look at; nothing, if there is none for such a write."""
        plan = self._plan(operation, request)
        if plan.is_empty and (self.outside is None or not self.outside.are_there(core.store)):
            return None
        return Review(operation, request, core, new, old, plan)

    def mutate(self, review: Review) -> Awaitable[None] | None:
        """What is returned is still to be awaited; for nearly all writes that is nothing.

        So it is with `validate`.
        """
        plan = review.plan = review.plan or self._plan(review.operation, review.request)
        for step in plan.change:
            step(review)
        if plan.changing_hooks or (self.outside is not None and self.outside.mutating(review)):
            return self._have_changed(review, plan)
        return None

    async def _have_changed(self, review: Review, plan: Plan) -> None:
        for hook in plan.changing_hooks:
            await hook.change(review)
        if self.outside is not None and self.outside.mutating(review):
            await self.outside.mutate(review, lambda: plan.pass_gates(review))

    def validate(self, review: Review) -> Awaitable[None] | None:
        plan = review.plan or self._plan(review.operation, review.request)
        for step in plan.judge:
            step(review)
        if plan.judging_hooks or (self.outside is not None and self.outside.validating(review)):
            return self._have_judged(review, plan)
        for step in plan.judge_last:
            step(review)
        return None

    async def admit(self, review: Review) -> None:
        """Both, where the server fills in nothing between them."""
        for judge in (self.mutate, self.validate):
            if waiting := judge(review):
                await waiting

    async def _have_judged(self, review: Review, plan: Plan) -> None:
        for hook in plan.judging_hooks:
            await hook.judge(review)
        if self.outside is not None and self.outside.validating(review):
            await self.outside.validate(review)
        for step in plan.judge_last:
            step(review)

    def _plan(self, operation: str, request: Request) -> Plan:
        resource = request.resource
        place = (resource.group, resource.plural, request.subresource, operation)
        plan = self._plans.get(place)
        if plan is None:
            gates = [gate for gate in self.gates if gate.concerns(place)]
            hooks = [hook for hook in self.hooks if hook.concerns(place)]
            plan = self._plans[place] = Plan(
                [gate.mutate for gate in gates if gate.mutate],
                [gate.validate for gate in gates if gate.validate],
                [gate.validate for gate in self.last if gate.validate and gate.concerns(place)],
                [hook for hook in hooks if hook.mutate],
                [hook for hook in hooks if hook.validate],
            )
        return plan


# Gates of a test's own, in this process, where a cluster's webhooks stand.


@dataclass(frozen=True, slots=True)
class Hook:
    """`mutate` changes `review.new`; `validate` returns why not, or nothing.

    The objects of the review are the hook's own: it may keep them and change them later, and
    nothing comes of that. Both may raise an ApiError, and both may be coroutine functions."""

    name: str
    mutate: Callable[[Review], Any] | None = None
    validate: Callable[[Review], Any] | None = None
    resources: Sequence[Resource] = ()  # none: all
    operations: Collection[str] = (CREATE, UPDATE)
    subresources: Collection[str] | None = ("",)  # None: all

    def concerns(self, place: Place) -> bool:
        return Gate(
            self.resources, operations=self.operations, subresources=self.subresources
        ).concerns(place)

    async def change(self, review: Review) -> None:
        own = _own(review)
        done = self.mutate(own) if self.mutate else None
        if inspect.isawaitable(done):
            await done
        if review.new is not None and own.new is not None:
            # What a hook has made of an object; but whose fields are whose is not a hook's to
            # say.
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

    async def judge(self, review: Review) -> None:
        verdict = self.validate(_own(review)) if self.validate else None
        if inspect.isawaitable(verdict):
            verdict = await verdict
        if verdict:
            raise Forbidden(f"admission webhook {quoted(self.name)} denied the request: {verdict}")


def _own(review: Review) -> Review:
    return replace(review, new=copy.deepcopy(review.new), old=copy.deepcopy(review.old))
