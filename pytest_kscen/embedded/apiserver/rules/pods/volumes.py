"""Validators of a pod's volumes, and of the mounts and block devices of its containers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.rules import volume_sources as sources
from pytest_kscen.embedded.apiserver.rules.checks import (
    Causes,
    registered,
    validate_enum,
    validate_required_name,
)
from pytest_kscen.embedded.apiserver.rules.checks import validate_name as named
from pytest_kscen.embedded.apiserver.rules.claims import validate_claim_template
from pytest_kscen.embedded.apiserver.rules.pods.environment import (
    PULL_POLICIES,
    validate_field_reference,
    validate_resource_reference,
)
from pytest_kscen.embedded.apiserver.rules.volume_sources import (
    VolumeSource,
    require_fields,
    validate_relative_path,
)
from pytest_kscen.objects import names, quantities
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.objects.resources import Obj


DOWNWARD_FIELDS = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
MIN_TOKEN_SECONDS = 600


def validate_volumes(
    path: str, given: list[Obj], pod: str, valid_volumes: dict[str, Obj], *, is_pod: bool
) -> Causes:
    """Yield the causes for the volumes of the pod of this name.

    Volumes without fault are added to `valid_volumes` by name; containers may mount only those.
    """
    made = {f"{pod}-{volume.get('name', '')}" for volume in given if pod and "ephemeral" in volume}
    for index, volume in enumerate(given):
        here, name = f"{path}[{index}]", volume.get("name", "")
        wrong = [
            *_validate_source(here, volume, pod, is_pod=is_pod),
            *validate_required_name(f"{here}.name", name, names.dns1123_label),
        ]
        if name in valid_volumes:
            wrong.append(Cause.duplicate(f"{here}.name", name))
        yield from wrong
        if not wrong:
            valid_volumes[name] = volume
        claim = volume.get("persistentVolumeClaim", {}).get("claimName", "")
        if claim in made:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            yield Cause.invalid(f"{here}.persistentVolumeClaim.claimName", claim, detail)


def _validate_source(path: str, volume: Obj, pod: str, *, is_pod: bool) -> Causes:
    yield from sources.validate_single_source(path, volume, POD_VOLUME_SOURCES)
    name = volume.get("name", "")
    if "iscsi" in volume:
        yield from sources.validate_iscsi_name_length(f"{path}.name", name, name, volume["iscsi"])
    if "ephemeral" in volume and pod and name:
        for message in names.dns1123_subdomain(f"{pod}-{name}"):
            yield Cause.invalid(f"{path}.name", name, f'PVC name "{pod}-{name}": {message}')
    if "image" in volume and is_pod and not volume["image"].get("reference"):
        yield Cause.required(f"{path}.image.reference")


def _validate_empty_dir(path: str, given: Obj) -> Causes:
    if "sizeLimit" in given and quantities.nanos(given["sizeLimit"]) < 0:
        yield Cause.forbidden(
            f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity"
        )


def _key_files_validator(field: str) -> Callable[[str, Obj], Causes]:
    """Return the validator of a volume that shows the keys of a Secret or ConfigMap as files.

    `field` holds the object's name.
    """

    def check(path: str, given: Obj) -> Causes:
        yield from require_fields(field)(path, given)
        yield from sources.validate_file_mode(f"{path}.defaultMode", given.get("defaultMode"))
        yield from _validate_items(path, given)

    return check


def _validate_items(path: str, given: Obj) -> Causes:
    for index, item in enumerate(given.get("items") or ()):
        here = f"{path}.items[{index}]"
        yield from require_fields("key", "path")(here, item)
        yield from sources.validate_nonreserved_path(f"{here}.path", item.get("path", ""))
        yield from sources.validate_file_mode(f"{here}.mode", item.get("mode"))


def _validate_downward_api(path: str, given: Obj) -> Causes:
    yield from sources.validate_file_mode(f"{path}.defaultMode", given.get("defaultMode"))
    for file in given.get("items") or ():
        yield from _validate_downward_file(path, file)


def _validate_downward_file(path: str, file: Obj) -> Causes:
    yield from require_fields("path")(path, file)
    yield from sources.validate_nonreserved_path(f"{path}.path", file.get("path", ""))
    if "fieldRef" in file:
        yield from validate_field_reference(f"{path}.fieldRef", file["fieldRef"], DOWNWARD_FIELDS)
        if "resourceFieldRef" in file:
            yield Cause.invalid(
                path,
                "resource",
                "fieldRef and resourceFieldRef can not be specified simultaneously",
            )
    elif "resourceFieldRef" in file:
        yield from validate_resource_reference(
            f"{path}.resourceFieldRef", file["resourceFieldRef"], in_volume=True
        )
    else:
        yield Cause.required(path, "one of fieldRef and resourceFieldRef is required")
    yield from sources.validate_file_mode(f"{path}.mode", file.get("mode"))


def _validate_projected(path: str, given: Obj) -> Causes:
    yield from sources.validate_file_mode(f"{path}.defaultMode", given.get("defaultMode"))
    taken: set[str] = set()
    for index, source in enumerate(given.get("sources") or ()):
        here = f"{path}.sources[{index}]"
        for kind, check in PROJECTIONS.items():
            if kind in source:
                yield from check(path, f"{here}.{kind}", source[kind], taken)
        if len(source) > 1:
            yield Cause.forbidden(here, "may not specify more than 1 volume type per source")


PROJECTIONS: dict[str, Callable[[str, str, Obj, set[str]], Causes]] = {}
"""Validators of a projection, by the member of a projected volume's source."""


