"""Nothing is set here: the plugin brings its fixtures by itself. pytester tests the plugin with pytest."""

pytest_plugins = ["pytester"]
