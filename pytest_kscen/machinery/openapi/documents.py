"""Whole documents: OpenAPI v3 for each group and version, with an index, and v2 of everything."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.machinery.openapi.components import REF, custom_types, recorded_types
from pytest_kscen.machinery.openapi.paths import paths_of
from pytest_kscen.machinery.recorded import version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_kscen.machinery.kinds import Kind
    from pytest_kscen.objects.resources import Obj

TOKEN = {"BearerToken": {"type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header"}}
REMEMBERED = 128
_rebuilt: OrderedDict[str, Obj] = OrderedDict()


def v3_index(kinds: Iterable[Kind]) -> Obj:
    """Where each document is; its address changes when it does."""
    return {
        "paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={_digest(own)}"} for path, own in _by_path(kinds).items()}
    }


def v3(kinds: Iterable[Kind], path: str) -> Obj | None:
    """The document at a path such as `apis/apps/v1`; nothing if it is not in the index."""
    own = _by_path(kinds).get(path)
    if own is None:
        return None
    key = _digest(own)
    if key not in _rebuilt:
        _rebuilt[key] = _document(own)
        if len(_rebuilt) > REMEMBERED:
            _rebuilt.popitem(last=False)
    return _rebuilt[key]


def v2(kinds: Iterable[Kind]) -> Obj:
    """All kinds in the older form: types under `definitions`, and the bare paths."""
    every = _document([kind for own in _by_path(kinds).values() for kind in own])
    return {
        "swagger": "2.0",
        "info": every["info"],
        "paths": {path: _older_path(methods) for path, methods in every["paths"].items()},
        "definitions": _older(every["components"]["schemas"]),
        "securityDefinitions": TOKEN,
        "security": [{"BearerToken": []}],
    }


def _by_path(kinds: Iterable[Kind]) -> dict[str, list[Kind]]:
    found: dict[str, list[Kind]] = {}
    for kind in kinds:
        group, name = kind.resource.group, kind.resource.version
        found.setdefault(f"apis/{group}/{name}" if group else f"api/{name}", []).append(kind)
    return found


def _digest(kinds: list[Kind]) -> str:
    said = [[kind.api_version, kind.resource.plural, sorted(kind.subresources), kind.structure] for kind in kinds]
    return hashlib.sha256(orjson.dumps([version()["gitVersion"], said])).hexdigest().upper()


def _document(kinds: list[Kind]) -> Obj:
    paths = {path: methods for kind in kinds for path, methods in sorted(paths_of(kind).items())}
    custom = {name: schema for kind in kinds if kind.custom for name, schema in custom_types(kind).items()}
    wanted = {name for name in _references([paths, custom]) if name not in custom}
    schemas = {**recorded_types(sorted(wanted)), **custom}
    info = {"title": "Kubernetes", "version": ".".join((version()["major"], version()["minor"]))}
    return {
        "openapi": "3.0.0",
        "info": info,
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": dict(sorted(schemas.items())), "securitySchemes": TOKEN},
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


def _older(part: Any) -> Any:
    """v2 has no alternatives, no null, and its references point elsewhere."""
    if isinstance(part, list):
        return [_older(inner) for inner in part]
    if not isinstance(part, dict):
        return part
    kept = {name: _older(inner) for name, inner in part.items() if name not in {"nullable", "anyOf", "oneOf", "not"}}
    if isinstance(kept.get("$ref"), str):
        kept["$ref"] = kept["$ref"].replace(REF, "#/definitions/")
    if isinstance(kept.get("allOf"), list):
        references = [inner for inner in kept.pop("allOf") if "$ref" in inner]
        kept.update(references[0] if references else {})
    if "oneOf" in part and "type" not in kept and "$ref" not in kept:
        kept["type"] = "string"
    return kept


def _older_path(methods: Obj) -> Obj:
    return {method: _older_operation(said) for method, said in methods.items() if method != "parameters"}


def _older_operation(said: Obj) -> Obj:
    kept = ("tags", "operationId", "x-kubernetes-action", "x-kubernetes-group-version-kind")
    parameters = [{**{name: given[name] for name in ("name", "in")}, **given["schema"]} for given in said["parameters"]]
    answers = {code: {"description": "OK", **_older_answer(answer)} for code, answer in said["responses"].items()}
    return {**{name: said[name] for name in kept}, "parameters": parameters, "responses": answers}


def _older_answer(answer: Obj) -> Obj:
    content = answer.get("content")
    return {"schema": _older(content["application/json"]["schema"])} if content else {}
