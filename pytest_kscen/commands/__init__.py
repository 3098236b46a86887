"""Commands of `python -m pytest_kscen COMMAND`: one thin module each, with `main(arguments) ->
exit code`.
"""
