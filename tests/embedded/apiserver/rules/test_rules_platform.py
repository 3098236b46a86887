import base64

import pytest

from pytest_kscen.objects import names
from pytest_kscen.objects.resources import Resource

LABEL = names.dns1123_label("-")[0]
SUBDOMAIN = names.dns1123_subdomain("-")[0]
FLOW, DEVICES = "flowcontrol.apiserver.k8s.io", "resource.k8s.io"
SCHEMAS = Resource(FLOW, "v1", "flowschemas", "FlowSchema", namespaced=False)
LEVELS = Resource(
    FLOW, "v1", "prioritylevelconfigurations", "PriorityLevelConfiguration", namespaced=False
)
CLAIMS = Resource(DEVICES, "v1", "resourceclaims", "ResourceClaim")
SLICES = Resource(DEVICES, "v1", "resourceslices", "ResourceSlice", namespaced=False)
REQUESTS = Resource(
    "certificates.k8s.io",
    "v1",
    "certificatesigningrequests",
    "CertificateSigningRequest",
    namespaced=False,
)
REQUEST = """-----BEGIN CERTIFICATE REQUEST-----
MIHHMG4CAQAwDDEKMAgGA1UEAwwBYTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IA
BBdGuVz5FWPqp8TTqs0xbaCR0q3RQoHM+gQFjkx+xQWU3zboQ72gYyh1DrhYKbm8
EsNuB1DBVnrO+XTTST77FL6gADAKBggqhkjOPQQDAgNJADBGAiEAveA3TR9ZBlHI
Phv69jj/igh0C8GC88FMDTmhnDFqRgYCIQDTBZv4kq9y7exk2FjjzY7gQo2vgIGv
EUkA0eHtsV0NtQ==
-----END CERTIFICATE REQUEST-----
"""


def named(**content):
    return {"metadata": {"name": "rules-x"}, **content}


def signing(**spec):
    given = {
        "request": base64.b64encode(REQUEST.encode()).decode(),
        "signerName": "a.b/c",
        "usages": ["client auth"],
    }
    return named(spec={**given, **spec})


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"signerName": "kubernetes.io/kubelet-serving", "expirationSeconds": 600}, []),
        (
            {"request": "YQ=="},
            ['spec.request: Invalid value: "YQ==": PEM block type must be CERTIFICATE REQUEST'],
        ),
        (
            {"signerName": "a"},
            [
                (
                    'spec.signerName: Invalid value: "a": must be a fully qualified '
                    "domain and path of the form "
                    "'example.com/signer-name'"
                )
            ],
        ),
        (
            {"signerName": "a b/c"},
            [
                f'spec.signerName: Invalid value: "a b": validating label "a b": {LABEL}',
                (
                    'spec.signerName: Invalid value: "a b": should be a domain with at least '
                    "two segments separated by dots"
                ),
            ],
        ),
        (
            {"signerName": "kubernetes.io/legacy-unknown"},
            [
                (
                    'spec.signerName: Invalid value: "kubernetes.io/legacy-unknown": the '
                    "legacy signerName is not "
                    "allowed via this API version"
                )
            ],
        ),
        ({"usages": []}, ["spec.usages: Required value"]),
        (
            {"usages": ["x"]},
            [
                (
                    'spec.usages[0]: Unsupported value: "x": supported values: "any", '
                    '"cert sign", "client auth", "code '
                    'signing", "content commitment", "crl sign", "data encipherment", '
                    '"decipher only", "digital '
                    'signature", "email protection", "encipher only", "ipsec end '
                    'system", "ipsec tunnel", "ipsec user", '
                    '"key agreement", "key encipherment", "microsoft sgc", "netscape '
                    'sgc", "ocsp signing", "s/mime", '
                    '"server auth", "signing", "timestamping"'
                )
            ],
        ),
        (
            {"usages": ["client auth", "client auth"], "expirationSeconds": 5},
            [
                'spec.usages[1]: Duplicate value: "client auth"',
                (
                    "spec.expirationSeconds: Invalid value: 5: may not specify a duration "
                    "less than 600 seconds (10 minutes)"
                ),
            ],
        ),
    ],
)
def test_signing_requests(judge, spec, wrong):
    assert judge.create(REQUESTS, signing(**spec)) == wrong


