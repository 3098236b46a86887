"""Bugs of the harness itself: watches, checkers, the observer, incidents, workload and cleanup."""

from __future__ import annotations

from typing import Any

from planted_bugs.planting import Patch, PlantedBug, edited, replaced

FACTS = "seed of the megatest"


def bug(name: str, wrong: str, source: str, cause: str, *patches: Patch) -> PlantedBug:
    return PlantedBug(name, "harness", wrong, source, cause, patches)


def _unknown_condition(_: Any) -> Any:
    return lambda node: next(
        (one for one in node["status"]["conditions"] if one["type"] == "ready"), None
    )


BUGS = (
    # what is observed
    bug(
        "checker-counts-nothing",
        "The checker updates the last state before it compares, so no condition ever changes.",
        f"{FACTS}, volume-checker: counts transitions of each condition",
        "harness: the volume checker",
        edited(
            "megatest.health:_compare",
            (
                "expected, last[name] = last.get(name, HEALTHY), seen",
                "last[name] = expected = seen",
            ),
        ),
    ),
    bug(
        "checker-follows-one-condition",
        "The checker stops after the first condition that is as before.",
        f"{FACTS}, volume-checker: IOReady and Quorum",
        "harness: the volume checker",
        edited(
            "megatest.health:_compare",
            (
                "if seen.holds == expected.holds:\n            continue",
                "if seen.holds == expected.holds:\n            break",
            ),
        ),
    ),
    bug(
        "observer-loses-link-changes",
        "The observer takes every change of a replica for one that leaves its links alone.",
        "chaos-mesh#4903: injected is no proof of an effect; krkn#1394",
        "harness: the chaos observer",
        replaced("chaos.troubles:has_same_links", lambda _: lambda new, old: bool(new and old)),
    ),
    bug(
        "observer-ignores-nodes",
        "The observer looks for a node condition that does not exist, so no node is ever unready.",
        "krkn#1394: proof that the fault really happened",
        "harness: the chaos observer",
        replaced("chaos.troubles:readiness", _unknown_condition),
    ),
    bug(
        "effect-credited-to-weakest",
        "Of several incidents that may explain a trouble, the weakest and latest gets it.",
        "atlasdb#1359: time to recover per fault",
        "harness: the attribution of troubles",
        edited(
            "chaos.troubles:attribute_trouble",
            (
                "key=lambda each: (-each.power, each.since)",
                "key=lambda each: (each.power, -each.since)",
            ),
        ),
    ),
    bug(
        "relist-keeps-deleted",
        "A cache that lists anew keeps objects that were deleted meanwhile.",
        "kubernetes/client-go, DeltaFIFO Replace: deleted objects are synthesized after a relist",
        "harness: the cache of a resource",
        edited(
            "kube.informer:Informer.run",
            ("for ref in [ref for ref in self.objects if ref not in found]:", "for ref in []:"),
        ),
    ),
    bug(
        "watch-reopened-at-the-end",
        "A watch that broke off is opened again at the latest version, not at its last one.",
        "Kubernetes API concepts, watch: resume from the last resourceVersion",
        "harness: the watch of a resource",
        edited(
            "kube.informer:Informer._watch",
            ("resource_version=self.version", 'resource_version=""'),
        ),
    ),
    # faults
    bug(
        "block-not-undone",
        "A network block looks for its policy at the end and does not delete it.",
        "chaos-mesh#2449, litmus-go#239: faults are left behind",
        "harness: the incident did not undo its policy",
        edited(
            "chaos.network_blocks:NetworkCut.heal",
            ("    await delete_and_wait(*policy)\n", ""),
        ),
    ),
    bug(
        "block-selects-no-machine",
        "The policy selects machines by a label that their pods do not have.",
        f"{FACTS}, chaos-network-blocker: label of the virtual machine's pod",
        "harness: network-block has no effect",
        edited(
            "chaos.network_blocks:_machines", ('"key": VM_LABEL', '"key": "vm.kubevirt.io/name"')
        ),
    ),
    bug(
        "loss-taken-for-percent",
        "The share of lost packets is divided by a hundred, as if it were given in percent.",
        f"{FACTS}, --chaos-loss-percent: 0.01 is 1 %; megatest.md: 0.001 becomes 0",
        "harness: the loss is smaller than declared",
        edited("chaos.clients:_rule", ("{_number(loss)}", "{_number(loss / 100)}")),
    ),
    bug(
        "pods-not-deleted",
        "The pod destroyer reads the chosen pods instead of deleting them.",
        "krkn#1394: proof that the fault really happened",
        "harness: pod-destroy has no effect",
        edited(
            "chaos.pod_deletions:PodDeletion.inject",
            (
                "actor.api.delete(PODS, name, self.namespace, precondition_uid=uid)",
                "actor.api.get(PODS, name, self.namespace)",
            ),
        ),
    ),
    # workload
    bug(
        "replica-destroyer-finds-nothing",
        "The replica destroyer chooses among replicas that are being deleted already.",
        f"{FACTS}, volume-replica-destroyer: deletes random replicas of the volume",
        "harness: the replica destroyer",
        edited(
            "megatest.actors:destroy_replicas",
            (
                'if not one["metadata"].get("deletionTimestamp")',
                'if one["metadata"].get("deletionTimestamp")',
            ),
        ),
    ),
    bug(
        "attachments-not-deleted",
        "The cleanup of a volume compares the names of attachments with its own, and finds none.",
        f"{FACTS}, volume-attacher: deletes all attachments at the end",
        "harness: attachments were not deleted before the volume",
        edited(
            "megatest.subject:delete_attachments",
            ("if volume_of(one) == rv.name:", "if name_of(one) == rv.name:"),
        ),
    ),
    bug(
        "detach-not-verified",
        "A detachment counts as done when its object is gone, attached or not.",
        f"{FACTS}, volume-attacher: actuallyAttachedTo does not contain the node",
        "harness: the attacher did not wait for the detachment",
        edited(
            "megatest.subject:_wait_until_detached",
            ("actual = attached_to(rv.volume)", "actual = []"),
        ),
    ),
    # end of a run
    bug(
        "recovery-window-too-short",
        "Volumes have three seconds to recover after healing, not 300.",
        "docs/run-life-cycle.md, liveness: 300 s to become ready",
        "harness: the tolerance window of liveness",
        replaced("run.cleanup:RECOVERY", lambda seconds: seconds / 100),
    ),
    bug(
        "liveness-before-healing",
        "Liveness is judged while faults are still being undone.",
        "docs/run-life-cycle.md, healing precedes liveness; chaos-mesh#310: recovery is awaited",
        "harness: faults were active while liveness was judged",
        edited(
            "run.lifecycle:RunLifecycle.heal",
            ("await asyncio.wait(chaos)", "await asyncio.wait(chaos, timeout=0)"),
        ),
    ),
)
