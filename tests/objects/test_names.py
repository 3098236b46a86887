from __future__ import annotations

import pytest

from pytest_kscen.objects import names

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or "
    "'-', and must start and end with an "
    "alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
KEY = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)

REASON = (
    "a condition reason must start with alphabetic character, optionally followed by a "
    "string of alphanumeric characters or "
    "'_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or "
    "'MY_NAME',  or 'MyName',  or "
    "'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is "
    "'[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
)
SEARCH = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
    "'_', '-' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')"
)


@pytest.mark.parametrize(
    ("check", "value", "complaints"),
    [
        (names.dns1123_label, "a-1", ()),
        (names.dns1123_label, "A", (LABEL,)),
        (names.dns1123_label, "a\n", (LABEL,)),
        (names.dns1123_label, "a.b", ("must not contain dots",)),
        (names.dns1123_label, "a" * 64, ("must be no more than 63 characters",)),
        (
            names.dns1123_label,
            "a." * 40 + "b",
            ("must be no more than 63 characters", "must not contain dots"),
        ),
        (names.dns1123_subdomain, "a.b-c", ()),
        (names.dns1123_subdomain, "a" * 254, ("must be no more than 253 characters",)),
        (names.label_key, "example.com/My.name", ()),
        (names.label_key, "", ("name part must be non-empty", f"name part {KEY}")),
        (names.label_key, "/a", ("prefix part must be non-empty",)),
        (names.label_key, "a" * 64, ("name part must be no more than 63 bytes",)),
        (names.label_key, "a/-", (f"name part {KEY}",)),
        (
            names.label_key,
            "a/b/c",
            (
                (
                    f"a valid label key {KEY} with an optional DNS subdomain prefix and '/' "
                    "(e.g. 'example.com/MyName')"
                ),
            ),
        ),
        (names.label_value, "", ()),
        (names.label_value, "a" * 64, ("must be no more than 63 bytes",)),
        (names.config_key, "a_b.C", ()),
        (names.config_key, "..", ("must not be '..'",)),
        (names.config_key, "..a", ("must not start with '..'",)),
        (names.port_name, "http", ()),
        (names.port_name, "80", ("must contain at least one letter (a-z)",)),
        (
            names.port_name,
            "a--b-",
            ("must not contain consecutive hyphens", "must not begin or end with a hyphen"),
        ),
        (names.path_segment, "..", ("may not be '..'",)),
        (names.path_segment, "a/%", ("may not contain '/'", "may not contain '%'")),
        (names.env_var, "A B.c-9", ()),
        (names.condition_reason, "ReasonA,ReasonB:c_", ()),
        (names.condition_reason, "a b", (REASON,)),
        (names.search_domain, "_dmarc.example.com", ()),
        (names.search_domain, "a..b", (SEARCH,)),
        (names.http_path, "/a/b%20c", ()),
        (
            names.http_path,
            "/a b",
            ("Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')",),
        ),
    ],
)
def test_name_errors_have_kubernetes_messages(check, value, complaints):
    assert check(value) == complaints


def test_generated_name_prefix_may_end_with_dash():
    assert names.dns1123_label(names.as_prefix("web-")) == ()
    assert names.dns1123_label(names.as_prefix("-")) == (LABEL,)
