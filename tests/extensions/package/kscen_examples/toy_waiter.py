"""Waiter: a scenario waits until the toy controller has looked at every ToyVolume."""

from __future__ import annotations

from kscen_examples.toy_storage import REDUNDANT, TOY_VOLUMES
from pytest_kscen.scenario import Waiter
from pytest_kscen.storage import condition


def unfinished(volume):
    return "" if condition(volume, REDUNDANT) else "has no conditions yet"


TOY_WAITER = Waiter("toy-controller", {TOY_VOLUMES: unfinished})
