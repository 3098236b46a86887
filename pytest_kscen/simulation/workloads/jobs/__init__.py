"""Jobs: pods that run until enough of them have succeeded, or too many have failed. No container is run here."""

from pytest_kscen.simulation.workloads.jobs.controller import Jobs
from pytest_kscen.simulation.workloads.jobs.expiry import FinishedJobs
from pytest_kscen.simulation.workloads.jobs.orphans import OrphanedPods

__all__ = ["FinishedJobs", "Jobs", "OrphanedPods"]
