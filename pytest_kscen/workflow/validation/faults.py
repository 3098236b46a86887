"""All that is wrong with a Workflow or a Schedule, as far as it can be known before anything is done."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.objects.guesses import nearest
from pytest_kscen.objects.workflows import CRON_WORKFLOWS, OWN, SHIPPED
from pytest_kscen.workflow.parameters import ParameterError, apply_parameters
from pytest_kscen.workflow.validation.fault import Fault, error, warning
from pytest_kscen.workflow.validation.probing import faults_of_probes
from pytest_kscen.workflow.validation.reading import drafts_in, list_in, map_in, text_in
from pytest_kscen.workflow.validation.scheduling import faults_of_cron_workflow, faults_of_schedule
from pytest_kscen.workflow.validation.shapes import Shape, a_list, a_record, anything, shown
from pytest_kscen.workflow.validation.templates import faults_of_template
from pytest_kscen.workflow.validation.texts import NAME, TEXT, subdomain
from pytest_kscen.workflow.validation.trees import Tree, faults_of_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kscen.objects.documents import Path
    from pytest_kscen.objects.resources import Obj

KINDS = WORKFLOW, SCHEDULE, CRON_WORKFLOW = SHIPPED.workflows.kind, SHIPPED.schedules.kind, CRON_WORKFLOWS.kind
API_VERSIONS = tuple(family.workflows.api_version for family in (SHIPPED, OWN))
LARGEST_OBJECT = 1_500_000  # bytes that a request of etcd may have
LONGEST_NAME = 63  # it is a label's value
OF_AN_OBJECT: dict[str, Shape] = dict.fromkeys(("apiVersion", "kind", "metadata", "spec", "status"), anything)
PARAMETER = a_record({"name": NAME, "value": anything, "paths": a_list(NAME)}, "name", "value", "paths")
OF_A_WORKFLOW: dict[str, Shape] = {
    "entry": TEXT,
    "templates": a_list(lambda value, path: a_record({}, "name")(value, path) if not isinstance(value, dict) else iter(())),
    "parameters": a_list(PARAMETER),
    "onExit": TEXT,
    "probes": anything,
}


def is_known(obj: Any) -> bool:
    """Whether it is of a kind that is judged here."""
    return isinstance(obj, dict) and obj.get("apiVersion") in API_VERSIONS and obj.get("kind") in KINDS


def faults_of(obj: Any) -> list[Fault]:
    """Of a Workflow or a Schedule, whatever else it may be."""
    return list(dict.fromkeys(_faults(obj)))


def _faults(obj: Any) -> Iterator[Fault]:
    if not isinstance(obj, dict):
        yield error((), f"{shown(obj)} is no object: one begins with apiVersion: {API_VERSIONS[0]} and kind: {WORKFLOW}")
        return
    yield from _head(obj)
    yield from _size(obj)
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        yield error(("spec",), f"{shown(spec)} is no spec" if spec is not None else "spec is missing")
    elif obj.get("kind") in (SCHEDULE, CRON_WORKFLOW):
        is_cron = obj["kind"] == CRON_WORKFLOW
        more = {WORKFLOW: "workflow"}
        yield from faults_of_cron_workflow(spec, ("spec",)) if is_cron else faults_of_schedule(spec, ("spec",), more)
        if spec.get("workflow") is not None and (is_cron or text_in(spec, "type") == WORKFLOW):
            yield from faults_of_spec(spec["workflow"], ("spec", "workflow"))
    else:
        yield from faults_of_spec(spec, ("spec",))


def _head(obj: Obj) -> Iterator[Fault]:
    yield from a_record(OF_AN_OBJECT)(obj, ())
    versions = API_VERSIONS if obj.get("kind") != CRON_WORKFLOW else (CRON_WORKFLOWS.api_version,)
    if obj.get("apiVersion") not in versions:
        yield error(("apiVersion",), f"the apiVersion is {shown(obj.get('apiVersion'))}: it has to be {' or '.join(versions)}")
    if (kind := obj.get("kind")) not in KINDS:
        yield error(("kind",), f"the kind is {shown(kind)}: it is none of {', '.join(KINDS)}{nearest(str(kind), KINDS)}")
    metadata = map_in(obj, "metadata")
    name = metadata.get("name")
    if name is None and metadata.get("generateName"):
        return
    if not isinstance(name, str) or not name:
        yield error(("metadata",), "metadata.name is missing")
    elif wrong := subdomain(name):
        yield error(("metadata", "name"), wrong)
    elif len(name) > LONGEST_NAME:
        yield error(
            ("metadata", "name"),
            f"the name has {len(name)} characters, {LONGEST_NAME} is the most: what it makes is labelled with it",
        )


def _size(obj: Obj) -> Iterator[Fault]:
    try:
        size = len(orjson.dumps(obj, option=orjson.OPT_NON_STR_KEYS))
    except (TypeError, ValueError) as refusal:
        yield error((), f"it cannot be written as JSON: {refusal}")
        return
    if size > LARGEST_OBJECT:
        yield error((), f"it has {size:,} bytes: no API server keeps an object of more than {LARGEST_OBJECT:,}")


def faults_of_spec(spec: Any, path: Path) -> Iterator[Fault]:
    """A workflow's; it is judged with the values of its parameters in their places."""
    yield from a_record(OF_A_WORKFLOW)(spec, path)
    if not isinstance(spec, dict):
        return
    spec, wrong = _with_parameters(spec, path)
    yield from wrong
    yield from faults_of_probes(spec.get("probes"), (*path, "probes"))
    for rule in RULES:
        yield from rule(spec, path)
    drafts = drafts_in(spec, path)
    for draft in drafts:
        yield from faults_of_template(draft)
    yield from faults_of_tree(Tree.of(drafts, text_in(spec, "entry"), text_in(spec, "onExit")))


