"""A pod in its place takes more or less cpu and memory, and stays what it is otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.machinery.rules.pods.resources import COMPUTE, qos_class
from pytest_kscen.machinery.rules.pods.spec import MIRROR
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from pytest_kscen.machinery.rules.checks import Causes
    from pytest_kscen.objects.resources import Obj

LISTS = ("containers", "initContainers")
ONLY = "only cpu and memory resources are mutable"


def changes(new: Obj, old: Obj) -> Causes:
    spec, before = new["spec"], old["spec"]
    if MIRROR in (old["metadata"].get("annotations") or ()):
        yield Cause.forbidden("", "static pods cannot be resized")
        return
    if before.get("os", {}).get("name") == "windows":
        yield Cause.forbidden("", "windows pods cannot be resized")
        return
    status = old.get("status") or {}
    if status.get("qosClass", qos_class(before)) != qos_class(spec):
        shown = (new.get("status") or {}).get("qosClass", "")
        yield Cause.invalid("spec", shown, "Pod QOS Class may not change as a result of resizing")
    if not _is_supported(status):
        yield Cause.forbidden("spec", "Pod running on node without support for resize")
    yield from _whole(spec.get("resources"), before.get("resources"))
    moved = list(_moved(spec, before))
    yield from moved
    if not moved:
        for kind in ("initContainers", "containers"):
            for place, (one, other) in enumerate(zip(spec.get(kind) or (), before.get(kind) or (), strict=True)):
                yield from _not_removed(f"spec.{kind}[{place}].resources", one.get("resources"), other.get("resources"))
        yield from _nothing_else(spec, before)


def _is_supported(status: Obj) -> bool:
    running = [one for one in status.get("containerStatuses") or () if "running" in one.get("state", {})]
    return not running or "resources" in running[0]


def _whole(new: Obj | None, old: Obj | None) -> Causes:
    if old is not None and new is None:
        yield Cause.forbidden("spec.resources", "pod-level resources cannot be removed")
    elif old is not None and new is not None:
        for kind, words in (("requests", "requests"), ("limits", "limits")):
            if not (old.get(kind) or {}).keys() <= (new.get(kind) or {}).keys():
                yield Cause.forbidden(f"spec.resources.{kind}", f"pod-level resource {words} cannot be removed")
    if _fixed(new) != _fixed(old):
        yield Cause.forbidden("spec", "only cpu and memory resources are mutable at pod-level")


def _moved(spec: Obj, before: Obj) -> Causes:
    for kind in LISTS:
        given, earlier = spec.get(kind) or (), before.get(kind) or ()
        if len(given) != len(earlier):
            yield Cause.forbidden(f"spec.{kind}", f"{kind} may not be added or removed on resize")
            continue
        for place, (one, other) in enumerate(zip(given, earlier, strict=True)):
            if one.get("name") != other.get("name"):
                yield Cause.forbidden(f"spec.{kind}[{place}].name", f"{kind} may not be renamed or reordered on resize")


def _not_removed(path: str, new: Obj | None, old: Obj | None) -> Causes:
    for kind in ("requests", "limits"):
        if not ((old or {}).get(kind) or {}).keys() <= ((new or {}).get(kind) or {}).keys():
            yield Cause.forbidden(f"{path}.{kind}", f"resource {kind} cannot be removed")


def _nothing_else(spec: Obj, before: Obj) -> Causes:
    for one, other in zip(spec.get("containers") or (), before.get("containers") or (), strict=True):
        if _fixed_container(one) != _fixed_container(other):
            yield Cause.forbidden("spec", ONLY)
    for place, (one, other) in enumerate(zip(spec.get("initContainers") or (), before.get("initContainers") or (), strict=True)):
        path = f"spec.initContainers[{place}]"
        if _fixed_container(one) != _fixed_container(other):
            yield Cause.forbidden(path, "only cpu and memory resources for init or sidecar containers are mutable")
        policies = [policy.get("restartPolicy") for policy in one.get("resizePolicy") or ()]
        if one != other and one.get("restartPolicy") != "Always" and "RestartContainer" in policies:
            why = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
            yield Cause.forbidden(path, why)


def _fixed_container(container: Obj) -> Obj:
    return {**container, "resources": _fixed(container.get("resources"))}


def _fixed(resources: Obj | None) -> Obj:
    """What of resources cannot be changed in place."""
    listed = resources or {}
    return {
        kind: {name: quantity for name, quantity in (listed.get(kind) or {}).items() if name not in COMPUTE}
        for kind in ("requests", "limits")
    }
