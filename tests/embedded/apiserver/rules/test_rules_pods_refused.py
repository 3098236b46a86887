import pytest

from pytest_kscen.objects import names
from pytest_kscen.objects.resources import PODS

LABEL, SUBDOMAIN = names.dns1123_label("-")[0], names.dns1123_subdomain("-")[0]
KEY, VALUE = names.label_key("-")[0], names.label_value("-")[0]
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


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
    ("volumes", "wrong"),
    [
        ([{"name": "", "emptyDir": {}}], ["spec.volumes[0].name: Required value"]),
        (
            [{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}],
            ['spec.volumes[1].name: Duplicate value: "a"'],
        ),
        (
            [{"name": "a", "emptyDir": {}, "hostPath": {"path": "/x"}}],
            ["spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            [{"name": "a", "hostPath": {"path": "../a", "type": "x"}}],
            [
                "spec.volumes[0].hostPath.path: Invalid value: \"../a\": must not contain '..'",
                (
                    'spec.volumes[0].hostPath.type: Unsupported value: "x": supported '
                    'values: "", "BlockDevice", '
                    '"CharDevice", "Directory", "DirectoryOrCreate", "File", '
                    '"FileOrCreate", "Socket"'
                ),
            ],
        ),
        (
            [
                {
                    "name": "a",
                    "secret": {"defaultMode": 9999, "items": [{"key": "", "path": "../x"}]},
                }
            ],
            [
                "spec.volumes[0].secret.secretName: Required value",
                (
                    "spec.volumes[0].secret.defaultMode: Invalid value: 9999: must be a "
                    "number between 0 and 0777 "
                    "(octal), both inclusive"
                ),
                "spec.volumes[0].secret.items[0].key: Required value",
                (
                    'spec.volumes[0].secret.items[0].path: Invalid value: "../x": must not '
                    "contain '..'"
                ),
            ],
        ),
        (
            [{"name": "a", "configMap": {"items": [{"key": "k", "path": "/abs"}]}}],
            [
                "spec.volumes[0].configMap.name: Required value",
                (
                    'spec.volumes[0].configMap.items[0].path: Invalid value: "/abs": must be '
                    "a relative path"
                ),
            ],
        ),
        (
            [{"name": "a", "downwardAPI": {"items": [{"path": "x"}]}}],
            [
                (
                    "spec.volumes[0].downwardAPI: Required value: one of fieldRef and "
                    "resourceFieldRef is required"
                )
            ],
        ),
        (
            [
                {
                    "name": "a",
                    "projected": {
                        "sources": [{"serviceAccountToken": {"expirationSeconds": 5, "path": ""}}]
                    },
                }
            ],
            [
                (
                    "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: "
                    "Invalid value: 5: may "
                    "not specify a duration less than 10 minutes"
                ),
                "spec.volumes[0].projected.path: Required value",
            ],
        ),
        (
            [{"name": "a", "persistentVolumeClaim": {}}],
            ["spec.volumes[0].persistentVolumeClaim.claimName: Required value"],
        ),
        (
            [{"name": "a", "csi": {"driver": "A_b"}}],
            [f'spec.volumes[0].csi.driver: Invalid value: "A_b": {SUBDOMAIN}'],
        ),
        (
            [{"name": "a", "ephemeral": {}}],
            ["spec.volumes[0].ephemeral.volumeClaimTemplate: Required value"],
        ),
        (
            [{"name": "a", "nfs": {"path": "x"}}],
            [
                "spec.volumes[0].nfs.server: Required value",
                'spec.volumes[0].nfs.path: Invalid value: "x": must be an absolute path',
            ],
        ),
    ],
)
def test_volumes(judge, volumes, wrong):
    assert judge.create(PODS, pod(volumes=volumes)) == wrong


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        (
            {"restartPolicy": "X", "dnsPolicy": "Y"},
            [
                (
                    'spec.restartPolicy: Unsupported value: "X": supported values: "Always", '
                    '"OnFailure", "Never"'
                ),
                (
                    'spec.dnsPolicy: Unsupported value: "Y": supported values: '
                    '"ClusterFirstWithHostNet", '
                    '"ClusterFirst", "Default", "None"'
                ),
            ],
        ),
        (
            {"nodeSelector": {"a b": "c d"}},
            [
                f'spec.nodeSelector: Invalid value: "a b": {KEY}',
                f'spec.nodeSelector: Invalid value: "c d": {VALUE}',
            ],
        ),
        (
            {"hostname": "A.b", "subdomain": "a.b", "activeDeadlineSeconds": 0},
            [
                (
                    "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and "
                    "2147483647, inclusive"
                ),
                f'spec.hostname: Invalid value: "A.b": {LABEL}',
                'spec.subdomain: Invalid value: "a.b": must not contain dots',
            ],
        ),
        (
            {"hostAliases": [{"ip": "x", "hostnames": ["A"]}]},
            [
                (
                    'spec.hostAliases[0].ip: Invalid value: "x": must be a valid IP address, '
                    "(e.g. 10.9.8.7 or 2001:db8::ffff)"
                ),
                f'spec.hostAliases[0].hostnames[0]: Invalid value: "A": {SUBDOMAIN}',
            ],
        ),
        (
            {"dnsPolicy": "None"},
            ["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
        ),
        (
            {
                "dnsConfig": {
                    "nameservers": ["a", "1.1.1.1", "2.2.2.2", "3.3.3.3"],
                    "options": [{"value": "x"}],
                }
            },
            [
                (
                    "spec.dnsConfig.nameservers: Invalid value: "
                    '["a","1.1.1.1","2.2.2.2","3.3.3.3"]: must not have more '
                    "than 3 nameservers"
                ),
                (
                    'spec.dnsConfig.nameservers[0]: Invalid value: "a": must be a valid '
                    "IP address, (e.g. 10.9.8.7 or "
                    "2001:db8::ffff)"
                ),
                "spec.dnsConfig.options[0]: Required value: must not be empty",
            ],
        ),
        (
            {"schedulingGates": [{"name": "a"}, {"name": "a"}], "nodeName": "n"},
            [
                'spec.schedulingGates[1]: Duplicate value: "a"',
                (
                    "spec.nodeName: Forbidden: cannot be set until all schedulingGates have "
                    "been cleared"
                ),
            ],
        ),
        (
            {"readinessGates": [{"conditionType": "a b"}]},
            [f'spec.readinessGates[0].conditionType: Invalid value: "a b": {KEY}'],
        ),
        (
            {
                "hostNetwork": True,
                "containers": [container(ports=[{"containerPort": 80, "hostPort": 81}])],
            },
            [
                (
                    "spec.containers[0].ports[0].hostPort: Invalid value: 81: must match "
                    "`containerPort` when `hostNetwork` is true"
                )
            ],
        ),
        (
            {"hostUsers": False, "hostPID": True},
            ["spec.HostPID: Forbidden: when `hostUsers` is false"],
        ),
        (
            {"hostPID": True, "shareProcessNamespace": True},
            [
                (
                    "spec.securityContext.shareProcessNamespace: Invalid value: true: "
                    "ShareProcessNamespace and HostPID "
                    "cannot both be enabled"
                )
            ],
        ),
        (
            {"os": {"name": "plan9"}},
            ['spec.os: Unsupported value: "plan9": supported values: "linux", "windows"'],
        ),
        (
            {"os": {"name": "windows"}, "securityContext": {"runAsUser": 1}, "hostPID": True},
            [
                "spec.hostPID: Forbidden: cannot be set for a windows pod",
                "spec.securityContext.runAsUser: Forbidden: cannot be set for a windows pod",
            ],
        ),
        (
            {"ephemeralContainers": [container("e")]},
            ["spec.ephemeralContainers: Forbidden: cannot be set on create"],
        ),
        (
            {
                "terminationGracePeriodSeconds": None,
                "tolerations": [{"operator": "Foo", "key": "a"}],
            },
            [
                (
                    'spec.tolerations[0].operator: Unsupported value: "Foo": supported '
                    'values: "Equal", "Exists"'
                )
            ],
        ),
        (
            {"tolerations": [{"value": "x"}]},
            [
                (
                    'spec.tolerations[0].operator: Invalid value: "": operator must be '
                    "Exists when `key` is empty, which "
                    'means "match all values and all keys"'
                )
            ],
        ),
        (
            {"tolerations": [{"key": "a b", "operator": "Exists", "value": "x", "effect": "Y"}]},
            [
                f'spec.tolerations[0].key: Invalid value: "a b": {KEY}',
                (
                    'spec.tolerations[0].operator: Invalid value: "x": value must be empty '
                    "when `operator` is 'Exists'"
                ),
                (
                    'spec.tolerations[0].effect: Unsupported value: "Y": supported '
                    'values: "NoSchedule", '
                    '"PreferNoSchedule", "NoExecute"'
                ),
            ],
        ),
        (
            {"tolerations": [{"key": "a", "tolerationSeconds": 1}]},
            [
                (
                    'spec.tolerations[0].effect: Invalid value: "": effect must be '
                    "'NoExecute' when `tolerationSeconds` is set"
                )
            ],
        ),
        (
            {"securityContext": {"runAsUser": -1, "fsGroup": -1, "fsGroupChangePolicy": "X"}},
            [
                (
                    "spec.securityContext.fsGroup: Invalid value: -1: must be between 0 and "
                    "2147483647, inclusive"
                ),
                (
                    "spec.securityContext.runAsUser: Invalid value: -1: must be between 0 "
                    "and 2147483647, inclusive"
                ),
                (
                    'spec.securityContext.fsGroupChangePolicy: Unsupported value: "X": '
                    'supported values: "Always", "OnRootMismatch"'
                ),
            ],
        ),
        (
            {
                "securityContext": {
                    "sysctls": [{"name": ""}, {"name": "A b"}],
                    "seccompProfile": {"type": "Localhost"},
                }
            },
            [
                "spec.securityContext.sysctls[0].name: Required value",
                (
                    'spec.securityContext.sysctls[1].name: Invalid value: "A b": must '
                    "have at most 253 characters and "
                    "match regex "
                    "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
                ),
                (
                    "spec.securityContext.seccompProfile.localhostProfile: Required "
                    "value: must be set when seccomp type "
                    "is Localhost"
                ),
            ],
        ),
    ],
)
def test_other_fields(judge, spec, wrong):
    assert judge.create(PODS, pod(**spec)) == wrong


