import pytest

from pytest_kscen.objects import names
from pytest_kscen.objects.resources import LEASES, LIMIT_RANGES, NAMESPACES, NODES, RESOURCE_QUOTAS

LABEL = names.dns1123_label("-")[0]
KEY = names.label_key("-")[0]
VALUE = names.label_value("-")[0]


def named(**content):
    return {"metadata": {"name": "rules-x"}, **content}


def test_namespace_defaults(judge):
    made = judge.made(NAMESPACES, named())
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "rules-x"}
    assert (made["spec"], made["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})


def test_namespace_name_label_is_restored(judge):
    given = {
        "metadata": {"name": "rules-x", "labels": {"kubernetes.io/metadata.name": "foo", "a": "b"}}
    }
    assert judge.made(NAMESPACES, given)["metadata"]["labels"] == {
        "a": "b",
        "kubernetes.io/metadata.name": "rules-x",
    }
    left = judge.changed(NAMESPACES, "rules-x", {"metadata": {"labels": None}})["metadata"][
        "labels"
    ]
    assert left == {"kubernetes.io/metadata.name": "rules-x"}


@pytest.mark.parametrize(
    ("name", "content", "wrong"),
    [
        ("A", {}, [f'metadata.name: Invalid value: "A": {LABEL}']),
        ("a.b", {}, ['metadata.name: Invalid value: "a.b": must not contain dots']),
        (
            "rules-x",
            {"spec": {"finalizers": ["x"]}},
            [
                (
                    'spec.finalizers: Invalid value: "x": name is neither a standard '
                    "finalizer name nor is it fully qualified"
                )
            ],
        ),
    ],
)
def test_namespaces(judge, name, content, wrong):
    assert judge.create(NAMESPACES, {"metadata": {"name": name}, **content}) == wrong


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ({"spec": {"podCIDR": "10.1.0.0/24", "unschedulable": True, "providerID": "a://b"}}, []),
        (
            {"spec": {"podCIDR": "x"}},
            [
                (
                    'spec.podCIDRs[0]: Invalid value: "x": must be a valid CIDR value, (e.g. '
                    "10.9.8.0/24 or 2001:db8::/64)"
                )
            ],
        ),
        (
            {"spec": {"podCIDRs": ["10.1.0.0/24", "10.2.0.0/24"]}},
            [
                (
                    'spec.podCIDRs: Invalid value: ["10.1.0.0/24","10.2.0.0/24"]: may '
                    "specify no more than one CIDR for each IP family"
                )
            ],
        ),
        (
            {"spec": {"taints": [{"key": "a b", "effect": "X", "value": "c d"}]}},
            [
                f'metadata.taints[0].key: Invalid value: "a b": {KEY}',
                f'metadata.taints[0].value: Invalid value: "c d": {VALUE}',
                (
                    'metadata.taints[0].effect: Unsupported value: "X": supported '
                    'values: "NoSchedule", '
                    '"PreferNoSchedule", "NoExecute"'
                ),
            ],
        ),
        (
            {
                "spec": {
                    "taints": [
                        {"key": "a", "effect": "NoExecute"},
                        {"key": "a", "effect": "NoExecute", "value": "q"},
                    ]
                }
            },
            [
                (
                    "metadata.taints[1]: Duplicate value: "
                    '{"Key":"a","Value":"q","Effect":"NoExecute","TimeAdded":null}: '
                    "taints must be unique by key and effect pair"
                )
            ],
        ),
        (
            {"status": {"capacity": {"cpu": "-1"}}},
            [
                'status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0',
                'status.allocatable.cpu: Invalid value: "-1": must be greater than or equal to 0',
            ],
        ),
        (
            {"status": {"allocatable": {"example.com/x": "1.5"}}},
            ['status.allocatable.example.com/x: Invalid value: "1500m": must be an integer'],
        ),
    ],
)
def test_nodes(judge, content, wrong):
    assert judge.create(NODES, named(**content)) == wrong


@pytest.mark.parametrize(
    ("spec", "filled"),
    [
        ({"podCIDR": "10.1.0.0/24"}, {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]}),
        ({"podCIDRs": ["10.1.0.0/24"]}, {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]}),
    ],
)
def test_node_pod_cidr_equals_first_of_pod_cidrs(judge, spec, filled):
    made = judge.made(NODES, named(spec=spec))["spec"]
    assert {name: made[name] for name in ("podCIDR", "podCIDRs")} == filled


