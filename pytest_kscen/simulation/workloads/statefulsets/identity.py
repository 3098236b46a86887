"""What makes a StatefulSet's pod itself: its number, its name and labels, and the volume claims that are its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.resources import STATEFUL_SETS
from pytest_kscen.simulation.workloads.revisions import template_of
from pytest_kscen.simulation.workloads.templates import pod_of

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

POD_NAME, POD_INDEX = "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"
REVISION = "controller-revision-hash"


def ordinal_of(name: str, owner: Obj) -> int | None:
    """The number of a pod of this set, None for a pod that has only wandered here."""
    parent, _, number = name.rpartition("-")
    return int(number) if parent == owner["metadata"]["name"] and number.isdecimal() else None


def name_of(owner: Obj, ordinal: int) -> str:
    return f"{owner['metadata']['name']}-{ordinal}"


def revision_of(pod: Obj) -> str:
    return (pod["metadata"].get("labels") or {}).get(REVISION) or ""


def wanted(owner: Obj) -> range:
    """The numbers of the pods that should be there."""
    start = (owner["spec"].get("ordinals") or {}).get("start", 0)
    return range(start, start + owner["spec"].get("replicas", 1))


def labels_of(owner: Obj, ordinal: int) -> dict[str, str]:
    return {POD_NAME: name_of(owner, ordinal), POD_INDEX: str(ordinal)}


def build_pod(owner: Obj, ordinal: int, revision: Obj) -> Obj:
    pod = pod_of(template_of(revision), owner, STATEFUL_SETS)
    metadata, spec, name = pod["metadata"], pod["spec"], name_of(owner, ordinal)
    identity = {**labels_of(owner, ordinal), REVISION: revision["metadata"]["name"]}
    claimed = {volume["name"]: volume for volume in _volumes(owner, ordinal)}
    others = [volume for volume in spec.get("volumes") or () if volume["name"] not in claimed]
    return {
        **pod,
        "metadata": {
            **metadata,
            "name": name,
            "generateName": f"{owner['metadata']['name']}-",
            "labels": {**(metadata.get("labels") or {}), **identity},
        },
        "spec": {
            **spec,
            "hostname": name,
            **({"subdomain": owner["spec"]["serviceName"]} if owner["spec"].get("serviceName") else {}),
            **({"volumes": [*claimed.values(), *others]} if claimed or others else {}),
        },
    }


def _volumes(owner: Obj, ordinal: int) -> list[Obj]:
    return [
        {"name": template["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim_name(owner, template, ordinal)}}
        for template in owner["spec"].get("volumeClaimTemplates") or ()
    ]


def claim_name(owner: Obj, template: Obj, ordinal: int) -> str:
    return f"{template['metadata']['name']}-{name_of(owner, ordinal)}"


def build_claims(owner: Obj, ordinal: int) -> list[Obj]:
    """The claims of one pod, as they are when the set makes them."""
    selected = owner["spec"]["selector"].get("matchLabels") or {}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                **template["metadata"],
                "name": claim_name(owner, template, ordinal),
                "namespace": owner["metadata"]["namespace"],
                "labels": {**(template["metadata"].get("labels") or {}), **selected},
            },
            "spec": template["spec"],
        }
        for template in owner["spec"].get("volumeClaimTemplates") or ()
    ]
