"""Lists: their shape, their order, their selectors, and pages of one consistent picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.clusters.conformance.case import case, case_of

if TYPE_CHECKING:
    from pytest_kscen.clusters.conformance.visitor import Answer, Visitor

PEOPLE = {
    "anna": {"tier": "front", "age": "old"},
    "bert": {"tier": "front"},
    "carl": {"tier": "back", "age": "new"},
    "dora": {},
}


def people(visitor: Visitor) -> None:
    for name in reversed(PEOPLE):
        visitor.post("configmaps", {"metadata": {"name": name, "labels": {"who": "p", **PEOPLE[name]}}}).ok(201)


def names(answer: Answer) -> str:
    return " ".join(item["metadata"]["name"] for item in answer.ok()["items"] if item["metadata"]["name"] in PEOPLE)


@case
def a_list_has_its_kind_and_its_version(visitor: Visitor) -> None:
    people(visitor)
    listing = visitor.get("configmaps", labelSelector="who").ok()
    assert (listing["kind"], listing["apiVersion"]) == ("ConfigMapList", "v1")
    assert int(listing["metadata"]["resourceVersion"]) > 0
    assert [item["metadata"]["name"] for item in listing["items"]] == list(PEOPLE)
    assert all("kind" not in item for item in listing["items"])


@case
def an_empty_list_has_items(visitor: Visitor) -> None:
    assert visitor.get("leases").ok()["items"] == []


@case
def a_list_of_a_namespace_that_is_not_there_is_empty(visitor: Visitor) -> None:
    assert visitor.get("/api/v1/namespaces/nowhere/configmaps").ok()["items"] == []


@case
def all_namespaces_are_listed_at_once(visitor: Visitor) -> None:
    people(visitor)
    listing = visitor.get("/api/v1/configmaps", labelSelector="who", fieldSelector=f"metadata.namespace={visitor.namespace}")
    assert names(listing) == " ".join(PEOPLE)


@case_of(
    [
        ("equal", "tier=front", "anna bert"),
        ("equal twice", "tier==front", "anna bert"),
        ("unequal", "tier!=front", "carl dora"),
        ("in", "tier in (front, back)", "anna bert carl"),
        ("notin", "tier notin (front)", "carl dora"),
        ("there", "age", "anna carl"),
        ("not there", "!age", "bert dora"),
        ("both", "tier=front,age=old", "anna"),
        ("and not", "tier,!age", "bert"),
        ("none", "tier=middle", ""),
        ("empty value", "tier=", ""),
        ("spaces", " tier = front , age ", "anna"),
        ("in one", "age in (old)", "anna"),
        ("everything", "", "anna bert carl dora"),
    ]
)
def labels_select(visitor: Visitor, selector: str, expected: str) -> None:
    people(visitor)
    assert names(visitor.get("configmaps", labelSelector=selector)) == expected


@case_of(
    [
        ("operator", "a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("set", "a in b", "unable to parse requirement"),
        ("open", "a in (b", "unable to parse requirement"),
        ("key", "-a=b", "unable to parse requirement"),
        ("value", "a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("comma", ",a", "found ',', expected: !, identifier, or 'end of string'"),
    ]
)
def a_selector_that_cannot_be_read_is_a_bad_request(visitor: Visitor, selector: str, words: str) -> None:
    visitor.get("configmaps", labelSelector=selector).refused(400, "BadRequest", words)


@case_of(
    [
        ("name", "metadata.name=anna", "anna"),
        ("not name", "metadata.name!=anna", "bert carl dora"),
        ("twice equal", "metadata.name==carl", "carl"),
        ("nobody", "metadata.name=eve", ""),
    ]
)
def fields_select(visitor: Visitor, selector: str, expected: str) -> None:
    people(visitor)
    assert names(visitor.get("configmaps", fieldSelector=selector)) == expected


@case
def a_field_that_does_not_select_is_a_bad_request(visitor: Visitor) -> None:
    words = '"data" is not a known field selector: only "metadata.name", "metadata.namespace"'
    visitor.get("configmaps", fieldSelector="data=x").refused(400, "BadRequest", words)


@case
def some_kinds_select_by_more(visitor: Visitor) -> None:
    visitor.post("secrets", {"metadata": {"name": "one"}, "type": "example.com/one"}).ok(201)
    visitor.post("secrets", {"metadata": {"name": "two"}, "type": "example.com/two"}).ok(201)
    listing = visitor.get("secrets", fieldSelector="type=example.com/two").ok()
    assert [item["metadata"]["name"] for item in listing["items"]] == ["two"]


@case
def pages_show_one_picture(visitor: Visitor) -> None:
    people(visitor)
    first = visitor.get("configmaps", labelSelector="who", limit=3).ok()
    assert [item["metadata"]["name"] for item in first["items"]] == ["anna", "bert", "carl"]
    token = first["metadata"]["continue"]
    visitor.post("configmaps", {"metadata": {"name": "zoe", "labels": {"who": "p"}}}).ok(201)
    second = visitor.get("configmaps", labelSelector="who", limit=3, **{"continue": token}).ok()
    assert [item["metadata"]["name"] for item in second["items"]] == ["dora"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert not second["metadata"].get("continue")


@case
def a_page_says_how_many_are_left(visitor: Visitor) -> None:
    for name in PEOPLE:
        visitor.post("leases", {"metadata": {"name": name}}).ok(201)
    assert visitor.get("leases", limit=1).ok()["metadata"]["remainingItemCount"] == len(PEOPLE) - 1


@case
def a_limit_that_nothing_exceeds_needs_no_token(visitor: Visitor) -> None:
    people(visitor)
    assert not visitor.get("configmaps", labelSelector="who", limit=100).ok()["metadata"].get("continue")


@case
def a_token_that_is_none_is_a_bad_request(visitor: Visitor) -> None:
    visitor.get("configmaps", limit=1, **{"continue": "x"}).refused(400, "BadRequest", "continue key is not valid")


@case
def a_limit_that_is_no_number_is_a_bad_request(visitor: Visitor) -> None:
    visitor.get("configmaps", limit="x").refused(400, "BadRequest", 'strconv.ParseInt: parsing "x": invalid syntax')


@case
def a_version_from_the_future_is_too_large(visitor: Visitor) -> None:
    refusal = visitor.get("configmaps", resourceVersion="99999999999").refused(504, "Timeout", "Too large resource version")
    assert ("", "ResourceVersionTooLarge") in refusal.causes
    assert refusal.body["details"]["retryAfterSeconds"] == 1


@case_of([("zero", "0"), ("none", "")])
def a_list_from_any_version_shows_what_is_there(visitor: Visitor, version: str) -> None:
    people(visitor)
    visitor.until(lambda: names(visitor.get("configmaps", resourceVersion=version)) == " ".join(PEOPLE))


@case_of(
    [
        ("exact without version", {"resourceVersionMatch": "Exact"}, 422),
        ("unknown match", {"resourceVersion": "1", "resourceVersionMatch": "Roughly"}, 422),
        ("exact zero", {"resourceVersion": "0", "resourceVersionMatch": "Exact"}, 422),
        ("not older than", {"resourceVersion": "1", "resourceVersionMatch": "NotOlderThan"}, 200),
        ("no number", {"resourceVersion": "x"}, 400),
    ]
)
def how_a_version_is_matched_must_make_sense(visitor: Visitor, query: dict[str, str], status: int) -> None:
    assert visitor.get("configmaps", **query).status == status


@case
def an_exact_version_shows_the_past(visitor: Visitor) -> None:
    people(visitor)
    then = visitor.get("configmaps").ok()["metadata"]["resourceVersion"]
    visitor.delete("configmaps/anna").ok()
    past = visitor.get("configmaps", resourceVersion=then, resourceVersionMatch="Exact", labelSelector="who")
    assert names(past) == " ".join(PEOPLE)
    assert past.body["metadata"]["resourceVersion"] == then
