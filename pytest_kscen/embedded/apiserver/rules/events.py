"""Rules of Events in the core group and in `events.k8s.io`, which share one store.

`events.k8s.io` has stricter rules, and makes everything but the series immutable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.kinds import Rules
from pytest_kscen.embedded.apiserver.rules.checks import (
    GO_OBJECT_REFERENCE,
    IMMUTABLE,
    Causes,
    as_go_struct,
    validate_name,
)
from pytest_kscen.embedded.apiserver.rules.fields import EVENT_FIELDS, REGARDING_FIELDS
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kscen.objects.resources import Obj

FIELD_LIMITS = {"reportingInstance": 128, "action": 128, "reason": 128}
MAX_NOTE_BYTES = 1024
CORE_FIELD_NAMES = {
    "subject": "involvedObject",
    "reporter": "reportingComponent",
    "note": "message",
}
EVENTS_FIELD_NAMES = {"subject": "regarding", "reporter": "reportingController", "note": "note"}
DEPRECATED_FIELDS = {
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "deprecatedSource": "source",
}
IMMUTABLE_FIELDS = (  # the field of `events.k8s.io`, and its name in causes
    *(
        ("regarding", "involvedObject"),
        ("reason", "reason"),
        ("note", "message"),
        ("deprecatedSource", "source"),
    ),
    *(("deprecatedFirstTimestamp", "firstTimestamp"), ("deprecatedLastTimestamp", "lastTimestamp")),
    *(
        ("deprecatedCount", "count"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
    ),
    *(
        ("related", "related"),
        ("reportingController", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ),
)


def _validate_common(event: Obj, name: Mapping[str, str]) -> Causes:
    namespace, subject = event["metadata"].get("namespace", ""), event.get(name["subject"]) or {}
    subject_namespace = subject.get("namespace", "")
    if not event.get("eventTime"):
        allowed = ("", "default") if not subject_namespace else (subject_namespace,)
        if namespace not in allowed:
            yield Cause.invalid(
                "involvedObject.namespace", subject_namespace, "does not match event.namespace"
            )
    else:
        if not subject_namespace and namespace not in {"default", "kube-system"}:
            yield Cause.invalid(
                "involvedObject.namespace", subject_namespace, "does not match event.namespace"
            )
        reporter = event.get(name["reporter"], "")
        if not reporter:
            yield Cause.required(name["reporter"])
        yield from validate_name(name["reporter"], reporter, names.label_key)
        for field, most in FIELD_LIMITS.items():
            if not event.get(field):
                yield Cause.required(field)
            if len(event.get(field, "").encode()) > most:
                yield Cause.invalid(field, "", f"can have at most {most} characters")
        if len(event.get(name["note"], "").encode()) > MAX_NOTE_BYTES:
            yield Cause.invalid("message", "", f"can have at most {MAX_NOTE_BYTES} characters")
    yield from validate_name("namespace", namespace, names.dns1123_subdomain)


def validate_core_event(event: Obj) -> Causes:
    return _validate_common(event, CORE_FIELD_NAMES)


def validate_core_event_update(new: Obj, _old: Obj) -> Causes:
    return _validate_common(new, CORE_FIELD_NAMES)


def validate_event(event: Obj) -> Causes:
    yield from _validate_common(event, EVENTS_FIELD_NAMES)
    yield from _validate_series(event)
    if not event.get("eventTime"):
        yield Cause.required("eventTime")
    if event.get("type") not in {"Normal", "Warning"}:
        yield Cause.invalid("type", "", f"has invalid value: {event.get('type', '')}")
    for field, shown in DEPRECATED_FIELDS.items():
        if event.get(field):
            yield Cause.invalid(shown, "", "needs to be unset")


def _validate_series(event: Obj) -> Causes:
    series = event.get("series")
    if series is not None:
        if series.get("count", 0) < 2:  # noqa: PLR2004
            yield Cause.invalid("series.count", "", "should be at least 2")
        if not series.get("lastObservedTime"):
            yield Cause.required("series.lastObservedTime")


def validate_event_update(new: Obj, old: Obj) -> Causes:
    yield from _validate_common(new, EVENTS_FIELD_NAMES)
    if new.get("series") != old.get("series"):
        yield from _validate_series(new)
    for field, shown in IMMUTABLE_FIELDS:
        after, before = new.get(field), old.get(field)
        if after != before:
            value = (
                as_go_struct(GO_OBJECT_REFERENCE, after)
                if isinstance(after, dict) and field in {"regarding", "related"}
                else after
            )
            yield Cause.invalid(shown, value, IMMUTABLE)


RULES = {
    ("", "events"): Rules(
        validate=validate_core_event,
        validate_update=validate_core_event_update,
        name=names.path_segment,
        metadata_last=True,
        fields=EVENT_FIELDS,
        generation=None,
        create_on_update=True,
    ),
    ("events.k8s.io", "events"): Rules(
        validate=validate_event,
        validate_update=validate_event_update,
        qualified_finalizers=True,
        fields=REGARDING_FIELDS,
        generation=None,
        create_on_update=True,
    ),
}
