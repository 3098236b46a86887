"""Bugs of the Kubernetes controllers: garbage collection, node life cycle, workloads, endpoints."""

from __future__ import annotations

from planted_bugs.planting import Patch, PlantedBug, edited, replaced

CONTROLLERS = "embedded.controllers"
DOCS = "Kubernetes documentation"


def bug(name: str, wrong: str, source: str, cause: str, *patches: Patch) -> PlantedBug:
    return PlantedBug(name, "controllers", wrong, source, cause, patches)


BUGS = (
    bug(
        "owner-found-by-name",
        "The garbage collector takes an object of the owner's name for the owner itself.",
        f"{DOCS}, garbage collection: owners are identified by uid",
        "the object's owner is gone, and the object was kept",
        edited(
            f"{CONTROLLERS}.garbage_collector:OwnerResolver._find_owner",
            ('if seen and seen["metadata"]["uid"] == uid:', "if seen:"),
            ('return found if found["metadata"]["uid"] == uid else None', "return found"),
        ),
    ),
    bug(
        "foreground-owner-gone-first",
        "The finalizer of foreground deletion is removed while dependents still exist.",
        f"{DOCS}, foreground cascading deletion; kubernetes#127752",
        "the owner was gone before its dependents",
        edited(
            f"{CONTROLLERS}.garbage_collector:GarbageCollector._process_foreground",
            (
                "if not any(found and blocks_deletion(found, uid) for found in dependents.values()):",
                "if True:",
            ),
        ),
    ),
    bug(
        "eviction-not-cancelled",
        "The timer of an eviction goes on when the taint is removed.",
        "kubernetes#90794, #93722: pods are deleted although the taint is removed",
        "the pod was evicted after the taint was removed",
        edited(
            f"{CONTROLLERS}.taint_eviction:TaintEviction._reconcile",
            ("if allowed is None:", "if allowed is None and ref not in self._eviction_times:"),
            (
                "now + allowed) if allowed else now",
                "now + (allowed or 0)) if allowed != 0 else now",
            ),
        ),
    ),
    bug(
        "silent-node-noticed-late",
        "The grace period of a silent node is ten times too long.",
        f"{DOCS}, nodes: node-monitor-grace-period of 50 s",
        "the node was reported Ready long after its last heartbeat",
        replaced(f"{CONTROLLERS}.node_lifecycle:MONITOR_GRACE", lambda seconds: 10 * seconds),
    ),
    bug(
        "lease-renewals-ignored",
        "Leases of nodes are looked for in a wrong namespace, so their renewals are no heartbeats.",
        f"{DOCS}, nodes: heartbeats by status and by Lease objects",
        "the node was reported Unknown although its lease was renewed",
        replaced(f"{CONTROLLERS}.node_lifecycle:LEASE_NAMESPACE", lambda _: "kube-system"),
    ),
    bug(
        "terminating-pods-counted",
        "A ReplicaSet counts pods that are being deleted, and does not replace them yet.",
        "kubernetes#32567, #95498: terminating pods in the counts of a ReplicaSet",
        "the ReplicaSet has fewer active pods than wanted",
        edited(
            f"{CONTROLLERS}.workloads.replicasets:ReplicaSets._reconcile",
            (
                "pods = [pod for pod in claimed if is_active(pod)]",
                "pods = [pod for pod in claimed if is_active(pod) or is_terminating(pod)]",
            ),
        ),
    ),
    bug(
        "max-unavailable-rounded-up",
        "A percentage of maxUnavailable is rounded up.",
        "kubernetes#37083: maxUnavailable is rounded down",
        "more pods of the Deployment were unavailable than allowed",
        edited(
            f"{CONTROLLERS}.workloads.deployment_rollout:rollout_limits",
            ("desired_replicas(deployment), up=False", "desired_replicas(deployment), up=True"),
        ),
    ),
    bug(
        "unready-pods-in-endpoints",
        "Endpoints list pods that are not ready among the ready addresses.",
        f"{DOCS}, services: endpoints have the ready pods",
        "an address of the Service belongs to a pod that is not ready",
        edited(
            f"{CONTROLLERS}.endpoints:subsets_of",
            ("is_shown = backend.is_ready or publishes_all(service)", "is_shown = True"),
        ),
    ),
    bug(
        "unready-pods-protect-budget",
        "A disruption budget counts pods that are not ready as healthy.",
        f"{DOCS}, disruptions: currentHealthy counts ready pods; kubernetes#91492",
        "the budget allowed a disruption although too few pods were ready",
        edited(
            f"{CONTROLLERS}.disruption_budgets:count_healthy",
            ('is_ready(pod) and pod["metadata"]', 'pod["metadata"]'),
        ),
    ),
    bug(
        "daemons-evicted-with-node",
        "Pods of a DaemonSet lack the tolerations of a node that is not ready.",
        f"{DOCS}, DaemonSet: tolerations that are added automatically",
        "the daemon pod was evicted from a node that was not ready",
        replaced(
            f"{CONTROLLERS}.workloads.daemonset_plan:DAEMON_TOLERATIONS", lambda rows: rows[2:]
        ),
    ),
    bug(
        "back-off-limit-reached-early",
        "A Job fails with as many failed pods as its backoffLimit, not with one more.",
        f"{DOCS}, Job: backoffLimit is the number of retries",
        "the Job failed before its retries were used up",
        edited(
            f"{CONTROLLERS}.workloads.job_completion:_limit_exceeded",
            ("if state.failed > limit or", "if state.failed >= limit or"),
        ),
    ),
)
