import pytest

from pytest_kscen.embedded.apiserver.admission import Hook
from pytest_kscen.embedded.apiserver.verbs.updating import equal_json
from pytest_kscen.objects.errors import (
    ApiError,
    BadRequest,
    Conflict,
    Invalid,
    MethodNotAllowed,
    NotFound,
)
from pytest_kscen.objects.resources import CONFIG_MAPS

STALE = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def without_metadata(obj):
    """Drop the metadata that every object has."""
    kept = ("name", "namespace", "uid", "creationTimestamp", "resourceVersion", "managedFields")
    return {
        **obj,
        "metadata": {name: value for name, value in obj["metadata"].items() if name not in kept},
    }


@pytest.fixture
def thing(site):
    return site.create(site.thing, "a", spec={"size": 1})


class TestVersions:
    def test_update_with_current_version_succeeds(self, site, thing):
        new = site.update(site.thing, {**thing, "spec": {"size": 2}})
        assert (new["spec"], new["metadata"]["resourceVersion"]) == ({"size": 2}, "3")

    def test_update_with_stale_version_is_refused(self, site, thing):
        site.update(site.thing, {**thing, "spec": {"size": 2}})
        with pytest.raises(Conflict) as refusal:
            site.update(site.thing, {**thing, "spec": {"size": 3}})
        assert (
            str(refusal.value)
            == f'Operation cannot be fulfilled on things.example.com "a": {STALE}'
        )
        assert refusal.value.status["details"] == {
            "name": "a",
            "group": "example.com",
            "kind": "things",
        }
        assert site.get(site.thing, "a")["spec"] == {"size": 2}

    @pytest.mark.parametrize("version", [{}, {"resourceVersion": "0"}])
    def test_update_without_version_replaces_latest(self, site, version):
        site.create(CONFIG_MAPS, "c", data={"a": "1"})
        site.update(CONFIG_MAPS, {"metadata": {"name": "c", **version}, "data": {"a": "2"}})
        assert site.get(CONFIG_MAPS, "c")["data"] == {"a": "2"}

    def test_some_kinds_require_a_resource_version(self, site):
        site.create(site.odd, "o")
        with pytest.raises(Invalid) as refusal:
            site.update(site.odd, {"metadata": {"name": "o"}, "spec": {}})
        assert str(refusal.value) == (
            'odds.example.com "o" is invalid: metadata.resourceVersion: Invalid value: '
            "0: must be specified for an update"
        )

    def test_invalid_version_is_refused(self, site, thing):
        with pytest.raises(ApiError, match=r'^strconv\.ParseUint: parsing "abc": invalid syntax$'):
            site.update(
                site.thing, {**thing, "metadata": {**thing["metadata"], "resourceVersion": "abc"}}
            )

    def test_update_without_change_keeps_version(self, site, thing):
        site.update(site.thing, {"metadata": {"name": "a"}, "spec": {"size": 1}})
        site.patch(site.thing, "a", {"spec": {"size": 1}, "metadata": {"labels": None}})
        assert site.store.revision == 2
        assert site.get(site.thing, "a") is thing

    def test_dry_run_is_answered_but_not_stored(self, site, thing):
        new = site.patch(site.thing, "a", {"spec": {"size": 2}}, dry_run=True)
        assert (new["spec"], new["metadata"]["generation"], new["metadata"]["resourceVersion"]) == (
            {"size": 2},
            2,
            "2",
        )
        assert site.get(site.thing, "a") is thing


