"""Where a setting's value comes from: the flag, then the environment, then the ini file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.options.option import Option


@dataclass(frozen=True, slots=True)
class Given:
    """A setting that somebody has given: its value, as it was written, and where."""

    value: Any
    text: str
    source: str


def read(config: pytest.Config, options: Iterable[Option]) -> dict[str, Given]:
    """What is given of these, by flag; a UsageError names the one that makes no sense."""
    found = {option.flag: _given(config, option) for option in options}
    return {flag: given for flag, given in found.items() if given is not None}


def _given(config: pytest.Config, option: Option) -> Given | None:
    in_file = f"{option.name} in {config.inipath}"
    try:
        written = config.getini(option.name)
    except (TypeError, ValueError) as error:  # TOML's types, where pytest wants text
        raise pytest.UsageError(f"{in_file}: {error}") from error
    sources = (
        (option.flag, config.getoption(option.name, None)),
        (option.variable, os.environ.get(option.variable)),
        (in_file, ",".join(one.strip(",") for one in written) if isinstance(written, list) else written),
    )
    for source, text in sources:
        if text is not None and (text != "" or source == option.flag):
            try:
                return Given(option.parse(str(text)), str(text), source)
            except ValueError as error:
                raise pytest.UsageError(f"{source}: {error}") from error
    return None
