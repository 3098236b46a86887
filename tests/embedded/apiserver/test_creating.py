import pytest

from pytest_kscen.objects.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Invalid,
    MethodNotAllowed,
    NotFound,
)
from pytest_kscen.objects.resources import CONFIG_MAPS, PODS, SERVICES, Resource

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
    "'-' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
KEY = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def test_creation_sets_server_fields(site):
    given = {"uid": "1", "creationTimestamp": "2020-01-01T00:00:00Z", "deletionTimestamp": "2020-01-01T00:00:00Z",
             "deletionGracePeriodSeconds": 5, "selfLink": "/x"}  # fmt: skip
    metadata = site.create(site.thing, "a", metadata=given)["metadata"]
    metadata.pop("managedFields", None)
    assert metadata.pop("uid") != "1"
    assert metadata == {
        "name": "a",
        "namespace": "default",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "generation": 1,
        "resourceVersion": "2",
    }
    assert site.code == 201


def test_request_body_is_not_changed(site):
    body = {"metadata": {"name": "a"}, "spec": {"list": [1]}}
    site.ask("create", site.thing, body=body)
    assert body == {"metadata": {"name": "a"}, "spec": {"list": [1]}}


def test_creation_ignores_status(site):
    assert "status" not in site.create(site.thing, "a", status={"ready": True})


def test_dry_run_is_answered_but_not_stored(site):
    made = site.create(site.thing, "a", dry_run=True)
    assert made["metadata"]["uid"]
    assert "resourceVersion" not in made["metadata"]
    assert site.store.revision == 1
    with pytest.raises(NotFound):
        site.get(site.thing, "a")


class TestNames:
    def test_generated_name_has_five_character_suffix(self, site):
        name = site.create(site.thing, metadata={"generateName": "a-"})["metadata"]["name"]
        assert (name[:2], len(name)) == ("a-", 7)

    def test_long_name_prefix_is_truncated(self, site):
        name = site.create(site.thing, metadata={"generateName": "x" * 80})["metadata"]["name"]
        assert (name[:58], len(name)) == ("x" * 58, 63)

    def test_limit_range_without_name_receives_one(self, site):
        limits = Resource("", "v1", "limitranges", "LimitRange")
        body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": ""}}
        one, other = (site.ask("create", limits, body=body)["metadata"] for _ in range(2))
        assert len({one["name"], other["name"], one["uid"], other["uid"]}) == 4

    def test_generated_name_avoids_existing_names(self, site, monkeypatch):
        suffixes = iter(["aaaaa", "aaaaa", "bbbbb"])
        monkeypatch.setattr(site.core.chance.stream("names"), "suffix", lambda: next(suffixes))
        made = [
            site.create(site.thing, metadata={"generateName": "n"})["metadata"]["name"]
            for _ in range(2)
        ]
        assert made == ["naaaaa", "nbbbbb"]

    def test_exhausted_generated_names_are_refused(self, site, monkeypatch):
        monkeypatch.setattr(site.core.chance.stream("names"), "suffix", lambda: "aaaaa")
        site.create(site.thing, metadata={"generateName": "n"})
        with pytest.raises(AlreadyExists) as refusal:
            site.create(site.thing, metadata={"generateName": "n"})
        assert str(refusal.value) == (
            'things.example.com "naaaaa" already exists, the server was not able to '
            "generate a unique name for the object"
        )
        assert refusal.value.status["details"]["retryAfterSeconds"] == 1

    @pytest.mark.parametrize(
        ("metadata", "words"),
        [
            ({}, "metadata.name: Required value: name or generateName is required"),
            ({"name": "A_b"}, f'metadata.name: Invalid value: "A_b": {SUBDOMAIN}'),
            (
                {"name": "a" * 254},
                f'metadata.name: Invalid value: "{"a" * 254}": must be no more than 253 characters',
            ),
        ],
    )
    def test_invalid_name_is_refused(self, site, metadata, words):
        with pytest.raises(Invalid) as refusal:
            site.ask("create", site.thing, body={"metadata": metadata})
        name = metadata.get("name", "")
        assert str(refusal.value) == f'Thing.example.com "{name}" is invalid: {words}'

    def test_duplicate_name_is_refused(self, site):
        site.create(CONFIG_MAPS, "a", data={"x": "1"})
        with pytest.raises(AlreadyExists, match=r'^configmaps "a" already exists$') as refusal:
            site.create(CONFIG_MAPS, "a")
        assert refusal.value.status["details"] == {"name": "a", "kind": "configmaps"}
        assert site.get(CONFIG_MAPS, "a")["data"] == {"x": "1"}

    def test_name_is_taken_during_deletion(self, site):
        site.create(CONFIG_MAPS, "a", metadata={"finalizers": ["x/y"]})
        site.delete(CONFIG_MAPS, "a")
        with pytest.raises(
            AlreadyExists, match=r'^object is being deleted: configmaps "a" already exists$'
        ):
            site.create(CONFIG_MAPS, "a")


class TestNamespaces:
    def test_namespace_is_set_from_request(self, site):
        with pytest.raises(
            BadRequest, match=r"^the namespace of the provided object does not match"
        ):
            site.create(CONFIG_MAPS, "a", metadata={"namespace": "other"})
        with pytest.raises(MethodNotAllowed):
            site.ask("create", CONFIG_MAPS, namespace="", body={"metadata": {"name": "a"}})

    def test_cluster_scoped_object_has_no_namespace(self, site):
        assert (
            "namespace" not in site.create(site.world, "w", metadata={"namespace": "x"})["metadata"]
        )