class TestIdentity:
    def test_body_must_name_object(self, site, thing):
        with pytest.raises(
            BadRequest,
            match=r"^the name of the object \(b\) does not match the name on the URL \(a\)$",
        ):
            site.ask("update", site.thing, "a", body={"metadata": {"name": "b"}})
        with pytest.raises(
            BadRequest,
            match=r"^the name of the object \(a based on URL\) was undeterminable: name must be",
        ):
            site.ask("update", site.thing, "a", body={"metadata": {}})
        with pytest.raises(BadRequest, match=r"^the name of the object \(b\) does not match"):
            site.patch(site.thing, "a", {"metadata": {"name": "b"}})
        with pytest.raises(
            BadRequest, match=r"^the namespace of the provided object does not match"
        ):
            site.patch(site.thing, "a", {"metadata": {"namespace": "b"}})

    def test_update_with_other_uid_is_refused(self, site):
        uid = site.create(CONFIG_MAPS, "c")["metadata"]["uid"]
        with pytest.raises(Conflict) as refusal:
            site.update(CONFIG_MAPS, {"metadata": {"name": "c", "uid": "other"}})
        assert str(refusal.value) == (
            'Operation cannot be fulfilled on configmaps "c": StorageError: invalid '
            "object, Code: 4, "
            "Key: /registry/configmaps/default/c, ResourceVersion: 0, AdditionalErrorMsg: "
            f"Precondition failed: UID in precondition: other, UID in object meta: {uid}"
        )

    def test_patch_cannot_change_identity(self, site, thing):
        with pytest.raises(Invalid) as refusal:
            site.patch(site.thing, "a", {"metadata": {"uid": "m"}})
        assert str(refusal.value) == (
            'Thing.example.com "a" is invalid: metadata.uid: Invalid value: "m": field is immutable'
        )
        assert [cause["field"] for cause in refusal.value.status["details"]["causes"]] == [
            "metadata.uid"
        ] * 2

    def test_server_metadata_is_kept(self, site, thing):
        given = {"creationTimestamp": None, "generation": 9, "uid": None, "labels": {"a": "b"}}
        new = site.patch(site.thing, "a", {"metadata": given})
        assert new["metadata"]["uid"] == thing["metadata"]["uid"]
        assert new["metadata"]["creationTimestamp"] == thing["metadata"]["creationTimestamp"]
        assert without_metadata(new)["metadata"] == {"labels": {"a": "b"}, "generation": 1}

    @pytest.mark.parametrize("name", ["deletionTimestamp", "deletionGracePeriodSeconds"])
    def test_update_cannot_set_deletion_timestamp(self, site, thing, name):
        value = "2026-01-01T00:00:00Z" if name == "deletionTimestamp" else 5
        with pytest.raises(
            Invalid,
            match=(
                rf"^Thing.example.com \"a\" is invalid: metadata\.{name}: .*: field is "
                r"immutable$"
            ),
        ):
            site.patch(site.thing, "a", {"metadata": {name: value}})

    def test_deletion_timestamp_cannot_change(self, site):
        site.create(site.thing, "b", metadata={"finalizers": ["x/y"]})
        site.delete(site.thing, "b")
        with pytest.raises(
            Invalid,
            match=r"metadata\.deletionGracePeriodSeconds: Invalid value: 3: field is immutable$",
        ):
            site.patch(site.thing, "b", {"metadata": {"deletionGracePeriodSeconds": 3}})
        kept = {"deletionGracePeriodSeconds": None, "deletionTimestamp": None}
        assert (
            site.patch(site.thing, "b", {"metadata": kept})["metadata"][
                "deletionGracePeriodSeconds"
            ]
            == 0
        )

    def test_update_of_missing_object_is_not_found(self, site):
        for verb in ("update", "patch"):
            with pytest.raises(NotFound, match=r'^things\.example\.com "a" not found$'):
                site.ask(
                    verb,
                    site.thing,
                    "a",
                    body={"metadata": {"name": "a"}},
                    patch_type="application/merge-patch+json",
                )


class TestCreation:
    def test_update_creates_object_of_some_kinds(self, site):
        made = site.update(site.odd, {"metadata": {"name": "o", "resourceVersion": "7"}, "spec": 1})
        assert (site.code, made["metadata"]["resourceVersion"]) == (201, "2")

    def test_update_with_uid_creates_nothing(self, site):
        with pytest.raises(Conflict, match=r"UID in precondition: x, UID in object meta: $"):
            site.update(site.odd, {"metadata": {"name": "o", "uid": "x"}})

    def test_patch_creates_nothing(self, site):
        with pytest.raises(NotFound, match=r'^odds\.example\.com "o" not found$'):
            site.patch(site.odd, "o", {})


