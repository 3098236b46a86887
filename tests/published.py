"""Read the definitions that other projects publish: tests/published_definitions/README.md."""

from __future__ import annotations

import functools
import pathlib

import yaml

FOLDER = pathlib.Path(__file__).with_name("published_definitions")


def published(*paths):
    """Return the CustomResourceDefinitions in these files, or in all files of these folders."""
    found = [FOLDER / path for path in paths]
    files = [
        file
        for path in found
        for file in (sorted(path.glob("*.yaml")) if path.is_dir() else [path])
    ]
    documents = [document for file in files for document in _read(file)]
    assert documents
    return documents


@functools.cache
def _read(file):
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the files are long
    return [document for document in yaml.load_all(file.read_text(), loader) if document]
