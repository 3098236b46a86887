import pytest

from pytest_kscen.objects import names
from pytest_kscen.objects.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    Resource,
)

SUBDOMAIN = names.dns1123_subdomain("-")[0]
KEY = names.label_key("-")[0]
DRIVERS = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False)
ATTACHMENTS = Resource(
    "storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False
)
ON_A_NODE = {
    "required": {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
        ]
    }
}
STAYS = (
    "spec: Forbidden: spec is immutable after creation except resources.requests and "
    "volumeAttributesClassName for bound claims"
)


def named(**content):
    return {"metadata": {"name": "rules-x"}, **content}


def claim(**spec):
    given = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "rules-c",
    }
    return named(spec={**given, **spec})


def volume(**spec):
    source = (
        {} if spec.keys() & {"nfs", "csi", "local", "nothing"} else {"hostPath": {"path": "/a"}}
    )
    rest = {name: value for name, value in spec.items() if name != "nothing"}
    return named(
        spec={"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, **source, **rest}
    )


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        (
            {},
            (
                {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                    "storageClassName": "rules-c",
                    "volumeMode": "Filesystem",
                },
                {"phase": "Pending"},
            ),
        ),
        (
            {"resources": {"requests": {"storage": "1024Mi"}}, "volumeMode": "Block"},
            (
                {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                    "storageClassName": "rules-c",
                    "volumeMode": "Block",
                },
                {"phase": "Pending"},
            ),
        ),
        (
            {"dataSource": {"kind": "PersistentVolumeClaim", "name": "z"}},
            (
                {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                    "storageClassName": "rules-c",
                    "volumeMode": "Filesystem",
                    "dataSource": {"apiGroup": None, "kind": "PersistentVolumeClaim", "name": "z"},
                    "dataSourceRef": {
                        "apiGroup": None,
                        "kind": "PersistentVolumeClaim",
                        "name": "z",
                    },
                },
                {"phase": "Pending"},
            ),
        ),
        (
            {"dataSource": {"kind": "Pod", "name": "z"}},
            (
                {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                    "storageClassName": "rules-c",
                    "volumeMode": "Filesystem",
                },
                {"phase": "Pending"},
            ),
        ),
        (
            {"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "z"}},
            (
                {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                    "storageClassName": "rules-c",
                    "volumeMode": "Filesystem",
                    "dataSource": {"apiGroup": None, "kind": "PersistentVolumeClaim", "name": "z"},
                    "dataSourceRef": {
                        "apiGroup": None,
                        "kind": "PersistentVolumeClaim",
                        "name": "z",
                    },
                },
                {"phase": "Pending"},
            ),
        ),
    ],
)
def test_claim_defaults(judge, given, filled):
    made = judge.made(PERSISTENT_VOLUME_CLAIMS, claim(**given))
    assert (made["spec"], made["status"]) == filled


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        (
            {"accessModes": []},
            ["spec.accessModes: Required value: at least 1 access mode is required"],
        ),
        (
            {"accessModes": ["X"]},
            [
                (
                    'spec.accessModes: Unsupported value: "X": supported values: '
                    '"ReadOnlyMany", "ReadWriteMany", '
                    '"ReadWriteOnce", "ReadWriteOncePod"'
                )
            ],
        ),
        (
            {"accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]},
            ["spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"],
        ),
        ({"resources": {}}, ["spec.resources[storage]: Required value"]),
        (
            {"resources": {"requests": {"storage": "0"}}},
            ['spec.resources[storage]: Invalid value: "0": must be greater than zero'],
        ),
        ({"storageClassName": "A"}, [f'spec.storageClassName: Invalid value: "A": {SUBDOMAIN}']),
        (
            {"volumeMode": "X"},
            ['spec.volumeMode: Unsupported value: "X": supported values: "Block", "Filesystem"'],
        ),
        (
            {"selector": {"matchLabels": {"a b": "c"}}},
            [f'spec.selector.matchLabels: Invalid value: "a b": {KEY}'],
        ),
        (
            {"volumeAttributesClassName": "A b"},
            [f'spec.volumeAttributesClassName: Invalid value: "A b": {SUBDOMAIN}'],
        ),
    ],
)
def test_claims(judge, spec, wrong):
    assert judge.create(PERSISTENT_VOLUME_CLAIMS, claim(**spec)) == wrong


@pytest.mark.parametrize(
    "patch",
    [
        {"accessModes": ["ReadWriteMany"]},
        {"storageClassName": "q"},
        {"resources": {"requests": {"storage": "2Gi"}}},
        {"volumeMode": "Block"},
        {"volumeAttributesClassName": "q"},
    ],
)
def test_claim_spec_is_immutable(judge, patch):
    judge.made(PERSISTENT_VOLUME_CLAIMS, claim())
    (wrong, *_) = judge.change(PERSISTENT_VOLUME_CLAIMS, "rules-x", {"spec": patch})
    assert wrong.startswith(STAYS)


