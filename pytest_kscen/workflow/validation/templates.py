"""Validate one template: fields of its type, its chaos, Schedule, expressions, retries and
probes.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.arguments import in_words, nearest
from pytest_kscen.objects.chaos_mesh import (
    KINDS,
    PARALLEL,
    SCHEDULE,
    SERIAL,
    STATUS_CHECK,
    SUSPEND,
    TASK,
    TYPES,
)
from pytest_kscen.objects.cron import Cron, CronError
from pytest_kscen.workflow.expressions import expression_error, expression_warning
from pytest_kscen.workflow.probes import InvalidProbe, probes_of
from pytest_kscen.workflow.probes.command import CommandProbe
from pytest_kscen.workflow.validation.chaos import is_one_shot, validate_chaos
from pytest_kscen.workflow.validation.lenient_reading import map_in, text_in
from pytest_kscen.workflow.validation.value_checks import (
    DURATION,
    NAME,
    TEXT,
    Shape,
    ValidationIssue,
    a_list,
    a_map,
    a_record,
    anything,
    error,
    label_name,
    number,
    one_of,
    positive,
    seconds,
    status_code,
    subdomain,
    text,
    url,
    warning,
    whole,
    yes_or_no,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_kscen.objects.documents import Path
    from pytest_kscen.workflow.validation.lenient_reading import TemplateDraft


STEP = re.compile(r"[^.\[\]]+")


def validate_probes(probes: Any, path: Path) -> Iterator[ValidationIssue]:
    try:
        for number, probe in enumerate(probes_of(probes, "probes")):
            if isinstance(probe.form, CommandProbe) and (
                odd := expression_warning(probe.form.expression)
            ):
                yield warning((*path, str(number), "command", "expression"), odd)
    except InvalidProbe as wrong:
        for problem in wrong.errors:
            below = STEP.findall(problem.path)[1:]
            yield error(
                (*path, *below),
                f"{below[-1] if below and not below[-1].isdigit() else 'it'} {problem.message}",
            )


FORBID, ALLOW = "Forbid", "Allow"
CHAOS = {kind.kind: kind.key for kind in KINDS.values()}


def _cron(line: str) -> str:
    try:
        comes = Cron.of(line).next_after(0)
    except CronError as refusal:
        return str(refusal)
    return "" if comes is not None else f"{line!r} never matches: no such day exists"


SCHEDULE_FIELDS: dict[str, Shape] = {
    "schedule": text(_cron),
    "type": TEXT,
    "concurrencyPolicy": one_of(FORBID, ALLOW),
    "historyLimit": whole(1),
    "startingDeadlineSeconds": whole(0),
}


def validate_cron_workflow(spec: Any, path: Path) -> Iterator[ValidationIssue]:
    fields = {key: shape for key, shape in SCHEDULE_FIELDS.items() if key != "type"}
    yield from a_record({**fields, "workflow": anything}, "schedule", "workflow")(spec, path)


def validate_schedule(
    spec: Any, path: Path, more: Mapping[str, str] | None = None
) -> Iterator[ValidationIssue]:
    """Yield the issues of a Schedule.

    `more` are kinds that it may spawn besides chaos, by their field; their specs are not checked
    here.
    """
    kinds = {**CHAOS, **(more or {})}
    yield from a_record(
        {**SCHEDULE_FIELDS, **dict.fromkeys(kinds.values(), anything)}, "schedule", "type"
    )(spec, path)
    if not isinstance(spec, dict) or not (kind := text_in(spec, "type")):
        return
    if kind not in kinds:
        yield error(
            (*path, "type"),
            (
                f"there is no type {kind!r} to be scheduled: there are "
                f"{', '.join(kinds)}{nearest(kind, kinds)}"
            ),
        )
        return
    if spec.get(kinds[kind]) is None:
        yield error(path, f"{kinds[kind]} is missing: it defines the object to create")
    for key in kinds.values():
        if key != kinds[kind] and spec.get(key) not in (None, {}):
            yield warning((*path, key), f"{key} is ignored: the type is {kind}")
    if kind in CHAOS and spec.get(kinds[kind]) is not None:
        path = (*path, CHAOS[kind])
        yield from validate_chaos(kind, spec[CHAOS[kind]], path)
        chaos = map_in(spec, CHAOS[kind])
        if chaos and not chaos.get("duration") and not is_one_shot(kind, chaos):
            forbids = spec.get("concurrencyPolicy") in (None, FORBID)
            then = (
                "the first object stays, and no other is created"
                if forbids
                else "objects stay, and their number grows"
            )
            yield warning(path, f"duration is missing: {then}")


LONGEST_NAME = 57  # node names are 6 longer, and are labels
LABELLING_TYPES = (TASK, STATUS_CHECK, SCHEDULE)
"""Types other than chaos whose nodes create objects labelled with the node's name."""
CHAOS_KEYS = {kind.key: kind.kind for kind in KINDS.values()}
BLOCKS: dict[str, tuple[str, ...]] = {
    "task": (TASK,),
    "children": (SERIAL, PARALLEL),
    "conditionalBranches": (TASK,),
    "statusCheck": (STATUS_CHECK,),
    "schedule": (SCHEDULE,),
    **{key: (kind,) for key, kind in CHAOS_KEYS.items()},
}
"""Blocks of a template, and the types that have them."""
FOREIGN_BLOCKS = {
    each: {key for key, types in BLOCKS.items() if each not in types} for each in TYPES
}
"""Blocks that each type may not have."""
IGNORED_BLOCKS = ("statusCheck",)
"""Blocks that Chaos Mesh ignores in templates of other types."""
NEEDED = {TASK: "task", STATUS_CHECK: "statusCheck", SCHEDULE: "schedule"}

