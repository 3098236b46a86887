"""Options refused by the engine command."""

from __future__ import annotations

import pytest

from pytest_kscen.commands.workflow_engine import main


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--concurrency", "0"],
            "--concurrency: invalid value '0': give a whole number, 1 or more",
        ),
        (["--rate", "0"], "--rate: invalid value '0': give a number above zero"),
        (["--rate=-1"], "--rate: invalid value '-1'"),
        (["--rate", "nan"], "--rate: invalid value 'nan'"),
    ],
)
def test_options_that_prevent_progress_are_refused(options, words, capsys):
    with pytest.raises(SystemExit) as refused:
        main([*options, "--kubeconfig", "/there/is/none"])
    assert refused.value.code == 2
    assert words in capsys.readouterr().err
