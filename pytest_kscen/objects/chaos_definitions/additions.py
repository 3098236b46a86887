"""What our engine adds to the four definitions that it lives by: every field is optional, and none of the shipped ones changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

TEXT: Obj = {"type": "string"}
MOMENT: Obj = {"type": "string", "format": "date-time"}
COUNT: Obj = {"type": "integer", "minimum": 0}
NUMBER: Obj = {"type": "number"}
FLAG: Obj = {"type": "boolean"}
ANYTHING: Obj = {"x-kubernetes-preserve-unknown-fields": True}
OBJECT: Obj = {"type": "object", **ANYTHING}
TEXTS: Obj = {"type": "array", "items": TEXT}


def record(required: tuple[str, ...] = (), **fields: Any) -> Obj:
    return {"type": "object", **({"required": list(required)} if required else {}), "properties": fields}


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
    kubernetes=record(("kind",), apiVersion=TEXT, kind=TEXT, name=TEXT, namespace=TEXT, labelSelector=TEXT, expression=TEXT),
    prometheus=record(("url", "query"), url=TEXT, query=TEXT, expression=TEXT),
    interval=TEXT,
    timeout=TEXT,
    initialDelay=TEXT,
    failureThreshold={"type": "integer", "minimum": 1},
    stopOnFailure=FLAG,
    weight=COUNT,
)
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
    "engine": record(ending=TEXT, entryPhase=TEXT, exitNode=TEXT, noted=MOMENT, hindrance=TEXT, message=TEXT),
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
    "Schedule": [column("Type", ".spec.type"), column("Schedule", ".spec.schedule"), column("Last", ".status.time", "date"), AGE],
    "StatusCheck": [column("Mode", ".spec.mode"), column("Url", ".spec.http.url"), AGE],
}
