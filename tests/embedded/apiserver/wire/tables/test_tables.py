from pytest_kscen.embedded.apiserver.wire.tables import custom_columns

TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
MAPS = "/api/v1/namespaces/default/configmaps"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {
            "plural": "widgets",
            "singular": "widget",
            "kind": "Widget",
            "listKind": "WidgetList",
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {
                        "name": "When",
                        "type": "date",
                        "jsonPath": ".spec.when",
                        "priority": 1,
                        "description": "when it was",
                    },
                ],
            }
        ],
    },
}


def cells(definition, obj, now=1767225600.0):
    return [column.cell(obj, now) for column in custom_columns(definition, "v1")]


def columns(*given):
    return {"spec": {"versions": [{"name": "v1", "additionalPrinterColumns": list(given)}]}}


def column(type_, path=".v"):
    return {"name": "V", "type": type_, "jsonPath": path}


def test_list_as_table(client):
    client.ask("POST", MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    client.runner.advance(90)
    table = client.ask("GET", MAPS, accept=TABLE)[1]
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert table["columnDefinitions"][0] == {
        "name": "Name",
        "type": "string",
        "format": "name",
        "description": "",
        "priority": 0,
    }
    (row,) = table["rows"]
    assert row["cells"] == ["c", 1, "90s"]
    assert (row["object"]["kind"], row["object"]["metadata"]["name"]) == (
        "PartialObjectMetadata",
        "c",
    )


def test_include_object_levels(client):
    client.ask("POST", MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    whole = client.ask("GET", f"{MAPS}/c?includeObject=Object", accept=TABLE)[1]["rows"][0]
    assert whole["object"]["data"] == {"a": "1"}
    assert (
        "object"
        not in client.ask("GET", f"{MAPS}/c?includeObject=None", accept=TABLE)[1]["rows"][0]
    )
    status, message = client.refusal("GET", f"{MAPS}?includeObject=Foo", accept=TABLE)
    assert status == 400
    assert message.endswith(
        "includeObject: Invalid value: \"Foo\": must be 'Metadata', 'Object', 'None', or empty"
    )


def test_watch_sends_columns_in_first_table_only(client):
    for name in ("a", "b"):
        client.ask("POST", MAPS, {"metadata": {"name": name}})
    path = f"{MAPS}?watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    events = client.frames(path, accept=TABLE)
    assert [event["type"] for event in events[:3]] == ["ADDED", "ADDED", "BOOKMARK"]
    assert [event["object"]["columnDefinitions"] is None for event in events[:3]] == [
        False,
        True,
        True,
    ]
    assert [event["object"]["rows"][0]["cells"] for event in events[:3]] == [
        ["a", 0, "0s"],
        ["b", 0, "0s"],
        ["", "", ""],
    ]
    annotations = events[2]["object"]["rows"][0]["object"]["metadata"]["annotations"]
    assert annotations == {"k8s.io/initial-events-end": "true"}


def test_custom_columns(client):
    client.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
    widgets = "/apis/example.com/v1/namespaces/default/widgets"
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    client.ask("POST", widgets, {**widget, "spec": {"size": 3, "when": "2025-12-31T23:00:00Z"}})
    table = client.ask("GET", widgets, accept=TABLE)[1]
    assert [
        (each["name"], each["type"], each["priority"]) for each in table["columnDefinitions"]
    ] == [
        ("Name", "string", 0),
        ("Size", "integer", 0),
        ("When", "date", 1),
    ]
    assert (
        table["columnDefinitions"][1]["description"]
        == "Custom resource definition column (in JSONPath format): .spec.size"
    )
    assert table["rows"][0]["cells"] == ["w", 3, "60m"]


def test_cells_of_other_type_are_null():
    obj = {"metadata": {"name": "o"}, "v": 1.5, "t": "x", "b": True, "l": [{"a": 1}, 2]}
    kinds = ("integer", "number", "string", "boolean", "date")
    assert cells(columns(*map(column, kinds)), obj) == ["o", 1, 1.5, "1.5", None, None]
    given = [
        column("string", ".t"),
        column("integer", ".t"),
        column("date", ".t"),
        column("boolean", ".b"),
        column("integer", ".b"),
    ]
    assert cells(columns(*given), obj) == ["o", "x", None, "<invalid>", True, None]
    assert cells(
        columns(column("string", ".l"), column("integer", ".l[*]"), column("string", ".no")), obj
    ) == [
        "o",
        '[{"a":1},2]',
        None,
        None,
    ]


def test_custom_kind_without_columns_shows_age():
    obj = {"metadata": {"name": "o", "creationTimestamp": "2025-12-31T23:59:00Z"}}
    assert cells(columns(), obj) == ["o", "60s"]
