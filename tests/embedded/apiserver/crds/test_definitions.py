import pytest
from widgets import SPEC, TEXT, definition, struct, version

from pytest_kscen.embedded.apiserver.crds.rules import (
    default_definition,
    prepare_definition_create,
    validate_definition_object,
    warn_of_unknown_formats,
)
from pytest_kscen.embedded.apiserver.schema.builtin import BuiltinSchema

SCHEMA = BuiltinSchema("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
TOP = "spec.validation.openAPIV3Schema"
A = f"{TOP}.properties[spec].properties[a]"
LABEL = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start "
    "with an alphabetic character, and end "
    "with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
ALL_TYPES = '"array", "boolean", "integer", "number", "object", "string"'
NOT_EXCLUSIVE = "Forbidden: additionalProperties and properties are mutual exclusive"
LIST_MAP = {"x-kubernetes-list-type": "map"}


def causes_of(made):
    decoded = SCHEMA.decode(made, None, strictness="Ignore", warnings=[])
    default_definition(decoded)
    prepare_definition_create(decoded, None)
    return [f"{cause.field}: {cause.message}" for cause in validate_definition_object(decoded)]


def schema(structure):
    return definition(version(schema=structure))


def field(structure, **beside):
    """Return a definition with this schema for `spec.a`."""
    return schema(struct({"spec": struct({"a": structure}, **beside)}))


def with_changes(**spec):
    made = definition()
    made["spec"] |= spec
    return made


def listed(items, **more):
    return field({"type": "array", "items": items, **more})


def versions_shown(*flags):
    """Format versions as the real server does in messages: with Go's names, without common fields."""
    rest = '"Deprecated":false,"DeprecationWarning":null,"Schema":null,"Subresources":null,"AdditionalPrinterColumns":null'
    shown = (
        f'{{"Name":"{name}","Served":true,"Storage":{storage},{rest},"SelectableFields":null}}'
        for name, storage in flags
    )
    return f"[{','.join(shown)}]"


# each asked of a real kube-apiserver
SPECS = [
    (
        definition(group="org"),
        ['spec.group: Invalid value: "org": should be a domain with at least one dot'],
    ),
    (definition(scope=""), ["spec.scope: Required value"]),
    (
        definition(scope="X"),
        ['spec.scope: Unsupported value: "X": supported values: "Cluster", "Namespaced"'],
    ),
    (
        with_changes(versions=[]),
        [
            (
                "spec.versions: Invalid value: []: must have exactly one version marked as "
                "storage version"
            ),
            "status.storedVersions: Invalid value: null: must have at least one stored version",
        ],
    ),
    (
        definition(version(), version("v2")),
        [
            (
                "spec.versions: Invalid value: "
                f"{versions_shown(('v1', 'true'), ('v2', 'true'))}: must have exactly one "
                "version "
                "marked as storage version"
            ),
            'status.storedVersions: Invalid value: ["v1"]: must have the storage version v2',
        ],
    ),
    (
        definition(version(), version(storage=False)),
        [
            (
                "spec.versions: Invalid value: "
                f"{versions_shown(('v1', 'true'), ('v1', 'false'))}: must contain unique "
                "version names"
            )
        ],
    ),
    (
        definition(version("V_1")),
        [
            f'spec.versions[0].name: Invalid value: "V_1": {LABEL}',
            f'spec.version: Invalid value: "V_1": {LABEL}',
        ],
    ),
    (
        with_changes(versions=[{"name": "v1", "storage": True}]),
        ["spec.versions[0].schema.openAPIV3Schema: Required value"],
    ),
    (
        definition(names={"listKind": "Widget"}),
        ['spec.names.listKind: Invalid value: "Widget": kind and listKind may not be the same'],
    ),
    (
        definition(names={"shortNames": ["A_"]}),
        [f'spec.names.shortNames[0]: Invalid value: "A_": {LABEL}'],
    ),
    (
        definition(names={"categories": ["A_"]}),
        [f'spec.names.categories[0]: Invalid value: "A_": {LABEL}'],
    ),
    (
        definition(kind=""),
        [f"spec.names.{name}: Required value" for name in ("singular", "kind", "listKind")],
    ),
    (
        definition(preserveUnknownFields=True),
        [
            (
                "spec.preserveUnknownFields: Invalid value: true: cannot set to true, "
                "set x-kubernetes-preserve-unknown-fields to "
                "true in spec.versions[*].schema instead"
            )
        ],
    ),
    (
        definition(conversion={"strategy": "Webhook"}),
        [
            (
                "spec.conversion.webhookClientConfig: Required value: required when strategy "
                "is set to Webhook"
            ),
            "spec.conversion.conversionReviewVersions: Required value",
        ],
    ),
    (
        definition(conversion={"strategy": "Foo"}),
        ['spec.conversion.strategy: Unsupported value: "Foo": supported values: "None", "Webhook"'],
    ),
    (
        definition(version(subresources={"scale": {}})),
        [
            f"spec.subresources.scale.{name}: Required value"
            for name in ("specReplicasPath", "statusReplicasPath")
        ],
    ),
    (
        definition(
            version(
                subresources={"scale": {"specReplicasPath": ".status.x", "statusReplicasPath": "x"}}
            )
        ),
        [
            (
                'spec.subresources.scale.specReplicasPath: Invalid value: ".status.x": '
                "should be a json path under .spec"
            ),
            (
                'spec.subresources.scale.statusReplicasPath: Invalid value: "x": must be a '
                "simple json path starting with ."
            ),
        ],
    ),
    (
        definition(
            version(
                additionalPrinterColumns=[
                    {"name": "a", "type": "foo", "format": "bar", "jsonPath": "x"}
                ]
            )
        ),
        [
            (
                'spec.additionalPrinterColumns[0].type: Invalid value: "foo": must be one of '
                "boolean,date,integer,number,string"
            ),
            (
                'spec.additionalPrinterColumns[0].format: Invalid value: "bar": must be one of '
                "byte,date,date-time,double,float,int32,int64,password"
            ),
            (
                'spec.additionalPrinterColumns[0].JSONPath: Invalid value: "x": must be a '
                "simple json path starting with ."
            ),
        ],
    ),
    (
        definition(
            version(
                selectableFields=[
                    {"jsonPath": path}
                    for path in (".spec", ".spec.no", ".spec.name", ".spec.name", "")
                ]
            )
        ),
        [
            (
                'spec.selectableFields[0].jsonPath: Invalid value: ".spec": must point '
                "to a field of type string, boolean or "
                "integer. Enum string fields and strings with formats are allowed."
            ),
            (
                'spec.selectableFields[1].jsonPath: Invalid value: ".spec.no": is an invalid '
                "path: does not refer to a valid field"
            ),
            'spec.selectableFields[3].jsonPath: Duplicate value: ".spec.name"',
            "spec.selectableFields[4].jsonPath: Required value",
        ],
    ),
    (
        definition(version(deprecationWarning="x")),
        [
            (
                'spec.versions[0].deprecationWarning: Invalid value: "x": can only be set '
                "for deprecated versions"
            )
        ],
    ),
    (
        definition(group="example.k8s.io"),
        [
            (
                "metadata.annotations[api-approved.kubernetes.io]: Required value: "
                "protected groups must have approval annotation "
                '"api-approved.kubernetes.io", see '
                "https://github.com/kubernetes/enhancements/pull/1111"
            )
        ],
    ),
    (
        definition(version(), version("v2", storage=False, schema=struct({"x": {}}))),
        [
            (
                "spec.versions[1].schema.openAPIV3Schema.properties[x].type: Required value: "
                "must not be empty for specified object fields"
            )
        ],
    ),
]
SCHEMAS = [
    (
        schema({"type": "string"}),
        [f'{TOP}.type: Invalid value: "string": must be object at the root'],
    ),
    (schema({}), [f"{TOP}.type: Required value: must not be empty at the root"]),
    (field({}), [f"{A}.type: Required value: must not be empty for specified object fields"]),
    (field({"type": "array"}), [f"{A}.items: Required value: must be specified"]),
    (
        field({"type": "foo"}),
        [f'{A}.type: Unsupported value: "foo": supported values: {ALL_TYPES}'],
    ),
    (
        schema({"type": "object", "additionalProperties": True}),
        [f"{TOP}.additionalProperties: Forbidden: must not be used at the root"],
    ),
    (
        field({"type": "object", "properties": {"x": TEXT}, "additionalProperties": TEXT}),
        [f"{A}.additionalProperties: {NOT_EXCLUSIVE}"],
    ),
    (field({"type": "object", "properties": {"x": TEXT}, "additionalProperties": True}), []),
    (
        field({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        [
            *(
                f"{A}.anyOf[{place}].type: Forbidden: must be empty to be structural"
                for place in (0, 1)
            ),
            f"{A}.type: Required value: must not be empty for specified object fields",
        ],
    ),
    (
        field(
            {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
        ),
        [],
    ),
    (
        field(
            {
                "type": "object",
                "oneOf": [
                    {"properties": {"a": {"nullable": True, "default": "x"}}, "description": "d"}
                ],
            }
        ),
        [
            f"{A}.oneOf[0].description: Forbidden: must be empty to be structural",
            f"{A}.oneOf[0].properties[a].default: Forbidden: must be undefined to be structural",
            f"{A}.oneOf[0].properties[a].nullable: Forbidden: must be false to be structural",
        ],
    ),
    (
        schema(struct({"metadata": struct({"labels": {"type": "object"}})})),
        [
            (
                f"{TOP}.properties[metadata]: Forbidden: must not specify anything other "
                "than name and generateName, but metadata "
                "is implicitly specified"
            )
        ],
    ),
    (schema(struct({"metadata": struct({"name": {"type": "string", "pattern": "^a"}})})), []),
    (
        field({"type": "object", "x-kubernetes-embedded-resource": True}),
        [
            (
                f"{A}.properties: Required value: must not be empty if "
                "x-kubernetes-embedded-resource is true without "
                "x-kubernetes-preserve-unknown-fields"
            )
        ],
    ),
    (
        field({"type": "string", "pattern": "("}),
        [
            (
                f'{A}.pattern: Invalid value: "(": must be a valid regular expression, '
                "but isn't: error parsing regexp: missing closing ): `(`"
            )
        ],
    ),
    (field({"$ref": "#/x"}), [f"{A}.$ref: Forbidden: $ref is not supported"]),
    (
        field({"type": "array", "items": [TEXT, TEXT]}),
        [f"{A}.items: Forbidden: items must be a schema object and not an array"],
    ),
    (
        field({"type": "string", "default": 1}),
        [f'{A}.default: Invalid value: "integer":  in body must be of type string: "integer"'],
    ),
    (
        field(struct({"x": TEXT}, default={"y": 1})),
        [f'{A}.default: Invalid value: {{"y":1}}: must not have unknown fields'],
    ),
    (
        field(
            {
                "type": "string",
                "default": "x",
                "x-kubernetes-validations": [{"rule": "self != 'x'", "message": "no x"}],
            }
        ),
        [f'{A}.default: Invalid value: "x": no x'],
    ),
    (
        schema(struct({"metadata": struct({"name": {"type": "string", "default": "x"}})})),
        [
            (
                f"{TOP}.properties[metadata].properties[name].default: Forbidden: must not be "
                "set in top-level metadata"
            )
        ],
    ),
    (
        field({"type": "string", "x-kubernetes-list-type": "set"}),
        [
            (
                f'{A}.type: Invalid value: "string": must be array if x-kubernetes-list-type '
                "is specified"
            )
        ],
    ),
    (
        listed(struct({"x": TEXT}), **{"x-kubernetes-list-type": "set"}),
        [
            (
                f"{A}.items.x-kubernetes-map-type: Invalid value: null: must be atomic as "
                "item of a list with x-kubernetes-list-type=set"
            )
        ],
    ),
    (
        listed(struct({"x": TEXT}), **LIST_MAP),
        [
            (
                f"{A}.x-kubernetes-list-map-keys: Required value: must not be empty if "
                "x-kubernetes-list-type is map"
            )
        ],
    ),
    (
        listed(struct({"x": TEXT}), **LIST_MAP, **{"x-kubernetes-list-map-keys": ["x"]}),
        [
            (
                f"{A}.items.properties[x].default: Required value: this property is in "
                "x-kubernetes-list-map-keys, so it must "
                "have a default or be a required property"
            )
        ],
    ),
    (
        field({"type": "string", "x-kubernetes-preserve-unknown-fields": False}),
        [
            (
                f"{A}.x-kubernetes-preserve-unknown-fields: Invalid value: false: must be "
                "true or undefined"
            )
        ],
    ),
]


def with_rule(**said):
    return field(TEXT, **{"x-kubernetes-validations": [said]})


def go_rule(rule, message=""):
    """Format a rule as the real server does; the caller escapes what JSON would escape."""
    return f'{{"Rule":"{rule}","Message":"","MessageExpression":"{message}","Reason":null,"FieldPath":"","OptionalOldSelf":null}}'


AT = f"{TOP}.properties[spec].x-kubernetes-validations[0]"
ESCAPED = r"self.b \u003e 0"
RULES = [
    (with_rule(rule="self.a == 'x'"), []),
    (with_rule(rule=" "), [f"{AT}.rule: Required value: rule is not specified"]),
    (
        with_rule(rule="self.a"),
        [f"{AT}.rule: Invalid value: {go_rule('self.a')}: cel expression must evaluate to a bool"],
    ),
    (
        with_rule(rule="self.b > 0"),
        [
            (
                f"{AT}.rule: Invalid value: {go_rule(ESCAPED)}: compilation failed: "
                "ERROR: <input>:1:5: undefined field 'b'\n | self.b > 0\n | ....^"
            )
        ],
    ),
    (
        with_rule(rule="true", messageExpression="1"),
        [
            (
                f"{AT}.messageExpression: Invalid value: {go_rule('true', '1')}: "
                "messageExpression must evaluate to a string"
            )
        ],
    ),
    (
        with_rule(rule="true", reason="Foo"),
        [
            (
                f'{AT}.reason: Unsupported value: "Foo": supported values: '
                '"FieldValueDuplicate", "FieldValueForbidden", '
                '"FieldValueInvalid", "FieldValueRequired"'
            )
        ],
    ),
    (
        with_rule(rule="true", fieldPath=".zz"),
        [f'{AT}.fieldPath: Invalid value: ".zz": must be a valid path'],
    ),
    (
        with_rule(rule="true", optionalOldSelf=True),
        [
            (
                f"{AT}.optionalOldSelf: Invalid value: true: may not be set if oldSelf is not "
                "used in rule"
            )
        ],
    ),
    (
        with_rule(rule="self.a ==\n'x'"),
        [f"{AT}.message: Required value: message must be specified if rule contains line breaks"],
    ),
    (
        listed(struct({"x": TEXT}, **{"x-kubernetes-validations": [{"rule": "self == oldSelf"}]})),
        [
            (
                f'{A}.items.x-kubernetes-validations[0].rule: Invalid value: "self == '
                'oldSelf": oldSelf cannot be used on the '
                f"uncorrelatable portion of the schema within {A}"
            )
        ],
    ),
]


@pytest.mark.parametrize(("made", "messages"), [*SPECS, *SCHEMAS, *RULES])
def test_definition_faults_have_the_real_servers_messages(made, messages):
    assert causes_of(made) == messages


def test_name_must_be_plural_and_group():
    made = definition()
    made["metadata"]["name"] = "x.y"
    assert causes_of(made) == [
        'metadata.name: Invalid value: "x.y": must be spec.names.plural+"."+spec.group'
    ]


def test_names_and_conversion_are_defaulted():
    made = definition()
    default_definition(made)
    assert made["spec"]["names"] == {
        "plural": "widgets",
        "kind": "Widget",
        "singular": "widget",
        "listKind": "WidgetList",
    }
    assert made["spec"]["conversion"] == {"strategy": "None"}


def test_unknown_formats_are_warned_of_once():
    made = field({"type": "string", "format": "foo"})
    assert list(warn_of_unknown_formats(made, None)) == ['unrecognized format "foo"']
    assert (
        list(warn_of_unknown_formats(made, made))
        == list(warn_of_unknown_formats(field({"type": "string", "format": "foo"}), made))
        == []
    )


def test_unknown_schema_fields_are_dropped_silently():
    warnings = []
    made = listed({"type": "string", "x-extra": 1}, **{"x-doc": 1})
    decoded = SCHEMA.decode(made, None, strictness="Warn", warnings=warnings)
    assert warnings == [
        'unknown field "spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.a.x-doc"'
    ]
    structure = decoded["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert structure["properties"]["spec"]["properties"]["a"] == {
        "type": "array",
        "items": {"type": "string"},
    }


def test_example_is_valid():
    assert causes_of(definition()) == []
    assert SPEC["properties"]["name"] is TEXT
