"""The shell text that Jobs carry to a node, and what their logs say: a rule that loses packets comes, counts, and goes.

A rule is deleted by its own words and never by its number, which others who change the chain meanwhile would shift.
"""

from __future__ import annotations

import re
import shlex

MARK = "kscen/"  # how the comment of every rule of ours begins; the name of the Job that added it follows
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_DROPPED = re.compile(r"^dropped (\d+) packets$", re.MULTILINE)
_SWEPT = re.compile(r"^swept (\d+) rules$", re.MULTILINE)
_PUSHED = re.compile(r"^\[ *\d+\] +[\d.]+-[\d.]+ +sec +([\d.]+) ([KMGT]?)Bytes +(?!.*\b(?:sender|receiver)\s*$)", re.MULTILINE)


def add_rule(job: str, source: str, loss: float) -> str:
    """Lose this share of the packets that come from this address; the comment tells whose rule it is."""
    return f"""\
set -e
iptables -w -A {_rule(job, source, loss)}
echo "iptables rule added"
"""


def remove_rule(job: str, source: str, loss: float, after: float) -> str:
    """When the incident is over, say what the rule has done, and delete it as often as it is there."""
    return f"""\
set -e
sleep {_number(after)}
COMMENT="/* {MARK}{job} */"
while iptables -w -n -L INPUT | grep -q -F "$COMMENT"; do
  PACKETS=$(iptables -w -n -v -x -L INPUT | grep -F "$COMMENT" | head -n 1 | awk '{{print $1}}')
  echo "dropped $PACKETS packets"
  iptables -w -D {_rule(job, source, loss)}
done
"""


def sweep_rules(mark: str = MARK) -> str:
    """Delete every rule of ours, or those with just this comment, at once; it fails unless none is left.

    A rule whose own words a shell might take for more than words is left, and so is one that iptables does not delete.
    """
    ours = f"grep {_spellings(mark)}"
    return f"""\
set -e
RULES=$(iptables -w -S INPUT)
COUNT=$(printf '%s\\n' "$RULES" | {ours} -c || true)
printf '%s\\n' "$RULES" | {ours} | grep -v '[$`\\;&|<>()]' | sed 's/^-A/iptables -w -D/' | sh -e
RULES=$(iptables -w -S INPUT)
if printf '%s\\n' "$RULES" | {ours}; then
  echo "there are rules that stay"
  exit 1
fi
echo "swept $COUNT rules"
"""


def _spellings(mark: str) -> str:
    """As iptables prints a comment: quoted, unless there are only letters, digits, - and _ in it."""
    mark = re.sub(r"[\"\\']", r"\\\g<0>", mark)
    spellings = [f'--comment "{mark}'] if mark == MARK else [f'--comment "{mark}"', f"--comment {mark} "]
    return " ".join(["-F", *(f"-e {shlex.quote(spelling)}" for spelling in spellings)])


def load_link(target: str, seconds: float) -> str:
    """Push what the link carries to this address, and take what comes from there."""
    return f"""\
set -e
timeout {_number(seconds)} sh -c '
  iperf3 -s -D || true
  while true; do
    iperf3 -c {target} -t 60 -i 1 --forceflush || true
    sleep 0.5
  done
' || true
"""


def dropped_packets(log: str) -> int | None:
    """How many packets the rule has lost; None if no rule was there to be asked."""
    counts = [int(count) for count in _DROPPED.findall(log)]
    return sum(counts) if counts else None


def swept_rules(log: str) -> int | None:
    """How many rules a sweep has found; None if it did not come so far."""
    found = _SWEPT.search(log)
    return int(found[1]) if found else None


def pushed_bytes(log: str) -> int | None:
    """How much iperf3 has pushed, as far as it has told; None if it never came to that."""
    told = _PUSHED.findall(log)
    return sum(int(float(amount) * UNITS[unit]) for amount, unit in told) if told else None


def _rule(job: str, source: str, loss: float) -> str:
    return f'INPUT -s {source} -m statistic --mode random --probability {_number(loss)} -m comment --comment "{MARK}{job}" -j DROP'


def _number(value: float) -> str:
    """Without an exponent, and with all digits that the kernel can tell apart."""
    return f"{value:.10f}".rstrip("0").rstrip(".")
