"""Schemas of kinds, compiled into closures that decode, prune, default and validate objects.

`decoding`, `builtin_kinds` and `crds` call it. The meaning of a kind must not enter here, nor the
rules, the verbs or the store.

Built-in kinds: `compiling` builds decoders from recorded definitions, `scalars` has those of
scalars, and `builtin` the schema class. Custom kinds: `structural` decodes, `validation` and
`keywords` validate, `fast_path` does both at once, and `custom` has the schema class. `cel_rules`
and `cel_evaluation` evaluate CEL rules.
"""
