"""Statuses of workflows and nodes in their stored form, and the texts of errors in them.

Called by `repository` (read and write) and `pending_writes` (notes of refused statuses). Field
names follow Chaos Mesh; `status.engine` is the engine's own and holds what it needs to resume.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from pytest_kscen.clock import timestamp_of
from pytest_kscen.objects.chaos_mesh import (
    ABORTED,
    ACCOMPLISHED,
    CHAOS_INJECTED,
    CHAOS_LEFT,
    DEADLINE_EXCEED,
    INIT,
    RUNNING,
    SCHEDULED,
    is_over,
)
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.errors import ApiError
from pytest_kscen.workflow.engine.trees import ROOT
from pytest_kscen.workflow.probes import score_of
from pytest_kscen.workflow.tables.machine import DEADLINE_EVENTS, Delay, EventType

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.workflow.engine.trees import Tree, TreeNode


LONGEST_MESSAGE = 1000
MALFORMED = (LookupError, TypeError, ValueError, AttributeError)
"""Exceptions that reading a template or object raises if it was not validated."""


def error_text(error: Exception) -> str:
    """Return an exception's message, cut to a length that every API server accepts.

    An exception from reading malformed content gets an explanation, since its own text has none.
    """
    text = error.message if isinstance(error, ApiError) else str(error) or repr(error)
    if isinstance(error, MALFORMED) and not isinstance(error, UnicodeError):
        text = f"its template cannot be read: {error!r}"
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]}…"


T = TypeVar("T")

UNWRITTEN_ANNOTATION = "workflow.kscen.io/unwritten"
"""Annotation with a status that the API server refused."""
FINISHED, ACTIVE = "finishedChildren", "activeChildren"
CHILDREN = (FINISHED, ACTIVE)
UNTIL = {
    Delay.LENGTH: "heldUntil",
    Delay.DEADLINE: "deadlineAt",
    Delay.INJECTION: "injectedUntil",
    Delay.CLEANING: "cleanedUntil",
    Delay.BACK_OFF: "retryAt",
}
"""Field of `status.engine` that stores the end of each delay of a node, as a MicroTime."""


def current_status(tree: Tree, node: TreeNode) -> Obj:
    """Return the status that the API should have for a node, or for the workflow if it is the root.

    Only `save` compares it with the stored one, so fields that do not change cost no write.
    """
    return _workflow_status(tree) if node.name == ROOT else _node_status(tree, node)


def has_unwritten_note(node: TreeNode) -> bool:
    """Return whether the API has the node's last status as an annotation only."""
    engine = (node.obj.get("status") or {}).get("engine") or {}
    return bool(node.noted_at) and engine.get("noted") != node.noted_at


def needs_no_cleanup(obj: Obj) -> bool:
    """Return whether a node is over with nothing left to delete or to write, whatever its workflow
    does.
    """
    return (
        is_over(obj)
        and not is_true(obj, CHAOS_LEFT)
        and UNWRITTEN_ANNOTATION not in (obj["metadata"].get("annotations") or {})
    )


def unwritten_note(tree: Tree, node: TreeNode) -> str:
    """Return the annotation's text for a refused status: JSON with the object's uid.

    The uid makes the note void in a copy of the object. Nulls, which delete fields in a merge
    patch, are left out.
    """
    status = current_status(tree, node)
    status["engine"] = {
        name: value for name, value in status["engine"].items() if value is not None
    }
    return orjson.dumps({"uid": node.obj["metadata"]["uid"], "status": status}).decode()


def read_with_notes(obj: Obj, reader: Callable[[Obj, Obj], T]) -> T:
    """Call the reader with the noted status if that is newer and well-formed, else with the stored
    one.
    """
    status = obj.get("status") or {}
    with contextlib.suppress(*MALFORMED):
        text = (obj["metadata"].get("annotations") or {}).get(UNWRITTEN_ANNOTATION)
        note: Obj = orjson.loads(text) if text else {}
        if text and note["uid"] == obj["metadata"]["uid"]:
            noted = note["status"]
            if noted["engine"]["noted"] > (status.get("engine") or {}).get("noted", ""):
                return reader(obj, {**status, **noted})
    return reader(obj, status)


def with_minimal_status(workflow: Obj) -> Obj:
    """Replace a malformed status by phase Running and the entry's name, so that nodes can be
    ended.
    """
    entry = (workflow.get("status") or {}).get("entryNode")
    return {**workflow, "status": {"phase": RUNNING, **({"entryNode": entry} if entry else {})}}


def checked_phase(phase: str, phases: Collection[str]) -> str:
    if phase not in phases:
        raise ValueError(f"{phase!r} is not a phase")
    return phase


