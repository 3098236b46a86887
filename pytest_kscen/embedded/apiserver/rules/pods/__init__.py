"""Rules of Pods and pod templates, part by part, in the order in which the real server validates
them.

`rules` holds the preparations and the table for `rules.RULES`; workloads import single validators.
Nothing above `rules` may be imported.

`spec` composes `containers`, `volumes`, `scheduling`, `security` and `resources`. `defaults` fills
in defaults, `annotations` holds annotations and templates, `status` and `updates` validate writes
to existing pods, and `warnings` yields warnings.
"""
