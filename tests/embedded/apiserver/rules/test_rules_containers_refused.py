import pytest

from pytest_kscen.objects import names
from pytest_kscen.objects.resources import PODS

LABEL, SUBDOMAIN = names.dns1123_label("-")[0], names.dns1123_subdomain("-")[0]
CONFIG_KEY, ENV = names.config_key("a b")[0], names.env_var("=")[0]


def pod(metadata=None, **spec):
    given = {
        "automountServiceAccountToken": False,
        "serviceAccountName": "default",
        "containers": [{"name": "c", "image": "i"}],
    }
    return {"metadata": {"name": "p", **(metadata or {})}, "spec": {**given, **spec}}


def container(name="c", **more):
    return {"name": name, "image": "i", **more}


@pytest.mark.parametrize(
    ("containers", "wrong"),
    [
        ([], ["spec.containers: Required value"]),
        (
            [{"name": ""}],
            ["spec.containers[0].name: Required value", "spec.containers[0].image: Required value"],
        ),
        ([container("A")], [f'spec.containers[0].name: Invalid value: "A": {LABEL}']),
        ([container("a"), container("a")], ['spec.containers[1].name: Duplicate value: "a"']),
        (
            [container(image=" i ")],
            [
                (
                    'spec.containers[0].image: Invalid value: " i ": must not have leading '
                    "or trailing whitespace"
                )
            ],
        ),
        (
            [container(imagePullPolicy="X", terminationMessagePolicy="Y")],
            [
                (
                    "spec.containers[0].terminationMessagePolicy: Unsupported value: "
                    '"Y": supported values: "File", '
                    '"FallbackToLogsOnError"'
                ),
                (
                    'spec.containers[0].imagePullPolicy: Unsupported value: "X": supported '
                    'values: "Always", "IfNotPresent", "Never"'
                ),
            ],
        ),
        (
            [
                container(
                    ports=[
                        {"containerPort": 0},
                        {"containerPort": 70000, "protocol": "x", "name": "A"},
                    ]
                )
            ],
            [
                "spec.containers[0].ports[0].containerPort: Required value",
                (
                    'spec.containers[0].ports[1].name: Invalid value: "A": must contain '
                    "only alpha-numeric characters "
                    "(a-z, 0-9), and hyphens (-)"
                ),
                (
                    'spec.containers[0].ports[1].name: Invalid value: "A": must contain at '
                    "least one letter (a-z)"
                ),
                (
                    "spec.containers[0].ports[1].containerPort: Invalid value: 70000: must "
                    "be between 1 and 65535, inclusive"
                ),
                (
                    'spec.containers[0].ports[1].protocol: Unsupported value: "x": supported '
                    'values: "SCTP", "TCP", "UDP"'
                ),
            ],
        ),
        (
            [
                container(
                    ports=[{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]
                )
            ],
            ['spec.containers[0].ports[1].name: Duplicate value: "a"'],
        ),
        (
            [
                container(
                    ports=[{"containerPort": 1, "hostPort": 1}, {"containerPort": 2, "hostPort": 1}]
                )
            ],
            ['spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//1"'],
        ),
        (
            [container(env=[{"name": ""}, {"name": "a=b"}])],
            [
                "spec.containers[0].env[0].name: Required value",
                f'spec.containers[0].env[1].name: Invalid value: "a=b": {ENV}',
            ],
        ),
        (
            [
                container(
                    env=[
                        {
                            "name": "A",
                            "value": "x",
                            "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
                        }
                    ]
                )
            ],
            [
                (
                    'spec.containers[0].env[0].valueFrom: Invalid value: "": may not be '
                    "specified when `value` is not empty"
                )
            ],
        ),
        (
            [container(env=[{"name": "A", "valueFrom": {}}])],
            [
                (
                    'spec.containers[0].env[0].valueFrom: Invalid value: "": must '
                    "specify one of: `fieldRef`, "
                    "`resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
                )
            ],
        ),
        (
            [container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.foo"}}}])],
            [
                (
                    "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid "
                    'value: "spec.foo": error converting '
                    "fieldPath: field label not supported: spec.foo"
                )
            ],
        ),
        (
            [
                container(
                    env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}}]
                )
            ],
            [
                (
                    "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported "
                    'value: "status.phase": '
                    'supported values: "metadata.name", "metadata.namespace", '
                    '"metadata.uid", "spec.nodeName", '
                    '"spec.serviceAccountName", "status.hostIP", "status.hostIPs", '
                    '"status.podIP", "status.podIPs"'
                )
            ],
        ),
        (
            [
                container(
                    env=[
                        {
                            "name": "A",
                            "valueFrom": {
                                "resourceFieldRef": {"resource": "limits.cpu", "divisor": "3m"}
                            },
                        }
                    ]
                )
            ],
            [
                (
                    "spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor: "
                    'Invalid value: "limits.cpu": only '
                    "divisor's values 1m and 1 are supported with the cpu resource"
                )
            ],
        ),
        (
            [
                container(
                    env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "", "key": "../x"}}}]
                )
            ],
            [
                (
                    "spec.containers[0].env[0].valueFrom.secretKeyRef.name: Invalid value: "
                    f'"": {SUBDOMAIN}'
                ),
                (
                    "spec.containers[0].env[0].valueFrom.secretKeyRef.key: Invalid value: "
                    f'"../x": {CONFIG_KEY}'
                ),
                (
                    "spec.containers[0].env[0].valueFrom.secretKeyRef.key: Invalid "
                    "value: \"../x\": must not start with '..'"
                ),
            ],
        ),
        (
            [container(envFrom=[{}, {"configMapRef": {"name": ""}}])],
            [
                (
                    'spec.containers[0].envFrom: Invalid value: "": must specify one of: '
                    "`configMapRef` or `secretRef`"
                ),
                "spec.containers[0].envFrom[1].configMapRef.name: Required value",
            ],
        ),
        (
            [container(volumeMounts=[{"name": "v", "mountPath": "/v"}])],
            ['spec.containers[0].volumeMounts[0].name: Not found: "v"'],
        ),
        (
            [container(livenessProbe={})],
            ["spec.containers[0].livenessProbe: Required value: must specify a handler type"],
        ),
        (
            [
                container(
                    livenessProbe={
                        "tcpSocket": {"port": 0},
                        "successThreshold": 2,
                        "initialDelaySeconds": -1,
                    }
                )
            ],
            [
                (
                    "spec.containers[0].livenessProbe.tcpSocket.port: Invalid value: 0: must "
                    "be between 1 and 65535, inclusive"
                ),
                (
                    "spec.containers[0].livenessProbe.initialDelaySeconds: Invalid value: "
                    "-1: must be greater than or equal to 0"
                ),
                "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
            ],
        ),
        (
            [container(readinessProbe={"exec": {}, "httpGet": {"port": "A", "scheme": "x"}})],
            [
                "spec.containers[0].readinessProbe.exec.command: Required value",
                (
                    "spec.containers[0].readinessProbe.httpGet: Forbidden: may not specify "
                    "more than 1 handler type"
                ),
            ],
        ),
        (
            [container(lifecycle={"preStop": {"sleep": {"seconds": 100}}, "postStart": {}})],
            [
                (
                    "spec.containers[0].lifecycle.postStart: Required value: must specify a "
                    "handler type"
                ),
                (
                    "spec.containers[0].lifecycle.preStop.sleep: Invalid value: 100: "
                    "must be non-negative and less than "
                    "terminationGracePeriodSeconds (30)"
                ),
            ],
        ),
        (
            [container(resizePolicy=[{"resourceName": "gpu", "restartPolicy": "x"}])],
            [
                (
                    'spec.containers[0].resizePolicy: Unsupported value: "gpu": supported '
                    'values: "cpu", "memory"'
                ),
                (
                    'spec.containers[0].resizePolicy: Unsupported value: "x": supported '
                    'values: "NotRequired", "RestartContainer"'
                ),
            ],
        ),
        (
            [container(restartPolicyRules=[{"action": "Restart"}])],
            [
                (
                    "spec.containers[0].restartPolicy: Required value: must specify "
                    "restartPolicy when restart rules are used"
                ),
                (
                    "spec.containers[0].restartPolicyRules[0].exitCodes: Required value: "
                    "must be specified"
                ),
            ],
        ),
    ],
)
def test_containers(judge, containers, wrong):
    assert judge.create(PODS, pod(containers=containers)) == wrong


