import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kscen.cel.patterns import EffortExceeded, matcher_of
from pytest_kscen.cel.re2 import BadPattern, compile_pattern

CASES = [
    (r"", "", True),
    (r"^$", "", True),
    (r"^a+b$", "aaab", True),
    (r"^(a|b)*c$", "abbac", True),
    (r"^(a|b)*c$", "abbad", False),
    (r"a{2,3}b", "ab aab", True),
    (r"^a{2,3}$", "aaaa", False),
    (r"^(ab){2}$", "abab", True),
    (r"(?i)ERR(or)?", "an error", True),
    (r"x(?i:y+)z", "xYyz", True),
    (r"x(?i:y+)z", "XYyz", False),
    (r"(?m)^b*$", "a\nbb\na", True),
    (r"^b*$", "a\nbb\na", False),
    (r"a.*b", "a\nb", False),
    (r"(?s)a.*b", "a\nb", True),
    (r"\bok+\b", "not ok.", True),
    (r"\bok+\b", "not okay", False),
    (r"\Bk+", "ok", True),
    (r"[^\d\s]+\.log", "x.log", True),
    (r"\p{Lu}+x", "ÉÀx", True),
    (r"(a*)*b", "a" * 50, False),
    (r"(|a)+$", "aaa", True),
    (r"(){1000}a?", "", True),
    (r"^a{1,1000}$", "a" * 1000, True),
    (r"^a{1,1000}$", "a" * 1001, False),
    (r"^[ab]{0,1000}$", "ab" * 500, True),
]


@pytest.mark.parametrize(("pattern", "text", "found"), CASES)
def test_pattern_matches_expected_text(pattern, text, found):
    assert matcher_of(pattern).finds(text) is found


pieces = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", "^", "$", r"\b", "(a|b)", "(ab|)", "(?i:A)", "\n"]
)
repeats = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,3}", "{0,}", "*?"])
patterns = st.lists(st.tuples(pieces, repeats).map("".join), max_size=5).map("".join)


@given(patterns, st.text("abA\n", max_size=8))
@settings(max_examples=500, deadline=None)
def test_patterns_match_as_in_python(pattern, text):
    try:
        expected = compile_pattern(pattern).search(text) is not None
    except BadPattern:
        return
    assert matcher_of(pattern).finds(text) is expected


@pytest.mark.parametrize(
    "pattern", ["(a+)+b", "(a|a)*b", "(a|aa)+b", "(.*)(.*)(.*)(.*)b", "(a?){50}a{50}b"]
)
def test_matching_time_is_linear_in_text(pattern):
    began = time.process_time()
    assert not matcher_of(pattern).finds("a" * 100_000)
    assert time.process_time() - began < 3


def test_matching_steps_can_be_limited():
    with pytest.raises(EffortExceeded):
        matcher_of("(a|b)*a(a|b){500}c").finds("ab" * 1000, effort=10_000)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("((a{1000}){1000})", "expression too large"),
        ("(" * 200 + ")" * 200, "expression nests too deeply"),
    ],
)
def test_oversized_pattern_is_refused(pattern, words):
    with pytest.raises(BadPattern, match=re.escape(f"{words}: `")):
        matcher_of(pattern)
