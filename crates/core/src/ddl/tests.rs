use super::*;
use proptest::prelude::*;

fn refused(text: &str) -> Error {
    parse_ddl(text).unwrap_err()
}

#[test]
fn sparks_types_are_read() {
    let decimal = DataType::Decimal128(10, 2);
    let ntz = DataType::Timestamp(TimeUnit::Microsecond, None);
    let point: Vec<Field> =
        [("x", DataType::Int64), ("y", DataType::Utf8)].map(|(n, t)| Field::new(n, t, true)).into();
    for (text, expected) in [
        ("string", DataType::Utf8),
        ("VARCHAR(20)", DataType::Utf8),
        ("Int", DataType::Int32),
        ("long", DataType::Int64),
        ("tinyint", DataType::Int8),
        ("short", DataType::Int16),
        ("real", DataType::Float32),
        ("double", DataType::Float64),
        ("date", DataType::Date32),
        ("timestamp", timestamp()),
        ("TIMESTAMP WITHOUT TIME ZONE", ntz.clone()),
        ("timestamp_ntz", ntz),
        ("decimal ( 10 , 2 )", decimal.clone()),
        ("numeric", DataType::Decimal128(10, 0)),
        ("binary", DataType::Binary),
        ("array< bigint >", array_of(DataType::Int64)),
        ("map<string,array<decimal(10,2)>>", map_of(DataType::Utf8, array_of(decimal))),
        ("struct<x:long,y:string>", DataType::Struct(point.clone().into())),
        ("STRUCT<x BIGINT NOT NULL, `y`: STRING COMMENT 'it''s'>", DataType::Struct(point.into())),
        ("struct<>", DataType::Struct(Vec::<Field>::new().into())),
    ] {
        assert_eq!(parse_type(text).unwrap(), expected, "{text}");
    }
}

#[test]
fn columns_are_nullable_whatever_is_written() {
    let schema = parse_ddl("event STRING NOT NULL, `odd ``name`` ` INT COMMENT \"c\"").unwrap();
    assert_eq!(schema.field(1).name(), "odd `name` ");
    assert!(schema.fields().iter().all(|field| field.is_nullable()));
}

#[test]
fn errors_have_a_position() {
    for (text, condition, part) in [
        ("", "PARSE_SYNTAX_ERROR", "the end at position 0"),
        ("a", "PARSE_SYNTAX_ERROR", "the end at position 1 where a type"),
        ("a INT b INT", "PARSE_SYNTAX_ERROR", "\"b INT\" at position 6"),
        ("a INT,", "PARSE_SYNTAX_ERROR", "position 6"),
        ("é STRNG", "UNSUPPORTED_DATATYPE", "\"STRNG\" at position 2"),
        ("a ARRAY<INT", "PARSE_SYNTAX_ERROR", "'>'"),
        ("a DECIMAL(39)", "PARSE_SYNTAX_ERROR", "precision of 1 to 38"),
        ("a DECIMAL(2,3)", "PARSE_SYNTAX_ERROR", "scale"),
        ("`a INT", "PARSE_SYNTAX_ERROR", "closing `"),
        ("`` INT", "PARSE_SYNTAX_ERROR", "not empty"),
        ("a INT NOT", "PARSE_SYNTAX_ERROR", "NULL"),
    ] {
        let error = refused(text);
        assert_eq!(error.condition(), Some(condition), "{error}");
        assert!(error.message().contains(part), "{error}");
    }
}

#[test]
fn nesting_is_bounded() {
    let deep = |n: usize| format!("a {}INT{}", "ARRAY<".repeat(n), ">".repeat(n));
    assert!(parse_ddl(&deep(60)).is_ok());
    assert_eq!(refused(&deep(100_000)).condition(), Some("PARSE_SYNTAX_ERROR"));
}

#[test]
fn a_name_twice_is_refused() {
    let schema = parse_ddl("k INT, v INT, K STRING").unwrap();
    let refused = check_names(&schema, NameCase::Insensitive).unwrap_err();
    assert_eq!(refused.condition(), Some("COLUMN_ALREADY_EXISTS"));
    check_names(&schema, NameCase::Sensitive).unwrap();
    let twice = parse_ddl("k INT, k INT").unwrap();
    assert!(check_names(&twice, NameCase::Sensitive).is_err());
}

fn any_type() -> impl Strategy<Value = DataType> {
    let leaf = prop_oneof![
        Just(DataType::Boolean),
        Just(DataType::Int8),
        Just(DataType::Int64),
        Just(DataType::Float32),
        Just(DataType::Utf8),
        Just(DataType::Binary),
        Just(DataType::Date32),
        Just(timestamp()),
        Just(DataType::Timestamp(TimeUnit::Microsecond, None)),
        (1u8..=38).prop_flat_map(|p| (0..=p as i8).prop_map(move |s| DataType::Decimal128(p, s))),
    ];
    leaf.prop_recursive(4, 20, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(array_of),
            (inner.clone(), inner.clone()).prop_map(|(k, v)| map_of(k, v)),
            proptest::collection::vec(("[a-z `<>:é]{1,4}", inner), 0..4).prop_map(|fields| {
                let fields = fields.into_iter().map(|(n, t)| Field::new(n, t, true));
                DataType::Struct(fields.collect())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back(data_type in any_type()) {
        prop_assert_eq!(parse_type(&ddl_name(&data_type)).unwrap(), data_type);
    }

    #[test]
    fn no_text_panics(text in "[a-zA-Z0-9_`'\" <>(),:é]{0,40}|\\PC{0,20}") {
        let _ = parse_ddl(&text);
    }
}
