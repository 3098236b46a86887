"""What the engine's command does not take."""

from __future__ import annotations

import pytest

from pytest_kscen.commands.workflow_engine import main


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--concurrency", "0"], "--concurrency: 0 is too few: 1 is the least"),
        (["--rate", "0"], "--rate: 0 is no rate: it has to be more than zero"),
        (["--rate=-1"], "--rate: -1 is no rate"),
        (["--rate", "nan"], "--rate: nan is no rate"),
    ],
)
def test_what_would_never_get_on_is_refused(options, words, capsys):
    with pytest.raises(SystemExit) as refused:
        main([*options, "--kubeconfig", "/there/is/none"])
    assert refused.value.code == 2
    assert words in capsys.readouterr().err
