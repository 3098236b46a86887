"""Custom resource of a case: its definition, and creation of its objects.

Each case defines a kind of its own. Chapters that need custom resources import this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_kscen.clusters.conformance.case import CaseClient, CaseResponse

GROUP = "conformance.example.com"
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
        "colour": {"type": "string", "enum": ["red", "blue"]},
        "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
        "count": {"x-kubernetes-int-or-string": True},
        "nothing": {"type": "string", "nullable": True},
        "tags": {
            "type": "array",
            "maxItems": 2,
            "items": {"type": "string"},
            "x-kubernetes-list-type": "set",
        },
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["id"],
            "items": {
                "type": "object",
                "required": ["id"],
                "properties": {"id": {"type": "string"}, "weight": {"type": "integer"}},
            },
        },
        "free": OPEN,
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "replicas": {"type": "integer"},
        "ratio": {"type": "number"},
        "on": {"type": "boolean"},
    },
    "x-kubernetes-validations": [
        {
            "rule": "!has(self.replicas) || self.replicas <= self.size",
            "message": "no more replicas than size",
            "fieldPath": ".replicas",
        }
    ],
}


def definition(client: CaseClient, **version: Any) -> dict[str, Any]:
    """Return a kind of the client's own, as definitions are cluster-wide and cases run together."""
    plural = f"w{client.namespace.rpartition('-')[2]}"
    served = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC, "status": OPEN}}
        },
        **version,
    }
    return {
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.upper()},
            "versions": [served],
        },
    }


class Widgets:
    """Create a definition and return it once it is established."""

    def __init__(self, client: CaseClient, **version: Any) -> None:
        self.client = client
        body = definition(client, **version)
        self.name = body["metadata"]["name"]
        self.kind = body["spec"]["names"]["kind"]
        client.post("customresourcedefinitions", body).ok(201)
        client.until(self._established)
        self.path = (
            f"/apis/{GROUP}/v1/namespaces/{client.namespace}/{body['spec']['names']['plural']}"
        )
        client.until(lambda: client.get(self.path).status == 200)  # noqa: PLR2004

    def _established(self) -> bool:
        found = self.client.get(f"customresourcedefinitions/{self.name}").ok()
        conditions = {
            one["type"]: one["status"] for one in found.get("status", {}).get("conditions") or ()
        }
        return conditions.get("Established") == "True"

    def body(self, spec: Any = None, **more: Any) -> dict[str, Any]:
        head = {"apiVersion": f"{GROUP}/v1", "kind": self.kind, "metadata": {"name": "w"}}
        return {**head, **({} if spec is None else {"spec": spec}), **more}

    def make(self, spec: Any = None, **query: Any) -> CaseResponse:
        return self.client.post(self.path, self.body(spec), **query)
