"""Why a workflow is ended is known to the next engine, too."""

from __future__ import annotations

import pytest
from theatre import Theatre, suspend

from pytest_kscen.objects.workflows import SHIPPED
from pytest_kscen.workflow.events import Happening
from pytest_kscen.workflow.repository import Repository


@pytest.fixture
def theatre():
    theatre = Theatre()
    yield theatre
    theatre.close()


@pytest.mark.parametrize("ending", [None, Happening.FAULT, Happening.ABORTED])
def test_the_ending_of_a_workflow_is_read_again(theatre, ending):
    tree = Repository(theatre.actor(), SHIPPED).plant(theatre.put_on("pause", suspend("pause")))
    tree.root.ending = ending
    theatre.call(Repository(theatre.actor(), SHIPPED).save(tree, tree.root))
    (workflow,) = theatre.all(SHIPPED.workflows)
    assert Repository(theatre.actor(), SHIPPED).plant(workflow).root.ending is ending
