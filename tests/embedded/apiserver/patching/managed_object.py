"""Object with several writers: effects of the verbs on managedFields, without the verbs."""

from __future__ import annotations

from pytest_kscen.embedded.apiserver.builtin_kinds import builtin_kinds
from pytest_kscen.embedded.apiserver.kinds import Kind, Subresource
from pytest_kscen.embedded.apiserver.patching import apply_patch, is_unchanged, track
from pytest_kscen.kube.api import APPLY_PATCH, MERGE_PATCH, Options, Request
from pytest_kscen.objects.resources import Resource

START = 1767225600.0

WIDGET_SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "replicas": {"type": "integer"},
                "size": {"type": "string"},
                "tags": {
                    "type": "array",
                    "x-kubernetes-list-type": "set",
                    "items": {"type": "string"},
                },
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "properties": {"name": {"type": "string"}, "v": {"type": "integer"}},
                    },
                },
                "plain": {"type": "array", "items": {"type": "string"}},
                "whole": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "additionalProperties": {"type": "string"},
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "status": {
            "type": "object",
            "properties": {"phase": {"type": "string"}, "ready": {"type": "integer"}},
        },
    },
}


def widget_kind() -> Kind:
    resource = Resource("example.com", "v1", "widgets", "Widget")
    return Kind(
        resource,
        subresources={"status": Subresource(("get", "patch", "update"))},
        custom=True,
        structure=WIDGET_SCHEMA,
    )


def builtin(kind: str) -> Kind:
    return next(each for each in builtin_kinds() if each.resource.kind == kind)


def decoded(value):
    """Return a copy without nulls."""
    if isinstance(value, dict):
        return {name: decoded(part) for name, part in value.items() if part is not None}
    return [decoded(part) for part in value] if isinstance(value, list) else value


class ManagedObject:
    """Stored object, and a clock that advances by a second with each write."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.live = None
        self.at = START

    def apply(self, manager: str, *, force: bool = False, subresource: str = "", **content):
        options = Options(field_manager=manager, force=force)
        return self._write(
            Request(
                "patch",
                self.kind.resource,
                "n",
                "w",
                subresource,
                self._body(content),
                options,
                APPLY_PATCH,
            )
        )

    def merge(self, manager: str, patch, *, subresource: str = ""):
        options = Options(field_manager=manager)
        return self._write(
            Request("patch", self.kind.resource, "n", "w", subresource, patch, options, MERGE_PATCH)
        )

    def create(self, manager: str, **content):
        request = Request(
            "create",
            self.kind.resource,
            "n",
            "",
            "",
            self._body(content),
            Options(field_manager=manager),
        )
        return self._write(request)

    def put(self, manager: str, *, subresource: str = "", **content):
        request = Request(
            "update",
            self.kind.resource,
            "n",
            "w",
            subresource,
            self._body(content),
            Options(field_manager=manager),
        )
        return self._write(request)

    def owners(self, *, times: bool = False):
        """Return the field set (and time) of each writer."""
        entries = (self.live or {})["metadata"].get("managedFields", ())
        return {
            "/".join(
                filter(None, (entry["manager"], entry["operation"], entry.get("subresource")))
            ): ((entry["fieldsV1"], entry.get("time")) if times else entry["fieldsV1"])
            for entry in entries
        }

    def _body(self, content):
        metadata = {"name": "w", **content.pop("metadata", {})}
        return {
            "apiVersion": self.kind.api_version,
            "kind": self.kind.resource.kind,
            "metadata": metadata,
            **content,
        }

    def _write(self, request: Request):
        self.at += 1
        body = (
            apply_patch(self.kind, self.live, request, self.at)
            if request.verb == "patch"
            else request.body
        )
        owners = body["metadata"].get("managedFields")
        new = decoded(
            {
                **body,
                "metadata": {
                    name: value
                    for name, value in body["metadata"].items()
                    if name != "managedFields"
                },
            }
        )
        new["metadata"]["uid"] = "u"
        if owners is not None:
            new["metadata"]["managedFields"] = owners
        track(self.kind, request, new, self.live, self.at)
        new = self._settled(new, request.subresource)
        if self.live is None or not is_unchanged(new, self.live):
            self.live = new
        return self.live

    def _settled(self, new, subresource: str):
        """Keep the status in a write of the main resource, and everything else in a write of the
        status.
        """
        live = self.live or {}
        status = new.pop("status", None) if subresource else live.get("status")
        if subresource:
            owners = {
                name: value for name, value in new["metadata"].items() if name == "managedFields"
            }
            new = {**live, "metadata": {**live["metadata"], **owners}}
        new.pop("status", None)
        return new if status is None else {**new, "status": status}