class TestMetadata:
    @pytest.mark.parametrize(
        ("metadata", "words"),
        [
            ({"labels": {"-x": "y"}}, f'metadata.labels: Invalid value: "-x": {KEY}'),
            ({"annotations": {"-x": "y"}}, f'metadata.annotations: Invalid value: "-x": {KEY}'),
            (
                {"annotations": {"x": "y" * 262144}},
                "metadata.annotations: Too long: may not be more than 262144 bytes",
            ),
            (
                {"generation": -1},
                "metadata.generation: Invalid value: -1: must be greater than or equal to 0",
            ),
            (
                {"finalizers": ["foo"]},
                (
                    'metadata.finalizers[0]: Invalid value: "foo": name is neither a '
                    "standard finalizer name nor is it fully qualified"
                ),
            ),
            (
                {"finalizers": ["orphan", "foregroundDeletion"]},
                (
                    'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: '
                    "finalizer orphan and foregroundDeletion cannot be both set"
                ),
            ),
            (
                {"ownerReferences": [{"kind": "Pod", "apiVersion": "v1", "name": "x"}]},
                'metadata.ownerReferences.uid: Invalid value: "": must not be empty',
            ),
            (
                {
                    "ownerReferences": [
                        {"uid": "1", "kind": "Event", "apiVersion": "v1", "name": "x"}
                    ]
                },
                (
                    "metadata.ownerReferences: Invalid value: "
                    '{"apiVersion":"v1","kind":"Event","name":"x","uid":"1"}: '
                    "/v1, Kind=Event is disallowed from being an owner"
                ),
            ),
        ],
    )
    def test_invalid_metadata_is_refused(self, site, metadata, words):
        with pytest.raises(Invalid) as refusal:
            site.create(site.odd, "a", metadata=metadata)
        assert str(refusal.value) == f'Odd.example.com "a" is invalid: {words}'

    def test_annotation_size_limit(self, site):
        site.create(CONFIG_MAPS, "a", metadata={"annotations": {"x": "y" * 262143}})

    def test_second_controller_reference_is_refused(self, site):
        owners = [
            {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True}
            for name in "xy"
        ]
        with pytest.raises(
            Invalid,
            match=r'Only one .* set to true\. Found "true" in references for Pod/x and Pod/y$',
        ):
            site.create(CONFIG_MAPS, "a", metadata={"ownerReferences": owners})

    def test_duplicate_owner_is_warned_of(self, site):
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "1"}
        made = site.create(CONFIG_MAPS, "a", metadata={"ownerReferences": [owner, dict(owner)]})
        assert made["metadata"]["ownerReferences"] == [owner]
        assert site.warnings == [
            (
                ".metadata.ownerReferences contains duplicate entries; API server dedups "
                "owner references in 1.20+, and may reject "
                "such requests as early as 1.24; please fix your requests; duplicate "
                "UID(s) observed: 1"
            )
        ]

    def test_custom_resource_accepts_unqualified_finalizer(self, site):
        site.create(site.thing, "a", metadata={"finalizers": ["odd", "x.y", "x/y"]})
        why = "to avoid accidental conflicts with other finalizer writers"
        assert site.warnings == [
            f'metadata.finalizers: "odd": prefer a domain-qualified finalizer name {why}',
            (
                'metadata.finalizers: "x.y": prefer a domain-qualified finalizer name '
                f"including a path (/) {why}"
            ),
        ]
        site.patch(site.thing, "a", {"spec": {"size": 1}})
        assert site.warnings == []

    def test_resource_version_in_creation_is_refused(self, site):
        with pytest.raises(
            ApiError, match=r"^resourceVersion should not be set on objects to be created$"
        ) as refusal:
            site.create(CONFIG_MAPS, "a", metadata={"resourceVersion": "5"})
        assert (refusal.value.code, "reason" in refusal.value.status) == (500, False)


class TestKinds:
    @pytest.mark.parametrize(
        ("head", "words"),
        [
            (
                {"apiVersion": "v2"},
                (
                    'ConfigMap in version "v2" cannot be handled as a ConfigMap: '
                    'no kind "ConfigMap" is registered for version "v2" in scheme '
                    '"pkg/runtime/scheme.go:111"'
                ),
            ),
            (
                {"kind": "Secret"},
                (
                    'Secret in version "v1" cannot be handled as a ConfigMap: '
                    "converting (v1.Secret) to (core.ConfigMap): unknown conversion"
                ),
            ),
        ],
    )
    def test_body_of_other_kind_is_refused(self, site, head, words):
        with pytest.raises(BadRequest) as refusal:
            site.ask("create", CONFIG_MAPS, body={**head, "metadata": {"name": "a"}})
        assert str(refusal.value) == words

    @pytest.mark.parametrize("body", [None, [], "x", 5])
    def test_non_object_body_is_refused(self, site, body):
        with pytest.raises(BadRequest, match="must be an object of kind ConfigMap"):
            site.ask("create", CONFIG_MAPS, body=body)

    def test_unknown_resource_is_not_found(self, site):
        with pytest.raises(NotFound, match=r"^the server could not find the requested resource$"):
            site.create(Resource("nowhere.io", "v1", "whats", "What"), "a")

    def test_unsupported_verb_is_refused(self, site):
        with pytest.raises(
            MethodNotAllowed,
            match=r"^the server does not allow this method on the requested resource$",
        ):
            site.get(Resource("", "v1", "bindings", "Binding"), "a")

    def test_refusal_changes_nothing(self, site):
        before = site.store.revision
        for resource, body in (
            (PODS, {"metadata": {"name": "a", "labels": {"-": ""}}}),
            (SERVICES, {"metadata": []}),
        ):
            with pytest.raises(ApiError):
                site.ask("create", resource, body=body)
        assert site.store.revision == before
