import pytest

from pytest_kscen.objects import names
from pytest_kscen.objects.resources import (
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)

LABEL, KEY, VALUE = names.dns1123_label("-")[0], names.label_key("-")[0], names.label_value("-")[0]
PERCENT = names.percent("x")[0]
CONTROLLERS = Resource("", "v1", "replicationcontrollers", "ReplicationController")
KINDS = (DEPLOYMENTS, REPLICA_SETS, DAEMON_SETS, STATEFUL_SETS)
SELECTOR = {"matchLabels": {"a": "b"}}
CLAIM = {
    "metadata": {"name": "v"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}},
}


def template(**spec):
    return {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


def workload(**spec):
    return {
        "metadata": {"name": "w"},
        "spec": {"selector": SELECTOR, "template": template(), **spec},
    }


@pytest.mark.parametrize(
    ("kind", "filled"),
    [
        (
            DEPLOYMENTS,
            (
                {
                    "replicas": 1,
                    "strategy": {
                        "type": "RollingUpdate",
                        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
                    },
                    "revisionHistoryLimit": 10,
                    "progressDeadlineSeconds": 600,
                },
                {},
                1,
            ),
        ),
        (REPLICA_SETS, ({"replicas": 1}, {"replicas": 0}, 1)),
        (
            DAEMON_SETS,
            (
                {
                    "updateStrategy": {
                        "type": "RollingUpdate",
                        "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0},
                    },
                    "revisionHistoryLimit": 10,
                },
                {
                    "currentNumberScheduled": 0,
                    "numberMisscheduled": 0,
                    "desiredNumberScheduled": 0,
                    "numberReady": 0,
                },
                1,
            ),
        ),
        (
            STATEFUL_SETS,
            (
                {
                    "replicas": 1,
                    "serviceName": "",
                    "podManagementPolicy": "OrderedReady",
                    "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                    "revisionHistoryLimit": 10,
                    "persistentVolumeClaimRetentionPolicy": {
                        "whenDeleted": "Retain",
                        "whenScaled": "Retain",
                    },
                },
                {"replicas": 0, "availableReplicas": 0},
                1,
            ),
        ),
    ],
    ids=lambda kind: getattr(kind, "plural", ""),
)
def test_defaults(judge, kind, filled):
    made = judge.made(kind, workload())
    rest = {
        name: value for name, value in made["spec"].items() if name not in {"selector", "template"}
    }
    assert (rest, made["status"], made["metadata"]["generation"]) == filled


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.plural)
def test_template_receives_pod_defaults(judge, kind):
    spec = judge.made(kind, workload())["spec"]["template"]["spec"]
    assert (
        spec["restartPolicy"],
        spec["schedulerName"],
        spec["containers"][0]["imagePullPolicy"],
    ) == (
        "Always",
        "default-scheduler",
        "Always",
    )
    assert "enableServiceLinks" not in spec


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.plural)
def test_stateful_set_name_has_no_dots(judge, kind):
    dots = (
        ['metadata.name: Invalid value: "a.b": must not contain dots']
        if kind is STATEFUL_SETS
        else []
    )
    assert judge.create(kind, {**workload(), "metadata": {"name": "a.b"}}) == dots


