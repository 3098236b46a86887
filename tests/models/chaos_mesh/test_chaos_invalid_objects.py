"""Objects refused by the real webhook of Chaos Mesh are reported here and can be deleted."""

import pytest

NOT_IN_WORDS = [{"key": "app", "operator": "Like", "values": ["a"]}]
CPU = {"stressors": {"cpu": {"workers": 1}}}


@pytest.mark.parametrize(
    ("kind", "spec", "why"),
    [
        (
            "StressChaos",
            {"duration": "for ever", **CPU},
            "Failed to calculate the desired phase: 'for ever' is not a duration",
        ),
        (
            "StressChaos",
            {"mode": "fixed", "value": "inf", **CPU},
            "Failed to select targets: value 'inf' is invalid for mode fixed",
        ),
        (
            "StressChaos",
            {"selector": {"expressionSelectors": NOT_IN_WORDS}, **CPU},
            (
                "Failed to select targets: 'Like' is not an operator: there are In, NotIn, "
                "Exists, DoesNotExist"
            ),
        ),
        (
            "NetworkChaos",
            {"action": "partition", "externalTargets": ["../nodes/x"]},
            "Failed to apply chaos: lookup ../nodes/x: no such host",
        ),
        (
            "NetworkChaos",
            {"action": "partition", "externalTargets": ["1.2.3.4:http"]},
            "'1.2.3.4:http' has no port that is a number",
        ),
    ],
    ids=["duration", "value", "operator", "path", "port"],
)
def test_invalid_objects_are_refused(mesh_cluster, kind, spec, why):
    mesh_cluster.pod("a")
    mesh_cluster.cluster.advance(10)
    mesh_cluster.chaos(kind, **{"selector": {}, **spec})
    mesh_cluster.cluster.advance(5)
    assert "I" not in (mesh_cluster.conditions(kind) if "status" in mesh_cluster.see(kind) else "")
    assert any(reason == "Failed" and why in message for reason, message in mesh_cluster.events())
    mesh_cluster.chaos("StressChaos", "sound", app="a", **CPU)
    mesh_cluster.delete(kind)
    mesh_cluster.cluster.advance(5)
    assert mesh_cluster.see(kind) is None
    assert mesh_cluster.conditions("StressChaos", "sound") == "SI"


@pytest.mark.parametrize("id_", ["", "a", "a/b/c/d", "default/nobody"])
def test_records_written_by_others_are_ignored(mesh_cluster, id_):
    record = {
        "id": id_,
        "selectorKey": ".",
        "phase": "Injected",
        "injectedCount": 1,
        "recoveredCount": 0,
    }
    mesh_cluster.pod("a")
    mesh_cluster.cluster.advance(10)
    mesh_cluster.chaos("StressChaos", app="a", **CPU)
    mesh_cluster.patch(
        "StressChaos",
        {"status": {"experiment": {"desiredPhase": "Run", "containerRecords": [record]}}},
    )
    mesh_cluster.cluster.advance(5)
    assert mesh_cluster.conditions("StressChaos") in {"SR", "SI"}
    mesh_cluster.delete("StressChaos")
    mesh_cluster.cluster.advance(5)
    assert mesh_cluster.see("StressChaos") is None
