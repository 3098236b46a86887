import pytest

from pytest_kscen.objects import names
from pytest_kscen.objects.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource

SUBDOMAIN = names.dns1123_subdomain("-")[0]
KEY = names.label_key("-")[0]
GROUP = "admissionregistration.k8s.io"
POLICIES = Resource(
    GROUP, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False
)
BINDINGS = Resource(
    GROUP,
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
RULE = {
    "apiGroups": ["nobodys.example"],
    "apiVersions": ["v1"],
    "resources": ["foos"],
    "operations": ["CREATE"],
}
HOOK = {
    "name": "a.b.c",
    "clientConfig": {"url": "https://127.0.0.1:9/x"},
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "rules": [RULE],
}


def named(**content):
    return {"metadata": {"name": "rules-x"}, **content}


@pytest.mark.parametrize(
    ("kind", "filled"),
    [
        (
            VALIDATING_WEBHOOKS,
            [
                {
                    "name": "a.b.c",
                    "clientConfig": {"service": {"namespace": "b", "name": "a", "port": 443}},
                    "rules": [
                        {
                            "operations": ["CREATE"],
                            "apiGroups": ["nobodys.example"],
                            "apiVersions": ["v1"],
                            "resources": ["foos"],
                            "scope": "*",
                        }
                    ],
                    "failurePolicy": "Fail",
                    "matchPolicy": "Equivalent",
                    "namespaceSelector": {},
                    "objectSelector": {},
                    "sideEffects": "None",
                    "timeoutSeconds": 10,
                    "admissionReviewVersions": ["v1"],
                }
            ],
        ),
        (
            MUTATING_WEBHOOKS,
            [
                {
                    "name": "a.b.c",
                    "clientConfig": {"service": {"namespace": "b", "name": "a", "port": 443}},
                    "rules": [
                        {
                            "operations": ["CREATE"],
                            "apiGroups": ["nobodys.example"],
                            "apiVersions": ["v1"],
                            "resources": ["foos"],
                            "scope": "*",
                        }
                    ],
                    "failurePolicy": "Fail",
                    "matchPolicy": "Equivalent",
                    "namespaceSelector": {},
                    "objectSelector": {},
                    "sideEffects": "None",
                    "timeoutSeconds": 10,
                    "admissionReviewVersions": ["v1"],
                    "reinvocationPolicy": "Never",
                }
            ],
        ),
    ],
    ids=lambda kind: getattr(kind, "plural", ""),
)
def test_defaults(judge, kind, filled):
    service = {"service": {"name": "a", "namespace": "b"}}
    assert (
        judge.made(kind, named(webhooks=[{**HOOK, "clientConfig": service}]))["webhooks"] == filled
    )


@pytest.mark.parametrize(
    ("hook", "wrong"),
    [
        ({"failurePolicy": "Ignore", "matchPolicy": "Exact", "timeoutSeconds": 3}, []),
        (
            {"name": "a"},
            [
                (
                    'webhooks[0].name: Invalid value: "a": should be a domain with at least '
                    "three segments separated by dots"
                )
            ],
        ),
        (
            {"clientConfig": {}},
            ["webhooks[0].clientConfig: Required value: exactly one of url or service is required"],
        ),
        (
            {"clientConfig": {"url": "http://x"}},
            [
                (
                    "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is "
                    "the only allowed URL scheme; "
                    "desired format: https://host[/path]"
                )
            ],
        ),
        (
            {"clientConfig": {"url": "https://u:p@x/?q#f"}},
            [
                (
                    'webhooks[0].clientConfig.url: Invalid value: "u:p": user information is '
                    "not permitted in the URL"
                ),
                (
                    'webhooks[0].clientConfig.url: Invalid value: "f": fragments are not '
                    "permitted in the URL"
                ),
                (
                    'webhooks[0].clientConfig.url: Invalid value: "q": query parameters are '
                    "not permitted in the URL"
                ),
            ],
        ),
        (
            {
                "clientConfig": {
                    "service": {"name": "", "namespace": "", "path": "a//b", "port": 70000}
                }
            },
            [
                "webhooks[0].clientConfig.service.name: Required value",
                "webhooks[0].clientConfig.service.namespace: Required value",
                (
                    "webhooks[0].clientConfig.service.port: Invalid value: 70000: port "
                    "is not valid: must be between 1 "
                    "and 65535, inclusive"
                ),
                (
                    'webhooks[0].clientConfig.service.path: Invalid value: "a//b": must '
                    "start with a '/'"
                ),
                (
                    'webhooks[0].clientConfig.service.path: Invalid value: "a//b": '
                    "segment[0] may not be empty"
                ),
                (
                    'webhooks[0].clientConfig.service.path: Invalid value: "a//b": '
                    "segment[1] may not be empty"
                ),
            ],
        ),
        (
            {"clientConfig": {"service": {"name": "a", "namespace": "b"}, "url": "https://x"}},
            ["webhooks[0].clientConfig: Required value: exactly one of url or service is required"],
        ),
        (
            {"sideEffects": "Some"},
            [
                (
                    'webhooks[0].sideEffects: Unsupported value: "Some": supported values: '
                    '"None", "NoneOnDryRun"'
                )
            ],
        ),
        (
            {"admissionReviewVersions": []},
            [
                (
                    "webhooks[0].admissionReviewVersions: Required value: must specify one "
                    "of v1, v1beta1"
                )
            ],
        ),
        (
            {"admissionReviewVersions": ["v3"]},
            [
                (
                    'webhooks[0].admissionReviewVersions: Invalid value: ["v3"]: must '
                    "include at least one of v1, v1beta1"
                )
            ],
        ),
        (
            {"failurePolicy": "X", "matchPolicy": "X", "timeoutSeconds": 31},
            [
                (
                    'webhooks[0].failurePolicy: Unsupported value: "X": supported values: '
                    '"Fail", "Ignore"'
                ),
                (
                    'webhooks[0].matchPolicy: Unsupported value: "X": supported values: '
                    '"Equivalent", "Exact"'
                ),
                (
                    "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must "
                    "be between 1 and 30 seconds"
                ),
            ],
        ),
        (
            {"namespaceSelector": {"matchLabels": {"a b": "c"}}},
            [f'webhooks[0].namespaceSelector.matchLabels: Invalid value: "a b": {KEY}'],
        ),
        (
            {"rules": [{}]},
            [
                "webhooks[0].rules[0].operations: Required value",
                "webhooks[0].rules[0].apiGroups: Required value",
                "webhooks[0].rules[0].apiVersions: Required value",
                "webhooks[0].rules[0].resources: Required value",
            ],
        ),
        (
            {
                "rules": [
                    {
                        **RULE,
                        "apiGroups": ["*", "a"],
                        "resources": ["*", "a/*"],
                        "operations": ["*", "CREATE"],
                        "scope": "X",
                    }
                ]
            },
            [
                (
                    'webhooks[0].rules[0].operations: Invalid value: ["*","CREATE"]: if '
                    "'*' is present, must not specify "
                    "other operations"
                ),
                (
                    'webhooks[0].rules[0].apiGroups: Invalid value: ["*","a"]: if \'*\' '
                    "is present, must not specify other "
                    "API groups"
                ),
                (
                    'webhooks[0].rules[0].scope: Unsupported value: "X": supported values: '
                    '"*", "Cluster", "Namespaced"'
                ),
            ],
        ),
        (
            {"matchConditions": [{"name": "a b", "expression": ""}]},
            [
                "webhooks[0].matchConditions[0].expression: Required value",
                f'webhooks[0].matchConditions[0].name: Invalid value: "a b": {KEY}',
            ],
        ),
    ],
)
def test_refused(judge, hook, wrong):
    assert judge.create(VALIDATING_WEBHOOKS, named(webhooks=[{**HOOK, **hook}])) == wrong


def test_webhook_names_are_unique(judge):
    assert judge.create(MUTATING_WEBHOOKS, named(webhooks=[HOOK, HOOK])) == [
        'webhooks[1].name: Duplicate value: "a.b.c"'
    ]


def test_change_increments_generation(judge):
    judge.made(VALIDATING_WEBHOOKS, named(webhooks=[HOOK]))
    assert (
        judge.changed(VALIDATING_WEBHOOKS, "rules-x", {"webhooks": []})["metadata"]["generation"]
        == 2
    )


def test_policy_defaults(judge):
    made = judge.made(
        POLICIES,
        named(
            spec={
                "validations": [{"expression": "true"}],
                "matchConstraints": {"resourceRules": [RULE]},
            }
        ),
    )
    assert made["spec"] == {
        "failurePolicy": "Fail",
        "validations": [{"expression": "true"}],
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "resourceRules": [{**RULE, "scope": "*"}],
        },
    }


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        (
            {"failurePolicy": "X"},
            ['spec.failurePolicy: Unsupported value: "X": supported values: "Fail", "Ignore"'],
        ),
        (
            {"validations": []},
            [
                (
                    "spec.validations: Required value: validations or auditAnnotations must "
                    "contain at least one item"
                ),
                (
                    "spec.auditAnnotations: Required value: validations or auditAnnotations "
                    "must contain at least one item"
                ),
            ],
        ),
        ({"matchConstraints": None}, ["spec.matchConstraints: Required value"]),
        (
            {"matchConstraints": {"resourceRules": [{}], "matchPolicy": "X"}},
            [
                (
                    'spec.matchConstraints.matchPolicy: Unsupported value: "X": supported '
                    'values: "Equivalent", "Exact"'
                ),
                "spec.matchConstraints.resourceRules[0].operations: Required value",
                "spec.matchConstraints.resourceRules[0].apiGroups: Required value",
                "spec.matchConstraints.resourceRules[0].apiVersions: Required value",
                "spec.matchConstraints.resourceRules[0].resources: Required value",
            ],
        ),
        (
            {"paramKind": {"apiVersion": "a/b/c", "kind": ""}},
            [
                (
                    'spec.paramKind.apiVersion: Invalid value: "a/b/c": unexpected '
                    "GroupVersion string: a/b/c"
                ),
                "spec.paramKind.kind: Required value",
            ],
        ),
        (
            {"auditAnnotations": [{"key": "a", "valueExpression": "'x'"}] * 2},
            ['spec.auditAnnotations[1].key: Duplicate value: "a"'],
        ),
        ({"variables": [{"name": "a", "expression": "1"}] * 2}, []),
    ],
)
def test_policies(judge, spec, wrong):
    given = {"validations": [{"expression": "true"}], "matchConstraints": {"resourceRules": [RULE]}}
    assert judge.create(POLICIES, named(spec={**given, **spec})) == wrong


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({}, []),
        ({"policyName": "A_"}, [f'spec.policyName: Invalid value: "A_": {SUBDOMAIN}']),
        (
            {"validationActions": ["X"]},
            [
                (
                    'spec.validationActions[0]: Unsupported value: "X": supported values: '
                    '"Audit", "Deny", "Warn"'
                )
            ],
        ),
        (
            {"validationActions": ["Deny", "Warn"]},
            [
                (
                    'spec.validationActions: Invalid value: ["Deny","Warn"]: must not '
                    "contain both Deny and Warn "
                    "(repeating the same validation failure information in the API "
                    "response and headers serves no "
                    "purpose)"
                )
            ],
        ),
        (
            {"validationActions": ["Deny", "Deny"]},
            ['spec.validationActions[1]: Duplicate value: "Deny"'],
        ),
        (
            {"paramRef": {"name": "a", "selector": {}, "parameterNotFoundAction": "X"}},
            [
                "spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
                "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive",
                (
                    'spec.paramRef.parameterNotFoundAction: Unsupported value: "X": '
                    'supported values: "Deny", "Allow"'
                ),
            ],
        ),
    ],
)
def test_bindings(judge, spec, wrong):
    assert (
        judge.create(
            BINDINGS, named(spec={"policyName": "a", "validationActions": ["Deny"], **spec})
        )
        == wrong
    )
