from __future__ import annotations

import pytest
from managed_object import ManagedObject, builtin, widget_kind

from pytest_kscen.objects.errors import ApiError, BadRequest, Conflict, Invalid

MISFITS = """\
  .spec.parts: element 0: associative list with keys has an element that omits all key fields ["name"] \
(and doesn't have default values for any key fields)
  .spec.tags[=1]: expected string, got &value.valueUnstructured{Value:1}
  .spec.tags: element 1: associative list without keys has an element that's an explicit null"""


@pytest.fixture
def managed_object():
    return ManagedObject(widget_kind())


def test_creator_owns_written_fields(managed_object):
    managed_object.create(
        "ann",
        metadata={"labels": {"a": "b"}},
        spec={"tags": ["x"], "parts": [{"name": "p", "v": 1}], "plain": ["1"]},
    )
    assert managed_object.live["metadata"]["managedFields"] == [
        {
            "manager": "ann",
            "operation": "Update",
            "apiVersion": "example.com/v1",
            "time": "2026-01-01T00:00:01Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
                "f:spec": {
                    ".": {},
                    "f:parts": {".": {}, 'k:{"name":"p"}': {".": {}, "f:name": {}, "f:v": {}}},
                    "f:plain": {},
                    "f:tags": {".": {}, 'v:"x"': {}},
                },
            },
        }
    ]


def test_struct_fields_have_owners_but_struct_has_none():
    managed_object = ManagedObject(builtin("ConfigMap"))
    managed_object.create("ann", data={"a": "1"}, metadata={"labels": {"l": "1"}})
    assert managed_object.owners() == {
        "ann/Update": {
            "f:data": {".": {}, "f:a": {}},
            "f:metadata": {"f:labels": {".": {}, "f:l": {}}},
        }
    }
    managed_object = ManagedObject(builtin("Service"))
    managed_object.create(
        "ann", spec={"ports": [{"port": 80, "protocol": "TCP"}, {"port": 443, "protocol": "UDP"}]}
    )
    ports = managed_object.owners()["ann/Update"]["f:spec"]["f:ports"]
    assert list(ports) == [".", 'k:{"port":80,"protocol":"TCP"}', 'k:{"port":443,"protocol":"UDP"}']


def test_update_takes_ownership(managed_object):
    managed_object.create("ann", spec={"size": "s", "replicas": 1})
    managed_object.merge("bob", {"spec": {"size": "l"}})
    assert managed_object.owners(times=True) == {
        "ann/Update": ({"f:spec": {".": {}, "f:replicas": {}}}, "2026-01-01T00:00:01Z"),
        "bob/Update": ({"f:spec": {"f:size": {}}}, "2026-01-01T00:00:02Z"),
    }


def test_removed_field_has_no_owner(managed_object):
    managed_object.create("ann", spec={"size": "s", "tags": ["x", "y"]})
    managed_object.merge("bob", {"spec": {"size": None, "tags": ["y"]}})
    assert managed_object.owners() == {
        "ann/Update": {"f:spec": {".": {}, "f:tags": {".": {}, 'v:"y"': {}}}}
    }


def test_write_without_change_keeps_time(managed_object):
    managed_object.create("ann", spec={"size": "s"})
    before = managed_object.live
    managed_object.merge("bob", {"spec": {"size": "s"}})
    managed_object.put("ann", spec={"size": "s"})
    managed_object.merge("ann", {"status": {"phase": "ignored"}})
    assert managed_object.live is before


def test_status_has_separate_owners(managed_object):
    managed_object.create("ann", spec={"size": "s"}, status={"phase": "ignored"})
    managed_object.merge(
        "kubelet",
        {
            "status": {"phase": "up"},
            "spec": {"size": "ignored"},
            "metadata": {"labels": {"no": "no"}},
        },
        subresource="status",
    )
    managed_object.apply("ann", subresource="status", status={"ready": 1}, spec={"size": "ignored"})
    assert managed_object.owners() == {
        "ann/Update": {"f:spec": {".": {}, "f:size": {}}},
        "kubelet/Update/status": {"f:status": {".": {}, "f:phase": {}}},
        "ann/Apply/status": {"f:status": {"f:ready": {}}},
    }


