"""Rules of Jobs and CronJobs.

The server generates a job's selector and the matching labels from its uid. The pod template is
immutable, except scheduling and resources of a suspended job that is idle.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.kinds import Rules, SubresourceRules
from pytest_kscen.embedded.apiserver.rules import checks
from pytest_kscen.embedded.apiserver.rules.checks import MAX_INT32, Causes
from pytest_kscen.embedded.apiserver.rules.fields import (
    JOB_FIELDS,
    keep_spec,
    keep_status,
    set_defaults,
)
from pytest_kscen.embedded.apiserver.rules.job_status import (
    is_condition_true,
    validate_job_status,
    validate_pod_failure_policy,
    validate_success_policy,
)
from pytest_kscen.embedded.apiserver.rules.pods.annotations import (
    validate_template,
    validate_template_selected,
)
from pytest_kscen.embedded.apiserver.rules.pods.defaults import default_template
from pytest_kscen.embedded.apiserver.rules.pods.rules import drop_disabled_fields
from pytest_kscen.objects import names
from pytest_kscen.objects.cron import fault_of, unknown_zone
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.objects.resources import Obj


CONTROLLER_UID, JOB_NAME = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"
OLD_CONTROLLER_UID, OLD_JOB_NAME = "controller-uid", "job-name"
COUNT_FIELDS = (
    *(
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
    ),
    *("backoffLimitPerIndex", "maxFailedIndexes"),
)
COMPLETION_MODES = ("NonIndexed", "Indexed")
REPLACEMENT_POLICIES = ("Failed", "TerminatingOrFailed")
MAX_INDEXES, LARGE_COMPLETIONS, MAX_AT_LARGE_COMPLETIONS, MAX_MANAGED_BY_LENGTH = (
    100_000,
    100_000,
    10_000,
    63,
)
IMMUTABLE_FIELDS = (
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)


def default_job(job: Obj) -> None:
    default_job_spec(job["spec"])
    spec = job["spec"]
    if "parallelism" not in spec:
        set_defaults(spec, {"completions": 1})
    set_defaults(spec, {"parallelism": 1})
    set_defaults(spec, {"backoffLimit": MAX_INT32 if "backoffLimitPerIndex" in spec else 6})
    set_defaults(
        spec,
        {"podReplacementPolicy": "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"},
    )
    set_defaults(spec, {"completionMode": "NonIndexed", "suspend": False, "manualSelector": False})
    own = (job["spec"]["template"].get("metadata") or {}).get("labels")
    if own:
        set_defaults(job["metadata"], {"labels": own})


def default_job_spec(spec: Obj) -> None:
    """Set the defaults that a Job and the job template of a CronJob share."""
    default_template(spec.get("template"))
    for rule in spec.get("podFailurePolicy", {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern["status"] = pattern.get("status") or "True"


def prepare_job_create(job: Obj, _core: Core) -> None:
    job["status"] = {}
    given = dict(job["spec"]["template"])
    drop_disabled_fields(given)
    job["spec"] = {**job["spec"], "template": given}
    if not job["spec"]["manualSelector"]:
        uid, name = job["metadata"]["uid"], job["metadata"]["name"]
        spec, given = job["spec"], job["spec"]["template"]
        metadata = given.get("metadata") or {}
        labels = metadata.get("labels") or {}
        own = {
            JOB_NAME: name,
            OLD_JOB_NAME: name,
            CONTROLLER_UID: uid,
            OLD_CONTROLLER_UID: uid,
            **labels,
        }
        spec["template"] = {**given, "metadata": {**metadata, "labels": own}}
        own_labels = job["metadata"].get("labels")
        if own_labels is None or own_labels is metadata.get("labels"):
            job["metadata"]["labels"] = own  # a job without labels shares those of its template
        selector = spec.get("selector") or {}
        spec["selector"] = {
            **selector,
            "matchLabels": {CONTROLLER_UID: uid, **(selector.get("matchLabels") or {})},
        }


def prepare_job_update(new: Obj, old: Obj, core: Core) -> None:
    keep_status(new, old, core)
    if new["spec"] is not old["spec"]:
        given = dict(new["spec"]["template"])
        drop_disabled_fields(given)
        if given["spec"] is not new["spec"]["template"]["spec"]:
            new["spec"] = {**new["spec"], "template": given}


def validate_job(job: Obj) -> Causes:
    spec, name = job["spec"], job["metadata"]["name"]
    if not spec.get("manualSelector") and "selector" in spec:
        uid, job_name = job["metadata"]["uid"], job["metadata"]["name"]
        own = (job["spec"]["template"].get("metadata") or {}).get("labels") or {}
        expected = {
            OLD_CONTROLLER_UID: uid,
            OLD_JOB_NAME: job_name,
            CONTROLLER_UID: uid,
            JOB_NAME: job_name,
        }
        for key, value in expected.items():
            path = f"spec.template.metadata.labels[{key}]"
            if key not in own:
                yield Cause.required(path, f"must be '{value}'")
            elif own[key] != value:
                yield Cause.invalid(path, checks.sorted_labels(own), f"must be '{value}'")
        if checks.selector_matches(job["spec"]["selector"], expected) is False:
            yield Cause.invalid(
                "spec.selector",
                checks.selector_in_go_order(job["spec"]["selector"]),
                "`selector` not auto-generated",
            )
    yield from validate_job_spec("spec", spec)
    selector = spec.get("selector")
    if selector is None:
        yield Cause.required("spec.selector")
    else:
        yield from checks.validate_label_selector("spec.selector", selector)
    yield from validate_template_selected("spec.template", spec["template"], selector)
    if spec.get("completionMode") == "Indexed" and spec.get("completions", 0) > 0:
        last = f"{name}-{spec['completions'] - 1}"
        if names.dns1123_label(last):
            detail = f"will not able to create pod with invalid DNS label: {last}"
            yield Cause.invalid("metadata.name", name, detail)


def validate_job_spec(path: str, spec: Obj) -> Causes:
    """Yield the causes that a Job and the job template of a CronJob share; the selector is
    validated elsewhere.
    """
    yield from checks.validate_nonnegative_fields(path, spec, COUNT_FIELDS)
    if "managedBy" in spec:
        yield from validate_domain_prefixed_path(f"{path}.managedBy", spec["managedBy"])
        if len(spec["managedBy"]) > MAX_MANAGED_BY_LENGTH:
            yield Cause.too_long(f"{path}.managedBy", MAX_MANAGED_BY_LENGTH)
    mode = spec.get("completionMode", "NonIndexed")
    yield from _validate_completion_mode(path, spec, mode)
    if "podFailurePolicy" in spec:
        yield from validate_pod_failure_policy(f"{path}.podFailurePolicy", spec)
    if "successPolicy" in spec:
        if mode == "Indexed":
            yield from validate_success_policy(f"{path}.successPolicy", spec)
        else:
            yield Cause.invalid(
                f"{path}.successPolicy", spec["successPolicy"], "requires indexed completion mode"
            )
    if "podReplacementPolicy" in spec:
        allowed = REPLACEMENT_POLICIES[:1] if "podFailurePolicy" in spec else REPLACEMENT_POLICIES
        yield from checks.validate_enum(
            f"{path}.podReplacementPolicy", spec["podReplacementPolicy"], allowed
        )
    yield from validate_template(f"{path}.template", spec["template"])
    here = f"{path}.template.spec.restartPolicy"
    policy = spec["template"]["spec"].get("restartPolicy", "")
    if policy in {"Always", ""}:
        yield Cause.required(here, 'valid values: "OnFailure", "Never"')
    elif policy not in {"OnFailure", "Never"}:
        yield Cause.unsupported(here, policy, ("OnFailure", "Never"))
    elif policy != "Never" and "podFailurePolicy" in spec:
        yield Cause.invalid(
            here, policy, 'only "Never" is supported when podFailurePolicy is specified'
        )


def _validate_completion_mode(path: str, spec: Obj, mode: str) -> Causes:
    per_index = [field for field in ("backoffLimitPerIndex", "maxFailedIndexes") if field in spec]
    if per_index == ["maxFailedIndexes"]:
        yield Cause.required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    yield from checks.validate_enum(f"{path}.completionMode", mode, COMPLETION_MODES)
    if mode == "Indexed":
        yield from _validate_indexed(path, spec)
    elif mode == "NonIndexed":
        for field in per_index:
            yield Cause.invalid(f"{path}.{field}", spec[field], "requires indexed completion mode")


def _validate_indexed(path: str, spec: Obj) -> Causes:
    completions, parallelism, most = (
        spec.get(field) for field in ("completions", "parallelism", "maxFailedIndexes")
    )
    if completions is None:
        yield Cause.required(f"{path}.completions", "when completion mode is Indexed")
    if (parallelism or 0) > MAX_INDEXES:
        detail = f"must be less than or equal to {MAX_INDEXES} when completion mode is Indexed"
        yield Cause.invalid(f"{path}.parallelism", parallelism, detail)
    if most is not None and completions is not None and most > completions:
        yield Cause.invalid(
            f"{path}.maxFailedIndexes", most, "must be less than or equal to completions"
        )
    if (most or 0) > MAX_INDEXES:
        yield Cause.invalid(
            f"{path}.maxFailedIndexes", most, f"must be less than or equal to {MAX_INDEXES}"
        )
    if (completions or 0) > LARGE_COMPLETIONS and "backoffLimitPerIndex" in spec:
        if most is None:
            detail = f"must be specified when completions is above {LARGE_COMPLETIONS}"
            yield Cause.required(f"{path}.maxFailedIndexes", detail)
        limit = (
            f"must be less than or equal to {MAX_AT_LARGE_COMPLETIONS} when completions are above "
            f"{LARGE_COMPLETIONS}"
        )
        for field, value in (("parallelism", parallelism), ("maxFailedIndexes", most)):
            if (value or 0) > MAX_AT_LARGE_COMPLETIONS:
                yield Cause.invalid(
                    f"{path}.{field}", value, f"{limit} and used with backoff limit per index"
                )


def validate_domain_prefixed_path(path: str, value: str) -> Causes:
    """Yield the causes for a value that is not of the form `acme.io/foo`, a domain and a path."""
    domain, _, rest = value.partition("/")
    if not value:
        yield Cause.required(path)
    elif not domain or not rest:
        yield Cause.invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        yield from checks.validate_name(path, domain, names.dns1123_subdomain)
        yield from checks.validate_name(path, rest, names.http_path)


def validate_job_update(new: Obj, old: Obj) -> Causes:
    spec, before = new["spec"], old["spec"]
    if spec is before:
        return
    yield from validate_job(new)
    completions = spec.get("completions")
    if spec.get("completionMode") != "Indexed":
        yield from checks.validate_immutable(
            "spec.completions", completions, before.get("completions")
        )
    elif completions not in (None, before.get("completions"), spec.get("parallelism")):
        yield Cause.invalid(
            "spec.completions", completions, "can only be modified in tandem with spec.parallelism"
        )
    yield from checks.validate_selector_unchanged(new, old)
    # An idle suspended job may change its scheduling and resources; a job's template is immutable
    # otherwise.
    given, earlier = spec["template"], old["spec"]["template"]
    status, suspended = old.get("status") or {}, bool(old["spec"].get("suspend"))
    idle = "startTime" not in status or is_condition_true(status, "Suspended")
    if not (suspended and idle and not status.get("active")):
        yield from checks.validate_immutable("spec.template", given, earlier)
    else:
        placed_spec = {
            name: value
            for name, value in earlier["spec"].items()
            if name not in {*_SCHEDULING_FIELDS, "affinity"}
        }
        placed_spec.update(
            {name: given["spec"][name] for name in _SCHEDULING_FIELDS if name in given["spec"]}
        )
        affinity = {
            name: value
            for name, value in earlier["spec"].get("affinity", {}).items()
            if name != "nodeAffinity"
        }
        if "nodeAffinity" in given["spec"].get("affinity", {}):
            affinity["nodeAffinity"] = given["spec"]["affinity"]["nodeAffinity"]
        if affinity or "affinity" in given["spec"]:
            placed_spec["affinity"] = affinity
        placed = {**earlier, "spec": placed_spec}
        wanted = {
            **placed["spec"],
            **{
                kind: _with_resources_of(placed["spec"], given["spec"], kind)
                for kind in _CONTAINER_FIELDS
                if kind in placed["spec"]
            },
        }
        if given["spec"] != wanted:
            yield Cause.invalid("spec.template.spec", given["spec"], checks.IMMUTABLE)
    for field in IMMUTABLE_FIELDS:
        yield from checks.validate_immutable(f"spec.{field}", spec.get(field), before.get(field))


_CONTAINER_FIELDS = ("containers", "initContainers")
_SCHEDULING_FIELDS = ("nodeSelector", "tolerations", "schedulingGates")


def _with_resources_of(before: Obj, given: Obj, kind: str) -> list[Obj]:
    """Return the containers of `before` with the resources of the equally named ones of `given`."""
    old, new = before[kind], given.get(kind) or []
    if len(old) != len(new):
        return list(old)
    pairs = zip(old, new, strict=True)
    return [
        {**one, "resources": other.get("resources", {})}
        if one.get("name") == other.get("name")
        else one
        for one, other in pairs
    ]


JOB_RULES = {
    ("batch", "jobs"): Rules(
        default=default_job,
        prepare_create=prepare_job_create,
        prepare_update=prepare_job_update,
        validate=validate_job,
        validate_update=validate_job_update,
        parts={"status": SubresourceRules(keep_spec, validate_job_status)},
        qualified_finalizers=True,
        fields=JOB_FIELDS,
    )
}


_ZONE_PART = re.compile(r"(?!-|\.{1,2}\Z)[A-Za-z.\-_0-9+]{1,14}")


def time_zone_errors(zone: str) -> list[str]:
    """Return the real server's messages about a CronJob's time zone.

    One message per malformed part of the name, then one for an unknown zone.
    """
    if not zone:
        return ["timeZone must be nil or non-empty string"]
    faults = [
        f"unknown time zone {zone}" for part in zone.split("/") if not _ZONE_PART.fullmatch(part)
    ]
    if zone.lower() == "local":
        faults.append(
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        )
    unknown = unknown_zone(zone)
    return [*faults, unknown] if unknown else faults


CRON_JOB_DEFAULTS = {
    "concurrencyPolicy": "Allow",
    "suspend": False,
    "successfulJobsHistoryLimit": 3,
    "failedJobsHistoryLimit": 1,
}
CONCURRENCY_POLICIES = ("Allow", "Forbid", "Replace")
MAX_NAME_LENGTH = 52  # the controller appends 11 characters for a job's name


def default_cron_job(obj: Obj) -> None:
    default_job_spec(obj["spec"]["jobTemplate"]["spec"])
    set_defaults(obj["spec"], CRON_JOB_DEFAULTS)


def prepare_cron_job_create(obj: Obj, _core: Core) -> None:
    obj["status"] = {}
    _drop_disabled_fields(obj)


def prepare_cron_job_update(new: Obj, old: Obj, core: Core) -> None:
    keep_status(new, old, core)
    _drop_disabled_fields(new)


def _drop_disabled_fields(obj: Obj) -> None:
    job = obj["spec"]["jobTemplate"]
    given = dict(job["spec"]["template"])
    drop_disabled_fields(given)
    if given["spec"] is not job["spec"]["template"]["spec"]:
        obj["spec"] = {
            **obj["spec"],
            "jobTemplate": {**job, "spec": {**job["spec"], "template": given}},
        }


def validate_cron_job(obj: Obj) -> Causes:
    yield from _validate_cron_job_spec(obj["spec"], None)
    name = obj["metadata"]["name"]
    if len(name) > MAX_NAME_LENGTH:
        yield Cause.invalid(
            "metadata.name", name, f"must be no more than {MAX_NAME_LENGTH} characters"
        )


def validate_cron_job_update(new: Obj, old: Obj) -> Causes:
    if new["spec"] is not old["spec"]:
        yield from _validate_cron_job_spec(new["spec"], old["spec"])


def _validate_cron_job_spec(spec: Obj, before: Obj | None) -> Causes:
    if spec.get("schedule"):
        earlier = before or {}
        schedule = spec["schedule"]
        if fault := fault_of(schedule):
            yield Cause.invalid("spec.schedule", schedule, fault)
        if "TZ" in schedule:
            had_zone = "TZ" in earlier.get("schedule", "")
            if had_zone and "timeZone" in spec:
                detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
                yield Cause.invalid("spec.schedule", schedule, detail)
            elif not had_zone:
                detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
                yield Cause.invalid("spec.schedule", schedule, detail)
    else:
        yield Cause.required("spec.schedule")
    yield from checks.validate_nonnegative_fields("spec", spec, ("startingDeadlineSeconds",))
    if "timeZone" in spec and (before is None or before.get("timeZone") != spec["timeZone"]):
        for fault in time_zone_errors(spec["timeZone"]):
            yield Cause.invalid("spec.timeZone", spec["timeZone"], fault)
    yield from checks.validate_required_enum(
        "spec.concurrencyPolicy", spec.get("concurrencyPolicy"), CONCURRENCY_POLICIES
    )
    job = spec["jobTemplate"]["spec"]
    yield from validate_job_spec("spec.jobTemplate.spec", job)
    if "selector" in job:
        yield Cause.invalid(
            "spec.jobTemplate.spec.selector", job["selector"], "`selector` will be auto-generated"
        )
    if job.get("manualSelector"):
        yield Cause.unsupported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false"))
    yield from checks.validate_nonnegative_fields(
        "spec", spec, ("successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    )


CRON_JOB_RULES = {
    ("batch", "cronjobs"): Rules(
        default=default_cron_job,
        prepare_create=prepare_cron_job_create,
        prepare_update=prepare_cron_job_update,
        validate=validate_cron_job,
        validate_update=validate_cron_job_update,
        parts={"status": SubresourceRules(keep_spec, validates_finalizers=False)},
        qualified_finalizers=True,
    )
}
