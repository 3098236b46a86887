"""Rules of Namespaces, Nodes, ConfigMaps, Secrets and ServiceAccounts.

Deletion of a namespace's content is the namespace controller's task, not that of these rules.
"""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.kinds import Rules, SubresourceRules
from pytest_kscen.embedded.apiserver.rules import addresses
from pytest_kscen.embedded.apiserver.rules.checks import (
    GO_NODE_ADDRESS,
    Causes,
    as_go_struct,
    validate_immutable,
    validate_name,
    validate_positive,
    validate_unique,
)
from pytest_kscen.embedded.apiserver.rules.fields import (
    NAMESPACE_FIELDS,
    NODE_FIELDS,
    SECRET_FIELDS,
    ensure_object,
    keep_spec,
    keep_status,
    round_quantities,
    set_defaults,
)
from pytest_kscen.embedded.apiserver.rules.pods.resources import validate_quantity
from pytest_kscen.embedded.apiserver.rules.pods.scheduling import validate_taints
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.objects.resources import Obj


NAME_LABEL = "kubernetes.io/metadata.name"
KUBERNETES_FINALIZER = "kubernetes"
STANDARD_FINALIZERS = frozenset({KUBERNETES_FINALIZER, "orphan", "foregroundDeletion"})
_POD_CIDR_FIXED = 'node updates may not change podCIDR except from "" to valid'
_PROVIDER_ID_FIXED = 'node updates may not change providerID except from "" to valid'


def default_namespace(obj: Obj) -> None:
    metadata = obj["metadata"]
    if metadata.get("name") and (metadata.get("labels") or {}).get(NAME_LABEL) != metadata["name"]:
        metadata["labels"] = {**(metadata.get("labels") or {}), NAME_LABEL: metadata["name"]}
    set_defaults(ensure_object(obj, "status"), {"phase": "Active"})


def prepare_namespace_create(obj: Obj, _core: Core) -> None:
    obj["status"] = {"phase": "Active"}
    finalizers = (obj.get("spec") or {}).get("finalizers") or []
    if KUBERNETES_FINALIZER not in finalizers:
        obj["spec"] = {**(obj.get("spec") or {}), "finalizers": [*finalizers, KUBERNETES_FINALIZER]}
    default_namespace(obj)


def prepare_namespace_update(new: Obj, old: Obj, core: Core) -> None:
    keep_status(new, old, core)
    new["spec"] = old.get("spec", {})


def validate_namespace(obj: Obj) -> Causes:
    for finalizer in (obj.get("spec") or {}).get("finalizers") or ():
        yield from _validate_finalizer("spec.finalizers", finalizer)


def _validate_finalizer(path: str, name: str) -> Causes:
    yield from validate_name(path, name, names.label_key)
    if "/" not in name and name not in STANDARD_FINALIZERS:
        yield Cause.invalid(
            path, name, "name is neither a standard finalizer name nor is it fully qualified"
        )


def validate_namespace_update(new: Obj, _old: Obj) -> Causes:
    return validate_namespace(new)


def validate_namespace_status(new: Obj, _: Obj) -> Causes:
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


def validate_namespace_finalize(new: Obj, _: Obj) -> Causes:
    for index, finalizer in enumerate((new.get("spec") or {}).get("finalizers") or ()):
        yield from _validate_finalizer(f"spec.finalizers[{index}]", finalizer)


def default_node(obj: Obj) -> None:
    status, spec = obj.get("status"), ensure_object(obj, "spec")
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


def prepare_node_create(obj: Obj, _core: Core) -> None:
    for kind in ("spec", "status"):
        removed = {"spec": "configSource", "status": "config"}[kind]
        if removed in (obj.get(kind) or {}):
            obj[kind] = {name: value for name, value in obj[kind].items() if name != removed}


