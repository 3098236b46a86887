"""@pytest.mark.workflow(file): the workflow that a test's fixture `workflow` plays. It is read when tests are collected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Mapping

    import pytest

    from pytest_kscen.objects.resources import Obj

WORKFLOW = "workflow"
"""The marker's name, and the fixture's."""


@dataclass(frozen=True, slots=True)
class WorkflowWish:
    """What is to be played, what has to be there before, and how long it may take."""

    workflow: Obj
    cast: list[Obj]
    within: str


def workflow_wish(item: pytest.Item) -> WorkflowWish | None:
    """What the marker says, or a ValueError that says what is wrong with it; one without a file only tells tests apart."""
    mark = item.get_closest_marker(WORKFLOW)
    if mark is None or not (mark.args or mark.kwargs):
        return None
    try:
        return _read(item, *mark.args, **mark.kwargs)
    except TypeError:
        raise ValueError("@pytest.mark.workflow takes a file, and by name parameters={...} and within='1h'") from None


def _read(
    item: pytest.Item, file: str | pathlib.Path, *, parameters: Mapping[str, Any] | None = None, within: str = "1h"
) -> WorkflowWish:
    from pytest_kscen.objects.documents import documents
    from pytest_kscen.objects.durations import seconds_of_text
    from pytest_kscen.workflow.files import cast_of, workflow_of

    beside = item.path.parent / file
    path = beside if beside.exists() else item.config.rootpath / file
    path = path if path.exists() else beside
    seconds_of_text(within)
    return WorkflowWish(workflow_of(path, parameters), cast_of(documents(path)), within)
