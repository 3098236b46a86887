"""Short builders of structural schemas."""

RULES = "x-kubernetes-validations"


def text(**more):
    return {"type": "string", **more}


def whole(**more):
    return {"type": "integer", **more}


def number(**more):
    return {"type": "number", **more}


def struct(fields, **more):
    return {"type": "object", "properties": fields, **more}


def list_of(items, **more):
    return {"type": "array", "items": items, **more}


def map_of(values, **more):
    return {"type": "object", "additionalProperties": values, **more}


def rule(expression, **more):
    return {"rule": expression, **more}


LIST_MAP = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
LIST_SET = {"x-kubernetes-list-type": "set"}
PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}
EMBEDDED = {"x-kubernetes-embedded-resource": True}
EITHER = {"x-kubernetes-int-or-string": True}