def validate_node(obj: Obj) -> Causes:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    yield from validate_taints("metadata.taints", spec.get("taints") or ())
    yield from _validate_node_resources(status)
    capacity = status.get("nodeInfo", {}).get("swap", {}).get("capacity")
    if capacity is not None:
        yield from validate_positive("metadata.nodeSwapStatus.capacity", capacity)
    ranges = spec.get("podCIDRs") or ()
    for index, block in enumerate(ranges):
        yield from addresses.validate_cidr(f"spec.podCIDRs[{index}]", block)
    families = [found.version for found in map(addresses.parse_cidr, ranges) if found]
    # one of each family
    if len(ranges) > 1 and (len(set(families)) < 2 or len(ranges) > 2):  # noqa: PLR2004
        yield Cause.invalid(
            "spec.podCIDRs", ranges, "may specify no more than one CIDR for each IP family"
        )


def _validate_node_resources(status: Obj) -> Causes:
    for kind in ("capacity", "allocatable"):
        for name, quantity in (status.get(kind) or {}).items():
            yield from validate_quantity(f"status.{kind}.{name}", name, quantity)


def validate_node_update(new: Obj, old: Obj) -> Causes:
    if new.get("spec") is not old.get("spec"):
        yield from validate_node(new)
    yield from _validate_node_changes(new, old)


def validate_node_status(new: Obj, old: Obj) -> Causes:
    yield from _validate_node_resources(new.get("status") or {})
    yield from _validate_node_changes(new, old)


def _validate_node_changes(new: Obj, old: Obj) -> Causes:
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    listed = (new.get("status") or {}).get("addresses") or ()
    yield from validate_unique(
        "status.addresses", [as_go_struct(GO_NODE_ADDRESS, one) for one in listed]
    )
    if spec is before:
        return
    if before.get("podCIDRs") and spec.get("podCIDRs") != before["podCIDRs"]:
        yield Cause.forbidden("spec.podCIDRs", _POD_CIDR_FIXED)
    if before.get("providerID") and spec.get("providerID") != before["providerID"]:
        yield Cause.forbidden("spec.providerID", _PROVIDER_ID_FIXED)
    if spec.get("externalID") != before.get("externalID"):
        yield Cause.forbidden("spec.externalID", "may not be updated")


CLUSTER_RULES = {
    ("", "namespaces"): Rules(
        default=default_namespace,
        prepare_create=prepare_namespace_create,
        prepare_update=prepare_namespace_update,
        validate=validate_namespace,
        validate_update=validate_namespace_update,
        parts={
            "status": SubresourceRules(keep_spec, validate_namespace_status),
            "finalize": SubresourceRules(keep_status, validate_namespace_finalize),
        },
        name=names.dns1123_label,
        qualified_finalizers=True,
        fields=NAMESPACE_FIELDS,
        generation=None,
    ),
    ("", "nodes"): Rules(
        default=default_node,
        prepare_create=prepare_node_create,
        prepare_update=keep_status,
        validate=validate_node,
        validate_update=validate_node_update,
        parts={"status": SubresourceRules(keep_spec, validate_node_status)},
        qualified_finalizers=True,
        fields=NODE_FIELDS,
        generation=None,
    ),
}


MAX_DATA_BYTES = 1024 * 1024
SERVICE_ACCOUNT_NAME = "kubernetes.io/service-account.name"
REQUIRED_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
}
DOCKER_TYPES = frozenset({"kubernetes.io/dockercfg", "kubernetes.io/dockerconfigjson"})
_PEM_HEADER = re.compile("-----BEGIN ([A-Z0-9 ]+)-----")
_IMMUTABLE_DATA = "field is immutable when `immutable` is set"


def validate_config_map(obj: Obj) -> Causes:
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    size = sum(len(value.encode()) for value in data.values()) + sum(
        _decoded_size(value) for value in binary.values()
    )
    for key in data:
        yield from validate_name(f"data[{key}]", key, names.config_key)
        if key in binary:
            yield Cause.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    for key in binary:
        yield from validate_name(f"binaryData[{key}]", key, names.config_key)
    if size > MAX_DATA_BYTES:
        yield Cause.too_long("[]", MAX_DATA_BYTES)


def validate_config_map_update(new: Obj, old: Obj) -> Causes:
    yield from _validate_immutable_data(new, old, ("data", "binaryData"))
    yield from validate_config_map(new)


