"""A replicated storage where no real one is installed: its definitions, its pods, and the controller behind them."""

from pytest_kscen.simulation.storage.install import install, is_installed
from pytest_kscen.simulation.storage.volumes import volume_controller

__all__ = ["install", "is_installed", "volume_controller"]
