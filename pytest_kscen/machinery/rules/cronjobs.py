"""CronJobs: a schedule, and the template of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.machinery.kinds import Part, Rules
from pytest_kscen.machinery.rules import checks
from pytest_kscen.machinery.rules.filling import fill
from pytest_kscen.machinery.rules.jobs import default_job_spec, job_spec
from pytest_kscen.machinery.rules.pods.preparing import drop_disabled
from pytest_kscen.machinery.rules.preparing import keep_spec, keep_status
from pytest_kscen.machinery.rules.schedules import zone_faults
from pytest_kscen.objects.cron import fault_of
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from pytest_kscen.machinery.core import Core
    from pytest_kscen.machinery.rules.checks import Causes
    from pytest_kscen.objects.resources import Obj

DEFAULTS = {"concurrencyPolicy": "Allow", "suspend": False, "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1}
CONCURRENCY = ("Allow", "Forbid", "Replace")
LONGEST_NAME = 52  # a job's name has 11 characters more


def default(obj: Obj) -> None:
    default_job_spec(obj["spec"]["jobTemplate"]["spec"])
    fill(obj["spec"], DEFAULTS)


def create(obj: Obj, _core: Core) -> None:
    obj["status"] = {}
    _drop(obj)


def update(new: Obj, old: Obj, core: Core) -> None:
    keep_status(new, old, core)
    _drop(new)


def _drop(obj: Obj) -> None:
    job = obj["spec"]["jobTemplate"]
    given = dict(job["spec"]["template"])
    drop_disabled(given)
    if given["spec"] is not job["spec"]["template"]["spec"]:
        obj["spec"] = {**obj["spec"], "jobTemplate": {**job, "spec": {**job["spec"], "template": given}}}


def validate(obj: Obj) -> Causes:
    yield from _spec(obj["spec"], None)
    name = obj["metadata"]["name"]
    if len(name) > LONGEST_NAME:
        yield Cause.invalid("metadata.name", name, f"must be no more than {LONGEST_NAME} characters")


def validate_update(new: Obj, old: Obj) -> Causes:
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
    yield from checks.required_one_of("spec.concurrencyPolicy", spec.get("concurrencyPolicy"), CONCURRENCY)
    job = spec["jobTemplate"]["spec"]
    yield from job_spec("spec.jobTemplate.spec", job)
    if "selector" in job:
        yield Cause.invalid("spec.jobTemplate.spec.selector", job["selector"], "`selector` will be auto-generated")
    if job.get("manualSelector"):
        yield Cause.unsupported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false"))
    yield from checks.none_negative("spec", spec, ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"))


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


RULES = {
    ("batch", "cronjobs"): Rules(
        default=default,
        prepare_create=create,
        prepare_update=update,
        validate=validate,
        validate_update=validate_update,
        parts={"status": Part(keep_spec, judges_finalizers=False)},
        qualified_finalizers=True,
    )
}
