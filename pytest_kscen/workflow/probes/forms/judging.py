"""Expressions that judge what a probe has found, in the language of a Task's branches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.workflow.expressions import mistake_in, select
from pytest_kscen.workflow.probes.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kscen.workflow.probes.reading import Part


def expression_in(part: Part, variables: Mapping[str, str]) -> str:
    """What a person wrote; the kinds of the variables are known."""
    text = part.text("expression").strip()
    if wrong := mistake_in(text, variables):
        part.wrong(wrong, "expression")
    return text


def judged(expression: str, variables: Mapping[str, Any], found: str) -> Outcome:
    """One that has no value is an ExpressionError, which says why."""
    if select(expression, variables):
        return Outcome(True, found)
    return Outcome(False, f"{found}, and {expression!r} was expected")
