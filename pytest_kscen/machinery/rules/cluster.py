"""Namespaces and Nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.machinery.kinds import Part, Rules
from pytest_kscen.machinery.rules import addresses
from pytest_kscen.machinery.rules.checks import Causes, named, positive, unique
from pytest_kscen.machinery.rules.filling import fill, part, round_quantities
from pytest_kscen.machinery.rules.internals import ADDRESS, internal
from pytest_kscen.machinery.rules.pods.resources import amount
from pytest_kscen.machinery.rules.pods.scheduling import taints
from pytest_kscen.machinery.rules.preparing import keep_spec, keep_status
from pytest_kscen.machinery.rules.selectable import NAMESPACE_FIELDS, NODE_FIELDS
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from pytest_kscen.machinery.core import Core
    from pytest_kscen.objects.resources import Obj

OWN_NAME = "kubernetes.io/metadata.name"
KUBERNETES = "kubernetes"
FINALIZERS = frozenset({KUBERNETES, "orphan", "foregroundDeletion"})
_CIDR_STAYS = 'node updates may not change podCIDR except from "" to valid'
_PROVIDER_STAYS = 'node updates may not change providerID except from "" to valid'


def default_namespace(obj: Obj) -> None:
    metadata = obj["metadata"]
    if metadata.get("name") and (metadata.get("labels") or {}).get(OWN_NAME) != metadata["name"]:
        metadata["labels"] = {**(metadata.get("labels") or {}), OWN_NAME: metadata["name"]}
    fill(part(obj, "status"), {"phase": "Active"})


def create_namespace(obj: Obj, _core: Core) -> None:
    obj["status"] = {"phase": "Active"}
    finalizers = (obj.get("spec") or {}).get("finalizers") or []
    if KUBERNETES not in finalizers:
        obj["spec"] = {**(obj.get("spec") or {}), "finalizers": [*finalizers, KUBERNETES]}
    default_namespace(obj)


def update_namespace(new: Obj, old: Obj, core: Core) -> None:
    keep_status(new, old, core)
    new["spec"] = old.get("spec", {})


def validate_namespace(obj: Obj) -> Causes:
    for finalizer in (obj.get("spec") or {}).get("finalizers") or ():
        yield from _finalizer("spec.finalizers", finalizer)


def _finalizer(path: str, name: str) -> Causes:
    yield from named(path, name, names.label_key)
    if "/" not in name and name not in FINALIZERS:
        yield Cause.invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified")


def update_namespace_causes(new: Obj, _old: Obj) -> Causes:
    return validate_namespace(new)


def namespace_status(new: Obj, _: Obj) -> Causes:
    phase = (new.get("status") or {}).get("phase", "")
    if not new["metadata"].get("deletionTimestamp"):
        if phase != "Active":
            yield Cause.invalid("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty")
    elif phase != "Terminating":
        yield Cause.invalid("status.Phase", phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")


def finalize_causes(new: Obj, _: Obj) -> Causes:
    for place, finalizer in enumerate((new.get("spec") or {}).get("finalizers") or ()):
        yield from _finalizer(f"spec.finalizers[{place}]", finalizer)


def default_node(obj: Obj) -> None:
    status, spec = obj.get("status"), part(obj, "spec")
    single, several = spec.get("podCIDR"), spec.get("podCIDRs")
    if single and (not several or several[0] != single):
        spec["podCIDRs"] = [single]
    elif several and not single:
        spec["podCIDR"] = several[0]
    if status:
        for kind in ("capacity", "allocatable"):
            if kind in status:
                round_quantities(status[kind])
        if "capacity" in status and "allocatable" not in status:
            status["allocatable"] = status["capacity"]


def create_node(obj: Obj, _core: Core) -> None:
    for kind in ("spec", "status"):
        gone = {"spec": "configSource", "status": "config"}[kind]
        if gone in (obj.get(kind) or {}):
            obj[kind] = {name: value for name, value in obj[kind].items() if name != gone}


def validate_node(obj: Obj) -> Causes:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    yield from taints("metadata.taints", spec.get("taints") or ())
    yield from _amounts(status)
    capacity = status.get("nodeInfo", {}).get("swap", {}).get("capacity")
    if capacity is not None:
        yield from positive("metadata.nodeSwapStatus.capacity", capacity)
    ranges = spec.get("podCIDRs") or ()
    for place, block in enumerate(ranges):
        yield from addresses.block(f"spec.podCIDRs[{place}]", block)
    families = [found.version for found in map(addresses.parse_block, ranges) if found]
    if len(ranges) > 1 and (len(set(families)) < 2 or len(ranges) > 2):  # noqa: PLR2004 -- one of each family
        yield Cause.invalid("spec.podCIDRs", ranges, "may specify no more than one CIDR for each IP family")


def _amounts(status: Obj) -> Causes:
    for kind in ("capacity", "allocatable"):
        for name, quantity in (status.get(kind) or {}).items():
            yield from amount(f"status.{kind}.{name}", name, quantity)


def update_node_causes(new: Obj, old: Obj) -> Causes:
    if new.get("spec") is not old.get("spec"):
        yield from validate_node(new)
    yield from _node_changes(new, old)


def node_status_causes(new: Obj, old: Obj) -> Causes:
    yield from _amounts(new.get("status") or {})
    yield from _node_changes(new, old)


def _node_changes(new: Obj, old: Obj) -> Causes:
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    listed = (new.get("status") or {}).get("addresses") or ()
    yield from unique("status.addresses", [internal(ADDRESS, one) for one in listed])
    if spec is before:
        return
    if before.get("podCIDRs") and spec.get("podCIDRs") != before["podCIDRs"]:
        yield Cause.forbidden("spec.podCIDRs", _CIDR_STAYS)
    if before.get("providerID") and spec.get("providerID") != before["providerID"]:
        yield Cause.forbidden("spec.providerID", _PROVIDER_STAYS)
    if spec.get("externalID") != before.get("externalID"):
        yield Cause.forbidden("spec.externalID", "may not be updated")


RULES = {
    ("", "namespaces"): Rules(
        default=default_namespace,
        prepare_create=create_namespace,
        prepare_update=update_namespace,
        validate=validate_namespace,
        validate_update=update_namespace_causes,
        parts={"status": Part(keep_spec, namespace_status), "finalize": Part(keep_status, finalize_causes)},
        name=names.dns1123_label,
        qualified_finalizers=True,
        fields=NAMESPACE_FIELDS,
        generation=None,
    ),
    ("", "nodes"): Rules(
        default=default_node,
        prepare_create=create_node,
        prepare_update=keep_status,
        validate=validate_node,
        validate_update=update_node_causes,
        parts={"status": Part(keep_spec, node_status_causes)},
        qualified_finalizers=True,
        fields=NODE_FIELDS,
        generation=None,
    ),
}
