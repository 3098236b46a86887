"""Which node a pod goes to: a framework of plugins, the default ones of kube-scheduler, a queue,
and the actor.

`framework` says what a plugin is, `plugins` has one module for each, `configuration` reads a
KubeSchedulerConfiguration,
`queueing` holds the pods that wait. No kubelet may enter here.
"""

from pytest_kscen.embedded.scheduler.scheduler import Scheduler

__all__ = ["Scheduler"]
