"""Syntax of names, labels and keys: each check returns Kubernetes' error messages.

Used by validation of built-in and custom resources. Results are cached by text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TypeAlias

Check: TypeAlias = Callable[[str], tuple[str, ...]]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_SEARCH_PART = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SEARCH = rf"{_SEARCH_PART}(\.{_SEARCH_PART})*"
_DNS_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"
_VALID: tuple[str, ...] = ()
_NAME_AND_PREFIX = 2


def _refusal(words: str, expression: str, *examples: str) -> str:
    listed = " or ".join(f"'{example}', " for example in examples)
    hint = f"e.g. {listed}" if examples else ""
    return f"{words} ({hint}regex used for validation is '{expression}')"


def at_most(length: int, unit: str = "characters") -> str:
    return f"must be no more than {length} {unit}"


def within(low: int, high: int) -> str:
    return f"must be between {low} and {high}, inclusive"


def _check(expression: str, refusal: str, longest: int = 0, unit: str = "characters") -> Check:
    """Return the check for a pattern and a maximal length in bytes; it returns all errors at once,
    and caches its results.
    """
    matches = re.compile(expression).fullmatch
    too_long = at_most(longest, unit)

    @functools.lru_cache(maxsize=512)
    def check(value: str) -> tuple[str, ...]:
        long = (too_long,) if longest and len(value.encode()) > longest else _VALID
        return long if matches(value) else (*long, refusal)

    return check


_LABEL_WORDS = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_SUBDOMAIN_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
    "'-' or '.', "
    "and must start and end with an alphanumeric character"
)
_SEARCH_WORDS = _SUBDOMAIN_WORDS.replace("characters, '-'", "characters, '_', '-'")
_DNS_1035_WORDS = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character"
)
_WILDCARD_WORDS = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, "
    "which must consist of lower case alphanumeric characters, '-' or '.' and end with "
    "an alphanumeric character"
)
_KEY_WORDS = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
    "an alphanumeric character"
)
_VALUE_WORDS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_CONFIG_KEY_WORDS = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"

_SUBDOMAIN_REFUSAL = _refusal(_SUBDOMAIN_WORDS, _SUBDOMAIN, "example.com")
_KEY_REFUSAL = _refusal(_KEY_WORDS, _KEY, "MyName", "my.name", "123-abc")

dns1123_subdomain = _check(_SUBDOMAIN, _SUBDOMAIN_REFUSAL, 253)
search_domain = _check(_SEARCH, _refusal(_SEARCH_WORDS, _SEARCH, "example.com"), 253)
dns1035_label = _check(_DNS_1035, _refusal(_DNS_1035_WORDS, _DNS_1035, "my-name", "abc-123"), 63)
wildcard_subdomain = _check(
    rf"\*\.{_SUBDOMAIN}", _refusal(_WILDCARD_WORDS, rf"\*\.{_SUBDOMAIN}", "*.example.com"), 253
)
label_value = _check(
    _VALUE, _refusal(_VALUE_WORDS, _VALUE, "MyValue", "my_value", "12345"), 63, "bytes"
)
condition_reason = _check(
    "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?",
    _refusal(
        "a condition reason must start with alphabetic character, optionally followed by "
        "a string of alphanumeric characters "
        "or '_,:', and must end with an alphanumeric character or '_'",
        "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?",
        *("my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"),
    ),
)
http_path = _check(
    r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", _refusal("Invalid path", r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
)
percent = _check(
    "[0-9]+%",
    _refusal(
        "a valid percent string must be a numeric string followed by an ending '%'",
        "[0-9]+%",
        "1%",
        "93%",
    ),
)
http_header = _check(
    "[-A-Za-z0-9]+",
    _refusal(
        "a valid HTTP header must consist of alphanumeric characters or '-'",
        "[-A-Za-z0-9]+",
        "X-Header-Name",
    ),
)
env_var = _check(
    r"[\x20-<>-~]+",
    (
        "a valid environment variable name must consist only of printable ASCII characters "
        "other than '='"
    ),
)
_label = _check(_LABEL, _refusal(_LABEL_WORDS, _LABEL, "my-name", "123-abc"), 63)
_prefix = _check(_SUBDOMAIN, _SUBDOMAIN_REFUSAL, 253, "bytes")
_config_key = _check(
    "[-._a-zA-Z0-9]+",
    _refusal(_CONFIG_KEY_WORDS, "[-._a-zA-Z0-9]+", "key.name", "KEY_NAME", "key-name"),
    253,
)
_subdomain_matches = re.compile(_SUBDOMAIN).fullmatch
_key_matches = re.compile(_KEY).fullmatch


@functools.lru_cache(maxsize=512)
def dns1123_label(value: str) -> tuple[str, ...]:
    wrong = _label(value)
    if wrong and "." in value and _subdomain_matches(value):
        return (*wrong[:-1], "must not contain dots")
    return wrong


@functools.lru_cache(maxsize=512)
def label_key(value: str) -> tuple[str, ...]:
    """Check a qualified name: a name, with an optional DNS subdomain and a slash before it."""
    *prefix, name = value.split("/")
    if len(prefix) >= _NAME_AND_PREFIX:
        return (
            (
                f"a valid label key {_KEY_REFUSAL} with an optional DNS subdomain prefix and "
                "'/' (e.g. 'example.com/MyName')"
            ),
        )
    wrong = [
        f"prefix part {words}"
        for part in prefix
        for words in (_prefix(part) if part else ("must be non-empty",))
    ]
    if not name:
        wrong.append("name part must be non-empty")
    elif len(name.encode()) > 63:  # noqa: PLR2004 -- the longest label
        wrong.append(f"name part {at_most(63, 'bytes')}")
    if not _key_matches(name):
        wrong.append(f"name part {_KEY_REFUSAL}")
    return tuple(wrong)


@functools.lru_cache(maxsize=4096)
def config_key(value: str) -> tuple[str, ...]:
    if value in {".", ".."}:
        return (*_config_key(value), f"must not be '{value}'")
    return (
        (*_config_key(value), "must not start with '..'")
        if value.startswith("..")
        else _config_key(value)
    )


@functools.lru_cache(maxsize=4096)
def port_name(value: str) -> tuple[str, ...]:
    tests = (
        (len(value.encode()) > 15, at_most(15)),  # noqa: PLR2004 -- IANA's longest service name
        (
            not re.fullmatch("[-a-z0-9]+", value),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (not re.search("[a-z]", value), "must contain at least one letter (a-z)"),
        ("--" in value, "must not contain consecutive hyphens"),
        (value.startswith("-") or value.endswith("-"), "must not begin or end with a hyphen"),
    )
    return tuple(words for wrong, words in tests if wrong)


def path_segment(value: str) -> tuple[str, ...]:
    """Check that a name fits into one segment of a URL path. Used for kinds whose names need not be
    DNS names.
    """
    if value in {".", ".."}:
        return (f"may not be '{value}'",)
    return path_segment_prefix(value)


def path_segment_prefix(value: str) -> tuple[str, ...]:
    return tuple(f"may not contain '{part}'" for part in "/%" if part in value)


def as_prefix(value: str) -> str:
    """Return the text to check for a generateName. A final dash is replaced by a letter, since
    other characters will follow it.
    """
    return value[:-2] + "a" if len(value) > 1 and value.endswith("-") else value
