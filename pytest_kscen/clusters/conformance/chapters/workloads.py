"""Workloads and services: defaults, immutable fields, scaling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.clusters.conformance.case import case, parametrized_case, value_at

if TYPE_CHECKING:
    from pytest_kscen.clusters.conformance.case import CaseClient

LABELS = {"app": "x"}
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": LABELS},
    "spec": {"containers": [{"name": "c", "image": "i:1"}], "schedulerName": "absent"},
}
RUN_ONCE_TEMPLATE = {
    "metadata": {"labels": LABELS},
    "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"},
}
SELECTED = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}

BODIES: dict[str, dict[str, Any]] = {
    "deployments": {**SELECTED, "replicas": 0},
    "replicasets": {**SELECTED, "replicas": 0},
    "statefulsets": {**SELECTED, "replicas": 0, "serviceName": "s"},
    "daemonsets": {**SELECTED},
    "jobs": {"template": RUN_ONCE_TEMPLATE, "suspend": True},
    "cronjobs": {
        "schedule": "0 0 1 1 *",
        "suspend": True,
        "jobTemplate": {"spec": {"template": RUN_ONCE_TEMPLATE}},
    },
    "services": {"selector": LABELS, "ports": [{"port": 80}]},
    "persistentvolumeclaims": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "none",
    },
    "poddisruptionbudgets": {"minAvailable": 1, "selector": {"matchLabels": LABELS}},
    "ingresses": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}},
    "networkpolicies": {"podSelector": {}},
    "horizontalpodautoscalers": {
        "maxReplicas": 3,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
    },
    "resourcequotas": {"hard": {"pods": "1"}},
    "limitranges": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]},
}


def body(plural: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x"}, "spec": {**BODIES[plural], **spec}}


@parametrized_case(
    [
        (
            "deployment's strategy",
            "deployments",
            "strategy",
            {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
            },
        ),
        ("deployment's history", "deployments", "revisionHistoryLimit", 10),
        ("deployment's deadline", "deployments", "progressDeadlineSeconds", 600),
        ("deployment's pods", "deployments", "template.spec.restartPolicy", "Always"),
        (
            "daemon set's strategy",
            "daemonsets",
            "updateStrategy",
            {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
        ),
        (
            "stateful set's strategy",
            "statefulsets",
            "updateStrategy",
            {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        ),
        ("stateful set's order", "statefulsets", "podManagementPolicy", "OrderedReady"),
        (
            "stateful set's claims",
            "statefulsets",
            "persistentVolumeClaimRetentionPolicy",
            {"whenDeleted": "Retain", "whenScaled": "Retain"},
        ),
        ("job's parallelism", "jobs", "parallelism", 1),
        ("job's completions", "jobs", "completions", 1),
        ("job's backoff", "jobs", "backoffLimit", 6),
        ("job's mode", "jobs", "completionMode", "NonIndexed"),
        ("job's replacement", "jobs", "podReplacementPolicy", "TerminatingOrFailed"),
        ("cron job's concurrency", "cronjobs", "concurrencyPolicy", "Allow"),
        ("cron job's history", "cronjobs", "successfulJobsHistoryLimit", 3),
        ("cron job's failures", "cronjobs", "failedJobsHistoryLimit", 1),
        ("service's type", "services", "type", "ClusterIP"),
        ("service's protocol", "services", "ports.0.protocol", "TCP"),
        ("service's target", "services", "ports.0.targetPort", 80),
        ("service's affinity", "services", "sessionAffinity", "None"),
        ("service's policy", "services", "internalTrafficPolicy", "Cluster"),
        ("service's families", "services", "ipFamilies", ["IPv4"]),
        ("service's family policy", "services", "ipFamilyPolicy", "SingleStack"),
        ("claim's mode", "persistentvolumeclaims", "volumeMode", "Filesystem"),
        ("policy's types", "networkpolicies", "policyTypes", ["Ingress"]),
        ("autoscaler's minimum", "horizontalpodautoscalers", "minReplicas", 1),
        ("limit's requests", "limitranges", "limits.0.defaultRequest", {"cpu": "1"}),
    ]
)
def omitted_field_is_defaulted(client: CaseClient, plural: str, path: str, expected: Any) -> None:
    assert value_at(client.post(plural, body(plural)).ok(201)["spec"], path) == expected


@case
def job_labels_pods_with_its_uid(client: CaseClient) -> None:
    job = client.post("jobs", body("jobs")).ok(201)
    uid = job["metadata"]["uid"]
    assert job["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    labels = job["spec"]["template"]["metadata"]["labels"]
    assert labels["batch.kubernetes.io/job-name"] == labels["job-name"] == "x"
    assert labels["controller-uid"] == uid


@case
def service_receives_cluster_ip(client: CaseClient) -> None:
    spec = client.post("services", body("services")).ok(201)["spec"]
    assert spec["clusterIP"].count(".") == 3  # noqa: PLR2004
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    another = "10.0.0.1"  # reserved for the API server
    client.patch("services/x", {"spec": {"clusterIP": another}}).refused(
        422, "Invalid", "clusterIP"
    )


@case
def headless_service_has_no_cluster_ip(client: CaseClient) -> None:
    assert client.post("services", body("services", clusterIP="None")).ok(201)["spec"][
        "clusterIPs"
    ] == ["None"]


@case
def node_port_is_in_range(client: CaseClient) -> None:
    spec = client.post("services", body("services", type="NodePort")).ok(201)["spec"]
    assert 30000 <= spec["ports"][0]["nodePort"] <= 32767  # noqa: PLR2004


@parametrized_case(
    [
        (
            "selector misses the template",
            "deployments",
            {"selector": {"matchLabels": {"a": "b"}}},
            "spec.template.metadata.labels",
            "FieldValueInvalid",
        ),
        ("no selector", "deployments", {"selector": None}, "spec.selector", "FieldValueRequired"),
        (
            "negative replicas",
            "deployments",
            {"replicas": -1},
            "spec.replicas",
            "FieldValueInvalid",
        ),
        (
            "strategy",
            "deployments",
            {"strategy": {"type": "Guess"}},
            "spec.strategy",
            "FieldValueNotSupported",
        ),
        (
            "nothing to surge",
            "deployments",
            {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}},
            "spec.strategy.rollingUpdate.maxUnavailable",
            "FieldValueInvalid",
        ),
        (
            "restart policy of a deployment",
            "deployments",
            {
                "template": {
                    "metadata": {"labels": LABELS},
                    "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"},
                }
            },
            "spec.template.spec.restartPolicy",
            "FieldValueNotSupported",
        ),
        ("empty selector", "replicasets", {"selector": {}}, "spec.selector", "FieldValueInvalid"),
        (
            "update strategy",
            "statefulsets",
            {"updateStrategy": {"type": "Guess"}},
            "spec.updateStrategy",
            "FieldValueInvalid",
        ),
        (
            "restart policy of a job",
            "jobs",
            {"template": TEMPLATE},
            "spec.template.spec.restartPolicy",
            "FieldValueNotSupported|FieldValueRequired",
        ),
        (
            "negative parallelism",
            "jobs",
            {"parallelism": -1},
            "spec.parallelism",
            "FieldValueInvalid",
        ),
        (
            "schedule",
            "cronjobs",
            {"schedule": "now and then"},
            "spec.schedule",
            "FieldValueInvalid",
        ),
        (
            "concurrency",
            "cronjobs",
            {"concurrencyPolicy": "Maybe"},
            "spec.concurrencyPolicy",
            "FieldValueNotSupported",
        ),
        ("time zone", "cronjobs", {"timeZone": "Atlantis"}, "spec.timeZone", "FieldValueInvalid"),
        ("no ports", "services", {"ports": []}, "spec.ports", "FieldValueRequired"),
        ("port", "services", {"ports": [{"port": 0}]}, "spec.ports[0].port", "FieldValueInvalid"),
        (
            "two ports without names",
            "services",
            {"ports": [{"port": 1}, {"port": 2}]},
            "spec.ports[0].name",
            "FieldValueRequired",
        ),
        ("type of service", "services", {"type": "Magic"}, "spec.type", "FieldValueNotSupported"),
        (
            "no access",
            "persistentvolumeclaims",
            {"accessModes": []},
            "spec.accessModes",
            "FieldValueRequired",
        ),
        (
            "access",
            "persistentvolumeclaims",
            {"accessModes": ["Never"]},
            "spec.accessModes",
            "FieldValueNotSupported",
        ),
        (
            "no size",
            "persistentvolumeclaims",
            {"resources": {}},
            "spec.resources[storage]",
            "FieldValueRequired",
        ),
        ("both limits", "poddisruptionbudgets", {"maxUnavailable": 1}, "spec", "FieldValueInvalid"),
        (
            "percent",
            "poddisruptionbudgets",
            {"minAvailable": "many"},
            "spec.minAvailable",
            "FieldValueInvalid",
        ),
        ("no backend", "ingresses", {"defaultBackend": None}, "spec", "FieldValueInvalid"),
        (
            "policy type",
            "networkpolicies",
            {"policyTypes": ["Sideways"]},
            "spec.policyTypes[0]",
            "FieldValueNotSupported",
        ),
        (
            "no maximum",
            "horizontalpodautoscalers",
            {"maxReplicas": 0},
            "spec.maxReplicas",
            "FieldValueInvalid",
        ),
        (
            "minimum over maximum",
            "horizontalpodautoscalers",
            {"minReplicas": 5},
            "spec.maxReplicas",
            "FieldValueInvalid",
        ),
    ]
)
def invalid_spec_is_refused(
    client: CaseClient, plural: str, spec: dict[str, Any], field: str, reason: str
) -> None:
    refusal = client.post(plural, body(plural, **spec)).refused(422, "Invalid")
    assert any(found == field and why in reason.split("|") for found, why in refusal.causes), (
        refusal.body["details"]
    )


@parametrized_case(
    [
        (
            "deployment's selector",
            "deployments",
            {"selector": {"matchLabels": {"app": "x", "b": "c"}}},
            "spec.selector",
        ),
        ("stateful set's service", "statefulsets", {"serviceName": "other"}, "spec"),
        ("job's template", "jobs", {"completionMode": "Indexed"}, "spec.completionMode"),
        ("claim's class", "persistentvolumeclaims", {"storageClassName": "other"}, "spec"),
        (
            "claim's size",
            "persistentvolumeclaims",
            {"resources": {"requests": {"storage": "2Gi"}}},
            "spec",
        ),
    ]
)
def immutable_field_cannot_change(
    client: CaseClient, plural: str, spec: dict[str, Any], field: str
) -> None:
    client.post(plural, body(plural)).ok(201)
    refusal = client.patch(f"{plural}/x", {"spec": spec})
    assert refusal.status in {403, 422}, refusal.body
    assert field in {found for found, _ in refusal.causes} or plural == "persistentvolumeclaims", (
        refusal.body["details"]
    )


@parametrized_case([(plural, plural) for plural in ("deployments", "replicasets", "statefulsets")])
def scale_subresource_sets_replicas(client: CaseClient, plural: str) -> None:
    client.post(plural, body(plural)).ok(201)
    scale = client.get(f"{plural}/x/scale").ok()
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["status"]["selector"] == "app=x"
    scaled = client.patch(f"{plural}/x/scale", {"spec": {"replicas": 2}}).ok()
    assert scaled["spec"]["replicas"] == 2  # noqa: PLR2004
    assert client.get(f"{plural}/x").ok()["spec"]["replicas"] == 2  # noqa: PLR2004
    client.patch(f"{plural}/x/scale", {"spec": {"replicas": -1}}).refused(
        422, "Invalid", "must be greater than or equal to 0"
    )
    client.patch(f"{plural}/x/scale", {"spec": {"replicas": 0}}).ok()


@case
def secret_string_data_becomes_data(client: CaseClient) -> None:
    made = client.post("secrets", {"metadata": {"name": "s"}, "stringData": {"a": "1"}}).ok(201)
    assert (made["data"], made["type"]) == ({"a": "MQ=="}, "Opaque")
    assert "stringData" not in made


@case
def quota_is_counted_and_enforced(client: CaseClient) -> None:
    client.post(
        "resourcequotas",
        {"metadata": {"name": "q"}, "spec": {"hard": {"count/leases.coordination.k8s.io": "1"}}},
    ).ok(201)
    client.until(lambda: client.get("resourcequotas/q").ok().get("status", {}).get("used"))
    client.post("leases", {"metadata": {"name": "a"}}).ok(201)
    client.until(
        lambda: (
            client.get("resourcequotas/q").ok()["status"]["used"]
            == {"count/leases.coordination.k8s.io": "1"}
        )
    )
    refusal = client.post("leases", {"metadata": {"name": "b"}})
    words = (
        "exceeded quota: q, requested: count/leases.coordination.k8s.io=1, used: "
        "count/leases.coordination.k8s.io=1, "
    )
    refusal.refused(403, "Forbidden", words + "limited: count/leases.coordination.k8s.io=1")


@case
def limit_range_sets_defaults_and_limits(client: CaseClient) -> None:
    client.wait_for_service_account()
    limits = [
        {
            "type": "Container",
            "default": {"cpu": "500m"},
            "defaultRequest": {"cpu": "250m"},
            "max": {"cpu": "1"},
        }
    ]
    client.post("limitranges", {"metadata": {"name": "l"}, "spec": {"limits": limits}}).ok(201)
    pod = {
        "metadata": {"name": "p"},
        "spec": {"schedulerName": "absent", "containers": [{"name": "c", "image": "i"}]},
    }

    def limited() -> Any:
        made = client.post("pods", pod)
        if made.ok(201)["spec"]["containers"][0]["resources"]:
            return made.body
        client.delete("pods/p")
        return None

    resources = client.until(limited)["spec"]["containers"][0]["resources"]
    assert resources == {"limits": {"cpu": "500m"}, "requests": {"cpu": "250m"}}
    large = {"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}}}
    refusal = client.post(
        "pods",
        {"metadata": {"name": "q"}, "spec": {"schedulerName": "absent", "containers": [large]}},
    )
    refusal.refused(403, "Forbidden", "maximum cpu usage per Container is 1, but limit is 2")


@case
def default_storage_class_is_set(client: CaseClient) -> None:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    client.post(
        "storageclasses",
        {
            "metadata": {"name": client.namespace, "annotations": annotations},
            "provisioner": "example.com/x",
        },
    ).ok(201)
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}

    def classed() -> Any:
        made = client.post(
            "persistentvolumeclaims", {"metadata": {"generateName": "c-"}, "spec": claim}
        ).ok(201)
        return made["spec"].get("storageClassName") == client.namespace

    client.until(classed)


@case
def claim_has_protection_finalizer(client: CaseClient) -> None:
    made = client.post("persistentvolumeclaims", body("persistentvolumeclaims")).ok(201)
    assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert made["status"]["phase"] == "Pending"
