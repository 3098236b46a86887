"""Gates of a test's own, in this process, where a cluster's webhooks stand."""

from __future__ import annotations

import copy
import inspect
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.admission.review import CREATE, UPDATE, Gate
from pytest_kscen.objects.errors import Forbidden, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from pytest_kscen.machinery.admission.review import Place, Review
    from pytest_kscen.objects.resources import Obj, Resource


@dataclass(frozen=True, slots=True)
class Hook:
    """`mutate` changes `review.new`; `validate` returns why not, or nothing.

    The objects of the review are the hook's own: it may keep them and change them later, and nothing comes of that. Both
    may raise an ApiError, and both may be coroutine functions.
    """

    name: str
    mutate: Callable[[Review], Any] | None = None
    validate: Callable[[Review], Any] | None = None
    resources: Sequence[Resource] = ()  # none: all
    operations: Collection[str] = (CREATE, UPDATE)
    subresources: Collection[str] | None = ("",)  # None: all

    def concerns(self, place: Place) -> bool:
        return Gate(self.resources, operations=self.operations, subresources=self.subresources).concerns(place)

    async def change(self, review: Review) -> None:
        own = _own(review)
        done = self.mutate(own) if self.mutate else None
        if inspect.isawaitable(done):
            await done
        if review.new is not None and own.new is not None:
            _take_over(review.new, copy.deepcopy(own.new))

    async def judge(self, review: Review) -> None:
        verdict = self.validate(_own(review)) if self.validate else None
        if inspect.isawaitable(verdict):
            verdict = await verdict
        if verdict:
            raise Forbidden(f"admission webhook {quoted(self.name)} denied the request: {verdict}")


def _own(review: Review) -> Review:
    return replace(review, new=copy.deepcopy(review.new), old=copy.deepcopy(review.old))


def _take_over(obj: Obj, changed: Obj) -> None:
    """What a hook has made of an object; but whose fields are whose is not a hook's to say."""
    owners = {name: obj["metadata"][name] for name in ("managedFields",) if name in obj["metadata"]}
    rest = {name: value for name, value in changed["metadata"].items() if name != "managedFields"}
    obj.clear()
    obj.update({**changed, "metadata": {**rest, **owners}})
