"""Definitions of the generations with a datamesh and an effective layout. The newest of them adds
the conditions Ready and Resilient.
"""

from __future__ import annotations

from pytest_kscen.models.storage.definitions.classes import CLASS, CONFIGURATION, POOL
from pytest_kscen.models.storage.definitions.schema import (
    AGE,
    CONDITIONS,
    IPV4_ADDRESS,
    LONG,
    MOMENT,
    OBJECT_NAME,
    QUANTITY,
    REPLICA_NAME,
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
    text,
    unique,
    whole,
    with_rules,
)
from pytest_kscen.objects.storage import (
    REPLICATED_VOLUME_ATTACHMENTS,
    REPLICATED_VOLUME_REPLICAS,
    REPLICATED_VOLUMES,
)

WHERE = [".spec.nodeName", ".spec.replicatedVolumeName", ".status.phase"]
NODE = text(253, shortest=1)
GROUP_NAME = text(253, shortest=1, pattern=OBJECT_NAME)
TYPES = ("Diskful", "Access", "TieBreaker")
MEMBER_TYPES = (
    "Diskful",
    "LiminalDiskful",
    "ShadowDiskful",
    "LiminalShadowDiskful",
    "TieBreaker",
    "Access",
)
ADDRESS = record(["systemNetworkName", "address"], systemNetworkName=text(64), address=IPV4_ADDRESS)
NETWORKS = many(text(64), unique(), maxItems=10)
# without uniqueness: in unbounded lists, a rule that compares all pairs exceeds CEL's cost limit
FORMER_NETWORKS = many(text(64), maxItems=10)

REQUEST = record(
    ["operation"],
    operation=one_of(
        "Join", "Leave", "ForceLeave", "ForceDetach", "ChangeRole", "ChangeBackingVolume"
    ),
    type=one_of(*TYPES),
    lvmVolumeGroupName=GROUP_NAME,
    thinPoolName=text(),
    rules=[
        rule(
            "!(self.operation in ['Join', 'ChangeRole']) || has(self.type)",
            "who joins or changes has a type",
        ),
        rule(
            "!has(self.type) || (self.type == 'Diskful') == has(self.lvmVolumeGroupName)",
            "a disk comes from a volume group",
        ),
        rule(
            "!has(self.thinPoolName) || has(self.lvmVolumeGroupName)",
            "a thin pool is one of a volume group",
        ),
    ],
)
STEP = record(
    ["name", "status"],
    name=text(64, shortest=1),
    status=one_of("Pending", "Active", "Completed", default="Pending"),
    startedAt=MOMENT,
    completedAt=MOMENT,
    datameshRevision=LONG,
    message=text(512),
)
TRANSITION_TYPES = (
    "AddReplica",
    "Attach",
    "ChangeQuorum",
    "ChangeReplicaType",
    "ChangeSystemNetworks",
    "Detach",
    "DisableMultiattach",
    "EnableMultiattach",
    "ForceDetach",
    "ForceRemoveReplica",
    "Formation",
    "RemoveReplica",
    "RepairNetworkAddresses",
    "ResizeVolume",
)
TRANSITION_GROUPS = (
    "Attachment",
    "Emergency",
    "Formation",
    "Multiattach",
    "Network",
    "NonVotingMembership",
    "Quorum",
    "Resize",
    "VotingMembership",
)
REPLICA_TYPE = one_of(*TYPES, "ShadowDiskful")
OF_A_REPLICA = (
    "['AddReplica', 'RemoveReplica', 'ForceRemoveReplica', 'ChangeReplicaType', 'Attach', "
    "'Detach', 'ForceDetach']"
)
TRANSITION = record(
    ["type", "group", "steps"],
    type=one_of(*TRANSITION_TYPES),
    group=one_of(*TRANSITION_GROUPS),
    planID=text(shortest=1),
    replicaName=text(123, shortest=1, pattern=REPLICA_NAME),
    replicaType=REPLICA_TYPE,
    fromReplicaType=REPLICA_TYPE,
    toReplicaType=REPLICA_TYPE,
    fromSystemNetworkNames=FORMER_NETWORKS,
    toSystemNetworkNames=FORMER_NETWORKS,
    steps=many(STEP, minItems=1, maxItems=8),
    rules=[
        rule(
            f"has(self.replicaName) == (self.type in {OF_A_REPLICA})",
            "what happens to one replica names it",
        ),
        rule(
            (
                "has(self.replicaType) == (self.type in ['AddReplica', 'RemoveReplica', "
                "'ForceRemoveReplica'])"
            ),
            "who comes or goes has a type",
        ),
        rule(
            (
                "(has(self.fromReplicaType) && has(self.toReplicaType)) == (self.type == "
                "'ChangeReplicaType')"
            ),
            "a change of type goes from one to another",
        ),
    ],
)
MEMBER = record(
    ["name", "type", "nodeName", "addresses", "attached"],
    name=text(140, shortest=1, pattern=REPLICA_NAME),
    type=one_of(*MEMBER_TYPES),
    nodeName=NODE,
    zone=text(64),
    addresses=many(ADDRESS, unique("systemNetworkName"), minItems=1, maxItems=10),
    attached=flag(default=False),
    lvmVolumeGroupName=GROUP_NAME,
    lvmVolumeGroupThinPoolName=text(64),
)
DATAMESH = record(
    ["members", "quorum", "quorumMinimumRedundancy", "size", "systemNetworkNames"],
    members=many(MEMBER, unique("name"), maxItems=32, default=[]),
    quorum=whole(0, 13, default=0),
    quorumMinimumRedundancy=whole(0, 8, default=0),
    multiattach=flag(default=False),
    size=QUANTITY,
    sharedSecret=text(256),
    sharedSecretAlg=one_of("SHA256", "SHA1", "DummyForTest"),
    systemNetworkNames={**NETWORKS, "default": []},
)
COUNTS = (
    "totalVoters",
    "reachableVoters",
    "upToDateVoters",
    "totalTieBreakers",
    "reachableTieBreakers",
    "staleAgents",
)
EFFECTIVE_LAYOUT = record(
    COUNTS,
    default=dict.fromkeys(COUNTS, 0),
    **dict.fromkeys(COUNTS, whole(default=0)),
    failuresToTolerate=whole(),
    guaranteedMinimumDataRedundancy=whole(),
    message=text(),
)