@pytest.mark.parametrize(
    ("affinity", "wrong"),
    [
        (
            {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}},
            [
                (
                    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: "
                    "Required value: must have at least one node selector term"
                )
            ],
        ),
        (
            {
                "nodeAffinity": {
                    REQUIRED: {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "a", "operator": "In"}]}
                        ]
                    }
                }
            },
            [
                (
                    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].match"
                    "Expressions[0].values: Required value: must be specified when "
                    "`operator` is 'In' or 'NotIn'"
                )
            ],
        ),
        (
            {
                "nodeAffinity": {
                    REQUIRED: {
                        "nodeSelectorTerms": [
                            {"matchFields": [{"key": "x", "operator": "In", "values": ["a"]}]}
                        ]
                    }
                }
            },
            [
                (
                    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].match"
                    'Fields[0].key: Invalid value: "x": not a valid field selector key'
                )
            ],
        ),
        (
            {
                "nodeAffinity": {
                    PREFERRED: [
                        {
                            "weight": 0,
                            "preference": {"matchExpressions": [{"key": "a", "operator": "X"}]},
                        }
                    ]
                }
            },
            [
                (
                    "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: "
                    "Invalid "
                    "value: 0: must be in the range 1-100"
                ),
                (
                    "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpres"
                    'sions[0].operator: Invalid value: "X": not a valid selector operator'
                ),
            ],
        ),
        (
            {"podAffinity": {REQUIRED: [{"topologyKey": "", "namespaces": ["A"]}]}},
            [
                (
                    "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespace: "
                    "Invalid "
                    f'value: "A": {LABEL}'
                ),
                (
                    "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: "
                    "Required "
                    "value: can not be empty"
                ),
                (
                    "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: "
                    "Invalid "
                    'value: "": name part must be non-empty'
                ),
                (
                    "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: "
                    "Invalid "
                    f'value: "": {KEY}'
                ),
            ],
        ),
        (
            {
                "podAntiAffinity": {
                    PREFERRED: [{"weight": 101, "podAffinityTerm": {"topologyKey": "z"}}]
                }
            },
            [
                (
                    "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: "
                    "Invalid "
                    "value: 101: must be in the range 1-100"
                )
            ],
        ),
        (
            {"podAffinity": {REQUIRED: [{"topologyKey": "z", "matchLabelKeys": ["b"]}]}},
            [
                (
                    "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys: "
                    "Forbidden: must not be specified when labelSelector is not set"
                )
            ],
        ),
    ],
)
def test_affinity(judge, affinity, wrong):
    assert judge.create(PODS, pod(affinity=affinity)) == wrong


