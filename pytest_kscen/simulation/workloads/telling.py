"""What a controller tells of its owners: their statuses. That one is now as it has just told is no news, and needs no look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.kube.informer import Ref

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj, Resource
    from pytest_kscen.simulation.bench import Bench
    from pytest_kscen.simulation.controller import Controller


class Telling:
    """Brings every owner of one kind to its controller, and again at each change but this controller's own words."""

    def __init__(self, bench: Bench, controller: Controller[Ref], owners: Resource) -> None:
        self._bench = bench
        self._controller = controller
        self._owners = owners
        self._told: dict[Ref, str] = {}
        """The version of each owner in which it says what it was told to say, until that is seen."""
        bench.informers.of(owners).on_change(self._changed)

    async def tell(self, owner: Obj, status: Obj, *, failed: bool = False) -> Obj:
        """Write the status that follows from a look; what is told of one that failed brings the owner back, as in Kubernetes."""
        told = await self._bench.write_status(self._owners, owner, status)
        if not failed:
            self._told[Ref.of(told)] = told["metadata"]["resourceVersion"]
        return told

    def _changed(self, new: Obj | None, old: Obj | None) -> None:
        told = self._told.pop(Ref.of(new or old or {}), "")
        if new and not (old and new["metadata"]["resourceVersion"] == told and _is_alike(new, old)):
            self._controller.enqueue(Ref.of(new))


def _is_alike(new: Obj, old: Obj) -> bool:
    """Whether nothing but the status was written: whoever told it may have missed what somebody else has written."""
    return _without_status(new) == _without_status(old)


def _without_status(obj: Obj) -> Obj:
    metadata = {name: value for name, value in obj["metadata"].items() if name not in {"resourceVersion", "managedFields"}}
    return {**obj, "metadata": metadata, "status": None}
