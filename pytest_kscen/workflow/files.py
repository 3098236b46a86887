"""Read a Workflow from an object or a YAML file, and refuse invalid ones.

Called by collection, the `workflow` marker, `run.workflow` and `kscen validate`, before any cluster
is touched. Errors name the file, the line and the template.
"""

from __future__ import annotations

import pathlib
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_kscen.objects import documents as expecting
from pytest_kscen.objects.documents import Document, DocumentRefused, documents
from pytest_kscen.workflow.parameters import ParameterError, apply_parameters
from pytest_kscen.workflow.validation import (
    ERROR,
    ValidationIssue,
    is_workflow_or_schedule,
    validate,
)
from pytest_kscen.workflow.validation.value_checks import error, warning
from pytest_kscen.workflow.validation.workflows import API_VERSIONS, WORKFLOW

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

MAX_SHOWN = 20


class WorkflowRefused(DocumentRefused):
    """Report a source without a usable Workflow, with the place and the reason of every error.

    Raised before any cluster is touched: by collection, by the marker, and by `run.workflow`.
    """


class WorkflowWarning(UserWarning):
    """Warning of a questionable part of a Workflow; filter it with pytest's `filterwarnings`."""


def workflow_of(source: Any, parameters: Mapping[str, Any] | None = None) -> Obj:
    """Return the Workflow of a file or object, with the given values of its parameters.

    Raise WorkflowRefused if there is none, if a file has several, or if it is invalid.
    """
    if isinstance(source, Mapping):
        return validated(Document("", dict(source)), parameters)
    if isinstance(source, str | pathlib.Path):
        path = pathlib.Path(source)
        found = documents(path)
        if not found:
            raise WorkflowRefused(
                f"{path} is empty: a Workflow begins with apiVersion: {API_VERSIONS[0]} "
                f"and kind: {WORKFLOW}"
            )
        workflows = [
            each
            for each in found
            if any(each.kind_is(version, WORKFLOW) for version in API_VERSIONS)
        ]
        if len(workflows) > 1:
            names = ", ".join(f"{each.name!r}" for each in workflows)
            raise WorkflowRefused(
                f"{path} has {len(workflows)} Workflows, {names}: give one as an object, "
                "or each its own file"
            )
        return validated(workflows[0] if workflows else found[0], parameters)
    raise WorkflowRefused(f"{source!r} is neither a Workflow nor the path of a file that has one")


def validated(document: Document, parameters: Mapping[str, Any] | None = None) -> Obj:
    """Return the document's Workflow with its parameters replaced by their values; warn, or raise
    WorkflowRefused.
    """
    obj: Any = document.content
    kind = obj.get("kind") if isinstance(obj, dict) else None
    if kind != WORKFLOW:
        found_kind = f"its kind is {kind!r}" if kind else "it has no kind"
        raise WorkflowRefused(
            f"{_where(document)}this is not a Workflow: {found_kind}; start with apiVersion: "
            f"{API_VERSIONS[0]}"
        )
    if parameters:
        spec = obj.get("spec")
        try:
            spec = apply_parameters(spec if isinstance(spec, dict) else {}, parameters)
        except (
            ParameterError,
            AttributeError,
            TypeError,
        ) as refusal:  # the last two if `parameters` is malformed
            raise WorkflowRefused(f"{_where(document, 'spec', 'parameters')}{refusal}") from None
        obj = {**obj, "spec": spec}
    faults = issues_in(document, obj)
    for odd in (each for each in faults if not each.is_error):
        warnings.warn(issue_line(document, odd), WorkflowWarning, stacklevel=2)
    wrong = [each for each in faults if each.is_error]
    if wrong:
        more = [f"and {len(wrong) - MAX_SHOWN} more"] if len(wrong) > MAX_SHOWN else []
        raise WorkflowRefused(
            "\n".join([*(issue_line(document, each) for each in wrong[:MAX_SHOWN]), *more])
        )
    metadata = obj["metadata"]
    name = metadata.get("name") or metadata["generateName"].rstrip("-.")
    return {
        **obj,
        "metadata": {**metadata, "name": name},
        "spec": apply_parameters(obj["spec"], {}),
    }


def companion_objects(found: list[Document]) -> list[Obj]:
    """Return the other objects of a file, which are applied before its workflows.

    Expectations are left out. An invalid Schedule is refused here as well.
    """
    handled_types = [
        (expecting.API_VERSION, expecting.KIND),
        *((version, WORKFLOW) for version in API_VERSIONS),
    ]
    others = [
        each
        for each in found
        if not any(each.kind_is(version, kind) for version, kind in handled_types)
    ]
    for document in others:
        obj = document.content
        if (
            not isinstance(obj, dict)
            or not isinstance(obj.get("kind"), str)
            or not isinstance(obj.get("apiVersion"), str)
        ):
            raise WorkflowRefused(
                f"{document.at()}: {ERROR}: this is not a Kubernetes object: "
                "set apiVersion and kind"
            )
        if not document.name:
            raise WorkflowRefused(f"{document.at('metadata')}: {ERROR}: metadata.name is missing")
        if is_workflow_or_schedule(obj) and (
            wrong := [each for each in issues_in(document) if each.is_error]
        ):
            raise WorkflowRefused("\n".join(issue_line(document, each) for each in wrong))
    return [document.content for document in others]


def issues_in(document: Document, obj: Any = None) -> list[ValidationIssue]:
    """Return all issues of a document's Workflow or Schedule, in the order of its lines."""
    twice = [error(path, f"{path[-1]!r} occurs twice") for path in document.repeated]
    odd = [
        warning(
            path, "an unquoted y or n is text here, and a boolean for kubectl: put it in quotes"
        )
        for path in document.booleans
    ]
    found = [*twice, *odd, *validate(document.content if obj is None else obj)]
    return sorted(found, key=lambda fault: document.line_at(*fault.path))


def issue_line(document: Document, fault: ValidationIssue, severity: str = "") -> str:
    about = f"template {fault.template!r}: " if fault.template else ""
    if not document.where:
        return f"{severity or fault.severity}: {fault}"
    return f"{document.at(*fault.path)}: {severity or fault.severity}: {about}{fault.message}"


def _where(document: Document, *path: str) -> str:
    return f"{document.at(*path)}: {ERROR}: " if document.where else ""
