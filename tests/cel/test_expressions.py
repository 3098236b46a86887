import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kscen.cel import CompilationError, EvaluationError, compile_expression
from pytest_kscen.cel.types import DYN, INT, STRING, Type, list_of, map_of

# a real kube-apiserver found all of these true
TRUE = r"""
'abc'.substring(1) == 'bc'
'abc'.substring(0, 2) == 'ab'
'a-b-c'.lastIndexOf('-') == 3
'a-b-c'.lastIndexOf('-', 2) == 1
'abcb'.indexOf('b', 2) == 3
'abc'.indexOf('') == 0
'abc'.lastIndexOf('') == 3
'a%b%'.replace('%', '') == 'ab'
'aaa'.replace('a', 'b', 2) == 'bba'
'%s-%d-%.2f-%x'.format(['a', 1, 2.5, 255]) == 'a-1-2.50-ff'
'%s'.format([[1, 2]]) == '[1, 2]'
'%s %s %s'.format([true, 1.0, null]) == 'true 1 null'
'100%%'.format([]) == '100%'
' a b '.trim() == 'a b'
'a,b,c'.split(',') == ['a', 'b', 'c']
'a,b,c'.split(',', 2) == ['a', 'b,c']
'abc'.split('') == ['a', 'b', 'c']
'AbC'.lowerAscii() == 'abc'
'AbCé'.upperAscii() == 'ABCé'
['a', 'b'].join('-') == 'a-b'
['a', 'b'].join() == 'ab'
'abc'.charAt(3) == ''
'abc123'.find('[0-9]+') == '123'
'a1b22'.findAll('[0-9]+') == ['1', '22']
'a1b22c3'.findAll('[0-9]+', 2) == ['1', '22']
'abc'.find('x') == ''
strings.quote('a"b') == '"a\\"b"'
[1, 2, 3].sum() == 6
[1.5, 2.0].sum() == 3.5
[3, 1, 2].min() == 1
['b', 'a'].max() == 'b'
[1, 2, 2].isSorted()
![2, 1].isSorted()
[1, 2, 1].lastIndexOf(1) == 2
[1, 2].indexOf(5) == -1
[[1], [2, 3]].flatten() == [1, 2, 3]
[1, 2, 3, 4].slice(1, 3) == [2, 3]
[3, 1, 2].sort() == [1, 2, 3]
[1, 1, 2].distinct() == [1, 2]
[1, 2].reverse() == [2, 1]
lists.range(3) == [0, 1, 2]
sets.contains([1, 2], [2]) && sets.intersects([1], [1, 2]) && sets.equivalent([1, 2], [2, 1, 1])
-7 / 2 == -3 && -7 % 2 == -1 && 7 % -2 == 1
7.0 / 2.0 == 3.5
1u + 2u == 3u
0x1F == 31
1e3 == 1000.0
'\u00e9' == 'é' && r'\d' == '\\d' && '\x41' == 'A' && '\101' == 'A'
b'abc' == bytes('abc')
'a\nb' == 'a\nb'
int('42') == 42 && int(3.9) == 3 && int(-3.9) == -3
double('1.5') == 1.5 && double(2) == 2.0
uint('7') == 7u
string(1) == '1' && string(1.5) == '1.5' && string(true) == 'true' && string(b'a') == 'a'
string(1.0) == '1' && string(100000000000000000000000.0) == '1e+23'
bool('true') && !bool('false')
dyn(1) == dyn(1.0)
dyn(1) != dyn('1')
type(1) == int
type('a') == string
type(1.0) == double
type(true) == bool
type([]) == list
type({}) == map
1 < 2.5 && 2.5 > 1 && 1u < 2.5
1 in [1, 2] && !(3 in [1, 2]) && 'a' in {'a': 1}
{'a': 1, 'b': 2} == {'b': 2, 'a': 1}
size('é') == 1 && 'ab'.size() == 2 && size([1]) == 1 && size({'a': 1}) == 1 && size(b'abc') == 3
[1, 2, 3].filter(x, x > 1) == [2, 3]
[1, 2, 3].map(x, x * 2) == [2, 4, 6]
[1, 2, 3].map(x, x > 1, x * 2) == [4, 6]
{'a': 1, 'b': 2}.map(k, k).size() == 2
[1, 2, 3].exists_one(x, x == 2) && ![1, 1].exists_one(x, x == 1)
[1, 2].all(i, v, i < v) && {'a': 1}.exists(k, v, k == 'a' && v == 1)
[1, 2].transformList(i, v, i + v) == [1, 3]
[1, 2].transformList(i, v, i > 0, v) == [2]
{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}
{'a': 'b'}.transformMapEntry(k, v, {v: k}) == {'b': 'a'}
1 / 0 == 0 || true
!(1 / 0 == 0 && false)
[1, 0].exists(x, 1 / x == 1)
![1, 0].all(x, 1 / x == 2)
optional.of(1).value() == 1 && !optional.none().hasValue() && optional.none().orValue(2) == 2
optional.of(1).or(optional.of(2)).value() == 1
optional.ofNonZeroValue(0).hasValue() == false
optional.of(2).optMap(x, x * 2).value() == 4
optional.of(2).optFlatMap(x, optional.of(x + 1)).value() == 3
{'a': 1}.?a.orValue(0) == 1 && {'a': 1}.?b.orValue(5) == 5
[1][?0].hasValue() && ![1][?1].hasValue()
[?optional.none(), ?optional.of(2), 3] == [2, 3]
{?'a': optional.none(), 'b': 1} == {'b': 1}
timestamp('2020-01-01T00:00:00Z') + duration('36h') > timestamp('2020-01-02T00:00:00Z')
timestamp('2020-01-02T00:00:00Z') - timestamp('2020-01-01T00:00:00Z') == duration('24h')
timestamp('2020-03-05T06:07:08.123Z').getFullYear() == 2020
timestamp('2020-03-05T06:07:08.123Z').getMonth() == 2
timestamp('2020-03-05T06:07:08.123Z').getDate() == 5
timestamp('2020-03-05T06:07:08.123Z').getDayOfMonth() == 4
timestamp('2020-03-05T06:07:08.123Z').getDayOfWeek() == 4
timestamp('2020-03-05T06:07:08.123Z').getDayOfYear() == 64
timestamp('2020-03-05T06:07:08.123Z').getHours() == 6
timestamp('2020-03-05T06:07:08.123Z').getMilliseconds() == 123
timestamp('2020-03-05T23:07:08Z').getHours('+02:00') == 1
timestamp('2020-03-05T23:07:08Z').getHours('America/New_York') == 18
string(timestamp('2020-01-01T00:00:00Z')) == '2020-01-01T00:00:00Z'
int(timestamp('1970-01-01T00:01:00Z')) == 60
timestamp(60) == timestamp('1970-01-01T00:01:00Z')
duration('1h30m').getMinutes() == 90
duration('1h30m').getHours() == 1
duration('1.5s').getMilliseconds() == 1500
duration('90s').getSeconds() == 90
string(duration('90s')) == '90s' && string(duration('1500ms')) == '1.5s'
quantity('1').isGreaterThan(quantity('0')) && quantity('1Gi').compareTo(quantity('1024Mi')) == 0
quantity('1500m').isInteger() == false && quantity('2').asInteger() == 2 && quantity('500m').asApproximateFloat() == 0.5
quantity('1').add(quantity('1')).compareTo(quantity('2')) == 0
quantity('3').sub(1).compareTo(quantity('2')) == 0
sign(quantity('-1')) == -1
isQuantity('1Mi') && !isQuantity('x') && quantity('1k') == quantity('1000')
ip('1.2.3.4').family() == 4
ip('::1').isLoopback()
ip('0.0.0.0').isUnspecified()
ip('169.254.1.1').isLinkLocalUnicast()
ip('224.0.0.1').isLinkLocalMulticast()
ip('8.8.8.8').isGlobalUnicast()
isIP('1.2.3.4') && !isIP('1.2.3') && !isIP('::ffff:1.2.3.4') && ip.isCanonical('::1') && !ip.isCanonical('0:0::1')
string(ip('2001:db8::1')) == '2001:db8::1'
cidr('10.0.0.0/8').containsIP('10.1.2.3')
!cidr('10.0.0.0/8').containsIP(ip('11.1.2.3'))
cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')
cidr('10.1.0.0/8').masked() == cidr('10.0.0.0/8')
cidr('10.1.2.3/8').ip() == ip('10.1.2.3')
cidr('10.0.0.0/8').prefixLength() == 8
isCIDR('::/0')
!isCIDR('10.0.0.0')
string(cidr('10.0.0.0/8')) == '10.0.0.0/8'
url('https://u@a.b:8080/c%20d?x=1&y=2').getPort() == '8080'
url('https://u@a.b:8080/c%20d?x=1&y=2').getHost() == 'a.b:8080'
url('https://u@a.b:8080/c%20d?x=1&y=2').getHostname() == 'a.b'
url('https://a.b/c%20d').getEscapedPath() == '/c%20d'
url('https://a.b/c?x=1&x=2').getQuery() == {'x': ['1', '2']}
url('https://a.b/c d').getEscapedPath() == '/c%20d'
url('/path').getHost() == ''
url('https://[::1]:80/').getHostname() == '::1'
isURL('https://a.b') && !isURL('../x') && isURL('/x') && !isURL('a.b') && isURL('mailto:x@y')
format.dns1123Label().validate('abc') == optional.none() && format.dns1123Label().validate('A').hasValue()
format.named('uuid').value().validate('123e4567-e89b-12d3-a456-426614174000') == optional.none()
!format.named('nope').hasValue()
format.qualifiedName().validate('a.b/c') == optional.none()
format.dns1035LabelPrefix().validate('abc-') == optional.none()
format.labelValue().validate('a b').hasValue()
format.date().validate('2020-01-01') == optional.none()
format.datetime().validate('x').hasValue()
format.byte().validate('YQ==') == optional.none()
format.uri().validate('https://a.b') == optional.none()
semver('1.2.3').isLessThan(semver('1.10.0'))
semver('1.0.0-alpha').isLessThan(semver('1.0.0'))
semver('1.2.3').major() == 1
semver('v1.2', true).patch() == 0
isSemver('1.0.0')
!isSemver('1.0')
semver('1.0.0').compareTo(semver('1.0.0+b')) == 0
semver('1.0.0-1').isLessThan(semver('1.0.0-a'))
'abc'.matches('^a')
!'abc'.matches('^b')
matches('a1', '[[:alpha:]][0-9]')
'AB'.matches('(?i)ab')
'ab\n'.matches('b$') == false
has({'a': 1}.a) && !has({'a': 1}.b)
true ? 1 == 1 : false
(1 + 2) * 3 == 9 && 1 + 2 * 3 == 7 && !(true && false) && -(-1) == 1 && 10 - 2 - 3 == 5 && 2 * 3 % 4 == 2
'a' + 'b' == 'ab' && [1] + [2] == [1, 2] && b'a' + b'b' == b'ab'
'a' < 'b' && b'a' < b'b' && false < true
[1, 2, 3][1] == 2 && {'a': {'b': 1}}.a.b == 1 && {1: 'x'}[1] == 'x'
'x' == 'x' // comment
'a'.contains('') && 'abc'.startsWith('ab') && 'abc'.endsWith('bc')
null == null
[] == [] && {} == {}
'%s'.format([duration('1s')]) == '1s'
'%s'.format([timestamp('2020-01-01T00:00:00Z')]) == '2020-01-01T00:00:00Z'
'%s'.format([b'abc']) == 'abc'
'%b %o %X %e'.format([5, 8, 255, 1.5]) == '101 10 FF 1.500000\u00d710⁰⁰'
'%s'.format([{'a': 1}]) == '{"a":1}'
'%s'.format([['a', 'b']]) == '["a", "b"]'
'%f'.format([1234567.5]) == '1,234,567.500000'
""".strip().splitlines()


