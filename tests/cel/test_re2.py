import pytest

from pytest_kscen.cel.re2 import BadPattern, compile_pattern


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        (r"^a$", "a", "a\n"),
        (r"^[[:alpha:]]+$", "abC", "a1"),
        (r"^\pL+$", "aé", "a1"),
        (r"^[\p{Lu}x]+$", "AxÉ", "a"),
        (r"^\PN+$", "ab", "a1"),
        (r"^\Qa.b\E$", "a.b", "axb"),
        (r"(?P<n>a)b", "ab", "a"),
        (r"^a(?i)b|c$", "aB", "AB"),
        (r"(?i:a)b", "Ab", "AB"),
        (r"(?m)^a$", "b\na\nc", "b\nac"),
        (r"(?s)a.b", "a\nb", "ab"),
        (r"^\d+\z", "12", "1٣"),
        (r"^a{2,3}$", "aaa", "a"),
        (r"^a{,2}$", "a{,2}", "aa"),
        (r"^[^]a]$", "b", "]"),
        (r"^[a\-z]$", "-", "b"),
        (r"^\x{41}\x42\103$", "ABC", "abc"),
    ],
)
def test_go_patterns_match_as_in_go(pattern, matching, other):
    assert compile_pattern(pattern).search(matching)
    assert not compile_pattern(pattern).search(other)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(", "missing closing ): `(`"),
        ("a)", "unexpected ): `a)`"),
        ("[a", "missing closing ]: `[a`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        (r"\1", r"invalid escape sequence: `\1`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a\\", "trailing backslash at end of expression: ``"),
    ],
)
def test_invalid_pattern_has_go_message(pattern, words):
    with pytest.raises(BadPattern) as refusal:
        compile_pattern(pattern)
    assert str(refusal.value) == f"error parsing regexp: {words}"