def test_apply_owns_applied_fields_only(managed_object):
    managed_object.apply(
        "ann",
        spec={"parts": [{"name": "p"}], "free": {"deep": {"er": [1, 2]}}, "whole": {"a": "1"}},
    )
    managed_object.merge("bob", {"spec": {"size": "s"}})
    assert managed_object.live["spec"] == {
        "parts": [{"name": "p"}],
        "free": {"deep": {"er": [1, 2]}},
        "whole": {"a": "1"},
        "size": "s",
    }
    assert managed_object.owners()["ann/Apply"] == {
        "f:spec": {
            "f:free": {"f:deep": {".": {}, "f:er": {}}},
            "f:parts": {'k:{"name":"p"}': {".": {}, "f:name": {}}},
            "f:whole": {},
        }
    }


def test_field_no_longer_applied_is_removed_unless_shared(managed_object):
    managed_object.apply(
        "ann",
        spec={"size": "s", "tags": ["x", "y"], "parts": [{"name": "p", "v": 1}, {"name": "q"}]},
    )
    managed_object.apply("bob", spec={"tags": ["y"], "parts": [{"name": "q"}]})
    managed_object.apply("ann", spec={"size": "s"})
    assert managed_object.live["spec"] == {"size": "s", "tags": ["y"], "parts": [{"name": "q"}]}


def test_conflict_names_owners_and_fields(managed_object):
    managed_object.apply("ann", spec={"size": "s", "parts": [{"name": "p", "v": 1}]})
    with pytest.raises(Conflict) as one:
        managed_object.apply("bob", spec={"size": "l"})
    assert one.value.message == 'Apply failed with 1 conflict: conflict with "ann": .spec.size'
    assert one.value.status["details"] == {
        "causes": [
            {
                "reason": "FieldManagerConflict",
                "message": 'conflict with "ann"',
                "field": ".spec.size",
            }
        ]
    }
    managed_object.merge("cat", {"spec": {"replicas": 3}})
    managed_object.merge("kubelet", {"status": {"phase": "up"}}, subresource="status")
    with pytest.raises(Conflict) as several:
        managed_object.apply(
            "bob", spec={"size": "l", "parts": [{"name": "p", "v": 2}], "replicas": 4}
        )
    assert several.value.message == (
        'Apply failed with 3 conflicts: conflicts with "ann":\n- .spec.size\n- '
        '.spec.parts[name="p"].v\n'
        'conflicts with "cat" using example.com/v1:\n- .spec.replicas'
    )
    with pytest.raises(Conflict, match='"kubelet" with subresource "status"'):
        managed_object.apply("bob", subresource="status", status={"phase": "down"})


def test_force_takes_ownership(managed_object):
    managed_object.apply("ann", spec={"size": "s", "replicas": 1})
    managed_object.apply("bob", spec={"size": "l"}, force=True)
    assert managed_object.live["spec"] == {"size": "l", "replicas": 1}
    assert managed_object.owners() == {
        "ann/Apply": {"f:spec": {"f:replicas": {}}},
        "bob/Apply": {"f:spec": {"f:size": {}}},
    }


def test_equal_value_is_shared_ownership(managed_object):
    managed_object.apply("ann", spec={"size": "s"})
    managed_object.apply("bob", spec={"size": "s"})
    assert managed_object.owners(times=True) == {
        "ann/Apply": ({"f:spec": {"f:size": {}}}, "2026-01-01T00:00:01Z"),
        "bob/Apply": ({"f:spec": {"f:size": {}}}, None),
    }
    before = managed_object.live
    managed_object.apply("ann", spec={"size": "s"})
    assert managed_object.live is before


def test_applied_list_order(managed_object):
    managed_object.create("ann", spec={"parts": [{"name": name} for name in "abcd"]})
    managed_object.apply("bob", spec={"parts": [{"name": name} for name in "xdb"]})
    assert "".join(part["name"] for part in managed_object.live["spec"]["parts"]) == "acxdb"


def test_cleared_managed_fields_restart_with_next_apply(managed_object):
    managed_object.create("ann", spec={"size": "s"})
    managed_object.merge("bob", {"metadata": {"managedFields": [{}]}})
    managed_object.merge("bob", {"spec": {"replicas": 1}})
    assert managed_object.owners() == {}
    managed_object.apply("cat", spec={"tags": ["x"]})
    assert managed_object.owners() == {
        "cat/Apply": {"f:spec": {"f:tags": {'v:"x"': {}}}},
        "before-first-apply/Update": {"f:spec": {".": {}, "f:replicas": {}, "f:size": {}}},
    }