@pytest.mark.parametrize("expression", TRUE)
def test_expression_is_true_as_on_real_server(expression):
    assert compile_expression(expression, {}).value({}) is True


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("9223372036854775807 + 1", "integer overflow"),
        ("3u - 4u", "unsigned integer overflow"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "modulus by zero"),
        ("[1, 2][5]", "index out of bounds: 5"),
        ("{'a': 1}.b", "no such key: b"),
        ("'x'.charAt(9)", "index out of range: 9"),
        ("[].min()", "min called on empty list"),
        ("dyn(1) + dyn('a')", "no such overload"),
        ("int(dyn('x'))", "type conversion error from 'string' to 'int'"),
        (
            "quantity('x')",
            (
                "quantities must match the regular expression "
                "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            ),
        ),
        ("optional.none().value()", "optional.none() dereference"),
        ("false || 1 / 0 == 1", "division by zero"),
    ],
)
def test_evaluation_error_has_its_message(expression, words):
    with pytest.raises(EvaluationError) as refusal:
        compile_expression(expression, {}).value({})
    assert str(refusal.value) == words


SELF = Type(
    "selfType",
    (),
    {
        "s": STRING,
        "i": INT,
        "l": list_of(STRING),
        "m": map_of(STRING, INT),
        "o": Type("selfType.o", (), {"x": STRING}),
    },
)
STARTS = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, "
    "STRING, BYTES, IDENTIFIER}"
)

