"""OpenAPI documents of the server: v3 for each group and version, with an index, and v2 for all
kinds.

Called by the handlers of `/openapi`. Built from the recorded definitions and the served kinds;
nothing is stored but a cache of documents.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from functools import cache
from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.embedded.apiserver.recorded import definition, definition_of, version
from pytest_kscen.embedded.apiserver.verbs.deleting import ANSWERED_WITH_OBJECT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_kscen.embedded.apiserver.kinds import Kind, Subresource
    from pytest_kscen.objects.resources import Obj


REF = "#/components/schemas/"
META_V1 = "io.k8s.apimachinery.pkg.apis.meta.v1"
RECORDING_PREFIX = "x-go-"  # prefix of what the recording adds to OpenAPI


def type_of(kind: Kind, *, is_list: bool = False) -> str:
    """Return the name of a kind's type, or of its list's type, in a document."""
    resource, name = kind.resource, kind.resource.kind + ("List" if is_list else "")
    if kind.custom:
        return ".".join((*reversed(resource.group.split(".")), resource.version, name))
    return definition_of(resource.group, resource.version, name)


def custom_types(kind: Kind) -> dict[str, Obj]:
    """Return the schemas of a custom kind and its list by type name."""
    resource, structure = kind.resource, kind.structure or {}
    head = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    metadata = {**head, "metadata": _type_reference(f"{META_V1}.ObjectMeta")}
    properties = {
        **metadata,
        **{
            name: schema
            for name, schema in structure.get("properties", {}).items()
            if name not in metadata
        },
    }
    own = {**structure, "type": "object", "properties": properties}
    listed = {
        "type": "object",
        "required": ["items"],
        "properties": {
            **head,
            "items": {"type": "array", "items": {"$ref": REF + type_of(kind)}},
            "metadata": _type_reference(f"{META_V1}.ListMeta"),
        },
    }
    names = type_of(kind), type_of(kind, is_list=True)
    gvk = {"group": resource.group, "version": resource.version}
    return {
        names[0]: {**own, "x-kubernetes-group-version-kind": [{**gvk, "kind": resource.kind}]},
        names[1]: {
            **listed,
            "x-kubernetes-group-version-kind": [{**gvk, "kind": f"{resource.kind}List"}],
        },
    }


def _type_reference(name: str) -> Obj:
    return {"allOf": [{"$ref": REF + name}]}


def recorded_types(names: Iterable[str]) -> dict[str, Obj]:
    """Return the schemas of these recorded types and of all types that they refer to, by name."""
    found: dict[str, Obj] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name], below = _converted_type(name)
            waiting.extend(below)
    return found


@cache
def _converted_type(name: str) -> tuple[Obj, tuple[str, ...]]:
    refs: list[str] = []
    return _convert(definition(name), refs, is_field=True), tuple(refs)


def _convert(schema: Any, refs: list[str], *, is_field: bool) -> Any:
    if isinstance(schema, list):
        return [_convert(part, refs, is_field=False) for part in schema]
    if not isinstance(schema, dict):
        return schema
    new: Obj = {}
    for key, value in schema.items():
        if key == "properties":
            new[key] = {name: _convert(part, refs, is_field=True) for name, part in value.items()}
        elif key == "$ref":
            refs.append(value)
        elif not key.startswith(RECORDING_PREFIX):
            new[key] = value if key == "default" else _convert(value, refs, is_field=False)
    if "$ref" not in schema:
        return new
    reference = {"$ref": REF + schema["$ref"]}
    return {**new, "allOf": [reference]} if new or is_field else reference


WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")
LIST_PARAMETERS = (
    *(
        "allowWatchBookmarks",
        "continue",
        "fieldSelector",
        "labelSelector",
        "limit",
        "resourceVersion",
        "resourceVersionMatch",
    ),
    *("sendInitialEvents", "shardSelector", "timeoutSeconds", "watch"),
)
IGNORE_READ_ERROR = "ignoreStoreReadErrorWithClusterBreakingPotential"
DELETE_PARAMETERS = (
    "dryRun",
    "gracePeriodSeconds",
    IGNORE_READ_ERROR,
    "orphanDependents",
    "propagationPolicy",
)
DELETECOLLECTION_PARAMETERS = tuple(
    sorted({*LIST_PARAMETERS, *DELETE_PARAMETERS} - {"watch", "allowWatchBookmarks"})
)
BOOLEAN_PARAMETERS = {
    "allowWatchBookmarks",
    "sendInitialEvents",
    "watch",
    "force",
    "orphanDependents",
    IGNORE_READ_ERROR,
}
INTEGER_PARAMETERS = {"limit", "timeoutSeconds", "gracePeriodSeconds"}
ENCODINGS = ("application/json", "application/vnd.kubernetes.protobuf", "application/yaml")
PATCH_TYPES = (
    *(
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
    ),
    "application/strategic-merge-patch+json",
)
# verb: method, prefix of the id, Kubernetes' action, parameters, status codes
VERB_OPERATIONS: dict[str, tuple[str, str, str, tuple[str, ...], tuple[str, ...]]] = {
    "list": ("get", "list", "list", LIST_PARAMETERS, ("200",)),
    "create": ("post", "create", "post", WRITE_PARAMETERS, ("200", "201", "202")),
    "deletecollection": (
        "delete",
        "delete",
        "deletecollection",
        DELETECOLLECTION_PARAMETERS,
        ("200",),
    ),
    "get": ("get", "read", "get", (), ("200",)),
    "update": ("put", "replace", "put", WRITE_PARAMETERS, ("200", "201")),
    "patch": (
        "patch",
        "patch",
        "patch",
        ("dryRun", "fieldManager", "fieldValidation", "force"),
        ("200", "201"),
    ),
    "delete": ("delete", "delete", "delete", DELETE_PARAMETERS, ("200", "202")),
}
COLLECTION_VERBS, OBJECT_VERBS = (
    ("list", "create", "deletecollection"),
    ("get", "update", "patch", "delete"),
)


def paths_of(kind: Kind) -> dict[str, Obj]:
    resource = kind.resource
    root = resource.path("{namespace}")
    found: dict[str, Obj] = {}
    if collection := {
        verb: _operation(kind, verb) for verb in COLLECTION_VERBS if verb in kind.verbs
    }:
        found[root] = _path_item(collection, _path_parameters(kind, named=False))
    if single := {verb: _operation(kind, verb) for verb in OBJECT_VERBS if verb in kind.verbs}:
        found[f"{root}/{{name}}"] = _path_item(single, _path_parameters(kind, named=True))
    if resource.namespaced and "list" in kind.verbs:
        found[resource.path()] = _path_item(
            {"list": _operation(kind, "list", everywhere=True)}, [_parameter("pretty")]
        )
    for name, part in kind.subresources.items():
        if part.kind.endswith("Options"):
            continue  # connections (exec, proxy) have no documented response
        operations = {
            verb: _operation(kind, verb, name, part)
            for verb in part.verbs
            if verb in VERB_OPERATIONS
        }
        found[f"{root}/{{name}}/{name}"] = _path_item(
            operations, _path_parameters(kind, named=True)
        )
    return found


def _path_item(operations: dict[str, Obj], places: list[Obj]) -> Obj:
    """Return a path item. Parameters that all operations share are listed once, beside the
    operations.
    """
    taken = [operation["parameters"] for operation in operations.values()]
    shared = [given for given in taken[0] if all(given in others for others in taken)]
    methods = {
        VERB_OPERATIONS[verb][0]: {
            **operation,
            "parameters": [given for given in operation["parameters"] if given not in shared],
        }
        for verb, operation in operations.items()
    }
    return {**methods, "parameters": [*places, *shared]}


def _path_parameters(kind: Kind, *, named: bool) -> list[Obj]:
    names = [*(["name"] if named else []), *(["namespace"] if kind.resource.namespaced else [])]
    within = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "uniqueItems": True},
        }
        for name in names
    ]
    return [*within, _parameter("pretty")]


def _parameter(name: str) -> Obj:
    type_ = (
        "boolean"
        if name in BOOLEAN_PARAMETERS
        else "integer"
        if name in INTEGER_PARAMETERS
        else "string"
    )
    return {"name": name, "in": "query", "schema": {"type": type_, "uniqueItems": True}}


def _operation(
    kind: Kind,
    verb: str,
    part: str = "",
    subresource: Subresource | None = None,
    *,
    everywhere: bool = False,
) -> Obj:
    _, begins, action, parameters, codes = VERB_OPERATIONS[verb]
    resource = kind.resource
    if subresource and subresource.kind:
        group, _, version = (subresource.api_version or resource.api_version).rpartition("/")
        gvk = {"group": group, "version": version, "kind": subresource.kind}
    else:
        gvk = {
            "group": resource.group,
            "version": resource.version,
            "kind": resource.kind,
        }
    answer = {"type": "string"} if part == "log" else _response_schema(kind, verb, gvk)
    encodings = [
        *ENCODINGS,
        *(f"{media};stream=watch" for media in ENCODINGS[:2] if verb == "list"),
    ]
    response = {
        "description": "OK",
        "content": {encoding: {"schema": answer} for encoding in sorted(encodings)},
    }
    operation: Obj = {
        "tags": [f"{_group_identifier(resource.group, lower=True)}_{resource.version}"],
        "operationId": _operation_id(kind, begins, verb, part, everywhere=everywhere),
        "parameters": [_parameter(name) for name in parameters],
        "responses": {
            **dict.fromkeys(codes, response),
            "401": {"description": "Unauthorized"},
        },
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": gvk,
    }
    if verb == "patch":
        patches = [patch for patch in PATCH_TYPES if not (kind.custom and "strategic" in patch)]
        operation["requestBody"] = _body_of(
            {patch: {"$ref": f"{REF}{META_V1}.Patch"} for patch in patches}, required=True
        )
    elif verb in {"delete", "deletecollection"}:
        options = {"$ref": f"{REF}{META_V1}.DeleteOptions"}
        operation["requestBody"] = _body_of({"*/*": options}, required=False)
    elif verb in {"create", "update"}:
        media = "application/json" if kind.custom else "*/*"
        operation["requestBody"] = _body_of({media: _type_schema(kind, gvk)}, required=True)
    return operation


def _operation_id(kind: Kind, begins: str, verb: str, part: str, *, everywhere: bool) -> str:
    resource = kind.resource
    version = resource.version[0].upper() + resource.version[1:]
    collection = "Collection" if verb == "deletecollection" else ""
    namespaced = "Namespaced" if resource.namespaced and not everywhere else ""
    suffix = "ForAllNamespaces" if everywhere else part[:1].upper() + part[1:]
    scope = f"{_group_identifier(resource.group)}{version}{collection}{namespaced}"
    return f"{begins}{scope}{resource.kind}{suffix}"


def _group_identifier(group: str, *, lower: bool = False) -> str:
    """Return a group's part of an identifier: RbacAuthorization for `rbac.authorization.k8s.io`."""
    message = (group.removesuffix(".k8s.io") or "core").replace("-", ".").split(".")
    name = "".join(word[:1].upper() + word[1:] for word in message)
    return name[0].lower() + name[1:] if lower else name


