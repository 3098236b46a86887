"""The pytest plugin: the only package that imports pytest.

The entry point `pytest_kscen.plugin` loads the hooks alone; fixtures, collection of files and
engines are imported when a test first needs them. No other package of pytest_kscen may import this
one.

    hooks          implementations of pytest's hooks
    hookspecs      hooks for other plugins and conftest files
    contributions  extensions of a session, from installed packages and hooks
    options        command-line flags, environment variables and ini keys
    markers        markers of tests, and their checks
    planning       markers and options to a plan
    fixtures       cluster, cluster_factory, scenario_runner, workflow
    collection     *.scenario.yaml and *.workflow.yaml files as tests
"""

from __future__ import annotations

from pytest_kscen.plugin.hooks import (
    pytest_addhooks,
    pytest_addoption,
    pytest_collect_file,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_configure_node,
    pytest_pyfunc_call,
    pytest_report_header,
    pytest_runtest_call,
    pytest_runtest_makereport,
    pytest_runtest_protocol,
    pytest_terminal_summary,
)

__all__ = [
    "pytest_addhooks",
    "pytest_addoption",
    "pytest_collect_file",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_configure_node",
    "pytest_pyfunc_call",
    "pytest_report_header",
    "pytest_runtest_call",
    "pytest_runtest_makereport",
    "pytest_runtest_protocol",
    "pytest_terminal_summary",
]