# each asked of a real kube-apiserver: expression, then (column, words) of each mistake
MISTAKES = [
    ("self.x > 0", [(5, "undefined field 'x'")]),
    ("self.i > 'a'", [(8, "found no matching overload for '_>_' applied to '(int, string)'")]),
    ("self.s + 1 == 2", [(8, "found no matching overload for '_+_' applied to '(string, int)'")]),
    ("foo", [(1, "undeclared reference to 'foo' (in container '')")]),
    ("foo(1)", [(4, "undeclared reference to 'foo' (in container '')")]),
    ("self.s.nope()", [(12, "undeclared reference to 'nope' (in container '')")]),
    (
        "self.s.startsWith(1)",
        [(18, "found no matching overload for 'startsWith' applied to 'string.(int)'")],
    ),
    ("self.", [(6, "Syntax error: no viable alternative at input '.'")]),
    ("self..i", [(6, "Syntax error: no viable alternative at input '..'")]),
    ("self.s ==", [(10, f"Syntax error: mismatched input '<EOF>' expecting {STARTS}")]),
    ("(self.i", [(8, "Syntax error: missing ')' at '<EOF>'")]),
    ("self.i)", [(7, "Syntax error: extraneous input ')' expecting <EOF>")]),
    ("self.i self.i", [(8, "Syntax error: mismatched input 'self' expecting <EOF>")]),
    (
        "@",
        [
            (1, "Syntax error: token recognition error at: '@'"),
            (2, f"Syntax error: mismatched input '<EOF>' expecting {STARTS}"),
        ],
    ),
    ("has(self)", [(5, "invalid argument to has() macro")]),
    (
        "self.l.all(x, x > 1)",
        [(17, "found no matching overload for '_>_' applied to '(string, int)'")],
    ),
    (
        "self.all(x, true)",
        [
            (
                1,
                (
                    "expression of type 'selfType' cannot be range of a comprehension (must "
                    "be list, map, or dynamic)"
                ),
            )
        ],
    ),
    (
        "self['s'] == ''",
        [(5, "found no matching overload for '_[_]' applied to '(selfType, string)'")],
    ),
    ("self.i == 1.0", [(8, "found no matching overload for '_==_' applied to '(int, double)'")]),
    ("self.s == null", [(8, "found no matching overload for '_==_' applied to '(string, null)'")]),
    (
        "self.i in self.m",
        [(8, "found no matching overload for '@in' applied to '(int, map(string, int))'")],
    ),
    ("self.s.matches('(')", [(16, "invalid matches argument")]),
    ("duration('x') == duration('1s')", [(10, "invalid duration argument")]),
    ("true && self.i", [(13, "expected type 'bool' but found 'int'")]),
    ("[1, 'a']", [(5, "expected type 'int' but found 'string'")]),
    (
        "true ? 1 : 'a'",
        [(6, "found no matching overload for '_?_:_' applied to '(bool, int, string)'")],
    ),
    (
        "self.o == {'x': 'a'}",
        [
            (
                8,
                (
                    "found no matching overload for '_==_' applied to '(selfType.o, "
                    "map(string, string))'"
                ),
            )
        ],
    ),
    (
        "cel.bind(x, 1, x == 1)",
        [
            (at, f"undeclared reference to '{name}' (in container '')")
            for at, name in ((1, "cel"), (9, "bind"), (10, "x"), (16, "x"))
        ],
    ),
]


