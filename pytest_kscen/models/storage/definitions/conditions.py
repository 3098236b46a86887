"""Definitions of the generation that publishes conditions."""

from __future__ import annotations

from pytest_kscen.models.storage.definitions.schema import (
    AGE,
    CONDITIONS,
    IPV4_ADDRESS,
    OBJECT_NAME,
    QUANTITY,
    VOLUME_NAME,
    column,
    condition_column,
    definition,
    flag,
    immutable,
    many,
    one_of,
    record,
    rule,
    table,
    text,
    whole,
)
from pytest_kscen.objects.storage import (
    REPLICATED_STORAGE_CLASSES,
    REPLICATED_STORAGE_POOLS,
    REPLICATED_VOLUME_ATTACHMENTS,
    REPLICATED_VOLUME_REPLICAS,
    REPLICATED_VOLUMES,
)

NODE = text(253, shortest=1)
WHERE = [".spec.nodeName", ".spec.replicatedVolumeName"]
TYPE = one_of("Diskful", "Access", "TieBreaker")
WORDS = text(1024)
COMMAND_ERROR = record(command=WORDS, output=WORDS, exitCode=whole())

VOLUME_SPEC = record(
    ["size", "replicatedStorageClassName"],
    size=QUANTITY,
    replicatedStorageClassName=text(shortest=1),
)
VOLUME_STATUS = record(
    phase=text(),
    conditions=CONDITIONS,
    actualSize=QUANTITY,
    actuallyAttachedTo=many(text(), maxItems=2),
    desiredAttachTo=many(text(), maxItems=2),
    diskfulReplicaCount=text(),
    diskfulReplicasInSync=text(),
    attachedAndIOReadyCount=text(),
    drbd=record(
        config=record(
            deviceMinor=whole(0, 2**20 - 1),
            quorum=whole(0, 8),
            quorumMinimumRedundancy=whole(0, 8),
            allowTwoPrimaries=flag(default=False),
            sharedSecret=text(shortest=1),
            sharedSecretAlg=one_of("SHA256", "SHA1", "DummyForTest"),
        )
    ),
    errors=record(deviceMinor=record(message=WORDS)),
)
VOLUME = definition(
    REPLICATED_VOLUMES,
    "rv",
    VOLUME_SPEC,
    VOLUME_STATUS,
    rules=[rule("size(self.metadata.name) <= 120", "a volume's name has at most 120 characters")],
    columns=[
        condition_column("IOReady"),
        column("Size", ".spec.size"),
        column("ActualSize", ".status.actualSize"),
        column("DiskfulReplicas", ".status.diskfulReplicaCount"),
        column("Phase", ".status.phase"),
    ],
)

HOST = record(["address", "family", "port"], address=text(), family=text(), port=whole())
PEER_DEVICE = record(
    [
        "volume",
        "replicationState",
        "peerDiskState",
        "peerClient",
        "resyncSuspended",
        "outOfSync",
        "percentInSync",
        "hasSyncDetails",
        "hasOnlineVerifyDetails",
    ],
    volume=whole(),
    replicationState=text(),
    peerDiskState=text(),
    peerClient=flag(),
    resyncSuspended=text(),
    outOfSync=whole(),
    percentInSync=text(),
    hasSyncDetails=flag(),
    hasOnlineVerifyDetails=flag(),
)
CONNECTION = record(
    [
        "peerNodeId",
        "name",
        "connectionState",
        "congested",
        "peerRole",
        "tls",
        "paths",
        "peerDevices",
    ],
    peerNodeId=whole(),
    name=text(),
    connectionState=text(),
    congested=flag(),
    peerRole=text(),
    tls=flag(),
    paths=many(
        record(
            ["thisHost", "remoteHost", "established"],
            thisHost=HOST,
            remoteHost=HOST,
            established=flag(),
        )
    ),
    peerDevices=many(PEER_DEVICE),
)
DEVICE = record(
    ["volume", "minor", "diskState", "client", "open", "quorum", "size"],
    volume=whole(),
    minor=whole(),
    diskState=text(),
    client=flag(),
    open=flag(),
    quorum=flag(),
    size=whole(),
)
SUSPENSIONS = (
    "suspended",
    "suspendedUser",
    "suspendedNoData",
    "suspendedFencing",
    "suspendedQuorum",
)
KERNEL = record(
    [
        "name",
        "nodeId",
        "role",
        *SUSPENSIONS,
        "forceIOFailures",
        "writeOrdering",
        "devices",
        "connections",
    ],
    name=text(),
    nodeId=whole(),
    role=text(),
    **dict.fromkeys(SUSPENSIONS, flag()),
    forceIOFailures=flag(),
    writeOrdering=text(),
    devices=many(DEVICE),
    connections=many(CONNECTION),
)
PEER = record(
    ["nodeId", "address"], nodeId=whole(0, 7), address=IPV4_ADDRESS, diskless=flag(default=False)
)
REPLICA_STATUS = record(
    conditions=CONDITIONS,
    actualType=TYPE,
    lvmLogicalVolumeName=text(256),
    syncProgress=text(),
    drbd=record(
        config=record(
            address=IPV4_ADDRESS, peers=table(PEER), peersInitialized=flag(), primary=flag()
        ),
        actual=record(
            disk=text(256, pattern="^(/[a-zA-Z0-9/.+_-]+)?$"),
            allowTwoPrimaries=flag(default=False),
            initialSyncCompleted=flag(default=False),
        ),
        errors=record(
            configurationCommandError=COMMAND_ERROR,
            fileSystemOperationError=record(message=WORDS),
            lastPrimaryError=COMMAND_ERROR,
            lastSecondaryError=COMMAND_ERROR,
            sharedSecretAlgSelectionError=record(unsupportedAlg=WORDS),
        ),
        status=KERNEL,
    ),
)
REPLICA = definition(
    REPLICATED_VOLUME_REPLICAS,
    "rvr",
    record(
        ["replicatedVolumeName", "type"],
        replicatedVolumeName=immutable(
            text(120, shortest=1, pattern=VOLUME_NAME), "a replica stays with its volume"
        ),
        nodeName=NODE,
        type=TYPE,
    ),
    REPLICA_STATUS,
    rules=[
        rule(
            "self.metadata.name.startsWith(self.spec.replicatedVolumeName + '-')",
            "a replica's name begins with its volume's and a dash",
        ),
        rule(
            "int(self.metadata.name.substring(self.metadata.name.lastIndexOf('-') + 1)) <= 31",
            "a replica's name ends with a number from 0 to 31",
        ),
        rule("size(self.metadata.name) <= 123", "a replica's name has at most 123 characters"),
    ],
    selectable=WHERE,
    columns=[
        column("Volume", ".spec.replicatedVolumeName"),
        column("Node", ".spec.nodeName"),
        column("Type", ".spec.type"),
        *(
            condition_column(name)
            for name in (
                "Attached",
                "Online",
                "IOReady",
                "Configured",
                "DataInitialized",
                "InQuorum",
            )
        ),
        column("InSync", ".status.syncProgress"),
        AGE,
    ],
)

