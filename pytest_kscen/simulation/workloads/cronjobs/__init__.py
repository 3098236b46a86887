"""CronJobs: a job at each appointed time. What the job then does is not decided here."""

from pytest_kscen.simulation.workloads.cronjobs.controller import CronJobs

__all__ = ["CronJobs"]