@pytest.mark.parametrize(
    ("kind", "spec", "wrong"),
    [
        (
            DEPLOYMENTS,
            {"selector": None},
            [
                "spec.selector: Required value",
                (
                    'spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` '
                    "does not match template `labels`"
                ),
            ],
        ),
        (
            DEPLOYMENTS,
            {"selector": {}},
            ["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
        ),
        (
            DEPLOYMENTS,
            {"selector": {"matchLabels": {"a": "c"}}},
            [
                (
                    'spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` '
                    "does not match template `labels`"
                )
            ],
        ),
        (
            DEPLOYMENTS,
            {"selector": {"matchLabels": {"a b": "c d"}}},
            [
                f'spec.selector.matchLabels: Invalid value: "a b": {KEY}',
                f'spec.selector.matchLabels: Invalid value: "c d": {VALUE}',
                (
                    'spec.selector: Invalid value: {"matchLabels":{"a b":"c d"}}: invalid '
                    "label selector"
                ),
            ],
        ),
        (
            DEPLOYMENTS,
            {"selector": {"matchExpressions": [{"key": "a", "operator": "X"}]}},
            [
                (
                    'spec.selector.matchExpressions[0].operator: Invalid value: "X": not a '
                    "valid selector operator"
                ),
                (
                    "spec.selector: Invalid value: "
                    '{"matchExpressions":[{"key":"a","operator":"X"}]}: invalid label '
                    "selector"
                ),
            ],
        ),
        (
            DEPLOYMENTS,
            {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            [
                (
                    "spec.selector.matchExpressions[0].values: Required value: must be "
                    "specified when `operator` is 'In' or 'NotIn'"
                ),
                (
                    "spec.selector: Invalid value: "
                    '{"matchExpressions":[{"key":"a","operator":"In"}]}: invalid label '
                    "selector"
                ),
            ],
        ),
        (
            DEPLOYMENTS,
            {"template": template(restartPolicy="Never", activeDeadlineSeconds=4)},
            [
                (
                    'spec.template.spec.restartPolicy: Unsupported value: "Never": supported '
                    'values: "Always"'
                ),
                (
                    "spec.template.spec.activeDeadlineSeconds: Forbidden: "
                    "activeDeadlineSeconds in ReplicaSet is not Supported"
                ),
            ],
        ),
        (
            DEPLOYMENTS,
            {"template": template(containers=[])},
            ["spec.template.spec.containers: Required value"],
        ),
        (
            DEPLOYMENTS,
            {"replicas": -1, "minReadySeconds": -1, "revisionHistoryLimit": -1},
            [
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
                "spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
        (
            DEPLOYMENTS,
            {"progressDeadlineSeconds": 5, "minReadySeconds": 5},
            [
                (
                    "spec.progressDeadlineSeconds: Invalid value: 5: must be greater than "
                    "minReadySeconds"
                )
            ],
        ),
        (
            DEPLOYMENTS,
            {"strategy": {"type": "X"}},
            [
                (
                    "spec.strategy: Unsupported value: "
                    '{"Type":"X","RollingUpdate":null}: supported values: "Recreate", '
                    '"RollingUpdate"'
                )
            ],
        ),
        (
            DEPLOYMENTS,
            {"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}},
            [
                (
                    "spec.strategy.rollingUpdate: Forbidden: may not be specified when "
                    "strategy `type` is 'Recreate'"
                )
            ],
        ),
        (
            DEPLOYMENTS,
            {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}},
            [
                (
                    "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not "
                    "be 0 when `maxSurge` is 0"
                )
            ],
        ),
        (
            DEPLOYMENTS,
            {"strategy": {"rollingUpdate": {"maxSurge": "x", "maxUnavailable": "200%"}}},
            [
                f'spec.strategy.rollingUpdate.maxSurge: Invalid value: "x": {PERCENT}',
                (
                    'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "200%": must '
                    "not be greater than 100%"
                ),
            ],
        ),
        (
            REPLICA_SETS,
            {"selector": {"matchLabels": {"a": "c"}}, "replicas": -1},
            [
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                (
                    'spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` '
                    "does not match template `labels`"
                ),
            ],
        ),
        (
            DAEMON_SETS,
            {"selector": {}},
            ["spec.selector: Invalid value: {}: empty selector is invalid for daemonset"],
        ),
        (
            DAEMON_SETS,
            {"updateStrategy": {"type": "X"}},
            [
                (
                    "spec.updateStrategy: Unsupported value: "
                    '{"Type":"X","RollingUpdate":null}: supported values: '
                    '"RollingUpdate", "OnDelete"'
                )
            ],
        ),
        (
            DAEMON_SETS,
            {"updateStrategy": {"rollingUpdate": {"maxSurge": 1}}},
            [
                (
                    "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not "
                    "be set when maxUnavailable is non-zero"
                )
            ],
        ),
        (
            DAEMON_SETS,
            {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}},
            [
                (
                    "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: "
                    "cannot be 0 when maxSurge is 0"
                )
            ],
        ),
        (
            STATEFUL_SETS,
            {"serviceName": "A", "podManagementPolicy": "X", "updateStrategy": {"type": "X"}},
            [
                (
                    "spec.podManagementPolicy: Invalid value: \"X\": must be 'OrderedReady' "
                    "or 'Parallel'"
                ),
                (
                    "spec.updateStrategy: Invalid value: "
                    '{"Type":"X","RollingUpdate":null}: must be \'RollingUpdate\' or '
                    "'OnDelete'"
                ),
                f'spec.serviceName: Invalid value: "A": {LABEL}',
            ],
        ),
        (
            STATEFUL_SETS,
            {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {}}},
            [
                (
                    "spec.updateStrategy.rollingUpdate: Invalid value: "
                    '{"Partition":0,"MaxUnavailable":null}: only '
                    "allowed for updateStrategy 'RollingUpdate'"
                )
            ],
        ),
        (
            STATEFUL_SETS,
            {"updateStrategy": {"rollingUpdate": {"partition": -1}}},
            [
                (
                    "spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be "
                    "greater than or equal to 0"
                )
            ],
        ),
        (
            STATEFUL_SETS,
            {"ordinals": {"start": -1}},
            ["spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            STATEFUL_SETS,
            {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "X"}},
            [
                (
                    "spec.persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported "
                    'value: "X": supported values: '
                    '"Retain", "Delete"'
                )
            ],
        ),
        (
            STATEFUL_SETS,
            {"volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": {}}]},
            [
                (
                    "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least "
                    "1 access mode is required"
                ),
                "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value",
            ],
        ),
    ],
)
def test_refused(judge, kind, spec, wrong):
    assert judge.create(kind, workload(**spec)) == wrong


