"""Names in the docs exist in the repository: identifiers, options, files, public names and links.

The changelog may have old names: only its links are checked. Examples in Python run as tests.
"""

from __future__ import annotations

import importlib
import pathlib
import re

from pytest_kscen.__main__ import COMMANDS

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FOLDERS = ("pytest_kscen", "scenarios", "benchmarks", "controlplane", ".ci", "docs", "tests")
FILES = [
    *(path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")) if path.is_file()),
    *(ROOT / name for name in ("pyproject.toml", "tox.ini", "conftest.py", "LICENSE")),
]
PATHS = {
    "/".join(path.relative_to(ROOT).parts[start:])
    for path in FILES
    for start in range(len(path.relative_to(ROOT).parts))
}
EXAMPLES = ROOT / "tests" / "extensions" / "package"
"""Package of docs/extending.md."""
ELSEWHERE = frozenset(
    """
    breakpoint curlimages runtimeConfig KUBEBUILDER_ASSETS PYTHONHASHSEED test_a test_it --as --cascade
    --log-level --log-cli-level --kind-bin --kind-image --keep-cluster --cluster-name
    """.split()  # noqa: SIM905  # a list of words
)
"""Words of Python, pytest, pytest-kind and kubectl, and made-up words of examples."""
FORMED = re.compile(r"KSCEN_[A-Z_]+|kscen_[a-z_]+|\w*_(?:total|seconds)")
"""Names that code composes: variables and ini keys of options, and metrics."""


def read(path: pathlib.Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


TEXT = "\n".join(
    read(path)
    for path in FILES
    if path.suffix in {".py", ".yaml", ".toml", ".ini", ".svg", ""}
    and (EXAMPLES in path.parents or not path.is_relative_to(ROOT / "tests"))
)
WORDS = frozenset(re.findall(r"\w+", TEXT)) | frozenset(re.findall(r"\w+", " ".join(PATHS)))
IDENTIFIER = re.compile(
    r"--[a-z][a-z-]+|\b[A-Za-z]\w*_\w+|[a-z]+[A-Z]\w*|[A-Z][a-z]+[A-Z]\w*|(?<=[a-z_)]\.)[a-z_]+\b"
)
"""Options, names with an underscore or a capital inside, and attributes."""
GROUPS = {"profiles", "health_sources", "storage_models", "reports", "probes", "waiters"}
GROUPS |= {"cluster_backends"}
"""Groups of entry points."""


def code_words():
    """Yield the place and the text of each inline code of the docs."""
    for page in PAGES:
        prose = re.sub(
            r"^ *```.*?^ *```",
            lambda block: "\n" * block[0].count("\n"),
            read(page),
            flags=re.MULTILINE | re.DOTALL,
        )
        for number, line in enumerate(prose.splitlines(), 1):
            for code in re.findall(r"`([^`]+)`", line):
                yield f"{page.relative_to(ROOT)}:{number}: `{code}`", code


def exists(word):
    if word in WORDS or word in ELSEWHERE or FORMED.fullmatch(word):
        return True
    return word.startswith("--") and word in TEXT


def test_identifiers_exist():
    missing = [
        f"{place}: {word}"
        for place, code in code_words()
        if code not in TEXT
        for word in IDENTIFIER.findall(code)
        if not exists(word)
    ]
    assert missing == []


def test_files_exist():
    missing = [
        place
        for place, code in code_words()
        if re.fullmatch(r"[\w.-]+(/[\w.-]+)*\.(py|toml|svg)", code) and code not in PATHS
    ]
    assert missing == []


def test_dotted_names_can_be_imported():
    for place, code in code_words():
        for name in re.findall(r"pytest_kscen(?:\.\w+)+", code):
            module, _, attribute = name.rpartition(".")
            if attribute in GROUPS:
                continue
            try:
                importlib.import_module(name)
            except ModuleNotFoundError:
                assert hasattr(importlib.import_module(module), attribute), place


def test_commands_have_options_that_exist():
    """Shell blocks, with the options and commands of this project and of programs they call."""
    for page in PAGES:
        for block in re.findall(r"^```sh\n(.*?)^```", read(page), re.MULTILINE | re.DOTALL):
            for option in re.findall(r"(?<!\S)--[a-z][a-z-]+", block):
                assert exists(option), f"{page.relative_to(ROOT)}: {option}"
            for command in re.findall(r"python -m pytest_kscen (\S+)", block):
                assert command in COMMANDS, f"{page.relative_to(ROOT)}: {command}"


def headings(page: pathlib.Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", read(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_exist():
    wrong = []
    for page in [*PAGES, ROOT / "CHANGELOG.md"]:
        for link in re.findall(r"\]\((?!https?:)([^)]+)\)", read(page)):
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            if not target.exists() or (anchor and anchor not in headings(target)):
                wrong.append(f"{page.relative_to(ROOT)}: {link}")
    assert wrong == []


def test_the_glossary_is_short():
    """At most 40 terms in order, each in one sentence with a link."""
    glossary = read(ROOT / "docs" / "glossary.md")
    rows = re.findall(r"^\| (?!term|-)(.+?) \| (.+) \|$", glossary, re.MULTILINE)
    assert 0 < len(rows) <= 40
    assert [term for term, _ in rows] == sorted((term for term, _ in rows), key=str.lower)
    for term, meaning in rows:
        assert re.fullmatch(r"[^.]+(?:\.\w[^.]*)* \(\[[^]]+\]\([\w./#-]+\)\)\.", meaning), term
