"""Rules of PersistentVolumes.

The source of a volume is immutable.
"""

from __future__ import annotations

import posixpath
from functools import partial
from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.kinds import Rules, SubresourceRules
from pytest_kscen.embedded.apiserver.rules import volume_sources as sources
from pytest_kscen.embedded.apiserver.rules.checks import (
    IMMUTABLE,
    Causes,
    sorted_labels,
    unified_diff,
    validate_enum,
    validate_immutable,
    validate_name,
    validate_required_name,
)
from pytest_kscen.embedded.apiserver.rules.claims import (
    VOLUME_MODES,
    validate_access_modes,
    validate_basic_quantity,
)
from pytest_kscen.embedded.apiserver.rules.fields import (
    ensure_object,
    keep_spec,
    keep_status,
    round_quantities,
    set_defaults,
)
from pytest_kscen.embedded.apiserver.rules.pods.scheduling import validate_node_selector
from pytest_kscen.embedded.apiserver.rules.volume_sources import VolumeSource, require_fields
from pytest_kscen.objects import names, quantities
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.objects.resources import Obj

RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
SECRET_REFERENCES = (
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
_NOT_INLINE = "may not be specified in the context of inline volumes"
_SOURCE_IMMUTABLE = "spec.persistentvolumesource is immutable after creation\n"


MOUNT_OPTIONS = "volume.beta.kubernetes.io/mount-options"
MOUNT_OPTION_SOURCES = frozenset(
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
)  # the sources that support the annotation `MOUNT_OPTIONS`


def default_volume(obj: Obj) -> None:
    spec = obj["spec"]
    set_defaults(spec, {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"})
    set_defaults(ensure_object(obj, "status"), {"phase": "Pending"})
    if "hostPath" in spec:
        set_defaults(spec["hostPath"], {"type": ""})
    if "capacity" in spec:
        round_quantities(spec["capacity"])


def prepare_volume_create(obj: Obj, core: Core) -> None:
    obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": core.now()}


def prepare_volume_status(new: Obj, old: Obj, core: Core) -> None:
    """Prepare a write to `status`: set `lastPhaseTransitionTime` when the phase changes.

    A time that the client sets differently from the stored one is kept.
    """
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


def validate_volume(obj: Obj) -> Causes:
    yield from validate_volume_spec("spec", obj["spec"], obj["metadata"]["name"])
    if (
        MOUNT_OPTIONS in (obj["metadata"].get("annotations") or ())
        and not MOUNT_OPTION_SOURCES & obj["spec"].keys()
    ):
        detail = "may not specify mount options for this volume type"
        yield Cause.forbidden(f"metadata.annotations.{MOUNT_OPTIONS}", detail)


def validate_volume_spec(path: str, spec: Obj, name: str, *, inline: bool = False) -> Causes:
    """Yield the causes for a volume's spec.

    `inline` is for a VolumeAttachment, whose volume has no claim, capacity or class, and must be a
    CSI volume.
    """
    if inline:
        for field in ("claimRef", "capacity"):
            if spec.get(field):
                yield Cause.forbidden(f"{path}.{field}", _NOT_INLINE)
        if "csi" not in spec:
            yield Cause.required(
                f"{path}.csi", "has to be specified in the context of inline volumes"
            )
    if not spec.get("accessModes"):
        yield Cause.required(f"{path}.accessModes")
    yield from validate_access_modes(f"{path}.accessModes", spec.get("accessModes") or ())
    if not inline:
        yield from _validate_capacity(f"{path}.capacity", spec.get("capacity"))
    yield from _validate_reclaim_and_affinity(path, spec, inline=inline)
    yield from sources.validate_single_source(path, spec, VOLUME_SOURCES)
    if "iscsi" in spec:
        portal = spec["iscsi"].get("targetPortal", "")
        yield from sources.validate_iscsi_name_length(
            f"{path}.iscsi.targetportal", portal, name, spec["iscsi"]
        )
    if (
        "nodeAffinity" not in spec
        and next((field for field in VOLUME_SOURCES if field in spec), "") == "local"
    ):
        yield Cause.required(f"{path}.nodeAffinity", "Local volume requires node affinity")
    yield from _validate_class_and_mode(path, spec, inline=inline)


def _validate_capacity(path: str, capacity: Obj | None) -> Causes:
    if not capacity:
        yield Cause.required(path)
    if capacity is None or list(capacity) != ["storage"]:
        yield Cause.unsupported(path, sorted_labels(capacity), ("storage",))
    for name, quantity in (capacity or {}).items():
        yield from validate_basic_quantity(f"{path}[{name}]", quantity)
        if quantities.nanos(quantity) <= 0:
            yield Cause.invalid(f"{path}[{name}]", quantity, "must be greater than zero")


def _validate_reclaim_and_affinity(path: str, spec: Obj, *, inline: bool) -> Causes:
    policy, here = (
        spec.get("persistentVolumeReclaimPolicy", ""),
        f"{path}.persistentVolumeReclaimPolicy",
    )
    if inline and policy not in {"", "Retain"}:
        yield Cause.forbidden(here, "may only be Retain in the context of inline volumes")
    elif policy and not inline:
        yield from validate_enum(here, policy, RECLAIM_POLICIES)
    if "nodeAffinity" in spec and inline:
        yield Cause.forbidden(f"{path}.nodeAffinity", _NOT_INLINE)
    elif "nodeAffinity" in spec:
        required = spec["nodeAffinity"].get("required")
        if required is None:
            yield Cause.required(
                f"{path}.nodeAffinity.required", "must specify required node constraints"
            )
        else:
            yield from validate_node_selector(f"{path}.nodeAffinity.required", required)


def _validate_class_and_mode(path: str, spec: Obj, *, inline: bool) -> Causes:
    policy, host = (
        spec.get("persistentVolumeReclaimPolicy"),
        spec.get("hostPath", {}).get("path", ""),
    )
    if host and policy == "Recycle" and posixpath.normpath(host).lstrip("/") == "":
        detail = "may not be 'recycle' for a hostPath mount of '/'"
        yield Cause.forbidden(f"{path}.persistentVolumeReclaimPolicy", detail)
    if spec.get("storageClassName") and inline:
        yield Cause.forbidden(f"{path}.storageClassName", _NOT_INLINE)
    elif spec.get("storageClassName"):
        yield from validate_name(
            f"{path}.storageClassName", spec["storageClassName"], names.dns1123_subdomain
        )
    if inline and spec.get("volumeMode", "Filesystem") != "Filesystem":
        detail = "may not specify volumeMode other than Filesystem in the context of inline volumes"
        yield Cause.forbidden(f"{path}.volumeMode", detail)
    elif "volumeMode" in spec and not inline:
        yield from validate_enum(f"{path}.volumeMode", spec["volumeMode"], VOLUME_MODES)
    if "volumeAttributesClassName" in spec and not inline:
        here = f"{path}.volumeAttributesClassName"
        if spec["volumeAttributesClassName"]:
            yield from validate_name(
                here, spec["volumeAttributesClassName"], names.dns1123_subdomain
            )
        else:
            yield Cause.required(here, "an empty string is disallowed")
        if "csi" not in spec:
            yield Cause.required(
                f"{path}.csi", "has to be specified when using volumeAttributesClassName"
            )


def validate_volume_update(new: Obj, old: Obj) -> Causes:
    spec, before = new["spec"], old["spec"]
    if spec is before:
        return
    yield from validate_volume(new)
    kept, had = _source_of(spec), _source_of(before)
    if "csi" in had and "controllerExpandSecretRef" not in had["csi"] and "csi" in kept:
        allowed = {
            name: value
            for name, value in kept["csi"].items()
            if name != "controllerExpandSecretRef"
        }
        kept = {**kept, "csi": allowed}
    if kept != had:
        yield Cause.forbidden(
            "spec.persistentvolumesource", _SOURCE_IMMUTABLE + unified_diff(had, kept)
        )
    yield from validate_immutable("volumeMode", spec.get("volumeMode"), before.get("volumeMode"))
    affinity, old_affinity = spec.get("nodeAffinity"), before.get("nodeAffinity")
    if "nodeAffinity" in before and affinity not in (
        old_affinity,
        _with_renamed_labels(before["nodeAffinity"], affinity),
    ):
        detail = f"{IMMUTABLE}, except for updating from beta label to GA"
        yield Cause.invalid("nodeAffinity", spec.get("nodeAffinity"), detail)
    if "volumeAttributesClassName" in before and "volumeAttributesClassName" not in spec:
        yield Cause.forbidden(
            "spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden"
        )


def _source_of(spec: Obj) -> Obj:
    return {name: value for name, value in spec.items() if name in VOLUME_SOURCES}


def _with_renamed_labels(old: Obj, new: Obj | None) -> Obj:
    terms = old.get("required", {}).get("nodeSelectorTerms") or []
    given = ((new or {}).get("required") or {}).get("nodeSelectorTerms") or []
    return {
        **old,
        "required": {
            **old.get("required", {}),
            "nodeSelectorTerms": [
                {
                    **term,
                    "matchExpressions": _with_renamed_keys(
                        term.get("matchExpressions") or [], other.get("matchExpressions") or []
                    ),
                }
                for term, other in zip(terms, given, strict=False)
            ],
        },
    }


def _with_renamed_keys(old: list[Obj], new: list[Obj]) -> list[Obj]:
    pairs = zip(old, new, strict=False)
    return [
        {**one, "key": RENAMED_LABELS[one["key"]]}
        if RENAMED_LABELS.get(one["key"]) == other["key"]
        else one
        for one, other in pairs
    ]


def _validate_csi(path: str, given: Obj) -> Causes:
    yield from sources.validate_driver_name(f"{path}.driver", given.get("driver", ""))
    yield from require_fields("volumeHandle")(path, given)
    for field in SECRET_REFERENCES:
        if field in given:
            yield from validate_required_name(
                f"{path}.{field}.name", given[field].get("name"), names.dns1123_subdomain
            )
            yield from validate_required_name(
                f"{path}.{field}.namespace", given[field].get("namespace"), names.dns1123_label
            )


def _validate_glusterfs(path: str, given: Obj) -> Causes:
    yield from require_fields("endpoints", "path")(path, given)
    namespace = given.get("endpointsNamespace")
    if namespace == "":
        detail = "if the endpointnamespace is set, it must be a valid namespace name"
        yield Cause.invalid(f"{path}.endpointsNamespace", "", detail)
    elif namespace:
        yield from validate_name(f"{path}.endpointsNamespace", namespace, names.dns1123_label)


def _validate_azure_file(path: str, given: Obj) -> Causes:
    yield from require_fields("secretName", "shareName")(path, given)
    if given.get("secretNamespace") == "":
        yield Cause.required(f"{path}.secretNamespace")


VOLUME_SOURCES = {
    "hostPath": VolumeSource(sources.validate_host_path),
    "gcePersistentDisk": VolumeSource(
        sources.validate_partitioned_disk("pdName"), "persistentDisk"
    ),
    "awsElasticBlockStore": VolumeSource(sources.validate_partitioned_disk("volumeID")),
    "glusterfs": VolumeSource(_validate_glusterfs),
    "flocker": VolumeSource(sources.validate_flocker),
    "nfs": VolumeSource(sources.validate_nfs),
    "rbd": VolumeSource(require_fields("monitors", "image")),
    "quobyte": VolumeSource(sources.validate_quobyte),
    "cephfs": VolumeSource(require_fields("monitors"), duplicate_name="cephFS"),
    "iscsi": VolumeSource(
        sources.combine(sources.validate_iscsi, sources.validate_secret_reference)
    ),
    "cinder": VolumeSource(partial(sources.validate_cinder, secret_fields=("namespace",))),
    "fc": VolumeSource(sources.validate_fibre_channel),
    "flexVolume": VolumeSource(sources.validate_flex_volume),
    "azureFile": VolumeSource(_validate_azure_file),
    "vsphereVolume": VolumeSource(require_fields("volumePath")),
    "photonPersistentDisk": VolumeSource(require_fields("pdID")),
    "portworxVolume": VolumeSource(require_fields("volumeID")),
    "azureDisk": VolumeSource(sources.validate_azure_disk),
    "scaleIO": VolumeSource(require_fields("gateway", "system", "volumeName")),
    "local": VolumeSource(sources.validate_local),
    "storageos": VolumeSource(partial(sources.validate_storage_os, secret_fields=("namespace",))),
    "csi": VolumeSource(_validate_csi),
}
RULES = {
    ("", "persistentvolumes"): Rules(
        default=default_volume,
        prepare_create=prepare_volume_create,
        prepare_update=keep_status,
        validate=validate_volume,
        validate_update=validate_volume_update,
        parts={"status": SubresourceRules(prepare_volume_status)},
        qualified_finalizers=True,
        generation=None,
    )
}
