import pytest

from pytest_kscen.embedded.apiserver.wire.media_types import (
    GROUPS,
    LIST_OFFER,
    OBJECT_OFFER,
    PLAIN,
    VERSION,
    WATCH_OFFER,
    Media,
    negotiate,
    refusal_media,
)
from pytest_kscen.objects.errors import NotAcceptable

TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize(
    ("header", "offer", "media"),
    [
        ("", OBJECT_OFFER, PLAIN),
        ("*/*", OBJECT_OFFER, PLAIN),
        ("application/json;q=0.5", OBJECT_OFFER, PLAIN),
        ("application/yaml", OBJECT_OFFER, Media("application/yaml")),
        ("application/vnd.kubernetes.protobuf,application/json", LIST_OFFER, PLAIN),
        ("text/html, application/yaml", OBJECT_OFFER, Media("application/yaml")),
        (TABLE, LIST_OFFER, Media(transform="Table", group="meta.k8s.io", version="v1")),
        (
            f"{TABLE},application/json",
            WATCH_OFFER,
            Media(transform="Table", group="meta.k8s.io", version="v1"),
        ),
        ("application/json;as=Table;g=meta.k8s.io;v=v9, application/json", OBJECT_OFFER, PLAIN),
        (f"{TABLE}", VERSION, PLAIN),
        ("application/*", GROUPS, PLAIN),
        ("application/json;pretty=1", OBJECT_OFFER, Media(pretty=True)),
    ],
)
def test_accept_header_is_negotiated(header, offer, media):
    assert negotiate(header, offer) == media


@pytest.mark.parametrize(
    ("header", "offer", "message"),
    [
        (
            "text/html",
            OBJECT_OFFER,
            "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml",
        ),
        (
            "application/vnd.kubernetes.protobuf",
            LIST_OFFER,
            (
                "406: Not Acceptable\n\nAvailable representations: application/json, "
                "application/yaml, application/json;stream=watch"
            ),
        ),
        (
            "application/json;as=Foo;g=meta.k8s.io;v=v1",
            OBJECT_OFFER,
            "only the following media types are accepted: application/json, application/yaml",
        ),
        (
            "application/yaml",
            WATCH_OFFER,
            "only the following media types are accepted: application/json;stream=watch",
        ),
        (
            "application/yaml",
            VERSION,
            "406: Not Acceptable\n\nAvailable representations: application/json",
        ),
    ],
)
def test_unacceptable_media_type_is_refused(header, offer, message):
    with pytest.raises(NotAcceptable) as refused:
        negotiate(header, offer)
    assert refused.value.message == message


def test_error_uses_accepted_media_type(client):
    assert client.raw("GET", f"{MAPS}/c", accept="application/yaml").body.startswith(
        b"apiVersion: v1\ncode: 404"
    )
    assert refusal_media("text/html") == PLAIN
    assert client.refusal("GET", f"{MAPS}/c", accept=TABLE)[0] == 404


def test_partial_metadata_is_returned(client):
    client.ask("POST", MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    listed = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    one = client.ask("GET", f"{MAPS}/c", accept=partial)[1]
    assert sorted(one) == ["apiVersion", "kind", "metadata"]
    assert (one["kind"], one["apiVersion"], one["metadata"]["name"]) == (
        "PartialObjectMetadata",
        "meta.k8s.io/v1",
        "c",
    )
    many = client.ask("GET", MAPS, accept=listed)[1]
    assert (many["kind"], [item["kind"] for item in many["items"]]) == (
        "PartialObjectMetadataList",
        ["PartialObjectMetadata"],
    )
    (event,) = client.frames(f"{MAPS}?watch=true&timeoutSeconds=1", accept=partial)
    assert (event["type"], event["object"]["kind"]) == ("ADDED", "PartialObjectMetadata")
    assert client.refusal("GET", MAPS, accept=partial) == (
        406,
        (
            "you requested PartialObjectMetadata, but the requested object is a list "
            "(*core.ConfigMapList)"
        ),
    )
    assert client.refusal("GET", f"{MAPS}/c", accept=listed) == (
        406,
        (
            "you requested PartialObjectMetadataList, but the requested object is not a list "
            "(*core.ConfigMap)"
        ),
    )


def test_items_of_built_in_list_have_no_kind(client):
    client.ask("POST", MAPS, {"metadata": {"name": "c"}})
    listing = client.ask("GET", MAPS)[1]
    assert listing["kind"] == "ConfigMapList"
    assert "kind" not in listing["items"][0]
    assert client.ask("GET", f"{MAPS}/c")[1]["kind"] == "ConfigMap"


def test_watch_has_one_line_per_event(client):
    client.ask("POST", MAPS, {"metadata": {"name": "c"}})
    answer = client.raw("GET", f"{MAPS}?watch=true&timeoutSeconds=3")
    assert answer.headers == {"Content-Type": "application/json"}
    before = client.runner.clock.now()

    async def read():
        return [piece async for piece in answer.stream]

    (line,) = client.runner.call(read())
    assert line.startswith(b'{"type":"ADDED","object":{"apiVersion":"v1","kind":"ConfigMap",')
    assert line.endswith(b"}\n")
    assert client.runner.clock.now() - before == 3


def test_deprecated_version_is_warned_of(client):
    warning = '299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"'
    assert client.raw("GET", "/api/v1/namespaces/default/endpoints/x").headers["Warning"] == warning
    assert client.raw("GET", "/api/v1/endpoints?watch=1").headers["Warning"] == warning


def test_pretty_json_is_indented(client):
    assert client.raw("GET", MAPS).body.startswith(b'{"kind"')
    assert client.raw("GET", f"{MAPS}?pretty=true").body.startswith(b'{\n  "kind"')
    assert client.raw("GET", MAPS, user_agent="curl/8.1").body.startswith(b'{\n  "kind"')
    assert client.raw("GET", f"{MAPS}?pretty=0", user_agent="curl/8.1").body.startswith(b'{"kind"')
