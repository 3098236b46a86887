"""Classes and pools of the later generations: how many failures a volume survives, where its
replicas may be, and on what.
"""

from __future__ import annotations

from pytest_kscen.models.storage.definitions.schema import (
    AGE,
    CONDITIONS,
    LONG,
    OBJECT_NAME,
    column,
    definition,
    flag,
    immutable,
    keyed,
    many,
    one_of,
    record,
    rule,
    text,
    whole,
    with_rules,
)
from pytest_kscen.objects.storage import REPLICATED_STORAGE_CLASSES, REPLICATED_STORAGE_POOLS

UP_TO_TWO = whole(0, 2)
TOPOLOGY = one_of("TransZonal", "Zonal", "Ignored")
ACCESS = ("Local", "EventuallyLocal", "PreferablyLocal", "Any")
LAYOUT = ("failuresToTolerate", "guaranteedMinimumDataRedundancy")
BALANCED = "self.failuresToTolerate - self.guaranteedMinimumDataRedundancy in [-1, 0, 1]"
BARE = "self.failuresToTolerate == 0 && self.guaranteedMinimumDataRedundancy == 0"
TOLERANCE_RULE_TEXT = "failures to tolerate and guaranteed redundancy differ by one at most"
BARE_ANYWHERE = "a single replica is not spread: its topology is Ignored"
CONFIGURATION = record(
    [*LAYOUT, "topology", "volumeAccess", "replicatedStoragePoolName"],
    failuresToTolerate=UP_TO_TWO,
    guaranteedMinimumDataRedundancy=UP_TO_TWO,
    topology=TOPOLOGY,
    volumeAccess=one_of(*ACCESS),
    replicatedStoragePoolName=text(shortest=1),
    rules=[
        rule(BALANCED, TOLERANCE_RULE_TEXT),
        rule(f"!({BARE}) || self.topology == 'Ignored'", BARE_ANYWHERE),
    ],
)

EXPRESSION = record(["key", "operator"], key=text(), operator=text(), values=many(text()))
NODE_SELECTOR = {
    **record(
        matchLabels={"type": "object", "additionalProperties": text()},
        matchExpressions=many(EXPRESSION),
    ),
    "x-kubernetes-map-type": "atomic",
}
VOLUME_GROUP = record(
    ["name"],
    name=text(shortest=1, pattern=OBJECT_NAME),
    thinPoolName=text(128, shortest=1, pattern="^[a-zA-Z0-9][a-zA-Z0-9_.+-]*$"),
)
THIN = rule(
    "self.lvmVolumeGroups.all(one, has(one.thinPoolName) == (self.type == 'LVMThin'))",
    "every volume group has a thin pool when the type is LVMThin, and none has one when it is LVM",
)
PATIENCE = record(["notReadyGracePeriod"], notReadyGracePeriod=text(default="10m"))
ZONES = {"type": "array", "items": text(63), "maxItems": 10, "x-kubernetes-list-type": "set"}
INTERNAL = rule("self.all(name, name == 'Internal')", "Internal is the only network so far")
PARALLEL = record(["maxParallel"], maxParallel=whole(1, 200, default=5, form="int32"))


def strategy(plain: str, rolling: str, field: str) -> dict[str, object]:
    """Return the schema of a rollout strategy: one of two types, of which `rolling` needs its
    parameter.
    """
    condition = f"has(self.{field}) == (self.type == '{rolling}')"
    return record(
        ["type"],
        type=one_of(plain, rolling),
        **{field: PARALLEL},
        rules=[rule(condition, f"{field} goes with {rolling}")],
    )


def spread(zones: str, count: str, *, ftt: int, gmdr: int) -> dict[str, str]:
    layout = f"self.failuresToTolerate == {ftt} && self.guaranteedMinimumDataRedundancy == {gmdr}"
    named = "has(self.zones) && size(self.zones) > 0"
    condition = (
        f"self.topology == 'TransZonal' && has(self.failuresToTolerate) && {layout} && {named}"
    )
    return rule(
        f"!({condition}) || size(self.zones) in {zones}",
        f"spread over zones with FTT {ftt} and GMDR {gmdr}, it needs {count}",
    )


def at_least(zones: int, replication: str) -> dict[str, str]:
    named = "has(self.zones) && size(self.zones) > 0"
    condition = (
        "self.topology == 'TransZonal' && has(self.replication) && self.replication == "
        f"'{replication}' && {named}"
    )
    return rule(
        f"!({condition}) || size(self.zones) >= {zones}",
        f"{replication} over zones needs {zones} of them",
    )


def unchanging(field: str) -> dict[str, str]:
    same = (
        f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == "
        f"oldSelf.{field})"
    )
    return rule(same, f"{field} cannot be changed")


def once_set(field: str) -> dict[str, str]:
    kept = f"!has(oldSelf.{field}) || (has(self.{field}) && self.{field} == oldSelf.{field})"
    return rule(kept, f"{field} cannot be changed once it is set")


