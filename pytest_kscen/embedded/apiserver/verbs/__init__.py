"""Verbs on stored objects: get, list, create, update, patch, delete and deletecollection.

Imports neither HTTP nor admission plugins; the chain is reached through `Core.admission`.

Inside:
- `reading`: get and list, with selectors, past revisions and pages.
- `creating`: one path for create, and for updates and applies that create.
- `updating`: one path for update and patch, from the stored object to the commit.
- `deleting`: delete and deletecollection, carrying out `deletion.plan_deletion`.
"""
