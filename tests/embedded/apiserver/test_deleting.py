import pytest

from pytest_kscen.objects.errors import Conflict, Invalid, NotFound
from pytest_kscen.objects.resources import (
    CONFIG_MAPS,
    EVENTS,
    JOBS,
    PODS,
    SERVICE_ACCOUNTS,
    Resource,
)

GRACE = ("deletionTimestamp", "deletionGracePeriodSeconds", "finalizers")


def grace(obj):
    return tuple(obj["metadata"].get(name) for name in GRACE)


def at(seconds):
    return f"2026-01-01T00:00:{seconds:02}Z"


@pytest.fixture
def pod(site):
    return site.create(
        PODS, "p", spec={"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    )


class TestResponses:
    def test_most_kinds_return_status(self, site):
        uid = site.create(site.thing, "a")["metadata"]["uid"]
        assert site.delete(site.thing, "a") == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {"name": "a", "group": "example.com", "kind": "things", "uid": uid},
        }
        with pytest.raises(NotFound, match=r'^things\.example\.com "a" not found$'):
            site.delete(site.thing, "a")

    def test_some_kinds_return_last_state(self, site):
        account = site.create(SERVICE_ACCOUNTS, "a")
        gone = site.delete(SERVICE_ACCOUNTS, "a")
        assert gone["metadata"] == {**account["metadata"], "resourceVersion": "3"}

    def test_dry_run_deletes_nothing(self, site, pod):
        made = site.create(site.thing, "a")
        assert site.delete(site.thing, "a", dry_run=True)["status"] == "Success"
        assert grace(site.delete(PODS, "p", dry_run=True)) == (at(30), 30, None)
        assert site.get(site.thing, "a") is made
        assert grace(site.get(PODS, "p")) == (None, None, None)


class TestPreconditions:
    def test_uid_precondition(self, site):
        uid = site.create(site.thing, "a")["metadata"]["uid"]
        with pytest.raises(Conflict) as refusal:
            site.delete(site.thing, "a", precondition_uid="x")
        assert str(refusal.value) == (
            'Operation cannot be fulfilled on Thing.example.com "a": the UID in the '
            "precondition (x) does not match "
            f"the UID in record ({uid}). The object might have been deleted and then recreated"
        )
        site.delete(site.thing, "a", precondition_uid=uid)

    def test_version_precondition(self, site):
        site.create(site.thing, "a")
        with pytest.raises(
            Conflict,
            match=(
                r"the ResourceVersion in the precondition \(5\) does not match the "
                r"ResourceVersion in"
            ),
        ):
            site.delete(site.thing, "a", precondition_version="5")
        site.delete(site.thing, "a", precondition_version="2")


class TestFinalizers:
    def test_removal_of_last_finalizer_deletes_object(self, site):
        site.create(site.thing, "a", metadata={"finalizers": ["x/y", "x/z"]})
        assert grace(site.delete(site.thing, "a")) == (at(0), 0, ["x/y", "x/z"])
        site.runner.advance(5)
        assert grace(site.delete(site.thing, "a")) == (at(0), 0, ["x/y", "x/z"])
        assert site.store.revision == 3
        site.patch(site.thing, "a", {"metadata": {"finalizers": ["x/z"]}})
        assert (
            site.patch(site.thing, "a", {"metadata": {"finalizers": None}})["metadata"][
                "resourceVersion"
            ]
            == "4"
        )
        with pytest.raises(NotFound):
            site.get(site.thing, "a")

    def test_finalizer_cannot_be_added_during_deletion(self, site):
        site.create(site.thing, "a", metadata={"finalizers": ["x/y"]})
        site.delete(site.thing, "a")
        with pytest.raises(Invalid, match=r'found new finalizers \[\]string\{"a/b", "c/d"\}$'):
            site.patch(site.thing, "a", {"metadata": {"finalizers": ["c/d", "x/y", "a/b"]}})

    def test_deletion_mark_increments_generation(self, site):
        site.create(site.thing, "a", metadata={"finalizers": ["x/y"]})
        assert site.delete(site.thing, "a")["metadata"]["generation"] == 2
        assert site.delete(site.thing, "a")["metadata"]["generation"] == 2

    def test_garbage_collector_finalizers_may_change(self, site):
        site.create(site.thing, "a")
        assert grace(site.delete(site.thing, "a", propagation="Foreground")) == (
            at(0),
            0,
            ["foregroundDeletion"],
        )
        assert grace(site.delete(site.thing, "a", propagation="Orphan")) == (at(0), 0, ["orphan"])
        site.delete(site.thing, "a", propagation="Background")
        with pytest.raises(NotFound):
            site.get(site.thing, "a")

    @pytest.mark.parametrize(
        ("options", "finalizers", "code"),
        [
            ({"propagation": "Orphan"}, ["x/y", "orphan"], 200),
            ({"propagation": "Foreground"}, ["x/y", "foregroundDeletion"], 200),
            ({"propagation": "Background"}, ["x/y"], 200),
            ({"orphan_dependents": True}, ["x/y", "orphan"], 200),
            ({"orphan_dependents": False}, ["x/y"], 202),
        ],
    )
    def test_propagation_policy_sets_finalizer(self, site, options, finalizers, code):
        site.create(site.thing, "a", metadata={"finalizers": ["x/y"]})
        assert grace(site.delete(site.thing, "a", **options))[2] == finalizers
        assert site.code == code

    @pytest.mark.parametrize("finalizers", [["orphan", "orphan"], ["x/y", "orphan", "x/y"]])
    def test_duplicate_finalizers_are_kept(self, site, finalizers):
        site.create(site.thing, "a", metadata={"finalizers": finalizers})
        assert grace(site.delete(site.thing, "a"))[2] == finalizers

    def test_default_propagation_policy_of_kinds(self, site):
        pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
        site.create(JOBS, "j", spec={"template": {"spec": pod}})
        assert grace(site.delete(JOBS, "j"))[2] == ["orphan"]
        site.create(EVENTS, "e", involvedObject={"namespace": "default"})
        assert site.delete(EVENTS, "e", propagation="Foreground")["status"] == "Success"


class TestGrace:
    def test_grace_period_can_only_shrink(self, site, pod):
        assert grace(site.delete(PODS, "p", grace_period=20)) == (at(20), 20, None)
        assert grace(site.delete(PODS, "p", grace_period=60)) == (at(20), 20, None)
        assert grace(site.delete(PODS, "p")) == (at(20), 20, None)
        site.runner.advance(2)
        assert grace(site.delete(PODS, "p", grace_period=5)) == (at(5), 5, None)
        site.runner.advance(6)
        assert grace(site.delete(PODS, "p", grace_period=3)) == (at(8), 1, None)
        assert grace(site.delete(PODS, "p", grace_period=0)) == (at(8), 0, None)
        with pytest.raises(NotFound):
            site.get(PODS, "p")

    def test_grace_period_defaults_to_spec(self, site):
        containers = [{"name": "c", "image": "i"}]
        site.create(
            PODS,
            "p",
            spec={"nodeName": "n", "terminationGracePeriodSeconds": 7, "containers": containers},
        )
        assert grace(site.delete(PODS, "p")) == (at(7), 7, None)

    def test_negative_grace_period_is_one_second(self, site, pod):
        assert grace(site.delete(PODS, "p", grace_period=-3)) == (at(1), 1, None)

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    def test_finished_pod_is_deleted_immediately(self, site, pod, phase):
        site.patch(PODS, "p", {"status": {"phase": phase}}, subresource="status")
        site.delete(PODS, "p", grace_period=60)
        assert site.names(PODS) == []

    def test_unscheduled_pod_is_deleted_immediately(self, site):
        site.create(PODS, "p", spec={"containers": [{"name": "c", "image": "i"}]})
        watch = site.watch(PODS, resource_version=str(site.store.revision))
        gone = site.delete(PODS, "p")
        assert (grace(gone), gone["metadata"]["generation"]) == ((at(0), 0, None), 2)
        assert watch.received() == [("MODIFIED", "p"), ("DELETED", "p")]

    def test_finalizers_delay_deletion_after_grace_period(self, site, pod):
        assert grace(site.delete(PODS, "p", propagation="Foreground")) == (
            at(30),
            30,
            ["foregroundDeletion"],
        )
        assert grace(site.delete(PODS, "p", propagation="Foreground", grace_period=0)) == (
            at(0),
            0,
            ["foregroundDeletion"],
        )
        site.patch(PODS, "p", {"metadata": {"finalizers": None}})
        assert site.names(PODS) == []

    def test_grace_period_continues_without_finalizers(self, site, pod):
        site.patch(PODS, "p", {"metadata": {"finalizers": ["x/y"]}})
        site.delete(PODS, "p")
        site.patch(PODS, "p", {"metadata": {"finalizers": None}})
        assert site.names(PODS) == ["p"]


class TestCollections:
    def test_collection_deletes_listed_objects(self, site):
        for name in "abc":
            site.create(CONFIG_MAPS, name, metadata={"labels": {"of": name}})
        found = site.ask("deletecollection", CONFIG_MAPS, labels="of in (a, c)")
        assert [item["metadata"]["name"] for item in found["items"]] == ["a", "c"]
        assert (found["kind"], found["metadata"]["resourceVersion"]) == ("ConfigMapList", "4")
        assert site.names(CONFIG_MAPS) == ["b"]

    def test_collection_respects_limit_and_dry_run(self, site):
        for name in "abc":
            site.create(CONFIG_MAPS, name)
        site.ask("deletecollection", CONFIG_MAPS, dry_run=True)
        assert site.names(CONFIG_MAPS) == ["a", "b", "c"]
        site.ask("deletecollection", CONFIG_MAPS, limit=2)
        assert site.names(CONFIG_MAPS) == ["c"]

    def test_collection_of_an_older_version_deletes_what_was_there(self, site):
        for name in "ab":
            version = site.create(CONFIG_MAPS, name)["metadata"]["resourceVersion"]
        site.create(CONFIG_MAPS, "c")
        options = {"resource_version": version, "resource_version_match": "Exact"}
        found = site.ask("deletecollection", CONFIG_MAPS, **options)
        assert [item["metadata"]["name"] for item in found["items"]] == ["a", "b"]
        assert site.names(CONFIG_MAPS) == ["c"]

    def test_collection_uses_deletion_of_kind(self, site, pod):
        site.ask("deletecollection", PODS, grace_period=9)
        assert grace(site.get(PODS, "p")) == (at(9), 9, None)


class TestNamespaces:
    SPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)

    @pytest.fixture
    def space(self, site):
        return site.create(
            self.SPACES, "s", spec={"finalizers": ["kubernetes"]}, metadata={"finalizers": ["x/y"]}
        )

    def finalize(self, site, **spec):
        body = {
            "metadata": {
                "name": "s",
                "finalizers": site.get(self.SPACES, "s")["metadata"].get("finalizers"),
            },
            "spec": spec,
        }
        return site.update(self.SPACES, body, subresource="finalize")

    def test_namespace_terminates_until_finalizers_are_empty(self, site, space):
        going = site.delete(self.SPACES, "s")
        assert (going["status"], grace(going)) == ({"phase": "Terminating"}, (at(0), None, ["x/y"]))
        assert site.delete(self.SPACES, "s")["metadata"]["resourceVersion"] == "3"
        assert self.finalize(site)["spec"] == {}
        assert site.names(self.SPACES) == ["s"]
        site.patch(self.SPACES, "s", {"metadata": {"finalizers": None}})
        assert site.names(self.SPACES) == []

    def test_finalizer_lists_are_emptied_in_any_order(self, site, space):
        site.delete(self.SPACES, "s")
        site.patch(self.SPACES, "s", {"metadata": {"finalizers": None}})
        assert site.names(self.SPACES) == ["s"]
        self.finalize(site)
        assert site.names(self.SPACES) == []

    def test_second_deletion_without_finalizers_completes(self, site):
        site.create(self.SPACES, "s")
        self.finalize(site)
        site.delete(self.SPACES, "s")
        assert site.names(self.SPACES) == ["s"]
        site.delete(self.SPACES, "s")
        assert site.names(self.SPACES) == []

    def test_spec_finalizers_change_through_finalize_only(self, site, space):
        site.patch(self.SPACES, "s", {"spec": {"finalizers": None}})
        assert site.get(self.SPACES, "s")["spec"]["finalizers"] == ["kubernetes"]

    @pytest.mark.parametrize(
        ("options", "finalizers"),
        [
            ({}, ["x/y"]),
            ({"propagation": "Foreground"}, ["x/y", "foregroundDeletion"]),
            ({"propagation": "Orphan"}, ["x/y", "orphan"]),
        ],
    )
    def test_propagation_policy_of_namespace(self, site, space, options, finalizers):
        assert grace(site.delete(self.SPACES, "s", **options))[2] == finalizers