def _type_schema(kind: Kind, gvk: Obj) -> Obj:
    own = gvk["kind"] == kind.resource.kind and gvk["group"] == kind.resource.group
    name = type_of(kind) if own else definition_of(gvk["group"], gvk["version"], gvk["kind"])
    return {"$ref": REF + name} if name else {"type": "string"}


def _response_schema(kind: Kind, verb: str, gvk: Obj) -> Obj:
    if verb == "list":
        return {"$ref": REF + type_of(kind, is_list=True)}
    if verb == "deletecollection" or (verb == "delete" and kind.home not in ANSWERED_WITH_OBJECT):
        return {"$ref": f"{REF}{META_V1}.Status"}
    return _type_schema(kind, gvk)


def _body_of(schemas: dict[str, Any], *, required: bool) -> Obj:
    content = {media: {"schema": schema} for media, schema in schemas.items()}
    return {"content": content, **({"required": True} if required else {})}


TOKEN_SCHEME = {
    "BearerToken": {
        "type": "apiKey",
        "description": "Bearer Token authentication",
        "name": "authorization",
        "in": "header",
    }
}
MAX_CACHED_DOCUMENTS = 128
_document_cache: OrderedDict[str, Obj] = OrderedDict()


def openapi_v3_index(kinds: Iterable[Kind]) -> Obj:
    """Return the index of v3 documents. The URL of a document has its hash, so it changes with the
    document.
    """
    return {
        "paths": {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={_digest(own)}"}
            for path, own in _kinds_by_path(kinds).items()
        }
    }


