import re
import shutil
import subprocess

import pytest

from pytest_kscen.embedded.kubelet.shell import Shell


class Run:
    """Run of a script: output, duration, exit code."""

    def __init__(self, runner, script, **options):
        self.lines = []
        self._start = runner.clock.now()
        shell = Shell(self.lines.append, runner.clock.sleep, now=runner.clock.now, **options)
        self.code = runner.call(shell.run(script))
        self.seconds = round(runner.clock.now() - self._start, 6)
        self.text = "".join(self.lines)


@pytest.fixture
def sh(runner):
    return lambda script, **options: Run(runner, script, **options)


UNDERSTOOD = [
    ("echo hello", "hello\n"),
    ("echo one; echo two", "one\ntwo\n"),
    ("echo one\n\n# a remark\necho two # another\n", "one\ntwo\n"),
    ("echo -n one; echo two", "onetwo\n"),
    ("true && echo yes || echo no", "yes\n"),
    ("false && echo yes || echo no", "no\n"),
    ("true&&echo close", "close\n"),
    ("! false && echo turned", "turned\n"),
    ("a=1 b='x y'; echo $a ${b} \"$b\" '$b' ${c:-none} $c.", "1 x y x y $b none .\n"),
    ('a="x  y"; echo $a; echo "$a"', "x y\nx  y\n"),
    ("i=3; echo $((i*2 + 1)) $(($i % 2))", "7 1\n"),
    ("if false; then echo a; elif true; then echo b; else echo c; fi", "b\n"),
    ("if [ 3 -gt 10 ]; then echo a; else echo c; fi", "c\n"),
    ("for x in a b c; do echo $x; done", "a\nb\nc\n"),
    ("i=0; while [ $i -lt 3 ]; do i=$((i+1)); echo $i; done", "1\n2\n3\n"),
    ('until test "$i" = xx; do i=x$i; done; echo $i', "xx\n"),
    ("for x in 1 2 3; do [ $x = 2 ] && continue; echo $x; done", "1\n3\n"),
    ("while true; do echo once; break; done", "once\n"),
    ("{ echo a; echo b; } && (echo c)", "a\nb\nc\n"),
    ("echo gone > /dev/null; echo seen 2>/dev/null; echo too >&2", "seen\ntoo\n"),
    ('printf "%s=%d\\n" a 1', "a=1\n"),
    ('echo -e "a\\tb"', "a\tb\n"),
    ("false; echo $?; echo $?", "1\n0\n"),
    ('echo "costs \\$5 \\"quoted\\""', 'costs $5 "quoted"\n'),
    ("date +%s", "1767225600\n"),
    ("echo a\\ b c\\\n d", "a b c d\n"),
    ("echo one two | wc -w", "2\n"),
    ("printf 'a\\nb\\nc\\n' |\n tail -n 2 | head -n1", "b\n"),
    ("printf 'a 1\\nb 2\\n' | grep -F b | awk '{print $2}'", "2\n"),
    ("printf 'a 1\\nb 2\\n' | awk '/a/ {print $2, \"of\", $1}'", "1 of a\n"),
    ("echo a:b:c | cut -d: -f1,3; echo a:b | awk -F: '{print $NF NR}'", "a:c\nb1\n"),
    ("printf '10\\n9\\n9\\n' | sort -n -u | tail -1", "10\n"),
    ("echo aXbX | sed s/X/-/ | sed 's/^\\(a\\)/[&]/'", "[a]-bX\n"),
    (
        "printf 'ab\\nb\\n' | grep -c b; echo abc | grep -o b; echo ab | grep -v b || echo none",
        "2\nb\nnone\n",
    ),
    ("echo a+b | grep -F a+ | grep a+b | grep -E 'a\\+b|c' | grep -x -e a+b", "a+b\n"),
    (
        "if echo x | grep -q x; then echo found; fi; ! echo x | grep -q y && echo not",
        "found\nnot\n",
    ),
    ('n=$(echo "a b" | wc -w); echo "<$n>" $((n + 1))', "<2> 3\n"),
    ('echo $(echo a; echo b) "$(echo a; echo b)" `echo c`', "a b a\nb c\n"),
    ('echo "$(echo "$(echo "x  y")" | grep ")" || echo "in (it)")"', "in (it)\n"),
    ("x=$(false); echo $?; x=$(true); echo $?", "1\n0\n"),
    ("x=1; (x=2; exit 3); echo $x $?; echo 5 | x=3; echo $x", "1 3\n1\n"),
    ("printf '1 a b\\n2 c\\n' | while read -r n rest; do echo \"$n:$rest\"; done", "1:a b\n2:c\n"),
    ("i=0; while echo $i | grep -q '^[01]$'; do i=$((i + 1)); done; echo $i", "2\n"),
    (
        "{ cat /x; echo out; } 2>/dev/null; { cat /x; echo out; } > /dev/null",
        "out\ncat: can't open '/x': No such file or directory\n",
    ),
    (
        "cat /x | wc -l; cat /x 2>&1 | wc -l; echo a >&2 | wc -l",
        "cat: can't open '/x': No such file or directory\n0\n1\na\n0\n",
    ),
    ("a=1; export a; b=2; sh -c 'echo $a.$b.$1' x y; echo 'echo in $a' | sh -e", "1..y\nin 1\n"),
    ("timeout 5 sh -c 'while true; do sleep 2; echo turn; done' || echo $?", "turn\nturn\n124\n"),
    ("timeout 5 echo in time", "in time\n"),
    ("set -e; { false; true; } || true; sh -c 'false; true'; echo on", "on\n"),
]