VOLUME_SPEC = record(
    ["size"],
    size=with_rules(
        QUANTITY,
        rule(
            "quantity(string(self)).isGreaterThan(quantity('0'))", "a volume has room for something"
        ),
    ),
    replicatedStorageClassName=text(shortest=1),
    configurationMode=one_of("Auto", "Manual", default="Auto"),
    manualConfiguration=CONFIGURATION,
    maxAttachments=whole(1, 32, default=1),
    rules=[
        rule(
            (
                "self.configurationMode != 'Auto' || (has(self.replicatedStorageClassName) "
                "&& !has(self.manualConfiguration))"
            ),
            "Auto takes its configuration from a class, and from nowhere else",
        ),
        rule(
            (
                "self.configurationMode != 'Manual' || (has(self.manualConfiguration) && "
                "!has(self.replicatedStorageClassName))"
            ),
            "Manual brings its own configuration, and has no class",
        ),
    ],
)
VIOLATION = record(
    ["nodeName", "replicaName", "reason"], nodeName=text(253), replicaName=text(253), reason=text()
)
VOLUME_STATUS = record(
    ["baselineGuaranteedMinimumDataRedundancy", "datamesh", "datameshRevision", "effectiveLayout"],
    conditions=CONDITIONS,
    size=QUANTITY,
    actuallyAttachedTo=many(text(), unique(), maxItems=2),
    baselineGuaranteedMinimumDataRedundancy=whole(0, 2, default=0),
    configuration=CONFIGURATION,
    configurationGeneration=LONG,
    configurationObservedGeneration=LONG,
    datamesh=DATAMESH,
    datameshRevision=LONG,
    datameshTransitions=many(TRANSITION),
    datameshReplicaRequests=many(
        record(
            ["name", "request", "firstObservedAt"],
            name=text(123, shortest=1, pattern=REPLICA_NAME),
            request=REQUEST,
            firstObservedAt=MOMENT,
            message=text(512),
        ),
        unique("name"),
        maxItems=32,
    ),
    effectiveLayout=EFFECTIVE_LAYOUT,
    eligibleNodesViolations=many(VIOLATION, unique("replicaName"), maxItems=32),
    membershipLayout=text(),
)
VOLUME = definition(
    REPLICATED_VOLUMES,
    "rv",
    VOLUME_SPEC,
    VOLUME_STATUS,
    rules=[rule("size(self.metadata.name) <= 120", "a volume's name has at most 120 characters")],
    columns=[
        *(condition_column(name) for name in ("IOReady", "Quorum", "Scheduled", "Configured")),
        column("Size", ".status.size"),
        AGE,
        column("MembershipLayout", ".status.membershipLayout", wide=True),
        *(
            condition_column(name, wide=True)
            for name in ("ConfigurationReady", "SatisfyEligibleNodes")
        ),
        column("StorageClass", ".spec.replicatedStorageClassName", wide=True),
    ],
)

