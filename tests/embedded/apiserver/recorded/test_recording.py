import subprocess
import sys

from pytest_kscen.__main__ import COMMANDS, main
from pytest_kscen.embedded.apiserver.builtin_kinds import builtin_kinds
from pytest_kscen.embedded.apiserver.recorded import definition, definition_of, resources, version
from pytest_kscen.embedded.apiserver.recording import TypeDefinitions, discovery_rows, strip_schema
from pytest_kscen.embedded.apiserver.recording_probes import DefinitionLocation, probe_types

REF = "#/components/schemas/"


def test_descriptions_are_dropped_and_single_references_unwrapped():
    schema = {
        "description": "prose",
        "properties": {
            "description": {"type": "string", "description": "prose"},
            "spec": {"description": "prose", "default": {}, "allOf": [{"$ref": f"{REF}a.b.Spec"}]},
        },
    }
    assert strip_schema(schema) == {
        "properties": {
            "description": {"type": "string"},
            "spec": {"default": {}, "$ref": "a.b.Spec"},
        },
    }


def test_shared_type_is_recorded_once():
    definitions = TypeDefinitions()
    for group in ("b", "a"):
        gvk = {"group": group, "version": "v1", "kind": "Options"}
        definitions.add(
            "meta.Options", {"type": "object", "x-kubernetes-group-version-kind": [gvk]}
        )
    definitions.add(
        "apps.Thing",
        {"x-kubernetes-group-version-kind": [{"group": "apps", "version": "v1", "kind": "Thing"}]},
    )
    assert [
        kind["group"]
        for kind in definitions.by_package()["meta"]["Options"]["x-kubernetes-group-version-kind"]
    ] == ["a", "b"]
    assert definitions.by_kind() == {"apps/v1/Thing": "apps.Thing"}


def test_discovery_is_recorded_as_rows():
    part = {
        "subresource": "scale",
        "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "verbs": ["get"],
    }
    entry = {
        "resource": "things",
        "singularResource": "thing",
        "responseKind": {"group": "", "version": "", "kind": "Thing"},
        "scope": "Cluster",
        "verbs": ["get"],
        "subresources": [part],
    }
    groups = [{"metadata": {"name": "apps"}, "versions": [{"version": "v1", "resources": [entry]}]}]
    assert discovery_rows(groups) == {
        "apps/v1/things": {
            "singular": "thing",
            "kind": "Thing",
            "namespaced": False,
            "verbs": ["get"],
            "subresources": {
                "scale": {"verbs": ["get"], "kind": "Scale", "apiVersion": "autoscaling/v1"}
            },
        }
    }


def test_types_are_derived_from_refusals():
    schemas = {
        "io.v1.Pod": {"properties": {"spec": {"$ref": "io.v1.Spec"}}},
        "io.v1.Spec": {
            "properties": {
                "policy": {"type": "string"},
                "names": {"type": "array", "items": {"type": "string"}},
            }
        },
    }
    answers = {
        "spec": "into Go struct field Pod.Inline.spec of type v1.Spec",
        "policy": "into Go struct field Spec.Inline.spec.policy of type v1.Policy",
        "names": "into Go struct field Spec.Inline.spec.names of type []v1.Name",
    }

    def post(_path, body):
        inner = body["spec"]
        field = "spec" if inner == "wrong" else next(iter(inner))
        words = answers[field]
        if field == "names" and inner[field] == [1]:
            words = words.replace("[]v1.Name", "v1.Name")
        return {"message": f"json: cannot unmarshal {words}"}

    places = probe_types(post, schemas, {"/pods": "io.v1.Pod"})
    assert places == [
        DefinitionLocation("/pods", (), "io.v1.Pod", ()),
        DefinitionLocation("/pods", ("spec",), "io.v1.Spec", ("Inline.spec",)),
    ]
    assert schemas["io.v1.Pod"]["properties"]["spec"]["x-go-path"] == "Inline.spec"
    assert schemas["io.v1.Spec"]["properties"] == {
        "policy": {"type": "string", "x-go-type": "v1.Policy"},
        "names": {
            "type": "array",
            "items": {"type": "string", "x-go-type": "v1.Name"},
            "x-go-type": "[]v1.Name",
        },
    }


def test_recorded_kinds_and_references_are_defined():
    seen = set()

    def follow(name):
        if name not in seen:
            seen.add(name)
            for reference in references(definition(name)):
                follow(reference)

    def references(part):
        if isinstance(part, dict):
            if isinstance(part.get("$ref"), str):
                yield part["$ref"]
            for inner in part.values():
                yield from references(inner)

    for path, row in resources().items():
        group, release, _ = path.split("/")
        follow(definition_of(group, release, row["kind"]))
    assert len(seen) > 400


def test_recorded_kinds_of_kubernetes_version():
    kinds = {kind.resource.qualified: kind for kind in builtin_kinds()}
    pods = kinds["pods"]
    assert (pods.singular, pods.short_names, pods.categories) == ("pod", ("po",), ("all",))
    assert pods.subresources["eviction"].kind == "Eviction"
    assert kinds["deployments.apps"].subresources["scale"].api_version == "autoscaling/v1"
    assert not kinds["nodes"].resource.namespaced
    assert version()["gitVersion"].startswith("v1.")
    assert builtin_kinds() is builtin_kinds()


def test_usage_lists_commands(capsys):
    assert main([]) == 2
    usage = capsys.readouterr().err
    assert all(name in usage for name in COMMANDS)
    assert main(["--help"]) == 0
    help_text = subprocess.run(
        [sys.executable, "-m", "pytest_kscen", "record-api", "--help"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "--kubeconfig" in help_text.stdout


def test_first_pod_in_new_process_is_fast():
    script = """
import time
from pytest_kscen.embedded.apiserver.builtin_kinds import builtin_kinds
pods = next(kind for kind in builtin_kinds() if kind.resource.plural == "pods")
began = time.perf_counter()
pods.schema.decode({"spec": {"containers": [{"name": "c", "image": "i"}]}}, None, strictness="Strict", warnings=[])
print(time.perf_counter() - began)
"""
    spent = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert float(spent) < 0.05