def openapi_v3(kinds: Iterable[Kind], path: str) -> Obj | None:
    """Return the document at a path such as `apis/apps/v1`, or None if the index has no such path.

    The last 128 documents are cached.
    """
    own = _kinds_by_path(kinds).get(path)
    if own is None:
        return None
    key = _digest(own)
    if key not in _document_cache:
        _document_cache[key] = _document(own)
        if len(_document_cache) > MAX_CACHED_DOCUMENTS:
            _document_cache.popitem(last=False)
    return _document_cache[key]


def openapi_v2(kinds: Iterable[Kind]) -> Obj:
    """Return the v2 document of all kinds, with types under `definitions` and simplified paths."""
    every = _document([kind for own in _kinds_by_path(kinds).values() for kind in own])
    return {
        "swagger": "2.0",
        "info": every["info"],
        "paths": {
            path: {
                method: _v2_operation(operation)
                for method, operation in methods.items()
                if method != "parameters"
            }
            for path, methods in every["paths"].items()
        },
        "definitions": _to_v2(every["components"]["schemas"]),
        "securityDefinitions": TOKEN_SCHEME,
        "security": [{"BearerToken": []}],
    }


def _kinds_by_path(kinds: Iterable[Kind]) -> dict[str, list[Kind]]:
    found: dict[str, list[Kind]] = {}
    for kind in kinds:
        group, name = kind.resource.group, kind.resource.version
        found.setdefault(f"apis/{group}/{name}" if group else f"api/{name}", []).append(kind)
    return found


