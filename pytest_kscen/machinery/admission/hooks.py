"""Gates of a test's own, in this process, where a cluster's webhooks stand."""

from __future__ import annotations

import copy
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.admission.review import CREATE, UPDATE, Gate
from pytest_kscen.objects.errors import Forbidden, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from pytest_kscen.machinery.admission.review import Place, Review
    from pytest_kscen.objects.resources import Obj, Resource


@dataclass(frozen=True, slots=True)
class Hook:
    """`mutate` changes `review.new`, which is its own copy; `validate` returns why not, or nothing.

    Both may raise an ApiError, and both may be coroutine functions.
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
        if review.new is not None:
            own = _own(review.new)
            review.new.clear()
            review.new.update(own)
        done = self.mutate(review) if self.mutate else None
        if inspect.isawaitable(done):
            await done

    async def judge(self, review: Review) -> None:
        verdict = self.validate(review) if self.validate else None
        if inspect.isawaitable(verdict):
            verdict = await verdict
        if verdict:
            raise Forbidden(f"admission webhook {quoted(self.name)} denied the request: {verdict}")


def _own(obj: Obj) -> Obj:
    """A copy to the ground; but whose fields are whose need not be known for that."""
    metadata = obj["metadata"]
    owners = {name: metadata[name] for name in ("managedFields",) if name in metadata}
    rest = {name: value for name, value in metadata.items() if name != "managedFields"}
    own = copy.deepcopy({**obj, "metadata": rest})
    own["metadata"].update(owners)
    return own