UNCHECKED_CONTAINER_FIELDS = (
    "args", "command", "env", "envFrom", "imagePullPolicy", "lifecycle", "livenessProbe",
    "ports", "readinessProbe", "resizePolicy", "resources", "restartPolicy",
    "restartPolicyRules", "securityContext", "startupProbe", "stdin", "stdinOnce",
    "terminationMessagePath", "terminationMessagePolicy", "tty", "volumeDevices",
    "volumeMounts", "workingDir",
)  # fmt: skip
CONTAINER = {
    **dict.fromkeys(UNCHECKED_CONTAINER_FIELDS, anything),
    "name": text(label_name),
    "image": NAME,
}
A_TASK = a_record(
    {
        "container": a_record(CONTAINER, "name", "image"),
        "volumes": a_list(anything),
        "labels": a_map(TEXT),
        "annotations": a_map(TEXT),
    },
    "container",
)
HTTP = a_record(
    {
        "url": text(url),
        "method": one_of("GET", "POST"),
        "headers": a_map(a_list(TEXT)),
        "body": TEXT,
        "criteria": a_record({"statusCode": text(status_code)}, "statusCode"),
    },
    *("url", "criteria"),
)
A_STATUS_CHECK = a_record(
    {
        "mode": one_of("Synchronous", "Continuous"),
        "type": one_of("HTTP"),
        "http": HTTP,
        "duration": DURATION,
        "timeoutSeconds": whole(1),
        "intervalSeconds": whole(1),
        "failureThreshold": whole(1),
        "successThreshold": whole(1),
        "recordsHistoryLimit": whole(1, 1000),
    },
    "http",
)
BACKOFF = a_record({"duration": text(positive), "factor": number, "maxDuration": text(positive)})
RETRY = a_record({"limit": whole(0), "backoff": BACKOFF}, "limit")
BRANCH = a_record({"target": NAME, "expression": TEXT}, "target")
TEMPLATE_FIELDS: dict[str, Shape] = {
    "name": text(subdomain),
    "templateType": TEXT,
    "deadline": text(positive),
    "children": a_list(NAME),
    "conditionalBranches": a_list(BRANCH),
    "abortWithStatusCheck": yes_or_no,
    "task": A_TASK,
    "statusCheck": A_STATUS_CHECK,
    "retry": RETRY,
    **dict.fromkeys(("duration", "schedule", "probes", *CHAOS_KEYS), anything),
}


def validate_template(draft: TemplateDraft) -> Iterator[ValidationIssue]:
    for rule in RULES:
        for fault in rule(draft):
            yield replace(fault, template=draft.name)


def _fields_and_type(draft: TemplateDraft) -> Iterator[ValidationIssue]:
    """Yield issues of fields, of the type and of the name's length.

    Blocks of other types are left to `_blocks`.
    """
    foreign_blocks = FOREIGN_BLOCKS.get(draft.type, ())
    fields = {**TEMPLATE_FIELDS, draft.key: anything} if draft.is_chaos else TEMPLATE_FIELDS
    body = {key: value for key, value in draft.body.items() if key not in foreign_blocks}
    yield from a_record(fields, "name", "templateType")(body, draft.path)
    path = (*draft.path, "templateType")
    if draft.type and not draft.is_known:
        suggestion = nearest(draft.type, TYPES)
        yield error(
            path,
            f"there is no templateType {draft.type!r}: there are {', '.join(TYPES)}{suggestion}",
        )
    elif draft.is_chaos and draft.type not in TYPES:
        suggestion = nearest(draft.type, TYPES)
        yield warning(
            path,
            (
                f"{draft.type} is not a known kind of chaos: it is passed to the cluster "
                f"unchecked{suggestion}"
            ),
        )
    if len(draft.name) > LONGEST_NAME and (draft.is_chaos or draft.type in LABELLING_TYPES):
        about = (
            f"objects of a {draft.type} have it as a label, with six characters more, and "
            "a label has at most 63"
        )
        yield error(
            (*draft.path, "name"),
            f"the name has {len(draft.name)} characters, {LONGEST_NAME} is the most: {about}",
        )


