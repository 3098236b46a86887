import pytest

from pytest_kscen.objects.resources import PODS

QUIET = ("terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy", "resources")


def pod(metadata=None, **spec):
    given = {
        "automountServiceAccountToken": False,
        "serviceAccountName": "default",
        "containers": [{"name": "c", "image": "i"}],
    }
    return {"metadata": {"name": "p", **(metadata or {})}, "spec": {**given, **spec}}


def container(**more):
    return pod(containers=[{"name": "c", "image": "i", **more}])


def test_pod_defaults(judge):
    made = judge.made(PODS, pod())
    spec = made["spec"]
    assert {
        name: spec[name]
        for name in spec
        if name not in {"tolerations", "priority", "preemptionPolicy"}
    } == {
        "automountServiceAccountToken": False,
        "containers": [
            {
                "name": "c",
                "image": "i",
                "imagePullPolicy": "Always",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "serviceAccount": "default",
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 30,
    }
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.27", "IfNotPresent"),
        ("registry:5000/nginx", "Always"),
        ("registry:5000/nginx:1.27", "IfNotPresent"),
        (f"nginx:latest@sha256:{'0' * 64}", "Always"),
        (f"nginx@sha256:{'0' * 64}", "IfNotPresent"),
        ("NGINX:1.27", "IfNotPresent"),
    ],
)
def test_pull_policy_follows_image_tag(judge, image, policy):
    assert (
        judge.made(PODS, container(image=image))["spec"]["containers"][0]["imagePullPolicy"]
        == policy
    )


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        ({"ports": [{"containerPort": 80}]}, {"ports": [{"containerPort": 80, "protocol": "TCP"}]}),
        (
            {"livenessProbe": {"httpGet": {"port": 80}}},
            {
                "livenessProbe": {
                    "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
                    "timeoutSeconds": 1,
                    "periodSeconds": 10,
                    "successThreshold": 1,
                    "failureThreshold": 3,
                }
            },
        ),
        (
            {"readinessProbe": {"exec": {"command": ["a"]}, "periodSeconds": 0}},
            {
                "readinessProbe": {
                    "exec": {"command": ["a"]},
                    "timeoutSeconds": 1,
                    "periodSeconds": 10,
                    "successThreshold": 1,
                    "failureThreshold": 3,
                }
            },
        ),
        (
            {"startupProbe": {"grpc": {"port": 80}, "failureThreshold": 9}},
            {
                "startupProbe": {
                    "grpc": {"port": 80, "service": ""},
                    "timeoutSeconds": 1,
                    "periodSeconds": 10,
                    "successThreshold": 1,
                    "failureThreshold": 9,
                }
            },
        ),
        (
            {
                "lifecycle": {
                    "preStop": {"httpGet": {"port": "http"}},
                    "postStart": {"sleep": {"seconds": 3}},
                }
            },
            {
                "lifecycle": {
                    "postStart": {"sleep": {"seconds": 3}},
                    "preStop": {"httpGet": {"path": "/", "port": "http", "scheme": "HTTP"}},
                }
            },
        ),
        ({"lifecycle": {"stopSignal": "SIGTERM"}}, {}),
        (
            {
                "env": [
                    {"name": "A", "value": ""},
                    {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                ]
            },
            {
                "env": [
                    {"name": "A"},
                    {
                        "name": "B",
                        "valueFrom": {
                            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}
                        },
                    },
                ]
            },
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]},
            {
                "env": [
                    {
                        "name": "A",
                        "valueFrom": {
                            "resourceFieldRef": {"resource": "limits.cpu", "divisor": "0"}
                        },
                    }
                ]
            },
        ),
    ],
)
def test_container_defaults(judge, given, filled):
    made = judge.made(PODS, container(**given))["spec"]["containers"][0]
    assert {
        name: value for name, value in made.items() if name not in {"name", "image", *QUIET}
    } == filled


