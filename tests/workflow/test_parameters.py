import copy

import pytest

from pytest_kscen.workflow.parameters import ParameterError, apply_parameters

SPEC = {
    "entry": "cut",
    "templates": [
        {
            "name": "cut",
            "deadline": "60s",
            "networkChaos": {
                "action": "delay",
                "delay": {"latency": "10ms"},
                "selector": {
                    "labelSelectors": {"app.kubernetes.io/name": "web"},
                    "namespaces": ["default"],
                },
            },
        },
        {
            "name": "rest",
            "deadline": "5s",
            "probes": [{"failureThreshold": 3, "weight": 0.5, "stopOnFailure": True}],
        },
    ],
    "parameters": [
        {
            "name": "length",
            "value": "30s",
            "paths": ["templates[cut].deadline", "templates[1].deadline"],
        },
        {"name": "latency", "paths": ["templates[0].networkChaos.delay.latency"]},
    ],
}


def spec(*paths, **about):
    return {**SPEC, "parameters": [{"name": "p", "paths": list(paths), **about}]}


def test_values_are_set_at_their_paths():
    before = copy.deepcopy(SPEC)
    made = apply_parameters(SPEC, {"latency": "2s"})
    assert [each["deadline"] for each in made["templates"]] == ["30s", "30s"]
    assert made["templates"][0]["networkChaos"]["delay"] == {"latency": "2s"}
    assert [each["value"] for each in made["parameters"]] == ["30s", "2s"]
    assert before == SPEC
    assert apply_parameters(made, {}) == made


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("templates[cut].networkChaos.selector.labelSelectors[app.kubernetes.io/name]", "db"),
        ("templates[cut].networkChaos.selector.namespaces[0]", "other"),
        ("templates[cut].networkChaos.selector.namespaces", ["a", "b"]),
        ("templates[rest].probes[0].weight", 2),
        ("entry", "rest"),
    ],
)
def test_every_existing_field_can_be_named(path, value):
    made = apply_parameters(spec(path), {"p": value})
    assert made != spec(path)


def test_given_values_are_copied():
    namespaces = ["a"]
    made = apply_parameters(
        spec("templates[cut].networkChaos.selector.namespaces"), {"p": namespaces}
    )
    namespaces.append("b")
    assert made["templates"][0]["networkChaos"]["selector"]["namespaces"] == ["a"]


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        (
            "templates[cat].deadline",
            "1s",
            "templates[cat].deadline: of 2 elements none is 'cat' (did you mean 'cut'?)",
        ),
        ("templates[2].deadline", "1s", "templates[2].deadline: of 2 elements none is '2'"),
        (
            "templates[cut].dedline",
            "1s",
            "templates[cut].dedline: there is no 'dedline' (did you mean 'deadline'?)",
        ),
        ("entry.name", "a", "entry.name: there is nothing below a string, so no 'name'"),
        (
            "templates[cut].deadline",
            60,
            "templates[cut].deadline: the field has a string ('60s'), and 60 is a number",
        ),
        (
            "templates[rest].probes[0].failureThreshold",
            True,
            (
                "templates[rest].probes[0].failureThreshold: the field has a number (3), and "
                "True is a bool"
            ),
        ),
        (
            "templates[cut",
            "a",
            "templates[cut: not a path; write one as in templates[cut].deadline",
        ),
        ("", "a", ": not a path; write one as in templates[cut].deadline"),
    ],
)
def test_mismatched_values_are_refused(path, value, why):
    with pytest.raises(ParameterError) as error:
        apply_parameters(spec(path), {"p": value})
    assert str(error.value) == f"parameter 'p': {why}"


@pytest.mark.parametrize(
    ("parameters", "given", "why"),
    [
        (
            SPEC["parameters"],
            {"lenght": "1s"},
            "there is no parameter 'lenght' (did you mean 'length'?); there are length, latency",
        ),
        ([], {"a": 1}, "there is no parameter 'a'; the workflow has none"),
        (
            SPEC["parameters"],
            {},
            "parameter 'latency' has no value: pass one, or declare a default value",
        ),
        ([{"name": "a", "value": 1}] * 2, {}, "parameter 'a' is declared twice"),
        ([{"value": 1}], {}, "parameters[0]: a parameter needs a name"),
    ],
)
def test_invalid_parameters_are_reported(parameters, given, why):
    with pytest.raises(ParameterError) as error:
        apply_parameters({**SPEC, "parameters": parameters}, given)
    assert str(error.value) == why
