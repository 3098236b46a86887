"""Values of options: read from the command line, then the environment, then the ini file.

Called once for each session, by `options.settle`. Definitions and parsers of options are in
`objects.options`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kscen.objects.options import PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.objects.options import Option

READ_ELSEWHERE = {"CACHE"}


@dataclass(frozen=True, slots=True)
class Given:
    """Value of an option: parsed, as written, and its source (flag, variable or file)."""

    value: Any
    text: str
    source: str


def read(config: pytest.Config, options: Iterable[Option]) -> dict[str, Given]:
    """Return the given options by flag, or raise a UsageError that names the invalid one."""
    found = {option.flag: _given(config, option) for option in options}
    return {flag: given for flag, given in found.items() if given is not None}


def misspelt(options: Iterable[Option]) -> list[str]:
    """Return a line for each variable whose name is almost that of an option. Other variables with
    the prefix are ignored: they may belong to other programs.
    """
    known = {option.variable.removeprefix(PREFIX) for option in options} | READ_ELSEWHERE
    names = (name.removeprefix(PREFIX) for name in sorted(os.environ) if name.startswith(PREFIX))
    unknown = [name for name in names if name not in known]
    if not unknown:
        return []
    from pytest_kscen.objects.arguments import closest_match

    matches = {name: closest_match(name, sorted(known)) for name in unknown}
    return [
        f"{PREFIX}{name}: without effect, did you mean {PREFIX}{one}?"
        for name, one in matches.items()
        if one
    ]


def _given(config: pytest.Config, option: Option) -> Given | None:
    # The source of an ini key: the file, or the command line's -o.
    key = option.name
    overridden = [text.partition("=")[0].strip() for text in config.getoption("override_ini") or ()]
    in_file: str = f"-o {key}" if key in overridden else f"{key} in {config.inipath}"
    try:
        written = config.getini(option.name)
    except (TypeError, ValueError) as error:  # TOML's types, where pytest wants text
        raise pytest.UsageError(f"{in_file}: {error}") from error
    sources = (
        (option.flag, config.getoption(option.name, None)),
        (option.variable, os.environ.get(option.variable)),
        (
            in_file,
            ",".join(one.strip(",") for one in written) if isinstance(written, list) else written,
        ),
    )
    for source, text in sources:
        if text is not None and (text != "" or source == option.flag):
            try:
                return Given(option.parse(str(text)), str(text), source)
            except ValueError as error:
                raise pytest.UsageError(f"{source}: {error}") from error
    return None