PEER = record(
    ["name"],
    name=text(253, shortest=1, pattern=REPLICA_NAME),
    type=one_of(*TYPES),
    attached=flag(),
    connectionState=text(),
    connectionEstablishedOn=NETWORKS,
    replicationState=text(),
    backingVolumeState=text(),
)
PHASES = (
    "Pending",
    "Provisioning",
    "Configuring",
    "WaitingForDatamesh",
    "Synchronizing",
    "Healthy",
    "PartiallyDegraded",
    "Degraded",
    "Critical",
    "Progressing",
    "AgentNotReady",
    "Terminating",
)
CONNECTED = ("connectedDiskfulPeers", "connectedTieBreakerPeers", "connectedUpToDatePeers")
REPLICA_STATUS = record(
    conditions=CONDITIONS,
    phase=one_of(*PHASES),
    message=text(512),
    type=one_of("Diskful", "Diskless"),
    size=QUANTITY,
    quorum=flag(),
    quorumSummary=record(
        CONNECTED,
        **dict.fromkeys(CONNECTED, whole(default=0)),
        quorum=whole(),
        quorumMinimumRedundancy=whole(),
    ),
    addresses=many(ADDRESS, maxItems=10),
    attachment=record(
        ["devicePath", "inUse", "ioSuspended"],
        devicePath=text(256, shortest=1),
        inUse=flag(),
        ioSuspended=flag(),
    ),
    backingVolume=record(
        lvmVolumeGroupName=text(253),
        lvmVolumeGroupThinPoolName=text(253),
        size=QUANTITY,
        state=text(),
    ),
    datameshRequest=REQUEST,
    datameshRevision=LONG,
    datameshRevisionObservedByAgent=LONG,
    drbdrReconciliationCache=record(
        datameshRevision=LONG, drbdrGeneration=LONG, targetType=one_of(*MEMBER_TYPES)
    ),
    initialQuorumReachedAt=MOMENT,
    peers=many(PEER, unique("name"), maxItems=31),
)
REPLICA = definition(
    REPLICATED_VOLUME_REPLICAS,
    "rvr",
    record(
        ["replicatedVolumeName", "type"],
        replicatedVolumeName=immutable(
            text(120, shortest=1, pattern=VOLUME_NAME), "a replica stays with its volume"
        ),
        nodeName=immutable(NODE, "a replica stays on its node"),
        type=one_of("Diskful", "ShadowDiskful", "Access", "TieBreaker"),
        lvmVolumeGroupName=GROUP_NAME,
        lvmVolumeGroupThinPoolName=text(),
        rules=[
            rule("self.type != 'Access' || has(self.nodeName)", "Access is for one node: name it"),
            rule(
                "!has(self.lvmVolumeGroupName) || (has(self.nodeName) && self.type == 'Diskful')",
                "a volume group is for a Diskful replica of a named node",
            ),
            rule(
                "!has(self.lvmVolumeGroupThinPoolName) || has(self.lvmVolumeGroupName)",
                "a thin pool is one of a volume group",
            ),
        ],
    ),
    REPLICA_STATUS,
    rules=[
        rule(
            "self.metadata.name.startsWith(self.spec.replicatedVolumeName + '-')",
            "a replica's name begins with its volume's and a dash",
        ),
        rule(
            (
                "self.metadata.name.substring(size(self.spec.replicatedVolumeName) + "
                "1).matches('^([0-9]|0[0-9]|[12][0-9]|3[01])$')"
            ),
            "a replica's name is its volume's, a dash and a number from 0 to 31",
        ),
        rule("size(self.metadata.name) <= 123", "a replica's name has at most 123 characters"),
    ],
    selectable=WHERE,
    columns=[
        column("Node", ".spec.nodeName"),
        column("Type", ".spec.type"),
        column("Phase", ".status.phase"),
        condition_column("Attached"),
        condition_column("DataUpToDate", "BackingVolumeUpToDate"),
        AGE,
        condition_column("Configured", wide=True),
        column("Message", ".status.message", wide=True),
    ],
)

ATTACHMENT = definition(
    REPLICATED_VOLUME_ATTACHMENTS,
    "rva",
    record(
        ["replicatedVolumeName", "nodeName"],
        replicatedVolumeName=immutable(
            text(127, shortest=1, pattern=VOLUME_NAME), "an attachment stays with its volume"
        ),
        nodeName=immutable(NODE, "an attachment stays with its node"),
    ),
    record(
        conditions=CONDITIONS,
        phase=one_of("Pending", "Attaching", "Attached", "Detaching", "Terminating"),
        message=text(512),
        devicePath=text(256),
        inUse=flag(),
        ioSuspended=flag(),
    ),
    selectable=WHERE,
    columns=[
        column("Volume", ".spec.replicatedVolumeName"),
        column("Node", ".spec.nodeName"),
        column("Phase", ".status.phase"),
        condition_column("ReplicaReady"),
        AGE,
        column("Message", ".status.message", wide=True),
    ],
)
EFFECTIVE_LAYOUT_DEFINITIONS = (VOLUME, REPLICA, ATTACHMENT, CLASS, POOL)
