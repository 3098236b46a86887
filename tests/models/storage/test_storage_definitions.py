"""Our definitions validate like the published ones, and these accept all storage writes."""

from __future__ import annotations

import pytest
from published import published
from storage_cluster import RV, RVA, RVR, StorageCluster

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.models.storage.definitions import (
    CONDITIONS_DEFINITIONS,
    EFFECTIVE_LAYOUT_DEFINITIONS,
)
from pytest_kscen.models.storage.generations import GENERATIONS
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.errors import ApiError
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS
from pytest_kscen.objects.storage import (
    HEALTH_SOURCES,
    REPLICATED_STORAGE_CLASSES,
    REPLICATED_STORAGE_POOLS,
)

RSC, RSP = REPLICATED_STORAGE_CLASSES, REPLICATED_STORAGE_POOLS
FOLDERS = {
    "storage-conditions": CONDITIONS_DEFINITIONS,
    "storage-effective-layout": EFFECTIVE_LAYOUT_DEFINITIONS,
}
SPEC = {"size": "1Gi", "replicatedStorageClassName": "x"}
CLASS = {
    "reclaimPolicy": "Delete",
    "storagePool": "p",
    "topology": "Ignored",
    "replication": "Availability",
}
POOL = {"type": "LVM", "lvmVolumeGroups": [{"name": "vg"}]}
OF_V = {"replicatedVolumeName": "v"}
WORDS = [
    (RV, "v", SPEC),
    (RV, "v" * 120, SPEC),
    (RV, "v" * 121, SPEC),
    (RV, "v", {"size": "1Gi"}),
    (RV, "v", {**SPEC, "size": 5}),
    (RV, "v", {**SPEC, "size": "0"}),
    (RV, "v", {**SPEC, "size": "much"}),
    (RV, "v", {**SPEC, "replicatedStorageClassName": ""}),
    (RV, "v", {**SPEC, "configurationMode": "Manual"}),
    (RV, "v", {**SPEC, "maxAttachments": 33}),
    (RVR, "v-0", {**OF_V, "type": "Diskful"}),
    (RVR, "v-31", {**OF_V, "type": "TieBreaker"}),
    (RVR, "v-32", {**OF_V, "type": "TieBreaker"}),
    (RVR, "v-mt-01", {**OF_V, "type": "TieBreaker"}),
    (RVR, "v-07", {**OF_V, "type": "TieBreaker"}),
    (RVR, "v-x", {**OF_V, "type": "TieBreaker"}),
    (RVR, "w-0", {**OF_V, "type": "TieBreaker"}),
    (RVR, "v-0", {**OF_V, "type": "Access"}),
    (RVR, "v-0", {**OF_V, "type": "Access", "nodeName": "n"}),
    (RVR, "v-0", {**OF_V, "type": "ShadowDiskful"}),
    (RVR, "v-0", {**OF_V, "type": "Other"}),
    (RVR, "v-0", {**OF_V, "type": "Diskful", "nodeName": ""}),
    (RVR, "v-0", {"type": "Diskful"}),
    (RVA, "a", {**OF_V, "nodeName": "n"}),
    (RVA, "a", {**OF_V, "nodeName": ""}),
    (RVA, "a", {"nodeName": "n"}),
    (RSC, "c", CLASS),
    (RSC, "c", {**CLASS, "replication": "Consistency"}),
    (RSC, "c", {**CLASS, "zones": ["a", "b"]}),
    (RSC, "c", {**CLASS, "zones": ["a", "b", "c"]}),
    (RSC, "c", {**CLASS, "topology": "TransZonal", "zones": ["a", "b"]}),
    (RSC, "c", {**CLASS, "replication": "None", "topology": "Zonal"}),
    (RSC, "c", {**CLASS, "failuresToTolerate": 1}),
    (
        RSC,
        "c",
        {
            "reclaimPolicy": "Delete",
            "topology": "Ignored",
            "failuresToTolerate": 2,
            "guaranteedMinimumDataRedundancy": 0,
        },
    ),
    (
        RSC,
        "c",
        {
            "reclaimPolicy": "Delete",
            "topology": "Ignored",
            "failuresToTolerate": 1,
            "guaranteedMinimumDataRedundancy": 1,
        },
    ),
    (RSC, "c", {**CLASS, "volumeAccess": "Sometimes"}),
    (RSP, "p", POOL),
    (RSP, "p", {**POOL, "type": "LVMThin"}),
    (RSP, "p", {**POOL, "lvmVolumeGroups": [{"name": "VG"}]}),
    (RSP, "p", {**POOL, "lvmVolumeGroups": []}),
]
CHANGES = [
    (RVR, "v-0", {**OF_V, "type": "Diskful"}, {"nodeName": "n"}),
    (RVR, "v-0", {**OF_V, "type": "Diskful", "nodeName": "n"}, {"nodeName": "m"}),
    (RVR, "v-0", {**OF_V, "type": "TieBreaker", "nodeName": "n"}, {"type": "Access"}),
    (RVR, "v-0", {**OF_V, "type": "Diskful"}, {"replicatedVolumeName": "w"}),
    (RVA, "a", {**OF_V, "nodeName": "n"}, {"nodeName": "m"}),
    (RVA, "a", {**OF_V, "nodeName": "n"}, {"replicatedVolumeName": "w"}),
    (RV, "v", SPEC, {"size": "2Gi"}),
    (RSC, "c", CLASS, {"topology": "Zonal"}),
    (RSC, "c", CLASS, {"zones": ["a"]}),
    (RSC, "c", CLASS, {"storagePool": "q"}),
    (RSC, "c", CLASS, {"volumeAccess": "Any"}),
    (RSP, "p", POOL, {"type": "LVMThin"}),
]


