"""Validators of the volume sources that pods and PersistentVolumes share.

A source is one member of a volume, such as `nfs` or `iscsi`. Most need a few required fields only.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.embedded.apiserver.rules.checks import (
    Causes,
    validate_enum,
    validate_name,
    validate_range,
    validate_required_name,
)
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_kscen.objects.resources import Obj

HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
MAX_FILE_MODE = 0o777
MAX_DRIVER_NAME_BYTES = 63
MAX_ISCSI_NAME_LENGTH = 64
_ISCSI_NAME_FORMS = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.([A-Za-z0-9\-.]+)(:[^,;*&$|\s]+)$"),
    "eui": re.compile(r"^eui.[A-Za-z0-9]{16}$"),
    "naa": re.compile(r"^naa.[A-Za-z0-9]{32}$"),
}
_HOST_PORT_PAIRS = "must be a host:port pair or multiple pairs separated by commas"
_TOO_LONG_FOR_ISCSI = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if "
    "iscsi.initiatorName is specified."
)


class VolumeSource(NamedTuple):
    """Kind of volume: its validator, and its names in messages where they differ from the field's
    name.
    """

    check: Callable[[str, Obj], Iterable[Cause]]
    own_name: str = ""  # its name in the paths of its own fields
    duplicate_name: str = ""  # its name when it is a second source


def validate_single_source(path: str, obj: Obj, sources: Mapping[str, VolumeSource]) -> Causes:
    """Yield the causes for the source of a volume: exactly one is required.

    The order of the table decides which of several is the first. The others yield a cause each, and
    are not validated.
    """
    found = [field for field in obj if field in sources]
    if len(found) > 1:
        found = [field for field in sources if field in obj]
    for index, field in enumerate(found):
        source = sources[field]
        if index:
            yield Cause.forbidden(
                f"{path}.{source.duplicate_name or field}",
                "may not specify more than 1 volume type",
            )
        else:
            yield from source.check(f"{path}.{source.own_name or field}", obj[field])
    if not found:
        yield Cause.required(path, "must specify a volume type")


def require_fields(*fields: str) -> Callable[[str, Obj], Causes]:
    """Return a validator of a source that only has required fields."""

    def check(path: str, given: Obj) -> Causes:
        for field in fields:
            if not given.get(field):
                yield Cause.required(f"{path}.{field}")

    return check


def combine(*validators: Callable[[str, Obj], Iterable[Cause]]) -> Callable[[str, Obj], Causes]:
    """Return a validator of a source that applies these validators in turn."""

    def check(path: str, given: Obj) -> Causes:
        for validate in validators:
            yield from validate(path, given)

    return check


def validate_no_backsteps(path: str, value: str) -> Causes:
    if ".." in value.split("/"):
        yield Cause.invalid(path, value, "must not contain '..'")


def validate_relative_path(path: str, value: str) -> Causes:
    """Yield the causes for a path that is absolute or leaves its directory through `..`."""
    if value.startswith("/"):
        yield Cause.invalid(path, value, "must be a relative path")
    yield from validate_no_backsteps(path, value)


def validate_nonreserved_path(path: str, value: str) -> Causes:
    """Yield the causes for a path that is not relative or starts with `..`.

    The kubelet reserves that prefix for its own files.
    """
    yield from validate_relative_path(path, value)
    if value.startswith("..") and not value.startswith("../"):
        yield Cause.invalid(path, value, "must not start with '..'")


def validate_file_mode(path: str, mode: int | None) -> Causes:
    if mode is not None and not 0 <= mode <= MAX_FILE_MODE:
        yield Cause.invalid(
            path, mode, "must be a number between 0 and 0777 (octal), both inclusive"
        )


def validate_host_path(path: str, given: Obj) -> Causes:
    if not given.get("path"):
        yield Cause.required(f"{path}.path")
    yield from validate_no_backsteps(f"{path}.path", given.get("path", ""))
    yield from validate_enum(f"{path}.type", given.get("type", ""), HOST_PATH_TYPES)


def validate_local(path: str, given: Obj) -> Causes:
    if not given.get("path"):
        yield Cause.required(f"{path}.path")
    yield from validate_no_backsteps(f"{path}.path", given.get("path", ""))


def validate_partitioned_disk(field: str) -> Callable[[str, Obj], Causes]:
    """Return the validator of a cloud provider's disk, which may have a partition number.

    `field` holds the name of the disk.
    """

    def check(path: str, given: Obj) -> Causes:
        if not given.get(field):
            yield Cause.required(f"{path}.{field}")
        if not 0 <= given.get("partition", 0) <= 255:  # noqa: PLR2004
            yield Cause.invalid(f"{path}.partition", given["partition"], names.within(1, 255))

    return check


def validate_nfs(path: str, given: Obj) -> Causes:
    yield from require_fields("server", "path")(path, given)
    if not given.get("path", "").startswith("/"):
        yield Cause.invalid(f"{path}.path", given.get("path", ""), "must be an absolute path")


def validate_iscsi(path: str, given: Obj, *, hint: str = "") -> Causes:
    if not given.get("targetPortal"):
        yield Cause.required(f"{path}.targetPortal")
    if given.get("iqn"):
        yield from _validate_iscsi_name(f"{path}.iqn", given["iqn"], hint)
    else:
        yield Cause.required(f"{path}.iqn")
    yield from validate_range(f"{path}.lun", given.get("lun"), 0, 255)
    if (
        given.get("chapAuthDiscovery") or given.get("chapAuthSession")
    ) and "secretRef" not in given:
        yield Cause.required(f"{path}.secretRef")
    if "initiatorName" in given:
        yield from _validate_iscsi_name(f"{path}.initiatorname", given["initiatorName"], hint)


def validate_iscsi_name_length(path: str, shown: str, volume: str, given: Obj) -> Causes:
    if (
        "initiatorName" in given
        and len(f"{volume}:{given.get('targetPortal', '')}") > MAX_ISCSI_NAME_LENGTH
    ):
        yield Cause.invalid(path, shown, _TOO_LONG_FOR_ISCSI)


def _validate_iscsi_name(path: str, value: str, hint: str) -> Causes:
    pattern = _ISCSI_NAME_FORMS.get(value[:3])
    if pattern is None:
        yield Cause.invalid(path, value, f"must be valid format{hint}")
    elif not pattern.search(value):
        yield Cause.invalid(path, value, "must be valid format")


def validate_fibre_channel(path: str, given: Obj) -> Causes:
    targets, identifiers = given.get("targetWWNs"), given.get("wwids")
    if not targets and not identifiers:
        yield Cause.required(
            f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both"
        )
    if targets and identifiers:
        yield Cause.invalid(
            f"{path}.targetWWNs",
            targets,
            "targetWWNs and wwids can not be specified simultaneously",
        )
    if targets and "lun" not in given:
        yield Cause.required(f"{path}.lun", "lun is required if targetWWNs is specified")
    elif targets:
        yield from validate_range(f"{path}.lun", given["lun"], 0, 255)


def validate_quobyte(path: str, given: Obj) -> Causes:
    registry = given.get("registry", "")
    if not registry:
        yield Cause.required(f"{path}.registry", _HOST_PORT_PAIRS)
    elif len(given.get("tenant", "")) > 64:  # noqa: PLR2004
        yield Cause.required(
            f"{path}.tenant", "must be a UUID and may not exceed a length of 64 characters"
        )
    else:
        for pair in registry.split(","):
            if not re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*):[^:]*", pair):
                yield Cause.invalid(f"{path}.registry", registry, _HOST_PORT_PAIRS)
    if not given.get("volume"):
        yield Cause.required(f"{path}.volume")


def validate_flocker(path: str, given: Obj) -> Causes:
    name, identifier = given.get("datasetName", ""), given.get("datasetUUID", "")
    if not name and not identifier:
        yield Cause.required(path, "one of datasetName and datasetUUID is required")
    if name and identifier:
        yield Cause.invalid(
            path, "resource", "datasetName and datasetUUID can not be specified simultaneously"
        )
    if "/" in name:
        yield Cause.invalid(f"{path}.datasetName", name, "must not contain '/'")


def validate_flex_volume(path: str, given: Obj) -> Causes:
    if not given.get("driver"):
        yield Cause.required(f"{path}.driver")
    for option in given.get("options") or ():
        domain = "." + option.partition("/")[0].lower()
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            yield Cause.invalid(
                f"{path}.options[{option}]",
                option,
                "kubernetes.io and k8s.io namespaces are reserved",
            )


def validate_azure_disk(path: str, given: Obj) -> Causes:
    yield from require_fields("diskName", "diskURI")(path, given)
    kind, address = given.get("kind"), given.get("diskURI", "")
    if "cachingMode" in given:
        yield from validate_enum(
            f"{path}.cachingMode", given["cachingMode"], ("None", "ReadOnly", "ReadWrite")
        )
    if kind is not None:
        yield from validate_enum(f"{path}.kind", kind, ("Dedicated", "Managed", "Shared"))
    if kind == "Managed" and not address.startswith("/subscriptions/"):
        managed = (
            "/subscriptions/{sub-id}/resourcegroups/{group-name}"
            "/providers/microsoft.compute/disks/{disk-id}"
        )
        yield Cause.unsupported(f"{path}.diskURI", address, [managed])
    if kind not in {None, "Managed"} and not address.startswith("https://"):
        blob = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
        yield Cause.unsupported(f"{path}.diskURI", address, [blob])


def validate_storage_os(path: str, given: Obj, *, secret_fields: tuple[str, ...] = ()) -> Causes:
    yield from validate_required_name(
        f"{path}.volumeName", given.get("volumeName"), names.dns1123_label
    )
    if given.get("volumeNamespace"):
        yield from validate_name(
            f"{path}.volumeNamespace", given["volumeNamespace"], names.dns1123_label
        )
    yield from validate_secret_reference(path, given, *secret_fields)


def validate_secret_reference(path: str, given: Obj, *fields: str) -> Causes:
    """Yield the causes for `secretRef`, if present.

    A name is required, and so are the given fields, such as the namespace.
    """
    if "secretRef" in given:
        yield from require_fields("name", *fields)(f"{path}.secretRef", given["secretRef"])


def validate_cinder(path: str, given: Obj, *, secret_fields: tuple[str, ...] = ()) -> Causes:
    yield from require_fields("volumeID")(path, given)
    yield from validate_secret_reference(path, given, *secret_fields)


def validate_driver_name(path: str, name: str) -> Causes:
    """Yield the causes for the name of a CSI driver.

    It is a DNS subdomain of at most 63 bytes, in lower or upper case.
    """
    if not name:
        yield Cause.required(path)
    if len(name.encode()) > MAX_DRIVER_NAME_BYTES:
        yield Cause.too_long(path, MAX_DRIVER_NAME_BYTES)
    for message in names.dns1123_subdomain(name.lower()):
        yield Cause.invalid(path, name, message)