@pytest.mark.parametrize(("expression", "mistakes"), MISTAKES)
def test_compile_errors_have_positions(expression, mistakes):
    with pytest.raises(CompilationError) as refusal:
        compile_expression(expression, {"self": SELF})
    shown = (
        f"ERROR: <input>:1:{column}: {words}\n | {expression}\n | {'.' * (column - 1)}^"
        for column, words in mistakes
    )
    assert str(refusal.value) == "\n".join(shown)


def test_program_has_type_and_used_variables():
    program = compile_expression(
        "self.l.map(x, x.size() + other)", {"self": SELF, "other": INT, "unused": INT}
    )
    assert (str(program.type), program.uses) == ("list(int)", {"self", "other"})
    assert program.value({"self": {"l": ["a", "bc"]}, "other": 1}) == [2, 3]


def test_reserved_field_names_are_escaped():
    value = {"a-b": 1, "c.d": 2, "if": 3, "x__y": 4}
    expression = "self.a__dash__b + self.c__dot__d + self.__if__ + self.x__underscores__y"
    assert compile_expression(expression, {"self": DYN}).value({"self": value}) == 10


@given(st.lists(st.integers(-5, 5), max_size=5))
def test_macros_agree_with_python(numbers):
    def value(expression):
        return compile_expression(expression, {"l": list_of(INT)}).value({"l": numbers})

    assert value("l.filter(x, x > 0).map(x, x * 2)") == [2 * x for x in numbers if x > 0]
    assert value("l.all(x, x > 0)") == all(x > 0 for x in numbers)
    assert value("l.exists_one(x, x == 3)") == (numbers.count(3) == 1)
    assert value("l.sum()") == sum(numbers)


def test_expression_depth_is_limited():
    with pytest.raises(CompilationError, match="recursion limit"):
        compile_expression("(" * 300 + "1" + ")" * 300, {})
