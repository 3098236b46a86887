"""Filter programs for scripts: each takes its arguments and its input, and returns output and exit
code.

Pure functions for the subset of options that occurs in tests; unsupported ones raise ScriptError.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kscen.embedded.kubelet.shell.words import ScriptError

if TYPE_CHECKING:
    from collections.abc import Callable

    Filter = Callable[[list[str], str], tuple[str, int]]

_SUBSTITUTE = re.compile(
    r"s(?P<mark>[^\w\s])(?P<pattern>.*?)(?P=mark)(?P<text>.*?)(?P=mark)(?P<flags>g?)"
)
_PRINT = re.compile(
    r"(?:/(?P<pattern>(?:\\/|[^/])*)/|NR *== "
    r"*(?P<row>\d+))?\s*(?:\{\s*print\s*(?P<fields>[^{}]*?)\s*;?\s*\})?"
)
_FIELD = re.compile(r"\$(?:NF|\d+)|NR|NF|\"(?:[^\"])*\"")


def grep(arguments: list[str], text: str) -> tuple[str, int]:
    """Select lines. Supports -F, -E, -i, -v, -w, -x, -q, -c, -n, -o, -m and -e."""
    flags, values, rest = options("grep", arguments, "FEivwxqcnos", "em")
    if not values.get("e"):
        if not rest:
            raise ScriptError("grep: a pattern is missing")
        values["e"] = [rest.pop(0)]
    if rest:
        raise ScriptError(f"grep: files ({' '.join(rest)}) are not supported")
    wanted = re.compile(
        "|".join(_pattern(one, flags) for one in values["e"]), re.IGNORECASE if "i" in flags else 0
    )
    lines = list(enumerate(text.splitlines(), 1))
    found = [
        (number, line) for number, line in lines if bool(wanted.search(line)) is ("v" not in flags)
    ]
    found = found[: int(values["m"][-1])] if "m" in values else found
    if "q" in flags:
        return "", 0 if found else 1
    if "c" in flags:
        return f"{len(found)}\n", 0 if found else 1
    shown = [
        (number, part)
        for number, line in found
        for part in (wanted.findall(line) if "o" in flags else [line])
    ]
    return _lines(
        [f"{number}:{line}" if "n" in flags else line for number, line in shown]
    ), 0 if found else 1


def head(arguments: list[str], text: str) -> tuple[str, int]:
    return _lines(text.splitlines()[: _line_count("head", arguments)]), 0


def tail(arguments: list[str], text: str) -> tuple[str, int]:
    lines = text.splitlines()
    # `-n +3`: an option and its value
    if (
        len(arguments) == 2  # noqa: PLR2004
        and arguments[0] == "-n"
        and arguments[1].startswith("+")
    ):
        return _lines(lines[max(0, int(arguments[1]) - 1) :]), 0
    return _lines(lines[max(0, len(lines) - _line_count("tail", arguments)) :]), 0


def awk(arguments: list[str], text: str) -> tuple[str, int]:
    """Print fields. Supports -F and one rule: a pattern or a line number, and the fields to
    print.
    """
    _, values, rest = options("awk", arguments, "", "F")
    rule = _PRINT.fullmatch(rest[0].strip()) if len(rest) == 1 else None
    if rule is None or not rest[0].strip():
        raise ScriptError(
            f"awk: {' '.join(rest)} is not supported (supported: one rule that prints fields)"
        )
    separator = values["F"][-1] if "F" in values else None
    written = []
    for number, line in enumerate(text.splitlines(), 1):
        if rule["pattern"] is not None and not re.search(rule["pattern"].replace("\\/", "/"), line):
            continue
        if rule["row"] in {None, str(number)}:
            written.append(_print_fields(rule["fields"], line, number, separator))
    return _lines(written), 0


def wc(arguments: list[str], text: str) -> tuple[str, int]:
    flags, _, _ = options("wc", arguments, "lwc", "")
    counts = {"l": text.count("\n"), "w": len(text.split()), "c": len(text.encode())}
    return " ".join(str(counts[flag]) for flag in flags or counts) + "\n", 0


def sed(arguments: list[str], text: str) -> tuple[str, int]:
    flags, values, rest = options("sed", arguments, "Er", "e")
    for script in values.get("e") or rest:
        match = _SUBSTITUTE.fullmatch(script)
        if match is None:
            raise ScriptError(f"sed: {script} is not supported (supported: s/…/…/)")
        pattern = re.compile(match["pattern"] if flags else _from_basic_regex(match["pattern"]))
        replacement = re.sub(r"(?<!\\)&", r"\\g<0>", match["text"])
        text = _lines(
            [
                pattern.sub(replacement, line, count=0 if match["flags"] else 1)
                for line in text.splitlines()
            ]
        )
    return text, 0


def sort(arguments: list[str], text: str) -> tuple[str, int]:
    flags, _, _ = options("sort", arguments, "nru", "")
    lines = list(dict.fromkeys(text.splitlines())) if "u" in flags else text.splitlines()
    return _lines(
        sorted(lines, key=_leading_number if "n" in flags else None, reverse="r" in flags)
    ), 0


def cut(arguments: list[str], text: str) -> tuple[str, int]:
    _, values, _ = options("cut", arguments, "", "df")
    separator = values.get("d", ["\t"])[-1]
    wanted = [int(number) - 1 for number in values.get("f", ["1"])[-1].split(",")]
    rows = [line.split(separator) for line in text.splitlines()]
    return _lines([separator.join(row[one] for one in wanted if one < len(row)) for row in rows]), 0


def options(
    name: str, arguments: list[str], flags: str, valued: str
) -> tuple[list[str], dict[str, list[str]], list[str]]:
    """Split arguments into flags, values of options, and other words. Raise ScriptError for an
    unknown option.
    """
    given: list[str] = []
    values: dict[str, list[str]] = {}
    left, rest = list(arguments), []
    while left:
        word = left.pop(0)
        if word == "--":
            rest += left
            break
        if not word.startswith("-") or word == "-":
            rest.append(word)
            continue
        for at, letter in enumerate(word[1:], 2):
            if letter in flags:
                given.append(letter)
            elif letter in valued and (word[at:] or left):
                values.setdefault(letter, []).append(word[at:] or left.pop(0))
                break
            else:
                raise ScriptError(f"{name}: {word} is not supported")
    return given, values, rest


def _pattern(text: str, flags: list[str]) -> str:
    found = re.escape(text) if "F" in flags else text if "E" in flags else _from_basic_regex(text)
    if "x" in flags:
        return f"^(?:{found})$"
    return rf"\b(?:{found})\b" if "w" in flags else f"(?:{found})"


def _from_basic_regex(pattern: str) -> str:
    """Return a basic regular expression as an extended one. In it, ? + | ( ) { } are special
    only after a backslash.
    """
    return re.sub(
        r"\\?[?+|(){}]",
        lambda match: match[0][1:] if match[0].startswith("\\") else "\\" + match[0],
        pattern,
    )


def _print_fields(fields: str | None, line: str, number: int, separator: str | None) -> str:
    """Return the output of awk's `print` for one line; commas between expressions become blanks."""
    row = line.split(separator)
    if not fields:
        return line
    known = {"$0": line, "NR": str(number), "NF": str(len(row)), "$NF": row[-1] if row else ""}

    def value(match: re.Match[str]) -> str:
        word = match[0]
        if word.startswith('"'):
            return word[1:-1]
        at = int(word[1:]) if word[1:].isdigit() else 0
        return known[word] if word in known else "".join(row[at - 1 : at])

    expressions = [expression.strip() for expression in fields.split(",")]
    if _FIELD.sub("", fields).strip(" ,\t"):
        raise ScriptError(f"awk: print {fields} is not supported (supported: fields and texts)")
    return " ".join(
        "".join(value(match) for match in _FIELD.finditer(expression)) for expression in expressions
    )


def _line_count(name: str, arguments: list[str]) -> int:
    """Return the number of lines from -3, -n3 or -n 3; ten by default."""
    match = re.fullmatch(r"(?:-(?:n *)?(\d+))?", " ".join(arguments))
    if match is None:
        raise ScriptError(
            f"{name}: {' '.join(arguments)} is not supported (supported: -n and a number)"
        )
    return int(match[1] or 10)


def _leading_number(line: str) -> float:
    match = re.match(r"\s*-?\d+(?:\.\d+)?", line)
    return float(match[0]) if match else 0.0


def _lines(lines: list[str]) -> str:
    return "".join(line + "\n" for line in lines)


FILTERS: dict[str, Filter] = {
    "awk": awk,
    "cut": cut,
    "grep": grep,
    "head": head,
    "sed": sed,
    "sort": sort,
    "tail": tail,
    "wc": wc,
}
