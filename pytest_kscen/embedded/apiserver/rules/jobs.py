"""Jobs: pods that end.

A job's selector and the labels that go with it are made by the server, and its template stays.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.kinds import Part, Rules
from pytest_kscen.embedded.apiserver.rules import checks
from pytest_kscen.embedded.apiserver.rules.checks import LARGEST_INT32, Causes
from pytest_kscen.embedded.apiserver.rules.fields import JOB_FIELDS, fill, keep_spec, keep_status
from pytest_kscen.embedded.apiserver.rules.job_status import (
    failure_policy,
    is_true,
    success_policy,
    validate_status,
)
from pytest_kscen.embedded.apiserver.rules.pods.annotations import selected, template
from pytest_kscen.embedded.apiserver.rules.pods.defaults import default_template
from pytest_kscen.embedded.apiserver.rules.pods.rules import drop_disabled
from pytest_kscen.objects import names
from pytest_kscen.objects.cron import fault_of, unknown_zone
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.objects.resources import Obj


CONTROLLER_UID, JOB_NAME = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"
OLD_CONTROLLER_UID, OLD_JOB_NAME = "controller-uid", "job-name"
COUNTS = (
    *(
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
    ),
    *("backoffLimitPerIndex", "maxFailedIndexes"),
)
MODES = ("NonIndexed", "Indexed")
REPLACEMENTS = ("Failed", "TerminatingOrFailed")
MOST_INDEXES, MANY_COMPLETIONS, MOST_AT_MANY, LONGEST_MANAGER = 100_000, 100_000, 10_000, 63
FIXED = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")


def default_job(job: Obj) -> None:
    default_job_spec(job["spec"])
    spec = job["spec"]
    if "parallelism" not in spec:
        fill(spec, {"completions": 1})
    fill(spec, {"parallelism": 1})
    fill(spec, {"backoffLimit": LARGEST_INT32 if "backoffLimitPerIndex" in spec else 6})
    fill(
        spec,
        {"podReplacementPolicy": "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"},
    )
    fill(spec, {"completionMode": "NonIndexed", "suspend": False, "manualSelector": False})
    own = (job["spec"]["template"].get("metadata") or {}).get("labels")
    if own:
        fill(job["metadata"], {"labels": own})


def default_job_spec(spec: Obj) -> None:
    """What a Job and a CronJob's template have in common."""
    default_template(spec.get("template"))
    for rule in spec.get("podFailurePolicy", {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern["status"] = pattern.get("status") or "True"


def create_job(job: Obj, _core: Core) -> None:
    job["status"] = {}
    given = dict(job["spec"]["template"])
    drop_disabled(given)
    job["spec"] = {**job["spec"], "template": given}
    if not job["spec"]["manualSelector"]:
        _generate_selector(job)


def _generate_selector(job: Obj) -> None:
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
    its_own = job["metadata"].get("labels")
    if its_own is None or its_own is metadata.get("labels"):
        job["metadata"]["labels"] = own  # a job without labels of its own shares its template's
    selector = spec.get("selector") or {}
    spec["selector"] = {
        **selector,
        "matchLabels": {CONTROLLER_UID: uid, **(selector.get("matchLabels") or {})},
    }


def update_job(new: Obj, old: Obj, core: Core) -> None:
    keep_status(new, old, core)
    if new["spec"] is not old["spec"]:
        given = dict(new["spec"]["template"])
        drop_disabled(given)
        if given["spec"] is not new["spec"]["template"]["spec"]:
            new["spec"] = {**new["spec"], "template": given}


def validate_job(job: Obj) -> Causes:
    spec, name = job["spec"], job["metadata"]["name"]
    if not spec.get("manualSelector") and "selector" in spec:
        yield from _generated(job)
    yield from job_spec("spec", spec)
    selector = spec.get("selector")
    if selector is None:
        yield Cause.required("spec.selector")
    else:
        yield from checks.selector("spec.selector", selector)
    yield from selected("spec.template", spec["template"], selector)
    if spec.get("completionMode") == "Indexed" and spec.get("completions", 0) > 0:
        last = f"{name}-{spec['completions'] - 1}"
        if names.dns1123_label(last):
            why = f"will not able to create pod with invalid DNS label: {last}"
            yield Cause.invalid("metadata.name", name, why)


def _generated(job: Obj) -> Causes:
    uid, name = job["metadata"]["uid"], job["metadata"]["name"]
    own = (job["spec"]["template"].get("metadata") or {}).get("labels") or {}
    expected = {OLD_CONTROLLER_UID: uid, OLD_JOB_NAME: name, CONTROLLER_UID: uid, JOB_NAME: name}
    for key, value in expected.items():
        path = f"spec.template.metadata.labels[{key}]"
        if key not in own:
            yield Cause.required(path, f"must be '{value}'")
        elif own[key] != value:
            yield Cause.invalid(path, checks.in_order(own), f"must be '{value}'")
    if checks.matches(job["spec"]["selector"], expected) is False:
        yield Cause.invalid(
            "spec.selector",
            checks.printed(job["spec"]["selector"]),
            "`selector` not auto-generated",
        )


def job_spec(path: str, spec: Obj) -> Causes:
    """What a Job and a CronJob's template have in common."""
    yield from checks.none_negative(path, spec, COUNTS)
    if "managedBy" in spec:
        yield from domain_prefixed_path(f"{path}.managedBy", spec["managedBy"])
        if len(spec["managedBy"]) > LONGEST_MANAGER:
            yield Cause.too_long(f"{path}.managedBy", LONGEST_MANAGER)
    mode = spec.get("completionMode", "NonIndexed")
    yield from _modes(path, spec, mode)
    if "podFailurePolicy" in spec:
        yield from failure_policy(f"{path}.podFailurePolicy", spec)
    if "successPolicy" in spec:
        if mode == "Indexed":
            yield from success_policy(f"{path}.successPolicy", spec)
        else:
            yield Cause.invalid(
                f"{path}.successPolicy", spec["successPolicy"], "requires indexed completion mode"
            )
    if "podReplacementPolicy" in spec:
        allowed = REPLACEMENTS[:1] if "podFailurePolicy" in spec else REPLACEMENTS
        yield from checks.one_of(
            f"{path}.podReplacementPolicy", spec["podReplacementPolicy"], allowed
        )
    yield from template(f"{path}.template", spec["template"])
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


def _modes(path: str, spec: Obj, mode: str) -> Causes:
    per_index = [field for field in ("backoffLimitPerIndex", "maxFailedIndexes") if field in spec]
    if per_index == ["maxFailedIndexes"]:
        yield Cause.required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    yield from checks.one_of(f"{path}.completionMode", mode, MODES)
    if mode == "Indexed":
        yield from _indexed(path, spec)
    elif mode == "NonIndexed":
        for field in per_index:
            yield Cause.invalid(f"{path}.{field}", spec[field], "requires indexed completion mode")


def _indexed(path: str, spec: Obj) -> Causes:
    completions, parallelism, most = (
        spec.get(field) for field in ("completions", "parallelism", "maxFailedIndexes")
    )
    if completions is None:
        yield Cause.required(f"{path}.completions", "when completion mode is Indexed")
    if (parallelism or 0) > MOST_INDEXES:
        why = f"must be less than or equal to {MOST_INDEXES} when completion mode is Indexed"
        yield Cause.invalid(f"{path}.parallelism", parallelism, why)
    if most is not None and completions is not None and most > completions:
        yield Cause.invalid(
            f"{path}.maxFailedIndexes", most, "must be less than or equal to completions"
        )
    if (most or 0) > MOST_INDEXES:
        yield Cause.invalid(
            f"{path}.maxFailedIndexes", most, f"must be less than or equal to {MOST_INDEXES}"
        )
    if (completions or 0) > MANY_COMPLETIONS and "backoffLimitPerIndex" in spec:
        if most is None:
            why = f"must be specified when completions is above {MANY_COMPLETIONS}"
            yield Cause.required(f"{path}.maxFailedIndexes", why)
        limit = (
            f"must be less than or equal to {MOST_AT_MANY} when completions are above "
            f"{MANY_COMPLETIONS}"
        )
        for field, value in (("parallelism", parallelism), ("maxFailedIndexes", most)):
            if (value or 0) > MOST_AT_MANY:
                yield Cause.invalid(
                    f"{path}.{field}", value, f"{limit} and used with backoff limit per index"
                )


def domain_prefixed_path(path: str, value: str) -> Causes:
    """`acme.io/foo`."""
    domain, _, rest = value.partition("/")
    if not value:
        yield Cause.required(path)
    elif not domain or not rest:
        yield Cause.invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        yield from checks.named(path, domain, names.dns1123_subdomain)
        yield from checks.named(path, rest, names.http_path)


def validate_job_update(new: Obj, old: Obj) -> Causes:
    spec, before = new["spec"], old["spec"]
    if spec is before:
        return
    yield from validate_job(new)
    yield from _completions(spec, before)
    yield from checks.same_selector(new, old)
    # A suspended job may still be told where its pods go and what they take.
    given, earlier = spec["template"], old["spec"]["template"]
    status, suspended = old.get("status") or {}, bool(old["spec"].get("suspend"))
    idle = "startTime" not in status or is_true(status, "Suspended")
    if not (suspended and idle and not status.get("active")):
        yield from checks.immutable("spec.template", given, earlier)
    else:
        placed = _placed_like(earlier, given)
        wanted = {
            **placed["spec"],
            **{
                kind: _sized_like(placed["spec"], given["spec"], kind)
                for kind in _LISTS
                if kind in placed["spec"]
            },
        }
        if given["spec"] != wanted:
            yield Cause.invalid("spec.template.spec", given["spec"], checks.IMMUTABLE)
    for field in FIXED:
        yield from checks.immutable(f"spec.{field}", spec.get(field), before.get(field))


def _completions(spec: Obj, before: Obj) -> Causes:
    new, old = spec.get("completions"), before.get("completions")
    if spec.get("completionMode") != "Indexed":
        yield from checks.immutable("spec.completions", new, old)
    elif new is not None and new != old and new != spec.get("parallelism"):
        yield Cause.invalid(
            "spec.completions", new, "can only be modified in tandem with spec.parallelism"
        )


_LISTS = ("containers", "initContainers")
_PLACING = ("nodeSelector", "tolerations", "schedulingGates")


def _placed_like(before: Obj, given: Obj) -> Obj:
    """The old template with the new one's scheduling."""
    spec = {
        name: value for name, value in before["spec"].items() if name not in {*_PLACING, "affinity"}
    }
    spec.update({name: given["spec"][name] for name in _PLACING if name in given["spec"]})
    affinity = {
        name: value
        for name, value in before["spec"].get("affinity", {}).items()
        if name != "nodeAffinity"
    }
    if "nodeAffinity" in given["spec"].get("affinity", {}):
        affinity["nodeAffinity"] = given["spec"]["affinity"]["nodeAffinity"]
    if affinity or "affinity" in given["spec"]:
        spec["affinity"] = affinity
    return {**before, "spec": spec}


def _sized_like(before: Obj, given: Obj, kind: str) -> list[Obj]:
    """The old containers with the new ones' resources."""
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
        prepare_create=create_job,
        prepare_update=update_job,
        validate=validate_job,
        validate_update=validate_job_update,
        parts={"status": Part(keep_spec, validate_status)},
        qualified_finalizers=True,
        fields=JOB_FIELDS,
    )
}


