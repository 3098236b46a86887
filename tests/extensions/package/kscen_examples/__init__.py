"""Example of a package that extends pytest-kscen at every extension point."""
