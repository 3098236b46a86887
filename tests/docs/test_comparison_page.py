"""The page that compares two scheduler configurations shows the output of its command."""

import pathlib

from pytest_kscen.__main__ import main

DOCS = pathlib.Path(__file__).parents[2] / "docs"
FILES = [
    str(DOCS / "comparison" / name)
    for name in ("small-before-large.scenario.yaml", "spread.yaml", "pack.yaml")
]


def test_tables_and_picture_are_those_of_the_run(tmp_path, capsys):
    assert (
        main(["scenario-compare", *FILES, "--markdown", "--picture", str(tmp_path / "made.svg")])
        == 0
    )

    tables = capsys.readouterr().out
    assert "| default/large-2 | pending | - | node-4 | 5.1 |" in tables
    assert (DOCS / "scenarios-comparison.md").read_text().endswith(tables)
    assert (DOCS / "comparison" / "spread-and-pack.svg").read_text() == (
        tmp_path / "made.svg"
    ).read_text()


def test_invalid_configurations_are_refused(tmp_path, capsys):
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: "
        "KubeSchedulerConfiguration\nprofils: []\n"
    )

    assert main(["scenario-compare", FILES[0], FILES[1], str(wrong)]) == 1
    assert "did you mean 'profiles'?" in capsys.readouterr().err
    assert main(["scenario-compare", FILES[0], FILES[1], FILES[0]]) == 1
    assert "is not a KubeSchedulerConfiguration" in capsys.readouterr().err
