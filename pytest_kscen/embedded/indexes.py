"""Informer indexes that several controllers share: pods by node and claim, volumes by class.

An informer keeps one index per name, so every caller gets the same one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.volume_matching import class_of
from pytest_kscen.kube.cache import Ref
from pytest_kscen.objects.resources import PERSISTENT_VOLUMES, PODS

if TYPE_CHECKING:
    from pytest_kscen.kube.cache import Index
    from pytest_kscen.kube.informer import Informers
    from pytest_kscen.objects.resources import Obj


def pods_by_node(informers: Informers) -> Index:
    return informers.of(PODS).index(
        "node",
        lambda pod: [name] if (name := pod["spec"].get("nodeName")) else [],
        stable=True,
    )


def pods_by_claim(informers: Informers) -> Index:
    return informers.of(PODS).index("claim", claims_of, stable=True)


def volumes_by_class(informers: Informers) -> Index:
    return informers.of(PERSISTENT_VOLUMES).index("class", lambda volume: [class_of(volume)])


def claims_of(pod: Obj) -> list[Ref]:
    """Return the claims behind the volumes of a pod, in the order of its volumes."""
    return [ref for volume in pod["spec"].get("volumes") or () if (ref := claim_of(pod, volume))]


def claim_of(pod: Obj, volume: Obj) -> Ref | None:
    """Return the claim behind one volume of a pod: a named one, or the pod's own for an
    ephemeral volume. None for other volumes.
    """
    if claim := volume.get("persistentVolumeClaim"):
        return Ref(pod["metadata"].get("namespace", ""), claim["claimName"])
    if "ephemeral" in volume:
        return Ref(
            pod["metadata"].get("namespace", ""), f"{pod['metadata']['name']}-{volume['name']}"
        )
    return None