CLASS_RULES = [
    rule(
        "!has(self.replication) || self.replication != 'None' || self.topology == 'Ignored'",
        BARE_ANYWHERE,
    ),
    at_least(3, "Availability"),
    at_least(2, "Consistency"),
    at_least(3, "ConsistencyAndAvailability"),
    rule(
        (
            "!has(self.replication) || !(has(self.failuresToTolerate) || "
            "has(self.guaranteedMinimumDataRedundancy))"
        ),
        "give a replication, or the two figures, not both",
    ),
    rule(
        "has(self.failuresToTolerate) == has(self.guaranteedMinimumDataRedundancy)",
        "give both figures, or none",
    ),
    rule(
        (
            "!has(self.failuresToTolerate) || !has(self.guaranteedMinimumDataRedundancy) || "
            f"{BALANCED}"
        ),
        TOLERANCE_RULE_TEXT,
    ),
    rule(
        (
            "!has(self.failuresToTolerate) || !has(self.guaranteedMinimumDataRedundancy) || "
            f"!({BARE}) || self.topology == 'Ignored'"
        ),
        BARE_ANYWHERE,
    ),
    spread("[2]", "two", ftt=0, gmdr=1),
    spread("[3]", "three", ftt=1, gmdr=0),
    spread("[3]", "three", ftt=1, gmdr=1),
    spread("[3, 5]", "three or five", ftt=1, gmdr=2),
    spread("[4]", "four", ftt=2, gmdr=1),
    spread("[3, 5]", "three or five", ftt=2, gmdr=2),
    rule("self.topology == oldSelf.topology", "topology cannot be changed"),
    unchanging("volumeAccess"),
    unchanging("zones"),
    once_set("systemNetworkNames"),
    once_set("eligibleNodesPolicy"),
]
COUNT = whole(form="int32")
CLASS = definition(
    REPLICATED_STORAGE_CLASSES,
    "rsc",
    record(
        ["reclaimPolicy", "topology"],
        reclaimPolicy=one_of("Delete", "Retain"),
        replication=one_of("None", "Availability", "Consistency", "ConsistencyAndAvailability"),
        failuresToTolerate=UP_TO_TWO,
        guaranteedMinimumDataRedundancy=UP_TO_TWO,
        topology=TOPOLOGY,
        volumeAccess=one_of(*ACCESS, default="PreferablyLocal"),
        zones=ZONES,
        storagePool=with_rules(
            text(), rule("self == '' || self == oldSelf", "a pool may only be taken away")
        ),
        storage=record(
            ["type", "lvmVolumeGroups"],
            type=one_of("LVM", "LVMThin"),
            lvmVolumeGroups=keyed(VOLUME_GROUP, "name", minItems=1),
            rules=[THIN],
        ),
        nodeLabelSelector=NODE_SELECTOR,
        systemNetworkNames=with_rules(
            {
                "type": "array",
                "items": text(),
                "minItems": 1,
                "maxItems": 1,
                "x-kubernetes-list-type": "set",
            },
            INTERNAL,
        ),
        eligibleNodesPolicy=PATIENCE,
        configurationRolloutStrategy=strategy("NewVolumesOnly", "RollingUpdate", "rollingUpdate"),
        eligibleNodesConflictResolutionStrategy=strategy(
            "Manual", "RollingRepair", "rollingRepair"
        ),
        rules=CLASS_RULES,
    ),
    record(
        ["volumes"],
        conditions=CONDITIONS,
        phase=one_of(
            "Ready",
            "WaitingForStoragePool",
            "InsufficientNodes",
            "InvalidConfiguration",
            "RollingOut",
            "PartiallyAligned",
            "Terminating",
        ),
        message=text(),
        configuration=CONFIGURATION,
        configurationGeneration=LONG,
        storagePoolName=text(),
        storagePoolBasedOnGeneration=LONG,
        storagePoolEligibleNodesRevision=LONG,
        volumes=record(
            default={},
            total=COUNT,
            aligned=COUNT,
            pendingObservation=COUNT,
            staleConfiguration=COUNT,
            inConflictWithEligibleNodes=COUNT,
            usedStoragePoolNames=many(text()),
        ),
    ),
    selectable=[".status.phase"],
    columns=[
        column("Phase", ".status.phase"),
        column("FTT", ".status.configuration.failuresToTolerate", "integer"),
        column("GMDR", ".status.configuration.guaranteedMinimumDataRedundancy", "integer"),
        column("Volumes", ".status.volumes.total", "integer"),
        AGE,
        column("Topology", ".spec.topology", wide=True),
        column("VolumeAccess", ".spec.volumeAccess", wide=True),
        column("StoragePool", ".status.storagePoolName", wide=True),
        column("Message", ".status.message", wide=True),
    ],
)

POOL_GROUP = record(
    ["name", "ready", "unschedulable"],
    name=text(253),
    thinPoolName=text(128),
    ready=flag(),
    unschedulable=flag(),
)
ELIGIBLE = record(
    ["nodeName", "nodeReady", "agentReady", "unschedulable"],
    nodeName=text(253),
    zoneName=text(63),
    nodeReady=flag(),
    agentReady=flag(),
    unschedulable=flag(),
    lvmVolumeGroups=many(POOL_GROUP, maxItems=50),
)
POOL = definition(
    REPLICATED_STORAGE_POOLS,
    "rsp",
    record(
        ["type", "lvmVolumeGroups", "systemNetworkNames", "eligibleNodesPolicy"],
        type=immutable(one_of("LVM", "LVMThin")),
        lvmVolumeGroups=immutable(many(VOLUME_GROUP, minItems=1)),
        nodeLabelSelector=immutable(NODE_SELECTOR),
        zones=immutable(ZONES),
        systemNetworkNames=many(text(), INTERNAL, minItems=1, maxItems=1, default=["Internal"]),
        eligibleNodesPolicy={**PATIENCE, "default": {"notReadyGracePeriod": "10m"}},
        rules=[THIN],
    ),
    record(
        conditions=CONDITIONS,
        phase=one_of("Ready", "WaitingForLVMVolumeGroups", "InvalidConfiguration"),
        message=text(),
        eligibleNodes=many(ELIGIBLE, maxItems=1000),
        eligibleNodesRevision=LONG,
        usedBy=record(replicatedStorageClassNames=many(text(253), maxItems=100)),
    ),
    selectable=[".status.phase"],
    columns=[
        column("Type", ".spec.type"),
        column("Phase", ".status.phase"),
        AGE,
        column("Message", ".status.message", wide=True),
    ],
)
