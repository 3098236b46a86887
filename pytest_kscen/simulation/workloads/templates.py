"""From a pod template to a pod, and to the short hash that names a template."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_kscen.chance import SUFFIX_ALPHABET
from pytest_kscen.simulation.workloads.owners import reference_to

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj, Resource

FNV_OFFSET, FNV_PRIME = 0x811C9DC5, 0x01000193
LONGEST_PREFIX = 58  # of a generated name: Kubernetes cuts there, to leave room for five characters


def pod_of(template: Obj, owner: Obj, resource: Resource) -> Obj:
    """A new pod, not named yet."""
    metadata = template.get("metadata") or {}
    copied = {name: metadata[name] for name in ("labels", "annotations", "finalizers") if metadata.get(name)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**copied, "ownerReferences": [reference_to(owner, resource)]},
        "spec": template["spec"],
    }


def short_hash(value: Any, collisions: int | None = None) -> str:
    """A hash in Kubernetes' alphabet: FNV-1a of the canonical JSON, and of the number of collisions so far."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    digest = FNV_OFFSET
    for byte in text.encode() + (b"" if collisions is None else collisions.to_bytes(8, "little")):
        digest = ((digest ^ byte) * FNV_PRIME) & 0xFFFFFFFF
    return "".join(SUFFIX_ALPHABET[ord(digit) % len(SUFFIX_ALPHABET)] for digit in str(digest))