def _workflow_status(tree: Tree) -> Obj:
    root = tree.root
    status: Obj = {
        "phase": root.phase,
        "startTime": timestamp_of(root.started),
        "conditions": [
            _condition(SCHEDULED, holds=root.phase != INIT, reason=""),
            _condition(ACCOMPLISHED, holds=root.is_over, reason=root.phase if root.is_over else ""),
        ],
    }
    before = root.obj.get("status") or {}
    children = tree.children(root)
    facts = {
        "ending": root.ending.value if root.ending else "",
        "entryPhase": children[0].phase if children and children[0].is_over else "",
        "exitNode": children[1].name if children[1:] else "",
        "noted": root.noted_at,
        "hindrance": root.waiting_reason,
        "message": root.message if root.waiting_reason else "",
    }
    engine = {name: value for name, value in facts.items() if value}
    if engine or "engine" in before:
        status["engine"] = engine
    if root.ending is EventType.ABORTED:
        status["conditions"].append(_condition(ABORTED, holds=True, reason=EventType.ABORTED.value))
    if root.children:
        status["entryNode"] = root.children[0]
    if (
        message := "; ".join(filter(None, (root.message, root.waiting_reason)))
    ) or "message" in before:
        status["message"] = message
    if root.probes:
        status["probes"] = root.probes
        status["resilienceScore"] = score_of(root.probes)
    if root.ended is not None:
        status["endTime"] = timestamp_of(root.ended)
    return status


def _node_status(tree: Tree, node: TreeNode) -> Obj:
    status: Obj = {
        "phase": node.phase,
        "conditions": _conditions(node),
        "engine": _engine_fields(node),
    }
    if node.attempt > 1:
        status |= {FINISHED: [], ACTIVE: [], "message": "", "conditionalBranchesStatus": None}
    if node.shown_message or (node.obj.get("status") or {}).get("message"):
        status["message"] = node.shown_message
    if node.children:
        shown = {
            each["name"]: each
            for kind in CHILDREN
            for each in (node.obj.get("status") or {}).get(kind) or ()
        }
        children = tree.children(node)
        status[FINISHED] = [
            shown.get(child.name) or {"name": child.name} for child in children if child.is_over
        ]
        status[ACTIVE] = [
            shown.get(child.name) or {"name": child.name} for child in children if not child.is_over
        ]
    if node.chosen is not None:
        status["conditionalBranchesStatus"] = {
            "branches": node.evaluations,
            "context": node.context,
        }
    if node.template.is_chaos:
        made = node.template.chaos_kind.resource
        status["chaosResource"] = {
            "apiGroup": made.group,
            "kind": made.kind,
            "name": node.object_name,
        }
    if node.probes:
        status["probes"] = node.probes
    if node.ended is not None:
        status["endTime"] = timestamp_of(node.ended, micro=True)
    return status


def _conditions(node: TreeNode) -> list[Obj]:
    by_time = node.ending if node.ending in DEADLINE_EVENTS else None
    conditions = [
        _condition(ACCOMPLISHED, holds=node.is_over, reason=node.phase if node.is_over else "")
    ]
    conditions.append(
        _condition(
            DEADLINE_EXCEED, holds=by_time is not None, reason=by_time.value if by_time else ""
        )
    )
    if node.template.is_chaos:
        conditions.append(_condition(CHAOS_INJECTED, holds=node.was_injected, reason=""))
    if node.has_leftovers or node.ending is EventType.NOT_CLEANED:
        conditions.append(
            _condition(
                CHAOS_LEFT,
                holds=node.has_leftovers,
                reason=EventType.NOT_CLEANED.value if node.has_leftovers else "",
            )
        )
    if node.ending is EventType.ABORTED:
        conditions.append(_condition(ABORTED, holds=True, reason=EventType.ABORTED.value))
    return conditions


def _condition(type_: str, *, holds: bool, reason: str) -> Obj:
    return {"type": type_, "status": "True" if holds else "False", "reason": reason}


def _engine_fields(node: TreeNode) -> Obj:
    """Return the fields of `status.engine` that a restarted engine needs to resume the node.

    In a second attempt, null removes the fields of the one before, as merge patches require.
    """
    facts: dict[str, Any] = {
        "attempt": node.attempt if node.attempt > 1 else None,
        "ending": node.ending.value if node.ending else None,
        "calledOff": True if node.retry_forbidden and node.ending is EventType.FAULT else None,
        "cleaning": node.is_cleaning or None,
        "made": node.has_created or None,
        "noted": node.noted_at or None,
        "chosen": node.chosen,
        **{
            key: timestamp_of(node.until[wait], micro=True) if wait in node.until else None
            for wait, key in UNTIL.items()
        },
    }
    return (
        facts
        if node.attempt > 1
        else {name: value for name, value in facts.items() if value is not None}
    )