class TestStatus:
    def test_spec_and_status_writes_are_separate(self, site, thing):
        site.update(site.thing, {**thing, "status": {"ready": True}, "spec": {"size": 2}})
        assert without_metadata(site.get(site.thing, "a")) == {
            "apiVersion": "example.com/v1",
            "kind": "Thing",
            "metadata": {"generation": 2},
            "spec": {"size": 2},
        }
        body = {"metadata": {"labels": {"a": "b"}}, "spec": {"size": 5}, "status": {"ready": True}}
        new = site.patch(site.thing, "a", body, subresource="status")
        assert (new["spec"], new["status"], new["metadata"].get("labels")) == (
            {"size": 2},
            {"ready": True},
            None,
        )
        assert site.patch(site.thing, "a", {"spec": {"size": 3}, "status": None})["status"] == {
            "ready": True
        }
        assert "status" not in site.patch(site.thing, "a", {"status": None}, subresource="status")

    def test_status_update_is_validated(self, site, thing):
        site.patch(site.thing, "a", {"status": {"x": 1}}, subresource="status")
        with pytest.raises(Conflict):
            site.update(site.thing, {**thing, "status": {}}, subresource="status")

    def test_missing_subresource_is_not_found(self, site):
        site.create(CONFIG_MAPS, "c")
        with pytest.raises(NotFound, match=r"^the server could not find the requested resource$"):
            site.patch(CONFIG_MAPS, "c", {}, subresource="status")
        with pytest.raises(MethodNotAllowed):
            site.ask("delete", site.thing, "a", subresource="status")


class TestGeneration:
    def test_generation_counts_spec_changes(self, site, thing):
        generations = [
            site.patch(site.thing, "a", body, **more)["metadata"]["generation"]
            for body, more in [
                ({"spec": {"size": 2}}, {}),
                ({"metadata": {"labels": {"a": "b"}}}, {}),
                ({"status": {"x": 1}}, {"subresource": "status"}),
                ({"spec": {"size": 1}, "more": 1}, {}),
            ]
        ]
        assert generations == [2, 2, 2, 3]

    def test_some_kinds_have_no_generation(self, site):
        site.create(site.world, "w", spec=1)
        assert "generation" not in site.patch(site.world, "w", {"spec": 2})["metadata"]


class TestWhileAdmissionWaits:
    @pytest.fixture
    def write_during_admission(self, site):
        """Run another write while a write is in admission."""

        actions = []

        async def mutate(_):
            if actions:
                await site.runner.clock.sleep(1)
                await actions.pop()

        site.core.admission.add(Hook("slow", mutate=mutate))
        return actions.append

    def test_patch_is_repeated_after_concurrent_write(self, site, thing, write_during_admission):
        write_during_admission(site.api.patch(site.thing, "a", {"spec": {"other": 1}}, "default"))
        assert site.patch(site.thing, "a", {"spec": {"size": 2}})["spec"] == {"size": 2, "other": 1}

    def test_update_is_refused_after_concurrent_write(self, site, thing, write_during_admission):
        write_during_admission(site.api.patch(site.thing, "a", {"spec": {"other": 1}}, "default"))
        with pytest.raises(Conflict, match=STALE):
            site.update(site.thing, {**thing, "spec": {"size": 2}})

    def test_concurrently_deleted_object_is_not_found(self, site, thing, write_during_admission):
        write_during_admission(site.api.delete(site.thing, "a", "default"))
        with pytest.raises(NotFound):
            site.patch(site.thing, "a", {"spec": {"size": 2}})


class TestServedVersions:
    def test_served_versions_share_objects(self, site, thing):
        old = site.get(site.old_thing, "a")
        assert old == {**thing, "apiVersion": "example.com/v1beta1"}
        assert old["spec"] is thing["spec"]
        assert (
            site.patch(site.old_thing, "a", {"spec": {"size": 2}})["apiVersion"]
            == "example.com/v1beta1"
        )
        assert site.get(site.thing, "a")["apiVersion"] == "example.com/v1"
        assert [item["apiVersion"] for item in site.list(site.old_thing)["items"]] == [
            "example.com/v1beta1"
        ]
        assert (
            site.update(site.thing, {**thing, "metadata": {"name": "a"}, "spec": {"size": 2}})[
                "metadata"
            ]["resourceVersion"]
            == "3"
        )


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), ([0], [False]), ({"a": {}}, {}), ({"a": 1}, {"b": 1}), ("1", 1), ([], [1])],
)
def test_unequal_json_values_are_distinct(one, other):
    assert not equal_json(one, other)
    assert equal_json(one, one)
    assert equal_json({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]})
