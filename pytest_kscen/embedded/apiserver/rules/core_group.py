"""Namespaces and Nodes."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.kinds import Part, Rules
from pytest_kscen.embedded.apiserver.rules import addresses
from pytest_kscen.embedded.apiserver.rules.checks import (
    ADDRESS,
    Causes,
    immutable,
    internal,
    named,
    positive,
    unique,
)
from pytest_kscen.embedded.apiserver.rules.fields import (
    NAMESPACE_FIELDS,
    NODE_FIELDS,
    SECRET_FIELDS,
    fill,
    keep_spec,
    keep_status,
    part,
    round_quantities,
)
from pytest_kscen.embedded.apiserver.rules.pods.resources import amount
from pytest_kscen.embedded.apiserver.rules.pods.scheduling import taints
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.embedded.apiserver.core import Core
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
        yield Cause.invalid(
            path, name, "name is neither a standard finalizer name nor is it fully qualified"
        )


def update_namespace_causes(new: Obj, _old: Obj) -> Causes:
    return validate_namespace(new)


def namespace_status(new: Obj, _: Obj) -> Causes:
    phase = (new.get("status") or {}).get("phase", "")
    if not new["metadata"].get("deletionTimestamp"):
        if phase != "Active":
            yield Cause.invalid(
                "status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty"
            )
    elif phase != "Terminating":
        yield Cause.invalid(
            "status.Phase", phase, "may only be 'Terminating' if `deletionTimestamp` is not empty"
        )


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
        yield Cause.invalid(
            "spec.podCIDRs", ranges, "may specify no more than one CIDR for each IP family"
        )


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


CLUSTER_RULES = {
    ("", "namespaces"): Rules(
        default=default_namespace,
        prepare_create=create_namespace,
        prepare_update=update_namespace,
        validate=validate_namespace,
        validate_update=update_namespace_causes,
        parts={
            "status": Part(keep_spec, namespace_status),
            "finalize": Part(keep_status, finalize_causes),
        },
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


# ConfigMaps, Secrets and ServiceAccounts.


LARGEST = 1024 * 1024
ACCOUNT_NAME = "kubernetes.io/service-account.name"
NEEDED = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
}
DOCKER = frozenset({"kubernetes.io/dockercfg", "kubernetes.io/dockerconfigjson"})
_PEM = re.compile("-----BEGIN ([A-Z0-9 ]+)-----")
_LOCKED = "field is immutable when `immutable` is set"


def validate_config_map(obj: Obj) -> Causes:
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    size = sum(len(value.encode()) for value in data.values()) + sum(
        _decoded_size(value) for value in binary.values()
    )
    for key in data:
        yield from named(f"data[{key}]", key, names.config_key)
        if key in binary:
            yield Cause.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    for key in binary:
        yield from named(f"binaryData[{key}]", key, names.config_key)
    if size > LARGEST:
        yield Cause.too_long("[]", LARGEST)


def update_config_map(new: Obj, old: Obj) -> Causes:
    yield from _locked(new, old, ("data", "binaryData"))
    yield from validate_config_map(new)


def _locked(new: Obj, old: Obj, fields: tuple[str, ...]) -> Causes:
    if old.get("immutable"):
        if not new.get("immutable"):
            yield Cause.forbidden("immutable", _LOCKED)
        for field in fields:
            if (new.get(field) or {}) != (old.get(field) or {}):
                yield Cause.forbidden(field, _LOCKED)


def default_secret(obj: Obj) -> None:
    fill(obj, {"type": "Opaque"})
    plain = obj.pop("stringData", None)
    if plain:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}


def validate_secret(obj: Obj) -> Causes:
    data, kind = obj.get("data") or {}, obj.get("type", "")
    for key in data:
        yield from named(f"data[{key}]", key, names.config_key)
    if sum(_decoded_size(value) for value in data.values()) > LARGEST:
        yield Cause.too_long("data", LARGEST)
    # What the well-known kinds of secrets must have.
    notes = obj["metadata"].get("annotations") or {}
    if kind == "kubernetes.io/service-account-token" and not notes.get(ACCOUNT_NAME):
        yield Cause.required(f"metadata.annotations[{ACCOUNT_NAME}]")
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        yield Cause.required("data[username]")
        yield Cause.required("data[password]")
    if kind == "kubernetes.io/ssh-auth" and not data.get("ssh-privatekey"):
        yield Cause.required("data[ssh-privatekey]")
    for each in NEEDED.get(kind, ()):
        if each not in data:
            yield Cause.required(f"data[{each}]")
        elif kind in DOCKER and (fault := _json_fault(data[each])):
            yield Cause.invalid(f"data[{each}]", "<secret contents redacted>", fault)


def _json_fault(encoded: str | None) -> str:
    """What Go's JSON reader says of text that is no object."""
    try:
        found = json.loads(base64.b64decode(encoded or ""))
    except ValueError as error:
        if not encoded or "Unterminated" in str(error):
            return "unexpected end of JSON input"
        text = base64.b64decode(encoded).decode(errors="replace").lstrip()
        return f"invalid character {text[:1]!r} looking for beginning of value"
    kinds = {list: "array", str: "string", bool: "bool", int: "number", float: "number"}
    if isinstance(found, dict) or found is None:
        return ""
    return (
        f"json: cannot unmarshal {kinds[type(found)]} into Go value of type "
        "map[string]interface {}"
    )


def _decoded_size(encoded: str | None) -> int:
    return len(encoded) * 3 // 4 - encoded[-2:].count("=") if encoded else 0


def doubtful_pair(new: Obj, _old: Obj | None) -> Iterator[str]:
    """A certificate and its key that are none, in the words of Go's TLS."""
    if new.get("type") != "kubernetes.io/tls":
        return
    data = new.get("data") or {}
    for key, name, ending in (
        ("tls.crt", "certificate", "CERTIFICATE"),
        ("tls.key", "key", "PRIVATE KEY"),
    ):
        found = _PEM.findall(base64.b64decode(data.get(key) or "").decode(errors="replace"))
        if not found:
            yield f"tls: failed to find any PEM data in {name} input"
        if not any(title.endswith(ending) for title in found):
            return


def update_secret(new: Obj, old: Obj) -> Causes:
    yield from immutable("type", new.get("type"), old.get("type"))
    yield from _locked(new, old, ("data",))
    yield from validate_secret(new)


def clean_references(obj: Obj, _core: Core) -> None:
    """A service account names its secrets, and says no more of them."""
    if any(secret.keys() - {"name"} for secret in obj.get("secrets") or ()):
        obj["secrets"] = [
            {"name": secret["name"]} if "name" in secret else {} for secret in obj["secrets"]
        ]


def clean_references_again(new: Obj, _old: Obj, core: Core) -> None:
    clean_references(new, core)


CONFIG_RULES = {
    ("", "configmaps"): Rules(
        validate=validate_config_map,
        validate_update=update_config_map,
        qualified_finalizers=True,
        generation=None,
    ),
    ("", "secrets"): Rules(
        default=default_secret,
        validate=validate_secret,
        validate_update=update_secret,
        warn=doubtful_pair,
        qualified_finalizers=True,
        fields=SECRET_FIELDS,
        generation=None,
    ),
    ("", "serviceaccounts"): Rules(
        prepare_create=clean_references,
        prepare_update=clean_references_again,
        qualified_finalizers=True,
        generation=None,
    ),
}
