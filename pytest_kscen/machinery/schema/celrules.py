"""Rules in a schema (x-kubernetes-validations): compiled, told what is wrong with them, and put to values.

A rule that speaks of `oldSelf` is asked only where there is an old value to compare with; any other passes over what
an update has left as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kscen.cel import EvaluationError, Mistakes, Program, compile_expression
from pytest_kscen.cel.types import BOOL, STRING, Type, optional_of
from pytest_kscen.cel.values import NONE, Optional
from pytest_kscen.machinery.schema.fieldpaths import BadPath, schema_at
from pytest_kscen.machinery.schema.verdicts import NOWHERE
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kscen.objects.resources import Obj

RULES = "x-kubernetes-validations"
LONGEST_MESSAGE = 5 * 1024
NO_OVERLOAD = "call arguments did not match a supported operator, function or macro signature for rule"


class BadRule(ValueError):
    """A rule that cannot be compiled, or its message."""

    def __init__(self, words: str, part: str = "rule") -> None:
        super().__init__(words)
        self.part = part


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule at one place of a schema."""

    said: Obj
    program: Program
    message: Program | None
    path: str

    @property
    def uses_old(self) -> bool:
        return "oldSelf" in self.program.uses

    @property
    def takes_none(self) -> bool:
        return bool(self.said.get("optionalOldSelf"))

    @property
    def title(self) -> str:
        return str(self.said.get("message") or self.said["rule"]).strip()


def compiled_rule(said: Obj, type_: Type, schema: Obj) -> Rule:
    old = optional_of(type_) if said.get("optionalOldSelf") else type_
    variables = {"self": type_, "oldSelf": old}
    program = _compiled(said["rule"], variables, "compilation failed: ")
    if program.type != BOOL:
        raise BadRule("cel expression must evaluate to a bool")
    message = None
    if said.get("messageExpression"):
        message = _compiled(said["messageExpression"], variables, "messageExpression compilation failed: ", "messageExpression")
        if message.type != STRING:
            raise BadRule("messageExpression must evaluate to a string", "messageExpression")
    return Rule(said, program, message, _path(said, schema))


def _compiled(source: str, variables: dict[str, Type], prefix: str, part: str = "rule") -> Program:
    try:
        return compile_expression(source, variables)
    except Mistakes as mistakes:
        raise BadRule(f"{prefix}{mistakes}", part) from None
    except EvaluationError as mistake:
        raise BadRule(f"program instantiation failed: {mistake}", part) from None


def _path(said: Obj, schema: Obj) -> str:
    if not said.get("fieldPath"):
        return ""
    try:
        return schema_at(said["fieldPath"], schema)[0]
    except BadPath:
        return ""


@dataclass(frozen=True, slots=True)
class Situation:
    """Where a rule is asked: the value as JSON and as CEL has it, the old one, and whether nothing has changed."""

    value: Any
    as_cel: Any
    old_as_cel: Any
    has_old: bool
    unchanged: Callable[[], bool]


def rule_faults(rule: Rule, at: Situation, path: str, kind: str) -> Iterator[Cause]:
    if rule.uses_old and not at.has_old and not rule.takes_none:
        return
    variables = {"self": at.as_cel, "oldSelf": _old(rule, at)}
    try:
        holds = rule.program.value(variables)
    except EvaluationError as mistake:
        words = f"{mistake} evaluating rule: {rule.title}"
        if str(mistake).startswith("no such overload"):
            words = f"'{mistake}': {NO_OVERLOAD}: {rule.title}"
        yield Cause.invalid(path or NOWHERE, kind, words)
        return
    if holds is True or (not rule.uses_old and at.unchanged()):
        return
    where = f"{path}.{rule.path}" if path and rule.path else path or rule.path or NOWHERE
    value = OMITTED if kind in {"object", "array"} else at.value
    yield _cause(rule.said.get("reason", ""), where, value, _message(rule, variables))


OMITTED: Any = object()
"""Stands for a value that is too large to show."""


def _cause(reason: str, path: str, value: Any, words: str) -> Cause:
    if reason == "FieldValueForbidden":
        return Cause.forbidden(path, words)
    if reason == "FieldValueRequired":
        return Cause.required(path, words)
    if reason == "FieldValueDuplicate":
        return Cause(path, "Duplicate value", reason) if value is OMITTED else Cause.duplicate(path, value)
    return Cause(path, f"Invalid value: {words}") if value is OMITTED else Cause.invalid(path, value, words)


def _old(rule: Rule, at: Situation) -> Any:
    if not rule.takes_none:
        return at.old_as_cel
    return Optional(at.old_as_cel, there=True) if at.has_old else NONE


def _message(rule: Rule, variables: dict[str, Any]) -> str:
    if rule.message:
        try:
            words = str(rule.message.value(variables)).strip()
        except EvaluationError:
            words = ""
        if words and "\n" not in words and len(words.encode()) <= LONGEST_MESSAGE:
            return words
    return rule.title if rule.said.get("message") else f"failed rule: {rule.title}"
