"""Public module for plugins of the embedded cluster's scheduler.

A plugin is a class derived from `Plugin`. The methods that it overrides are the extension points
at which it is called:

    from pytest_kscen.scheduler import Plugin, unschedulable

    class Spacious(Plugin):
        \"\"\"Allow at most three pods per node, and prefer empty nodes.\"\"\"

        def filter(self, state, pod, node):
            return unschedulable("too many pods") if len(node.pods) >= 3 else None

        def score(self, state, pod, node):
            return 100 - 30 * len(node.pods)

A KubeSchedulerConfiguration enables it by its path, `package.module:Spacious`; or by its class'
name, after `cluster.site.scheduler.registry.register(Spacious)`. One object is made for each
profile that enables it, with the args of the configuration's pluginConfig and a `Handle`.

Methods return None for success, or a `Status` made by `unschedulable`, `unresolvable`, `pending`,
`wait` or `failure`. An exception ends the run with a message that names plugin, method and pod.

Each attempt to schedule a pod has a `CycleState`, a dictionary. Results of `pre_filter` and
`pre_score` go into it under the plugin's name, never into attributes of the plugin. A value that
depends on other pods needs a `clone` method, and the plugin needs `add_pod` and `remove_pod`, so
that preemption can try out victims.

A pod that the plugin refused is retried after the events that its `events` method names; by
default after any.

For clusters of thousands of nodes a plugin may also implement `filter_many`, `score_many` and
`normalize_many`, which work on columns of numbers. A plugin that needs to know the places of pods
may keep counts of its own with `handle.snapshot.watch(...)`.

Only `pytest_kscen.embedded.scheduler` may be imported here.
"""

from pytest_kscen.embedded.scheduler.framework.attempt import Attempt, CycleState, Sink
from pytest_kscen.embedded.scheduler.framework.events import (
    ASSIGNED_POD,
    NODE,
    POD,
    Action,
    Interest,
)
from pytest_kscen.embedded.scheduler.framework.handle import Handle
from pytest_kscen.embedded.scheduler.framework.plugin import POINTS, Plugin
from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, Nomination, PodInfo
from pytest_kscen.embedded.scheduler.framework.snapshot import Snapshot, Watcher
from pytest_kscen.embedded.scheduler.framework.status import (
    SKIP,
    Code,
    Status,
    failure,
    pending,
    unresolvable,
    unschedulable,
    wait,
)
from pytest_kscen.embedded.scheduler.registry import Registry
from pytest_kscen.embedded.scheduler.scheduler import Scheduler

__all__ = [
    "ASSIGNED_POD",
    "NODE",
    "POD",
    "POINTS",
    "SKIP",
    "Action",
    "Attempt",
    "Code",
    "CycleState",
    "Handle",
    "Interest",
    "NodeInfo",
    "Nomination",
    "Plugin",
    "PodInfo",
    "Registry",
    "Scheduler",
    "Sink",
    "Snapshot",
    "Status",
    "Watcher",
    "failure",
    "pending",
    "unresolvable",
    "unschedulable",
    "wait",
]
