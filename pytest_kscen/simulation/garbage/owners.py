"""Whether an owner is there: looked up where its reference says, in the dependent's own namespace, by name and uid."""

from __future__ import annotations

import collections
import enum
from typing import TYPE_CHECKING

from pytest_kscen.kube.informer import Ref
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.simulation.garbage.family import FOREGROUND, is_deleting

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj, Resource
    from pytest_kscen.simulation.bench import Bench
    from pytest_kscen.simulation.garbage.family import Family, Place


REMEMBERED = 500


class State(enum.Enum):
    """Of an owner, as its dependent sees it."""

    ALIVE = "alive"
    GONE = "gone"
    WAITING = "waiting"
    """It is being deleted in the foreground."""
    UNKNOWN = "unknown"
    """Nobody serves its kind, or it lives in a namespace and the dependent does not: nothing follows from that."""


class Owners:
    """Looks owners up."""

    def __init__(self, bench: Bench, family: Family) -> None:
        self._bench = bench
        self._family = family
        self._puzzling: dict[Place, None] = {}
        self._gone: collections.OrderedDict[tuple[str, str], None] = collections.OrderedDict()

    def note_gone(self, uid: str, namespace: str) -> None:
        """An owner was seen to go: whatever becomes of its kind, it is not there."""
        self._gone[uid, namespace] = None
        if len(self._gone) > REMEMBERED:
            self._gone.popitem(last=False)

    def take_puzzling(self) -> list[Place]:
        """The dependents that could not be judged because an owner's kind was not served."""
        places, self._puzzling = list(self._puzzling), {}
        return places

    def is_known(self, owner: Obj, dependent: Place) -> bool:
        """Whether the owner has been seen where the dependent says, so that nothing has to be asked."""
        place = self._family.place_of(owner["uid"])
        if place is None or not self._fits(owner, place.resource):
            return False
        return place.ref == self._ref(owner, place.resource, dependent)

    async def state_of(self, owner: Obj, dependent: Place, obj: Obj) -> State:
        if (owner["uid"], "") in self._gone or (owner["uid"], dependent.ref.namespace) in self._gone:
            return State.GONE
        try:
            resource = await self._bench.api.resource_of(owner["apiVersion"], owner["kind"])
        except NotFound:
            self._puzzling[dependent] = None
            return State.UNKNOWN
        ref = self._ref(owner, resource, dependent)
        if resource.namespaced and not dependent.resource.namespaced:
            self._tell_of_namespace(owner, ref, obj)
            return State.UNKNOWN
        found = await self._find(resource, ref, owner["uid"])
        if found is None:
            self._tell_of_namespace(owner, ref, obj)
            return State.GONE
        return State.WAITING if is_deleting(found, FOREGROUND) else State.ALIVE

    async def _find(self, resource: Resource, ref: Ref, uid: str) -> Obj | None:
        """In the picture; but that somebody is not there is asked of the API itself."""
        informer = self._bench.informers.known(resource)
        seen = informer.objects.get(ref) if informer else None
        if seen and seen["metadata"]["uid"] == uid:
            return seen
        try:
            found = await self._bench.api.get(resource, ref.name, ref.namespace)
        except NotFound:
            return None
        return found if found["metadata"]["uid"] == uid else None

    def _tell_of_namespace(self, owner: Obj, ref: Ref, obj: Obj) -> None:
        """The owner lives, but elsewhere: the reference is a mistake that its author should hear of."""
        place = self._family.place_of(owner["uid"])
        if place and place.ref.namespace != ref.namespace:
            named = f"[{owner['apiVersion']}/{owner['kind']}, namespace: {ref.namespace}, name: {ref.name}, uid: {owner['uid']}]"
            message = f'ownerRef {named} does not exist in namespace "{ref.namespace}"'
            self._bench.recorder.warning(obj, "OwnerRefInvalidNamespace", message)

    @staticmethod
    def _ref(owner: Obj, resource: Resource, dependent: Place) -> Ref:
        return Ref(dependent.ref.namespace if resource.namespaced else "", owner["name"])

    @staticmethod
    def _fits(owner: Obj, resource: Resource) -> bool:
        return bool(owner["kind"] == resource.kind and owner["apiVersion"].rpartition("/")[0] == resource.group)
