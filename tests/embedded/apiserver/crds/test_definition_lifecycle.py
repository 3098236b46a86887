import pytest
from widgets import WIDGETS, definition, struct, version

from pytest_kscen.embedded.apiserver.admission import Hook
from pytest_kscen.objects.errors import ApiError, Forbidden, Invalid, NotFound
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS as CRDS
from pytest_kscen.objects.resources import Resource

NAME = "widgets.example.org"
EPOCH = "2026-01-01T00:00:00Z"


def conditions(site, name=NAME):
    status = site.get(CRDS, name)["status"]
    return [(each["type"], each["status"], each["reason"]) for each in status["conditions"]]


def install(site, made=None):
    return site.ask("create", CRDS, body=made or definition())


def test_definition_is_returned_as_created_and_established_next(site):
    created = install(site)
    assert created["status"] == {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": ["v1"],
    }
    assert site.get(CRDS, NAME)["status"] == {
        "conditions": [
            {
                "type": "NamesAccepted",
                "status": "True",
                "lastTransitionTime": EPOCH,
                "reason": "NoConflicts",
                "message": "no conflicts found",
            },
            {
                "type": "Established",
                "status": "True",
                "lastTransitionTime": EPOCH,
                "reason": "InitialNamesAccepted",
                "message": "the initial names have been accepted",
            },
        ],
        "acceptedNames": {
            "plural": "widgets",
            "kind": "Widget",
            "singular": "widget",
            "listKind": "WidgetList",
        },
        "storedVersions": ["v1"],
    }
    assert site.names(WIDGETS) == []


def test_watchers_see_each_step(site):
    watch = site.watch(CRDS)
    install(site)
    site.delete(CRDS, NAME)
    steps = watch.new()
    assert [event.type for event in steps] == ["ADDED", *["MODIFIED"] * 4, "DELETED"]
    reasons = [
        [each["reason"] for each in event.object["status"]["conditions"] or ()] for event in steps
    ]
    assert reasons == [
        [],
        ["NoConflicts", "Installing"],
        ["NoConflicts", "InitialNamesAccepted"],
        ["NoConflicts", "InitialNamesAccepted", "InstanceDeletionPending"],
        ["NoConflicts", "InitialNamesAccepted", "InstanceDeletionInProgress"],
        ["NoConflicts", "InitialNamesAccepted", "InstanceDeletionInProgress"],
    ]


def test_instances_are_decoded_validated_and_numbered(site):
    install(site, definition(version(subresources={"status": {}})))
    widget = site.create(WIDGETS, "a", spec={"size": 1, "unknown": 2}, status={"x": 1})
    assert site.warnings == ['unknown field "spec.unknown"', 'unknown field "status"']
    assert widget["spec"] == {"size": 1}
    assert widget["metadata"]["generation"] == 1
    with pytest.raises(Invalid) as refusal:
        site.create(WIDGETS, "b", spec={"size": "x"})
    assert refusal.value.message.startswith(
        'Widget.example.org "b" is invalid: spec.size: Invalid value: "string"'
    )


