"""Bugs of the scheduler: filters, scores, preemption, the queue and its events."""

from __future__ import annotations

from planted_bugs.planting import Patch, PlantedBug, edited

SCHEDULER = "embedded.scheduler"
DOCS = "Kubernetes documentation"


def bug(name: str, wrong: str, source: str, cause: str, *patches: Patch) -> PlantedBug:
    return PlantedBug(name, "scheduler", wrong, source, cause, patches)


BUGS = (
    bug(
        "fit-ignores-usage",
        "Requests are compared with what a node has, not with what is left of it.",
        f"{DOCS}, resource management: the sum of requests is below the capacity; #37232",
        "the node's pods request more than it has",
        edited(
            f"{SCHEDULER}.plugins.node_resources:NodeResourcesFit.filter",
            ("present - used.get(name, 0)", "present"),
        ),
        edited(
            f"{SCHEDULER}.plugins.node_resources:NodeResourcesFit.filter_many",
            ("amount.allocatable[rows] - amount.used[rows]", "amount.allocatable[rows]"),
        ),
    ),
    bug(
        "cordoned-node-used",
        "The check for a cordoned node is inverted: only pods that tolerate it are kept away.",
        f"{DOCS}, manual node administration: cordon; kubernetes#127427",
        "the pod was placed on a cordoned node",
        edited(
            f"{SCHEDULER}.plugins.node_filters:NodeUnschedulable.filter",
            ("not _tolerates(pod)", "_tolerates(pod)"),
        ),
        edited(
            f"{SCHEDULER}.plugins.node_filters:NodeUnschedulable.filter_many",
            ("not _tolerates(pod)", "_tolerates(pod)"),
        ),
    ),
    bug(
        "no-execute-taint-ignored",
        "A taint with the effect NoExecute does not keep new pods away.",
        f"{DOCS}, taints and tolerations: NoExecute; kubernetes#42733",
        "the pod was placed on a node with a taint that it does not tolerate",
        edited(
            f"{SCHEDULER}.framework.pods_and_nodes:NodeInfo.set_object",
            ('taint["effect"] in HARD_EFFECTS', 'taint["effect"] == "NoSchedule"'),
        ),
    ),
    bug(
        "preemption-prefers-important-victims",
        "Among nodes to preempt on, the one whose victim has the highest priority is chosen.",
        "kubernetes#128307, #129136: preemption picks the wrong victim node",
        "a pod of higher priority was preempted than was needed",
        edited(
            f"{SCHEDULER}.plugins.preemption:_disruption",
            ("        pods[0].priority,\n", "        -pods[0].priority,\n"),
        ),
    ),
    bug(
        "new-node-missed",
        "A new node does not wake pods that were refused for want of resources.",
        "kubernetes#72122, #94437: pods stay unschedulable after a missed node event",
        "the pod waited although a node was added that has room for it",
        edited(
            f"{SCHEDULER}.plugins.node_resources:NodeResourcesFit._became_large_enough",
            ("return old is None or any(", "return old is not None and any("),
        ),
    ),
    bug(
        "back-off-without-limit",
        "The back-off of a pod doubles for ever.",
        f"{DOCS}, scheduler configuration: podMaxBackoffSeconds",
        "the pod's back-off is longer than podMaxBackoffSeconds",
        edited(
            f"{SCHEDULER}.backoff_queue:BackoffQueue._expiry",
            ("while count > 1 and seconds < self.maximum:", "while count > 1:"),
            ("min(seconds, self.maximum)", "seconds"),
        ),
    ),
    bug(
        "assumed-pod-kept",
        "A pod whose binding failed stays on its assumed node in the cache.",
        "kubernetes#28883, #31977: the cache keeps an assumed pod",
        "the node counts a pod that is not bound to it",
        edited(
            f"{SCHEDULER}.scheduling_cycle:SchedulingCycle._revert",
            ("    self._snapshot.unassign_pod(pod.uid)\n", ""),
        ),
    ),
    bug(
        "spread-ignores-own-pod",
        "The skew of a topology domain is computed without the pod that is to be added.",
        f"{DOCS}, pod topology spread constraints: maxSkew after the placement",
        "the pods are spread less evenly than maxSkew allows",
        edited(
            f"{SCHEDULER}.plugins.pod_topology_spread:SpreadState.allowed_count",
            ("+ low - constraint.matches(pod.labels)", "+ low"),
        ),
    ),
    bug(
        "priority-order-reversed",
        "Pods of the lowest priority are scheduled first.",
        f"{DOCS}, pod priority: pods of higher priority are scheduled first",
        "the pod waited behind pods of lower priority",
        edited(
            f"{SCHEDULER}.plugins.queueing_and_binding:PrioritySort.sort_key",
            ("-queued.pod.priority", "queued.pod.priority"),
        ),
    ),
    bug(
        "weights-ignored",
        "Scores are added without the weights of their plugins.",
        f"{DOCS}, scheduler configuration: weight; finalscore is the score times the weight",
        "the chosen node does not have the highest weighted score",
        edited(
            f"{SCHEDULER}.scoring:total_scores",
            ("weighed = [weight * score for score in scores]", "weighed = list(scores)"),
        ),
        edited(
            f"{SCHEDULER}.scoring:_total_scores_in_bulk",
            ("weighed = profile.weights[plugin] * scores", "weighed = 1 * scores"),
        ),
    ),
)
