from copy import deepcopy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kscen.embedded.apiserver.builtin_kinds import builtin_kinds
from pytest_kscen.embedded.apiserver.schema.builtin import BuiltinSchema
from pytest_kscen.objects.errors import BadRequest

CONFIG_MAP = BuiltinSchema("", "v1", "ConfigMap")
SECRET = BuiltinSchema("", "v1", "Secret")
POD = BuiltinSchema("", "v1", "Pod")
UNREADABLE = "cannot be handled as a"


def decoded(schema, obj, old=None, strictness="Warn"):
    return schema.decode(obj, old, strictness=strictness, warnings=[])


def container(**fields):
    return {"spec": {"containers": [{"name": "c", **fields}]}}


# each pair was asked of a real kube-apiserver
REFUSALS = [
    (CONFIG_MAP, {"data": {"a": 1}}, "number into Go struct field ConfigMap.data of type string"),
    (
        CONFIG_MAP,
        {"data": [1]},
        "array into Go struct field ConfigMap.data of type map[string]string",
    ),
    (
        CONFIG_MAP,
        {"metadata": "a"},
        "string into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
    ),
    (
        CONFIG_MAP,
        {"metadata": {"labels": {"x": True}}},
        "bool into Go struct field ObjectMeta.metadata.labels of type string",
    ),
    (SECRET, {"data": {"a": 3}}, "number into Go struct field Secret.data of type []uint8"),
    (POD, {"spec": "a"}, "string into Go struct field Pod.spec of type v1.PodSpec"),
    (
        POD,
        {"spec": {"containers": ["a"]}},
        "string into Go struct field PodSpec.spec.containers of type v1.Container",
    ),
    (
        POD,
        {"spec": {"containers": {"a": 1}}},
        "object into Go struct field PodSpec.spec.containers of type []v1.Container",
    ),
    (
        POD,
        {"spec": {"restartPolicy": 3}},
        "number into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy",
    ),
    (
        POD,
        container(args=[3]),
        "number into Go struct field Container.spec.containers.args of type string",
    ),
    (
        POD,
        container(ports=[{"containerPort": 1.5}]),
        (
            "number 1.5 into Go struct field "
            "ContainerPort.spec.containers.ports.containerPort of type int32"
        ),
    ),
    (
        POD,
        container(ports=[{"containerPort": 99999999999}]),
        (
            "number 99999999999 into Go struct field "
            "ContainerPort.spec.containers.ports.containerPort of type int32"
        ),
    ),
    (
        POD,
        container(livenessProbe={"httpGet": {"port": True}}),
        (
            "bool into Go struct field "
            "HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type "
            "int32"
        ),
    ),
    (
        POD,
        container(resources={"limits": []}),
        (
            "array into Go struct field "
            "ResourceRequirements.spec.containers.resources.limits of type v1.ResourceList"
        ),
    ),
]


@pytest.mark.parametrize(("schema", "body", "why"), REFUSALS)
def test_wrong_type_is_refused_with_gos_message(schema, body, why):
    with pytest.raises(BadRequest) as refusal:
        decoded(schema, body)
    assert refusal.value.why == f"json: cannot unmarshal {why}"
    kind = "Pod" if schema is POD else "Secret" if schema is SECRET else "ConfigMap"
    assert (
        refusal.value.message == f'{kind} in version "v1" {UNREADABLE} {kind}: {refusal.value.why}'
    )


@pytest.mark.parametrize(
    ("base64", "byte"),
    [("???", 0), ("YQ", 0), ("YQ=", 3), ("YWE=x", 4), ("Y=E=", 1), ("YQ=a", 2), ("YWJjY", 4)],
)
def test_bad_base64_is_refused_at_its_byte(base64, byte):
    with pytest.raises(BadRequest, match=f"illegal base64 data at input byte {byte}$"):
        decoded(SECRET, {"data": {"a": base64}})


LAYOUT = '"2006-01-02T15:04:05Z07:00"'


