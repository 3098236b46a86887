"""What the server resets on a write whatever the writer says, so that nobody comes to own it: by kind and subresource."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.machinery.patching.fields import set_of

if TYPE_CHECKING:
    from pytest_kscen.machinery.patching.fields import Fields
    from pytest_kscen.objects.resources import Resource

Path = tuple[str, ...]

STATUS: tuple[Path, ...] = (("f:status",),)
ALL_BUT_STATUS: tuple[Path, ...] = (("f:metadata",), ("f:spec",))
CONDITIONS: Path = ("f:status", "f:conditions")
CERTIFICATE: Path = ("f:status", "f:certificate")

SPECIAL: dict[tuple[str, str, str], tuple[Path, ...]] = {
    ("", "namespaces", "finalize"): STATUS,
    ("", "pods", "status"): (("f:spec",), ("f:metadata", "f:deletionTimestamp"), ("f:metadata", "f:ownerReferences")),
    ("apps", "deployments", "status"): (("f:spec",), ("f:metadata", "f:labels")),
    ("certificates.k8s.io", "certificatesigningrequests", ""): (("f:spec",), ("f:status",)),
    ("certificates.k8s.io", "certificatesigningrequests", "status"): (("f:spec",), CONDITIONS),
    ("certificates.k8s.io", "certificatesigningrequests", "approval"): (("f:spec",), CERTIFICATE),
}
METADATA_TOO = {
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("apiregistration.k8s.io", "apiservices"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ("networking.k8s.io", "servicecidrs"),
    ("resource.k8s.io", "resourceclaims"),
    ("storage.k8s.io", "volumeattachments"),
}


def resets(resource: Resource, subresource: str, *, has_status: bool, custom: bool) -> Fields:
    group, plural = resource.group, resource.plural
    special = SPECIAL.get((group, plural, subresource))
    if special is not None:
        return set_of(*special)
    if subresource == "status":
        return set_of(*(ALL_BUT_STATUS if custom or (group, plural) in METADATA_TOO else (("f:spec",),)))
    return set_of(*STATUS) if has_status and not subresource else {}