ATTACHMENT_SPEC = record(
    ["replicatedVolumeName", "nodeName"],
    replicatedVolumeName=immutable(
        text(127, shortest=1, pattern=VOLUME_NAME), "an attachment stays with its volume"
    ),
    nodeName=immutable(NODE, "an attachment stays with its node"),
)
ATTACHMENT = definition(
    REPLICATED_VOLUME_ATTACHMENTS,
    "rva",
    ATTACHMENT_SPEC,
    record(conditions=CONDITIONS, phase=one_of("Pending", "Attaching", "Attached", "Detaching")),
    selectable=WHERE,
    columns=[
        column("Volume", ".spec.replicatedVolumeName"),
        column("Node", ".spec.nodeName"),
        column("Phase", ".status.phase"),
        *(condition_column(name) for name in ("Attached", "ReplicaIOReady", "Ready")),
        AGE,
    ],
)


CLASS = definition(
    REPLICATED_STORAGE_CLASSES,
    "rsc",
    record(
        ["reclaimPolicy", "storagePool", "topology"],
        storagePool=immutable(text()),
        reclaimPolicy=immutable(one_of("Delete", "Retain")),
        replication=immutable(
            one_of(
                "None",
                "Availability",
                "ConsistencyAndAvailability",
                default="ConsistencyAndAvailability",
            )
        ),
        topology=immutable(one_of("TransZonal", "Zonal", "Ignored")),
        volumeAccess=immutable(
            one_of("Local", "EventuallyLocal", "PreferablyLocal", "Any", default="PreferablyLocal")
        ),
        zones=immutable({"type": "array", "items": text()}),
        rules=[
            rule(
                "self.replication == 'None' || !has(self.zones) || size(self.zones) in [0, 1, 3]",
                "a replicated class is in one zone, in three, or wherever there is room",
            ),
            *(
                rule(f"has(self.{name}) == has(oldSelf.{name})", f"{name} cannot come or go")
                for name in ("zones", "replication", "volumeAccess")
            ),
        ],
    ),
    record(phase=one_of("Failed", "Created"), reason=text()),
    status_subresource=False,
    columns=[column("Phase", ".status.phase"), column("Reason", ".status.reason", wide=True), AGE],
)
POOL = definition(
    REPLICATED_STORAGE_POOLS,
    "rsp",
    record(
        ["type", "lvmVolumeGroups"],
        type=immutable(one_of("LVM", "LVMThin")),
        lvmVolumeGroups={
            "type": "array",
            "items": record(
                ["name"], name=text(shortest=1, pattern=OBJECT_NAME), thinPoolName=text()
            ),
        },
    ),
    record(phase=one_of("Updating", "Failed", "Completed"), reason=text()),
    status_subresource=False,
    columns=[
        column("Phase", ".status.phase"),
        column("Type", ".spec.type"),
        column("Reason", ".status.reason", wide=True),
        AGE,
    ],
)
CONDITIONS_DEFINITIONS = (VOLUME, REPLICA, ATTACHMENT, CLASS, POOL)