def _validate_immutable_data(new: Obj, old: Obj, fields: tuple[str, ...]) -> Causes:
    if old.get("immutable"):
        if not new.get("immutable"):
            yield Cause.forbidden("immutable", _IMMUTABLE_DATA)
        for field in fields:
            if (new.get(field) or {}) != (old.get(field) or {}):
                yield Cause.forbidden(field, _IMMUTABLE_DATA)


def default_secret(obj: Obj) -> None:
    set_defaults(obj, {"type": "Opaque"})
    plain = obj.pop("stringData", None)
    if plain:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}


def validate_secret(obj: Obj) -> Causes:
    data, kind = obj.get("data") or {}, obj.get("type", "")
    for key in data:
        yield from validate_name(f"data[{key}]", key, names.config_key)
    if sum(_decoded_size(value) for value in data.values()) > MAX_DATA_BYTES:
        yield Cause.too_long("data", MAX_DATA_BYTES)
    # Keys and annotations that the well-known types of secrets require.
    notes = obj["metadata"].get("annotations") or {}
    if kind == "kubernetes.io/service-account-token" and not notes.get(SERVICE_ACCOUNT_NAME):
        yield Cause.required(f"metadata.annotations[{SERVICE_ACCOUNT_NAME}]")
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        yield Cause.required("data[username]")
        yield Cause.required("data[password]")
    if kind == "kubernetes.io/ssh-auth" and not data.get("ssh-privatekey"):
        yield Cause.required("data[ssh-privatekey]")
    for each in REQUIRED_KEYS.get(kind, ()):
        if each not in data:
            yield Cause.required(f"data[{each}]")
        elif kind in DOCKER_TYPES and (fault := _json_error(data[each])):
            yield Cause.invalid(f"data[{each}]", "<secret contents redacted>", fault)


def _json_error(encoded: str | None) -> str:
    """Return the message of Go's JSON decoder for base64-encoded text that is not a JSON object.

    Empty if it is one.
    """
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


def warn_of_bad_key_pair(new: Obj, _old: Obj | None) -> Iterator[str]:
    """Yield the warnings of Go's TLS package for a certificate or key without PEM data.

    Stops at the first part without a PEM block of the expected type, as Go does.
    """
    if new.get("type") != "kubernetes.io/tls":
        return
    data = new.get("data") or {}
    for key, name, ending in (
        ("tls.crt", "certificate", "CERTIFICATE"),
        ("tls.key", "key", "PRIVATE KEY"),
    ):
        found = _PEM_HEADER.findall(base64.b64decode(data.get(key) or "").decode(errors="replace"))
        if not found:
            yield f"tls: failed to find any PEM data in {name} input"
        if not any(title.endswith(ending) for title in found):
            return


def validate_secret_update(new: Obj, old: Obj) -> Causes:
    yield from validate_immutable("type", new.get("type"), old.get("type"))
    yield from _validate_immutable_data(new, old, ("data",))
    yield from validate_secret(new)


def prepare_account_create(obj: Obj, _core: Core) -> None:
    """Reduce each entry of `secrets` to its name, the only field that a ServiceAccount keeps."""
    if any(secret.keys() - {"name"} for secret in obj.get("secrets") or ()):
        obj["secrets"] = [
            {"name": secret["name"]} if "name" in secret else {} for secret in obj["secrets"]
        ]


def prepare_account_update(new: Obj, _old: Obj, core: Core) -> None:
    prepare_account_create(new, core)


CONFIG_RULES = {
    ("", "configmaps"): Rules(
        validate=validate_config_map,
        validate_update=validate_config_map_update,
        qualified_finalizers=True,
        generation=None,
    ),
    ("", "secrets"): Rules(
        default=default_secret,
        validate=validate_secret,
        validate_update=validate_secret_update,
        warn=warn_of_bad_key_pair,
        qualified_finalizers=True,
        fields=SECRET_FIELDS,
        generation=None,
    ),
    ("", "serviceaccounts"): Rules(
        prepare_create=prepare_account_create,
        prepare_update=prepare_account_update,
        qualified_finalizers=True,
        generation=None,
    ),
}
