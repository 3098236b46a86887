"""ConfigMaps, Secrets and ServiceAccounts."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING

from pytest_kscen.machinery.kinds import Rules
from pytest_kscen.machinery.rules.checks import Causes, immutable, named
from pytest_kscen.machinery.rules.filling import fill
from pytest_kscen.machinery.rules.selectable import SECRET_FIELDS
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.machinery.core import Core
    from pytest_kscen.objects.resources import Obj

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
    size = sum(len(value.encode()) for value in data.values()) + sum(_decoded_size(value) for value in binary.values())
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
    yield from _of_kind(kind, data, obj["metadata"].get("annotations") or {})


def _of_kind(kind: str, data: Obj, notes: Obj) -> Causes:
    """What the well-known kinds of secrets must have."""
    if kind == "kubernetes.io/service-account-token" and not notes.get(ACCOUNT_NAME):
        yield Cause.required(f"metadata.annotations[{ACCOUNT_NAME}]")
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        yield Cause.required("data[username]")
        yield Cause.required("data[password]")
    if kind == "kubernetes.io/ssh-auth" and not data.get("ssh-privatekey"):
        yield Cause.required("data[ssh-privatekey]")
    for key in NEEDED.get(kind, ()):
        if key not in data:
            yield Cause.required(f"data[{key}]")
        elif kind in DOCKER and (fault := _json_fault(data[key])):
            yield Cause.invalid(f"data[{key}]", "<secret contents redacted>", fault)


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
    return f"json: cannot unmarshal {kinds[type(found)]} into Go value of type map[string]interface {{}}"


def _decoded_size(encoded: str | None) -> int:
    return len(encoded) * 3 // 4 - encoded[-2:].count("=") if encoded else 0


def doubtful_pair(new: Obj, _old: Obj | None) -> Iterator[str]:
    """A certificate and its key that are none, in the words of Go's TLS."""
    if new.get("type") != "kubernetes.io/tls":
        return
    data = new.get("data") or {}
    for key, name, ending in (("tls.crt", "certificate", "CERTIFICATE"), ("tls.key", "key", "PRIVATE KEY")):
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
        obj["secrets"] = [{"name": secret["name"]} if "name" in secret else {} for secret in obj["secrets"]]


def clean_references_again(new: Obj, _old: Obj, core: Core) -> None:
    clean_references(new, core)


RULES = {
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
