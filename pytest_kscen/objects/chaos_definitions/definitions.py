"""The definitions as a cluster is given them.

Chaos is as it is shipped. The four by which an engine lives have our fields beside the shipped ones, in Chaos Mesh's group or
in our own, and keep chaos of a kind that we do not know.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.chaos_definitions import additions
from pytest_kscen.objects.chaos_definitions.composing import recorded, schema_of
from pytest_kscen.objects.chaos_mesh import GROUP, KINDS, VERSION
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

LIKE_THEM = "PodChaos"
"""A kind whose status is what all kinds of chaos have, and nothing else."""
BESIDE = ("PodNetworkChaos",)
"""What Chaos Mesh keeps for itself."""
FOUR = ("Workflow", "WorkflowNode", "Schedule", "StatusCheck")


@functools.cache
def chaos_definitions() -> tuple[Obj, ...]:
    """Every kind of chaos. A few are shipped only as part of a workflow's templates."""
    shipped = recorded().shipped
    return tuple(_definition(shipped.get(kind) or _from_templates(kind)) for kind in (*KINDS, *BESIDE))


@functools.cache
def shipped_definition(kind: str) -> Obj:
    """One as Chaos Mesh itself installs it."""
    return _definition(recorded().shipped[kind])


@functools.cache
def engine_definitions(group: str = GROUP) -> tuple[Obj, ...]:
    """Workflow, WorkflowNode, Schedule and StatusCheck."""
    return tuple(_definition({**_enriched(kind), "group": group}) for kind in FOUR)


def _definition(spec: Obj) -> Obj:
    return {
        "apiVersion": CUSTOM_RESOURCE_DEFINITIONS.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITIONS.kind,
        "metadata": {"name": f"{spec['names']['plural']}.{spec['group']}"},
        "spec": spec,
    }


def _from_templates(kind: str) -> Obj:
    chaos = KINDS[kind]
    schema = with_at(schema_of(recorded().shipped[LIKE_THEM]), ("properties", "spec"), _template()["properties"][chaos.key])
    plural = chaos.resource.plural
    return {
        "group": GROUP,
        "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": plural},
        "scope": "Namespaced",
        "versions": [
            {
                "name": VERSION,
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": schema},
                "additionalPrinterColumns": [
                    additions.column("action", ".spec.action"),
                    additions.column("duration", ".spec.duration"),
                ],
                "subresources": {},
            }
        ],
    }


def _template() -> Obj:
    workflow = schema_of(recorded().shipped["Workflow"])
    return workflow["properties"]["spec"]["properties"]["templates"]["items"]  # type: ignore[no-any-return]


@functools.cache
def _enriched(kind: str) -> Obj:
    spec = recorded().shipped[kind]
    (version,) = spec["versions"]
    enriched = {
        **version,
        "schema": {"openAPIV3Schema": _ENRICHERS[kind](schema_of(spec))},
        "subresources": {"status": {}},
        "additionalPrinterColumns": additions.COLUMNS[kind],
    }
    return {**spec, "versions": [enriched]}


def _workflow(schema: Obj) -> Obj:
    spec = _workflow_spec(schema["properties"]["spec"])
    return with_fields(with_at(schema, ("properties", "spec"), spec), ("status",), additions.WORKFLOW_STATUS)


@functools.cache
def _enriched_spec() -> Obj:
    return _workflow_spec(schema_of(recorded().shipped["Workflow"])["properties"]["spec"])


def _workflow_spec(spec: Obj) -> Obj:
    with_task = with_fields(_template(), ("task",), additions.TASK)
    template = {**with_fields(with_task, (), additions.TEMPLATE), **additions.ANYTHING}
    return with_fields(with_at(spec, ("properties", "templates", "items"), template), (), additions.WORKFLOW)


def _node(schema: Obj) -> Obj:
    enriched = with_fields(with_fields(schema, ("spec",), additions.NODE), ("status",), additions.NODE_STATUS)
    enriched = with_fields(enriched, ("spec", "task"), additions.TASK)
    return with_at(enriched, ("properties", "spec"), {**enriched["properties"]["spec"], **additions.ANYTHING})


def _schedule(schema: Obj) -> Obj:
    return with_at(schema, ("properties", "spec", "properties", "workflow"), _enriched_spec())


def _status_check(schema: Obj) -> Obj:
    return with_fields(schema, ("status",), additions.STATUS_CHECK_STATUS)


_ENRICHERS = {"Workflow": _workflow, "WorkflowNode": _node, "Schedule": _schedule, "StatusCheck": _status_check}


def with_fields(schema: Obj, path: tuple[str, ...], fields: Obj) -> Obj:
    """The schema with more properties; what it has already stays as it is."""
    if path:
        inner = with_fields(schema["properties"][path[0]], path[1:], fields)
        return with_at(schema, ("properties", path[0]), inner)
    return {**schema, "properties": {**fields, **schema["properties"]}}


def with_at(value: Obj, path: tuple[str, ...], new: Any) -> Obj:
    """The same with something else at a path; what lies beside it is shared."""
    first, *rest = path
    return {**value, first: with_at(value[first], tuple(rest), new) if rest else new}
