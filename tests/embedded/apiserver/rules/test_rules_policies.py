import pytest

from pytest_kscen.objects import names
from pytest_kscen.objects.resources import (
    EVENTS,
    POD_DISRUPTION_BUDGETS,
    PRIORITY_CLASSES,
    Resource,
)

LABEL = names.dns1123_label("-")[0]
SUBDOMAIN = names.dns1123_subdomain("-")[0]
KEY = names.label_key("-")[0]
PERCENT = names.percent("x")[0]
RUNTIMES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
NEW_EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
RBAC = "rbac.authorization.k8s.io"
ROLES, BINDINGS = (
    Resource(RBAC, "v1", "roles", "Role"),
    Resource(RBAC, "v1", "rolebindings", "RoleBinding"),
)
CLUSTER_ROLES = Resource(RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
TIME = "2026-01-01T00:00:00.000000Z"
ROLE = {"apiGroup": RBAC, "kind": "Role", "name": "a"}


def named(name="rules-x", **content):
    return {"metadata": {"name": name}, **content}


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"minAvailable": 1}, []),
        (
            {"minAvailable": 1, "maxUnavailable": 1},
            [
                (
                    "spec: Invalid value: "
                    '{"MinAvailable":1,"Selector":null,"MaxUnavailable":1,"UnhealthyPodEvictionPolicy":null}: '
                    "minAvailable and maxUnavailable cannot be both set"
                )
            ],
        ),
        (
            {"minAvailable": -1},
            ["spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            {"maxUnavailable": "150%"},
            ['spec.maxUnavailable: Invalid value: "150%": must not be greater than 100%'],
        ),
        ({"maxUnavailable": "x"}, [f'spec.maxUnavailable: Invalid value: "x": {PERCENT}']),
        (
            {"selector": {"matchLabels": {"a b": "c"}}},
            [f'spec.selector.matchLabels: Invalid value: "a b": {KEY}'],
        ),
        (
            {"unhealthyPodEvictionPolicy": "X"},
            [
                (
                    'spec.unhealthyPodEvictionPolicy: Unsupported value: "X": supported '
                    'values: "AlwaysAllow", "IfHealthyBudget"'
                )
            ],
        ),
    ],
)
def test_budgets(judge, spec, wrong):
    assert judge.create(POD_DISRUPTION_BUDGETS, named(spec=spec)) == wrong


def test_new_budget_status_is_reset(judge):
    made = judge.made(POD_DISRUPTION_BUDGETS, named(spec={"minAvailable": 1}))
    assert made["status"] == {
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "disruptionsAllowed": 0,
        "expectedPods": 0,
    }
    assert made["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("status", "wrong"),
    [
        (
            {"currentHealthy": 3, "desiredHealthy": 1, "disruptionsAllowed": 2, "expectedPods": 3},
            [],
        ),
        (
            {"currentHealthy": -3, "disruptionsAllowed": -2},
            [
                "status.disruptionsAllowed: Invalid value: -2: must be greater than or equal to 0",
                "status.currentHealthy: Invalid value: -3: must be greater than or equal to 0",
            ],
        ),
        (
            {"conditions": [{"type": "DisruptionAllowed", "status": "q", "reason": "a b"}]},
            [
                (
                    'status.conditions[0].status: Unsupported value: "q": supported values: '
                    '"False", "True", "Unknown"'
                ),
                "status.conditions[0].lastTransitionTime: Required value",
                (
                    'status.conditions[0].reason: Invalid value: "a b": a condition '
                    "reason must start with alphabetic "
                    "character, optionally followed by a string of alphanumeric "
                    "characters or '_,:', and must end with "
                    "an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  "
                    "or 'MyName',  or "
                    "'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is "
                    "'[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
                ),
            ],
        ),
    ],
)
def test_budget_status(judge, status, wrong):
    judge.made(POD_DISRUPTION_BUDGETS, named(spec={"minAvailable": 1}))
    assert judge.change(POD_DISRUPTION_BUDGETS, "rules-x", {"status": status}, "status") == wrong


@pytest.mark.parametrize(
    ("name", "content", "wrong"),
    [
        ("rules-x", {"value": 3, "preemptionPolicy": "Never"}, []),
        (
            "rules-x",
            {"value": 2_000_000_000},
            ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
        ),
        (
            "system-mine",
            {"value": 3},
            [
                (
                    "metadata.name: Forbidden: priority class names with 'system-' "
                    "prefix are reserved for system use "
                    "only. error: system-mine is not a known system priority class"
                )
            ],
        ),
        (
            "rules-x",
            {"value": 3, "preemptionPolicy": "X"},
            [
                (
                    'preemptionPolicy: Unsupported value: "X": supported values: '
                    '"PreemptLowerPriority", "Never"'
                )
            ],
        ),
    ],
)
def test_priority_classes(judge, name, content, wrong):
    assert judge.create(PRIORITY_CLASSES, named(name, **content)) == wrong