def test_claim_volume_is_set_once(judge):
    judge.made(PERSISTENT_VOLUME_CLAIMS, claim())
    judge.changed(PERSISTENT_VOLUME_CLAIMS, "rules-x", {"spec": {"volumeName": "v"}})
    judge.changed(PERSISTENT_VOLUME_CLAIMS, "rules-x", {"status": {"phase": "Bound"}}, "status")
    (wrong,) = judge.change(PERSISTENT_VOLUME_CLAIMS, "rules-x", {"spec": {"volumeName": "w"}})
    assert wrong.startswith(STAYS)


@pytest.mark.parametrize(
    ("size", "wrong"),
    [
        ("2Gi", []),
        (
            "500Mi",
            [
                (
                    "spec.resources.requests.storage: Forbidden: field can not be less than "
                    "status.capacity"
                )
            ],
        ),
    ],
)
def test_bound_claim_can_grow(judge, size, wrong):
    judge.made(
        STORAGE_CLASSES,
        {"metadata": {"name": "rules-c"}, "provisioner": "p", "allowVolumeExpansion": True},
    )
    judge.made(PERSISTENT_VOLUME_CLAIMS, claim(volumeName="v"))
    judge.changed(
        PERSISTENT_VOLUME_CLAIMS,
        "rules-x",
        {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}},
        "status",
    )
    told = judge.change(
        PERSISTENT_VOLUME_CLAIMS,
        "rules-x",
        {"spec": {"resources": {"requests": {"storage": size}}}},
    )
    assert [line.split("\n")[0] for line in told] == wrong


@pytest.mark.parametrize(
    ("status", "wrong"),
    [
        ({"phase": "Bound", "capacity": {"storage": "1Gi"}}, []),
        (
            {"capacity": {"storage": "-1"}},
            ["status.capacity[storage]: Invalid value: -1: must be a valid resource quantity"],
        ),
        (
            {"allocatedResources": {"cpu": "1"}},
            ['status.allocatedResources: Unsupported value: "cpu": supported values: "storage"'],
        ),
        (
            {"allocatedResourceStatuses": {"storage": "X"}},
            [
                (
                    'status.allocatedResourceStatuses: Unsupported value: "storage": '
                    "supported values: "
                    '"ControllerResizeInProgress", "ControllerResizeInfeasible", '
                    '"NodeResizeInProgress", '
                    '"NodeResizeInfeasible", "NodeResizePending"'
                )
            ],
        ),
    ],
)
def test_claim_status(judge, status, wrong):
    judge.made(PERSISTENT_VOLUME_CLAIMS, claim())
    assert judge.change(PERSISTENT_VOLUME_CLAIMS, "rules-x", {"status": status}, "status") == wrong


def test_volume_defaults(judge):
    made = judge.made(PERSISTENT_VOLUMES, volume())
    assert made["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/a", "type": ""},
        "persistentVolumeReclaimPolicy": "Retain",
        "volumeMode": "Filesystem",
    }
    assert made["status"] == {"phase": "Pending", "lastPhaseTransitionTime": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"nothing": True}, ["spec: Required value: must specify a volume type"]),
        (
            {"nfs": {}},
            [
                "spec.nfs.server: Required value",
                "spec.nfs.path: Required value",
                'spec.nfs.path: Invalid value: "": must be an absolute path',
            ],
        ),
        (
            {"nfs": {"server": "a", "path": "/b"}, "hostPath": {"path": "/a"}},
            ["spec.nfs: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            {"hostPath": {"path": "a/../b"}},
            ["spec.hostPath.path: Invalid value: \"a/../b\": must not contain '..'"],
        ),
        ({"accessModes": []}, ["spec.accessModes: Required value"]),
        (
            {"capacity": {"cpu": "1", "storage": "0"}},
            [
                (
                    'spec.capacity: Unsupported value: {"cpu":"1","storage":"0"}: supported '
                    'values: "storage"'
                ),
                'spec.capacity[storage]: Invalid value: "0": must be greater than zero',
            ],
        ),
        (
            {"persistentVolumeReclaimPolicy": "X", "volumeMode": "X", "storageClassName": "A"},
            [
                (
                    'spec.persistentVolumeReclaimPolicy: Unsupported value: "X": supported '
                    'values: "Delete", "Recycle", "Retain"'
                ),
                f'spec.storageClassName: Invalid value: "A": {SUBDOMAIN}',
                'spec.volumeMode: Unsupported value: "X": supported values: "Block", "Filesystem"',
            ],
        ),
        (
            {"local": {"path": "/a"}},
            ["spec.nodeAffinity: Required value: Local volume requires node affinity"],
        ),
        (
            {"local": {"path": "../a"}, "nodeAffinity": ON_A_NODE},
            ["spec.local.path: Invalid value: \"../a\": must not contain '..'"],
        ),
        (
            {"nodeAffinity": {}},
            ["spec.nodeAffinity.required: Required value: must specify required node constraints"],
        ),
        ({"csi": {"driver": "a"}}, ["spec.csi.volumeHandle: Required value"]),
        (
            {"csi": {"driver": "A_b", "volumeHandle": "h"}},
            [f'spec.csi.driver: Invalid value: "A_b": {SUBDOMAIN}'],
        ),
    ],
)
def test_volumes(judge, given, wrong):
    assert judge.create(PERSISTENT_VOLUMES, volume(**given)) == wrong