@pytest.mark.parametrize(
    ("constraints", "wrong"),
    [
        (
            [{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "X"}],
            [
                (
                    "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be "
                    "greater than zero"
                ),
                "spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty",
                (
                    "spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported "
                    'value: "X": supported values: '
                    '"DoNotSchedule", "ScheduleAnyway"'
                ),
            ],
        ),
        (
            [
                {
                    "maxSkew": 1,
                    "topologyKey": "z",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "minDomains": 2,
                }
            ],
            [
                (
                    "spec.topologySpreadConstraints[0].minDomains: Invalid value: 2: can "
                    "only use minDomains if "
                    "whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway"
                )
            ],
        ),
        (
            [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}] * 2,
            [
                (
                    "spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: "
                    'Duplicate value: "{z, DoNotSchedule}"'
                )
            ],
        ),
        (
            [
                {
                    "maxSkew": 1,
                    "topologyKey": "z",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "matchLabelKeys": ["x"],
                }
            ],
            [
                (
                    "spec.topologySpreadConstraints[0].matchLabelKeys: Forbidden: must not "
                    "be specified when labelSelector is not set"
                )
            ],
        ),
    ],
)
def test_spread(judge, constraints, wrong):
    assert judge.create(PODS, pod(topologySpreadConstraints=constraints)) == wrong


@pytest.mark.parametrize(
    ("name", "value", "wrong"),
    [
        (
            "controller.kubernetes.io/pod-deletion-cost",
            "x",
            [
                (
                    "metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: "
                    'Invalid value: "x": must be a 32bit integer'
                )
            ],
        ),
        (
            "container.apparmor.security.beta.kubernetes.io/c",
            "foo",
            [
                (
                    "metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: "
                    'Invalid value: "foo": '
                    'invalid AppArmor profile name: "foo"'
                )
            ],
        ),
        (
            "container.apparmor.security.beta.kubernetes.io/d",
            "unconfined",
            [
                (
                    "metadata.annotations[container.apparmor.security.beta.kubernetes.io/d]: "
                    'Invalid value: "d": container not found'
                )
            ],
        ),
        (
            "seccomp.security.alpha.kubernetes.io/pod",
            "foo",
            [
                (
                    "metadata.annotations.seccomp.security.alpha.kubernetes.io/pod: "
                    'Invalid value: "foo": must be a '
                    "valid seccomp profile"
                )
            ],
        ),
    ],
)
def test_annotations(judge, name, value, wrong):
    assert judge.create(PODS, pod({"annotations": {name: value}})) == wrong
