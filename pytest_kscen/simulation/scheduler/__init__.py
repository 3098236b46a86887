"""Which node a pod goes to: a queue, a table of filters, a table of scores, and the binding. No kubelet may enter here."""

from pytest_kscen.simulation.scheduler.scheduler import Scheduler

__all__ = ["Scheduler"]
