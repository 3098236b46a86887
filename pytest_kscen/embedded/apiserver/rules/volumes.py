"""PersistentVolumes: what storage there is. Where it comes from never changes."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.kinds import Part, Rules
from pytest_kscen.embedded.apiserver.rules import volume_sources as sources
from pytest_kscen.embedded.apiserver.rules.checks import (
    IMMUTABLE,
    Causes,
    difference,
    immutable,
    in_order,
    named,
    one_of,
    required_name,
)
from pytest_kscen.embedded.apiserver.rules.claims import VOLUME_MODES, access_modes, basic_amount
from pytest_kscen.embedded.apiserver.rules.fields import (
    fill,
    keep_spec,
    keep_status,
    part,
    round_quantities,
)
from pytest_kscen.embedded.apiserver.rules.pods.scheduling import node_selector
from pytest_kscen.embedded.apiserver.rules.volume_sources import Source, requiring
from pytest_kscen.objects import names, quantities
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.objects.resources import Obj

RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
SECRETS = (
    "controllerPublishSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
    "nodeExpandSecretRef",
)
RENAMED_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}
_INLINE = "may not be specified in the context of inline volumes"
_SOURCE_STAYS = "spec.persistentvolumesource is immutable after creation\n"


MOUNT_OPTIONS = "volume.beta.kubernetes.io/mount-options"
MOUNTED = frozenset(
    {
        *(
            "gcePersistentDisk",
            "awsElasticBlockStore",
            "glusterfs",
            "nfs",
            "rbd",
            "quobyte",
            "iscsi",
            "cinder",
            "cephfs",
        ),
        *("azureFile", "vsphereVolume", "azureDisk", "photonPersistentDisk"),
    }
)  # volumes that this older way to say mount options is for


def default(obj: Obj) -> None:
    spec = obj["spec"]
    fill(spec, {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"})
    fill(part(obj, "status"), {"phase": "Pending"})
    if "hostPath" in spec:
        fill(spec["hostPath"], {"type": ""})
    if "capacity" in spec:
        round_quantities(spec["capacity"])


def create(obj: Obj, core: Core) -> None:
    obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": core.now()}


def status(new: Obj, old: Obj, core: Core) -> None:
    """The server notes when the phase changed, unless the writer knows better."""
    keep_spec(new, old, core)
    given, before = dict(new["status"]), old.get("status") or {}
    stamp, had = given.get("lastPhaseTransitionTime"), before.get("lastPhaseTransitionTime")
    if given.get("phase") == before.get("phase"):
        stamp = stamp or had
    elif stamp is None or stamp == had:
        stamp = core.now()
    if stamp:
        given["lastPhaseTransitionTime"] = stamp
    new["status"] = given


def validate(obj: Obj) -> Causes:
    yield from volume_spec("spec", obj["spec"], obj["metadata"]["name"])
    if (
        MOUNT_OPTIONS in (obj["metadata"].get("annotations") or ())
        and not MOUNTED & obj["spec"].keys()
    ):
        why = "may not specify mount options for this volume type"
        yield Cause.forbidden(f"metadata.annotations.{MOUNT_OPTIONS}", why)


def volume_spec(path: str, spec: Obj, name: str, *, inline: bool = False) -> Causes:
    """A volume's spec; one that stands inline in a VolumeAttachment has no life of its own."""
    if inline:
        for field in ("claimRef", "capacity"):
            if spec.get(field):
                yield Cause.forbidden(f"{path}.{field}", _INLINE)
        if "csi" not in spec:
            yield Cause.required(
                f"{path}.csi", "has to be specified in the context of inline volumes"
            )
    if not spec.get("accessModes"):
        yield Cause.required(f"{path}.accessModes")
    yield from access_modes(f"{path}.accessModes", spec.get("accessModes") or ())
    if not inline:
        yield from _capacity(f"{path}.capacity", spec.get("capacity"))
    yield from _policies(path, spec, inline=inline)
    yield from sources.only_one(path, spec, SOURCES)
    if "iscsi" in spec:
        portal = spec["iscsi"].get("targetPortal", "")
        yield from sources.too_long_for_iscsi(
            f"{path}.iscsi.targetportal", portal, name, spec["iscsi"]
        )
    if (
        "nodeAffinity" not in spec
        and next((field for field in SOURCES if field in spec), "") == "local"
    ):
        yield Cause.required(f"{path}.nodeAffinity", "Local volume requires node affinity")
    yield from _classes(path, spec, inline=inline)


