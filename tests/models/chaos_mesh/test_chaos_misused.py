"""What Chaos Mesh's own webhook would refuse reaches the daemon here: it says so, goes on, and
lets go of it.
"""

import pytest

NOT_IN_WORDS = [{"key": "app", "operator": "Like", "values": ["a"]}]
CPU = {"stressors": {"cpu": {"workers": 1}}}


@pytest.mark.parametrize(
    ("kind", "spec", "why"),
    [
        (
            "StressChaos",
            {"duration": "for ever", **CPU},
            "Failed to calculate the desired phase: 'for ever' is no duration",
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
                "Failed to select targets: 'Like' is no operator: there are In, NotIn, "
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
def test_invalid_objects_are_refused(mesh, kind, spec, why):
    mesh.pod("a")
    mesh.cluster.advance(10)
    mesh.chaos(kind, **{"selector": {}, **spec})
    mesh.cluster.advance(5)
    assert "I" not in (mesh.conditions(kind) if "status" in mesh.see(kind) else "")
    assert any(reason == "Failed" and why in message for reason, message in mesh.events())
    mesh.chaos("StressChaos", "sound", app="a", **CPU)
    mesh.delete(kind)
    mesh.cluster.advance(5)
    assert mesh.see(kind) is None
    assert mesh.conditions("StressChaos", "sound") == "SI"


@pytest.mark.parametrize("id_", ["", "a", "a/b/c/d", "default/nobody"])
def test_records_written_by_others_are_ignored(mesh, id_):
    record = {
        "id": id_,
        "selectorKey": ".",
        "phase": "Injected",
        "injectedCount": 1,
        "recoveredCount": 0,
    }
    mesh.pod("a")
    mesh.cluster.advance(10)
    mesh.chaos("StressChaos", app="a", **CPU)
    mesh.patch(
        "StressChaos",
        {"status": {"experiment": {"desiredPhase": "Run", "containerRecords": [record]}}},
    )
    mesh.cluster.advance(5)
    assert mesh.conditions("StressChaos") in {"SR", "SI"}
    mesh.delete("StressChaos")
    mesh.cluster.advance(5)
    assert mesh.see("StressChaos") is None
