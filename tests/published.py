"""The definitions that other projects publish, where they lie beside this repository; a test
that needs them skips without.
"""

from __future__ import annotations

import functools
import pathlib

import pytest
import yaml

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "shared" / "data" / "crds"


def published(*paths):
    """The CustomResourceDefinitions in these files, or in all files of these folders."""
    if not FOLDER.is_dir():
        pytest.skip(f"the published definitions are not beside the repository, in {FOLDER}")
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