def _capacity(path: str, capacity: Obj | None) -> Causes:
    if not capacity:
        yield Cause.required(path)
    if capacity is None or list(capacity) != ["storage"]:
        yield Cause.unsupported(path, in_order(capacity), ("storage",))
    for name, quantity in (capacity or {}).items():
        yield from basic_amount(f"{path}[{name}]", quantity)
        if quantities.nanos(quantity) <= 0:
            yield Cause.invalid(f"{path}[{name}]", quantity, "must be greater than zero")


def _policies(path: str, spec: Obj, *, inline: bool) -> Causes:
    policy, here = (
        spec.get("persistentVolumeReclaimPolicy", ""),
        f"{path}.persistentVolumeReclaimPolicy",
    )
    if inline and policy not in {"", "Retain"}:
        yield Cause.forbidden(here, "may only be Retain in the context of inline volumes")
    elif policy and not inline:
        yield from one_of(here, policy, RECLAIM_POLICIES)
    if "nodeAffinity" in spec and inline:
        yield Cause.forbidden(f"{path}.nodeAffinity", _INLINE)
    elif "nodeAffinity" in spec:
        required = spec["nodeAffinity"].get("required")
        if required is None:
            yield Cause.required(
                f"{path}.nodeAffinity.required", "must specify required node constraints"
            )
        else:
            yield from node_selector(f"{path}.nodeAffinity.required", required)


def _classes(path: str, spec: Obj, *, inline: bool) -> Causes:
    policy, host = (
        spec.get("persistentVolumeReclaimPolicy"),
        spec.get("hostPath", {}).get("path", ""),
    )
    if host and policy == "Recycle" and posixpath.normpath(host).lstrip("/") == "":
        why = "may not be 'recycle' for a hostPath mount of '/'"
        yield Cause.forbidden(f"{path}.persistentVolumeReclaimPolicy", why)
    if spec.get("storageClassName") and inline:
        yield Cause.forbidden(f"{path}.storageClassName", _INLINE)
    elif spec.get("storageClassName"):
        yield from named(
            f"{path}.storageClassName", spec["storageClassName"], names.dns1123_subdomain
        )
    if inline and spec.get("volumeMode", "Filesystem") != "Filesystem":
        why = "may not specify volumeMode other than Filesystem in the context of inline volumes"
        yield Cause.forbidden(f"{path}.volumeMode", why)
    elif "volumeMode" in spec and not inline:
        yield from one_of(f"{path}.volumeMode", spec["volumeMode"], VOLUME_MODES)
    if "volumeAttributesClassName" in spec and not inline:
        here = f"{path}.volumeAttributesClassName"
        if spec["volumeAttributesClassName"]:
            yield from named(here, spec["volumeAttributesClassName"], names.dns1123_subdomain)
        else:
            yield Cause.required(here, "an empty string is disallowed")
        if "csi" not in spec:
            yield Cause.required(
                f"{path}.csi", "has to be specified when using volumeAttributesClassName"
            )


def validate_update(new: Obj, old: Obj) -> Causes:
    spec, before = new["spec"], old["spec"]
    if spec is before:
        return
    yield from validate(new)
    kept, had = _source(spec), _source(before)
    if "csi" in had and "controllerExpandSecretRef" not in had["csi"] and "csi" in kept:
        allowed = {
            name: value
            for name, value in kept["csi"].items()
            if name != "controllerExpandSecretRef"
        }
        kept = {**kept, "csi": allowed}
    if kept != had:
        yield Cause.forbidden("spec.persistentvolumesource", _SOURCE_STAYS + difference(had, kept))
    yield from immutable("volumeMode", spec.get("volumeMode"), before.get("volumeMode"))
    if "nodeAffinity" in before and not _same_places(
        spec.get("nodeAffinity"), before["nodeAffinity"]
    ):
        why = f"{IMMUTABLE}, except for updating from beta label to GA"
        yield Cause.invalid("nodeAffinity", spec.get("nodeAffinity"), why)
    if "volumeAttributesClassName" in before and "volumeAttributesClassName" not in spec:
        yield Cause.forbidden(
            "spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden"
        )