@pytest.mark.parametrize(
    ("given", "filled", "quality"),
    [
        ({}, {}, "BestEffort"),
        ({"requests": {"cpu": "0.1"}}, {"requests": {"cpu": "100m"}}, "Burstable"),
        (
            {"requests": {"cpu": 1, "memory": "1024Mi"}},
            {"requests": {"cpu": "1", "memory": "1Gi"}},
            "Burstable",
        ),
        (
            {"limits": {"cpu": "1500m"}},
            {"limits": {"cpu": "1500m"}, "requests": {"cpu": "1500m"}},
            "Burstable",
        ),
        (
            {"limits": {"cpu": "1", "memory": "1Gi"}},
            {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}},
            "Guaranteed",
        ),
        (
            {
                "limits": {"cpu": "1", "memory": "1Gi"},
                "requests": {"cpu": "1000m", "memory": "1024Mi"},
            },
            {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}},
            "Guaranteed",
        ),
        (
            {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
            {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}},
            "Burstable",
        ),
        ({"requests": {"cpu": "0.0001"}}, {"requests": {"cpu": "1m"}}, "Burstable"),
        ({"requests": {"cpu": "0"}}, {"requests": {"cpu": "0"}}, "BestEffort"),
        (
            {"limits": {"example.com/gpu": "2"}},
            {"limits": {"example.com/gpu": "2"}, "requests": {"example.com/gpu": "2"}},
            "BestEffort",
        ),
    ],
)
def test_resources(judge, given, filled, quality):
    made = judge.made(PODS, container(resources=given))
    assert made["spec"]["containers"][0]["resources"] == filled
    assert made["status"]["qosClass"] == quality


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        (
            {"limits": {"cpu": "2", "memory": "1Gi"}},
            (
                {
                    "limits": {"cpu": "2", "memory": "1Gi"},
                    "requests": {"cpu": "100m", "memory": "1Gi"},
                },
                "Burstable",
            ),
        ),
        ({"requests": {"cpu": "2"}}, ({"requests": {"cpu": "2"}}, "Burstable")),
    ],
)
def test_pod_level_resources(judge, given, filled):
    own = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]
    made = judge.made(PODS, pod(resources=given, containers=own))
    assert (made["spec"]["resources"], made["status"]["qosClass"]) == filled


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        ({}, {"emptyDir": {}}),
        ({"hostPath": {"path": "/a"}}, {"hostPath": {"path": "/a", "type": ""}}),
        ({"secret": {"secretName": "s"}}, {"secret": {"secretName": "s", "defaultMode": 420}}),
        (
            {"configMap": {"name": "m", "items": [{"key": "a", "path": "b"}]}},
            {"configMap": {"name": "m", "items": [{"key": "a", "path": "b"}], "defaultMode": 420}},
        ),
        (
            {
                "downwardAPI": {
                    "items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.labels"}}]
                }
            },
            {
                "downwardAPI": {
                    "items": [
                        {
                            "path": "a",
                            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels"},
                        }
                    ],
                    "defaultMode": 420,
                }
            },
        ),
        (
            {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            {
                "projected": {
                    "sources": [{"serviceAccountToken": {"expirationSeconds": 3600, "path": "t"}}],
                    "defaultMode": 420,
                }
            },
        ),
        (
            {"projected": {"sources": [{"clusterTrustBundle": {"name": "b", "path": "p"}}]}},
            {"projected": {"sources": [{}], "defaultMode": 420}},
        ),
        (
            {"persistentVolumeClaim": {"claimName": "c"}},
            {"persistentVolumeClaim": {"claimName": "c"}},
        ),
        (
            {
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "spec": {
                            "resources": {"requests": {"storage": "1024Mi"}},
                            "accessModes": ["ReadWriteOnce"],
                        }
                    }
                }
            },
            {
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "metadata": {},
                        "spec": {
                            "accessModes": ["ReadWriteOnce"],
                            "resources": {"requests": {"storage": "1Gi"}},
                            "volumeMode": "Filesystem",
                        },
                    }
                }
            },
        ),
        ({"image": {"reference": "a"}}, {"image": {"reference": "a", "pullPolicy": "Always"}}),
        (
            {"iscsi": {"targetPortal": "a", "iqn": "iqn.2001-04.com.example:a", "lun": 0}},
            {
                "iscsi": {
                    "targetPortal": "a",
                    "iqn": "iqn.2001-04.com.example:a",
                    "lun": 0,
                    "iscsiInterface": "default",
                }
            },
        ),
        (
            {"rbd": {"monitors": ["m"], "image": "i"}},
            {
                "rbd": {
                    "monitors": ["m"],
                    "image": "i",
                    "pool": "rbd",
                    "user": "admin",
                    "keyring": "/etc/ceph/keyring",
                }
            },
        ),
        (
            {"azureDisk": {"diskName": "d", "diskURI": "https://blob/a"}},
            {
                "azureDisk": {
                    "diskName": "d",
                    "diskURI": "https://blob/a",
                    "cachingMode": "ReadWrite",
                    "fsType": "ext4",
                    "readOnly": False,
                    "kind": "Shared",
                }
            },
        ),
        (
            {
                "scaleIO": {
                    "gateway": "g",
                    "system": "s",
                    "secretRef": {"name": "n"},
                    "volumeName": "v",
                }
            },
            {
                "scaleIO": {
                    "gateway": "g",
                    "system": "s",
                    "secretRef": {"name": "n"},
                    "storageMode": "ThinProvisioned",
                    "volumeName": "v",
                    "fsType": "xfs",
                }
            },
        ),
    ],
)
def test_volumes(judge, given, filled):
    made = judge.made(PODS, pod(volumes=[{"name": "v", **given}]))["spec"]["volumes"][0]
    assert {name: value for name, value in made.items() if name != "name"} == filled


