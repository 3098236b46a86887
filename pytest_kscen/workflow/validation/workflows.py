"""Validate a Workflow or a Schedule as a whole, with the graph of its templates.

The graph decides about termination, depth, size and unreachable templates. It is walked without
recursion, so that no nesting is too deep.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.objects.arguments import in_words, nearest
from pytest_kscen.objects.chaos_mesh import CRON_WORKFLOWS, OWN, SCHEDULE, SHIPPED, STATUS_CHECK
from pytest_kscen.workflow.parameters import ParameterError, apply_parameters
from pytest_kscen.workflow.validation.lenient_reading import drafts_in, list_in, map_in, text_in
from pytest_kscen.workflow.validation.templates import (
    validate_cron_workflow,
    validate_probes,
    validate_schedule,
    validate_template,
)
from pytest_kscen.workflow.validation.value_checks import (
    NAME,
    TEXT,
    Shape,
    ValidationIssue,
    a_list,
    a_record,
    anything,
    error,
    shown,
    subdomain,
    warning,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_kscen.objects.documents import Path
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.workflow.validation.lenient_reading import TemplateDraft

    Edges = Callable[[str], list[str]]


DEEPEST, LARGEST = 200, 10_000
"""Limits of levels and of nodes."""
MOST_CYCLES = 10  # reported
MAX_SUGGESTIONS = 20  # suggested names per workflow, because each is slow to find
ON = object()
OFF = object()


@dataclass(frozen=True, slots=True)
class TemplateGraph:
    """Templates by their names, with the entry and the exit handler.

    Edges lead from a template to its children and branches. Names that no template has are left
    out, as another rule reports them.
    """

    templates: dict[str, TemplateDraft]
    entry: str
    on_exit: str = ""

    @classmethod
    def of(cls, drafts: Iterable[TemplateDraft], entry: str, on_exit: str) -> TemplateGraph:
        """Build the graph of these templates; the first of several templates of one name counts, as
        another rule reports the others.
        """
        templates: dict[str, TemplateDraft] = {}
        for draft in drafts:
            templates.setdefault(draft.name, draft)
        return cls(templates, entry, on_exit)

    @property
    def roots(self) -> list[str]:
        return [name for name in (self.entry, self.on_exit) if name in self.templates]

    def sure(self, name: str) -> list[str]:
        return [child for _, child in self.templates[name].children if child in self.templates]

    def always(self, name: str) -> list[str]:
        """Return the templates of `sure` and the branches without an expression."""
        branches = (
            text_in(branch, "target")
            for _, branch in self.templates[name].branches
            if not branch.get("expression")
        )
        return [*self.sure(name), *(target for target in branches if target in self.templates)]

    def possible(self, name: str) -> list[str]:
        return [target for _, target in self.templates[name].targets if target in self.templates]


def validate_tree(tree: TemplateGraph) -> Iterator[ValidationIssue]:
    cycles = list(_cycles(tree))
    suggestions = 0
    for draft in tree.templates.values():
        for path, name in draft.targets:
            if name and name not in tree.templates:
                suggestions += 1
                suggestion = nearest(name, tree.templates) if suggestions <= MAX_SUGGESTIONS else ""
                yield _in(draft, error(path, f"there is no template {name!r}{suggestion}"))
    yield from cycles
    if not any(each.is_error for each in cycles):
        yield from _measures(tree)
    reached = set(depth_first(tree.roots, tree.possible)[0])
    # The templates below an unknown type are unknown.
    if tree.entry in tree.templates and all(tree.templates[name].is_known for name in reached):
        why = f"it cannot be reached from the entry {tree.entry!r}, so it never runs"
        for name, draft in tree.templates.items():
            if name and name not in reached:
                yield _in(draft, warning(draft.path, why))
    yield from _endless(tree)
    yield from _longer_than_parent(tree)


def depth_first(roots: Iterable[str], edges: Edges) -> tuple[list[str], list[list[str]]]:
    """Return the reachable templates, children first, and the first cycles, each from a name to
    itself.
    """
    state: dict[str, object] = {}
    order: list[str] = []
    cycles: list[list[str]] = []
    for root in roots:
        if root in state:
            continue
        state[root] = ON
        trail = [root]
        left = [iter(edges(root))]
        while trail:
            for name in left[-1]:
                if name not in state:
                    state[name] = ON
                    trail.append(name)
                    left.append(iter(edges(name)))
                    break
                if state[name] is ON and len(cycles) < MOST_CYCLES:
                    cycles.append([*trail[trail.index(name) :], name])
            else:
                left.pop()
                order.append(trail.pop())
                state[order[-1]] = OFF
    return order, cycles


def _cycles(tree: TemplateGraph) -> Iterator[ValidationIssue]:
    _, cycles = depth_first(tree.templates, tree.sure)
    for cycle in cycles:
        yield _at_edge(
            tree,
            cycle,
            error((), f"{' → '.join(cycle)} is an endless loop: no template in it can end it"),
        )
    if cycles:
        return
    _, cycles = depth_first(tree.templates, tree.always)
    for cycle in cycles:
        why = (
            "every branch in it is always taken: the loop goes on until a deadline or the "
            "limit of nodes"
        )
        yield _at_edge(tree, cycle, warning((), f"{' → '.join(cycle)}: {why}"))


def _at_edge(tree: TemplateGraph, cycle: list[str], fault: ValidationIssue) -> ValidationIssue:
    """Place an issue of a cycle at the field that closes it."""
    draft = tree.templates[cycle[-2]]
    path = next(path for path, name in draft.targets if name == cycle[-1])
    return _in(draft, replace(fault, path=path))


def _measures(tree: TemplateGraph) -> Iterator[ValidationIssue]:
    depth: dict[str, int] = {}
    order, _ = depth_first(tree.roots, tree.possible)
    for name in order:  # a child that is missing closes a loop, and is not counted
        depth[name] = 1 + max((depth.get(child, 0) for child in tree.possible(name)), default=0)
    size: dict[str, int] = {}
    for name in depth_first(tree.roots, tree.sure)[0]:
        size[name] = min(LARGEST + 1, 1 + sum(size[child] for child in tree.sure(name)))
    for root in tree.roots:
        draft = tree.templates[root]
        if depth[root] > DEEPEST:
            yield _in(
                draft,
                error(
                    draft.path,
                    f"the tree below it is {depth[root]} levels deep: the maximum is {DEEPEST}",
                ),
            )
        if size[root] > LARGEST:
            about = (
                f"the tree below it has more than {LARGEST:,} nodes, which is the most: a "
                "child named twice counts twice"
            )
            yield _in(draft, error(draft.path, about))


def _endless(tree: TemplateGraph) -> Iterator[ValidationIssue]:
    """Yield issues of nodes that end by a deadline alone and have none.

    They are errors unless a template above is cut off in time.
    """
    unbounded: set[str] = set()
    todo = [*tree.roots]
    while todo:
        name = todo.pop()
        if name not in unbounded and tree.templates[name].length is None:
            unbounded.add(name)
            todo += tree.possible(name)
    reached = set(depth_first(tree.roots, tree.possible)[0])
    for name, draft in tree.templates.items():
        is_continuous = (
            draft.type == STATUS_CHECK
            and text_in(map_in(draft.body, "statusCheck"), "mode") == "Continuous"
        )
        if draft.lengths or not (draft.is_chaos or draft.type == SCHEDULE or is_continuous):
            continue
        if name in unbounded or name not in reached:
            yield _in(
                draft,
                error(draft.path, f"deadline is missing: without it a {_label(draft)} never ends"),
            )
        else:
            about = f"without it a {_label(draft)} lasts until something above it is cut off"
            yield _in(draft, warning(draft.path, f"deadline is missing: {about}"))


def _label(draft: TemplateDraft) -> str:
    return f"continuous {draft.type}" if draft.type == STATUS_CHECK else draft.type


def _longer_than_parent(tree: TemplateGraph) -> Iterator[ValidationIssue]:
    """Yield warnings of templates whose length reaches the shortest length above them."""
    cut_off_by: dict[str, TemplateDraft] = {}
    limited = [
        (draft.length, draft) for draft in tree.templates.values() if draft.length is not None
    ]
    for _, outer in sorted(limited, key=lambda each: each[0]):
        todo = tree.possible(outer.name)
        while todo:
            name = todo.pop()
            if name not in cut_off_by and name != outer.name:
                cut_off_by[name] = outer
                todo += tree.possible(name)
    for name, outer in cut_off_by.items():
        inner, most = tree.templates[name], outer.length or 0.0
        if inner.length is not None and inner.length >= most:
            ancestor = (
                f"its parent {outer.name!r}"
                if name in tree.possible(outer.name)
                else f"{outer.name!r} above it"
            )
            then = (
                "counts from when it is in effect, so it is cut short"
                if inner.is_chaos
                else "is cut off just as it ends"
            )
            about = (
                f"longer than {ancestor} has: {in_words(most)}"
                if inner.length > most
                else f"all that {ancestor} has: it {then}"
            )
            message = f"{in_words(inner.length)} is {about}"
            yield _in(inner, warning(next(iter(inner.lengths)), message))


def _in(draft: TemplateDraft, fault: ValidationIssue) -> ValidationIssue:
    return replace(fault, template=draft.name)


KINDS = WORKFLOW, SCHEDULE_KIND, CRON_WORKFLOW = (
    SHIPPED.workflows.kind,
    SHIPPED.schedules.kind,
    CRON_WORKFLOWS.kind,
)
API_VERSIONS = tuple(family.workflows.api_version for family in (SHIPPED, OWN))
LARGEST_OBJECT = 1_500_000  # bytes that a request of etcd may have
LONGEST_NAME = 63  # it is a label's value
OBJECT_FIELDS: dict[str, Shape] = dict.fromkeys(
    ("apiVersion", "kind", "metadata", "spec", "status"), anything
)
PARAMETER = a_record(
    {"name": NAME, "value": anything, "paths": a_list(NAME)}, "name", "value", "paths"
)
WORKFLOW_FIELDS: dict[str, Shape] = {
    "entry": TEXT,
    "templates": a_list(
        lambda value, path: (
            a_record({}, "name")(value, path) if not isinstance(value, dict) else iter(())
        )
    ),
    "parameters": a_list(PARAMETER),
    "onExit": TEXT,
    "probes": anything,
}


def is_workflow_or_schedule(obj: Any) -> bool:
    return (
        isinstance(obj, dict) and obj.get("apiVersion") in API_VERSIONS and obj.get("kind") in KINDS
    )


def validate(obj: Any) -> list[ValidationIssue]:
    """Return the issues of a Workflow or Schedule; the object may be anything at all.

    Errors are issues that make it hang or fail; a warning marks a part that is ignored or unlikely
    to be meant. The order is that of the rules, not of the file's lines.
    """
    return list(dict.fromkeys(_issues(obj)))


def _issues(obj: Any) -> Iterator[ValidationIssue]:
    if not isinstance(obj, dict):
        yield error(
            (),
            (
                f"{shown(obj)} is not an object: start with apiVersion: {API_VERSIONS[0]} "
                f"and kind: {WORKFLOW}"
            ),
        )
        return
    yield from _head(obj)
    try:
        size = len(orjson.dumps(obj, option=orjson.OPT_NON_STR_KEYS))
    except (TypeError, ValueError) as refusal:
        yield error((), f"it cannot be written as JSON: {refusal}")
    else:
        if size > LARGEST_OBJECT:
            yield error(
                (),
                f"it has {size:,} bytes: API servers accept at most {LARGEST_OBJECT:,}",
            )
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        yield error(
            ("spec",), f"{shown(spec)} is not a map" if spec is not None else "spec is missing"
        )
    elif obj.get("kind") in (SCHEDULE_KIND, CRON_WORKFLOW):
        is_cron = obj["kind"] == CRON_WORKFLOW
        more = {WORKFLOW: "workflow"}
        yield from (
            validate_cron_workflow(spec, ("spec",))
            if is_cron
            else validate_schedule(spec, ("spec",), more)
        )
        if spec.get("workflow") is not None and (is_cron or text_in(spec, "type") == WORKFLOW):
            yield from validate_spec(spec["workflow"], ("spec", "workflow"))
    else:
        yield from validate_spec(spec, ("spec",))


def _head(obj: Obj) -> Iterator[ValidationIssue]:
    yield from a_record(OBJECT_FIELDS)(obj, ())
    versions = API_VERSIONS if obj.get("kind") != CRON_WORKFLOW else (CRON_WORKFLOWS.api_version,)
    if obj.get("apiVersion") not in versions:
        yield error(
            ("apiVersion",),
            (
                f"the apiVersion is {shown(obj.get('apiVersion'))}: it has to be "
                f"{' or '.join(versions)}"
            ),
        )
    if (kind := obj.get("kind")) not in KINDS:
        yield error(
            ("kind",),
            (
                f"the kind is {shown(kind)}: it is none of "
                f"{', '.join(KINDS)}{nearest(str(kind), KINDS)}"
            ),
        )
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
            (
                f"the name has {len(name)} characters, {LONGEST_NAME} is the most, "
                "because its objects have it as a label"
            ),
        )


def validate_spec(spec: Any, path: Path) -> Iterator[ValidationIssue]:
    """Yield the issues of a workflow's spec, with the values of its parameters in place."""
    yield from a_record(WORKFLOW_FIELDS)(spec, path)
    if not isinstance(spec, dict):
        return
    names: set[str] = set()
    for number, parameter in enumerate(list_in(spec, "parameters")):
        here = (*path, "parameters", str(number))
        if any(fault.is_error for fault in PARAMETER(parameter, here)):
            continue
        name = parameter["name"]
        if name in names:
            yield error((*here, "name"), f"another parameter is named {name!r}")
        names.add(name)
        try:
            applied = apply_parameters({**spec, "parameters": [parameter]}, {})
            spec = {**applied, "parameters": spec["parameters"]}
        except ParameterError as refusal:
            yield error(here, str(refusal))
    yield from validate_probes(spec.get("probes"), (*path, "probes"))
    yield from _spec_rules(spec, path)
    drafts = drafts_in(spec, path)
    for draft in drafts:
        yield from validate_template(draft)
    yield from validate_tree(
        TemplateGraph.of(drafts, text_in(spec, "entry"), text_in(spec, "onExit"))
    )


def _spec_rules(spec: Obj, path: Path) -> Iterator[ValidationIssue]:
    if not spec.get("templates"):
        yield error(
            (*path, "templates"),
            "templates is missing: add at least the template of the entry",
        )
    names = [draft.name for draft in drafts_in(spec, path)]
    entry = text_in(spec, "entry")
    if not entry:
        yield error(
            (*path, "entry"),
            "entry is missing: it names the first template",
        )
    for key in ("entry", "onExit"):
        name = text_in(spec, key)
        if name and name not in names:
            yield error((*path, key), f"there is no template {name!r}{nearest(name, names)}")
    if entry and entry == spec.get("onExit"):
        yield warning((*path, "onExit"), "onExit is the entry: the workflow runs twice")
    seen: set[str] = set()
    for draft in drafts_in(spec, path):
        if draft.name and draft.name in seen:
            fault = error((*draft.path, "name"), f"another template is named {draft.name!r}")
            yield replace(fault, template=draft.name)
        seen.add(draft.name)