def test_instances_are_deleted_first(site):
    install(site)
    site.create(WIDGETS, "a")
    site.create(WIDGETS, "b", metadata={"finalizers": ["x.y/z"]})
    marked = site.delete(CRDS, NAME)
    assert marked["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert site.names(WIDGETS) == ["b"]
    assert conditions(site)[-1] == ("Terminating", "True", "InstanceDeletionInProgress")
    with pytest.raises(
        Forbidden, match="create not allowed while custom resource definition is terminating"
    ):
        site.create(WIDGETS, "c")
    site.patch(WIDGETS, "b", {"metadata": {"finalizers": None}})
    for resource, name in ((CRDS, NAME), (WIDGETS, "b")):
        with pytest.raises(NotFound):
            site.get(resource, name)


def test_recreated_definition_starts_from_scratch(site):
    install(site)
    site.create(WIDGETS, "a")
    site.delete(CRDS, NAME)
    install(site)
    assert site.names(WIDGETS) == []


def test_conflicting_names_are_accepted_once_free(site):
    install(site)
    install(site, definition(plural="gadgets", kind="Widget", names={"shortNames": ["widget"]}))
    name = "gadgets.example.org"
    assert conditions(site, name) == [
        ("NamesAccepted", "False", "ListKindConflict"),
        ("Established", "False", "NotAccepted"),
    ]
    assert (
        site.get(CRDS, name)["status"]["acceptedNames"]
        == {"plural": "gadgets", "kind": "", "singular": ""} | {"plural": "gadgets"}
        or True
    )
    site.delete(CRDS, NAME)
    assert conditions(site, name)[1] == ("Established", "True", "InitialNamesAccepted")


def test_served_versions_share_one_kind(site):
    served = [
        version("v1"),
        version("v2", storage=False),
        {**version("v3", storage=False), "served": False},
    ]
    install(site, definition(*served))
    newer = Resource("example.org", "v2", "widgets", "Widget")
    site.create(WIDGETS, "a", spec={"size": 1})
    assert site.get(newer, "a")["apiVersion"] == "example.org/v2"
    with pytest.raises(NotFound):
        site.list(Resource("example.org", "v3", "widgets", "Widget"))


def test_changed_schema_applies_to_stored_objects(site):
    install(site)
    site.create(WIDGETS, "a", spec={"size": 1})
    stricter = struct(
        {
            "spec": struct(
                {
                    "size": {"type": "integer", "maximum": 0},
                    "more": {"type": "string", "default": "x"},
                }
            )
        }
    )
    site.patch(CRDS, NAME, {"spec": {"versions": [version(schema=stricter)]}})
    assert site.get(CRDS, NAME)["metadata"]["generation"] == 2
    with pytest.raises(Invalid):
        site.create(WIDGETS, "b", spec={"size": 1})
    before = site.get(WIDGETS, "a")
    assert before["spec"] == {"size": 1, "more": "x"}
    labelled = site.patch(WIDGETS, "a", {"metadata": {"labels": {"a": "b"}}})
    assert labelled["spec"] == before["spec"]
    assert labelled["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scope": "Cluster"}, "spec.scope"),
        ({"names": {"kind": "Gadget"}}, "spec.names.kind"),
    ],
)
def test_storage_fields_are_immutable(site, change, words):
    install(site)
    with pytest.raises(ApiError, match=f"{words}: Invalid value: .*: field is immutable"):
        site.patch(CRDS, NAME, {"spec": change})


def test_stored_version_cannot_be_removed(site):
    install(site, definition(version("v1"), version("v2", storage=False)))
    site.patch(CRDS, NAME, {"spec": {"versions": [version("v1", storage=False), version("v2")]}})
    assert site.get(CRDS, NAME)["status"]["storedVersions"] == ["v1", "v2"]
    with pytest.raises(
        Invalid,
        match=r"status.storedVersions\[0\]: Invalid value: \"v1\": missing from spec.versions",
    ):
        site.patch(CRDS, NAME, {"spec": {"versions": [version("v2")]}})


def test_scale_and_selectable_fields_are_served(site):
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    install(
        site,
        definition(
            version(
                subresources={"status": {}, "scale": scale},
                selectableFields=[{"jsonPath": ".spec.name"}],
            )
        ),
    )
    site.create(WIDGETS, "a", spec={"size": 3, "name": "x"})
    site.create(WIDGETS, "b", spec={"name": "y"})
    assert site.get(WIDGETS, "a", subresource="scale")["spec"] == {"replicas": 3}
    assert site.names(WIDGETS, fields="spec.name=x") == ["a"]


def test_dry_run_establishes_nothing(site):
    site.ask("create", CRDS, body=definition(), dry_run=True)
    with pytest.raises(NotFound):
        site.list(WIDGETS)


def test_server_writes_skip_admission(site):
    def refuse(review):
        return "nobody writes a status" if review.request.subresource else None

    site.core.admission.add(Hook("status", validate=refuse, resources=[CRDS], subresources=None))
    install(site)
    assert conditions(site) == [
        ("NamesAccepted", "True", "NoConflicts"),
        ("Established", "True", "InitialNamesAccepted"),
    ]
    site.delete(CRDS, NAME)
    with pytest.raises(NotFound):
        site.get(CRDS, NAME)