def _digest(kinds: list[Kind]) -> str:
    identity = [
        [kind.api_version, kind.resource.plural, sorted(kind.subresources), kind.structure]
        for kind in kinds
    ]
    return hashlib.sha256(orjson.dumps([version()["gitVersion"], identity])).hexdigest().upper()


def _document(kinds: list[Kind]) -> Obj:
    paths = {path: methods for kind in kinds for path, methods in sorted(paths_of(kind).items())}
    custom = {
        name: schema for kind in kinds if kind.custom for name, schema in custom_types(kind).items()
    }
    wanted = {name for name in _references([paths, custom]) if name not in custom}
    schemas = {**recorded_types(sorted(wanted)), **custom}
    info = {"title": "Kubernetes", "version": ".".join((version()["major"], version()["minor"]))}
    return {
        "openapi": "3.0.0",
        "info": info,
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": dict(sorted(schemas.items())), "securitySchemes": TOKEN_SCHEME},
    }


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"].removeprefix(REF)
        for inner in part.values():
            yield from _references(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _references(inner)


def _to_v2(part: Any) -> Any:
    """Convert a v3 schema to v2, which has no alternatives and no null, and keeps types
    elsewhere.
    """
    if isinstance(part, list):
        return [_to_v2(inner) for inner in part]
    if not isinstance(part, dict):
        return part
    kept = {
        name: _to_v2(inner)
        for name, inner in part.items()
        if name not in {"nullable", "anyOf", "oneOf", "not"}
    }
    if isinstance(kept.get("$ref"), str):
        kept["$ref"] = kept["$ref"].replace(REF, "#/definitions/")
    if isinstance(kept.get("allOf"), list):
        references = [inner for inner in kept.pop("allOf") if "$ref" in inner]
        kept.update(references[0] if references else {})
    if "oneOf" in part and "type" not in kept and "$ref" not in kept:
        kept["type"] = "string"
    return kept


def _v2_operation(operation: Obj) -> Obj:
    kept = ("tags", "operationId", "x-kubernetes-action", "x-kubernetes-group-version-kind")
    parameters = [
        {**{name: given[name] for name in ("name", "in")}, **given["schema"]}
        for given in operation["parameters"]
    ]
    answers = {
        code: {
            "description": "OK",
            **(
                {"schema": _to_v2(answer["content"]["application/json"]["schema"])}
                if answer.get("content")
                else {}
            ),
        }
        for code, answer in operation["responses"].items()
    }
    return {
        **{name: operation[name] for name in kept},
        "parameters": parameters,
        "responses": answers,
    }
