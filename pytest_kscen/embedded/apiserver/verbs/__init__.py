"""The verbs get, list, create, update, patch and delete on stored objects.

HTTP and admission plugins may not be imported here.
"""
