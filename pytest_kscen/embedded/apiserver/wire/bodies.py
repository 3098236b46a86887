"""Request bodies as plain JSON, from JSON, YAML or protobuf.

Unreadable bodies are refused with the messages of the real decoder. Called by `requests`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import orjson
import yaml

from pytest_kscen.embedded.apiserver.wire.media_types import PROTOBUF, YAML
from pytest_kscen.embedded.apiserver.wire.parsing import load_yaml, parse_json, syntax_error
from pytest_kscen.embedded.apiserver.wire.queries import json_type
from pytest_kscen.kube.api import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from pytest_kscen.objects.errors import BadRequest, TooLarge

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

BODY_LIMIT = 3 * 1024 * 1024
QUOTED_BYTES = 30  # bytes of a body that a refusal quotes
TYPE_META = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string '
    r'"json:\"kind,omitempty\"" }'
)
VERSION_ERROR = "couldn't get version/kind; json parse error: "


class UnreadableBody(Exception):
    """Body that the decoder cannot read; the caller words the refusal."""


class UnreadablePatch(BadRequest):
    """Refusal of a patch, which yields to NotFound if the patched object does not exist."""


def check_size(body: bytes) -> None:
    if len(body) > BODY_LIMIT:
        raise TooLarge(f"Request entity too large: limit is {BODY_LIMIT}")


def read_object(body: bytes, type_: str, kind: str) -> tuple[Obj, list[str]]:
    """Return the object in a create or update, and its duplicate fields.

    Raises BadRequest with the decoder's message and the first bytes of the body.
    """
    try:
        parsed, duplicates = _parsed(body, type_)
        return _checked_object(parsed), duplicates
    except UnreadableBody as error:
        raise _unrecognized(str(error), body, kind) from error


def check_custom(parsed: Obj, body: bytes, kind: str, api_version: str, *, lenient: bool) -> None:
    if not parsed.get("kind"):
        why = f"Object 'Kind' is missing in '{body.decode(errors='replace')}'"
        if lenient:
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
    quote = "<empty>"
    if body:
        head = body[:QUOTED_BYTES]
        more = " ..." if len(body) > QUOTED_BYTES else ""
        quote = (head.decode(errors="replace") if head[:1] == b"{" else head.hex()) + more
    return BadRequest(
        f"the object provided is unrecognized (must be of type {kind}): {why} ({quote})"
    )


def read_delete_options(body: bytes, type_: str) -> Obj:
    try:
        return _checked_object(_parsed(body, type_)[0])
    except UnreadableBody as error:
        raise BadRequest(str(error)) from error


def read_patch(body: bytes, patch_type: str) -> tuple[Any, list[str]]:
    """Return a patch of any type, and its duplicate fields.

    Server-side apply is read as YAML, all other patches as JSON. Raises UnreadablePatch.
    """
    if patch_type == APPLY_PATCH:
        try:
            parsed, duplicates = _yaml(body, "error decoding YAML: error converting YAML to JSON: ")
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
        return parsed or {}, duplicates
    prefix = "" if patch_type == STRATEGIC_PATCH else "error decoding patch: "
    try:
        parsed, duplicates = _json(body, prefix)
        return _patch(parsed, patch_type, prefix), duplicates
    except UnreadableBody as error:
        raise UnreadablePatch(str(error)) from error


def _parsed(body: bytes, type_: str) -> tuple[Any, list[str]]:
    if type_ == YAML:
        return _yaml(body)
    if type_ != PROTOBUF:
        return _json(body, VERSION_ERROR)
    from pytest_kscen.embedded.apiserver.wire.protobuf import decode_object

    try:
        return decode_object(body), []
    except (ValueError, struct.error) as error:
        raise UnreadableBody(str(error)) from error


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
        return parse_json(body)
    except orjson.JSONDecodeError as error:
        raise UnreadableBody(prefix + (syntax_error(body) or str(error))) from error


def _yaml(body: bytes, prefix: str = "") -> tuple[Any, list[str]]:
    try:
        return load_yaml(body)
    except yaml.YAMLError as error:
        raise UnreadableBody(prefix + _go_yaml_error(error)) from error


def _go_yaml_error(error: yaml.YAMLError) -> str:
    """Return a YAML error in the Go parser's form: lines count from 0, the first is not
    mentioned.
    """
    if not isinstance(error, yaml.MarkedYAMLError) or not error.problem:
        return f"yaml: {error}"
    problem, context = (
        mark.line if mark else 0 for mark in (error.problem_mark, error.context_mark)
    )
    line = problem + isinstance(error, yaml.scanner.ScannerError) if problem else context
    return f"yaml: line {line}: {error.problem}" if line else f"yaml: {error.problem}"


def _checked_object(parsed: Any) -> Obj:
    if parsed is None:
        return {}
    if isinstance(parsed, dict):
        for name in ("kind", "apiVersion"):
            if not isinstance(parsed.get(name, ""), str | None):
                why = (
                    f"json: cannot unmarshal {json_type(parsed[name])} into Go struct field "
                    f".{name} of type string"
                )
                raise UnreadableBody(VERSION_ERROR + why)
        if (parsed.get("apiVersion") or "").count("/") > 1:
            raise UnreadableBody(f"unexpected GroupVersion string: {parsed['apiVersion']}")
        return parsed
    raise UnreadableBody(
        f"{VERSION_ERROR}json: cannot unmarshal {json_type(parsed)} into Go value of type "
        f"{TYPE_META}"
    )
