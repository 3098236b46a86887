"""Status of a workflow and of its nodes as the API stores it, and the text of errors in it."""

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
from pytest_kscen.workflow.tables.machine import BY_TIME, Happening, Wait

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.workflow.engine.trees import Node, Tree


# Why something could not be done, in words.


LONGEST_MESSAGE = 1000
MISREAD = (LookupError, TypeError, ValueError, AttributeError)
"""What comes of a template that nobody has validated."""


def words_of(error: Exception) -> str:
    """At a length that everybody takes."""
    words = error.message if isinstance(error, ApiError) else str(error) or repr(error)
    if isinstance(error, MISREAD) and not isinstance(error, UnicodeError):
        words = f"what its template says cannot be read: {error!r}"
    return words if len(words) <= LONGEST_MESSAGE else f"{words[:LONGEST_MESSAGE]}…"


T = TypeVar("T")

UNWRITTEN = "workflow.kscen.io/unwritten"
"""The annotation with what the API does not take of a status."""
FINISHED, ACTIVE = "finishedChildren", "activeChildren"
CHILDREN = (FINISHED, ACTIVE)
UNTIL = {
    Wait.LENGTH: "heldUntil",
    Wait.DEADLINE: "deadlineAt",
    Wait.INJECTION: "injectedUntil",
    Wait.CLEANING: "cleanedUntil",
    Wait.BACK_OFF: "retryAt",
}
"""Where the engine writes down until when a node waits."""


def status_now(tree: Tree, node: Node) -> Obj:
    """What has become of it."""
    return _of_workflow(tree) if node.name == ROOT else _of_node(tree, node)


def is_behind(node: Node) -> bool:
    """Whether the API has of it only what was noted."""
    engine = (node.obj.get("status") or {}).get("engine") or {}
    return bool(node.noted) and engine.get("noted") != node.noted


def is_settled(obj: Obj) -> bool:
    """Whether nothing is left to be done for a node, whatever becomes of its workflow."""
    return (
        is_over(obj)
        and not is_true(obj, CHAOS_LEFT)
        and UNWRITTEN not in (obj["metadata"].get("annotations") or {})
    )


def note_of(tree: Tree, node: Node) -> str:
    """What is noted of its status: for itself alone, whoever copies it.

    Nothing is to be taken away from a note by null.
    """
    status = status_now(tree, node)
    status["engine"] = {
        name: value for name, value in status["engine"].items() if value is not None
    }
    return orjson.dumps({"uid": node.obj["metadata"]["uid"], "status": status}).decode()


def read(obj: Obj, reader: Callable[[Obj, Obj], T]) -> T:
    """By the status as it was noted, if that is newer and makes sense, or else as it was
    written.
    """
    status = obj.get("status") or {}
    with contextlib.suppress(*MISREAD):
        if noted := _noted_since(obj, status):
            return reader(obj, {**status, **noted})
    return reader(obj, status)


def with_what_is_on(workflow: Obj) -> Obj:
    """One whose status makes no sense, with what there is to be ended."""
    entry = (workflow.get("status") or {}).get("entryNode")
    return {**workflow, "status": {"phase": RUNNING, **({"entryNode": entry} if entry else {})}}


def known(phase: str, phases: Collection[str]) -> str:
    """ValueError if there is no such phase."""
    if phase not in phases:
        raise ValueError(f"{phase!r} is no phase")
    return phase


def _noted_since(obj: Obj, status: Obj) -> Obj | None:
    text = (obj["metadata"].get("annotations") or {}).get(UNWRITTEN)
    note: Obj = orjson.loads(text) if text else {}
    if not text or note["uid"] != obj["metadata"]["uid"]:
        return None
    noted: Obj = note["status"]
    return (
        noted if noted["engine"]["noted"] > (status.get("engine") or {}).get("noted", "") else None
    )


def _of_workflow(tree: Tree) -> Obj:
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
    if (engine := _engine_of_workflow(tree)) or "engine" in before:
        status["engine"] = engine
    if root.ending is Happening.ABORTED:
        status["conditions"].append(_condition(ABORTED, holds=True, reason=Happening.ABORTED.value))
    if root.children:
        status["entryNode"] = root.children[0]
    if (told := "; ".join(filter(None, (root.message, root.waits_for)))) or "message" in before:
        status["message"] = told
    if root.probes:
        status["probes"] = root.probes
        status["resilienceScore"] = score_of(root.probes)
    if root.ended is not None:
        status["endTime"] = timestamp_of(root.ended)
    return status


def _of_node(tree: Tree, node: Node) -> Obj:
    status: Obj = {
        "phase": node.phase,
        "conditions": _conditions(node),
        "engine": _engine_of_node(node),
    }
    if node.attempt > 1:
        status |= {FINISHED: [], ACTIVE: [], "message": "", "conditionalBranchesStatus": None}
    if node.told or (node.obj.get("status") or {}).get("message"):
        status["message"] = node.told
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
        status["chaosResource"] = {"apiGroup": made.group, "kind": made.kind, "name": node.made}
    if node.probes:
        status["probes"] = node.probes
    if node.ended is not None:
        status["endTime"] = timestamp_of(node.ended, micro=True)
    return status


def _conditions(node: Node) -> list[Obj]:
    by_time = node.ending if node.ending in BY_TIME else None
    conditions = [
        _condition(ACCOMPLISHED, holds=node.is_over, reason=node.phase if node.is_over else "")
    ]
    conditions.append(
        _condition(
            DEADLINE_EXCEED, holds=by_time is not None, reason=by_time.value if by_time else ""
        )
    )
    if node.template.is_chaos:
        conditions.append(_condition(CHAOS_INJECTED, holds=node.has_held, reason=""))
    if node.has_left or node.ending is Happening.NOT_CLEANED:
        conditions.append(
            _condition(
                CHAOS_LEFT,
                holds=node.has_left,
                reason=Happening.NOT_CLEANED.value if node.has_left else "",
            )
        )
    if node.ending is Happening.ABORTED:
        conditions.append(_condition(ABORTED, holds=True, reason=Happening.ABORTED.value))
    return conditions


def _condition(type_: str, *, holds: bool, reason: str) -> Obj:
    return {"type": type_, "status": "True" if holds else "False", "reason": reason}


def _engine_of_workflow(tree: Tree) -> Obj:
    root, children = tree.root, tree.children(tree.root)
    facts = {
        "ending": root.ending.value if root.ending else "",
        "entryPhase": children[0].phase if children and children[0].is_over else "",
        "exitNode": children[1].name if children[1:] else "",
        "noted": root.noted,
        "hindrance": root.waits_for,
        "message": root.message if root.waits_for else "",
    }
    return {name: value for name, value in facts.items() if value}


def _engine_of_node(node: Node) -> Obj:
    """What only the engine needs, to go on after it was cut off.

    A merge patch takes away by null what was of another attempt.
    """
    facts: dict[str, Any] = {
        "attempt": node.attempt if node.attempt > 1 else None,
        "ending": node.ending.value if node.ending else None,
        "calledOff": True if node.is_called_off and node.ending is Happening.FAULT else None,
        "cleaning": node.is_cleaning or None,
        "made": node.has_made or None,
        "noted": node.noted or None,
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
