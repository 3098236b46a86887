"""CustomResourceDefinitions: validation, naming, serving and removal of custom kinds.

`builtin_kinds` registers `rules`; everything else is imported when the first definition arrives.
The form of custom objects belongs to `schema`, the verbs to `verbs`.

`definitions` validates a definition, with `structural_schemas` and `openapi_schemas` for its
schema. `rules` registers the kind and reconciles definitions after each write. `serving` makes the
kinds of an established definition.
"""
