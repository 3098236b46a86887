"""Probe of Kubernetes objects: a CEL expression over one object, or over all with given labels.

`object` is null if no object of the name exists; `objects` is a list. Without an expression the
object, or at least one object, must exist.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from pytest_kscen.cel import CompilationError, EvaluationError, compile_expression
from pytest_kscen.cel.types import BOOL, DYN, list_of
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.selectors import parse_labels
from pytest_kscen.workflow.probes.form import ProbeOutcome

if TYPE_CHECKING:
    from pytest_kscen.cel import Program
    from pytest_kscen.workflow.probes.form import FieldReader, ProbeContext

ONE, MANY = "object", "objects"
TYPES = {ONE: DYN, MANY: list_of(DYN)}
THERE = {ONE: "object != null", MANY: "size(objects) > 0"}


@dataclass(frozen=True, slots=True)
class KubernetesProbe:
    """Object or selector that a probe reads from the API server, and its compiled expression."""

    key: ClassVar[str] = "kubernetes"
    patience: ClassVar[float] = 1.0

    api_version: str
    kind: str
    name: str
    namespace: str
    """Namespace, or empty for that of the workflow."""
    label_selector: str
    expression: str
    program: Program

    @classmethod
    def of(cls, part: FieldReader) -> Self:
        part.only(("apiVersion", "kind", "name", "namespace", "labelSelector", "expression"))
        if part.has("name") and part.has("labelSelector"):
            part.wrong("needs a name, or a labelSelector, and has both")
        selector = part.text("labelSelector")
        try:
            parse_labels(selector)
        except ValueError as error:
            part.wrong(str(error), "labelSelector")
        name = part.text("name")
        variable = ONE if name else MANY
        expression = part.text("expression", THERE[variable])
        api_version, kind = part.text("apiVersion", required=True), part.text("kind", required=True)
        namespace = part.text("namespace")
        try:
            program = compile_expression(expression, {variable: TYPES[variable]})
            if program.type not in (BOOL, DYN):
                part.wrong(f"must be true or false, and is of type {program.type}", "expression")
        except CompilationError as errors:
            part.wrong(str(errors), "expression")
            program = compile_expression("false", {})
        return cls(api_version, kind, name, namespace, selector, expression, program)

    # the runner limits the time
    async def ask(self, context: ProbeContext, within: float) -> ProbeOutcome:  # noqa: ARG002
        api = context.actor.api
        resource = await api.resource_of(self.api_version, self.kind)
        namespace = (self.namespace or context.namespace) if resource.namespaced else ""
        if self.name:
            what = f"{resource.qualified} {self.name}"
            found: dict[str, object] = {ONE: None}
            with contextlib.suppress(NotFound):
                found = {ONE: await api.get(resource, self.name, namespace)}
        else:
            what = f"{resource.qualified} with {self.label_selector or 'any labels'}"
            found = {MANY: (await api.list(resource, namespace, labels=self.label_selector)).items}
        try:
            value = self.program.value(found)
        except EvaluationError as error:
            absent = " is not there, and" if found.get(ONE, self) is None else ":"
            return ProbeOutcome(False, f"{what}{absent} {self.expression!r} has no value: {error}")
        if value is True:
            return ProbeOutcome(True, f"{self.expression} of {what}")
        if value is not False:
            return ProbeOutcome(
                False, f"{what}: {self.expression!r} is neither true nor false, but {value!r}"
            )
        objects = found.get(MANY)
        count = f" for {len(objects)} objects" if isinstance(objects, list) else ""
        return ProbeOutcome(False, f"{what}: {self.expression!r} does not hold{count}")