@pytest.mark.parametrize(
    ("part", "status", "wrong"),
    [
        ("approval", {"conditions": [{"type": "Approved", "status": "True"}]}, []),
        (
            "approval",
            {
                "conditions": [
                    {"type": "Approved", "status": "False"},
                    {"type": "Denied", "status": "True"},
                ]
            },
            [
                'status.conditions[0].status: Unsupported value: "False": supported values: "True"',
                (
                    'status.conditions: Invalid value: "Denied": Approved and Denied '
                    "conditions are mutually exclusive"
                ),
            ],
        ),
        (
            "status",
            {"conditions": [{"type": "Approved", "status": "True"}]},
            ['status.conditions: Forbidden: updates may not add a condition of type "Approved"'],
        ),
        (
            "status",
            {"certificate": "YQ=="},
            [
                (
                    'status.certificate: Invalid value: "<certificate data>": must contain '
                    "at least one CERTIFICATE PEM block"
                )
            ],
        ),
    ],
)
def test_signing_request_fields(judge, part, status, wrong):
    judge.made(REQUESTS, signing())
    assert judge.change(REQUESTS, "rules-x", {"status": status}, part) == wrong


def test_signing_request_and_decision_are_immutable(judge):
    judge.made(REQUESTS, signing())
    assert judge.changed(REQUESTS, "rules-x", {"spec": {"usages": ["server auth"]}})["spec"][
        "usages"
    ] == ["client auth"]
    approved = {"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "a"}]}}
    (condition,) = judge.changed(REQUESTS, "rules-x", approved, "approval")["status"]["conditions"]
    assert condition["lastUpdateTime"] == condition["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    assert judge.change(REQUESTS, "rules-x", {"status": {"conditions": []}}, "approval") == [
        'status.conditions: Forbidden: updates may not remove a condition of type "Approved"'
    ]


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({}, []),
        (
            {"priorityLevelConfiguration": {"name": "A_"}},
            [f'spec.priorityLevelConfiguration.name: Invalid value: "A_": {SUBDOMAIN}'],
        ),
        (
            {"priorityLevelConfiguration": {}},
            [
                (
                    "spec.priorityLevelConfiguration.name: Required value: must reference a "
                    "priority level"
                )
            ],
        ),
        (
            {"matchingPrecedence": -1},
            ["spec.matchingPrecedence: Invalid value: -1: must be a positive value"],
        ),
        (
            {"matchingPrecedence": 1},
            [
                (
                    "spec.matchingPrecedence: Invalid value: 1: only the schema named "
                    "'exempt' may have matchingPrecedence 1"
                )
            ],
        ),
        (
            {"matchingPrecedence": 99999, "distinguisherMethod": {"type": "X"}},
            [
                "spec.matchingPrecedence: Invalid value: 99999: must not be greater than 10000",
                (
                    'spec.distinguisherMethod.type: Unsupported value: {"Type":"X"}: '
                    'supported values: "ByNamespace", "ByUser"'
                ),
            ],
        ),
        (
            {"rules": [{}]},
            [
                "spec.rules[0].subjects: Required value: subjects must contain at least one value",
                (
                    "spec.rules[0]: Required value: at least one of resourceRules and "
                    "nonResourceRules has to be non-empty"
                ),
            ],
        ),
        (
            {"rules": [{"subjects": [{"kind": "X"}], "resourceRules": [{}]}]},
            [
                (
                    'spec.rules[0].subjects[0].kind: Unsupported value: "X": supported '
                    'values: "Group", "ServiceAccount", "User"'
                ),
                (
                    "spec.rules[0].resourceRules[0].verbs: Required value: verbs must "
                    "contain at least one value"
                ),
                (
                    "spec.rules[0].resourceRules[0].apiGroups: Required value: resource "
                    "rules must supply at least one api group"
                ),
                (
                    "spec.rules[0].resourceRules[0].resources: Required value: resource "
                    "rules must supply at least one resource"
                ),
                (
                    "spec.rules[0].resourceRules[0].namespaces: Required value: resource "
                    "rules that are not cluster "
                    "scoped must supply at least one namespace"
                ),
            ],
        ),
        (
            {
                "rules": [
                    {
                        "subjects": [{"kind": "User"}],
                        "nonResourceRules": [{"verbs": ["x"], "nonResourceURLs": ["a", "/a*"]}],
                    }
                ]
            },
            [
                (
                    "spec.rules[0].subjects[0].user: Required value: user is required when "
                    "subject kind is 'User'"
                ),
                (
                    'spec.rules[0].nonResourceRules[0].verbs: Unsupported value: ["x"]: '
                    'supported values: "create", '
                    '"delete", "deletecollection", "get", "list", "patch", "proxy", '
                    '"update", "watch"'
                ),
                (
                    "spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: "
                    '"a": must start with slash'
                ),
                (
                    "spec.rules[0].nonResourceRules[0].nonResourceURLs[1]: Invalid "
                    'value: "/a*": wildcard can only do '
                    "suffix matching"
                ),
            ],
        ),
        (
            {
                "rules": [
                    {
                        "subjects": [
                            {
                                "kind": "ServiceAccount",
                                "serviceAccount": {"name": "A", "namespace": ""},
                                "user": {"name": "a"},
                            }
                        ]
                    }
                ]
            },
            [
                f'spec.rules[0].subjects[0].serviceAccount.name: Invalid value: "A": {SUBDOMAIN}',
                (
                    "spec.rules[0].subjects[0].serviceAccount.namespace: Required value: "
                    "must specify namespace for service account"
                ),
                (
                    "spec.rules[0].subjects[0].user: Forbidden: user is forbidden when "
                    "subject kind is not 'User'"
                ),
                (
                    "spec.rules[0]: Required value: at least one of resourceRules and "
                    "nonResourceRules has to be non-empty"
                ),
            ],
        ),
    ],
)
def test_flow_schemas(judge, spec, wrong):
    assert (
        judge.create(
            SCHEMAS, named(spec={"priorityLevelConfiguration": {"name": "global-default"}, **spec})
        )
        == wrong
    )


