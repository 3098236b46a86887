"""What the tests of the engine are played on stands beside this, where those below find it."""