@pytest.mark.parametrize(
    ("resources", "wrong"),
    [
        (
            {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}},
            [
                (
                    'spec.containers[0].resources.requests: Invalid value: "2": must be less '
                    "than or equal to cpu limit of 1"
                )
            ],
        ),
        (
            {"limits": {"memory": "1Gi"}, "requests": {"memory": "2Gi"}},
            [
                (
                    'spec.containers[0].resources.requests: Invalid value: "2Gi": must be '
                    "less than or equal to memory limit of 1Gi"
                )
            ],
        ),
        (
            {"requests": {"cpu": "-1"}},
            [
                (
                    'spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must '
                    "be greater than or equal to 0"
                )
            ],
        ),
        (
            {"limits": {"gpu": "1"}},
            [
                (
                    'spec.containers[0].resources.limits[gpu]: Invalid value: "gpu": '
                    "must be a standard resource type or "
                    "fully qualified"
                ),
                (
                    'spec.containers[0].resources.limits[gpu]: Invalid value: "gpu": must be '
                    "a standard resource for containers"
                ),
                (
                    'spec.containers[0].resources.requests[gpu]: Invalid value: "gpu": '
                    "must be a standard resource type "
                    "or fully qualified"
                ),
                (
                    'spec.containers[0].resources.requests[gpu]: Invalid value: "gpu": must '
                    "be a standard resource for containers"
                ),
            ],
        ),
        (
            {"limits": {"example.com/gpu": "1.5"}},
            [
                (
                    "spec.containers[0].resources.limits[example.com/gpu]: Invalid value: "
                    '"1500m": must be an integer'
                ),
                (
                    "spec.containers[0].resources.requests[example.com/gpu]: Invalid value: "
                    '"1500m": must be an integer'
                ),
            ],
        ),
        (
            {"requests": {"example.com/gpu": "1"}},
            [
                (
                    "spec.containers[0].resources.limits: Required value: Limit must be set "
                    "for non overcommitable resources"
                )
            ],
        ),
        (
            {"limits": {"hugepages-2Mi": "2Mi"}},
            ["spec.containers[0].resources: Forbidden: HugePages require cpu or memory"],
        ),
        (
            {"limits": {"cpu": "1", "hugepages-2Mi": "3Mi"}},
            [
                (
                    "spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: "
                    '"3Mi": 3Mi is not positive '
                    "integer multiple of hugepages-2Mi"
                ),
                (
                    "spec.containers[0].resources.requests[hugepages-2Mi]: Invalid "
                    'value: "3Mi": 3Mi is not positive '
                    "integer multiple of hugepages-2Mi"
                ),
            ],
        ),
        (
            {"claims": [{"name": "a"}]},
            [
                (
                    'spec.containers[0].resources.claims[0]: Not found: "a": must be one '
                    "of the names in "
                    "pod.spec.resourceClaims which is empty"
                )
            ],
        ),
    ],
)
def test_resources(judge, resources, wrong):
    assert judge.create(PODS, pod(containers=[container(resources=resources)])) == wrong


