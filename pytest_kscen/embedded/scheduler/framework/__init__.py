"""The scheduling framework: what a plugin is, what it is given, and how it lives. No plugin may
enter here.

    from pytest_kscen.embedded.scheduler.framework import Plugin, unschedulable

    class Quiet(Plugin):
        \"\"\"No more than three pods on a node, and rather where there is none.\"\"\"

        def filter(self, state, pod, node):
            return unschedulable("too loud") if len(node.pods) >= 3 else None

        def score(self, state, pod, node):
            return 100 - 30 * len(node.pods)

A class is a plugin; the methods that it overrides are the points at which it stands
(`plugin.Plugin` has them all). One object is made for each profile that wants it, with the
arguments of the configuration's pluginConfig and a `Handle`. A configuration names it by its class'
name, once it is registered (`registry.register(Quiet)`), or by its path,
`package.module:Quiet`.

For each attempt to place a pod there is one `CycleState`, a dictionary: what `pre_filter` or
`pre_score` finds out, it leaves there under its own name for `filter`, `score` and the rest;
nothing of an attempt belongs into the plugin itself. If other pods' presence matters to what
pre_filter leaves there, give it a `clone` method and implement `add_pod` and
`remove_pod`, so that preemption can try things out.

An answer is None (yes) or a `Status`. The methods for one node are all that a plugin needs. One
that is to be quick in clusters of thousands of nodes may offer `filter_many` and `score_many` (with
`normalize_many`), which see the columns of a `Table`; whoever has to know where pods are may
`handle.snapshot.watch(...)` and keep count.

A pod that this plugin has turned down is looked at again when something happens that `events` tells
of."""

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
