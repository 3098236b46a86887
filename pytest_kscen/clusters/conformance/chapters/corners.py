"""Corner cases that generated sequences of requests have found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.clusters.conformance.case import case, parametrized_case
from pytest_kscen.clusters.conformance.widgets import Widgets

if TYPE_CHECKING:
    from pytest_kscen.clusters.conformance.case import CaseClient

LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "x"}}
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i:1"}]},
}
SELECTED = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
PATHS = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}


@parametrized_case(
    [
        ("no fraction", {"renewTime": "2026-01-01T00:00:00Z"}, 'cannot parse "Z" as ".000000"'),
        ("one digit", {"renewTime": "2026-01-01T00:00:00.5Z"}, 'cannot parse ".5Z" as ".000000"'),
        (
            "seven digits",
            {"renewTime": "2026-01-01T00:00:00.0000001Z"},
            'cannot parse "1Z" as "Z07:00"',
        ),
        (
            "the worst of two",
            {"leaseTransitions": "x", "renewTime": "soon"},
            'cannot parse "soon" as "2006"',
        ),
        (
            "the first of two",
            {"leaseTransitions": "x", "holderIdentity": 5},
            "LeaseSpec.spec.leaseTransitions of type int32",
        ),
    ]
)
def decoding_reports_worst_error(client: CaseClient, spec: Any, words: str) -> None:
    client.post("leases", {**LEASE, "spec": spec}).refused(400, "BadRequest", words)


@case
def converter_follows_struct_field_order(client: CaseClient) -> None:
    client.post("leases", LEASE).ok(201)
    patch = {"spec": {"renewTime": "soon", "acquireTime": "later"}}
    client.patch("leases/x", patch, "strategic").refused(
        422, "Invalid", 'cannot parse "later" as "2006"'
    )


@case
def converter_error_names_go_types(client: CaseClient) -> None:
    client.post("configmaps", CONFIG).ok(201)
    patch = {"metadata": {"uid": 1}}
    client.patch("configmaps/x", patch, "strategic").refused(
        422, "Invalid", "cannot convert int64 to types.UID"
    )
    words = "json: cannot unmarshal number into Go value of type string"
    client.patch("configmaps/x", {"metadata": {"creationTimestamp": 1}}, "strategic").refused(
        422, "Invalid", words
    )


@parametrized_case(
    [
        ("kind of no text", {**CONFIG, "kind": ["x"]}, 400, "invalid object type: /v1, Kind="),
        (
            "version of no text",
            {**CONFIG, "apiVersion": {"x": 1}},
            400,
            "invalid object type: /, Kind=ConfigMap",
        ),
        (
            "version of three parts",
            {**CONFIG, "apiVersion": "a/b/c"},
            400,
            "invalid object type: /, Kind=",
        ),
        (
            "list",
            [],
            400,
            "json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        (
            "owners that are no list",
            {**CONFIG, "metadata": {"managedFields": 1}},
            500,
            ".metadata.managedFields: expected list",
        ),
        (
            "owners that are none",
            {**CONFIG, "metadata": {"managedFields": ["x"]}},
            500,
            ".metadata.managedFields[0]: expected map",
        ),
        (
            "owners in a map",
            {**CONFIG, "metadata": {"managedFields": {}}},
            500,
            ".metadata.managedFields: expected list",
        ),
        (
            "owner's uid",
            {**CONFIG, "metadata": {"ownerReferences": [{"uid": {"a": [1]}}]}},
            500,
            "[uid=a=[1]].uid: expected string",
        ),
        (
            "generation",
            {**CONFIG, "metadata": {"name": "x", "generation": "x"}},
            500,
            ".metadata.generation: expected numeric",
        ),
        (
            "base64",
            {**CONFIG, "binaryData": {"z": "%"}},
            500,
            "error decoding from json: illegal base64 data at input byte 0",
        ),
        (
            "uid of absent",
            {**CONFIG, "metadata": {"name": "y", "namespace": "elsewhere", "uid": "u"}},
            409,
            "uid mismatch: the provided object specified uid u",
        ),
    ]
)
def malformed_apply_configuration_is_refused(
    client: CaseClient, body: Any, status: int, words: str
) -> None:
    answer = client.apply("configmaps/x", body, "me")
    assert (answer.status, words in answer.body["message"]) == (status, True), answer.body


@case
def object_without_field_owners_has_no_managed_fields(client: CaseClient) -> None:
    client.post("leases", LEASE).ok(201)
    for place in ("0", "-"):
        operation = {"op": "add", "path": f"/metadata/managedFields/{place}", "value": {}}
        client.patch("leases/x", [operation], "json").refused(
            422, "Invalid", "the server rejected our request"
        )


@parametrized_case(
    [
        (
            "unvalidated",
            "Ignore",
            422,
            "the server rejected our request due to an error in our request",
        ),
        (
            "validated",
            "Strict",
            400,
            "json: cannot unmarshal array into Go struct field jsonPatchOp.path of type string",
        ),
    ]
)
def json_patch_operations_are_validated_on_request(
    client: CaseClient, validation: str, status: int, words: str
) -> None:
    client.post("configmaps", CONFIG).ok(201)
    answer = client.patch(
        "configmaps/x", [{"op": "remove", "path": []}], "json", fieldValidation=validation
    )
    assert (answer.status, words in answer.body["message"]) == (status, True), answer.body


@parametrized_case(
    [("uid", {"uid": "other"}, "UID"), ("version", {"resourceVersion": "1"}, "ResourceVersion")]
)
def preconditions_are_accepted_in_query(
    client: CaseClient, query: dict[str, str], words: str
) -> None:
    client.post("configmaps", CONFIG).ok(201)
    client.delete("configmaps/x", **query).refused(
        409, "Conflict", f"the {words} in the precondition"
    )


@parametrized_case(
    [("nothing said", {}, True), ("Background", {"propagationPolicy": "Background"}, False)]
)
def job_deletion_warns_of_orphaned_pods(
    client: CaseClient,
    query: dict[str, str],
    is_warned: bool,  # noqa: FBT001
) -> None:
    answer = client.delete("jobs/none", **query).refused(404, "NotFound")
    assert ("child pods are preserved by default" in answer.headers.get("warning", "")) == is_warned


@case
def invalid_tls_key_pair_is_warned_of(client: CaseClient) -> None:
    pair = {
        "metadata": {"name": "x"},
        "type": "kubernetes.io/tls",
        "data": {"tls.crt": "", "tls.key": ""},
    }
    answer = client.post("secrets", pair)
    answer.ok(201)
    assert "tls: failed to find any PEM data in certificate input" in answer.headers["warning"]


@case
def empty_list_is_owned_by_its_writer(client: CaseClient) -> None:
    made = client.post("roles", {"metadata": {"name": "x"}, "rules": []}, fieldManager="me").ok(201)
    assert made["rules"] is None
    assert made["metadata"]["managedFields"][0]["fieldsV1"] == {"f:rules": {}}


@case
def daemon_set_creator_owns_template_generation(client: CaseClient) -> None:
    made = client.post("daemonsets", {"metadata": {"name": "x"}, "spec": SELECTED}).ok(201)
    assert made["metadata"]["annotations"] == {TEMPLATE_GENERATION: "1"}
    owned = made["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"]
    assert owned == {"f:annotations": {".": {}, f"f:{TEMPLATE_GENERATION}": {}}}


@case
def daemon_set_template_generation_must_be_number(client: CaseClient) -> None:
    body = {"metadata": {"name": "x", "annotations": {TEMPLATE_GENERATION: "x"}}, "spec": SELECTED}
    client.post("daemonsets", body).refused(
        400, "BadRequest", 'strconv.ParseInt: parsing "x": invalid syntax'
    )


@case
def on_delete_daemon_set_keeps_zero_rolling_update(client: CaseClient) -> None:
    spec = {**SELECTED, "updateStrategy": {"type": "OnDelete", "rollingUpdate": {}}}
    made = client.post("daemonsets", {"metadata": {"name": "x"}, "spec": spec}, dryRun="All").ok(
        201
    )
    assert made["spec"]["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 0}


@case
def replication_controller_scale_has_selector(client: CaseClient) -> None:
    client.post(
        "replicationcontrollers",
        {"metadata": {"name": "x"}, "spec": {"replicas": 0, "template": TEMPLATE}},
    ).ok(201)
    assert client.get("replicationcontrollers/x/scale").ok()["status"]["selector"] == "a=b"


@case
def scale_without_field_owners_has_no_managed_fields(client: CaseClient) -> None:
    client.post(
        "replicationcontrollers",
        {"metadata": {"name": "x"}, "spec": {"replicas": 0, "template": TEMPLATE}},
    ).ok(201)
    client.patch("replicationcontrollers/x/scale", {"spec": {"replicas": 0}}).ok()
    refusal = client.patch("replicationcontrollers/x/scale", {"spec": {"replicas": "x"}}).refused(
        422, "Invalid", "of type int32"
    )
    assert "managedFields" not in refusal.body["message"]


@case
def status_patch_cannot_change_uid(client: CaseClient) -> None:
    spec = {"attacher": "a.example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    client.post("volumeattachments", {"metadata": {"name": client.namespace}, "spec": spec}).ok(201)
    patch = {"metadata": {"uid": "other", "labels": {"a": "b"}}, "status": {"attached": True}}
    refusal = client.patch(f"volumeattachments/{client.namespace}/status", patch).refused(
        422, "Invalid"
    )
    assert set(refusal.causes) == {("metadata.uid", "FieldValueInvalid")}


@case
def budget_metadata_is_validated_last(client: CaseClient) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": ""}
    body = {"metadata": {"name": "x", "ownerReferences": [owner]}, "spec": {"minAvailable": -1}}
    assert {
        field
        for field, _ in client.post("poddisruptionbudgets", body).refused(422, "Invalid").causes
    } == {"spec.minAvailable"}


@case
def cron_job_status_patch_skips_finalizer_validation(client: CaseClient) -> None:
    template = {
        "spec": {
            "template": {
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}
            }
        }
    }
    spec = {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": template}
    client.post("cronjobs", {"metadata": {"name": "x"}, "spec": spec}).ok(201)
    patch = {"metadata": {"finalizers": ["odd"]}}
    words = "name is neither a standard finalizer name nor is it fully qualified"
    client.patch("cronjobs/x", patch).refused(422, "Invalid", words)
    client.patch("cronjobs/x/status", patch).ok()
    client.patch("cronjobs/x", {"metadata": {"finalizers": None}}).ok()


@case
def second_volume_source_skips_node_affinity_check(client: CaseClient) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/a"},
        "local": {"path": "/b"},
    }
    body = {"metadata": {"name": client.namespace}, "spec": spec}
    assert client.post("persistentvolumes", body).refused(422, "Invalid").causes == [
        ("spec.local", "FieldValueForbidden")
    ]


@parametrized_case([("spec", "services/x", True), ("status", "services/x/status", False)])
def status_write_has_no_spec_warnings(
    client: CaseClient,
    path: str,
    warned: bool,  # noqa: FBT001
) -> None:
    spec = {"clusterIP": "None", "externalIPs": ["1.2.3.4"], "ports": [{"port": 80}]}
    client.post("services", {"metadata": {"name": "x"}, "spec": spec}).ok(201)
    answer = client.patch(path, {"metadata": {"labels": {"a": "b"}}})
    answer.ok()
    assert ("warning" in answer.headers) == warned


@case
def empty_partial_metadata_list_has_null_items(client: CaseClient) -> None:
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    assert client.call("GET", "leases", headers={"Accept": accept}).ok()["items"] is None


@case
def custom_scale_without_replicas_is_refused(client: CaseClient) -> None:
    widgets = Widgets(client, subresources={"scale": PATHS})
    widgets.make({}).ok(201)
    client.get(f"{widgets.path}/w/scale").refused(
        500, "InternalError", 'the spec replicas field ".spec.replicas" does not exist'
    )
    words = 'the spec replicas field ".spec.replicas" cannot be empty'
    client.patch(f"{widgets.path}/w/scale", {"metadata": {}}).refused(400, "BadRequest", words)
    assert client.patch(f"{widgets.path}/w/scale", {"spec": {"replicas": 1}}).ok()["spec"] == {
        "replicas": 1
    }


@case
def custom_object_requires_kind_and_version(client: CaseClient) -> None:
    widgets = Widgets(client)
    client.post(widgets.path, {"metadata": {"name": "w"}}).refused(
        400, "BadRequest", "Object 'Kind' is missing in"
    )
    body = {"kind": widgets.kind, "metadata": {"name": "w"}}
    client.post(widgets.path, body).refused(
        400, "BadRequest", "the API version in the data () does not match the expected"
    )


@case
def empty_managed_fields_keep_custom_object_owners(client: CaseClient) -> None:
    widgets = Widgets(client)
    made = widgets.make({}).ok(201)
    patched = client.patch(f"{widgets.path}/w", {"metadata": {"managedFields": []}}).ok()
    assert patched["metadata"]["managedFields"] == made["metadata"]["managedFields"]