def _with_parameters(spec: Obj, path: Path) -> tuple[Obj, list[Fault]]:
    wrong: list[Fault] = []
    seen: set[str] = set()
    for number, parameter in enumerate(list_in(spec, "parameters")):
        here = (*path, "parameters", str(number))
        if any(fault.is_error for fault in PARAMETER(parameter, here)):
            continue
        name = parameter["name"]
        if name in seen:
            wrong.append(error((*here, "name"), f"there is a parameter {name!r} before it"))
        seen.add(name)
        try:
            spec = {**apply_parameters({**spec, "parameters": [parameter]}, {}), "parameters": spec["parameters"]}
        except ParameterError as refusal:
            wrong.append(error(here, str(refusal)))
    return spec, wrong


def _templates(spec: Obj, path: Path) -> Iterator[Fault]:
    if not spec.get("templates"):
        yield error((*path, "templates"), "there are no templates: a workflow has at least the one that is its entry")


def _entry(spec: Obj, path: Path) -> Iterator[Fault]:
    names = [draft.name for draft in drafts_in(spec, path)]
    entry = text_in(spec, "entry")
    if not entry:
        yield error((*path, "entry"), "entry is missing: it names the template with which the workflow begins")
    for key in ("entry", "onExit"):
        name = text_in(spec, key)
        if name and name not in names:
            yield error((*path, key), f"there is no template {name!r}{nearest(name, names)}")
    if entry and entry == spec.get("onExit"):
        yield warning((*path, "onExit"), "onExit is the entry: everything runs twice")


def _names(spec: Obj, path: Path) -> Iterator[Fault]:
    seen: set[str] = set()
    for draft in drafts_in(spec, path):
        if draft.name and draft.name in seen:
            fault = error((*draft.path, "name"), f"there is a template {draft.name!r} before it")
            yield replace(fault, template=draft.name)
        seen.add(draft.name)


RULES: tuple[Callable[[Obj, Path], Iterator[Fault]], ...] = (_templates, _entry, _names)