def test_invalid_managed_fields_are_ignored(managed_object):
    managed_object.create("ann", spec={"size": "s"})
    for nonsense in (
        [{"manager": "x"}],
        [{"operation": "Frob", "apiVersion": "v1", "fieldsType": "FieldsV1"}],
        "text",
    ):
        managed_object.merge("bob", {"metadata": {"managedFields": nonsense}})
        assert list(managed_object.owners()) == ["ann/Update"]
    entry = {
        "manager": "eve",
        "operation": "Update",
        "apiVersion": "example.com/v1",
        "fieldsType": "FieldsV1",
    }
    managed_object.merge(
        "bob",
        {
            "metadata": {
                "managedFields": [
                    {**entry, "fieldsV1": {"f:spec": {'k:{ "b":1, "a": 2 }': {}, "x:q": {}}}}
                ]
            }
        },
    )
    assert managed_object.owners() == {"eve/Update": {"f:spec": {'k:{"a":2,"b":1}': {}}}}


def test_old_updaters_beyond_ten_are_merged(managed_object):
    managed_object.create("m0", spec={"free": {"f0": 0}})
    for n in range(1, 13):
        managed_object.merge(f"m{n}", {"spec": {"free": {f"f{n}": n}}})
    owners = managed_object.owners(times=True)
    assert len(owners) == 10
    ancient, time = owners["ancient-changes/Update"]
    assert time == "2026-01-01T00:00:04Z"
    assert sorted(ancient["f:spec"]["f:free"]) == [".", "f:f0", "f:f1", "f:f2", "f:f3"]


def test_client_side_apply_is_migrated():
    managed_object = ManagedObject(builtin("ConfigMap"))
    last = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"w"},"data":{"a":"1","b":"1"}}'
    annotation = "kubectl.kubernetes.io/last-applied-configuration"
    managed_object.create(
        "kubectl-client-side-apply",
        data={"a": "1", "b": "1"},
        metadata={"annotations": {annotation: last}},
    )
    managed_object.merge("eve", {"data": {"b": "2"}})
    with pytest.raises(Conflict, match=r'1 conflict: conflict with "eve" using v1: .data.b'):
        managed_object.apply("kubectl", data={"a": "3", "b": "3"})
    managed_object.apply("kubectl", data={"a": "3"})
    assert managed_object.live["data"] == {"a": "3", "b": "2"}
    said = managed_object.live["metadata"]["annotations"][annotation]
    assert (
        said == '{"apiVersion":"v1","data":{"a":"3"},"kind":"ConfigMap","metadata":{"name":"w"}}\n'
    )


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ({"kind": "Gadget"}, BadRequest, "invalid object type: example.com/v1, Kind=Gadget"),
        ({"apiVersion": "v2"}, BadRequest, "invalid object type: /v2, Kind=Widget"),
        ({"metadata": {"managedFields": []}}, BadRequest, "metadata.managedFields must be nil"),
        ({"spec": {"foo": 1}}, ApiError, ": .spec.foo: field not declared in schema"),
        (
            {"spec": {"size": 1}},
            ApiError,
            ".spec.size: expected string, got &value.valueUnstructured{Value:1}",
        ),
        ({"spec": "x"}, ApiError, ".spec: expected map, got &{x}"),
        ({"spec": {"tags": ["a", "a"]}}, ApiError, '.spec.tags: duplicate entries for key [="a"]'),
        (
            {"spec": {"parts": [{"v": 1}], "tags": [1, None]}},
            ApiError,
            "(/w; example.com/v1, Kind=Widget): errors:\n" + MISFITS,
        ),
    ],
)
def test_invalid_configuration_is_refused(managed_object, content, error, message):
    with pytest.raises(ApiError) as refusal:
        managed_object.apply("ann", **content)
    assert type(refusal.value) is error
    assert refusal.value.message.endswith(message)


def test_field_manager_name_is_validated(managed_object):
    with pytest.raises(Invalid) as refusal:
        managed_object.apply("")
    assert refusal.value.message == (
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is '
        "required for apply patch"
    )
    with pytest.raises(
        Invalid, match=r'Invalid value: "a\\x00b": invalid character U\+0000 \(at position 1\)'
    ):
        managed_object.apply("a\0b")
    with pytest.raises(Invalid, match="Too long: may not be more than 128 bytes"):
        managed_object.apply("x" * 129)


def test_write_of_other_shape_owns_no_fields(managed_object):
    managed_object.create("ann", spec={"size": "1"})
    before = managed_object.owners()
    managed_object.merge("bob", {"spec": {"plain": [1]}})
    assert managed_object.owners() == before