def _source(spec: Obj) -> Obj:
    return {name: value for name, value in spec.items() if name in SOURCES}


def _same_places(new: Obj | None, old: Obj) -> bool:
    """The same but for labels that were renamed since."""
    return new == old or new == _renamed(old, new)


def _renamed(old: Obj, new: Obj | None) -> Obj:
    terms = old.get("required", {}).get("nodeSelectorTerms") or []
    given = ((new or {}).get("required") or {}).get("nodeSelectorTerms") or []
    return {
        **old,
        "required": {
            **old.get("required", {}),
            "nodeSelectorTerms": [
                {
                    **term,
                    "matchExpressions": _renamed_terms(
                        term.get("matchExpressions") or [], other.get("matchExpressions") or []
                    ),
                }
                for term, other in zip(terms, given, strict=False)
            ],
        },
    }


def _renamed_terms(old: list[Obj], new: list[Obj]) -> list[Obj]:
    pairs = zip(old, new, strict=False)
    return [
        {**one, "key": RENAMED_LABELS[one["key"]]}
        if RENAMED_LABELS.get(one["key"]) == other["key"]
        else one
        for one, other in pairs
    ]


def _csi(path: str, given: Obj) -> Causes:
    yield from sources.driver_name(f"{path}.driver", given.get("driver", ""))
    yield from requiring("volumeHandle")(path, given)
    for field in SECRETS:
        if field in given:
            yield from required_name(
                f"{path}.{field}.name", given[field].get("name"), names.dns1123_subdomain
            )
            yield from required_name(
                f"{path}.{field}.namespace", given[field].get("namespace"), names.dns1123_label
            )


def _iscsi(path: str, given: Obj) -> Causes:
    yield from sources.iscsi(path, given)
    yield from sources.named_secret(path, given)


def _glusterfs(path: str, given: Obj) -> Causes:
    yield from requiring("endpoints", "path")(path, given)
    namespace = given.get("endpointsNamespace")
    if namespace == "":
        why = "if the endpointnamespace is set, it must be a valid namespace name"
        yield Cause.invalid(f"{path}.endpointsNamespace", "", why)
    elif namespace:
        yield from named(f"{path}.endpointsNamespace", namespace, names.dns1123_label)


def _cinder(path: str, given: Obj) -> Causes:
    yield from requiring("volumeID")(path, given)
    yield from sources.named_secret(path, given, "namespace")


def _azure_file(path: str, given: Obj) -> Causes:
    yield from requiring("secretName", "shareName")(path, given)
    if given.get("secretNamespace") == "":
        yield Cause.required(f"{path}.secretNamespace")


def _storage_os(path: str, given: Obj) -> Causes:
    yield from sources.storage_os(path, given)
    if "secretRef" in given and not given["secretRef"].get("namespace"):
        yield Cause.required(f"{path}.secretRef.namespace")


SOURCES = {
    "hostPath": Source(sources.host_path),
    "gcePersistentDisk": Source(sources.partitioned("pdName"), "persistentDisk"),
    "awsElasticBlockStore": Source(sources.partitioned("volumeID")),
    "glusterfs": Source(_glusterfs),
    "flocker": Source(sources.flocker),
    "nfs": Source(sources.nfs),
    "rbd": Source(requiring("monitors", "image")),
    "quobyte": Source(sources.quobyte),
    "cephfs": Source(requiring("monitors"), second="cephFS"),
    "iscsi": Source(_iscsi),
    "cinder": Source(_cinder),
    "fc": Source(sources.fibre_channel),
    "flexVolume": Source(sources.flex),
    "azureFile": Source(_azure_file),
    "vsphereVolume": Source(requiring("volumePath")),
    "photonPersistentDisk": Source(requiring("pdID")),
    "portworxVolume": Source(requiring("volumeID")),
    "azureDisk": Source(sources.azure_disk),
    "scaleIO": Source(requiring("gateway", "system", "volumeName")),
    "local": Source(sources.local),
    "storageos": Source(_storage_os),
    "csi": Source(_csi),
}
RULES = {
    ("", "persistentvolumes"): Rules(
        default=default,
        prepare_create=create,
        prepare_update=keep_status,
        validate=validate,
        validate_update=validate_update,
        parts={"status": Part(status)},
        qualified_finalizers=True,
        generation=None,
    )
}
