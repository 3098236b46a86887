"""Check the mechanical rules of the project's language, and print each fault with its remedy.

Rules: how docstrings start, verbs of speech for machines, class names in several modules, lengths
of the docs' sentences, subjects of commits. The rest is judgement: see CONTRIBUTING.md.
"""

from __future__ import annotations

import ast
import collections
import pathlib
import re
import statistics
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "pytest_kscen"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

STARTS = frozenset(
    """
    what whether one who whoever whom whose of those they it its that this these there nobody
    nothing none no all each every how where when while which and or but so if as in on at by for
    from to with without also here then some any
    """.split()  # noqa: SIM905  # a list of words
)
SPEECH = {
    "told": "reported, notified, passed or returned",
    "whoever": "the component, caller or user by name",
    "nobody": "no component, or state that it is unknown or unused",
    "heard": "received or was notified",
    "hears": "receives or is notified",
    "knows": "has, recognizes or supports",
}
"""Words that make a machine a person, and what to write instead."""
SHARED_CLASS_NAMES = 20
MEDIAN, NINTH_DECILE, LONGEST = 15, 28, 50
"""Words of a sentence in the docs."""
SUBJECT = re.compile(r"[\w.,/ -]+: \S.*")
SUBJECT_LENGTH = 72
CHECKED_SINCE = "77c44b1"


def docstrings(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each docstring of a module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text


def docstring_starts() -> Iterator[str]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for line, text in docstrings(path):
            word = re.match(r"[`*\"']*([A-Za-z']+)", text)
            if word and word[1].lower() in STARTS:
                yield (
                    f"{path.relative_to(ROOT)}:{line}: docstring starts with {word[1]!r}: "
                    "start with a verb, or with the noun that it defines"
                )


def verbs_of_speech() -> Iterator[str]:
    pattern = re.compile(rf"\b({'|'.join(SPEECH)})\b", re.IGNORECASE)
    for path in [*sorted(PACKAGE.rglob("*.py")), *PAGES]:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for word in pattern.findall(line):
                yield f"{path.relative_to(ROOT)}:{number}: {word!r}: write {SPEECH[word.lower()]}"


def shared_class_names() -> Iterator[str]:
    modules = collections.defaultdict(set)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                modules[node.name].add(str(path.relative_to(PACKAGE)))
    shared = {name: sorted(paths) for name, paths in modules.items() if len(paths) > 1}
    if len(shared) > SHARED_CLASS_NAMES:
        for name, paths in sorted(shared.items()):
            yield (
                f"class {name} is in {', '.join(paths)}: qualify it by its subject "
                f"({len(shared)} shared names, at most {SHARED_CLASS_NAMES})"
            )


def sentences(text: str) -> list[str]:
    """Return the prose sentences of a page: no code, tables, headings or link targets."""
    text = re.sub(r"```.*?```", "\n\n", text, flags=re.DOTALL)
    text = re.sub(r"<[^>]+>", " ", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    paragraphs: list[str] = []
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text):
        joined = re.sub(r"\s+", " ", block).strip()
        if joined and not joined.startswith(("|", "#")):
            paragraphs.append(re.sub(r"^(?:[-*]|\d+\.) ", "", joined))
    found = []
    for paragraph in paragraphs:
        found += [one for one in re.split(r"(?<=[.!?:;])\s+(?=[A-Z`*\"(\[])", paragraph) if one]
    return found


def long_sentences() -> Iterator[str]:
    lengths = []
    for page in PAGES:
        for sentence in sentences(page.read_text(encoding="utf-8")):
            words = len(sentence.split())
            lengths.append(words)
            if words > LONGEST:
                yield (
                    f"{page.relative_to(ROOT)}: a sentence of {words} words (at most {LONGEST}), "
                    f"make it two or a list: {' '.join(sentence.split()[:12])} ..."
                )
    median, decile = statistics.median(lengths), statistics.quantiles(lengths, n=10)[-1]
    if median > MEDIAN or decile > NINTH_DECILE:
        yield (
            f"docs: sentences have {median:.0f} words at the median and {decile:.0f} at the 90th "
            f"percentile, wanted {MEDIAN} and {NINTH_DECILE}: shorten the longest"
        )


def commit_subjects() -> Iterator[str]:
    known = subprocess.run(
        ["git", "cat-file", "-e", f"{CHECKED_SINCE}^{{commit}}"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if known.returncode:
        return  # a shallow clone
    log = subprocess.run(
        ["git", "log", "--no-merges", "--format=%h %s", f"{CHECKED_SINCE}..HEAD"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for line in log.stdout.splitlines():
        commit, _, subject = line.partition(" ")
        if len(subject) > SUBJECT_LENGTH or not SUBJECT.fullmatch(subject):
            yield (
                f"commit {commit}: {subject!r} has {len(subject)} characters: write "
                f"'package: what changed' in at most {SUBJECT_LENGTH}"
            )


RULES = (docstring_starts, verbs_of_speech, shared_class_names, long_sentences, commit_subjects)


def main() -> int:
    faults = [fault for rule in RULES for fault in rule()]
    for fault in faults:
        print(fault)
    print(f"language: {len(faults)} faults" if faults else "language: no faults")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
