from __future__ import annotations

import base64
import json
import time

import pytest

from conftest import certificate
from pytest_kscen.objects.errors import ApiError
from pytest_kscen.objects.resources import (
    CONFIG_MAPS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    SERVICES,
    VALIDATING_WEBHOOKS,
)

RULE = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["configmaps"]}
FAILED = 'Internal error occurred: failed calling webhook "hook.example.com": '
CALLED = FAILED + "failed to call webhook: "


def spec(client, *, name="hook.example.com", **more):
    usual = {
        "rules": [RULE],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 1,
    }
    return {"name": name, "clientConfig": client, **usual, **more}


def configure(site, *webhooks, mutating=False, name="hooks"):
    resource = MUTATING_WEBHOOKS if mutating else VALIDATING_WEBHOOKS
    site.create(resource, name, webhooks=list(webhooks))


def admitting_webhook(change):
    """Return a webhook that admits requests, with the changes that `change` makes to its response."""

    def answer(answer, request):
        change(answer.review["response"], request)
        return answer

    return answer


def patching(*operations):
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return admitting_webhook(
        lambda response, _: response.update(patchType="JSONPatch", patch=encoded)
    )


def refusal(site, name="c", **more):
    with pytest.raises(ApiError) as raised:
        site.create(CONFIG_MAPS, name, data={"a": "1"}, **more)
    return raised.value


# --- the request that a webhook receives ---


def test_webhook_receives_admission_review(site, webhook_server):
    webhook_server.answers["/"] = lambda answer, _: answer
    configure(site, spec(webhook_server.config()))
    site.create(CONFIG_MAPS, "c", data={"a": "1"}, dry_run=True)
    created = webhook_server.asked[0]
    uid, metadata = created.pop("uid"), created["object"]["metadata"]
    assert created == {
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "requestResource": {"group": "", "version": "v1", "resource": "configmaps"},
        "name": "c",
        "namespace": "n",
        "operation": "CREATE",
        "userInfo": {
            "username": "system:admin",
            "groups": ["system:masters", "system:authenticated"],
        },
        "object": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {"a": "1"},
        },
        "oldObject": None,
        "dryRun": True,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"]},
    }
    assert uid != metadata["uid"]
    assert metadata["managedFields"][0]["fieldsV1"] == {"f:data": {".": {}, "f:a": {}}}


def test_webhook_receives_old_and_new_object(site, webhook_server):
    webhook_server.answers["/"] = lambda answer, _: answer
    site.create(CONFIG_MAPS, "c", data={"a": "1"})
    configure(site, spec(webhook_server.config()))
    site.patch(CONFIG_MAPS, "c", {"data": {"a": "2"}})
    site.delete(CONFIG_MAPS, "c", grace_period=0, propagation="Background")
    updated, deleted = webhook_server.asked
    assert (updated["oldObject"]["data"], updated["object"]["data"]) == ({"a": "1"}, {"a": "2"})
    assert (deleted["oldObject"]["data"], deleted["object"]) == ({"a": "2"}, None)
    assert deleted["options"] == {
        "kind": "DeleteOptions",
        "apiVersion": "meta.k8s.io/v1",
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
    }


# --- which webhooks are asked ---


@pytest.mark.parametrize(
    ("more", "asked"),
    [
        ({}, True),
        ({"rules": [{**RULE, "operations": ["UPDATE"]}]}, False),
        ({"rules": [{**RULE, "resources": ["pods", "configmaps/status"]}]}, False),
        ({"rules": [{**RULE, "resources": ["*"]}]}, True),
        ({"rules": [{**RULE, "apiGroups": ["apps"]}]}, False),
        ({"rules": [{**RULE, "scope": "Cluster"}]}, False),
        ({"rules": [{**RULE, "scope": "Namespaced"}]}, True),
        ({"objectSelector": {"matchLabels": {"l": "1"}}}, True),
        ({"objectSelector": {"matchLabels": {"l": "2"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "n"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "m"}}}, False),
        (
            {
                "matchConditions": [
                    {
                        "name": "c",
                        "expression": "object.data.a == '1' && request.operation == 'CREATE'",
                    }
                ]
            },
            True,
        ),
        (
            {
                "matchConditions": [
                    {"name": "c", "expression": "object.metadata.name.startsWith('x')"}
                ]
            },
            False,
        ),
        (
            {
                "matchConditions": [
                    {
                        "name": "c",
                        "expression": "oldObject == null && object.?data.?b.orValue('no') == 'no'",
                    }
                ]
            },
            True,
        ),
    ],
)
def test_rules_selectors_and_conditions_select_webhooks(site, webhook_server, more, asked):
    webhook_server.answers["/"] = lambda answer, _: answer
    configure(site, spec(webhook_server.config(), **more))
    site.create(CONFIG_MAPS, "c", metadata={"labels": {"l": "1"}}, data={"a": "1"})
    assert len(webhook_server.requests) == asked