def test_claim_templates_are_template_volumes(judge):
    mounted = template(
        containers=[{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]
    )
    made = judge.made(STATEFUL_SETS, workload(template=mounted, volumeClaimTemplates=[CLAIM]))
    assert made["spec"]["volumeClaimTemplates"] == [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "v"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "volumeMode": "Filesystem",
            },
            "status": {"phase": "Pending"},
        }
    ]


@pytest.mark.parametrize(
    ("kind", "spec", "wrong"),
    [
        (DEPLOYMENTS, {"replicas": 3}, []),
        (
            DEPLOYMENTS,
            {"selector": {"matchLabels": {"z": "y", "a": "c"}}},
            [
                (
                    'spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` '
                    "does not match template `labels`"
                ),
                (
                    'spec.selector: Invalid value: {"matchLabels":{"a":"c","z":"y"}}: field '
                    "is immutable"
                ),
            ],
        ),
        (
            DEPLOYMENTS,
            {
                "selector": {"matchLabels": {"a": "c"}},
                "template": {"metadata": {"labels": {"a": "c"}}},
            },
            ['spec.selector: Invalid value: {"matchLabels":{"a":"c"}}: field is immutable'],
        ),
        (
            DEPLOYMENTS,
            {"selector": None},
            [
                "spec.selector: Required value",
                (
                    'spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` '
                    "does not match template `labels`"
                ),
                "spec.selector: Invalid value: null: field is immutable",
            ],
        ),
        (DEPLOYMENTS, {"template": {"spec": {"nodeName": "n"}}}, []),
        (
            REPLICA_SETS,
            {
                "selector": {"matchLabels": {"a": "c"}},
                "template": {"metadata": {"labels": {"a": "c"}}},
            },
            ['spec.selector: Invalid value: {"matchLabels":{"a":"c"}}: field is immutable'],
        ),
        (
            DAEMON_SETS,
            {
                "selector": {"matchLabels": {"a": "c"}},
                "template": {"metadata": {"labels": {"a": "c"}}},
            },
            ['spec.selector: Invalid value: {"matchLabels":{"a":"c"}}: field is immutable'],
        ),
        (
            STATEFUL_SETS,
            {"replicas": 3, "template": {"spec": {"nodeName": "n"}}, "minReadySeconds": 3},
            [],
        ),
        (
            STATEFUL_SETS,
            {"serviceName": "q"},
            [
                (
                    "spec: Forbidden: updates to statefulset spec for fields other than "
                    "'replicas', 'ordinals', "
                    "'template', 'updateStrategy', 'revisionHistoryLimit', "
                    "'persistentVolumeClaimRetentionPolicy' and "
                    "'minReadySeconds' are forbidden"
                )
            ],
        ),
        (
            STATEFUL_SETS,
            {"podManagementPolicy": "Parallel"},
            [
                (
                    "spec: Forbidden: updates to statefulset spec for fields other than "
                    "'replicas', 'ordinals', "
                    "'template', 'updateStrategy', 'revisionHistoryLimit', "
                    "'persistentVolumeClaimRetentionPolicy' and "
                    "'minReadySeconds' are forbidden"
                )
            ],
        ),
    ],
)
def test_changes(judge, kind, spec, wrong):
    judge.made(kind, workload())
    assert judge.change(kind, "w", {"spec": spec}) == wrong


@pytest.mark.parametrize(
    ("kind", "patch", "generation"),
    [
        (DEPLOYMENTS, {"spec": {"replicas": 3}}, 2),
        (DEPLOYMENTS, {"metadata": {"annotations": {"a": "b"}}}, 2),
        (DEPLOYMENTS, {"metadata": {"labels": {"a": "b"}}}, 1),
        (DEPLOYMENTS, {"status": {"replicas": 3}}, 1),
        (REPLICA_SETS, {"metadata": {"annotations": {"a": "b"}}}, 1),
        (REPLICA_SETS, {"spec": {"replicas": 3}}, 2),
        (DAEMON_SETS, {"spec": {"minReadySeconds": 3}}, 2),
        (STATEFUL_SETS, {"spec": {"replicas": 1}}, 1),
    ],
)
def test_generations(judge, kind, patch, generation):
    judge.made(kind, workload())
    assert judge.changed(kind, "w", patch)["metadata"]["generation"] == generation


