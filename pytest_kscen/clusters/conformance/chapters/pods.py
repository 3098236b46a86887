"""Pods: defaults, validation, mutable fields, subresources, deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.clusters.conformance.case import case, parametrized_case, value_at

if TYPE_CHECKING:
    from pytest_kscen.clusters.conformance.case import CaseClient


NO_SCHEDULER = {"schedulerName": "absent"}


def pod(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a pod whose scheduler does not exist, so that it stays unscheduled."""
    containers = [{"name": "c", "image": "i:1", **(container or {})}]
    return {"metadata": {"name": "p"}, "spec": {**NO_SCHEDULER, "containers": containers, **spec}}


def create_pod(client: CaseClient, body: dict[str, Any]) -> Any:
    client.wait_for_service_account()
    return client.post("pods", body).ok(201)


@parametrized_case(
    [
        ("restart policy", {}, "spec.restartPolicy", "Always"),
        ("dns policy", {}, "spec.dnsPolicy", "ClusterFirst"),
        ("grace", {}, "spec.terminationGracePeriodSeconds", 30),
        ("security context", {}, "spec.securityContext", {}),
        ("service links", {}, "spec.enableServiceLinks", True),
        ("service account", {}, "spec.serviceAccountName", "default"),
        ("priority", {}, "spec.priority", 0),
        ("preemption", {}, "spec.preemptionPolicy", "PreemptLowerPriority"),
        ("pull of a tag", {}, "spec.containers.0.imagePullPolicy", "IfNotPresent"),
        ("message path", {}, "spec.containers.0.terminationMessagePath", "/dev/termination-log"),
        ("message policy", {}, "spec.containers.0.terminationMessagePolicy", "File"),
        ("resources", {}, "spec.containers.0.resources", {}),
        ("pull of latest", {"image": "i"}, "spec.containers.0.imagePullPolicy", "Always"),
        (
            "pull of named latest",
            {"image": "i:latest"},
            "spec.containers.0.imagePullPolicy",
            "Always",
        ),
        (
            "port's protocol",
            {"ports": [{"containerPort": 80}]},
            "spec.containers.0.ports.0.protocol",
            "TCP",
        ),
        (
            "requests from limits",
            {"resources": {"limits": {"cpu": "1"}}},
            "spec.containers.0.resources.requests",
            {"cpu": "1"},
        ),
        (
            "quantities",
            {"resources": {"requests": {"cpu": "1000m"}}},
            "spec.containers.0.resources.requests",
            {"cpu": "1"},
        ),
        (
            "quantity's form",
            {"resources": {"requests": {"memory": "1024Mi"}}},
            "spec.containers.0.resources.requests",
            {"memory": "1Gi"},
        ),
        (
            "probe's period",
            {"readinessProbe": {"exec": {"command": ["x"]}}},
            "spec.containers.0.readinessProbe.periodSeconds",
            10,
        ),
        (
            "probe's failures",
            {"livenessProbe": {"exec": {"command": ["x"]}}},
            "spec.containers.0.livenessProbe.failureThreshold",
            3,
        ),
        (
            "probe's scheme",
            {"livenessProbe": {"httpGet": {"port": 80}}},
            "spec.containers.0.livenessProbe.httpGet.scheme",
            "HTTP",
        ),
        (
            "field's version",
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
            "spec.containers.0.env.0.valueFrom.fieldRef.apiVersion",
            "v1",
        ),
    ]
)
def omitted_field_is_defaulted(
    client: CaseClient, container: dict[str, Any], path: str, expected: Any
) -> None:
    assert value_at(create_pod(client, pod(container)), path) == expected


@case
def default_scheduler_name_is_set(client: CaseClient) -> None:
    body = {
        "metadata": {"name": "p"},
        "spec": {"nodeName": "nowhere", "containers": [{"name": "c", "image": "i"}]},
    }
    assert create_pod(client, body)["spec"]["schedulerName"] == "default-scheduler"
    client.delete("pods/p", gracePeriodSeconds=0)


@case
def new_pod_is_pending(client: CaseClient) -> None:
    status = create_pod(client, {**pod(), "status": {"phase": "Running"}})["status"]
    assert status["phase"] == "Pending"
    assert status["qosClass"] == "BestEffort"


