"""YAML as Kubernetes reads it: the first document, keys are strings, and no dates or base-60 numbers."""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Any

import yaml

from pytest_kscen.machinery.wire.numbers import go_number

BOOL, INT, FLOAT = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
_LETTER = re.compile(r"^[yYnN]$")
_WHOLE = re.compile(r"^[-+]?(0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)$")
_REAL = re.compile(r"^[-+]?(\.[0-9_]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?$")
_DROPPED = (INT, FLOAT, "tag:yaml.org,2002:timestamp")


def load_yaml(body: bytes) -> tuple[Any, list[str]]:
    """What a document says, and the keys that it sets twice."""
    loader = _loader()(body)
    try:
        return (loader.get_data() if loader.check_data() else None), loader.doubles
    except (ValueError, TypeError, RecursionError) as error:
        raise yaml.YAMLError(str(error)) from error
    finally:
        loader.dispose()


@cache
def _loader() -> Any:
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]  # the base is chosen when it runs
        def __init__(self, stream: bytes) -> None:
            super().__init__(stream)
            self.doubles: list[str] = []

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002, ARG002
            self.flatten_mapping(node)
            found: dict[str, Any] = {}
            for key_node, value_node in node.value:
                if not isinstance(key_node, yaml.ScalarNode):
                    raise yaml.YAMLError("invalid map key: keys are texts, numbers or booleans")
                key = _name(self.construct_object(key_node, deep=True))
                value = self.construct_object(value_node, deep=True)
                if key in found:
                    self.doubles.append(f'line {key_node.start_mark.line + 1}: key "{key}" already set in map')
                found[key] = value
            return found

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in patterns if tag not in _DROPPED]
        for first, patterns in base.yaml_implicit_resolvers.items()
    }
    Loader.add_implicit_resolver(BOOL, _LETTER, list("yYnN"))
    Loader.bool_values = {**base.bool_values, "y": True, "n": False}
    Loader.add_implicit_resolver(INT, _WHOLE, list("-+0123456789"))
    Loader.add_implicit_resolver(FLOAT, _REAL, list("-+.0123456789"))
    Loader.add_constructor(INT, _whole)
    Loader.add_constructor(FLOAT, _real)
    for tag in ("merge", "value"):
        Loader.add_constructor(f"tag:yaml.org,2002:{tag}", lambda loader, node: loader.construct_scalar(node))
    Loader.add_constructor("tag:yaml.org,2002:binary", lambda loader, node: loader.construct_yaml_binary(node).decode())
    Loader.add_constructor("tag:yaml.org,2002:map", lambda loader, node: loader.construct_mapping(node))
    return Loader


def _whole(loader: Any, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node)).replace("_", "")
    digits = text.lstrip("+-")
    octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
    number = int(digits, 8) if octal else int(digits, 0)
    return -number if text.startswith("-") else number


def _real(loader: Any, node: yaml.ScalarNode) -> float | str:
    """As it looks once Go has written it as JSON: without a fraction if it has none."""
    text = str(loader.construct_scalar(node))
    number = float(text.replace("_", ""))
    if math.isinf(number):
        return text
    return go_number(number)


def _name(key: Any) -> str:
    """JSON's keys are strings."""
    if isinstance(key, bool):
        return "true" if key else "false"
    return "null" if key is None else str(key)
