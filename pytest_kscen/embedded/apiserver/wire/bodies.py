"""A request's body as plain JSON; what cannot be read is refused in the words of the real
decoder.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import orjson
import yaml

from pytest_kscen.embedded.apiserver.wire.media_types import PROTOBUF, YAML
from pytest_kscen.embedded.apiserver.wire.parsing import load_yaml, parsed_json, why_malformed
from pytest_kscen.embedded.apiserver.wire.queries import json_type
from pytest_kscen.kube.api import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from pytest_kscen.objects.errors import BadRequest, TooLarge

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

LARGEST = 3 * 1024 * 1024
SHOWN = 30  # bytes of a body that a refusal quotes
TYPE_META = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string '
    r'"json:\"kind,omitempty\"" }'
)
VERSION_FIRST = "couldn't get version/kind; json parse error: "


class UnreadableBody(Exception):
    """Why the decoder gave up; whoever asked says it in his own words."""


class UnreadablePatch(BadRequest):
    """A refusal that gives way to the one that the patch's object is not there."""


def check_size(body: bytes) -> None:
    if len(body) > LARGEST:
        raise TooLarge(f"Request entity too large: limit is {LARGEST}")


def object_in(body: bytes, type_: str, kind: str) -> tuple[Obj, list[str]]:
    """The object that a create or an update sends, and what it says twice."""
    try:
        parsed, doubles = _parsed(body, type_)
        return _mapping(parsed), doubles
    except UnreadableBody as error:
        raise _unrecognized(str(error), body, kind) from error


def check_custom(parsed: Obj, body: bytes, kind: str, api_version: str, *, leniently: bool) -> None:
    """A body of a custom kind has to say what it is."""
    if not parsed.get("kind"):
        why = f"Object 'Kind' is missing in '{body.decode(errors='replace')}'"
        if leniently:
            raise BadRequest(
                f'{kind} in version "{api_version.rpartition("/")[2]}" cannot be handled '
                f"as a {kind}: {why}"
            )
        raise _unrecognized(why, body, kind)
    if not parsed.get("apiVersion"):
        raise BadRequest(
            "the API version in the data () does not match the expected API version "
            f"({api_version})"
        )


def _unrecognized(why: str, body: bytes, kind: str) -> BadRequest:
    return BadRequest(
        f"the object provided is unrecognized (must be of type {kind}): {why} ({_summary(body)})"
    )


def options_in(body: bytes, type_: str) -> Obj:
    """The DeleteOptions that a delete sends."""
    try:
        return _mapping(_parsed(body, type_)[0])
    except UnreadableBody as error:
        raise BadRequest(str(error)) from error


def patch_in(body: bytes, patch_type: str) -> tuple[Any, list[str]]:
    """A patch of any type."""
    if patch_type == APPLY_PATCH:
        return _applied(body)
    prefix = "" if patch_type == STRATEGIC_PATCH else "error decoding patch: "
    try:
        parsed, doubles = _json(body, prefix)
        return _patch(parsed, patch_type, prefix), doubles
    except UnreadableBody as error:
        raise UnreadablePatch(str(error)) from error


def _parsed(body: bytes, type_: str) -> tuple[Any, list[str]]:
    if type_ == YAML:
        return _yaml(body)
    return (_protobuf(body), []) if type_ == PROTOBUF else _json(body, VERSION_FIRST)


def _applied(body: bytes) -> tuple[Obj, list[str]]:
    try:
        parsed, doubles = _yaml(body, "error decoding YAML: error converting YAML to JSON: ")
    except UnreadableBody as error:
        raise BadRequest(str(error)) from error
    if parsed is not None and not isinstance(parsed, dict):
        why = (
            f"json: cannot unmarshal {json_type(parsed)} into Go value of type "
            "map[string]interface {}"
        )
        raise BadRequest(
            f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {why}"
        )
    return parsed or {}, doubles


def _patch(parsed: Any, patch_type: str, prefix: str) -> Any:
    if parsed is None:
        if patch_type == MERGE_PATCH:
            raise UnreadableBody("Invalid JSON Patch")
        return [] if patch_type == JSON_PATCH else {}
    if not isinstance(parsed, dict) and patch_type != JSON_PATCH:
        raise UnreadableBody(
            f"{prefix}json: cannot unmarshal {json_type(parsed)} into Go value of type "
            "map[string]interface {}"
        )
    return parsed


def _json(body: bytes, prefix: str) -> tuple[Any, list[str]]:
    try:
        return parsed_json(body)
    except orjson.JSONDecodeError as error:
        raise UnreadableBody(prefix + (why_malformed(body) or str(error))) from error


def _protobuf(body: bytes) -> Obj:
    from pytest_kscen.embedded.apiserver.wire.protobuf import decoded

    try:
        return decoded(body)
    except (ValueError, struct.error) as error:
        raise UnreadableBody(str(error)) from error


def _yaml(body: bytes, prefix: str = "") -> tuple[Any, list[str]]:
    try:
        return load_yaml(body)
    except yaml.YAMLError as error:
        raise UnreadableBody(prefix + _go_yaml(error)) from error


def _go_yaml(error: yaml.YAMLError) -> str:
    """The line and the problem, as the Go parser writes them: it counts from 0, and does not
    mention the first line.
    """
    if not isinstance(error, yaml.MarkedYAMLError) or not error.problem:
        return f"yaml: {error}"
    problem, context = (
        mark.line if mark else 0 for mark in (error.problem_mark, error.context_mark)
    )
    line = problem + isinstance(error, yaml.scanner.ScannerError) if problem else context
    return f"yaml: line {line}: {error.problem}" if line else f"yaml: {error.problem}"


def _mapping(parsed: Any) -> Obj:
    if parsed is None:
        return {}
    if isinstance(parsed, dict):
        for name in ("kind", "apiVersion"):
            if not isinstance(parsed.get(name, ""), str | None):
                why = (
                    f"json: cannot unmarshal {json_type(parsed[name])} into Go struct field "
                    f".{name} of type string"
                )
                raise UnreadableBody(VERSION_FIRST + why)
        if (parsed.get("apiVersion") or "").count("/") > 1:
            raise UnreadableBody(f"unexpected GroupVersion string: {parsed['apiVersion']}")
        return parsed
    raise UnreadableBody(
        f"{VERSION_FIRST}json: cannot unmarshal {json_type(parsed)} into Go value of type "
        f"{TYPE_META}"
    )


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    more = " ..." if len(body) > SHOWN else ""
    head = body[:SHOWN]
    return (head.decode(errors="replace") if head[:1] == b"{" else head.hex()) + more
