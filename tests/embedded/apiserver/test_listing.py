import base64

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_kscen.objects.errors import ApiError, BadRequest, Expired, ServerTimeout
from pytest_kscen.objects.resources import CONFIG_MAPS, EVENTS, NODES, Resource

TOO_LARGE = {
    "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
    "retryAfterSeconds": 1,
}


@pytest.fixture
def five_objects(site):
    for number in range(5):
        site.create(
            CONFIG_MAPS, f"c{number}", metadata={"labels": {"even": str(number % 2 == 0).lower()}}
        )
    return site


def pages(site, resource, limit, **options):
    """Return the names and the remaining count of each page of a list."""
    while True:
        found = site.list(resource, limit=limit, **options)
        metadata = found["metadata"]
        yield (
            [item["metadata"]["name"] for item in found["items"]],
            metadata.get("remainingItemCount"),
        )
        if "continue" not in metadata:
            return
        options["continue_token"] = metadata["continue"]


def token(**content):
    parts = {"v": "meta.k8s.io/v1", **content}
    text = str(parts).replace("'", '"').replace("\\x00", "\\u0000")
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


class TestSelection:
    def test_label_and_field_selectors_filter(self, five_objects):
        assert five_objects.names(CONFIG_MAPS, labels="even=true") == ["c0", "c2", "c4"]
        assert five_objects.names(CONFIG_MAPS, labels="even=true", fields="metadata.name!=c2") == [
            "c0",
            "c4",
        ]
        assert five_objects.names(CONFIG_MAPS, fields="metadata.name=c2") == ["c2"]
        assert five_objects.names(CONFIG_MAPS, fields="metadata.name=c2,metadata.name=c3") == []
        assert five_objects.names(CONFIG_MAPS, fields="metadata.name=c2", labels="even=false") == []
        assert five_objects.names(CONFIG_MAPS, namespace="") == ["c0", "c1", "c2", "c3", "c4"]
        assert (
            five_objects.names(CONFIG_MAPS, namespace="", fields="metadata.namespace=other") == []
        )
        assert five_objects.names(CONFIG_MAPS, namespace="nowhere") == []

    def test_kind_specific_field_selectors(self, site):
        for size in (1, 2):
            site.create(site.thing, f"t{size}", spec={"size": size})
        assert site.names(site.thing, fields="spec.size=2") == ["t2"]
        assert site.names(site.old_thing, fields="spec.size!=2") == ["t1"]

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"labels": "a in (b"}, "unable to parse requirement: found '', expected: ',' or ')'"),
            ({"fields": "a"}, "invalid selector: 'a'; can't understand 'a'"),
            (
                {"fields": "spec.x=1"},
                (
                    '"spec.x" is not a known field selector: only "metadata.name", '
                    '"metadata.namespace"'
                ),
            ),
        ],
    )
    def test_invalid_selector_is_refused(self, site, options, words):
        with pytest.raises(BadRequest) as refusal:
            site.list(CONFIG_MAPS, **options)
        assert str(refusal.value) == words

    def test_kind_with_own_fields_has_short_error(self, site):
        with pytest.raises(BadRequest, match=r"^field label not supported: spec\.x$"):
            site.list(site.thing, fields="spec.x=1")

    def test_events_are_listed_in_both_groups(self, site):
        newer = Resource("events.k8s.io", "v1", "events", "Event")
        about = {"kind": "Pod", "name": "p", "namespace": "default", "apiVersion": "v1"}
        site.create(
            EVENTS,
            "e",
            involvedObject=about,
            reason="R",
            message="M",
            type="Normal",
            source={"component": "c"},
        )
        event = site.get(newer, "e")
        assert (event["regarding"], event["note"], event["deprecatedSource"]) == (
            about,
            "M",
            {"component": "c"},
        )
        assert event["apiVersion"] == "events.k8s.io/v1"
        assert not {"involvedObject", "message", "source"} & {*event}
        made = {"metadata": {"name": "f"}, "regarding": about, "note": "N", "reason": "R", "type": "Normal", "action": "A",
                "reportingController": "x.y/z", "reportingInstance": "i", "eventTime": "2026-01-01T00:00:00.000000Z"}  # fmt: skip
        site.ask("create", newer, body=made)
        assert site.get(EVENTS, "f")["message"] == "N"
        assert [item["apiVersion"] for item in site.list(newer)["items"]] == [
            "events.k8s.io/v1"
        ] * 2


