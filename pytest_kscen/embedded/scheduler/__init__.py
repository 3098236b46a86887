"""Scheduler of the embedded cluster: kube-scheduler's framework, queue and default plugins.

Neither a kubelet nor a controller may be imported here. Users write plugins with
`pytest_kscen.scheduler`, which re-exports the public names. Inside:

    framework/          plugin base class, statuses, snapshot of the cluster, profiles
    plugins/            default plugins of kube-scheduler 1.36
    configuration_*     KubeSchedulerConfiguration: validation, loading, the ConfigMap
    queue, event_handlers, scheduling_cycle, filtering, scoring, extenders
    scheduler           the actor that ties them together
"""

from pytest_kscen.embedded.scheduler.scheduler import Scheduler

__all__ = ["Scheduler"]