# A CronJob's time zone: what is wrong with it.


_ZONE_PART = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")


def zone_faults(zone: str) -> list[str]:
    """In Kubernetes' words."""
    if not zone:
        return ["timeZone must be nil or non-empty string"]
    faults = [f"unknown time zone {zone}" for part in zone.split("/") if not _is_zone_part(part)]
    if zone.lower() == "local":
        faults.append(
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        )
    unknown = unknown_zone(zone)
    return [*faults, unknown] if unknown else faults


def _is_zone_part(part: str) -> bool:
    return (
        part not in {".", ".."}
        and not part.startswith("-")
        and _ZONE_PART.fullmatch(part) is not None
    )


# CronJobs: a schedule, and the template of a job.


DEFAULTS = {
    "concurrencyPolicy": "Allow",
    "suspend": False,
    "successfulJobsHistoryLimit": 3,
    "failedJobsHistoryLimit": 1,
}
CONCURRENCY = ("Allow", "Forbid", "Replace")
LONGEST_NAME = 52  # a job's name has 11 characters more


def default_cron_job(obj: Obj) -> None:
    default_job_spec(obj["spec"]["jobTemplate"]["spec"])
    fill(obj["spec"], DEFAULTS)


def create_cron_job(obj: Obj, _core: Core) -> None:
    obj["status"] = {}
    _drop(obj)