@registered(PROJECTIONS, "secret", "configMap")
def _validate_projected_items(path: str, here: str, given: Obj, taken: set[str]) -> Causes:
    yield from require_fields("name")(here, given)
    yield from _validate_items(here, given)
    for item in given.get("items") or ():
        yield from _validate_path_free(path, item.get("path", ""), given.get("name", ""), taken)


@registered(PROJECTIONS, "downwardAPI")
def _validate_projected_downward(path: str, here: str, given: Obj, taken: set[str]) -> Causes:
    for file in given.get("items") or ():
        yield from _validate_downward_file(here, file)
        yield from _validate_path_free(path, file.get("path", ""), file.get("path", ""), taken)


def _validate_path_free(path: str, file: str, shown: str, taken: set[str]) -> Causes:
    if file and file in taken:
        yield Cause.invalid(path, shown, "conflicting duplicate paths")
    taken.add(file)


@registered(PROJECTIONS, "serviceAccountToken")
def _validate_token_projection(path: str, here: str, given: Obj, _: set[str]) -> Causes:
    seconds = given.get("expirationSeconds", 0)
    if seconds < MIN_TOKEN_SECONDS:
        yield Cause.invalid(
            f"{here}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"
        )
    if seconds > 1 << 32:
        yield Cause.invalid(
            f"{here}.expirationSeconds",
            seconds,
            "may not specify a duration larger than 2^32 seconds",
        )
    if given.get("path"):
        yield from sources.validate_nonreserved_path(f"{path}.path", given["path"])
    else:
        yield Cause.required(f"{path}.path")


def _validate_csi(path: str, given: Obj) -> Causes:
    yield from sources.validate_driver_name(f"{path}.driver", given.get("driver", ""))
    if "nodePublishSecretRef" in given:
        secret = given["nodePublishSecretRef"].get("name", "")
        if secret:
            yield from named(f"{path}.name", secret, names.dns1123_subdomain)
        else:
            yield Cause.required(f"{path}.nodePublishSecretRef.name")


def _validate_ephemeral(path: str, given: Obj) -> Causes:
    if "volumeClaimTemplate" in given:
        yield from validate_claim_template(
            f"{path}.volumeClaimTemplate", given["volumeClaimTemplate"]
        )
    else:
        yield Cause.required(f"{path}.volumeClaimTemplate")


POD_VOLUME_SOURCES = {
    "emptyDir": VolumeSource(_validate_empty_dir),
    "hostPath": VolumeSource(sources.validate_host_path),
    "gitRepo": VolumeSource(
        sources.combine(
            require_fields("repository"),
            lambda path, given: sources.validate_relative_path(
                f"{path}.directory", given.get("directory", "")
            ),
        )
    ),
    "gcePersistentDisk": VolumeSource(
        sources.validate_partitioned_disk("pdName"), "persistentDisk"
    ),
    "awsElasticBlockStore": VolumeSource(sources.validate_partitioned_disk("volumeID")),
    "secret": VolumeSource(_key_files_validator("secretName")),
    "nfs": VolumeSource(sources.validate_nfs),
    "iscsi": VolumeSource(partial(sources.validate_iscsi, hint=" starting with iqn, eui, or naa")),
    "glusterfs": VolumeSource(require_fields("endpoints", "path")),
    "flocker": VolumeSource(sources.validate_flocker),
    "persistentVolumeClaim": VolumeSource(require_fields("claimName")),
    "rbd": VolumeSource(require_fields("monitors", "image")),
    "cinder": VolumeSource(sources.validate_cinder),
    "cephfs": VolumeSource(require_fields("monitors"), duplicate_name="cephFS"),
    "quobyte": VolumeSource(sources.validate_quobyte),
    "downwardAPI": VolumeSource(_validate_downward_api, duplicate_name="downwarAPI"),
    "fc": VolumeSource(sources.validate_fibre_channel),
    "flexVolume": VolumeSource(sources.validate_flex_volume),
    "configMap": VolumeSource(_key_files_validator("name")),
    "azureFile": VolumeSource(require_fields("secretName", "shareName")),
    "vsphereVolume": VolumeSource(require_fields("volumePath")),
    "photonPersistentDisk": VolumeSource(require_fields("pdID")),
    "portworxVolume": VolumeSource(require_fields("volumeID")),
    "azureDisk": VolumeSource(sources.validate_azure_disk),
    "storageos": VolumeSource(sources.validate_storage_os),
    "projected": VolumeSource(_validate_projected),
    "scaleIO": VolumeSource(require_fields("gateway", "system", "volumeName")),
    "csi": VolumeSource(_validate_csi),
    "ephemeral": VolumeSource(_validate_ephemeral),
    "image": VolumeSource(
        lambda path, given: validate_enum(
            f"{path}.pullPolicy", given.get("pullPolicy", ""), PULL_POLICIES
        )
    ),
}