def test_failed_condition_follows_failure_policy(site, webhook_server):
    webhook_server.answers["/"] = lambda answer, _: answer
    odd = [{"name": "odd", "expression": "object.nothing.there == 1"}]
    configure(site, spec(webhook_server.config(), matchConditions=odd))
    refused = refusal(site)
    assert refused.code == 403
    why = "expression 'object.nothing.there == 1' resulted in error: no such key: nothing"
    assert refused.message == f'configmaps "c" is forbidden: {why}'
    site.patch(
        VALIDATING_WEBHOOKS,
        "hooks",
        {"webhooks": [spec(webhook_server.config(), matchConditions=odd, failurePolicy="Ignore")]},
    )
    site.create(CONFIG_MAPS, "c")
    assert not webhook_server.requests


def test_equivalent_version_matches_unless_exact(site, webhook_server):
    from pytest_kscen.objects.resources import Resource

    scalers = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
    webhook_server.answers["/"] = lambda answer, _: answer
    rule = {
        "apiGroups": ["autoscaling"],
        "apiVersions": ["v1"],
        "operations": ["*"],
        "resources": ["*"],
    }
    configure(site, spec(webhook_server.config(), rules=[rule]))
    target = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
    site.create(scalers, "h", spec={"maxReplicas": 3, "scaleTargetRef": target})
    (request,) = webhook_server.asked
    versions = [
        request[name]["version"] for name in ("kind", "resource", "requestKind", "requestResource")
    ]
    assert versions == ["v1", "v1", "v2", "v2"]
    assert request["object"]["apiVersion"] == "autoscaling/v1"
    site.patch(
        VALIDATING_WEBHOOKS,
        "hooks",
        {"webhooks": [spec(webhook_server.config(), rules=[rule], matchPolicy="Exact")]},
    )
    site.create(scalers, "i", spec={"maxReplicas": 3, "scaleTargetRef": target})
    assert len(webhook_server.requests) == 1


def test_namespace_selector_uses_namespace_labels(site, webhook_server):
    webhook_server.answers["/"] = lambda answer, _: answer
    rule = {**RULE, "resources": ["namespaces", "priorityclasses"], "scope": "Cluster"}
    selector = {"matchLabels": {"kubernetes.io/metadata.name": "m"}}
    configure(site, spec(webhook_server.config(), rules=[rule], namespaceSelector=selector))
    site.create(NAMESPACES, "m")
    site.create(NAMESPACES, "o")
    site.create(PRIORITY_CLASSES, "p", value=1)
    assert [(each["name"], each.get("namespace")) for each in webhook_server.asked] == [
        ("m", "m"),
        ("p", None),
    ]


def test_webhook_configurations_skip_webhooks(site, webhook_server):
    webhook_server.answers["/"] = admitting_webhook(
        lambda response, _: response.update(allowed=False)
    )
    configure(site, spec(webhook_server.config(), rules=[{**RULE, "resources": ["*"]}]))
    site.delete(VALIDATING_WEBHOOKS, "hooks")
    site.create(CONFIG_MAPS, "c")
    assert not webhook_server.requests