@pytest.mark.parametrize(
    ("patch", "wrong"),
    [
        ({"value": 4}, ["value: Forbidden: may not be changed in an update."]),
        (
            {"preemptionPolicy": "Never"},
            ['preemptionPolicy: Invalid value: "Never": field is immutable'],
        ),
        ({"description": "q"}, []),
    ],
)
def test_priority_class_changes(judge, patch, wrong):
    assert (
        judge.made(PRIORITY_CLASSES, named(value=3))["preemptionPolicy"] == "PreemptLowerPriority"
    )
    assert judge.change(PRIORITY_CLASSES, "rules-x", patch) == wrong


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ({"handler": "a", "overhead": {"podFixed": {"cpu": "1"}}}, []),
        ({}, ["handler: Required value"]),
        ({"handler": "A_"}, [f'handler: Invalid value: "A_": {LABEL}']),
        (
            {"handler": "a", "overhead": {"podFixed": {"cpu": "-1"}}},
            ['overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0'],
        ),
        (
            {
                "handler": "a",
                "scheduling": {"tolerations": [{"key": "a", "operator": "Exists"}] * 2},
            },
            [
                (
                    "scheduling.tolerations[1]: Duplicate value: "
                    '{"Key":"a","Operator":"Exists","Value":"","Effect":"","TolerationSeconds":null}'
                )
            ],
        ),
    ],
)
def test_runtime_classes(judge, content, wrong):
    assert judge.create(RUNTIMES, named(**content)) == wrong


@pytest.mark.parametrize(
    ("rule", "wrong"),
    [
        ({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["a"]}, []),
        (
            {},
            [
                "rules[0].verbs: Required value: verbs must contain at least one value",
                (
                    "rules[0].apiGroups: Required value: resource rules must supply at least "
                    "one api group"
                ),
                (
                    "rules[0].resources: Required value: resource rules must supply at least "
                    "one resource"
                ),
            ],
        ),
        (
            {"verbs": ["get"]},
            [
                (
                    "rules[0].apiGroups: Required value: resource rules must supply at least "
                    "one api group"
                ),
                (
                    "rules[0].resources: Required value: resource rules must supply at least "
                    "one resource"
                ),
            ],
        ),
        (
            {"verbs": ["get"], "nonResourceURLs": ["/a"]},
            [
                (
                    'rules[0].nonResourceURLs: Invalid value: ["/a"]: namespaced rules '
                    "cannot apply to non-resource URLs"
                )
            ],
        ),
    ],
)
def test_roles(judge, rule, wrong):
    assert judge.create(ROLES, named(rules=[rule])) == wrong


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/a"]}]}, []),
        (
            {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/a"], "resources": ["a"]}]},
            [
                (
                    'rules[0].nonResourceURLs: Invalid value: ["/a"]: rules cannot apply '
                    "to both regular resources and "
                    "non-resource URLs"
                )
            ],
        ),
        (
            {"aggregationRule": {}},
            [
                (
                    "aggregationRule.clusterRoleSelectors: Required value: at least one "
                    "clusterRoleSelector required if "
                    "aggregationRule is non-nil"
                )
            ],
        ),
        (
            {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a b": "c"}}]}},
            [
                f'aggregationRule.clusterRoleSelectors[0].matchLabels: Invalid value: "a b": {KEY}',
                (
                    "aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid "
                    "label selector."
                ),
            ],
        ),
    ],
)
def test_cluster_roles(judge, content, wrong):
    assert judge.create(CLUSTER_ROLES, named(**content)) == wrong


@pytest.mark.parametrize(
    ("role", "wrong"),
    [
        ({"kind": "ClusterRole", "name": "a"}, []),
        (
            {"kind": "X", "name": "a"},
            ['roleRef.kind: Unsupported value: "X": supported values: "Role", "ClusterRole"'],
        ),
        (
            {"kind": "Role", "name": "a/b"},
            ["roleRef.name: Invalid value: \"a/b\": may not contain '/'"],
        ),
        (
            {"kind": "Role", "name": "", "apiGroup": "x"},
            [
                (
                    'roleRef.apiGroup: Unsupported value: "x": supported values: '
                    '"rbac.authorization.k8s.io"'
                ),
                "roleRef.name: Required value",
            ],
        ),
    ],
)
def test_binding_role_references(judge, role, wrong):
    assert judge.create(BINDINGS, named(roleRef=role)) == wrong


