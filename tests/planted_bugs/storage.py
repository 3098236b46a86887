"""Bugs of the storage: its controller, its agents, and the statuses that they write."""

from __future__ import annotations

from typing import Any

from planted_bugs.planting import Patch, PlantedBug, edited, replaced

STORAGE = "models.storage"
CONDITIONS = f"{STORAGE}.generations.conditions"
MEGATEST = "facts of the storage, generation with conditions"


def bug(name: str, wrong: str, source: str, cause: str, *patches: Patch) -> PlantedBug:
    return PlantedBug(name, "storage", wrong, source, cause, patches)


def _no_election(_: Any) -> Any:
    async def acquire(self: Any) -> None:
        pass

    return acquire


def _no_renewal(_: Any) -> Any:
    async def keep(self: Any) -> None:
        while True:
            await self._clock.sleep(3600, background=True)

    return keep


BUGS = (
    # numbers that do not fit the members
    bug(
        "quorum-counts-disks-only",
        "The quorum is a majority of the replicas with disks, not of all replicas.",
        f"{MEGATEST}: quorum is max(2, N/2+1) over all; LINBIT/linstor-server#434",
        "the volume's quorum is too small for the number of its replicas",
        edited(
            f"{CONDITIONS}:ConditionsGeneration.quorum",
            ("max(2, total // 2 + 1)", "max(2, diskful // 2 + 1)"),
        ),
    ),
    bug(
        "minimum-redundancy-one",
        "The minimum redundancy is derived from the wrong field of the class, and is always 1.",
        "deckhouse/sds-replicated-volume#124 and #441: quorum-minimum-redundancy",
        "the volume's minimum redundancy is 1 instead of 2",
        edited(
            f"{CONDITIONS}:ConditionsGeneration.quorum",
            ("if layout.redundancy > 1", "if layout.failures > 1"),
        ),
    ),
    bug(
        "quorum-counts-leaving-replicas",
        "Replicas that are being deleted still count in the number that quorum is computed from.",
        f"{MEGATEST}: replicas being deleted do not count",
        "the volume's quorum counts replicas that are being deleted",
        edited(
            f"{STORAGE}.decisions:_volume_decision",
            ("len(view.active) - len(view.unscheduled))", "len(view.members))"),
        ),
    ),
    bug(
        "tie-breakers-ignore-access",
        "Access replicas are left out of the parity that decides about tie-breakers.",
        f"{MEGATEST}: tie-breakers keep the total odd; linstor-server#361 and #427",
        "the volume has an even number of replicas and no tie-breaker",
        edited(
            f"{CONDITIONS}:ConditionsGeneration.tie_breakers",
            ("diskful + access + 1", "diskful + 1"),
        ),
    ),
    bug(
        "idle-access-kept",
        "An Access replica stays after its attachment is gone.",
        f"{MEGATEST}: an Access replica is deleted when neither desired nor actual",
        "an Access replica is left on a node where the volume is not attached",
        edited(
            f"{STORAGE}.volume_view:plan_changes",
            ("converted, [*idle, *spare])", "converted, spare)"),
        ),
    ),
    bug(
        "minor-from-count",
        "The device minor is the number of volumes, which another volume may have already.",
        "LINBIT/linstor-server#409: minor number exists already",
        "two volumes have the same device minor",
        edited(
            f"{STORAGE}.controller:StorageController.__init__",
            (
                "return next(number for number in range(MINORS) if number not in taken)",
                "return len(taken - {None})",
            ),
        ),
    ),
    bug(
        "port-of-leaving-replica",
        "The port of a replica that is being deleted is given away while it is in use.",
        "LINBIT/linstor-server#25: ports are double-booked after delete and create",
        "two replicas on one node have the same port",
        edited(
            f"{STORAGE}.agent:StorageAgent._manage",
            ("if one.address]", "if one.address and not one.deleting]"),
        ),
    ),
    bug(
        "node-ids-collide",
        "Node ids repeat after four replicas instead of eight.",
        "LINBIT/linstor-server#150: conflicting use of node-id",
        "two replicas of a volume have the same node id",
        replaced(f"{CONDITIONS}:NODE_IDS", lambda _: 4),
        replaced(f"{CONDITIONS}:_peer", lambda cached: cached.__wrapped__),
    ),
    # replicas: creation, replacement, deletion
    bug(
        "replacement-waits-for-leaving",
        "A disk that is being deleted still counts, so its replacement is not created.",
        f"{MEGATEST}: a replacement is made at once; LINBIT/linstor-server#236",
        "the deleted replica with a disk is not replaced",
        edited(
            f"{STORAGE}.decisions:_missing_disks",
            ("there = view.diskful", "there = [one for one in view.replicas if one.is_diskful]"),
        ),
    ),
    bug(
        "placement-forgets-leaving",
        "A new replica may be placed on the node of one that is still being deleted.",
        f"{MEGATEST}: one replica of a volume per node; longhorn#9216",
        "the new replica was placed on a node that already had one",
        edited(
            f"{STORAGE}.decisions:_ReplicaPlanner.__init__",
            (
                "for replica in view.replicas if replica.node]",
                "for replica in view.active if replica.node]",
            ),
        ),
    ),
    bug(
        "replacement-initialised-as-first",
        "A new replica with the lowest number initialises itself although others have the data.",
        "LINBIT/linstor-server#216, home-operations/miroir#139: split brain of new replicas",
        "the replacement was initialised as if the volume were new",
        edited(
            f"{STORAGE}.generations.generation:is_initial_replica",
            (
                "other.number < replica.number or other.deleting or other.initialized or other.up_to_date",
                "other.number < replica.number",
            ),
        ),
    ),
    bug(
        "replica-leaves-before-sync",
        "A deleted replica is released although the others do not have the data yet.",
        "longhorn#9216, longhorn#411: the healthy replica is deleted first",
        "the replica was released before enough others were ready for I/O",
        edited(
            f"{STORAGE}.attachment_rules:may_leave",
            ("and (ready >= view.layout.io_ready or blocks_disk)", "and ready >= 0"),
        ),
    ),
    bug(
        "disk-not-wiped",
        "The agent stops a deleted replica and leaves its disk.",
        "LINBIT/linstor-server#287, longhorn#3468, mayastor#437: old replicas are not cleaned up",
        "the deleted replica's disk is still on its node",
        edited(f"{STORAGE}.agent:StorageAgent._take_down", ("wipe=True", "wipe=False")),
    ),
    bug(
        "agent-finalizer-kept",
        "An agent that was away when a replica was released does not remove its finalizer.",
        "LINBIT/linstor-server#112: stuck in DELETING after a node was offline",
        "the agent's finalizer is still on the released replica",
        edited(
            f"{STORAGE}.agent:StorageAgent._reconcile",
            (
                "if one.deleting and not one.held:",
                "if one.deleting and not one.held and volume in self._configs:",
            ),
        ),
    ),
    bug(
        "volume-released-before-replicas",
        "The volume's finalizer is removed once all of its replicas are marked for deletion.",
        f"{MEGATEST}: the volume goes after the last replica; LINBIT/linstor-server#287",
        "the volume was gone before its replicas",
        edited(
            f"{STORAGE}.decisions:decide",
            (
                "not view.replicas and not view.duplicates",
                "not view.active and not view.duplicates",
            ),
        ),
    ),
    # attachments
    bug(
        "third-attachment-planned",
        "One attachment more than allowed is accepted.",
        f"{MEGATEST}: at most two; longhorn#2815: attached to a third node",
        "the volume is to be attached to three nodes",
        edited(
            f"{STORAGE}.volume_view:VolumeView._choose_desired",
            (
                "self.layout.attachments - len(desired)",
                "self.layout.attachments + 1 - len(desired)",
            ),
        ),
    ),
    bug(
        "attachment-waits-for-all",
        "New attachments are considered only when the volume is attached nowhere.",
        "longhorn#12049, longhorn#6287: volume is not attached to the new node",
        "the attachment waits although the volume is attached to one node only",
        edited(
            f"{STORAGE}.volume_view:VolumeView._choose_desired",
            ("if not self.deleting:", "if not self.deleting and not self.previous.desired:"),
        ),
    ),
    bug(
        "attachment-released-while-primary",
        "The finalizer of a deleted attachment is removed while its node is still Primary.",
        f"{MEGATEST}: released once its node is no longer Primary; longhorn#9934",
        "the attachment was gone while its node was Primary",
        replaced(
            f"{STORAGE}.attachment_rules:is_detached", lambda _: lambda view, attachment: True
        ),
    ),
    bug(
        "attachment-of-lost-volume-kept",
        "The finalizer stays on an attachment whose volume is gone.",
        "longhorn#7258, longhorn#1071: attachment is stuck in deletion",
        "the controller's finalizer is still on the attachment of a volume that is gone",
        edited(
            f"{STORAGE}.controller:StorageController._without_volume",
            ("if attachment.deleting and attachment.held:", "if False:"),
        ),
    ),
    bug(
        "refused-promotion-not-retried",
        "An agent does not repeat a promotion that the kernel has refused once.",
        "piraeusdatastore/linstor-csi#121: quorum while attaching",
        "the agent gave up after the kernel had refused the promotion",
        edited(
            f"{STORAGE}.agent:StorageAgent._manage",
            ("return RETRY_AFTER_REFUSAL", "return None"),
        ),
    ),
    # statuses that are wrong or stale
    bug(
        "ioready-counts-diskless",
        "IOReady counts replicas without disks.",
        f"{MEGATEST}: IOReady counts Diskful replicas; linstor-proxmox#45",
        "the volume's IOReady counts a replica without a disk",
        edited(
            f"{CONDITIONS}:ConditionsGeneration.io_ready",
            ("if replica.is_diskful and replica.io_ready.holds:", "if replica.io_ready.holds:"),
        ),
    ),
    bug(
        "outdated-replica-ready",
        "A replica is IOReady when it is online, in sync or not.",
        f"{MEGATEST}: IOReady is Online and InSync; LINBIT/drbd#30",
        "the replica's IOReady is True although it is not in sync",
        edited(
            f"{STORAGE}.volume_view:VolumeReplica.__post_init__",
            ("IO_READY if self.in_sync else OUT_OF_SYNC", "IO_READY"),
        ),
    ),
    bug(
        "dead-agent-trusted",
        "The last status of an agent counts as true while its node or its pod is down.",
        "LINBIT/linstor-server#331: nodes do not become Offline when satellites are down",
        "the replica counts as online although the agent on its node is down",
        edited(
            f"{STORAGE}.nodes:StorageNodes._update",
            ('if not is_true(node, "Ready"):', "if False:"),
            ("elif not agents:", "elif False:"),
            ('any(is_true(pod, "Ready") for pod in agents)', "True"),
        ),
    ),
    bug(
        "node-change-missed",
        "A change of a node's readiness does not lead to a reconciliation of its volumes.",
        "LINBIT/linstor-server#331, openebs#3897: status of a failed pool is wrong",
        "the volume's status was not written after the node had changed",
        replaced(f"{STORAGE}.nodes:StorageNodes.on_change", lambda _: lambda self, listener: None),
    ),
    bug(
        "quorum-condition-sticky",
        "An agent never takes the condition InQuorum back.",
        "LINBIT/drbd#52: quorum status differs from the kernel's",
        "the replica's InQuorum is True although its kernel has no quorum",
        edited(
            f"{STORAGE}.generations.conditions_replicas:agent_conditions",
            ("QUORUM[status.quorum]", "QUORUM[status.quorum or replica.in_quorum]"),
        ),
    ),
    bug(
        "attached-before-promotion",
        "The status lists the nodes where the volume is to be attached as attached already.",
        "longhorn#6287: attached to a different node than shown",
        "actuallyAttachedTo names a node whose replica is not Primary",
        edited(
            f"{CONDITIONS}:ConditionsGeneration.volume_status",
            (
                'view.attached_nodes, status.get("actuallyAttachedTo")',
                'view.desired_nodes, status.get("actuallyAttachedTo")',
            ),
        ),
    ),
    bug(
        "deferred-statuses-cut-short",
        "Of a batch of deferred status writes only the first is performed.",
        "Kubernetes API conventions, status; LINBIT/linstor-server#213: stale resource status",
        "the status of an object was decided and not written",
        edited(
            f"{STORAGE}.controller:StorageController._reconcile",
            ("due = deferred.writes\n", "due = deferred.writes[:1]\n"),
        ),
    ),
    bug(
        "observed-generation-stale",
        "A condition keeps the old observedGeneration while its status stays.",
        "Kubernetes API conventions: observedGeneration",
        "the condition's observedGeneration does not follow the object's generation",
        edited(
            f"{STORAGE}.generations.generation:with_conditions",
            ('            and old.get("observedGeneration") == generation\n', ""),
        ),
    ),
    # resizing
    bug(
        "size-reported-too-early",
        "The new size is published as soon as one disk has it.",
        "home-operations/miroir#89: expansion reported before it is realized; longhorn#4679",
        "actualSize is larger than the smallest disk",
        edited(
            f"{STORAGE}.generations.generation:granted_size",
            ("there = min(", "there = max("),
        ),
    ),
    bug(
        "resize-waits-for-itself",
        "Disks grow to the published size, which follows the disks, so a volume never grows.",
        "openebs/mayastor#1989: replica resize is never attempted again",
        "the volume's disks do not grow to the requested size",
        edited(
            f"{CONDITIONS}:ConditionsGeneration.orders",
            (
                'size=max(parse(volume["spec"]["size"]).value, parse(status.get("actualSize", 0)).value)',
                'size=parse(status.get("actualSize") or volume["spec"]["size"]).value',
            ),
        ),
    ),
    # processes
    bug(
        "leader-election-ignored",
        "Every controller works without waiting for the lease.",
        "kubernetes/kubernetes#89466: two controller managers lead; docs/simulated-storage.md",
        "three controllers write at the same time, without holding the lease",
        replaced(f"{STORAGE}.controller:ControllerLease.acquire", _no_election),
        replaced(f"{STORAGE}.controller:ControllerLease.keep", _no_renewal),
    ),
    bug(
        "orders-cached-without-volume",
        "Agents cache their orders without regard to the volume's settings.",
        "megatest.md: allowTwoPrimaries on every replica first; LINBIT/linstor-server#361",
        "the kernel has an old quorum or does not allow two primaries",
        edited(
            f"{CONDITIONS}:ConditionsGeneration.order_inputs",
            ('self.orders_in_status(volume.get("status") or {}),', ""),
        ),
    ),
)