@pytest.mark.parametrize(
    ("patch", "wrong"),
    [
        ({"unschedulable": True, "taints": [{"key": "a", "effect": "NoSchedule"}]}, []),
        (
            {"providerID": "c://d"},
            [
                (
                    "spec.providerID: Forbidden: node updates may not change providerID "
                    'except from "" to valid'
                )
            ],
        ),
        (
            {"podCIDR": "10.2.0.0/24", "podCIDRs": ["10.2.0.0/24"]},
            [
                (
                    "spec.podCIDRs: Forbidden: node updates may not change podCIDR except "
                    'from "" to valid'
                )
            ],
        ),
    ],
)
def test_node_changes(judge, patch, wrong):
    judge.made(NODES, named(spec={"podCIDR": "10.1.0.0/24", "providerID": "a://b"}))
    assert judge.change(NODES, "rules-x", {"spec": patch}) == wrong


@pytest.mark.parametrize(
    ("patch", "wrong"),
    [
        ({"conditions": [{"type": "Ready", "status": "True"}], "capacity": {"cpu": "4"}}, []),
        (
            {"allocatable": {"cpu": "-1"}},
            ['status.allocatable.cpu: Invalid value: "-1": must be greater than or equal to 0'],
        ),
        (
            {"addresses": [{"type": "InternalIP", "address": "1.2.3.4"}] * 2},
            ['status.addresses[1]: Duplicate value: {"Type":"InternalIP","Address":"1.2.3.4"}'],
        ),
    ],
)
def test_node_status(judge, patch, wrong):
    judge.made(NODES, named())
    assert judge.change(NODES, "rules-x", {"status": patch}, "status") == wrong


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        (
            {
                "hard": {
                    "pods": "3",
                    "requests.cpu": "1",
                    "count/deployments.apps": "3",
                    "requests.example.com/gpu": "1",
                }
            },
            [],
        ),
        (
            {"hard": {"pods": "1.5"}},
            ['spec.hard[pods]: Invalid value: "1500m": must be an integer'],
        ),
        (
            {"hard": {"services": "-1"}},
            ['spec.hard[services]: Invalid value: "-1": must be greater than or equal to 0'],
        ),
        (
            {"hard": {"foo": "1"}},
            [
                (
                    'spec.hard[foo]: Invalid value: "foo": must be a standard resource type '
                    "or fully qualified"
                ),
                'spec.hard[foo]: Invalid value: "foo": must be a standard resource for quota',
            ],
        ),
        (
            {"hard": {"cpu": "1"}, "scopes": ["BestEffort"]},
            ['spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource'],
        ),
        (
            {"scopes": ["X", "BestEffort", "NotBestEffort"]},
            [
                'spec.scopes: Invalid value: ["X","BestEffort","NotBestEffort"]: unsupported scope',
                (
                    'spec.scopes: Invalid value: ["X","BestEffort","NotBestEffort"]: '
                    "conflicting scopes"
                ),
            ],
        ),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]
                }
            },
            [
                (
                    "spec.scopeSelector.matchExpressions.values: Required value: must be "
                    "at least one value when "
                    "`operator` is 'In' or 'NotIn' for scope selector"
                )
            ],
        ),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [
                        {"scopeName": "BestEffort", "operator": "In", "values": ["a"]}
                    ]
                }
            },
            [
                (
                    "spec.scopeSelector.matchExpressions.operator: Invalid value: "
                    "\"In\": must be 'Exists' when scope is "
                    "any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
                    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
                    "ResourceQuotaScopeCrossNamespacePodAffinity"
                )
            ],
        ),
    ],
)
def test_quotas(judge, spec, wrong):
    assert judge.create(RESOURCE_QUOTAS, named(spec=spec)) == wrong