# --- verdicts ---


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (
            {"message": "no way", "code": 418, "reason": "Teapot"},
            (418, "Teapot", "denied the request: no way"),
        ),
        ({"reason": "BecauseISaySo"}, (400, "BecauseISaySo", "denied the request: BecauseISaySo")),
        ({"message": "x", "code": 200, "status": "Success"}, (400, None, "denied the request: x")),
        (None, (400, None, "denied the request without explanation")),
    ],
)
@pytest.mark.parametrize("mutating", [False, True])
def test_denial_has_webhook_message(site, webhook_server, mutating, status, expected):
    webhook_server.answers["/"] = admitting_webhook(
        lambda response, _: response.update(allowed=False, status=status)
    )
    configure(site, spec(webhook_server.config(), failurePolicy="Ignore"), mutating=mutating)
    refused = refusal(site).status
    start = 'admission webhook "hook.example.com" '
    assert (
        refused["code"],
        refused.get("reason"),
        refused["message"].removeprefix(start),
    ) == expected


def test_webhook_warnings_are_returned(site, webhook_server):
    webhook_server.answers["/"] = admitting_webhook(
        lambda response, _: response.update(warnings=["careful"], auditAnnotations={"a": "b"})
    )
    configure(site, spec(webhook_server.config()))
    site.create(CONFIG_MAPS, "c")
    assert site.warnings == ["careful"]


def test_dry_run_calls_webhooks_without_side_effects(site, webhook_server):
    webhook_server.answers["/"] = lambda answer, _: answer
    configure(site, spec(webhook_server.config(), sideEffects="NoneOnDryRun"))
    site.create(CONFIG_MAPS, "c", dry_run=True)
    assert len(webhook_server.requests) == 1


# --- changing ---


def test_webhook_patch_keeps_field_owners(site, webhook_server):
    webhook_server.answers["/"] = patching(
        {"op": "add", "path": "/data/b", "value": "2"}, {"op": "add", "path": "/zork", "value": 1}
    )
    configure(site, spec(webhook_server.config()), mutating=True)
    made = site.create(CONFIG_MAPS, "c", data={"a": "1"})
    assert made["data"] == {"a": "1", "b": "2"}
    assert "zork" not in made
    assert made["metadata"]["managedFields"][0]["fieldsV1"] == {"f:data": {".": {}, "f:a": {}}}


def test_plugins_run_again_after_webhook_change(site, webhook_server):
    containers = [
        {"op": "add", "path": "/spec/containers/-", "value": {"name": "side", "image": "i"}}
    ]
    webhook_server.answers["/"] = patching(*containers)
    configure(
        site, spec(webhook_server.config(), rules=[{**RULE, "resources": ["pods"]}]), mutating=True
    )
    made = site.create(PODS, "p", spec={"containers": [{"name": "c", "image": "i"}]})
    assert [each["name"] for each in made["spec"]["containers"]] == ["c", "side"]
    assert all(each["volumeMounts"] for each in made["spec"]["containers"])


def test_reinvocation_policy_repeats_webhook_call(site, webhook_server):
    asked = []

    def noting(name):
        def answer(answer, _):
            asked.append(name)
            return answer

        return answer

    webhook_server.answers |= {f"/{name}": noting(name) for name in "acd"}
    webhook_server.answers["/b"] = patching({"op": "add", "path": "/data/b", "value": "2"})
    hooks = [spec(webhook_server.config(f"/{name}"), name=f"{name}.example.com") for name in "abcd"]
    for hook, policy in zip(hooks, ("IfNeeded", "IfNeeded", "IfNeeded", "Never"), strict=True):
        hook["reinvocationPolicy"] = policy
    configure(site, *hooks, mutating=True)
    site.create(CONFIG_MAPS, "c", data={"a": "1"})
    assert asked == ["a", "c", "d", "a"]


# --- what can go wrong ---


def malformed(change):
    return admitting_webhook(lambda response, _: change(response))


def raw(body, code=200):
    def answer(answer, _):
        answer.raw, answer.code = body, code
        return answer

    return answer


def without_response(answer, _):
    del answer.review["response"]
    return answer


def of_another_version(answer, _):
    answer.review["apiVersion"] = "admission.k8s.io/v2"
    return answer