def test_flow_schema_precedence(judge):
    made = judge.made(
        SCHEMAS, named(spec={"priorityLevelConfiguration": {"name": "global-default"}})
    )
    assert made["spec"]["matchingPrecedence"] == 1000


@pytest.mark.parametrize(
    ("limited", "filled"),
    [
        (
            {"limitResponse": {"type": "Reject"}},
            {
                "nominalConcurrencyShares": 30,
                "limitResponse": {"type": "Reject"},
                "lendablePercent": 0,
            },
        ),
        (
            {"limitResponse": {"type": "Queue", "queuing": {}}},
            {
                "nominalConcurrencyShares": 30,
                "limitResponse": {
                    "type": "Queue",
                    "queuing": {"queues": 64, "handSize": 8, "queueLengthLimit": 50},
                },
                "lendablePercent": 0,
            },
        ),
    ],
)
def test_priority_level_defaults(judge, limited, filled):
    assert (
        judge.made(LEVELS, named(spec={"type": "Limited", "limited": limited}))["spec"]["limited"]
        == filled
    )


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        (
            {"type": "Limited"},
            ["spec.limited: Required value: must not be empty when type is Limited"],
        ),
        (
            {"type": "Exempt"},
            [
                (
                    "spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if "
                    "`name` is 'exempt'"
                )
            ],
        ),
        (
            {"type": "X"},
            ['spec.type: Unsupported value: "X": supported values: "Exempt", "Limited"'],
        ),
        (
            {"type": "Limited", "limited": {"limitResponse": {"type": "Queue"}}},
            [
                (
                    "spec.limited.limitResponse.queuing: Required value: must not be empty "
                    "if limited.limitResponse.type is Limited"
                )
            ],
        ),
        (
            {
                "type": "Limited",
                "limited": {"nominalConcurrencyShares": -1, "limitResponse": {"type": "X"}},
            },
            [
                (
                    "spec.limited.nominalConcurrencyShares: Invalid value: -1: must be a "
                    "non-negative integer"
                ),
                (
                    'spec.limited.limitResponse.type: Unsupported value: "X": supported '
                    'values: "Queue", "Reject"'
                ),
            ],
        ),
        (
            {
                "type": "Limited",
                "limited": {
                    "limitResponse": {
                        "type": "Queue",
                        "queuing": {"queues": 1, "handSize": 9, "queueLengthLimit": -1},
                    }
                },
            },
            [
                (
                    "spec.limited.limitResponse.queuing.queueLengthLimit: Invalid value: -1: "
                    "must be positive"
                ),
                (
                    "spec.limited.limitResponse.queuing.handSize: Invalid value: 9: should "
                    "not be greater than queues (1)"
                ),
            ],
        ),
        (
            {
                "type": "Limited",
                "limited": {
                    "limitResponse": {"type": "Queue", "queuing": {"queues": 9999, "handSize": 9}}
                },
            },
            [
                (
                    "spec.limited.limitResponse.queuing.handSize: Invalid value: 9: "
                    "required entropy bits of deckSize "
                    "9999 and handSize 9 should not be greater than 60"
                )
            ],
        ),
    ],
)
def test_priority_levels(judge, spec, wrong):
    assert judge.create(LEVELS, named(spec=spec)) == wrong