@pytest.mark.parametrize(
    ("others", "wrong"),
    [
        ([container("c")], ['spec.initContainers[0].name: Duplicate value: "c"']),
        (
            [
                container(
                    "i",
                    livenessProbe={"exec": {"command": ["x"]}},
                    lifecycle={"preStop": {"exec": {"command": ["a"]}}},
                )
            ],
            [
                (
                    "spec.initContainers[0].lifecycle: Forbidden: may not be set for init "
                    "containers without restartPolicy=Always"
                ),
                (
                    "spec.initContainers[0].livenessProbe: Forbidden: may not be set for "
                    "init containers without "
                    "restartPolicy=Always"
                ),
            ],
        ),
        ([container("i", restartPolicy="Always", livenessProbe={"exec": {"command": ["x"]}})], []),
        (
            [container("i", restartPolicy="Sometimes")],
            [
                (
                    "spec.initContainers[0].restartPolicy: Unsupported value: "
                    '"Sometimes": supported values: "Always", '
                    '"Never", "OnFailure"'
                )
            ],
        ),
    ],
)
def test_init_containers(judge, others, wrong):
    assert judge.create(PODS, pod(initContainers=others)) == wrong


@pytest.mark.parametrize(
    ("mounts", "wrong"),
    [
        (
            [{"name": "w", "mountPath": "/a"}],
            ['spec.containers[0].volumeMounts[0].name: Not found: "w"'],
        ),
        (
            [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}],
            ['spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/a": must be unique'],
        ),
        (
            [{"name": "v", "mountPath": ""}],
            ["spec.containers[0].volumeMounts[0].mountPath: Required value"],
        ),
        (
            [{"name": "v", "mountPath": "/a", "subPath": "../x"}],
            [
                (
                    'spec.containers[0].volumeMounts.subPath: Invalid value: "../x": must '
                    "not contain '..'"
                )
            ],
        ),
        (
            [{"name": "v", "mountPath": "/a", "subPath": "x", "subPathExpr": "y"}],
            [
                (
                    'spec.containers[0].volumeMounts[0].subPathExpr: Invalid value: "y": '
                    "subPathExpr and subPath are "
                    "mutually exclusive"
                )
            ],
        ),
        (
            [{"name": "v", "mountPath": "/a", "mountPropagation": "Bidirectional"}],
            [
                (
                    "spec.containers[0].volumeMounts.mountPropagation: Forbidden: "
                    "Bidirectional mount propagation is "
                    "available only to privileged containers"
                )
            ],
        ),
        (
            [{"name": "v", "mountPath": "/a", "recursiveReadOnly": "Enabled"}],
            [
                (
                    "spec.containers[0].volumeMounts.recursiveReadOnly: Forbidden: may only "
                    "be specified when readOnly is true"
                )
            ],
        ),
    ],
)
def test_mounts(judge, mounts, wrong):
    mounted = [container(volumeMounts=mounts)]
    assert (
        judge.create(PODS, pod(volumes=[{"name": "v", "emptyDir": {}}], containers=mounted))
        == wrong
    )
