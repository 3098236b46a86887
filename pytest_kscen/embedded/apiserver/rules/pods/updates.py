"""Validation of updates and resizes of existing pods.

Only images, deadline, tolerations, scheduling gates and metadata may change. A resize may change
CPU and memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.rules.checks import MAX_INT32, Causes, unified_diff
from pytest_kscen.embedded.apiserver.rules.pods import annotations as notes
from pytest_kscen.embedded.apiserver.rules.pods.containers import validate_trimmed_images
from pytest_kscen.embedded.apiserver.rules.pods.resources import COMPUTE_RESOURCES, qos_class
from pytest_kscen.embedded.apiserver.rules.pods.scheduling import REQUIRED
from pytest_kscen.embedded.apiserver.rules.pods.spec import MIRROR_ANNOTATION
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj


MUTABLE_FIELDS = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)
_MORE_SELECTOR = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
_MORE_TERM = "only additions are allowed (no mutations or deletions)"
_SAME_TERMS = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"


def validate_metadata_changes(new: Obj, old: Obj) -> Causes:
    after, before = (pod["metadata"].get("annotations") or {} for pod in (new, old))
    if after != before:
        yield from notes.validate_annotation_changes("metadata.annotations", after, before)
        yield from notes.validate_pod_annotations("metadata.annotations", after, new["spec"])


def validate_spec_changes(new: Obj, old: Obj) -> Causes:
    """Yield the causes for changes of immutable fields. The new spec by itself has been validated
    before.
    """
    spec, before = new["spec"], old["spec"]
    for name in ("containers", "initContainers"):
        given = spec.get(name) or ()
        if len(given) != len(before.get(name) or ()):
            yield Cause.forbidden(f"spec.{name}", "pod updates may not add or remove containers")
            return
        for index, container in enumerate(given):
            if not container.get("image"):
                yield Cause.required(f"spec.{name}[{index}].image")
        yield from validate_trimmed_images(f"spec.{name}", given)
    yield from _validate_deadline(
        spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    )
    tolerations = [_without_seconds(one) for one in spec.get("tolerations") or ()]
    detail = "existing toleration can not be modified except its tolerationSeconds"
    yield from (
        Cause.forbidden("spec.tolerations", detail)
        for one in before.get("tolerations") or ()
        if _without_seconds(one) not in tolerations
    )
    gates = [gate.get("name") for gate in before.get("schedulingGates") or ()]
    detail = "only deletion is allowed, but found new scheduling gate"
    yield from (
        Cause.forbidden(f"spec.schedulingGates[{index}].name", f"{detail} '{gate.get('name', '')}'")
        for index, gate in enumerate(spec.get("schedulingGates") or ())
        if gate.get("name") not in gates
    )
    allowed = _with_mutable_fields_of(spec, before)
    if before.get("schedulingGates"):
        yield from _validate_gated_placement(spec, before)
        placed = {
            name: value
            for name, value in allowed.items()
            if name not in {"nodeSelector", "affinity"}
        }
        if "nodeSelector" in before:
            placed["nodeSelector"] = before["nodeSelector"]
        affinity = {
            name: value
            for name, value in allowed.get("affinity", {}).items()
            if name != "nodeAffinity"
        }
        if "nodeAffinity" in before.get("affinity", {}):
            affinity["nodeAffinity"] = before["affinity"]["nodeAffinity"]
        if affinity or before.get("affinity") == {}:
            placed["affinity"] = affinity
        allowed = placed
    if allowed != before:
        message = f"pod updates may not change fields other than {','.join(MUTABLE_FIELDS)}\n"
        yield Cause.forbidden("spec", message + unified_diff(before, allowed))


def _validate_deadline(new: int | None, old: int | None) -> Causes:
    path = "spec.activeDeadlineSeconds"
    if new is None:
        if old is not None:
            yield Cause.invalid(path, None, "must not update from a positive integer to nil value")
        return
    if not 0 <= new <= MAX_INT32:
        yield Cause.invalid(path, new, names.within(0, MAX_INT32))
    if old is not None and old < new:
        yield Cause.invalid(path, new, "must be less than or equal to previous value")


def _without_seconds(toleration: Obj) -> Obj:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}


def _with_mutable_fields_of(spec: Obj, before: Obj) -> Obj:
    """Return the new spec with the mutable fields of the old one, so that any difference left is
    forbidden.
    """
    allowed = dict(spec)
    for name in ("containers", "initContainers"):
        if name in spec:
            pairs = zip(spec[name], before[name], strict=True)
            allowed[name] = [
                {**one, **({"image": other["image"]} if "image" in other else {})}
                for one, other in pairs
            ]
    for name in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        allowed.pop(name, None)
        if name in before:
            allowed[name] = before[name]
    return allowed


def _validate_gated_placement(spec: Obj, before: Obj) -> Causes:
    """Yield the causes for placement changes of a gated pod, which may only become stricter."""
    new, old = spec.get("nodeSelector") or {}, before.get("nodeSelector") or {}
    for key, value in old.items():
        if new.get(key) != value:
            yield Cause.invalid("spec.nodeSelector", new, _MORE_SELECTOR)
    terms, earlier = _required_terms(spec), _required_terms(before)
    path = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
    if earlier and len(terms) != len(earlier):
        yield Cause.invalid(path, terms, _SAME_TERMS)
        return
    for index, (term, other) in enumerate(zip(terms, earlier, strict=False)):
        kinds = ("matchExpressions", "matchFields")
        is_kept = all(
            (term.get(kind) or [])[: len(other.get(kind) or ())] == (other.get(kind) or [])
            for kind in kinds
        )
        was_empty = not any(other.get(kind) for kind in kinds)
        if not is_kept or (was_empty and any(term.get(kind) for kind in kinds)):
            yield Cause.invalid(f"{path}[{index}]", term, _MORE_TERM)


def _required_terms(spec: Obj) -> list[Obj]:
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    return affinity.get(REQUIRED, {}).get("nodeSelectorTerms") or []


RESIZABLE_LISTS = ("containers", "initContainers")
ONLY_COMPUTE = "only cpu and memory resources are mutable"


def validate_resize_changes(new: Obj, old: Obj) -> Causes:
    spec, before = new["spec"], old["spec"]
    if MIRROR_ANNOTATION in (old["metadata"].get("annotations") or ()):
        yield Cause.forbidden("", "static pods cannot be resized")
        return
    if before.get("os", {}).get("name") == "windows":
        yield Cause.forbidden("", "windows pods cannot be resized")
        return
    status = old.get("status") or {}
    if status.get("qosClass", qos_class(before)) != qos_class(spec):
        shown = (new.get("status") or {}).get("qosClass", "")
        yield Cause.invalid("spec", shown, "Pod QOS Class may not change as a result of resizing")
    running = [
        one for one in status.get("containerStatuses") or () if "running" in one.get("state", {})
    ]
    if not (not running or "resources" in running[0]):
        yield Cause.forbidden("spec", "Pod running on node without support for resize")
    whole, old_whole = spec.get("resources"), before.get("resources")
    if old_whole is not None and whole is None:
        yield Cause.forbidden("spec.resources", "pod-level resources cannot be removed")
    else:
        yield from _validate_amounts_kept("spec.resources", whole, old_whole, "pod-level ")
    if _noncompute_resources(whole) != _noncompute_resources(old_whole):
        yield Cause.forbidden("spec", "only cpu and memory resources are mutable at pod-level")
    moved = list(_validate_same_containers(spec, before))
    yield from moved
    if not moved:
        for kind in ("initContainers", "containers"):
            for index, (one, other) in enumerate(
                zip(spec.get(kind) or (), before.get(kind) or (), strict=True)
            ):
                yield from _validate_amounts_kept(
                    f"spec.{kind}[{index}].resources", one.get("resources"), other.get("resources")
                )
        yield from _validate_nothing_else_changed(spec, before)


def _validate_amounts_kept(path: str, new: Obj | None, old: Obj | None, level: str = "") -> Causes:
    """Yield the causes for requests or limits that a resize removes. `level` begins the message."""
    for kind in ("requests", "limits"):
        if not ((old or {}).get(kind) or {}).keys() <= ((new or {}).get(kind) or {}).keys():
            yield Cause.forbidden(f"{path}.{kind}", f"{level}resource {kind} cannot be removed")


def _validate_same_containers(spec: Obj, before: Obj) -> Causes:
    for kind in RESIZABLE_LISTS:
        given, earlier = spec.get(kind) or (), before.get(kind) or ()
        if len(given) != len(earlier):
            yield Cause.forbidden(f"spec.{kind}", f"{kind} may not be added or removed on resize")
            continue
        for index, (one, other) in enumerate(zip(given, earlier, strict=True)):
            if one.get("name") != other.get("name"):
                yield Cause.forbidden(
                    f"spec.{kind}[{index}].name",
                    f"{kind} may not be renamed or reordered on resize",
                )


def _validate_nothing_else_changed(spec: Obj, before: Obj) -> Causes:
    for one, other in zip(
        spec.get("containers") or (), before.get("containers") or (), strict=True
    ):
        if _without_compute(one) != _without_compute(other):
            yield Cause.forbidden("spec", ONLY_COMPUTE)
    for index, (one, other) in enumerate(
        zip(spec.get("initContainers") or (), before.get("initContainers") or (), strict=True)
    ):
        path = f"spec.initContainers[{index}]"
        if _without_compute(one) != _without_compute(other):
            yield Cause.forbidden(
                path, "only cpu and memory resources for init or sidecar containers are mutable"
            )
        policies = [policy.get("restartPolicy") for policy in one.get("resizePolicy") or ()]
        if one != other and one.get("restartPolicy") != "Always" and "RestartContainer" in policies:
            detail = (
                "non-sidecar init containers with a resize policy of RestartContainer cannot "
                "be resized"
            )
            yield Cause.forbidden(path, detail)


def _without_compute(container: Obj) -> Obj:
    return {**container, "resources": _noncompute_resources(container.get("resources"))}


def _noncompute_resources(resources: Obj | None) -> Obj:
    """Return the limits and requests that a resize cannot change: all but CPU and memory."""
    listed = resources or {}
    return {
        kind: {
            name: quantity
            for name, quantity in (listed.get(kind) or {}).items()
            if name not in COMPUTE_RESOURCES
        }
        for kind in ("requests", "limits")
    }
