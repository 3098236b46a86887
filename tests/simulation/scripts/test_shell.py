import pytest

from pytest_kscen.simulation.scripts import Shell


class Run:
    """One run of a script: what it wrote, how long it took, how it ended."""

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


@pytest.mark.parametrize(
    ("script", "text"),
    [
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
    ],
)
def test_what_is_understood(sh, script, text):
    run = sh(script)
    assert (run.text, run.code) == (text, 0)


@pytest.mark.parametrize(
    ("script", "code"),
    [
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
    ],
)
def test_exit_codes(sh, script, code):
    assert sh(script).code == code


@pytest.mark.parametrize(
    ("script", "seconds"),
    [
        ("sleep 5", 5),
        ("sleep 1m", 60),
        ("sleep 0.5 1.5", 2),
        ("sleep 3 && sleep 4", 7),
        ("for i in 1 2 3; do sleep 2; done", 6),
        ("i=0; while [ $i -lt 3 ]; do sleep 1; i=$((i+1)); done", 3.03),
    ],
)
def test_time(sh, script, seconds):
    assert sh(script).seconds == seconds


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("curl http://x", "sh: curl: not found (understood are "),
        ("echo `date`", "sh: line 1: command substitution (`) is not understood here"),
        ("true\necho $(date)", "sh: line 2: command substitution ($() is not understood here"),
        ("cat /x | wc", "sh: line 1: a pipe (|) is not understood here"),
        ("sleep 5 &", "sh: line 1: a background job (&) is not understood here"),
        ("echo a > /tmp/file", "sh: line 1: a redirection (>) is not understood here"),
        ("cat <<END", "sh: line 1: a here-document (<<) is not understood here"),
        ("echo ${a%b}", "sh: line 1: this expansion (${) is not understood here"),
        ("echo 'open", "sh: line 1: a quotation that begins with ' does not end"),
        ("if true; then echo", "sh: 'fi' is missing before 'the end'"),
        ("done", "sh: 'done' is out of place"),
        ("echo $((a b))", "sh: the sum $((a b)) is not understood here"),
        ("trap x EXIT", "sh: trap: EXIT is not understood here (understood are TERM and INT)"),
        ("[ a -nt b ]", "sh: test: a -nt b is not understood here"),
    ],
)
def test_what_is_not_understood_is_said(sh, script, message):
    run = sh(script)
    assert run.code == 127
    assert run.text.startswith(message)


def test_files_and_arguments(sh):
    run = sh('cat /etc/a; echo "$1-$2" $#; for x in "$@"; do echo $x; done', files={"/etc/a": "A\n"}, arguments=("p", "q r"))
    assert run.text == "A\np-q r 2\np\nq r\n"
    assert sh("cat /nowhere").text == "cat: can't open '/nowhere': No such file or directory\n"


def test_a_loop_that_does_nothing_still_lets_time_pass(runner):
    shell = Shell(lambda _: None, runner.clock.sleep)

    async def watched():
        task = runner.loop.create_task(shell.run("while true; do :; done"))
        await runner.clock.sleep(1)
        task.cancel()

    runner.call(watched())


def test_a_trap_answers_sigterm_after_the_command_that_runs(sh, runner):
    run = sh(
        "trap 'echo bye; exit 5' TERM; while true; do sleep 4; done",
        is_stopping=lambda: runner.clock.now() > 1767225610,
    )
    assert (run.text, run.code, run.seconds) == ("bye\n", 5, 12.02)