@pytest.mark.parametrize(("script", "text"), UNDERSTOOD)
def test_supported_commands(sh, script, text):
    run = sh(script)
    assert (run.text, run.code) == (text, 0)


CODES = [
    ("exit 3", 3),
    ("exit 3; echo never", 3),
    ("false", 1),
    ("true; exit", 0),
    ("false; exit", 1),
    ("false || exit 7", 7),
    ("set -e; false; exit 9", 1),
    ("set -e; if false; then :; fi; false || true; exit 9", 9),
    ("exec false", 1),
    ("exit 256", 0),
    ("sleep nonsense", 1),
    ("true | exit 4", 4),
    ("exit 4 | true", 0),
    ("set -e; echo a | grep -q b; exit 9", 1),
    ("set -e; x=$(false); exit 9", 1),
    ("set -e; (false; exit 8); exit 9", 1),
    ("timeout 1 sleep 2", 124),
]


@pytest.mark.parametrize(("script", "code"), CODES)
def test_exit_codes(sh, script, code):
    assert sh(script).code == code


@pytest.mark.skipif(not shutil.which("dash"), reason="dash, the shell of Debian, is not installed")
@pytest.mark.parametrize(
    ("script", "text"),
    [row for row in UNDERSTOOD if not re.search("date|echo -e|cat /x|>&2|timeout", row[0])],
)
def test_output_equals_real_shell(script, text):
    done = subprocess.run(["dash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == (text, 0)


@pytest.mark.skipif(not shutil.which("dash"), reason="dash, the shell of Debian, is not installed")
@pytest.mark.parametrize(("script", "code"), [row for row in CODES if "timeout" not in row[0]])
def test_exit_code_equals_real_shell(script, code):
    assert (
        subprocess.run(["dash", "-c", script], capture_output=True, check=False).returncode == code
    )


@pytest.mark.parametrize(
    ("script", "seconds"),
    [
        ("sleep 5", 5),
        ("sleep 1m", 60),
        ("sleep 0.5 1.5", 2),
        ("sleep 3 && sleep 4", 7),
        ("timeout 10 sleep 20; timeout 0 sleep 1", 11),
        ("x=$(sleep 3; echo a | (sleep 2; cat))", 5),
        ("for i in 1 2 3; do sleep 2; done", 6),
        ("i=0; while [ $i -lt 3 ]; do sleep 1; i=$((i+1)); done", 3.03),
    ],
)
def test_commands_take_cluster_time(sh, script, seconds):
    assert sh(script).seconds == seconds


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("curl http://x", "sh: curl: not found (supported: "),
        ("true\necho $(date", "sh: the substitution $( is not closed"),
        ("echo $(curl x)", "sh: curl: not found (supported: "),
        ("echo a | ", "sh: unexpected 'the end'"),
        (
            "echo a | awk '{sum += $1}'",
            "sh: awk: {sum += $1} is not supported (supported: one rule that prints fields)",
        ),
        ("echo a | sed 2d", "sh: sed: 2d is not supported (supported: s/…/…/)"),
        ("echo a | grep -r a", "sh: grep: -r is not supported"),
        (
            "timeout -s KILL 5 true",
            "sh: timeout: -s KILL 5 true is not supported (supported: a duration and a program)",
        ),
        ("sleep 5 &", "sh: line 1: a background job (&) is not supported"),
        ("echo a > /tmp/file", "sh: line 1: a redirection (>) is not supported"),
        ("cat <<END", "sh: line 1: a here-document (<<) is not supported"),
        ("echo ${a%b}", "sh: line 1: this expansion (${) is not supported"),
        ("echo 'open", "sh: line 1: the quote ' is not closed"),
        ("if true; then echo", "sh: 'fi' is missing before 'the end'"),
        ("done", "sh: unexpected 'done'"),
        ("echo $((a b))", "sh: the sum $((a b)) is not supported"),
        ("trap x EXIT", "sh: trap: EXIT is not supported (supported: TERM and INT)"),
        ("[ a -nt b ]", "sh: test: a -nt b is not supported"),
    ],
)
def test_unsupported_command_is_reported(sh, script, message):
    run = sh(script)
    assert run.code == 127
    assert run.text.startswith(message)


def test_files_and_arguments(sh):
    run = sh(
        'cat /etc/a; echo "$1-$2" $#; for x in "$@"; do echo $x; done',
        files={"/etc/a": "A\n"},
        arguments=("p", "q r"),
    )
    assert run.text == "A\np-q r 2\np\nq r\n"
    assert sh("cat /nowhere").text == "cat: can't open '/nowhere': No such file or directory\n"


def test_busy_loop_advances_time(runner):
    shell = Shell(lambda _: None, runner.clock.sleep)

    async def watched():
        task = runner.loop.create_task(shell.run("while true; do :; done"))
        await runner.clock.sleep(1)
        task.cancel()

    runner.call(watched())


def test_trap_runs_after_current_command(sh, runner):
    run = sh(
        "trap 'echo bye; exit 5' TERM; while true; do sleep 4; done",
        is_stopping=lambda: runner.clock.now() > 1767225610,
    )
    assert (run.text, run.code, run.seconds) == ("bye\n", 5, 12.02)
