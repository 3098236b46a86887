"""YAML files: line numbers, parsing, and refusals."""

from __future__ import annotations

import contextlib

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pytest_kscen.objects.documents import DocumentRefused, documents

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=True)
    | st.text(max_size=8)
    | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


def read(folder, text):
    path = folder / "file.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return documents(path)


def test_list_items_are_documents(tmp_path):
    text = (
        "kind: List\napiVersion: v1\nitems:\n- kind: A\n  x: {y: 1}\n- \n- kind: B\n  kind: "
        "C\n---\nkind: List\n"
    )
    first, second, other = read(tmp_path, text)
    assert (first.content, first.line_at(), first.line_at("x", "y")) == (
        {"kind": "A", "x": {"y": 1}},
        4,
        5,
    )
    assert (second.content, second.at("kind"), second.repeated) == (
        {"kind": "C"},
        f"{tmp_path}/file.yaml:8",
        (("kind",),),
    )
    assert other.content == {"kind": "List"}


def test_documents_have_line_numbers(tmp_path):
    first, second = read(tmp_path, "a:\n- b: 1\n- c\n---\n---\nd: {e: 2}\n")
    assert [
        first.line_at(*path)
        for path in [(), ("a",), ("a", "0", "b"), ("a", "1"), ("a", "7", "x"), ("q",)]
    ] == [
        1,
        1,
        2,
        3,
        1,
        1,
    ]
    assert second.at("d", "e") == f"{tmp_path}/file.yaml:6"
    assert (first.name, second.content) == ("", {"d": {"e": 2}})


def test_last_duplicate_key_wins(tmp_path):
    (found,) = read(tmp_path, "a: 1\nb: 2\na: 3\n")
    assert (found.content["a"], found.line_at("a"), found.repeated) == (3, 3, (("a",),))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: [1", r"file.yaml:1 is not YAML: while parsing a flow sequence"),
        ("&a [*a]", "file.yaml:1 refers to itself, or its references expand too far"),
        (
            "a0: &0 [x, x]\n"
            + "".join(f"a{n}: &{n} [*{n - 1}, *{n - 1}, *{n - 1}]\n" for n in range(1, 40)),
            "refers to itself",
        ),
        ("[" * 5000, "file.yaml is nested too deeply to be read"),
        ("a: !!int b", "file.yaml:1 has a value that does not match its YAML tag: "),
        ("a: !!timestamp b", "file.yaml:1 has a value that does not match its YAML tag: "),
        (
            "a: !!python/object:os.system b",
            "is not YAML: could not determine a constructor for the tag",
        ),
        ("{{a: 1}: 2}", "is not YAML: while constructing a mapping found unhashable key"),
        (b"\xff\xfe\xfa", "file.yaml cannot be read: "),
        ("a: \0", "is not YAML: "),
    ],
)
def test_unreadable_yaml_is_refused(tmp_path, text, complaint):
    with pytest.raises(DocumentRefused) as refused:
        read(tmp_path, text)
    assert complaint in str(refused.value)


def test_folder_and_missing_file_are_refused(tmp_path):
    with pytest.raises(DocumentRefused, match="is a directory: pass a YAML file"):
        documents(tmp_path)
    (tmp_path / "there.yaml").touch()
    with pytest.raises(
        DocumentRefused, match=r"there is no file .*\(did you mean 'there.yaml'\?\)"
    ):
        documents(tmp_path / "ther.yaml")


@given(value=values)
def test_written_yaml_is_read_back(tmp_path_factory, value):
    (*found,) = read(tmp_path_factory.getbasetemp(), yaml.safe_dump(value))
    assert len(found) == (value is not None)


@given(text=st.text(alphabet="a1:-[]{},&*!|>#'\"? \n%@.~=", max_size=30))
def test_any_text_is_parsed_or_refused(tmp_path_factory, text):
    with contextlib.suppress(DocumentRefused):
        read(tmp_path_factory.getbasetemp(), text)