@pytest.mark.parametrize(
    ("time", "why"),
    [
        ("x", f'"x" as {LAYOUT}: cannot parse "x" as "2006"'),
        ("2026-01", f'"2026-01" as {LAYOUT}: cannot parse "" as "-"'),
        ("2026-01-01T00:00:00Zx", '"2026-01-01T00:00:00Zx": extra text: "x"'),
        ("2026-02-30T00:00:00Z", '"2026-02-30T00:00:00Z": day out of range'),
        ("2026-01-01T25:00:00Z", '"2026-01-01T25:00:00Z": hour out of range'),
        (
            "2026-01-01T00:00:00+01",
            f'"2026-01-01T00:00:00+01" as {LAYOUT}: cannot parse "+01" as "Z07:00"',
        ),
    ],
)
def test_bad_timestamp_is_refused(time, why):
    with pytest.raises(BadRequest) as refusal:
        decoded(POD, {"metadata": {"creationTimestamp": time}})
    assert refusal.value.why == f"parsing time {why}"


@pytest.mark.parametrize("limit", ["x", [], True, "1 Gi"])
def test_bad_quantity_is_refused(limit):
    with pytest.raises(BadRequest, match="quantities must match the regular expression"):
        decoded(POD, container(resources={"limits": {"cpu": limit}}))


STRANGE = {
    "foo": 1,
    "spec": {"bar": 1, "containers": [{"name": "a", "x": 1}, {"name": "b", "resources": {"u": 1}}]},
}
TOLD = ['unknown field "foo"', 'unknown field "spec.bar"', 'unknown field "spec.containers[0].x"']
TOLD += ['unknown field "spec.containers[1].resources.u"']


def test_unknown_fields_are_dropped_reported_or_refused():
    warnings = []
    dropped = POD.decode(STRANGE, None, strictness="Warn", warnings=warnings)
    assert warnings == TOLD
    assert dropped == decoded(
        POD, {"spec": {"containers": [{"name": "a"}, {"name": "b", "resources": {}}]}}
    )
    assert POD.decode(STRANGE, None, strictness="Ignore", warnings=warnings) == dropped
    assert warnings == TOLD
    with pytest.raises(BadRequest) as refusal:
        decoded(POD, STRANGE, strictness="Strict")
    assert refusal.value.why == f"strict decoding error: {', '.join(TOLD)}"


def test_empty_values_that_go_omits_are_omitted():
    body = container(
        image="",
        env=[],
        tty=False,
        stdin=True,
        securityContext={"privileged": False, "capabilities": {}},
    )
    body["metadata"] = {"labels": {}, "name": "p", "annotations": None}
    body["spec"] |= {
        "hostNetwork": False,
        "priority": 0,
        "nodeSelector": {},
        "terminationGracePeriodSeconds": 0,
        "nodeName": "",
    }
    pod = decoded(POD, body)
    assert pod["metadata"] == {"name": "p"}
    assert pod["spec"] == {
        "containers": [
            {
                "name": "c",
                "stdin": True,
                "securityContext": {"privileged": False, "capabilities": {}},
                "resources": {},
            },
        ],
        "priority": 0,
        "terminationGracePeriodSeconds": 0,
    }


def test_zero_values_printed_by_go_are_added():
    assert decoded(BuiltinSchema("rbac.authorization.k8s.io", "v1", "ClusterRole"), {}) == {
        "metadata": {},
        "rules": None,
    }
    service = decoded(BuiltinSchema("", "v1", "Service"), {"spec": {"ports": [{"port": 80}]}})
    assert service["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 0}]
    assert service["status"] == {"loadBalancer": {}}


def test_null_becomes_zero_in_lists_and_maps():
    assert decoded(CONFIG_MAP, {"data": {"a": None, "b": ""}})["data"] == {"a": "", "b": ""}
    assert decoded(POD, container(args=["a", None]))["spec"]["containers"][0]["args"] == ["a", ""]
    assert decoded(POD, container(resources={"limits": {"cpu": None}}))["spec"]["containers"][0][
        "resources"
    ]["limits"] == {"cpu": "0"}


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:30:00+01:00", "2025-12-31T23:30:00Z"),
        ("2026-01-01T00:00:00.75Z", "2026-01-01T00:00:00Z"),
    ],
)
def test_timestamps_are_printed_in_utc(written, printed):
    assert decoded(POD, {"status": {"startTime": written}})["status"]["startTime"] == printed