def update_cron_job(new: Obj, old: Obj, core: Core) -> None:
    keep_status(new, old, core)
    _drop(new)


def _drop(obj: Obj) -> None:
    job = obj["spec"]["jobTemplate"]
    given = dict(job["spec"]["template"])
    drop_disabled(given)
    if given["spec"] is not job["spec"]["template"]["spec"]:
        obj["spec"] = {
            **obj["spec"],
            "jobTemplate": {**job, "spec": {**job["spec"], "template": given}},
        }


def validate_cron_job(obj: Obj) -> Causes:
    yield from _spec(obj["spec"], None)
    name = obj["metadata"]["name"]
    if len(name) > LONGEST_NAME:
        yield Cause.invalid(
            "metadata.name", name, f"must be no more than {LONGEST_NAME} characters"
        )


def validate_cron_job_update(new: Obj, old: Obj) -> Causes:
    if new["spec"] is not old["spec"]:
        yield from _spec(new["spec"], old["spec"])


def _spec(spec: Obj, before: Obj | None) -> Causes:
    if spec.get("schedule"):
        yield from _schedule(spec, before or {})
    else:
        yield Cause.required("spec.schedule")
    yield from checks.none_negative("spec", spec, ("startingDeadlineSeconds",))
    if "timeZone" in spec and (before is None or before.get("timeZone") != spec["timeZone"]):
        for fault in zone_faults(spec["timeZone"]):
            yield Cause.invalid("spec.timeZone", spec["timeZone"], fault)
    yield from checks.required_one_of(
        "spec.concurrencyPolicy", spec.get("concurrencyPolicy"), CONCURRENCY
    )
    job = spec["jobTemplate"]["spec"]
    yield from job_spec("spec.jobTemplate.spec", job)
    if "selector" in job:
        yield Cause.invalid(
            "spec.jobTemplate.spec.selector", job["selector"], "`selector` will be auto-generated"
        )
    if job.get("manualSelector"):
        yield Cause.unsupported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false"))
    yield from checks.none_negative(
        "spec", spec, ("successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    )


def _schedule(spec: Obj, before: Obj) -> Causes:
    schedule = spec["schedule"]
    if fault := fault_of(schedule):
        yield Cause.invalid("spec.schedule", schedule, fault)
    if "TZ" in schedule:
        had_zone = "TZ" in before.get("schedule", "")
        if had_zone and "timeZone" in spec:
            why = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
            yield Cause.invalid("spec.schedule", schedule, why)
        elif not had_zone:
            why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            yield Cause.invalid("spec.schedule", schedule, why)


CRON_JOB_RULES = {
    ("batch", "cronjobs"): Rules(
        default=default_cron_job,
        prepare_create=create_cron_job,
        prepare_update=update_cron_job,
        validate=validate_cron_job,
        validate_update=validate_cron_job_update,
        parts={"status": Part(keep_spec, judges_finalizers=False)},
        qualified_finalizers=True,
    )
}
