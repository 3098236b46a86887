"""A pod as plugins see it: the object, and what is computed of it once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pytest_kscen.kube.informer import Ref
from pytest_kscen.simulation.placement.demand import demand_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.placement.demand import Demand

T = TypeVar("T")


class PodInfo:
    """A pod, on a node or looking for one."""

    __slots__ = ("_memos", "demand", "labels", "name", "namespace", "obj", "priority", "ref", "spec", "tolerations", "uid")

    def __init__(self, obj: Obj) -> None:
        metadata, spec = obj["metadata"], obj["spec"]
        self.obj = obj
        """The pod itself, plain JSON. It is shared: never change it."""
        self.spec: Obj = spec
        self.ref = Ref.of(obj)
        self.uid: str = metadata.get("uid", "")
        self.name: str = metadata["name"]
        self.namespace: str = metadata.get("namespace", "")
        self.labels: Mapping[str, str] = metadata.get("labels") or {}
        self.priority: int = spec.get("priority") or 0
        self.tolerations: list[Obj] = spec.get("tolerations") or []
        self.demand: Demand = demand_of(obj)
        """What it asks of a node: `requests`, what scoring takes it for (`scored`), `ports` of the host."""
        self._memos: dict[str, Any] = {}

    def memo(self, name: str, make: Callable[[PodInfo], T]) -> T:
        """What a plugin reads out of this pod, computed once: `pod.memo("MyPlugin", parse)`."""
        if name not in self._memos:
            self._memos[name] = make(self)
        found: T = self._memos[name]
        return found

    @property
    def nominated(self) -> str:
        """The node where others were sent away for this pod."""
        return (self.obj.get("status") or {}).get("nominatedNodeName") or ""

    def same_for_nodes(self, obj: Obj) -> bool:
        """Whether nothing of this newer object matters to the node that the pod is on."""
        old, new = self.obj["metadata"], obj["metadata"]
        return bool(
            (obj["spec"] is self.spec or obj["spec"] == self.spec)
            and new.get("labels") == old.get("labels")
            and bool(new.get("deletionTimestamp")) is bool(old.get("deletionTimestamp"))
        )

    def __repr__(self) -> str:
        return f"PodInfo({self.namespace}/{self.name})"