@pytest.mark.parametrize(
    ("patch", "wrong"),
    [
        ({"capacity": {"storage": "3Gi"}, "claimRef": {"name": "a", "namespace": "b"}}, []),
        ({"persistentVolumeReclaimPolicy": "Delete"}, []),
        ({"volumeMode": "Block"}, ['volumeMode: Invalid value: "Block": field is immutable']),
        ({"nodeAffinity": ON_A_NODE}, []),
        (
            {"hostPath": {"path": "/b"}},
            [
                (
                    "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is "
                    "immutable after creation"
                )
            ],
        ),
    ],
)
def test_volume_changes(judge, patch, wrong):
    judge.made(PERSISTENT_VOLUMES, volume())
    told = judge.change(PERSISTENT_VOLUMES, "rules-x", {"spec": patch})
    assert [line.split("\n")[0] for line in told] == wrong


def test_storage_class_defaults(judge):
    made = judge.made(STORAGE_CLASSES, named(provisioner="a.b/c"))
    assert (made["reclaimPolicy"], made["volumeBindingMode"]) == ("Delete", "Immediate")


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ({"provisioner": ""}, ["provisioner: Required value"]),
        ({"provisioner": "a b"}, [f'provisioner: Invalid value: "a b": {KEY}']),
        (
            {"provisioner": "a", "reclaimPolicy": "X", "volumeBindingMode": "X"},
            [
                'reclaimPolicy: Unsupported value: "X": supported values: "Delete", "Retain"',
                (
                    'volumeBindingMode: Unsupported value: "X": supported values: '
                    '"Immediate", "WaitForFirstConsumer"'
                ),
            ],
        ),
        (
            {"provisioner": "a", "parameters": {"": "b"}},
            ['parameters: Invalid value: "": field can not be empty.'],
        ),
        (
            {
                "provisioner": "a",
                "allowedTopologies": [
                    {"matchLabelExpressions": [{"key": "a", "values": ["x", "x"]}]}
                ],
            },
            ['allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: "x"'],
        ),
    ],
)
def test_storage_classes(judge, content, wrong):
    assert judge.create(STORAGE_CLASSES, named(**content)) == wrong


@pytest.mark.parametrize(
    ("patch", "wrong"),
    [
        ({"parameters": {"a": "c"}}, ['parameters: Invalid value: {"a":"c"}: field is immutable']),
        ({"provisioner": "q"}, ['provisioner: Invalid value: "q": field is immutable']),
        (
            {"reclaimPolicy": "Retain"},
            ['reclaimPolicy: Invalid value: "Retain": field is immutable'],
        ),
        (
            {"volumeBindingMode": "WaitForFirstConsumer"},
            ['volumeBindingMode: Invalid value: "WaitForFirstConsumer": field is immutable'],
        ),
        ({"allowVolumeExpansion": True, "mountOptions": ["a"]}, []),
    ],
)
def test_storage_class_changes(judge, patch, wrong):
    judge.made(STORAGE_CLASSES, named(provisioner="p", parameters={"a": "b"}))
    assert judge.change(STORAGE_CLASSES, "rules-x", patch) == wrong


def test_driver_defaults(judge):
    assert judge.made(DRIVERS, named(spec={}))["spec"] == {
        "attachRequired": True,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "podInfoOnMount": False,
        "requiresRepublish": False,
        "seLinuxMount": False,
        "storageCapacity": False,
        "volumeLifecycleModes": ["Persistent"],
    }


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        (
            {},
            [
                "spec.attacher: Required value",
                (
                    "spec.source: Required value: must specify exactly one of "
                    "inlineVolumeSpec and persistentVolumeName"
                ),
                f'spec.nodeName: Invalid value: "": {SUBDOMAIN}',
            ],
        ),
        (
            {"attacher": "a.b", "nodeName": "A", "source": {}},
            [
                (
                    "spec.source: Required value: must specify exactly one of "
                    "inlineVolumeSpec and persistentVolumeName"
                ),
                f'spec.nodeName: Invalid value: "A": {SUBDOMAIN}',
            ],
        ),
    ],
)
def test_attachments(judge, spec, wrong):
    assert judge.create(ATTACHMENTS, named(spec=spec)) == wrong
