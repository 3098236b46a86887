"""The requests that a kind answers, path by path: its collections, its objects, and the parts of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.deleting import SHOWN_WHEN_GONE
from pytest_kscen.machinery.openapi.components import META, REF, type_of
from pytest_kscen.machinery.recorded import definition_of

if TYPE_CHECKING:
    from pytest_kscen.machinery.kinds import Kind, Subresource
    from pytest_kscen.objects.resources import Obj

WRITING = ("dryRun", "fieldManager", "fieldValidation")
LISTING = (
    *("allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "resourceVersionMatch"),
    *("sendInitialEvents", "shardSelector", "timeoutSeconds", "watch"),
)
EVEN_UNREADABLE = "ignoreStoreReadErrorWithClusterBreakingPotential"
DELETING = ("dryRun", "gracePeriodSeconds", EVEN_UNREADABLE, "orphanDependents", "propagationPolicy")
EMPTYING = tuple(sorted({*LISTING, *DELETING} - {"watch", "allowWatchBookmarks"}))
BOOLEANS = {"allowWatchBookmarks", "sendInitialEvents", "watch", "force", "orphanDependents", EVEN_UNREADABLE}
INTEGERS = {"limit", "timeoutSeconds", "gracePeriodSeconds"}
ENCODINGS = ("application/json", "application/vnd.kubernetes.protobuf", "application/yaml")
PATCHES = (
    *("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"),
    "application/strategic-merge-patch+json",
)
# verb: method, how its id begins, what Kubernetes calls it, parameters, the codes of its answers
VERBS: dict[str, tuple[str, str, str, tuple[str, ...], tuple[str, ...]]] = {
    "list": ("get", "list", "list", LISTING, ("200",)),
    "create": ("post", "create", "post", WRITING, ("200", "201", "202")),
    "deletecollection": ("delete", "delete", "deletecollection", EMPTYING, ("200",)),
    "get": ("get", "read", "get", (), ("200",)),
    "update": ("put", "replace", "put", WRITING, ("200", "201")),
    "patch": ("patch", "patch", "patch", ("dryRun", "fieldManager", "fieldValidation", "force"), ("200", "201")),
    "delete": ("delete", "delete", "delete", DELETING, ("200", "202")),
}
OF_COLLECTIONS, OF_OBJECTS = ("list", "create", "deletecollection"), ("get", "update", "patch", "delete")


def paths_of(kind: Kind) -> dict[str, Obj]:
    resource = kind.resource
    root = resource.path("{namespace}")
    found: dict[str, Obj] = {}
    if collection := {verb: _operation(kind, verb) for verb in OF_COLLECTIONS if verb in kind.verbs}:
        found[root] = _methods(collection, _places(kind, named=False))
    if single := {verb: _operation(kind, verb) for verb in OF_OBJECTS if verb in kind.verbs}:
        found[f"{root}/{{name}}"] = _methods(single, _places(kind, named=True))
    if resource.namespaced and "list" in kind.verbs:
        found[resource.path()] = _methods({"list": _operation(kind, "list", everywhere=True)}, [_parameter("pretty")])
    for name, part in kind.subresources.items():
        if part.kind.endswith("Options"):
            continue  # connections are no requests with an answer
        operations = {verb: _operation(kind, verb, name, part) for verb in part.verbs if verb in VERBS}
        found[f"{root}/{{name}}/{name}"] = _methods(operations, _places(kind, named=True))
    return found


def _methods(operations: dict[str, Obj], places: list[Obj]) -> Obj:
    """A path: what all its methods take is said once."""
    taken = [operation["parameters"] for operation in operations.values()]
    shared = [given for given in taken[0] if all(given in others for others in taken)]
    methods = {
        VERBS[verb][0]: {**said, "parameters": [given for given in said["parameters"] if given not in shared]}
        for verb, said in operations.items()
    }
    return {**methods, "parameters": [*places, *shared]}


def _places(kind: Kind, *, named: bool) -> list[Obj]:
    names = [*(["name"] if named else []), *(["namespace"] if kind.resource.namespaced else [])]
    within = [{"name": name, "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}} for name in names]
    return [*within, _parameter("pretty")]


def _parameter(name: str) -> Obj:
    type_ = "boolean" if name in BOOLEANS else "integer" if name in INTEGERS else "string"
    return {"name": name, "in": "query", "schema": {"type": type_, "uniqueItems": True}}


def _operation(kind: Kind, verb: str, part: str = "", subresource: Subresource | None = None, *, everywhere: bool = False) -> Obj:
    _, begins, action, parameters, codes = VERBS[verb]
    resource = kind.resource
    gvk = _gvk(kind, subresource)
    answer = {"type": "string"} if part == "log" else _answer(kind, verb, gvk)
    operation: Obj = {
        "tags": [f"{_group(resource.group, lower=True)}_{resource.version}"],
        "operationId": _identity(kind, begins, verb, part, everywhere=everywhere),
        "parameters": [_parameter(name) for name in parameters],
        "responses": {
            **{code: _content(answer, watchable=verb == "list") for code in codes},
            "401": {"description": "Unauthorized"},
        },
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": gvk,
    }
    if body := _body(kind, verb, gvk):
        operation["requestBody"] = body
    return operation


def _gvk(kind: Kind, subresource: Subresource | None) -> Obj:
    resource = kind.resource
    if subresource and subresource.kind:
        group, _, version = (subresource.api_version or resource.api_version).rpartition("/")
        return {"group": group, "version": version, "kind": subresource.kind}
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _identity(kind: Kind, begins: str, verb: str, part: str, *, everywhere: bool) -> str:
    resource = kind.resource
    version = resource.version[0].upper() + resource.version[1:]
    collection = "Collection" if verb == "deletecollection" else ""
    namespaced = "Namespaced" if resource.namespaced and not everywhere else ""
    ends = "ForAllNamespaces" if everywhere else part[:1].upper() + part[1:]
    return f"{begins}{_group(resource.group)}{version}{collection}{namespaced}{resource.kind}{ends}"


def _group(group: str, *, lower: bool = False) -> str:
    """A group in an identifier: `rbac.authorization.k8s.io` is RbacAuthorization."""
    words = (group.removesuffix(".k8s.io") or "core").replace("-", ".").split(".")
    name = "".join(word[:1].upper() + word[1:] for word in words)
    return name[0].lower() + name[1:] if lower else name


def _type(kind: Kind, gvk: Obj) -> Obj:
    own = gvk["kind"] == kind.resource.kind and gvk["group"] == kind.resource.group
    name = type_of(kind) if own else definition_of(gvk["group"], gvk["version"], gvk["kind"])
    return {"$ref": REF + name} if name else {"type": "string"}


def _answer(kind: Kind, verb: str, gvk: Obj) -> Obj:
    if verb == "list":
        return {"$ref": REF + type_of(kind, is_list=True)}
    if verb == "deletecollection" or (verb == "delete" and kind.home not in SHOWN_WHEN_GONE):
        return {"$ref": f"{REF}{META}.Status"}
    return _type(kind, gvk)


def _content(schema: Obj, *, watchable: bool) -> Obj:
    streams = [f"{encoding};stream=watch" for encoding in ENCODINGS[:2]] if watchable else []
    return {"description": "OK", "content": {encoding: {"schema": schema} for encoding in sorted([*ENCODINGS, *streams])}}


def _body(kind: Kind, verb: str, gvk: Obj) -> Obj | None:
    if verb == "patch":
        patches = [patch for patch in PATCHES if not (kind.custom and "strategic" in patch)]
        return _taking({patch: {"$ref": f"{REF}{META}.Patch"} for patch in patches}, required=True)
    if verb in {"delete", "deletecollection"}:
        return _taking({"*/*": {"$ref": f"{REF}{META}.DeleteOptions"}}, required=False)
    if verb in {"create", "update"}:
        return _taking({("application/json" if kind.custom else "*/*"): _type(kind, gvk)}, required=True)
    return None


def _taking(schemas: dict[str, Any], *, required: bool) -> Obj:
    content = {media: {"schema": schema} for media, schema in schemas.items()}
    return {"content": content, **({"required": True} if required else {})}
