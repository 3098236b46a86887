"""Where a container sees the pod's volumes: as directories, or raw as block devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.machinery.rules.checks import Causes, one_of
from pytest_kscen.machinery.rules.volume_sources import relative
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
RECURSIONS = ("Disabled", "Enabled", "IfPossible")


def mounted(path: str, container: Obj, volumes: dict[str, Obj]) -> Causes:
    if "volumeMounts" in container:
        yield from _mounts(path, container, volumes)
    if "volumeDevices" in container:
        yield from _devices(path, container, volumes)


def _mounts(path: str, container: Obj, volumes: dict[str, Obj]) -> Causes:
    base, seen = f"{path}.volumeMounts", set()
    raw = {device.get("name", ""): device.get("devicePath", "") for device in container.get("volumeDevices") or ()}
    for place, mount in enumerate(container["volumeMounts"]):
        here, name, where = f"{base}[{place}]", mount.get("name", ""), mount.get("mountPath", "")
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
            yield Cause.invalid(f"{here}.mountPath", where, "must not already exist as a path in volumeDevices")
        if len(mount) > 2:  # noqa: PLR2004 -- more than a name and a path
            yield from _details(base, here, mount, container)


def _details(base: str, here: str, mount: Obj, container: Obj) -> Causes:
    inner, expression = mount.get("subPath", ""), mount.get("subPathExpr", "")
    if inner:
        yield from relative(f"{base}.subPath", inner)
    if expression:
        if inner:
            yield Cause.invalid(f"{here}.subPathExpr", expression, "subPathExpr and subPath are mutually exclusive")
        yield from relative(f"{base}.subPathExpr", expression)
    propagation = mount.get("mountPropagation")
    if propagation is not None:
        yield from one_of(f"{base}.mountPropagation", propagation, PROPAGATIONS)
        if propagation == "Bidirectional" and not container.get("securityContext", {}).get("privileged"):
            why = "Bidirectional mount propagation is available only to privileged containers"
            yield Cause.forbidden(f"{base}.mountPropagation", why)
    if "recursiveReadOnly" in mount:
        yield from _recursion(f"{base}.recursiveReadOnly", mount)


def _recursion(path: str, mount: Obj) -> Causes:
    yield from one_of(path, mount["recursiveReadOnly"], RECURSIONS)
    if mount["recursiveReadOnly"] in {"Enabled", "IfPossible"}:
        if not mount.get("readOnly"):
            yield Cause.forbidden(path, "may only be specified when readOnly is true")
        if mount.get("mountPropagation", "None") != "None":
            yield Cause.forbidden(path, "may only be specified when mountPropagation is None or not specified")


def _devices(path: str, container: Obj, volumes: dict[str, Obj]) -> Causes:
    named: set[str] = set()
    placed: set[str] = set()
    mounted = {mount.get("name", ""): mount.get("mountPath", "") for mount in container.get("volumeMounts") or ()}
    for place, device in enumerate(container["volumeDevices"]):
        here, name, where = f"{path}.volumeDevices[{place}]", device.get("name", ""), device.get("devicePath", "")
        yield from _device_name(f"{here}.name", name, named, volumes)
        yield from _device_path(f"{here}.devicePath", where, placed)
        if name in mounted:
            yield Cause.invalid(f"{here}.name", name, "must not already exist in volumeMounts")
        if where in mounted.values():
            yield Cause.invalid(f"{here}.devicePath", where, "must not already exist as a path in volumeMounts")
        if name:
            named.add(name)


def _device_name(path: str, name: str, named: set[str], volumes: dict[str, Obj]) -> Causes:
    if not name:
        yield Cause.required(path)
    if name in named:
        yield Cause.invalid(path, name, "must be unique")
    if name not in volumes:
        yield Cause.not_found(path, name)
    elif not {"persistentVolumeClaim", "ephemeral"} & volumes[name].keys():
        yield Cause.invalid(path, name, "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode")


def _device_path(path: str, where: str, placed: set[str]) -> Causes:
    if not where:
        yield Cause.required(path)
    if where in placed:
        yield Cause.invalid(path, where, "must be unique")
    if where and ".." in where.split("/"):
        yield Cause.invalid(path, where, "can not contain backsteps ('..')")
    else:
        placed.add(where)