def test_daemon_set_template_generation_annotation(judge):
    note = "deprecated.daemonset.template.generation"
    assert judge.made(DAEMON_SETS, workload())["metadata"]["annotations"] == {note: "1"}
    assert judge.changed(DAEMON_SETS, "w", {"spec": {"minReadySeconds": 3}})["metadata"][
        "annotations"
    ] == {note: "1"}
    patch = {"spec": {"template": {"metadata": {"annotations": {"x": "y"}}}}}
    assert judge.changed(DAEMON_SETS, "w", patch)["metadata"]["annotations"] == {note: "2"}


@pytest.mark.parametrize(
    ("kind", "status", "wrong"),
    [
        (
            DEPLOYMENTS,
            {"replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "collisionCount": 3},
            [],
        ),
        (
            DEPLOYMENTS,
            {"replicas": -1, "readyReplicas": 2, "availableReplicas": 3},
            [
                "status.replicas: Invalid value: -1: must be greater than or equal to 0",
                "status.updatedReplicas: Invalid value: 0: cannot be greater than status.replicas",
                "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
                (
                    "status.availableReplicas: Invalid value: 3: cannot be greater than "
                    "status.replicas"
                ),
                "status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas",
            ],
        ),
        (
            DEPLOYMENTS,
            {"collisionCount": 1},
            ["status.collisionCount: Invalid value: 1: cannot be decremented"],
        ),
        (
            REPLICA_SETS,
            {"replicas": 1, "readyReplicas": 2},
            ["status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"],
        ),
        (
            STATEFUL_SETS,
            {"replicas": 1, "currentReplicas": 2, "observedGeneration": -1},
            [
                "status.observedGeneration: Invalid value: -1: must be greater than or equal to 0",
                "status.currentReplicas: Invalid value: 2: cannot be greater than status.replicas",
            ],
        ),
        (
            DAEMON_SETS,
            {"numberReady": -1},
            ["status.numberReady: Invalid value: -1: must be greater than or equal to 0"],
        ),
    ],
)
def test_status(judge, kind, status, wrong):
    judge.made(kind, workload())
    if "collisionCount" in status:
        judge.changed(kind, "w", {"status": {"collisionCount": 2}}, "status")
    assert judge.change(kind, "w", {"status": status}, "status") == wrong


def test_deployment_status_write_ignores_labels(judge):
    judge.made(DEPLOYMENTS, workload())
    patch = {
        "metadata": {"labels": {"x": "y"}, "annotations": {"x": "y"}},
        "spec": {"replicas": 9},
        "status": {"replicas": 1},
    }
    after = judge.changed(DEPLOYMENTS, "w", patch, "status")
    assert (
        after["spec"]["replicas"],
        after["status"]["replicas"],
        after["metadata"]["generation"],
    ) == (1, 1, 1)
    assert "labels" not in after["metadata"]
    assert after["metadata"]["annotations"] == {"x": "y"}


def test_replication_controller_defaults_from_template(judge):
    made = judge.made(CONTROLLERS, {"metadata": {"name": "r"}, "spec": {"template": template()}})
    assert (made["metadata"]["labels"], made["spec"]["selector"], made["spec"]["replicas"]) == (
        {"a": "b"},
        {"a": "b"},
        1,
    )


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({}, ["spec.selector: Required value", "spec.template: Required value"]),
        (
            {"selector": {"a": "c"}, "template": template(), "replicas": -1},
            [
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                (
                    'spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` '
                    "does not match template `labels`"
                ),
            ],
        ),
        (
            {"template": template(restartPolicy="Never")},
            [
                (
                    'spec.template.spec.restartPolicy: Unsupported value: "Never": supported '
                    'values: "Always"'
                )
            ],
        ),
    ],
)
def test_replication_controllers_refused(judge, spec, wrong):
    assert judge.create(CONTROLLERS, {"metadata": {"name": "r"}, "spec": spec}) == wrong


def test_revision_data_is_immutable(judge):
    judge.made(CONTROLLER_REVISIONS, {"metadata": {"name": "r"}, "revision": 1, "data": {"a": 1}})
    assert judge.change(CONTROLLER_REVISIONS, "r", {"revision": 2}) == []
    assert judge.change(CONTROLLER_REVISIONS, "r", {"data": {"a": 2}}) == [
        'data: Invalid value: {"a":2}: field is immutable'
    ]
