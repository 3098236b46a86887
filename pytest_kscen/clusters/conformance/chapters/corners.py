"""Corners that generated requests have found: what the server says where hardly anybody goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.clusters.conformance.case import case, parametrized_case
from pytest_kscen.clusters.conformance.chapters.definitions import Widgets

if TYPE_CHECKING:
    from pytest_kscen.clusters.conformance.case import CaseClient

LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "x"}}
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i:1"}]},
}
SELECTED = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
COUNTED = "deprecated.daemonset.template.generation"
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
def what_cannot_be_decoded_is_told_by_its_worst_fault(
    visitor: CaseClient, spec: Any, words: str
) -> None:
    visitor.post("leases", {**LEASE, "spec": spec}).refused(400, "BadRequest", words)


@case
def a_converter_goes_by_the_order_of_the_struct(visitor: CaseClient) -> None:
    visitor.post("leases", LEASE).ok(201)
    patch = {"spec": {"renewTime": "soon", "acquireTime": "later"}}
    visitor.patch("leases/x", patch, "strategic").refused(
        422, "Invalid", 'cannot parse "later" as "2006"'
    )


@case
def a_converter_knows_the_names_of_types(visitor: CaseClient) -> None:
    visitor.post("configmaps", CONFIG).ok(201)
    patch = {"metadata": {"uid": 1}}
    visitor.patch("configmaps/x", patch, "strategic").refused(
        422, "Invalid", "cannot convert int64 to types.UID"
    )
    words = "json: cannot unmarshal number into Go value of type string"
    visitor.patch("configmaps/x", {"metadata": {"creationTimestamp": 1}}, "strategic").refused(
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
            "uid of nobody",
            {**CONFIG, "metadata": {"name": "y", "namespace": "elsewhere", "uid": "u"}},
            409,
            "uid mismatch: the provided object specified uid u",
        ),
    ]
)
def an_odd_configuration_is_refused(
    visitor: CaseClient, body: Any, status: int, words: str
) -> None:
    answer = visitor.apply("configmaps/x", body, "me")
    assert (answer.status, words in answer.body["message"]) == (status, True), answer.body


@case
def an_object_whose_fields_nobody_owns_has_no_list_of_owners(visitor: CaseClient) -> None:
    visitor.post("leases", LEASE).ok(201)
    for place in ("0", "-"):
        operation = {"op": "add", "path": f"/metadata/managedFields/{place}", "value": {}}
        visitor.patch("leases/x", [operation], "json").refused(
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
def operations_are_looked_at_if_somebody_wants_it(
    visitor: CaseClient, validation: str, status: int, words: str
) -> None:
    visitor.post("configmaps", CONFIG).ok(201)
    answer = visitor.patch(
        "configmaps/x", [{"op": "remove", "path": []}], "json", fieldValidation=validation
    )
    assert (answer.status, words in answer.body["message"]) == (status, True), answer.body


@parametrized_case(
    [("uid", {"uid": "other"}, "UID"), ("version", {"resourceVersion": "1"}, "ResourceVersion")]
)
def preconditions_may_stand_in_the_query(
    visitor: CaseClient, query: dict[str, str], words: str
) -> None:
    visitor.post("configmaps", CONFIG).ok(201)
    visitor.delete("configmaps/x", **query).refused(
        409, "Conflict", f"the {words} in the precondition"
    )


@parametrized_case(
    [("nothing said", {}, True), ("Background", {"propagationPolicy": "Background"}, False)]
)
def who_deletes_a_job_is_told_of_its_pods(
    visitor: CaseClient,
    query: dict[str, str],
    told: bool,  # noqa: FBT001
) -> None:
    answer = visitor.delete("jobs/none", **query).refused(404, "NotFound")
    assert ("child pods are preserved by default" in answer.headers.get("warning", "")) == told


@case
def a_doubtful_pair_of_keys_is_warned_of(visitor: CaseClient) -> None:
    pair = {
        "metadata": {"name": "x"},
        "type": "kubernetes.io/tls",
        "data": {"tls.crt": "", "tls.key": ""},
    }
    answer = visitor.post("secrets", pair)
    answer.ok(201)
    assert "tls: failed to find any PEM data in certificate input" in answer.headers["warning"]


@case
def who_writes_an_empty_list_owns_it(visitor: CaseClient) -> None:
    made = visitor.post("roles", {"metadata": {"name": "x"}, "rules": []}, fieldManager="me").ok(
        201
    )
    assert made["rules"] is None
    assert made["metadata"]["managedFields"][0]["fieldsV1"] == {"f:rules": {}}


@case
def a_daemon_sets_creator_owns_the_count_of_its_templates(visitor: CaseClient) -> None:
    made = visitor.post("daemonsets", {"metadata": {"name": "x"}, "spec": SELECTED}).ok(201)
    assert made["metadata"]["annotations"] == {COUNTED: "1"}
    owned = made["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"]
    assert owned == {"f:annotations": {".": {}, f"f:{COUNTED}": {}}}


@case
def that_count_is_a_number(visitor: CaseClient) -> None:
    body = {"metadata": {"name": "x", "annotations": {COUNTED: "x"}}, "spec": SELECTED}
    visitor.post("daemonsets", body).refused(
        400, "BadRequest", 'strconv.ParseInt: parsing "x": invalid syntax'
    )


@case
def of_a_daemon_set_that_does_not_roll_zeros_are_kept(visitor: CaseClient) -> None:
    spec = {**SELECTED, "updateStrategy": {"type": "OnDelete", "rollingUpdate": {}}}
    made = visitor.post("daemonsets", {"metadata": {"name": "x"}, "spec": spec}, dryRun="All").ok(
        201
    )
    assert made["spec"]["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 0}


@case
def a_controllers_scale_has_its_selector(visitor: CaseClient) -> None:
    visitor.post(
        "replicationcontrollers",
        {"metadata": {"name": "x"}, "spec": {"replicas": 0, "template": TEMPLATE}},
    ).ok(201)
    assert visitor.get("replicationcontrollers/x/scale").ok()["status"]["selector"] == "a=b"


@case
def a_scale_that_nobody_owns_tells_of_no_owners(visitor: CaseClient) -> None:
    visitor.post(
        "replicationcontrollers",
        {"metadata": {"name": "x"}, "spec": {"replicas": 0, "template": TEMPLATE}},
    ).ok(201)
    visitor.patch("replicationcontrollers/x/scale", {"spec": {"replicas": 0}}).ok()
    refusal = visitor.patch("replicationcontrollers/x/scale", {"spec": {"replicas": "x"}}).refused(
        422, "Invalid", "of type int32"
    )
    assert "managedFields" not in refusal.body["message"]


@case
def a_status_cannot_bring_another_uid(visitor: CaseClient) -> None:
    spec = {"attacher": "a.example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    visitor.post("volumeattachments", {"metadata": {"name": visitor.namespace}, "spec": spec}).ok(
        201
    )
    patch = {"metadata": {"uid": "other", "labels": {"a": "b"}}, "status": {"attached": True}}
    refusal = visitor.patch(f"volumeattachments/{visitor.namespace}/status", patch).refused(
        422, "Invalid"
    )
    assert set(refusal.causes) == {("metadata.uid", "FieldValueInvalid")}


@case
def a_budgets_metadata_is_judged_last(visitor: CaseClient) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": ""}
    body = {"metadata": {"name": "x", "ownerReferences": [owner]}, "spec": {"minAvailable": -1}}
    assert {
        field
        for field, _ in visitor.post("poddisruptionbudgets", body).refused(422, "Invalid").causes
    } == {"spec.minAvailable"}


@case
def a_cron_jobs_status_may_have_any_finalizers(visitor: CaseClient) -> None:
    template = {
        "spec": {
            "template": {
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}
            }
        }
    }
    spec = {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": template}
    visitor.post("cronjobs", {"metadata": {"name": "x"}, "spec": spec}).ok(201)
    patch = {"metadata": {"finalizers": ["odd"]}}
    words = "name is neither a standard finalizer name nor is it fully qualified"
    visitor.patch("cronjobs/x", patch).refused(422, "Invalid", words)
    visitor.patch("cronjobs/x/status", patch).ok()
    visitor.patch("cronjobs/x", {"metadata": {"finalizers": None}}).ok()


@case
def a_second_volume_is_not_asked_where_it_lies(visitor: CaseClient) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/a"},
        "local": {"path": "/b"},
    }
    body = {"metadata": {"name": visitor.namespace}, "spec": spec}
    assert visitor.post("persistentvolumes", body).refused(422, "Invalid").causes == [
        ("spec.local", "FieldValueForbidden")
    ]


@parametrized_case([("spec", "services/x", True), ("status", "services/x/status", False)])
def who_writes_a_status_is_not_warned_of_the_spec(
    visitor: CaseClient,
    path: str,
    warned: bool,  # noqa: FBT001
) -> None:
    spec = {"clusterIP": "None", "externalIPs": ["1.2.3.4"], "ports": [{"port": 80}]}
    visitor.post("services", {"metadata": {"name": "x"}, "spec": spec}).ok(201)
    answer = visitor.patch(path, {"metadata": {"labels": {"a": "b"}}})
    answer.ok()
    assert ("warning" in answer.headers) == warned


@case
def metadata_of_nobody_is_null(visitor: CaseClient) -> None:
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    assert visitor.call("GET", "leases", headers={"Accept": accept}).ok()["items"] is None


@case
def a_custom_scale_that_says_nothing_is_none(visitor: CaseClient) -> None:
    widgets = Widgets(visitor, subresources={"scale": PATHS})
    widgets.make({}).ok(201)
    visitor.get(f"{widgets.path}/w/scale").refused(
        500, "InternalError", 'the spec replicas field ".spec.replicas" does not exist'
    )
    words = 'the spec replicas field ".spec.replicas" cannot be empty'
    visitor.patch(f"{widgets.path}/w/scale", {"metadata": {}}).refused(400, "BadRequest", words)
    assert visitor.patch(f"{widgets.path}/w/scale", {"spec": {"replicas": 1}}).ok()["spec"] == {
        "replicas": 1
    }


@case
def a_custom_object_says_what_it_is(visitor: CaseClient) -> None:
    widgets = Widgets(visitor)
    visitor.post(widgets.path, {"metadata": {"name": "w"}}).refused(
        400, "BadRequest", "Object 'Kind' is missing in"
    )
    body = {"kind": widgets.kind, "metadata": {"name": "w"}}
    visitor.post(widgets.path, body).refused(
        400, "BadRequest", "the API version in the data () does not match the expected"
    )


@case
def an_empty_list_of_owners_leaves_a_custom_object_its_own(visitor: CaseClient) -> None:
    widgets = Widgets(visitor)
    made = widgets.make({}).ok(201)
    patched = visitor.patch(f"{widgets.path}/w", {"metadata": {"managedFields": []}}).ok()
    assert patched["metadata"]["managedFields"] == made["metadata"]["managedFields"]
