from __future__ import annotations

import pytest

from pytest_kscen.kube.api import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from pytest_kscen.objects.errors import ApiError, BadRequest, Conflict, Invalid, NotFound
from pytest_kscen.objects.resources import CONFIG_MAPS, DEPLOYMENTS, PODS

CONTAINER = {"name": "c", "image": "i"}


def configuration(resource, name, **content):
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
        **content,
    }


def apply(
    site, resource, name, manager="ann", *, subresource="", force=False, dry_run=False, **content
):
    body = configuration(resource, name, **content)
    options = {
        "patch_type": APPLY_PATCH,
        "field_manager": manager,
        "force": force,
        "dry_run": dry_run,
    }
    return site.ask("patch", resource, name, body=body, subresource=subresource, **options)


def deployment(**more):
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
    return {"selector": {"matchLabels": {"a": "b"}}, "template": template, **more}


def owners(obj):
    return {
        (entry["manager"], entry["operation"], entry.get("subresource", "")): (
            sorted(entry["fieldsV1"].get("f:spec", {})),
            "time" in entry,
        )
        for entry in obj["metadata"]["managedFields"]
    }


def test_apply_creates_missing_object(site):
    made = apply(site, CONFIG_MAPS, "c", data={"a": "1"})
    assert site.code == 201
    assert made["metadata"]["uid"]
    assert made["metadata"]["managedFields"][0]["operation"] == "Apply"
    again = apply(site, CONFIG_MAPS, "c", data={"a": "1"})
    assert site.code == 200
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_subresource_apply_and_other_patches_create_nothing(site):
    with pytest.raises(NotFound, match='pods "p" not found'):
        apply(site, PODS, "p", subresource="status", status={"phase": "Running"})
    for patch_type, body in ((MERGE_PATCH, {}), (STRATEGIC_PATCH, {}), (JSON_PATCH, [])):
        with pytest.raises(NotFound, match='configmaps "c" not found'):
            site.ask("patch", CONFIG_MAPS, "c", body=body, patch_type=patch_type)


def test_null_metadata_is_absent(site):
    with pytest.raises(
        BadRequest,
        match=(
            r"^the name of the object \(c based on URL\) was undeterminable: name must be "
            r"provided$"
        ),
    ):
        apply(site, CONFIG_MAPS, "c", metadata=None)
    made = apply(site, CONFIG_MAPS, "c", data={"a": "1"})
    assert apply(site, CONFIG_MAPS, "c", metadata=None, data={"a": "1"}) == made


def test_dry_run_apply_changes_nothing(site):
    made = apply(site, CONFIG_MAPS, "c", data={"a": "1"})
    tried = apply(site, CONFIG_MAPS, "c", "bob", force=True, dry_run=True, data={"a": "2"})
    assert (tried["data"], tried["metadata"]["managedFields"][0]["manager"]) == ({"a": "2"}, "bob")
    assert site.get(CONFIG_MAPS, "c") == made


def test_defaults_have_no_owner(site):
    made = apply(site, DEPLOYMENTS, "d", spec=deployment())
    assert made["spec"]["strategy"]["type"] == "RollingUpdate"
    assert owners(made) == {("ann", "Apply", ""): (["f:selector", "f:template"], True)}
    patched = site.patch(DEPLOYMENTS, "d", {"spec": {"paused": True}})
    assert owners(patched)["unknown", "Update", ""] == (["f:paused"], True)


def test_undecodable_configuration_is_refused(site):
    site.create(CONFIG_MAPS, "c")
    with pytest.raises(Invalid) as refusal:
        site.patch(CONFIG_MAPS, "c", {"data": "x"})
    assert refusal.value.message.startswith(
        ' "" is invalid: patch: Invalid value: "{\\"apiVersion\\":\\"v1\\",\\"data\\":\\"x\\"'
    )
    assert refusal.value.message.endswith(
        "json: cannot unmarshal string into Go struct field ConfigMap.data of type "
        "map[string]string"
    )
    with pytest.raises(Invalid) as refusal:
        site.patch(CONFIG_MAPS, "c", {"data": "x"}, patch_type=STRATEGIC_PATCH)
    assert (
        refusal.value.message
        == ' "" is invalid: patch: Invalid value: "map[data:x]": cannot restore map from string'
    )
    with pytest.raises(ApiError) as refusal:
        apply(site, DEPLOYMENTS, "d", spec=deployment(replicas=1.5))
    gvk = "apps/v1, Kind=Deployment"
    assert (refusal.value.code, refusal.value.message) == (
        500,
        (
            f"failed to convert new object (/d; {gvk}) to proper version: unable to "
            f"convert unstructured object to {gvk}: "
            "cannot convert float64 to int32"
        ),
    )


def test_patch_cannot_change_name_or_namespace(site):
    site.create(CONFIG_MAPS, "c")
    with pytest.raises(
        BadRequest, match=r"the name of the object \(d\) does not match the name on the URL \(c\)"
    ):
        site.patch(CONFIG_MAPS, "c", {"metadata": {"name": "d"}})
    with pytest.raises(
        BadRequest,
        match=(
            "the namespace of the provided object does not match the namespace sent on the request"
        ),
    ):
        site.patch(CONFIG_MAPS, "c", {"metadata": {"namespace": "elsewhere"}})


def test_scale_has_separate_managed_fields(site):
    apply(site, DEPLOYMENTS, "d", spec=deployment(replicas=1))
    site.patch(
        DEPLOYMENTS, "d", {"spec": {"replicas": 2}}, subresource="scale", field_manager="scaler"
    )
    made = site.get(DEPLOYMENTS, "d")
    assert owners(made) == {
        ("ann", "Apply", ""): (["f:selector", "f:template"], True),
        ("scaler", "Update", "scale"): (["f:replicas"], False),
    }
    scale = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "d"},
        "spec": {"replicas": 5},
    }
    options = {"patch_type": APPLY_PATCH, "subresource": "scale", "field_manager": "bob"}
    with pytest.raises(
        Conflict, match=r'"scaler" with subresource "scale" using autoscaling/v1: \.spec\.replicas'
    ):
        site.ask("patch", DEPLOYMENTS, "d", body=scale, **options)
    site.ask("patch", DEPLOYMENTS, "d", body=scale, force=True, **options)
    assert list(owners(site.get(DEPLOYMENTS, "d"))) == [
        ("bob", "Apply", "scale"),
        ("ann", "Apply", ""),
    ]


def test_managed_fields_survive_a_round_trip_and_are_removed_on_request(site):
    made = site.create(CONFIG_MAPS, "c", data={"a": "1"})
    plain = {
        **made,
        "metadata": {
            name: value for name, value in made["metadata"].items() if name != "managedFields"
        },
    }
    sent_back = site.update(CONFIG_MAPS, {**plain, "data": {"a": "2"}}, field_manager="bob")
    assert [entry["manager"] for entry in sent_back["metadata"]["managedFields"]] == [
        "bob",
        "unknown",
    ]
    stale = {**made, "metadata": {**made["metadata"], "resourceVersion": ""}, "data": {"a": "3"}}
    stale = site.update(CONFIG_MAPS, stale, field_manager="cat")
    assert [entry["manager"] for entry in stale["metadata"]["managedFields"]] == ["cat", "unknown"]
    for reset in ([], [{}]):
        cleared = site.patch(CONFIG_MAPS, "c", {"metadata": {"managedFields": reset}})
        assert not cleared["metadata"].get("managedFields")
        apply(site, CONFIG_MAPS, "c", "dan", data={"b": "1"})