def test_quota_scopes_are_immutable(judge):
    judge.made(RESOURCE_QUOTAS, named(spec={"hard": {"pods": "3"}, "scopes": ["BestEffort"]}))
    wrong = judge.change(RESOURCE_QUOTAS, "rules-x", {"spec": {"scopes": ["NotBestEffort"]}})
    assert wrong == ['spec.scopes: Invalid value: ["NotBestEffort"]: field is immutable']


@pytest.mark.parametrize(
    ("limit", "filled"),
    [
        (
            {"type": "Container", "max": {"cpu": "1000m"}},
            [
                {
                    "type": "Container",
                    "max": {"cpu": "1"},
                    "default": {"cpu": "1"},
                    "defaultRequest": {"cpu": "1"},
                }
            ],
        ),
        (
            {
                "type": "Container",
                "max": {"cpu": "1", "memory": "1024Mi"},
                "min": {"cpu": "100m"},
                "default": {"cpu": "0.5"},
            },
            [
                {
                    "type": "Container",
                    "max": {"cpu": "1", "memory": "1Gi"},
                    "min": {"cpu": "100m"},
                    "default": {"cpu": "500m", "memory": "1Gi"},
                    "defaultRequest": {"cpu": "500m", "memory": "1Gi"},
                }
            ],
        ),
        ({"type": "Pod", "max": {"cpu": "1"}}, [{"type": "Pod", "max": {"cpu": "1"}}]),
    ],
)
def test_limit_range_defaults(judge, limit, filled):
    assert judge.made(LIMIT_RANGES, named(spec={"limits": [limit]}))["spec"]["limits"] == filled


@pytest.mark.parametrize(
    ("limits", "wrong"),
    [
        (
            [{"type": ""}],
            [
                'spec.limits[0].type: Invalid value: "": name part must be non-empty',
                f'spec.limits[0].type: Invalid value: "": {KEY}',
            ],
        ),
        (
            [{"type": "X"}],
            [
                (
                    'spec.limits[0].type: Invalid value: "X": must be a standard limit type '
                    "or fully qualified"
                )
            ],
        ),
        (
            [{"type": "Pod", "default": {"cpu": "1"}}],
            ["spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"],
        ),
        (
            [{"type": "Pod", "max": {"cpu": "1"}}, {"type": "Pod", "max": {"cpu": "2"}}],
            ['spec.limits[1].type: Duplicate value: "Pod"'],
        ),
        (
            [{"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "2"}}],
            [
                (
                    'spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater '
                    "than max value 1"
                ),
                (
                    'spec.limits[0].defaultRequest[cpu]: Invalid value: "1": min value 2 is '
                    "greater than default request value 1"
                ),
                (
                    'spec.limits[0].default[cpu]: Invalid value: "2": min value 2 is greater '
                    "than default value 1"
                ),
            ],
        ),
        (
            [
                {
                    "type": "Container",
                    "max": {"cpu": "1"},
                    "default": {"cpu": "2"},
                    "defaultRequest": {"cpu": "3"},
                }
            ],
            [
                (
                    'spec.limits[0].defaultRequest[cpu]: Invalid value: "3": default request '
                    "value 3 is greater than max value 1"
                ),
                (
                    'spec.limits[0].defaultRequest[cpu]: Invalid value: "3": default '
                    "request value 3 is greater than "
                    "default limit value 2"
                ),
                (
                    'spec.limits[0].default[cpu]: Invalid value: "1": default value 2 is '
                    "greater than max value 1"
                ),
            ],
        ),
        (
            [{"type": "Container", "maxLimitRequestRatio": {"cpu": "0.5"}}],
            [
                (
                    'spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio '
                    "500m is less than 1"
                )
            ],
        ),
        (
            [{"type": "PersistentVolumeClaim"}],
            [
                (
                    "spec.limits[0].limits: Required value: either minimum or maximum "
                    "storage value is required, but "
                    "neither was provided"
                )
            ],
        ),
    ],
)
def test_limits(judge, limits, wrong):
    assert judge.create(LIMIT_RANGES, named(spec={"limits": limits})) == wrong


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({}, []),
        (
            {"leaseDurationSeconds": 0, "leaseTransitions": -1},
            [
                "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
                "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
        ({"strategy": "X"}, []),
    ],
)
def test_leases(judge, spec, wrong):
    assert judge.create(LEASES, named(spec=spec)) == wrong
