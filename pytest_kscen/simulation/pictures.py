"""Pictures of a cluster sorted as several controllers need them; all who ask share one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.kube.informer import Ref
from pytest_kscen.objects.resources import PERSISTENT_VOLUMES, PODS
from pytest_kscen.simulation.volumes.matching import class_of

if TYPE_CHECKING:
    from pytest_kscen.kube.informer import Index, Informers
    from pytest_kscen.objects.resources import Obj


def pods_by_node(informers: Informers) -> Index:
    return informers.of(PODS).index("node", _node_of)


def pods_by_claim(informers: Informers) -> Index:
    return informers.of(PODS).index("claim", claims_of)


def volumes_by_class(informers: Informers) -> Index:
    return informers.of(PERSISTENT_VOLUMES).index("class", lambda volume: [class_of(volume)])


def claims_of(pod: Obj) -> list[Ref]:
    """The claims behind a pod's volumes."""
    found = (claim_of(pod, volume) for volume in pod["spec"].get("volumes") or ())
    return [ref for ref in found if ref]


def claim_of(pod: Obj, volume: Obj) -> Ref | None:
    """The claim behind a volume: one that is named, or the pod's own."""
    namespace = pod["metadata"].get("namespace", "")
    if claim := volume.get("persistentVolumeClaim"):
        return Ref(namespace, claim["claimName"])
    return Ref(namespace, f"{pod['metadata']['name']}-{volume['name']}") if "ephemeral" in volume else None


def _node_of(pod: Obj) -> list[str]:
    name = pod["spec"].get("nodeName")
    return [name] if name else []
