import orjson
import pytest
import yaml

from pytest_kscen.commands.record_chaos_mesh import record, without_prose
from pytest_kscen.objects.chaos_mesh import KINDS, OWN, OWN_GROUP, SHIPPED
from pytest_kscen.objects.chaos_mesh_definitions import (
    RecordedDefinitions,
    chaos_definitions,
    cron_workflow_definition,
    engine_definitions,
    recorded,
    schema_of,
    with_probe_forms,
)

ENGINE_DEFINITIONS = {each["spec"]["names"]["kind"]: each for each in engine_definitions()}
MAX_BYTES = 1.5 * 2**20  # bytes that a real cluster takes of one object
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


def added_paths(ours, shipped, path=""):
    """Return the paths that only our schema has; check that the rest is equal."""
    if isinstance(shipped, dict):
        assert isinstance(ours, dict), path
        assert shipped.keys() <= ours.keys(), path
        at_properties = path.endswith("properties")
        assert at_properties or ours.keys() - shipped.keys() <= KEEPING.get(path, set()), path
        ours = {name: value for name, value in ours.items() if at_properties or name in shipped}
        found = {f"{path}.{name}" for name in ours.keys() - shipped.keys()}
        return found.union(
            *(added_paths(ours[name], shipped[name], f"{path}.{name}") for name in shipped)
        )
    assert ours == shipped, path
    return set()


def fields(kind):
    found = added_paths(
        schema_of(ENGINE_DEFINITIONS[kind]["spec"]), schema_of(recorded().shipped[kind])
    )
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


def test_workflow_schema_only_adds_fields():
    status = {f"status.{name}" for name in ("phase", "message", "resilienceScore", "probes")}
    assert fields("Workflow") >= {f"spec.{name}" for name in IN_A_WORKFLOW} | status
    assert fields("Schedule") >= {f"spec.workflow.{name}" for name in IN_A_WORKFLOW}
    assert all(name.startswith(("spec.workflow.", "status.")) for name in fields("Schedule"))


def test_node_schema_only_adds_fields():
    status = {f"status.{name}" for name in ("phase", "message", "startTime", "endTime")}
    assert fields("WorkflowNode") >= {"spec.retry", "spec.probes", *status}


@pytest.mark.parametrize("kind", ENGINE_DEFINITIONS)
def test_names_and_scope_equal_shipped_ones(kind):
    ours, shipped = ENGINE_DEFINITIONS[kind]["spec"], recorded().shipped[kind]
    assert {name: ours[name] for name in ours if name != "versions"} == {
        name: shipped[name] for name in shipped if name != "versions"
    }
    assert ours["versions"][0]["subresources"] == {"status": {}}


def test_engine_definitions_in_own_group():
    named = {each["metadata"]["name"]: each["spec"] for each in engine_definitions(OWN_GROUP)}
    assert [*named][:4] == [
        resource.qualified
        for resource in (OWN.workflows, OWN.nodes, OWN.schedules, OWN.status_checks)
    ]
    assert (
        named[OWN.workflows.qualified]["versions"]
        == ENGINE_DEFINITIONS["Workflow"]["spec"]["versions"]
    )
    assert ENGINE_DEFINITIONS["Workflow"]["metadata"]["name"] == SHIPPED.workflows.qualified


def test_chaos_kinds_equal_template_fields():
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


def test_definitions_are_accepted_by_real_cluster():
    for definition in (*chaos_definitions(), *engine_definitions()):
        assert len(orjson.dumps(definition)) < MAX_BYTES / 4


def test_recorded_definitions_round_trip(tmp_path):
    for kind, spec in recorded().shipped.items():
        told = {**spec, "versions": [{**spec["versions"][0], "description": "prose"}]}
        (tmp_path / f"{kind}.yaml").write_text(yaml.safe_dump({"spec": told}))
    into = tmp_path / "chaos-mesh.json"
    record(tmp_path, into)
    assert RecordedDefinitions(orjson.loads(into.read_bytes())).shipped == recorded().shipped
    assert into.stat().st_size < 2**16


def test_without_prose_keeps_property_named_description():
    schema = {
        "description": "words",
        "properties": {"description": {"type": "string", "description": "words"}},
    }
    assert without_prose(schema) == {"properties": {"description": {"type": "string"}}}


def test_folder_without_definitions_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="has no definitions"):
        record(tmp_path, tmp_path / "out.json")


def test_probe_forms_of_packages_are_fields_of_all_probes():
    for definition in (*engine_definitions(), cron_workflow_definition()):
        kind = definition["spec"]["names"]["kind"]
        found = with_probe_forms(definition, ["clock"])
        assert (found != definition) == (kind != "StatusCheck"), kind
        assert with_probe_forms(found, ["clock"]) == found
    assert with_probe_forms(engine_definitions()[0], []) is engine_definitions()[0]
    schema = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    workflow = schema["properties"]["workflow"]["properties"]
    for holder in (workflow, workflow["templates"]["items"]["properties"]):
        assert holder["probes"]["items"]["properties"]["clock"]["type"] == "object"
