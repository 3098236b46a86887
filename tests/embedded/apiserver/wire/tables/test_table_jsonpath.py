import pytest

from pytest_kscen.embedded.apiserver.wire.tables.custom import (
    compile_jsonpath,
    find_values,
    print_value,
)

OBJ = {
    "spec": {
        "replicas": 3,
        "a-b": 1,
        "dot.ted": 2,
        "list": [{"n": "x", "v": 1}, {"n": "y", "v": 5}, {"n": "z"}],
    },
    "status": {
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]
    },
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (".spec.replicas", [3]),
        ("{.spec.replicas}", [3]),
        ("$.spec.replicas", [3]),
        (".spec.a-b", [1]),
        (r".spec.dot\.ted", [2]),
        (".spec['dot.ted']", [2]),
        (".spec.list[0].n", ["x"]),
        (".spec.list[-1].n", ["z"]),
        (".spec.list[*].n", ["x", "y", "z"]),
        (".spec.list[0:2].n", ["x", "y"]),
        (".spec.list[::2].n", ["x", "z"]),
        ("..n", ["x", "y", "z"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type=='Ready')].status", ["True"]),
        (".status.conditions[?(@.type!='Ready')].status", ["False"]),
        (".spec.list[?(@.v>1)].n", ["y"]),
        (".spec.list[?(@.v<=1)].n", ["x"]),
        (".spec.list[?(@.v)].n", ["x", "y"]),
        (".spec.list[7].n", []),
        (".spec.nope.deeper", []),
        (".spec.replicas.deeper", []),
    ],
)
def test_jsonpath_values(path, values):
    assert find_values(path, OBJ) == values


def test_invalid_jsonpath_is_refused():
    with pytest.raises(ValueError, match=r"cannot be read from '\[\?\(\]' on"):
        compile_jsonpath(".spec[?(]")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        (True, "true"),
        (1.5, "1.5"),
        ([{"a": "é"}], '[{"a":"é"}]'),
        ({"a": None}, '{"a":null}'),
    ],
)
def test_value_formatting(value, text):
    assert print_value(value) == text
