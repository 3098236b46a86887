import pytest

from pytest_kscen.objects.resources import (
    CRON_JOBS,
    DEPLOYMENTS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    RESOURCE_QUOTAS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)

INGRESSES = Resource("networking.k8s.io", "v1", "ingresses", "Ingress")
CONTAINERS = [{"name": "c", "image": "i"}]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PORTS = [{"port": 80}]


def named(annotations=None, **content):
    return {
        "metadata": {"name": "rules-x", **({"annotations": annotations} if annotations else {})},
        **content,
    }


def container(**more):
    return [{**CONTAINERS[0], **more}]


def warnings_of(judge, resource, body):
    judge.made(resource, body)
    return judge.warnings


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, []),
        (
            {"nodeSelector": {"beta.kubernetes.io/os": "linux"}},
            [
                (
                    "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "
                    '"kubernetes.io/os" instead'
                )
            ],
        ),
        (
            {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "a"}]}}},
            [
                (
                    "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: "
                    "a null "
                    "labelSelector results in matching no pod"
                )
            ],
        ),
        (
            {
                "topologySpreadConstraints": [
                    {
                        "maxSkew": 1,
                        "topologyKey": "failure-domain.beta.kubernetes.io/zone",
                        "whenUnsatisfiable": "DoNotSchedule",
                    }
                ]
            },
            [
                (
                    "spec.topologySpreadConstraints[0].topologyKey: "
                    "failure-domain.beta.kubernetes.io/zone is deprecated "
                    'since v1.17; use "topology.kubernetes.io/zone" instead'
                ),
                (
                    "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector "
                    "results in matching no pod"
                ),
            ],
        ),
        (
            {"volumes": [{"name": "v", "gitRepo": {"repository": "x"}}]},
            ["spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"],
        ),
        (
            {
                "volumes": [
                    {
                        "name": "v",
                        "configMap": {
                            "name": "m",
                            "items": [{"key": "a", "path": "p"}, {"key": "b", "path": "p/q"}],
                        },
                    }
                ]
            },
            ['volume "v" (ConfigMap "m"): overlapping paths: "p/q" with "p"'],
        ),
        (
            {
                "hostAliases": [{"ip": "1.2.3.4"}] * 2,
                "imagePullSecrets": [{"name": "a"}, {"name": "a"}, {}],
            },
            [
                'spec.hostAliases[1].ip: duplicate ip "1.2.3.4"',
                'spec.imagePullSecrets[1].name: duplicate name "a"',
                'spec.imagePullSecrets[2].name: invalid empty name ""',
            ],
        ),
        (
            {"containers": container(resources={"requests": {"memory": "100m"}})},
            [
                (
                    "spec.containers[0].resources.requests[memory]: fractional byte value "
                    '"100m" is invalid, must be an integer'
                )
            ],
        ),
        (
            {
                "containers": container(
                    env=[
                        {"name": "A", "value": "1"},
                        {"name": "A", "value": "2"},
                        {"name": "A", "value": "$(A)3"},
                    ]
                )
            },
            [
                (
                    'spec.containers[0].env[1]: hides previous definition of "A", which may '
                    "be dropped when using apply"
                )
            ],
        ),
        (
            {
                "containers": container(
                    ports=[
                        {"containerPort": 80},
                        {"containerPort": 80, "hostPort": 5},
                        {"containerPort": 80},
                    ]
                )
            },
            [
                (
                    "spec.containers[0].ports[1]: overlapping port definition with "
                    "spec.containers[0].ports[0]"
                ),
                (
                    "spec.containers[0].ports[2]: duplicate port definition with "
                    "spec.containers[0].ports[0]"
                ),
                (
                    "spec.containers[0].ports[2]: overlapping port definition with "
                    "spec.containers[0].ports[1]"
                ),
            ],
        ),
    ],
)
def test_pods_and_templates(judge, spec, words):
    metadata = {"labels": {"a": "b"}}
    given = {
        "automountServiceAccountToken": False,
        "serviceAccountName": "default",
        "containers": CONTAINERS,
        **spec,
    }
    assert warnings_of(judge, PODS, named(spec=given)) == words
    template = {"metadata": metadata, "spec": given}
    workload = named(spec={"selector": {"matchLabels": {"a": "b"}}, "template": template})
    in_a_template = [
        line if line.startswith("volume ") else f"spec.template.{line}" for line in words
    ]
    fix = [line.replace(" with spec.", " with spec.template.spec.") for line in in_a_template]
    assert warnings_of(judge, DEPLOYMENTS, workload) == fix