class DefinitionApi:
    """An API with definitions alone."""

    def __init__(self, definitions):
        self.cluster = EmbeddedCluster(0, nodes=0)
        self.api = self.cluster.api("test")
        for definition in definitions:
            self.call(self.api.create(CUSTOM_RESOURCE_DEFINITIONS, definition))
            name = definition["metadata"]["name"]
            established = wait_for(
                self.api,
                self.cluster.runner.clock,
                CUSTOM_RESOURCE_DEFINITIONS,
                name,
                condition=lambda one: is_true(one, "Established"),
                timeout=60,
            )
            self.call(established)

    def call(self, coroutine):
        return self.cluster.runner.call(coroutine)

    def takes(self, resource, name, spec, *changes):
        """Whether it accepts this object, and then these changes."""
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        try:
            self.call(self.api.create(resource, body))
        except ApiError:
            return [False]
        answers = [True]
        for change in changes:
            try:
                self.call(self.api.patch(resource, name, {"spec": change}))
            except ApiError:
                answers.append(False)
            else:
                answers.append(True)
        self.call(self.api.delete(resource, name))
        return answers


@pytest.mark.parametrize("folder", FOLDERS)
def test_our_definitions_validate_like_the_published_ones(folder):
    theirs, ours = DefinitionApi(published(folder)), DefinitionApi(FOLDERS[folder])
    try:
        for words in [*WORDS, *CHANGES]:
            assert ours.takes(*words) == theirs.takes(*words), words
    finally:
        ours.cluster.close()
        theirs.cluster.close()


@pytest.mark.parametrize("generation", HEALTH_SOURCES)
def test_published_definitions_accept_all_writes_of_the_storage(monkeypatch, caplog, generation):
    folder = "storage-conditions" if generation == "conditions" else "storage-effective-layout"
    known = type(GENERATIONS[generation])
    real = type("Published", (known,), {"definitions": tuple(published(folder))})
    monkeypatch.setitem(GENERATIONS, generation, real())
    cluster = EmbeddedCluster("published")
    try:
        _live(StorageCluster(cluster, generation), HEALTH_SOURCES[generation])
    finally:
        cluster.close()
    assert [
        record.getMessage()
        for record in caplog.records
        if "replicated-volume" in record.getMessage()
    ] == []


def _live(storage_cluster, health):
    storage_cluster.volume(
        storage_class="availability",
        **({} if health.name == "conditions" else {"maxAttachments": 2}),
    )
    storage_cluster.until(lambda: health.is_ready(storage_cluster.get(RV, "v")))
    for node in [
        storage_cluster.nodes()[0],
        next(name for name in storage_cluster.node_names if name not in storage_cluster.nodes()),
    ]:
        storage_cluster.attach(node)
    storage_cluster.until(lambda: len(storage_cluster.status(RV, "v")["actuallyAttachedTo"]) == 2)
    storage_cluster.site.machines.power_off(storage_cluster.nodes()[1])
    storage_cluster.advance(90)
    storage_cluster.replica(9, type_="TieBreaker")
    storage_cluster.site.machines.power_on(storage_cluster.nodes()[1])
    storage_cluster.until(lambda: health.is_ready(storage_cluster.get(RV, "v")), timeout=200)
    for attachment in storage_cluster.call(storage_cluster.api.list(RVA)).items:
        storage_cluster.delete(RVA, attachment["metadata"]["name"])
    storage_cluster.delete(RV, "v")
    storage_cluster.until(lambda: storage_cluster.get(RV, "v") is None)