LEASE = BuiltinSchema("coordination.k8s.io", "v1", "Lease")


def test_microtime_has_six_digits():
    written = "2026-01-01T00:00:00.500000+01:00"
    assert (
        decoded(LEASE, {"spec": {"renewTime": written}})["spec"]["renewTime"]
        == "2025-12-31T23:00:00.500000Z"
    )


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("2026-01-01T00:00:00Z", 'cannot parse "Z" as ".000000"'),
        ("2026-01-01T00:00:00.5Z", 'cannot parse ".5Z" as ".000000"'),
        ("2026-01-01T00:00:00.0000001Z", 'cannot parse "1Z" as "Z07:00"'),
        ("2026-01-01T00:00:00.000001", 'cannot parse "" as "Z07:00"'),
    ],
)
def test_microtime_with_other_digits_is_refused(written, why):
    with pytest.raises(BadRequest) as refusal:
        decoded(LEASE, {"spec": {"renewTime": written}})
    layout = "2006-01-02T15:04:05.000000Z07:00"
    assert refusal.value.message.endswith(f': parsing time "{written}" as "{layout}": {why}')


def test_unchanged_parts_are_shared_and_changed_ones_copied():
    old = decoded(POD, container(image="a"))
    condition = {"type": "Ready", "status": "True"}
    given = {**old, "status": {"conditions": [condition]}}
    new = decoded(POD, given, old)
    assert new["spec"] is old["spec"]
    assert new["metadata"] is old["metadata"]
    assert new["status"]["conditions"][0] is not condition
    again = decoded(POD, {**new, "status": {**new["status"], "phase": "Running"}}, new)
    assert again["status"]["conditions"] is new["status"]["conditions"]


def test_callers_object_is_neither_changed_nor_kept():
    given = {
        "metadata": {"labels": {"a": "b"}, "ownerReferences": [{"name": "x"}]},
        "data": {"a": "1"},
    }
    before = deepcopy(given)
    new = decoded(CONFIG_MAP, given)
    given["data"]["a"] = given["metadata"]["labels"]["a"] = "changed"
    assert new["data"] == before["data"]
    assert new["metadata"]["labels"] == before["metadata"]["labels"]


json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from(["", "a", "1", "10m", "2026-01-01T00:00:00Z"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["name", "spec", "containers", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def matching_objects(definition, depth=0):
    """Generate objects with the fields of the definition and mostly valid values."""
    from pytest_kscen.embedded.apiserver.recorded import definition as recorded

    def value(schema):
        if "$ref" in schema:
            return json if depth > 3 else matching_objects(schema["$ref"], depth + 1)
        plain = {
            "string": st.sampled_from(["", "a", "YWE="]),
            "integer": st.integers(-1, 2),
            "boolean": st.booleans(),
        }
        if schema["type"] == "array":
            return st.lists(value(schema["items"]), max_size=2)
        if schema["type"] == "object":
            return st.dictionaries(
                st.sampled_from(["", "a", "b"]), value(schema["additionalProperties"]), max_size=2
            )
        return plain.get(schema["type"], st.just(1))

    properties = recorded(definition).get("properties", {})
    if not properties:
        return st.sampled_from(["1", 1, "2026-01-01T00:00:00Z", {}])
    names = st.lists(st.sampled_from(sorted(properties)), max_size=3, unique=True)
    return names.flatmap(
        lambda chosen: st.fixed_dictionaries({name: value(properties[name]) for name in chosen})
    )


KINDS = ["Pod", "Service", "PersistentVolume", "Node", "Event"]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(KINDS).flatmap(
        lambda kind: st.tuples(st.just(kind), matching_objects(f"io.k8s.api.core.v1.{kind}"))
    )
)
def test_decoding_twice_changes_nothing(drawn):
    kind, body = drawn
    schema = BuiltinSchema("", "v1", kind)
    try:
        once = decoded(schema, body, strictness="Strict")
    except BadRequest:
        return
    assert decoded(schema, once, strictness="Strict") == once


def test_every_kind_decodes_an_empty_object():
    for kind in builtin_kinds():
        assert "metadata" in decoded(kind.schema, {"metadata": {}}), kind.resource
