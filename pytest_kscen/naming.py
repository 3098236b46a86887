"""What a test is called so that no other is, and what to type for it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator

    import pytest


def own_id(node: pytest.Item | pytest.Collector) -> str:
    """pytest's id, which has the way from its root directory; outside of that it has none, and many would go by one id."""
    root = node.config.rootpath
    if node.path.is_relative_to(root):
        return node.nodeid
    return _seen_from(root, node)


def typed(item: pytest.Item) -> str:
    """As it is named to a pytest that is called where this one was, which need not be the root directory."""
    return _seen_from(item.config.invocation_params.dir, item)


def _seen_from(folder: pathlib.Path, node: pytest.Item | pytest.Collector) -> str:
    _, colons, name = node.nodeid.partition("::")
    return f"{os.path.relpath(node.path, folder)}{colons}{name}"


def root_flags(config: pytest.Config) -> Iterator[str]:
    """What was said of where the root directory and its file are."""
    if config.option.inifilename:
        yield from ("-c", config.option.inifilename)
    if config.option.rootdir:
        yield f"--rootdir={config.option.rootdir}"