@pytest.mark.parametrize(
    ("resource", "body", "words"),
    [
        (
            SERVICES,
            named(
                spec={
                    "clusterIP": "None",
                    "sessionAffinity": "ClientIP",
                    "externalIPs": ["1.2.3.4"],
                    "ports": PORTS,
                }
            ),
            [
                "spec.externalIPs is ignored for headless services",
                "spec.SessionAffinity is ignored for headless services",
            ],
        ),
        (
            SERVICES,
            named(spec={"externalName": "a.b", "externalIPs": ["1.2.3.4"], "ports": PORTS}),
            [
                "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
                'spec.externalName is ignored when spec.type is not "ExternalName"',
            ],
        ),
        (
            SERVICES,
            named(spec={"trafficDistribution": "PreferClose", "ports": PORTS}),
            ['spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'],
        ),
        (
            INGRESSES,
            named(
                {"kubernetes.io/ingress.class": "q"},
                spec={"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}},
            ),
            [
                (
                    'annotation "kubernetes.io/ingress.class" is deprecated, please use '
                    "'spec.ingressClassName' instead"
                )
            ],
        ),
        (
            RESOURCE_QUOTAS,
            named(spec={"hard": {"cpu": "3", "limits.cpu": "2"}}),
            ["ResourceQuota cpu (3) should be less than limits.cpu (2)"],
        ),
        (
            PERSISTENT_VOLUMES,
            named(
                {"volume.beta.kubernetes.io/storage-class": "q"},
                spec={
                    "capacity": {"storage": "1"},
                    "accessModes": ["ReadWriteOnce"],
                    "persistentVolumeReclaimPolicy": "Recycle",
                    "hostPath": {"path": "/a"},
                },
            ),
            [
                (
                    "metadata.annotations[volume.beta.kubernetes.io/storage-class]: "
                    "deprecated since v1.8; use "
                    '"storageClassName" attribute instead'
                ),
                (
                    "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is "
                    "deprecated. Instead, the "
                    "recommended approach is to use dynamic provisioning."
                ),
            ],
        ),
        (
            PERSISTENT_VOLUME_CLAIMS,
            named(
                spec={
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "0.5"}},
                }
            ),
            [
                (
                    'spec.resources.requests[storage]: fractional byte value "500m" is '
                    "invalid, must be an integer"
                )
            ],
        ),
        (
            STATEFUL_SETS,
            named(
                spec={
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": {
                        "metadata": {"labels": {"a": "b"}},
                        "spec": {"containers": CONTAINERS},
                    },
                    "revisionHistoryLimit": -1,
                }
            ),
            [
                (
                    "spec.revisionHistoryLimit: a negative value retains all historical "
                    "revisions; a value >= 0 is recommended"
                )
            ],
        ),
    ],
)
def test_other_kinds(judge, resource, body, words):
    assert warnings_of(judge, resource, body) == words


def test_name_that_is_no_hostname_is_warned_of(judge):
    given = {"containers": CONTAINERS}
    (word,) = warnings_of(judge, PODS, {"metadata": {"name": "a.b"}, "spec": given})
    assert word.startswith("metadata.name: this is used in the Pod's hostname")
    job = {"template": {"spec": {**given, "restartPolicy": "Never"}}}
    (word,) = warnings_of(
        judge,
        CRON_JOBS,
        {"metadata": {"name": "a.b"}, "spec": {"schedule": "@daily", "jobTemplate": {"spec": job}}},
    )
    assert word.startswith("metadata.name: this is used in Pod names and hostnames")


def test_pod_update_repeats_no_warnings(judge):
    judge.made(
        PODS,
        named(spec={"containers": CONTAINERS, "nodeSelector": {"beta.kubernetes.io/os": "linux"}}),
    )
    judge.changed(PODS, "rules-x", {"metadata": {"labels": {"a": "b"}}})
    assert judge.warnings == []