@parametrized_case(
    [
        ("guaranteed", {"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ("burstable", {"requests": {"cpu": "1"}}, "Burstable"),
        ("best effort", {}, "BestEffort"),
    ]
)
def qos_class_follows_resources(
    client: CaseClient, resources: dict[str, Any], expected: str
) -> None:
    assert create_pod(client, pod({"resources": resources}))["status"]["qosClass"] == expected


@case
def default_tolerations_are_added(client: CaseClient) -> None:
    tolerations = create_pod(client, pod())["spec"]["tolerations"]
    assert {(one["key"], one["effect"], one["tolerationSeconds"]) for one in tolerations} == {
        ("node.kubernetes.io/not-ready", "NoExecute", 300),
        ("node.kubernetes.io/unreachable", "NoExecute", 300),
    }


@parametrized_case(
    [
        ("none", {"containers": []}, "spec.containers", "FieldValueRequired"),
        (
            "name",
            {"containers": [{"name": "A", "image": "i"}]},
            "spec.containers[0].name",
            "FieldValueInvalid",
        ),
        (
            "no name",
            {"containers": [{"image": "i"}]},
            "spec.containers[0].name",
            "FieldValueRequired",
        ),
        (
            "no image",
            {"containers": [{"name": "a"}]},
            "spec.containers[0].image",
            "FieldValueRequired",
        ),
        (
            "twice",
            {"containers": [{"name": "a", "image": "i"}] * 2},
            "spec.containers[1].name",
            "FieldValueDuplicate",
        ),
        (
            "restart policy",
            {"restartPolicy": "Sometimes"},
            "spec.restartPolicy",
            "FieldValueNotSupported",
        ),
        ("dns policy", {"dnsPolicy": "Guess"}, "spec.dnsPolicy", "FieldValueNotSupported"),
        (
            "deadline",
            {"activeDeadlineSeconds": 0},
            "spec.activeDeadlineSeconds",
            "FieldValueInvalid",
        ),
        ("node selector", {"nodeSelector": {"-a": "b"}}, "spec.nodeSelector", "FieldValueInvalid"),
        (
            "volumes twice",
            {"volumes": [{"name": "v", "emptyDir": {}}] * 2},
            "spec.volumes[1].name",
            "FieldValueDuplicate",
        ),
        (
            "volume's name",
            {"volumes": [{"name": "V", "emptyDir": {}}]},
            "spec.volumes[0].name",
            "FieldValueInvalid",
        ),
        (
            "toleration",
            {"tolerations": [{"operator": "Exists", "value": "x"}]},
            "spec.tolerations[0].operator",
            "FieldValueInvalid",
        ),
    ]
)
def invalid_pod_spec_is_refused(
    client: CaseClient, spec: dict[str, Any], field: str, reason: str
) -> None:
    client.wait_for_service_account()
    assert (field, reason) in client.post("pods", pod(**spec)).refused(422, "Invalid").causes


@parametrized_case(
    [
        (
            "port",
            {"ports": [{"containerPort": 70000}]},
            "spec.containers[0].ports[0].containerPort",
            "FieldValueInvalid",
        ),
        (
            "no port",
            {"ports": [{}]},
            "spec.containers[0].ports[0].containerPort",
            "FieldValueRequired",
        ),
        (
            "protocol",
            {"ports": [{"containerPort": 1, "protocol": "X"}]},
            "spec.containers[0].ports[0].protocol",
            "FieldValueNotSupported",
        ),
        (
            "pull policy",
            {"imagePullPolicy": "Maybe"},
            "spec.containers[0].imagePullPolicy",
            "FieldValueNotSupported",
        ),
        (
            "variable",
            {"env": [{"name": "a=b"}]},
            "spec.containers[0].env[0].name",
            "FieldValueInvalid",
        ),
        (
            "mount",
            {"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
            "spec.containers[0].volumeMounts[0].name",
            "FieldValueNotFound",
        ),
        (
            "requests over limits",
            {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}},
            "spec.containers[0].resources.requests",
            "FieldValueInvalid",
        ),
        (
            "negative",
            {"resources": {"requests": {"cpu": "-1"}}},
            "spec.containers[0].resources.requests[cpu]",
            "FieldValueInvalid",
        ),
        (
            "probe of nothing",
            {"livenessProbe": {}},
            "spec.containers[0].livenessProbe",
            "FieldValueRequired",
        ),
        (
            "two handlers",
            {"livenessProbe": {"exec": {"command": ["x"]}, "httpGet": {"port": 80}}},
            "spec.containers[0].livenessProbe.httpGet",
            "FieldValueForbidden",
        ),
    ]
)
def invalid_container_is_refused(
    client: CaseClient, container: dict[str, Any], field: str, reason: str
) -> None:
    client.wait_for_service_account()
    assert (field, reason) in client.post("pods", pod(container)).refused(422, "Invalid").causes


@case
def malformed_quantity_is_bad_request(client: CaseClient) -> None:
    client.wait_for_service_account()
    body = pod({"resources": {"requests": {"cpu": "lots"}}})
    client.post("pods", body).refused(
        400, "BadRequest", "quantities must match the regular expression"
    )


@parametrized_case(
    [
        ("image", [{"op": "replace", "path": "/spec/containers/0/image", "value": "i:2"}], 200),
        ("deadline", [{"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 9}], 200),
        (
            "toleration more",
            [
                {
                    "op": "add",
                    "path": "/spec/tolerations/-",
                    "value": {"key": "k", "operator": "Exists"},
                }
            ],
            200,
        ),
        ("node", [{"op": "add", "path": "/spec/nodeName", "value": "n"}], 422),
        ("command", [{"op": "add", "path": "/spec/containers/0/command", "value": ["x"]}], 422),
        (
            "restart policy",
            [{"op": "replace", "path": "/spec/restartPolicy", "value": "Never"}],
            422,
        ),
        (
            "one container more",
            [{"op": "add", "path": "/spec/containers/-", "value": {"name": "d", "image": "i"}}],
            422,
        ),
    ]
)
def most_spec_fields_are_immutable(client: CaseClient, patch: Any, status: int) -> None:
    create_pod(client, pod())
    answer = client.patch("pods/p", patch, "json")
    assert answer.status == status, answer.body


@case
def status_changes_through_subresource_only(client: CaseClient) -> None:
    old = create_pod(client, pod())
    client.patch("pods/p", {"status": {"phase": "Failed"}}).ok()
    assert client.get("pods/p").ok()["status"]["phase"] == "Pending"
    updated = client.patch(
        "pods/p/status", {"status": {"message": "hello"}, "spec": {"restartPolicy": "Never"}}
    ).ok()
    assert updated["status"]["message"] == "hello"
    assert updated["spec"]["restartPolicy"] == "Always"
    assert updated["metadata"]["generation"] == old["metadata"]["generation"]


@case
def unscheduled_pod_is_deleted_immediately(client: CaseClient) -> None:
    create_pod(client, pod())
    client.delete("pods/p").ok()
    client.get("pods/p").refused(404, "NotFound")


@case
def scheduled_pod_is_deleted_after_grace_period(client: CaseClient) -> None:
    client.wait_for_service_account()
    client.post(
        "nodes", {"metadata": {"name": f"{client.namespace}-n"}, "spec": {"unschedulable": True}}
    ).ok(201)
    client.post(
        "pods", pod(nodeName=f"{client.namespace}-n", terminationGracePeriodSeconds=300)
    ).ok(201)
    going = client.delete("pods/p").ok()
    assert going["metadata"]["deletionGracePeriodSeconds"] == 300  # noqa: PLR2004
    assert going["metadata"]["deletionTimestamp"] > going["metadata"]["creationTimestamp"]
    shorter = client.delete("pods/p", gracePeriodSeconds=200).ok()
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 200  # noqa: PLR2004
    client.delete("pods/p", gracePeriodSeconds=0)
    client.get("pods/p").refused(404, "NotFound")


@case
def binding_sets_node(client: CaseClient) -> None:
    client.wait_for_service_account()
    client.post(
        "nodes", {"metadata": {"name": f"{client.namespace}-n"}, "spec": {"unschedulable": True}}
    ).ok(201)
    client.post("pods", pod()).ok(201)
    binding = {
        "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": f"{client.namespace}-n"},
    }
    answer = client.post("pods/p/binding", binding).ok(201)
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    bound = client.get("pods/p").ok()
    assert bound["spec"]["nodeName"] == f"{client.namespace}-n"
    assert ("PodScheduled", "True") in {
        (one["type"], one["status"]) for one in bound["status"]["conditions"]
    }
    again = client.post("pods/p/binding", binding)
    again.refused(409, "Conflict", f'pod p is already assigned to node "{client.namespace}-n"')
    client.delete("pods/p", gracePeriodSeconds=0)


@case
def binding_without_target_is_refused(client: CaseClient) -> None:
    create_pod(client, pod())
    client.post("pods/p/binding", {"metadata": {"name": "p"}, "target": {"kind": "Node"}}).refused(
        500, "", "target.name: Required value"
    )


@case
def field_selectors_match_node_and_phase(client: CaseClient) -> None:
    create_pod(client, pod())
    for selector in (
        "spec.nodeName=",
        "status.phase=Pending",
        "spec.restartPolicy=Always",
        "spec.schedulerName=absent",
    ):
        assert len(client.get("pods", fieldSelector=selector).ok()["items"]) == 1, selector
    for selector in ("spec.nodeName=n", "status.phase!=Pending", "spec.restartPolicy=Never"):
        assert client.get("pods", fieldSelector=selector).ok()["items"] == [], selector


@case
def unknown_priority_class_is_forbidden(client: CaseClient) -> None:
    client.wait_for_service_account()
    refusal = client.post("pods", pod(priorityClassName="nope"))
    refusal.refused(403, "Forbidden", "no PriorityClass with name nope was found")


@case
def priority_class_sets_priority(client: CaseClient) -> None:
    client.post("priorityclasses", {"metadata": {"name": client.namespace}, "value": 7}).ok(201)
    created = create_pod(client, pod(priorityClassName=client.namespace))
    assert created["spec"]["priority"] == 7  # noqa: PLR2004


@case
def eviction_respects_disruption_budget(client: CaseClient) -> None:
    client.wait_for_service_account()
    budget = {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
    }
    client.post("poddisruptionbudgets", budget).ok(201)
    # On no node: a node that no kubelet speaks for makes its pods unready after a minute, and those
    # may go.
    client.post("pods", {**pod(), "metadata": {"name": "p", "labels": {"app": "x"}}}).ok(201)
    running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    client.patch("pods/p/status", running, "strategic").ok()
    client.until(
        lambda: client.get("poddisruptionbudgets/b").ok()["status"].get("currentHealthy") == 1
    )
    refusal = client.post("pods/p/eviction", {"metadata": {"name": "p"}})
    refusal.refused(
        429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget."
    )
    assert ("", "DisruptionBudget") in refusal.causes
    client.delete("pods/p", gracePeriodSeconds=0)


@case
def eviction_without_budget_deletes_pod(client: CaseClient) -> None:
    create_pod(client, pod())
    client.post(
        "pods/p/eviction",
        {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}},
    ).ok(201)
    client.get("pods/p").refused(404, "NotFound")


@parametrized_case(
    [
        ("too many parts", "a:b:c:d", 400, "BadRequest", 'invalid service request "a:b:c:d"'),
        (
            "a strange scheme",
            "ftp:bare:80",
            400,
            "BadRequest",
            'invalid service request "ftp:bare:80"',
        ),
        ("absent", "absent", 404, "NotFound", 'services "absent" not found'),
        ("a port of absent", "http:absent:80", 404, "NotFound", 'services "absent" not found'),
        (
            "no such port",
            "bare:81",
            503,
            "ServiceUnavailable",
            'no service port 81 found for service "bare"',
        ),
        ("no endpoints", "bare:80", 404, "NotFound", 'services "bare" not found'),
    ]
)
def service_proxy_request_is_refused(
    client: CaseClient, name: str, status: int, reason: str, message: str
) -> None:
    client.post("services", {"metadata": {"name": "bare"}, "spec": {"ports": [{"port": 80}]}}).ok(
        201
    )
    client.get(f"services/{name}/proxy/").refused(status, reason, message)


@parametrized_case(
    [
        ("too many parts", "a:b:c:d", 400, "BadRequest", 'invalid pod request "a:b:c:d"'),
        ("absent", "absent:80", 404, "NotFound", 'pods "absent" not found'),
        ("without an address", "p:80", 400, "BadRequest", "address not allowed"),
    ]
)
def pod_proxy_request_is_refused(
    client: CaseClient, name: str, status: int, reason: str, message: str
) -> None:
    create_pod(client, pod())
    client.get(f"pods/{name}/proxy/").refused(status, reason, message)
