import orjson
import pytest
import yaml

from pytest_kscen.commands.record_chaos_mesh import record, without_prose
from pytest_kscen.objects.chaos_mesh import KINDS, OWN, OWN_GROUP, SHIPPED
from pytest_kscen.objects.chaos_mesh_definitions import (
    RecordedDefinitions,
    chaos_definitions,
    engine_definitions,
    recorded,
    schema_of,
)

FOUR = {each["spec"]["names"]["kind"]: each for each in engine_definitions()}
MOST = 1.5 * 2**20  # bytes that a real cluster takes of one object
NOT_SHIPPED = ("AWSChaos", "AzureChaos", "GCPChaos", "PhysicalMachineChaos")


KEPT = {"x-kubernetes-preserve-unknown-fields"}
IN_SPEC = ".properties.spec.properties."
KEEPING = dict.fromkeys(
    (
        f"{IN_SPEC}templates.items",
        f"{IN_SPEC}workflow.properties.templates.items",
        IN_SPEC.removesuffix(".properties."),
    ),
    KEPT,
)
"""Where chaos stands, whose kind may be one that we do not know."""


def added(ours, shipped, path=""):
    """Where ours says more; it must not say anything else."""
    if isinstance(shipped, dict):
        assert isinstance(ours, dict), path
        assert shipped.keys() <= ours.keys(), path
        at_properties = path.endswith("properties")
        assert at_properties or ours.keys() - shipped.keys() <= KEEPING.get(path, set()), path
        ours = {name: value for name, value in ours.items() if at_properties or name in shipped}
        found = {f"{path}.{name}" for name in ours.keys() - shipped.keys()}
        return found.union(
            *(added(ours[name], shipped[name], f"{path}.{name}") for name in shipped)
        )
    assert ours == shipped, path
    return set()


def fields(kind):
    found = added(schema_of(FOUR[kind]["spec"]), schema_of(recorded().shipped[kind]))
    return {
        place.replace(".properties", "").replace(".items", "[]").removeprefix(".")
        for place in found
    }


IN_A_WORKFLOW = {
    "parameters",
    "onExit",
    "probes",
    *(f"templates[].{name}" for name in ("retry", "probes", "duration")),
}


def test_a_workflow_has_more_and_nothing_else():
    status = {f"status.{name}" for name in ("phase", "message", "resilienceScore", "probes")}
    assert fields("Workflow") >= {f"spec.{name}" for name in IN_A_WORKFLOW} | status
    assert fields("Schedule") >= {f"spec.workflow.{name}" for name in IN_A_WORKFLOW}
    assert all(name.startswith(("spec.workflow.", "status.")) for name in fields("Schedule"))


def test_a_node_has_more_and_nothing_else():
    status = {f"status.{name}" for name in ("phase", "message", "startTime", "endTime")}
    assert fields("WorkflowNode") >= {"spec.retry", "spec.probes", *status}


@pytest.mark.parametrize("kind", FOUR)
def test_names_and_scope_are_the_shipped_ones(kind):
    ours, shipped = FOUR[kind]["spec"], recorded().shipped[kind]
    assert {name: ours[name] for name in ours if name != "versions"} == {
        name: shipped[name] for name in shipped if name != "versions"
    }
    assert ours["versions"][0]["subresources"] == {"status": {}}


def test_the_four_in_our_own_group():
    named = {each["metadata"]["name"]: each["spec"] for each in engine_definitions(OWN_GROUP)}
    assert [*named][:4] == [
        resource.qualified
        for resource in (OWN.workflows, OWN.nodes, OWN.schedules, OWN.status_checks)
    ]
    assert named[OWN.workflows.qualified]["versions"] == FOUR["Workflow"]["spec"]["versions"]
    assert FOUR["Workflow"]["metadata"]["name"] == SHIPPED.workflows.qualified


def test_every_kind_of_chaos_is_defined_as_it_is_in_a_template():
    templates = schema_of(recorded().shipped["Workflow"])["properties"]["spec"]["properties"][
        "templates"
    ]["items"]["properties"]
    defined = {each["spec"]["names"]["kind"]: each["spec"] for each in chaos_definitions()}
    for kind, chaos in KINDS.items():
        schema = schema_of(defined[kind])
        assert schema["properties"]["spec"] == templates[chaos.key]
        assert "experiment" in schema["properties"]["status"]["properties"]
        assert "status" not in defined[kind]["versions"][0].get("subresources", {})
    assert defined.keys() - recorded().shipped.keys() == {*NOT_SHIPPED}


def test_a_real_cluster_takes_them():
    for definition in (*chaos_definitions(), *engine_definitions()):
        assert len(orjson.dumps(definition)) < MOST / 4


def test_what_is_recorded_comes_back(tmp_path):
    for kind, spec in recorded().shipped.items():
        told = {**spec, "versions": [{**spec["versions"][0], "description": "prose"}]}
        (tmp_path / f"{kind}.yaml").write_text(yaml.safe_dump({"spec": told}))
    into = tmp_path / "chaos-mesh.json"
    record(tmp_path, into)
    assert RecordedDefinitions(orjson.loads(into.read_bytes())).shipped == recorded().shipped
    assert into.stat().st_size < 2**16


def test_prose_is_what_describes_and_not_a_property_of_that_name():
    schema = {
        "description": "words",
        "properties": {"description": {"type": "string", "description": "words"}},
    }
    assert without_prose(schema) == {"properties": {"description": {"type": "string"}}}


def test_a_folder_without_definitions_is_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="has no definitions"):
        record(tmp_path, tmp_path / "out.json")