@pytest.mark.parametrize(
    ("subject", "wrong"),
    [
        ({"kind": "ServiceAccount", "name": "a", "namespace": "b"}, []),
        (
            {"kind": "ServiceAccount", "name": "A b", "apiGroup": "q"},
            [
                f'subjects[0].name: Invalid value: "A b": {SUBDOMAIN}',
                'subjects[0].apiGroup: Unsupported value: "q": supported values: ""',
            ],
        ),
        (
            {"kind": "User", "name": "", "apiGroup": "x"},
            [
                "subjects[0].name: Required value",
                (
                    'subjects[0].apiGroup: Unsupported value: "x": supported values: '
                    '"rbac.authorization.k8s.io"'
                ),
            ],
        ),
        (
            {"kind": "X", "name": "a"},
            [
                (
                    'subjects[0].kind: Unsupported value: "X": supported values: '
                    '"ServiceAccount", "User", "Group"'
                )
            ],
        ),
    ],
)
def test_binding_subjects(judge, subject, wrong):
    assert judge.create(BINDINGS, named(roleRef=ROLE, subjects=[subject])) == wrong


@pytest.mark.parametrize(
    ("subject", "filled"),
    [
        (
            {"kind": "User", "name": "a"},
            [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "a"}],
        ),
        (
            {"kind": "Group", "name": "a"},
            [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "a"}],
        ),
        (
            {"kind": "ServiceAccount", "name": "a", "namespace": "b"},
            [{"kind": "ServiceAccount", "name": "a", "namespace": "b"}],
        ),
    ],
)
def test_subject_api_group_is_defaulted(judge, subject, filled):
    made = judge.made(BINDINGS, named(roleRef={"kind": "Role", "name": "a"}, subjects=[subject]))
    assert made["roleRef"] == ROLE
    assert made["subjects"] == filled


def test_binding_role_is_immutable(judge):
    judge.made(BINDINGS, named(roleRef=ROLE))
    assert judge.change(BINDINGS, "rules-x", {"roleRef": {"name": "b"}}) == [
        (
            f'roleRef: Invalid value: {{"APIGroup":"{RBAC}","Kind":"Role","Name":"b"}}: '
            "cannot change roleRef"
        )
    ]


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ({"reason": "R", "type": "Anything"}, []),
        (
            {"involvedObject": {"kind": "Pod", "name": "p", "namespace": "elsewhere"}},
            [
                (
                    'involvedObject.namespace: Invalid value: "elsewhere": does not match '
                    "event.namespace"
                )
            ],
        ),
        (
            {"involvedObject": {"kind": "Node", "name": "p"}},
            ['involvedObject.namespace: Invalid value: "": does not match event.namespace'],
        ),
        (
            {"eventTime": TIME},
            [
                "reportingComponent: Required value",
                'reportingComponent: Invalid value: "": name part must be non-empty',
                f'reportingComponent: Invalid value: "": {KEY}',
                "reportingInstance: Required value",
                "action: Required value",
                "reason: Required value",
            ],
        ),
        (
            {
                "eventTime": TIME,
                "reportingComponent": "a b",
                "reportingInstance": "i",
                "action": "A",
                "reason": "R",
                "type": "X",
            },
            [f'reportingComponent: Invalid value: "a b": {KEY}'],
        ),
    ],
)
def test_events(judge, content, wrong):
    about = {"kind": "Pod", "name": "p", "namespace": judge.namespace}
    assert judge.create(EVENTS, named(**{"involvedObject": about, **content})) == wrong


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ({}, []),
        ({"eventTime": None}, ["eventTime: Required value"]),
        (
            {"reportingController": "", "action": ""},
            [
                "reportingController: Required value",
                'reportingController: Invalid value: "": name part must be non-empty',
                f'reportingController: Invalid value: "": {KEY}',
                "action: Required value",
            ],
        ),
        (
            {"type": "X", "note": "n" * 2000},
            [
                'message: Invalid value: "": can have at most 1024 characters',
                'type: Invalid value: "": has invalid value: X',
            ],
        ),
        (
            {"series": {"count": 1}},
            [
                'series.count: Invalid value: "": should be at least 2',
                "series.lastObservedTime: Required value",
            ],
        ),
    ],
)
def test_events_v1(judge, content, wrong):
    about = {"kind": "Pod", "name": "p", "namespace": judge.namespace}
    told = {"regarding": about, "reason": "R", "note": "m", "type": "Normal", "eventTime": TIME}
    by = {"reportingController": "a.b/c", "reportingInstance": "i", "action": "A"}
    assert judge.create(NEW_EVENTS, named(**{**told, **by, **content})) == wrong
