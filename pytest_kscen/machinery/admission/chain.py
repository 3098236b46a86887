"""The gatekeepers between a decoded object and the store: first those that change it, then those that only judge.

A write passes the gates of its kind, the hooks that somebody has put there and the webhooks of the cluster, to be
changed; then, when the server has filled in its part, the same again to be judged, and last the quotas. Gates and
hooks are looked up once for each kind of write. Nothing waits but a webhook, and a hook that says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pytest_kscen.machinery.admission.review import Review

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from pytest_kscen.kube.requests import Request
    from pytest_kscen.machinery.admission.hooks import Hook
    from pytest_kscen.machinery.admission.review import Gate, Place
    from pytest_kscen.machinery.core import Core
    from pytest_kscen.machinery.store import Store
    from pytest_kscen.objects.resources import Obj

    Step = Callable[[Review], None]


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
        """Let them change the object; `again` passes it through the gates once more when they have."""

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
        self.is_empty = not (self.change or self.judge or self.judge_last or self.changing_hooks or self.judging_hooks)

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

    def review(self, operation: str, request: Request, core: Core, new: Obj | None, old: Obj | None) -> Review | None:
        """What gatekeepers look at; nothing, if there is none for such a write."""
        plan = self._plan(operation, request)
        if plan.is_empty and (self.outside is None or not self.outside.are_there(core.store)):
            return None
        return Review(operation, request, core, new, old, plan)

    def mutate(self, review: Review) -> Awaitable[None] | None:
        """What is returned is still to be awaited; for nearly all writes that is nothing. So it is with `validate`."""
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
            plan = self._plans[place] = self._planned(place)
        return plan

    def _planned(self, place: Place) -> Plan:
        gates = [gate for gate in self.gates if gate.concerns(place)]
        hooks = [hook for hook in self.hooks if hook.concerns(place)]
        return Plan(
            [gate.mutate for gate in gates if gate.mutate],
            [gate.validate for gate in gates if gate.validate],
            [gate.validate for gate in self.last if gate.validate and gate.concerns(place)],
            [hook for hook in hooks if hook.mutate],
            [hook for hook in hooks if hook.validate],
        )
