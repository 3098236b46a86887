"""Scheduling framework: plugin base class, statuses, cluster snapshot, profiles.

Neither `plugins` nor the queue may be imported here at run time. Users import the same names from
`pytest_kscen.scheduler`, whose docstring is the tutorial. Inside:

    plugin, plugin_checks, status, events    what a plugin implements and returns
    attempt, handle                          per-attempt state, per-profile handle
    pods_and_nodes, snapshot, node_table     the cluster as plugins see it
    configuration, profile                   a configured set of plugins, and calling it
    extender, diagnosis                      HTTP extenders' interface, messages to users
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