STRUCT = (
    r'Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind '
    r'string "json:\"kind,omitempty\"" }'
)
REGISTERED = (
    'no kind "AdmissionReview" is registered for version "admission.k8s.io/v2" in scheme '
    '"pkg/runtime/scheme.go:111"'
)
NO_JSON = (
    f"couldn't get version/kind; json parse error: json: cannot unmarshal string into {STRUCT}"
)
NO_OBJECT = (
    f"couldn't get version/kind; json parse error: json: cannot unmarshal array into {STRUCT}"
)
INVALID = FAILED + "received invalid webhook response: "


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (raw(b"hello"), CALLED + NO_JSON),
        (raw(b"[]"), CALLED + NO_OBJECT),
        (
            raw(b""),
            CALLED + "0-length response with status code: 200 and content type: application/json",
        ),
        (
            raw(b"oh", 500),
            CALLED + 'an error on the server ("unknown") has prevented the request from succeeding',
        ),
        (raw(b'{"kind":"Status","message":"mine"}', 500), CALLED + "mine"),
        (raw(b"", 404), CALLED + "the server could not find the requested resource"),
        (without_response, INVALID + "webhook response was absent"),
        (of_another_version, CALLED + REGISTERED),
        (
            malformed(lambda response: response.update(patchType="JSONPatch")),
            INVALID + "validating webhook may not return response.patchType",
        ),
        (
            patching({"op": "test", "path": ""}),
            INVALID + "validating webhook may not return response.patch",
        ),
        (
            malformed(lambda response: response.update(allowed="yes")),
            CALLED
            + (
                "json: cannot unmarshal string into Go struct field "
                "AdmissionResponse.response.allowed of type bool"
            ),
        ),
        (raw(b'{"a":"' + b"x" * 20_000_000 + b'"}'), INVALID + "webhook response was absent"),
    ],
)
def test_malformed_webhook_response_is_refused(site, webhook_server, answer, message):
    webhook_server.answers["/"] = answer
    configure(site, spec(webhook_server.config()))
    refused = refusal(site)
    assert (refused.code, refused.message) == (500, message)
    assert refused.status["details"] == {"causes": [{"message": message.partition(": ")[2]}]}


def test_response_with_other_uid_is_refused(site, webhook_server):
    webhook_server.answers["/"] = malformed(lambda response: response.update(uid="other"))
    configure(site, spec(webhook_server.config()))
    uid = (
        refusal(site)
        .message.removeprefix(INVALID + 'expected response.uid="')
        .removesuffix('", got "other"')
    )
    assert uid == webhook_server.asked[0]["uid"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            patching({"op": "remove", "path": "/nope"}),
            (
                "error in remove for path: '/nope': Unable to remove nonexistent key: nope: "
                "missing value"
            ),
        ),
        (
            patching({"op": "add", "path": "/data", "value": "x"}),
            (
                "json: cannot unmarshal string into Go struct field ConfigMap.data of type "
                "map[string]string"
            ),
        ),
        (
            malformed(lambda response: response.update(patchType="JSONPatch", patch="e30=")),
            (
                'failed calling webhook "hook.example.com": received undecodable patch '
                "in webhook response: "
                "json: cannot unmarshal object into Go value of type jsonpatch.Patch"
            ),
        ),
        (
            malformed(lambda response: response.update(patchType="JSONPatch", patch="!!!")),
            (
                'failed calling webhook "hook.example.com": failed to call webhook: illegal '
                "base64 data at input byte 0"
            ),
        ),
        (
            malformed(lambda response: response.update(patch="W10=")),
            (
                'failed calling webhook "hook.example.com": received invalid webhook response: '
                "webhook returned response.patch but not response.patchType"
            ),
        ),
    ],
)
def test_invalid_webhook_patch_is_refused(site, webhook_server, answer, message):
    webhook_server.answers["/"] = answer
    configure(site, spec(webhook_server.config()), mutating=True)
    assert refusal(site).message == f"Internal error occurred: {message}"
    assert site.ask("list", CONFIG_MAPS)["items"] == []