MOUNT_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
RECURSIVE_READ_ONLY = ("Disabled", "Enabled", "IfPossible")


def validate_mounts(path: str, container: Obj, volumes: dict[str, Obj]) -> Causes:
    if "volumeMounts" in container:
        yield from _validate_volume_mounts(path, container, volumes)
    if "volumeDevices" in container:
        named: set[str] = set()
        placed: set[str] = set()
        mounted = {
            mount.get("name", ""): mount.get("mountPath", "")
            for mount in container.get("volumeMounts") or ()
        }
        for index, device in enumerate(container["volumeDevices"]):
            here, name, where = (
                f"{path}.volumeDevices[{index}]",
                device.get("name", ""),
                device.get("devicePath", ""),
            )
            yield from _validate_device_name(f"{here}.name", name, named, volumes)
            inner_path = f"{here}.devicePath"
            if not where:
                yield Cause.required(inner_path)
            if where in placed:
                yield Cause.invalid(inner_path, where, "must be unique")
            if where and ".." in where.split("/"):
                yield Cause.invalid(inner_path, where, "can not contain backsteps ('..')")
            else:
                placed.add(where)
            if name in mounted:
                yield Cause.invalid(f"{here}.name", name, "must not already exist in volumeMounts")
            if where in mounted.values():
                yield Cause.invalid(
                    f"{here}.devicePath", where, "must not already exist as a path in volumeMounts"
                )
            if name:
                named.add(name)


def _validate_volume_mounts(path: str, container: Obj, volumes: dict[str, Obj]) -> Causes:
    base, seen = f"{path}.volumeMounts", set()
    raw = {
        device.get("name", ""): device.get("devicePath", "")
        for device in container.get("volumeDevices") or ()
    }
    for index, mount in enumerate(container["volumeMounts"]):
        here, name, where = f"{base}[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            yield Cause.required(f"{here}.name")
        if name not in volumes:
            yield Cause.not_found(f"{here}.name", name)
        if not where:
            yield Cause.required(f"{here}.mountPath")
        if where in seen:
            yield Cause.invalid(f"{here}.mountPath", where, "must be unique")
        seen.add(where)
        if name in raw:
            yield Cause.invalid(f"{here}.name", name, "must not already exist in volumeDevices")
        if where in raw.values():
            yield Cause.invalid(
                f"{here}.mountPath", where, "must not already exist as a path in volumeDevices"
            )
        if len(mount) > 2:  # noqa: PLR2004 -- more than a name and a path
            yield from _validate_mount_options(base, here, mount, container)


def _validate_mount_options(base: str, here: str, mount: Obj, container: Obj) -> Causes:
    inner, expression = mount.get("subPath", ""), mount.get("subPathExpr", "")
    if inner:
        yield from validate_relative_path(f"{base}.subPath", inner)
    if expression:
        if inner:
            yield Cause.invalid(
                f"{here}.subPathExpr", expression, "subPathExpr and subPath are mutually exclusive"
            )
        yield from validate_relative_path(f"{base}.subPathExpr", expression)
    propagation = mount.get("mountPropagation")
    if propagation is not None:
        yield from validate_enum(f"{base}.mountPropagation", propagation, MOUNT_PROPAGATIONS)
        if propagation == "Bidirectional" and not container.get("securityContext", {}).get(
            "privileged"
        ):
            detail = "Bidirectional mount propagation is available only to privileged containers"
            yield Cause.forbidden(f"{base}.mountPropagation", detail)
    if "recursiveReadOnly" in mount:
        path = f"{base}.recursiveReadOnly"
        yield from validate_enum(path, mount["recursiveReadOnly"], RECURSIVE_READ_ONLY)
        if mount["recursiveReadOnly"] in {"Enabled", "IfPossible"}:
            if not mount.get("readOnly"):
                yield Cause.forbidden(path, "may only be specified when readOnly is true")
            if mount.get("mountPropagation", "None") != "None":
                yield Cause.forbidden(
                    path, "may only be specified when mountPropagation is None or not specified"
                )


def _validate_device_name(path: str, name: str, named: set[str], volumes: dict[str, Obj]) -> Causes:
    if not name:
        yield Cause.required(path)
    if name in named:
        yield Cause.invalid(path, name, "must be unique")
    if name not in volumes:
        yield Cause.not_found(path, name)
    elif not {"persistentVolumeClaim", "ephemeral"} & volumes[name].keys():
        yield Cause.invalid(
            path,
            name,
            "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
        )