@pytest.mark.parametrize(
    ("requests", "wrong"),
    [
        ([{"name": "r", "exactly": {"deviceClassName": "c"}}], []),
        (
            [{"name": "A"}],
            [
                f'spec.devices.requests[0].name: Invalid value: "A": {LABEL}',
                (
                    "spec.devices.requests[0]: Required value: exactly one of `exactly` or "
                    "`firstAvailable` is required"
                ),
            ],
        ),
        (
            [{"name": "r", "exactly": {"deviceClassName": "A_", "count": -1}}],
            [
                (
                    'spec.devices.requests[0].exactly.deviceClassName: Invalid value: "A_": '
                    f"{SUBDOMAIN}"
                ),
                (
                    "spec.devices.requests[0].exactly.count: Invalid value: -1: must be "
                    "greater than zero"
                ),
            ],
        ),
        (
            [{"name": "r", "exactly": {"deviceClassName": "c", "allocationMode": "X"}}],
            [
                (
                    "spec.devices.requests[0].exactly.allocationMode: Unsupported value: "
                    '"X": supported values: "All", "ExactCount"'
                )
            ],
        ),
        (
            [{"name": "r", "exactly": {"deviceClassName": "c"}}] * 2,
            ['spec.devices.requests[1]: Duplicate value: "r"'],
        ),
        (
            [
                {
                    "name": "r",
                    "firstAvailable": [
                        {"name": "a", "deviceClassName": ""},
                        {"name": "a", "deviceClassName": "c"},
                    ],
                }
            ],
            [
                "spec.devices.requests[0].firstAvailable[0].deviceClassName: Required value",
                'spec.devices.requests[0].firstAvailable[1]: Duplicate value: "a"',
            ],
        ),
    ],
)
def test_device_claims(judge, requests, wrong):
    assert judge.create(CLAIMS, named(spec={"devices": {"requests": requests}})) == wrong


def test_device_request_defaults(judge):
    given = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}
    made = judge.made(CLAIMS, named(spec=given))["spec"]["devices"]["requests"]
    assert made == [
        {
            "name": "r",
            "exactly": {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1},
        }
    ]


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({}, []),
        (
            {"nodeName": "A_", "allNodes": True},
            [
                f'spec.nodeName: Invalid value: "A_": {SUBDOMAIN}',
                (
                    'spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of '
                    "`nodeName`, `nodeSelector`, "
                    "`allNodes`, `perDeviceNodeSelection` is required, but multiple fields are set"
                ),
            ],
        ),
        (
            {
                "nodeName": None,
                "driver": "A_",
                "pool": {"name": "a/B", "generation": -1, "resourceSliceCount": 0},
            },
            [
                f'spec.driver: Invalid value: "A_": {SUBDOMAIN}',
                f'spec.pool.name: Invalid value: "B": {SUBDOMAIN}',
                "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
                "spec.pool.generation: Invalid value: -1: must be greater than or equal to zero",
                (
                    "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, "
                    "`perDeviceNodeSelection` is required"
                ),
            ],
        ),
        (
            {"devices": [{"name": "A"}, {"name": "A"}]},
            [
                f'spec.devices[0].name: Invalid value: "A": {LABEL}',
                f'spec.devices[1].name: Invalid value: "A": {LABEL}',
                'spec.devices[1]: Duplicate value: "A"',
            ],
        ),
    ],
)
def test_resource_slices(judge, spec, wrong):
    given = {
        "nodeName": "n",
        "driver": "a.b",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
    }
    assert judge.create(SLICES, named(spec={**given, **spec})) == wrong
