"""The jobs that a CronJob makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.resources import CRON_JOBS, JOBS
from pytest_kscen.simulation.workloads import owners

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.workloads.cronjobs.schedule import Schedule

SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
MINUTE = 60


def build_job(cron_job: Obj, schedule: Schedule, scheduled: float) -> Obj:
    """The job of one appointed time, named after its minute, so that no time gets two."""
    template, metadata = cron_job["spec"]["jobTemplate"], cron_job["metadata"]
    about = template.get("metadata") or {}
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {
            "name": f"{metadata['name']}-{int(scheduled) // MINUTE}",
            "namespace": metadata["namespace"],
            **({"labels": about["labels"]} if about.get("labels") else {}),
            "annotations": {**(about.get("annotations") or {}), SCHEDULED: schedule.timestamp(scheduled)},
            "ownerReferences": [owners.reference_to(cron_job, CRON_JOBS)],
        },
        "spec": template["spec"],
    }
