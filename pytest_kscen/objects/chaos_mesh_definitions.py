"""CustomResourceDefinitions of Chaos Mesh: the shipped ones, and the engine's extensions of four.

Data and its composition; installed by others. Chaos kinds are as shipped. The engine's kinds have
further optional fields, in Chaos Mesh's group or in our own, and keep chaos of unknown kinds.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.objects.chaos_mesh import CRON_WORKFLOWS, GROUP, KINDS, VERSION
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_kscen.objects.resources import Obj


DATA = Path(__file__).parent / "data" / "chaos-mesh.json"
PART = "$part"


class RecordedDefinitions:
    def __init__(self, content: Obj) -> None:
        self._parts: dict[str, Obj] = content["parts"]
        self._whole: dict[str, Any] = {}
        self.shipped: dict[str, Obj] = {
            kind: self._put_together(spec) for kind, spec in content["shipped"].items()
        }
        """Specs of the shipped definitions, by kind."""

    def part(self, name: str) -> Any:
        if name not in self._whole:
            self._whole[name] = self._put_together(self._parts[name])
        return self._whole[name]

    def _put_together(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._put_together(inner) for inner in value]
        if not isinstance(value, dict):
            return value
        if PART in value:
            return self.part(value[PART])
        return {key: self._put_together(inner) for key, inner in value.items()}


@functools.cache
def recorded() -> RecordedDefinitions:
    return RecordedDefinitions(orjson.loads(DATA.read_bytes()))


def schema_of(spec: Obj) -> Obj:
    return spec["versions"][0]["schema"]["openAPIV3Schema"]  # type: ignore[no-any-return]


# Fields that the engine adds to its four definitions. All are optional.

TEXT: Obj = {"type": "string"}
MOMENT: Obj = {"type": "string", "format": "date-time"}
COUNT: Obj = {"type": "integer", "minimum": 0}
NUMBER: Obj = {"type": "number"}
FLAG: Obj = {"type": "boolean"}
ANYTHING: Obj = {"x-kubernetes-preserve-unknown-fields": True}
OBJECT: Obj = {"type": "object", **ANYTHING}
TEXTS: Obj = {"type": "array", "items": TEXT}


def record(required: tuple[str, ...] = (), **fields: Any) -> Obj:
    return {
        "type": "object",
        **({"required": list(required)} if required else {}),
        "properties": fields,
    }


def many(items: Obj) -> Obj:
    return {"type": "array", "items": items}


RETRY = record(limit=COUNT, backoff=record(duration=TEXT, factor=NUMBER, maxDuration=TEXT))
HTTP = record(
    ("url",),
    url=TEXT,
    method=TEXT,
    headers={"type": "object", "additionalProperties": ANYTHING},
    body=TEXT,
    criteria=record(statusCode={"x-kubernetes-int-or-string": True}, body=TEXT),
)
PROBE = record(
    ("name",),
    name=TEXT,
    when={"type": "string", "enum": ["Start", "End", "Edges", "Continuous", "OnChaos"]},
    http=HTTP,
    command=record(container=OBJECT, exitCode={"type": "integer"}, expression=TEXT),
    kubernetes=record(
        ("kind",),
        apiVersion=TEXT,
        kind=TEXT,
        name=TEXT,
        namespace=TEXT,
        labelSelector=TEXT,
        expression=TEXT,
    ),
    prometheus=record(("url", "query"), url=TEXT, query=TEXT, expression=TEXT),
    interval=TEXT,
    timeout=TEXT,
    initialDelay=TEXT,
    failureThreshold={"type": "integer", "minimum": 1},
    stopOnFailure=FLAG,
    weight=COUNT,
)
BUILT_IN_SOURCES = frozenset(("http", "command", "kubernetes", "prometheus"))
"""Fields by which the schema of a probe is found in a definition."""
TASK = {"annotations": {"type": "object", "additionalProperties": TEXT}}
TEMPLATE = {"retry": RETRY, "probes": many(PROBE), "duration": TEXT}
WORKFLOW = {
    "parameters": many(record(("name",), name=TEXT, value=ANYTHING, paths=TEXTS)),
    "onExit": TEXT,
    "probes": many(PROBE),
}
PROBE_STATUS = record(
    ("name",),
    name=TEXT,
    node=TEXT,
    when=TEXT,
    verdict=TEXT,
    message=TEXT,
    count=COUNT,
    failures=COUNT,
    weight=COUNT,
    lastProbeTime=MOMENT,
)
WORKFLOW_STATUS = {
    "phase": TEXT,
    "message": TEXT,
    "resilienceScore": NUMBER,
    "probes": many(PROBE_STATUS),
    "engine": record(
        ending=TEXT, entryPhase=TEXT, exitNode=TEXT, noted=MOMENT, hindrance=TEXT, message=TEXT
    ),
}
STATUS_CHECK_STATUS = {"message": TEXT}
NODE = {"retry": RETRY, "probes": many(PROBE)}
NODE_STATUS = {
    "phase": TEXT,
    "message": TEXT,
    "startTime": MOMENT,
    "endTime": MOMENT,
    "probes": many(PROBE_STATUS),
    "engine": record(
        attempt=COUNT,
        ending=TEXT,
        calledOff=FLAG,
        cleaning=FLAG,
        made=FLAG,
        heldUntil=MOMENT,
        deadlineAt=MOMENT,
        injectedUntil=MOMENT,
        cleanedUntil=MOMENT,
        retryAt=MOMENT,
        noted=MOMENT,
        children=TEXTS,
        chosen=TEXTS,
    ),
}


def column(name: str, path: str, type_: str = "string") -> Obj:
    return {"name": name, "jsonPath": path, "type": type_}


AGE = column("Age", ".metadata.creationTimestamp", "date")
COLUMNS = {
    "Workflow": [column("Phase", ".status.phase"), column("Entry", ".spec.entry"), AGE],
    "WorkflowNode": [
        column("Template", ".spec.templateName"),
        column("Type", ".spec.type"),
        column("Phase", ".status.phase"),
        column("Workflow", ".spec.workflowName"),
        AGE,
    ],
    "Schedule": [
        column("Type", ".spec.type"),
        column("Schedule", ".spec.schedule"),
        column("Last", ".status.time", "date"),
        AGE,
    ],
    "StatusCheck": [column("Mode", ".spec.mode"), column("Url", ".spec.http.url"), AGE],
}


TYPICAL_KIND = "PodChaos"
"""Kind whose status has the fields common to all kinds of chaos, and no others."""
INTERNAL_KINDS = ("PodNetworkChaos",)
"""Kinds that Chaos Mesh uses internally."""
ENGINE_KINDS = ("Workflow", "WorkflowNode", "Schedule", "StatusCheck")


@functools.cache
def chaos_definitions() -> tuple[Obj, ...]:
    """Return the definitions of all kinds of chaos. Some are shipped only within a workflow's
    templates, and are composed from there.
    """
    shipped = recorded().shipped
    return tuple(
        _definition(shipped.get(kind) or _from_templates(kind))
        for kind in (*KINDS, *INTERNAL_KINDS)
    )


@functools.cache
def engine_definitions(group: str = GROUP) -> tuple[Obj, ...]:
    return tuple(_definition({**_enriched(kind), "group": group}) for kind in ENGINE_KINDS)


def with_probe_forms(definition: Obj, forms: Iterable[str]) -> Obj:
    """Return a definition whose probes have a field for each of these forms, with any content.

    `forms` are the keys of probes of packages: the API server prunes fields that a schema lacks.
    A definition without probes, or with these fields, is returned with equal content.
    """
    fields = dict.fromkeys(forms, OBJECT)
    return _with_probe_fields(definition, fields) if fields else definition


def _with_probe_fields(value: Any, fields: Obj) -> Any:
    if isinstance(value, list):
        return [_with_probe_fields(inner, fields) for inner in value]
    if not isinstance(value, dict):
        return value
    found = {key: _with_probe_fields(inner, fields) for key, inner in value.items()}
    properties = found.get("properties")
    if isinstance(properties, dict) and properties.keys() >= BUILT_IN_SOURCES:
        found["properties"] = {**fields, **properties}
    return found


def _definition(spec: Obj) -> Obj:
    return {
        "apiVersion": CUSTOM_RESOURCE_DEFINITIONS.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITIONS.kind,
        "metadata": {"name": f"{spec['names']['plural']}.{spec['group']}"},
        "spec": spec,
    }


def _from_templates(kind: str) -> Obj:
    chaos = KINDS[kind]
    schema = with_at(
        schema_of(recorded().shipped[TYPICAL_KIND]),
        ("properties", "spec"),
        _template()["properties"][chaos.key],
    )
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
                    column("action", ".spec.action"),
                    column("duration", ".spec.duration"),
                ],
                "subresources": {},
            }
        ],
    }


def _template() -> Obj:
    workflow = schema_of(recorded().shipped["Workflow"])
    template: Obj = workflow["properties"]["spec"]["properties"]["templates"]["items"]
    return template


@functools.cache
def _enriched(kind: str) -> Obj:
    spec = recorded().shipped[kind]
    (version,) = spec["versions"]
    enriched = {
        **version,
        "schema": {"openAPIV3Schema": _ENRICHERS[kind](schema_of(spec))},
        "subresources": {"status": {}},
        "additionalPrinterColumns": COLUMNS[kind],
    }
    return {**spec, "versions": [enriched]}


def _workflow_spec(spec: Obj) -> Obj:
    with_task = with_fields(_template(), ("task",), TASK)
    template = {**with_fields(with_task, (), TEMPLATE), **ANYTHING}
    return with_fields(with_at(spec, ("properties", "templates", "items"), template), (), WORKFLOW)


def _node(schema: Obj) -> Obj:
    enriched = with_fields(with_fields(schema, ("spec",), NODE), ("status",), NODE_STATUS)
    enriched = with_fields(enriched, ("spec", "task"), TASK)
    return with_at(enriched, ("properties", "spec"), {**enriched["properties"]["spec"], **ANYTHING})


_ENRICHERS: dict[str, Callable[[Obj], Obj]] = {
    "Workflow": lambda schema: with_fields(
        with_at(schema, ("properties", "spec"), _workflow_spec(schema["properties"]["spec"])),
        ("status",),
        WORKFLOW_STATUS,
    ),
    "WorkflowNode": _node,
    "Schedule": lambda schema: with_at(
        schema,
        ("properties", "spec", "properties", "workflow"),
        _workflow_spec(schema_of(recorded().shipped["Workflow"])["properties"]["spec"]),
    ),
    "StatusCheck": lambda schema: with_fields(schema, ("status",), STATUS_CHECK_STATUS),
}


def with_fields(schema: Obj, path: tuple[str, ...], fields: Obj) -> Obj:
    """Return the schema with more properties. Existing properties stay as they are."""
    if path:
        inner = with_fields(schema["properties"][path[0]], path[1:], fields)
        return with_at(schema, ("properties", path[0]), inner)
    return {**schema, "properties": {**fields, **schema["properties"]}}


def with_at(value: Obj, path: tuple[str, ...], new: Any) -> Obj:
    """Return a copy with another value at a path; other parts are shared with the original."""
    first, *rest = path
    return {**value, first: with_at(value[first], tuple(rest), new) if rest else new}


CRON_WORKFLOW_FIELDS = (
    "schedule",
    "startingDeadlineSeconds",
    "concurrencyPolicy",
    "historyLimit",
    "workflow",
)
CRON_WORKFLOW_REQUIRED = ["schedule", "workflow"]
CRON_WORKFLOW_COLUMNS = [
    column("Schedule", ".spec.schedule"),
    column("Last", ".status.time", "date"),
    AGE,
]


@functools.cache
def cron_workflow_definition() -> Obj:
    """Return the definition of CronWorkflow: a Schedule that can only start workflows, under the
    design document's name.
    """
    (schedule,) = (
        each for each in engine_definitions() if each["spec"]["names"]["kind"] == "Schedule"
    )
    (version,) = schedule["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    properties = schema["properties"]
    spec = {name: properties["spec"]["properties"][name] for name in CRON_WORKFLOW_FIELDS}
    spec["type"] = {"type": "string", "enum": ["Workflow"]}  # as in a Schedule that becomes one
    narrowed = {"type": "object", "required": CRON_WORKFLOW_REQUIRED, "properties": spec}
    names = {
        "kind": CRON_WORKFLOWS.kind,
        "listKind": f"{CRON_WORKFLOWS.kind}List",
        "plural": CRON_WORKFLOWS.plural,
        "singular": CRON_WORKFLOWS.kind.lower(),
    }
    served = {
        **version,
        "schema": {"openAPIV3Schema": {**schema, "properties": {**properties, "spec": narrowed}}},
        "additionalPrinterColumns": CRON_WORKFLOW_COLUMNS,
    }
    return {
        **schedule,
        "metadata": {"name": f"{CRON_WORKFLOWS.plural}.{CRON_WORKFLOWS.group}"},
        "spec": {
            **schedule["spec"],
            "group": CRON_WORKFLOWS.group,
            "names": names,
            "versions": [served],
        },
    }