class TestPages:
    def test_page_reports_remaining_count(self, five_objects):
        assert list(pages(five_objects, CONFIG_MAPS, 2)) == [
            (["c0", "c1"], 3),
            (["c2", "c3"], 1),
            (["c4"], None),
        ]
        assert list(pages(five_objects, CONFIG_MAPS, 5)) == [(["c0", "c1", "c2", "c3", "c4"], None)]

    def test_selector_hides_remaining_count(self, five_objects):
        assert list(pages(five_objects, CONFIG_MAPS, 2, labels="even=true")) == [
            (["c0", "c2"], None),
            (["c4"], None),
        ]
        assert list(pages(five_objects, CONFIG_MAPS, 1, labels="even=false")) == [
            (["c1"], None),
            (["c3"], None),
            ([], None),
        ]
        assert list(pages(five_objects, CONFIG_MAPS, 1, fields="metadata.name=c2")) == [
            (["c2"], None)
        ]

    def test_pages_share_one_version(self, five_objects):
        walk = pages(five_objects, CONFIG_MAPS, 2)
        seen = [next(walk)]
        five_objects.delete(CONFIG_MAPS, "c0")
        five_objects.delete(CONFIG_MAPS, "c3")
        five_objects.create(CONFIG_MAPS, "c2a")
        five_objects.patch(CONFIG_MAPS, "c4", {"data": {"x": "1"}})
        assert [*seen, *walk] == [(["c0", "c1"], 3), (["c2", "c3"], 1), (["c4"], None)]

    def test_cluster_scoped_list_is_paged(self, site):
        for name in "abc":
            site.create(NODES, name)
        assert [names for names, _ in pages(site, NODES, 2)] == [["a", "b"], ["c"]]

    def test_expired_page_is_refused(self, five_objects):
        first = five_objects.list(CONFIG_MAPS, limit=2)
        five_objects.create(CONFIG_MAPS, "c1a")
        five_objects.store.compact()
        with pytest.raises(
            Expired, match=r"^The provided continue parameter is too old to display a consistent"
        ) as refusal:
            five_objects.list(CONFIG_MAPS, limit=2, continue_token=first["metadata"]["continue"])
        rest = five_objects.list(
            CONFIG_MAPS, continue_token=refusal.value.status["metadata"]["continue"]
        )
        assert [item["metadata"]["name"] for item in rest["items"]] == ["c1a", "c2", "c3", "c4"]
        assert rest["metadata"] == {"resourceVersion": "7"}

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("garbage", r"invalid character '\u0081' looking for beginning of value"),
            (token(v="x", rv=5, start="a"), "server does not recognize this encoded version x"),
            (
                token(rv=0, start="a"),
                "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ),
            (token(rv=5), "encoded start key empty (version meta.k8s.io/v1)"),
            (token(rv=5, start="/../../x"), "/../../x"),
        ],
    )
    def test_invalid_continue_token_is_refused(self, site, text, why):
        with pytest.raises(BadRequest) as refusal:
            site.list(CONFIG_MAPS, continue_token=text)
        assert str(refusal.value) == f"invalid continue token: continue key is not valid: {why}"

    def test_continue_token_contains_version(self, five_objects):
        following = five_objects.list(CONFIG_MAPS, limit=2)["metadata"]["continue"]
        with pytest.raises(
            BadRequest, match=r"^specifying resource version is not allowed when using continue$"
        ):
            five_objects.list(CONFIG_MAPS, continue_token=following, resource_version="2")
        assert five_objects.names(CONFIG_MAPS, continue_token=following, resource_version="0") == [
            "c2",
            "c3",
            "c4",
        ]

    @settings(
        max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(
        names=st.lists(st.sampled_from(["a/x", "a/y", "a-b/x", "b/x", "b/y", "b/z"]), unique=True),
        writes=st.lists(
            st.tuples(st.booleans(), st.sampled_from(["a/x", "a/z", "a-b/y", "b/x", "b/zz"])),
            max_size=4,
        ),
        limit=st.integers(1, 4),
    )
    def test_pages_are_complete_despite_writes(self, site, names, writes, limit):
        site.store.__init__()
        for name in names:
            site.create(CONFIG_MAPS, name.split("/")[1], namespace=name.split("/")[0])
        expected = site.names(CONFIG_MAPS, namespace="")
        seen, left = [], iter(writes)
        for page, _ in pages(site, CONFIG_MAPS, limit, namespace=""):
            seen += page
            for is_made, place in left:
                namespace, name = place.split("/")
                try:
                    site.create(CONFIG_MAPS, name, namespace=namespace) if is_made else site.delete(
                        CONFIG_MAPS, name, namespace=namespace
                    )
                except ApiError:
                    continue
                break
        assert seen == expected


class TestVersions:
    def test_exact_and_minimum_version(self, five_objects):
        five_objects.delete(CONFIG_MAPS, "c4")
        exact = five_objects.list(CONFIG_MAPS, resource_version="6", resource_version_match="Exact")
        assert (len(exact["items"]), exact["metadata"]) == (5, {"resourceVersion": "6"})
        for match in ("", "NotOlderThan"):
            later = five_objects.list(
                CONFIG_MAPS, resource_version="6", resource_version_match=match
            )
            assert (len(later["items"]), later["metadata"]) == (4, {"resourceVersion": "7"})
        page = five_objects.list(CONFIG_MAPS, resource_version="6", limit=2)["metadata"]
        assert (page["resourceVersion"], page["remainingItemCount"]) == ("6", 3)

    def test_any_version_returns_current_list(self, five_objects):
        found = five_objects.list(CONFIG_MAPS, resource_version="0", limit=2)
        assert (len(found["items"]), found["metadata"]) == (5, {"resourceVersion": "6"})

    def test_expired_version_is_refused(self, five_objects):
        five_objects.store.compact()
        with pytest.raises(
            Expired, match=r"^The resourceVersion for the provided list is too old\.$"
        ):
            five_objects.list(CONFIG_MAPS, resource_version="2", resource_version_match="Exact")
        assert len(five_objects.list(CONFIG_MAPS, resource_version="2")["items"]) == 5

    def test_future_version_is_refused(self, five_objects):
        for ask in (
            lambda: five_objects.list(CONFIG_MAPS, resource_version="9"),
            lambda: five_objects.get(CONFIG_MAPS, "c1", resource_version="9"),
        ):
            with pytest.raises(
                ServerTimeout, match=r"^Timeout: Too large resource version: 9, current: 6$"
            ) as refusal:
                ask()
            assert refusal.value.status["details"] == TOO_LARGE

    def test_invalid_version_is_refused(self, five_objects):
        why = 'resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax'
        with pytest.raises(BadRequest) as refusal:
            five_objects.list(CONFIG_MAPS, resource_version="x")
        assert str(refusal.value) == f"invalid resource version: {why}"
        with pytest.raises(ApiError) as refusal:
            five_objects.get(CONFIG_MAPS, "c1", resource_version="x")
        assert (str(refusal.value), refusal.value.code) == (why, 500)