def _blocks(draft: TemplateDraft) -> Iterator[ValidationIssue]:
    """Yield issues of non-empty blocks of other types, and of the type's own block."""
    foreign_blocks = FOREIGN_BLOCKS.get(draft.type, BLOCKS) if draft.is_known else ()
    for key in draft.body:
        if key in foreign_blocks and draft.body[key] not in (None, [], {}):
            types = BLOCKS[key]
            what = (
                f"{key} is a second chaos block"
                if draft.is_chaos and key in CHAOS_KEYS
                else f"a {draft.type} has no {key}"
            )
            issue = warning if key in IGNORED_BLOCKS else error
            yield issue(
                (*draft.path, key),
                f"{what}: it belongs into a template of the type {' or '.join(types)}",
            )
    aborts = draft.is_known and draft.body.get("abortWithStatusCheck")
    if aborts and draft.type != STATUS_CHECK:
        yield warning(
            (*draft.path, "abortWithStatusCheck"),
            f"abortWithStatusCheck is ignored in a {draft.type}",
        )
    own = draft.key or NEEDED.get(draft.type)
    if own and draft.body.get(own) is None:
        suggestion = nearest(own, (each for each in draft.body if each not in TEMPLATE_FIELDS))
        yield error(draft.path, f"{own} is missing: a {draft.type} is defined there{suggestion}")
    if draft.type in KINDS and draft.body.get(draft.key) is not None:
        yield from validate_chaos(draft.type, draft.body[draft.key], (*draft.path, draft.key))
    if draft.type == SCHEDULE and draft.body.get("schedule") is not None:
        yield from validate_schedule(draft.body["schedule"], (*draft.path, "schedule"))


def _lengths(draft: TemplateDraft) -> Iterator[ValidationIssue]:
    """Yield issues of `duration` (the design document's word) and `deadline` (the shipped one)."""
    duration = draft.body.get("duration")
    if duration is not None and not draft.is_chaos:
        why = "write deadline" if draft.type == SUSPEND else "only chaos has one"
        yield warning(
            (*draft.path, "duration"), f"duration is ignored in a {draft.type or 'template'}: {why}"
        )
        return
    if duration is not None:
        yield from text(positive)(duration, (*draft.path, "duration"))
    lengths = {
        path: length
        for path, each in draft.lengths.items()
        if (length := seconds(each)) is not None
    }
    if len(set(lengths.values())) > 1:
        words = " and ".join(
            f"{'.'.join(path[len(draft.path) :])} {in_words(length)}"
            for path, length in lengths.items()
        )
        yield error(
            [*lengths][-1],
            f"{words} contradict each other: both set the length of the chaos; keep the deadline",
        )


def _content(draft: TemplateDraft) -> Iterator[ValidationIssue]:
    if draft.type == SUSPEND and not draft.body.get("deadline"):
        yield error(draft.path, "deadline is missing: without it a Suspend never ends")
    if draft.type in (SERIAL, PARALLEL) and not draft.body.get("children"):
        yield warning(draft.path, f"a {draft.type} without children does nothing")
    for path, branch in draft.branches:
        expression: Any = branch.get("expression")
        if isinstance(expression, str) and (wrong := expression_error(expression)):
            yield error((*path, "expression"), wrong)
        elif isinstance(expression, str) and (odd := expression_warning(expression)):
            yield warning((*path, "expression"), odd)
    retry = draft.body.get("retry")
    backoff = retry.get("backoff") if isinstance(retry, dict) else None
    factor = backoff.get("factor") if isinstance(backoff, dict) else None
    if isinstance(factor, int | float) and not factor >= 1:
        yield error(
            (*draft.path, "retry", "backoff", "factor"),
            f"{factor} is too small: 1 is the least, for a constant pause",
        )
    yield from validate_probes(draft.body.get("probes"), (*draft.path, "probes"))


RULES: tuple[Callable[[TemplateDraft], Iterator[ValidationIssue]], ...] = (
    _fields_and_type,
    _blocks,
    _lengths,
    _content,
)
