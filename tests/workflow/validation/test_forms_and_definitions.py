"""Forms of chaos specs have the fields and requirements of the shipped definitions."""

from __future__ import annotations

import pytest

from pytest_kscen.objects.chaos_mesh import KINDS
from pytest_kscen.objects.chaos_mesh_definitions import engine_definitions
from pytest_kscen.workflow.validation.chaos_fields import BLOCKS

(WORKFLOWS,) = (
    each for each in engine_definitions() if each["spec"]["names"]["kind"] == "Workflow"
)
SPEC = WORKFLOWS["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"][
    "properties"
]
TEMPLATE = SPEC["templates"]["items"]["properties"]


def inside(shape):
    """Return the parts of a combined shape."""
    return dict(
        zip(
            shape.__code__.co_freevars,
            (cell.cell_contents for cell in shape.__closure__ or ()),
            strict=True,
        )
    )


def differences(schema, shape, path):
    parts = inside(shape)
    if "fields" in parts:
        properties = schema.get("properties", {})
        for name in set(properties) ^ set(parts["fields"]):
            yield f"{path}.{name} is known to one of them alone"
        if set(schema.get("required", ())) != set(parts["required"]):
            yield f"{path} needs {schema.get('required')} there and {parts['required']} here"
        for name in set(properties) & set(parts["fields"]):
            yield from differences(properties[name], parts["fields"][name], f"{path}.{name}")
    elif "of" in parts:
        yield from differences(
            schema.get("items") or schema.get("additionalProperties"), parts["of"], f"{path}[]"
        )
    elif {"low", "high"} & set(parts) and schema.get("type") != "integer":
        yield f"{path} is {schema.get('type')} there and a whole number here"


@pytest.mark.parametrize("kind", KINDS)
def test_forms_match_the_definitions(kind):
    assert list(differences(TEMPLATE[KINDS[kind].key], BLOCKS[kind], kind)) == []
