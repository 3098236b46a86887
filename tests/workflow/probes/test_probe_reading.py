"""Parsing of probes from JSON, with all errors reported at once."""

from __future__ import annotations

import pytest

from pytest_kscen.workflow.probes import InvalidProbe, Probe, probes_of

GOOD = {"name": "p", "when": "Start", "http": {"url": "http://web.default/"}}


def errors(body):
    with pytest.raises(InvalidProbe) as wrong:
        Probe.of(body, "probes[0]")
    return [str(error) for error in wrong.value.errors]


def test_omitted_fields_have_defaults():
    probe = Probe.of(GOOD)
    assert (probe.interval, probe.timeout, probe.failure_threshold, probe.initial_delay) == (
        10,
        1,
        1,
        0,
    )
    assert (probe.stop_on_failure, probe.weight, probe.form.status_code) == (True, 1, "200-299")


def test_command_has_a_longer_timeout():
    body = {"name": "p", "when": "End", "command": {"container": {"image": "busybox"}}}
    assert Probe.of(body).timeout == 60


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": None}, ["name: is missing"]),
        ({"name": ""}, ["name: must not be empty"]),
        (
            {"when": "Sometimes"},
            ["when: 'Sometimes' is none of Start, End, Edges, Continuous, OnChaos"],
        ),
        ({"interval": 10}, ["interval: must be a string, and is 10"]),
        ({"interval": "0s"}, ["interval: must be more than zero, and is 0s"]),
        (
            {"timeout": "soon"},
            [("timeout: 'soon' is not a duration: write for example 90s, 5m or 1h30m")],
        ),
        ({"initialDelay": "-1s"}, ["initialDelay: must be zero or more, and is -1s"]),
        ({"failureThreshold": 0}, ["failureThreshold: must be at least 1, and is 0"]),
        ({"failureThreshold": True}, ["failureThreshold: must be a whole number, and is True"]),
        ({"weight": -1}, ["weight: must be at least 0, and is -1"]),
        ({"stopOnFailure": "no"}, ["stopOnFailure: must be true or false, and is 'no'"]),
        ({"http": {}}, ["http.url: is missing"]),
        ({"http": []}, ["http: must be an object"]),
        (
            {"http": {"url": "web"}},
            ["http.url: 'web' is not a URL: write http://host/path or https://host/path"],
        ),
        (
            {"http": {"url": "http://a.b", "method": "GRAB", "criteria": {"statusCode": "2xx"}}},
            [
                "http.method: 'GRAB' is none of GET, POST",
                (
                    "http.criteria.statusCode: must be a status such as '200', or a range "
                    "such as '200-399', and is '2xx'"
                ),
            ],
        ),
        (
            {"http": {"url": "http://a.b", "criteria": {"statusCode": "400-200"}}},
            ["http.criteria.statusCode: '400-200' is an empty range"],
        ),
        (
            {"http": {"url": "http://a.b", "headers": {"a": 1}}},
            ["http.headers.a: must be a string or a list of strings, and is 1"],
        ),
    ],
)
def test_errors_are_reported_with_their_path(change, words):
    assert errors({**GOOD, **change}) == [f"probes[0].{each}" for each in words]


def test_unknown_fields_and_forms():
    assert errors({"name": "p", "when": "End"}) == [
        "probes[0]: needs one of http, command, kubernetes, prometheus"
    ]
    both = errors({**GOOD, "command": {}})
    assert (
        both[0]
        == "probes[0]: needs one of http, command, kubernetes, prometheus, and has http and command"
    )
    (stranger,) = errors({**GOOD, "intervall": "1s"})
    assert stranger.startswith(
        "probes[0].intervall: is not known here; known are name, when, http, command,"
    )
    assert errors("up?")[0] == "probes[0]: must be an object"


ONE = {"apiVersion": "v1", "kind": "Pod", "name": "p"}
MANY = {"apiVersion": "v1", "kind": "Pod"}


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"kind": "Pod", "name": "p"}, ".apiVersion: is missing"),
        ({**ONE, "labelSelector": "a=b"}, ": needs a name, or a labelSelector, and has both"),
        ({**ONE, "expression": "1 + 1"}, ".expression: must be true or false, and is of type int"),
        (
            {**ONE, "expression": "objects == []"},
            (
                ".expression: ERROR: <input>:1:1: undeclared reference to 'objects' (in "
                "container '')\n | objects == []\n | ^"
            ),
        ),
        (
            {**MANY, "labelSelector": "a in b"},
            ".labelSelector: unable to parse requirement: found 'b' expected: '('",
        ),
    ],
)
def test_kubernetes(form, words):
    found = errors({"name": "p", "when": "End", "kubernetes": form})
    assert found == [f"probes[0].kubernetes{words}"]


def test_command():
    assert errors({"name": "p", "when": "End", "command": {}}) == [
        "probes[0].command.container: is missing"
    ]
    assert errors({"name": "p", "when": "End", "command": {"container": {}}}) == [
        "probes[0].command.container.image: is missing"
    ]


def test_probe_names_are_unique():
    assert [probe.name for probe in probes_of([GOOD, {**GOOD, "name": "q"}])] == ["p", "q"]
    assert probes_of(None) == ()
    with pytest.raises(InvalidProbe, match=r"^w\[1\]\.name: there is another probe 'p'$"):
        probes_of([GOOD, GOOD], "w")
    with pytest.raises(InvalidProbe, match=r"^w: must be a list$"):
        probes_of({"a": 1}, "w")