@pytest.mark.parametrize(
    ("given", "field", "filled"),
    [
        ({"terminationGracePeriodSeconds": -5}, "terminationGracePeriodSeconds", 1),
        ({"terminationGracePeriodSeconds": 0}, "terminationGracePeriodSeconds", 0),
        ({"serviceAccountName": "", "serviceAccount": "default"}, "serviceAccountName", "default"),
        ({"enableServiceLinks": False}, "enableServiceLinks", False),
        ({"shareProcessNamespace": False}, "shareProcessNamespace", False),
        ({"securityContext": {"fsGroup": 0}}, "securityContext", {"fsGroup": 0}),
        (
            {"overhead": None, "dnsConfig": {"options": [{"name": "a"}]}},
            "dnsConfig",
            {"options": [{"name": "a"}]},
        ),
    ],
)
def test_other_fields(judge, given, field, filled):
    assert judge.made(PODS, pod(**given))["spec"][field] == filled


def test_host_network_sets_host_ports(judge):
    given = [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]
    made = judge.made(PODS, pod(hostNetwork=True, containers=given))
    assert made["spec"]["containers"][0]["ports"] == [
        {"containerPort": 80, "hostPort": 80, "protocol": "TCP"}
    ]


def test_gated_pod_has_unscheduled_condition(judge):
    made = judge.made(PODS, pod(schedulingGates=[{"name": "example.com/gate"}]))
    assert made["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": None,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ]


@pytest.mark.parametrize(
    ("keys", "joined"),
    [
        (
            {"matchLabelKeys": ["app"]},
            {
                "matchLabels": {"a": "b"},
                "matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}],
            },
        ),
        (
            {"mismatchLabelKeys": ["app"]},
            {
                "matchLabels": {"a": "b"},
                "matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}],
            },
        ),
        ({"matchLabelKeys": ["other"]}, {"matchLabels": {"a": "b"}}),
    ],
)
def test_match_label_keys_become_terms(judge, keys, joined):
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}, **keys}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    made = judge.made(PODS, pod({"labels": {"app": "x"}}, affinity=anti))
    terms = made["spec"]["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert terms[0]["labelSelector"] == joined


def test_profile_annotations_become_fields(judge):
    note = {"container.apparmor.security.beta.kubernetes.io/c": "localhost/strict"}
    made = judge.made(PODS, pod({"annotations": note}))
    profile = {"appArmorProfile": {"type": "Localhost", "localhostProfile": "strict"}}
    assert made["spec"]["containers"][0]["securityContext"] == profile
