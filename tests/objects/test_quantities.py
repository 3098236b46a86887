from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pytest_kscen.objects import quantities

NUMBERS = st.from_regex(r"\A[+-]?(0|[1-9][0-9]{0,6})(\.[0-9]{1,3})?\Z")
SUFFIXES = st.sampled_from(
    [
        "n",
        "u",
        "m",
        "",
        "k",
        "M",
        "G",
        "T",
        "P",
        "E",
        "Ki",
        "Mi",
        "Gi",
        "Ti",
        "Pi",
        "e3",
        "E2",
        "e-2",
    ]
)
TEXTS = st.builds(str.__add__, NUMBERS, SUFFIXES)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("0Ki", "0"),
        ("1000m", "1"),
        ("1.5", "1500m"),
        (".5", "500m"),
        ("1024", "1024"),
        ("1000", "1k"),
        ("2048Mi", "2Gi"),
        ("12Mi", "12Mi"),
        ("1.5Gi", "1536Mi"),
        ("0.1Gi", "107374182400m"),
        ("5E3", "5E3"),
        ("1e1", "10"),
        ("1.5e3", "1500"),
        ("100.035k", "100.035k"),
        ("3.001n", "4n"),
        ("0.000000000001Ki", "2n"),
        ("9Ei", "9223372036854775807"),
        ("-0.5", "-500m"),
        (2, "2"),
        (0.25, "250m"),
    ],
)
def test_quantity_has_canonical_form(text, canonical):
    assert quantities.canonical(text) == canonical


@pytest.mark.parametrize(
    ("text", "rounded"), [("0.1m", "1m"), ("1500u", "2m"), ("1.0005", "1001m"), ("250m", "250m")]
)
def test_resource_list_rounds_to_milli_units(text, rounded):
    assert quantities.in_millis(text) == rounded


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "quantities must match the regular expression"),
        ("ten", "quantities must match the regular expression"),
        ("1..2", "quantities must match the regular expression"),
        ("5 Gi", "quantities must match the regular expression"),
        ("5KiKi", "unable to parse quantity's suffix"),
        ("1e", "unable to parse quantity's suffix"),
        ("1e999999999", "unable to parse numeric part of quantity"),
    ],
)
def test_invalid_quantity_has_kubernetes_message(text, complaint):
    with pytest.raises(ValueError, match=complaint):
        quantities.parse(text)


def test_quantities_compare_as_numbers():
    assert quantities.compare("1Gi", "1G") == 1
    assert quantities.compare("1000m", "1") == 0
    assert quantities.compare("999m", "1") == -1


def test_sum_uses_format_of_first_operand():
    assert quantities.add("1Gi", "1G") == "2073741824"
    assert quantities.add("0", "512Mi") == "512Mi"
    assert quantities.add("250m", "1") == "1250m"
    assert quantities.subtract("1Gi", "512Mi") == "512Mi"


def test_value_is_rounded_up():
    assert quantities.parse("1500m").value == 2
    assert quantities.parse("100u").milli == 1
    assert quantities.parse("1500m").decimal == Decimal("1.5")


@settings(deadline=None)
@given(TEXTS)
def test_canonical_form_is_equal_and_stable(text):
    canonical = quantities.canonical(text)
    assert quantities.nanos(canonical) == quantities.nanos(text)
    assert quantities.canonical(canonical) == canonical


@settings(deadline=None)
@given(TEXTS, TEXTS)
def test_addition_is_exact_and_invertible(one, other):
    exact = quantities.nanos(one) + quantities.nanos(other)
    assume(abs(exact) < 2**63 * 10**9)  # a text of more is read as the most that there is
    total = quantities.add(one, other)
    assert quantities.nanos(total) == exact
    assert quantities.compare(quantities.subtract(total, other), one) == 0


@settings(deadline=None)
@given(NUMBERS)
def test_nano_units_of_plain_number(number):
    assert quantities.nanos(number) == int(Decimal(number) * 10**9)