def test_hanging_webhook_times_out_by_wall_clock(site, webhook_server):
    webhook_server.answers["/"] = lambda *_: time.sleep(4)
    configure(site, spec(webhook_server.config()))
    before, began = site.runner.clock.now(), time.monotonic()
    assert refusal(site).message == (
        f'{CALLED}Post "https://127.0.0.1:{webhook_server.port}/?timeout=1s": context deadline exceeded'
    )
    assert site.runner.clock.now() == before
    assert 0.9 < time.monotonic() - began < 3.5


@pytest.mark.parametrize(
    ("client", "why"),
    [
        (
            lambda shop: {**shop.config(), "caBundle": ""},
            "x509: certificate signed by unknown authority",
        ),
        (
            lambda shop: {
                **shop.config(),
                "caBundle": base64.b64encode(certificate("127.0.0.1")[1]).decode(),
            },
            "x509: certificate signed by unknown authority",
        ),
        (
            lambda shop: {**shop.config(), "url": f"https://localhost:{shop.port}/"},
            "x509: certificate is not valid for any names, but wanted to match localhost",
        ),
    ],
)
def test_untrusted_webhook_certificate_is_refused(site, webhook_server, client, why):
    webhook_server.answers["/"] = lambda answer, _: answer
    configure(site, spec(client(webhook_server)))
    assert refusal(site).message.endswith(
        f'/?timeout=1s": tls: failed to verify certificate: {why}'
    )
    assert not webhook_server.requests


def test_unreachable_webhook_fails(site):
    configure(site, spec({"url": "https://127.0.0.1:1/x"}))
    refused = refusal(site)
    assert refused.message == (
        f'{CALLED}Post "https://127.0.0.1:1/x?timeout=1s": dial tcp 127.0.0.1:1: connect: '
        "connection refused"
    )
    site.patch(
        VALIDATING_WEBHOOKS,
        "hooks",
        {"webhooks": [spec({"url": "https://127.0.0.1:1/x"}, failurePolicy="Ignore")]},
    )
    site.create(CONFIG_MAPS, "c")


def test_service_webhook_requires_stand_in(site, webhook_server):
    webhook_server.answers["/path"] = lambda answer, _: answer
    client = {
        "service": {"name": "hook", "namespace": "n", "path": "/path"},
        "caBundle": webhook_server.config()["caBundle"],
    }
    configure(site, spec(client))
    asked = f'{CALLED}Post "https://hook.n.svc:443/path?timeout=1s"'
    assert refusal(site).message == f'{asked}: service "hook" not found'
    site.create(SERVICES, "hook", spec={"ports": [{"port": 443}]})
    assert refusal(site).message == (
        f'{asked}: nothing listens behind the simulated service "hook": annotate the service with '
        "kscen.io/address=HOST:PORT of a server on this machine, or use clientConfig.url"
    )
    site.patch(
        SERVICES,
        "hook",
        {"metadata": {"annotations": {"kscen.io/address": f"127.0.0.1:{webhook_server.port}"}}},
    )
    site.create(CONFIG_MAPS, "c")
    assert len(webhook_server.requests) == 1


def test_concurrent_write_during_webhook_is_kept(site, webhook_server):
    """The webhook writes to the same object before it admits the patch, so the patch is repeated."""
    site.create(CONFIG_MAPS, "c", data={"a": "1"})

    def concurrent_writer(answer, _):
        if len(webhook_server.requests) == 1:
            from pytest_kscen.kube.api import MERGE_PATCH, Request

            body = {"metadata": {"labels": {"by": "hook"}}}
            request = Request("patch", CONFIG_MAPS, "n", "c", body=body, patch_type=MERGE_PATCH)
            site.runner.submit(site.server.handle(request)).result()
        return answer

    webhook_server.answers["/"] = concurrent_writer
    rule = {**RULE, "operations": ["UPDATE"]}
    configure(
        site,
        spec(
            webhook_server.config(),
            rules=[rule],
            matchConditions=[{"name": "d", "expression": "'b' in object.data"}],
        ),
    )
    updated = site.patch(CONFIG_MAPS, "c", {"data": {"b": "2"}})
    assert (updated["data"], updated["metadata"]["labels"]) == (
        {"a": "1", "b": "2"},
        {"by": "hook"},
    )
    assert len(webhook_server.requests) == 2
