//! Columns of which the replica holds masks in place of values.

use super::{
    tests::{one_change, shown},
    *,
};
use crate::{ChangeBatch, Column, DataType, EnvelopeForm, Mask, MetaColumns, SchemaError, Secret, Unfit};

fn hmac() -> Mask {
    Mask::HmacSha256(Secret::new(b"the secret of a test").unwrap())
}

/// A table of an `id` and this column `c`.
fn beside_id(column: Column) -> Arc<TableSchema> {
    let columns = vec![Column::declared("id", "long").unwrap(), column];
    Arc::new(TableSchema::new(columns, &["id"], MetaColumns::default()).unwrap())
}

fn masked(declaration: &str) -> Arc<TableSchema> {
    beside_id(Column::declared("c", declaration).unwrap().masked(hmac()))
}

fn batch(schema: &Arc<TableSchema>, op: &str, token: &str) -> Result<ChangeBatch, Malformed> {
    one_change(schema, op, r#"{"id":1}"#, &format!(r#"{{"id":1,"c":{token}}}"#))
}

/// What the replica holds for one JSON value.
fn mask(declaration: &str, token: &str) -> String {
    shown(&batch(&masked(declaration), "u", token).unwrap()).1[1].clone()
}

#[test]
fn masks_are_those_that_another_program_makes_of_the_canonical_text() {
    // python3: hmac.new(b"the secret of a test", TEXT, hashlib.sha256).hexdigest()
    let table = [
        ("boolean", "true", "5a04937ac7138b0d9a8798564b730e1b42b68655ec2d988de9e5d726d15fa968"),
        ("short", "32767", "d90911b02bbe73bb9a348b2ecfb2c9d40925f6a7a6b94ccd91639d89e348cdff"),
        ("int", "-7", "9be320f2a17eb6281712f54452fca4a684039171e328067eae4788b696f26feb"),
        ("long", "9223372036854775807", "55a849a72b64652519243d128f2e17d45afe94e8357987a7305b5c5432e0c61d"),
        // -0.05, 12345.00 and 100000000000000000000
        ("decimal(12,2)@text", r#""-.05""#, "ea483cc183688ff660769990b387cd06103ad5fd00757e4395c94109ebb7052d"),
        ("decimal(12,2)@text", r#""12345""#, "20b577095bb020564c19714d2c8372511a22138b8820771a5c4298bddc474bae"),
        ("decimal(38,0)@text", r#""1E20""#, "8cc7ce39000f8a539b792013d556d7c3e44b3d344cc7744c6fe80bd67cecb472"),
        ("numeric@text", r#""1.500""#, "13cac64fadbfbbed57d235ec9da96f63d8f8271900de30ca7f574d1a6f4e6e10"),
        ("float", "0.1", "dcc2316b9e8ea4ae5e2a48e817297c8d6228ad615c1f635663630d7eda1fb6ff"),
        ("double", "0.1", "dcc2316b9e8ea4ae5e2a48e817297c8d6228ad615c1f635663630d7eda1fb6ff"),
        ("double", "-0.0", "019026a2e1af2e118535170f0784d641a6a0dd6b28f501076df799fbca15fa64"),
        // 10000000000000000000000
        ("double", "1e22", "f0eea95af4d323aa657b43f711fb1040d2b0d0b75548bda970247805b6208d3b"),
        ("float", r#""NaN""#, "26170ca4e394dee2694bb456d5d8c1b2746499c561e74e3e95ca1de1ada9b7b7"),
        ("double", r#""-Infinity""#, "6fceec20db28a78cb75c8734053cf7d345226ee01acc05ed55b4ea9efb0cf057"),
        // 2024-02-29, 2024-02-29T12:34:56.789012Z and 0001-01-01T00:00:00.000000
        ("date", "19782", "0252abd3b25deedc3aee56083262da816cb214c087774325f3fb7bce61ae4072"),
        ("timestamp@micros", "1709210096789012", "5d2e79f89f460de1a17298e4df68bf81ed567f1e57c457156ee2667d5be9a03d"),
        ("timestamp_ntz@millis", "-62135596800000", "e7fb06adfb2619779cd6817a632568869567133448e8d395d8196d67204d77db"),
        ("time@millis", "86400000", "0bc8d6cffbc530d5eb134dbc0bb12310e9b6af8bb310df8a989682b28e902bc0"),
        ("interval", r#""P1Y2M""#, "140f45cf96a13a2c5aeab07468a4f9d016cb9febfd6e75c0b303ed7426217ea9"),
        // the bytes 00 and ff
        ("binary", r#""AP8=""#, "c72c524c80ca768f0663614d48a73f8d888816fe972a18699a8d21d2ae0a10ee"),
        ("string", r#""a@b.example""#, "3948e10bf38fed5ddc171989e3e58fb12b76f3198900f9a2c863933f7d67bafb"),
        ("string", r#""""#, "2ea92bd58ce0df82dfc09d1a37d10a8da3b0a985b5ec617febc76c447fd545ec"),
        ("string", r#""Gr\u00fc\u00dfe, 世界""#, "9fb5b446b00d31a7a45ee4f2ca1f0de05bde85a7dd6b0cbbe7ae3c871988f36b"),
    ];
    for (declaration, token, expected) in table {
        assert_eq!(mask(declaration, token), expected, "{declaration} {token}");
    }
}

#[test]
fn two_masks_of_a_type_are_equal_where_the_values_are_and_only_there() {
    // each type in several of its forms; what stands in one pair of brackets is one value
    let table: [&[&[(&str, &str)]]; 8] = [
        &[&[("long", "0"), ("short", "0")], &[("long", "1")], &[("long", "-1")], &[("long", "10"), ("short", "10")]],
        &[
            &[("decimal(6,2)@text", r#""1.50""#), ("decimal(6,2)", "1.5"), ("decimal(9,2)@base64", r#""AJY=""#)],
            &[("decimal(6,2)@text", r#""-1.5""#)],
            &[("decimal(6,2)@text", r#""15""#), ("decimal(6,2)@base64", r#""Bdw=""#)],
            &[("decimal(6,2)@text", r#""0""#), ("decimal(6,2)", "0.00"), ("decimal(6,2)@text", r#""-0""#)],
        ],
        &[
            &[("double", "0"), ("double", "-0.0"), ("double", "0.0")],
            &[("double", "0.1"), ("double", "1e-1")],
            &[("double", "0.10000000000000002")],
            &[("double", "5e-324")],
            &[("double", r#""Infinity""#)],
            &[("double", r#""NaN""#)],
        ],
        &[&[("float", "16777216"), ("float", "1.6777216e7")], &[("float", "16777215")], &[("float", "-16777216")]],
        &[
            &[
                ("timestamp", r#""2024-02-29T12:34:56.789Z""#),
                ("timestamp", r#""2024-02-29T21:34:56.789+09:00""#),
                ("timestamp@millis", "1709210096789"),
                ("timestamp@nanos", "1709210096789000000"),
            ],
            &[("timestamp", r#""2024-02-29T12:34:56.789001Z""#)],
            &[("timestamp@micros", "-1")],
        ],
        &[
            &[("date", "0"), ("date@text", r#""1970-01-01""#), ("date@text", r#""1970-01-01Z""#)],
            &[("date", "-1")],
            &[("date", "2932896"), ("date@text", r#""9999-12-31""#)],
        ],
        &[
            &[("binary", r#""AA==""#), ("binary@hex", r#""00""#)],
            &[("binary", r#""""#)],
            &[("binary", r#""AAA=""#), ("binary@hex", r#""0000""#)],
            &[("binary@hex", r#""fbff""#), ("binary@base64url", r#""-_8=""#)],
        ],
        &[
            &[("string", r#""a""#), ("string", r#""\u0061""#)],
            &[("string", r#""A""#)],
            &[("string", r#""a ""#)],
            &[("string", r#""null""#)],
            &[("string", r#""é""#)],
            &[("string", r#""e\u0301""#)],
        ],
    ];
    for values in table {
        let masks: Vec<(usize, String)> = (0..)
            .zip(values)
            .flat_map(|(value, forms)| forms.iter().map(move |(declaration, token)| (value, mask(declaration, token))))
            .collect();
        for (a, first) in &masks {
            for (b, second) in &masks {
                assert_eq!(first == second, a == b, "{:?} and {:?}", values[*a], values[*b]);
            }
        }
    }
}

#[test]
fn a_renamed_and_masked_key_is_the_same_in_a_row_and_in_a_delete() {
    let columns = vec![
        Column::declared("E-Mail", "string").unwrap().named("email").masked(hmac()),
        Column::declared("since", "date").unwrap().masked(hmac()),
        Column::declared("note", "string").unwrap(),
    ];
    let schema = Arc::new(TableSchema::new(columns, &["E-Mail", "since"], MetaColumns::default()).unwrap());
    let key = r#"{"E-Mail":"a@b.example","since":19782}"#;
    let row = r#"{"E-Mail":"a@b.example","since":19782,"note":"n"}"#;
    let (names, upserted) = shown(&one_change(&schema, "u", key, row).unwrap());
    let deleted = shown(&one_change(&schema, "d", key, "null").unwrap()).1;
    assert_eq!(names, ["email", "since", "note"]);
    assert_eq!(upserted[0], "3948e10bf38fed5ddc171989e3e58fb12b76f3198900f9a2c863933f7d67bafb");
    assert_eq!(upserted[1], "0252abd3b25deedc3aee56083262da816cb214c087774325f3fb7bce61ae4072");
    assert_eq!((&deleted[..2], deleted[2].as_str()), (&upserted[..2], "null"));
}

#[test]
fn a_flattened_row_and_its_delete_are_renamed_and_masked_as_an_envelope_is() {
    let columns = vec![
        Column::declared("E-Mail", "string").unwrap().named("email").masked(hmac()),
        Column::declared("born", "date").unwrap().masked(Mask::Null),
    ];
    let table = TableSchema::new(columns, &["E-Mail"], MetaColumns::default()).unwrap();
    let schema = Arc::new(table.with_form(EnvelopeForm::Flattened(Arc::default())).unwrap());
    let (key, mail) =
        (br#"{"E-Mail":"a@b.example"}"#, "3948e10bf38fed5ddc171989e3e58fb12b76f3198900f9a2c863933f7d67bafb");
    for (op, deleted) in [("u", false), ("d", true)] {
        let value =
            format!(r#"{{"E-Mail":"a@b.example","born":19782,"__op":"{op}","__deleted":"{deleted}","__lsn":8}}"#);
        let (mut decoder, mut builder) = (Decoder::new(Arc::clone(&schema)), BatchBuilder::new(Arc::clone(&schema)));
        let (key, value) = (Some(&key[..]), Some(value.as_bytes()));
        let record = RecordRef { partition: 0, offset: 0, key, value, timestamp: None, old_key: None };
        decoder.decode(record, &mut Horizon::default(), &mut builder).unwrap();
        let (names, values) = shown(&builder.finish().unwrap());
        assert_eq!((names, values), (vec!["email".into(), "born".into()], vec![mail.into(), "null".into()]), "{op}");
    }
}

#[test]
fn null_stays_null_and_what_an_update_left_out_stays_left_out() {
    let left_out = r#""__debezium_unavailable_value""#;
    for (declaration, mask, token, op, expected) in [
        ("string", hmac(), "null", "u", Some(("null", false))),
        ("string", hmac(), left_out, "u", Some(("null", true))),
        (
            "binary@hex",
            hmac(),
            r#""5f5f646562657a69756d5f756e617661696c61626c655f76616c7565""#,
            "u",
            Some(("null", true)),
        ),
        ("string", hmac(), left_out, "c", None),
        // there is nothing to keep, and nothing to miss
        ("string", Mask::Null, left_out, "u", Some(("null", false))),
        ("string", Mask::Null, left_out, "c", Some(("null", false))),
        ("string", Mask::Null, r#""a""#, "u", Some(("null", false))),
        ("array<int>", Mask::Null, "[1,2]", "u", Some(("null", false))),
        ("json", Mask::Null, r#"{"a":1}"#, "u", Some(("null", false))),
    ] {
        let schema = beside_id(Column::declared("c", declaration).unwrap().masked(mask));
        let found = batch(&schema, op, token).map(|batch| (shown(&batch).1[1].clone(), batch.has_unchanged())).ok();
        let found = found.as_ref().map(|(value, is_unchanged)| (value.as_str(), *is_unchanged));
        assert_eq!(found, expected, "{declaration} {token} {op}");
    }
}

#[test]
fn a_value_under_a_mask_is_refused_as_it_is_without_one() {
    for (declaration, token, problem) in [
        ("int", "2147483648", "column `c`: does not fit the column's bits"),
        ("date", "2147483647", "column `c`: is infinite, or lies outside the years 1 to 9999"),
        ("decimal(4,2)@text", r#""1.234""#, "column `c`: has more digits after the point than the column"),
        ("timestamp", "1", "column `c`: a number without a unit"),
        ("long", r#""SECRET""#, "column `c`: expected an integer of 64 bits, found a string"),
    ] {
        let message = batch(&masked(declaration), "u", token).unwrap_err().to_string();
        assert!(message.starts_with(problem), "{message}");
    }
    let lenient = Column::declared("c", "date").unwrap().with_unfit(Unfit::Null).masked(hmac());
    let schema = beside_id(lenient);
    let (mut decoder, mut builder) = (Decoder::new(Arc::clone(&schema)), BatchBuilder::new(schema));
    let (key, value) = (&br#"{"id":1}"#[..], br#"{"op":"u","after":{"id":1,"c":2147483647},"source":{"lsn":8}}"#);
    let record =
        RecordRef { partition: 0, offset: 0, key: Some(key), value: Some(value), timestamp: None, old_key: None };
    decoder.decode(record, &mut Horizon::default(), &mut builder).unwrap();
    assert_eq!((shown(&builder.finish().unwrap()).1[1].as_str(), decoder.nulled()), ("null", 1));
}

#[test]
fn a_mask_that_cannot_stand_is_refused() {
    let column = |declaration: &str| Column::declared("c", declaration).unwrap();
    let table = |column: Column, key: &str| {
        let columns = vec![Column::declared("id", "long").unwrap(), column];
        TableSchema::new(columns, &[key], MetaColumns::default()).map(drop)
    };
    for declaration in ["json", "hstore", "array<int>"] {
        assert!(matches!(table(column(declaration).masked(hmac()), "id"), Err(SchemaError::NoMaskOf { .. })));
        assert_eq!(table(column(declaration).masked(Mask::Null), "id"), Ok(()));
    }
    assert_eq!(table(column("long").masked(Mask::Null), "c"), Err(SchemaError::NullKey("c".to_owned())));
    assert_eq!(table(column("long").masked(hmac()), "c"), Ok(()));
    assert!(matches!(table(column("interval").masked(hmac()), "c"), Err(SchemaError::NoKeyType { .. })));
    for mask in [hmac(), Mask::Null] {
        let raw = column("date").masked(mask).with_unfit(Unfit::Raw);
        assert_eq!(table(raw, "id"), Err(SchemaError::RawUnderMask("c".to_owned())));
    }
}

#[test]
fn a_masked_column_grows_wider_where_that_changes_no_mask_and_is_a_string_in_the_replica_all_along() {
    let extended = |declaration: &str, mask: Mask, found: &str| {
        let before = beside_id(Column::declared("c", declaration).unwrap().masked(mask));
        let found = Column::declared("c", found).unwrap();
        let after = before.extended_by([found]).unwrap()?;
        assert_eq!(after.arrow(), before.arrow());
        assert_eq!(after.columns()[1].data_type, DataType::String);
        Some((after.since(&before), Arc::new(after)))
    };
    let (words, wider) = extended("int", hmac(), "long").unwrap();
    assert_eq!(words, "`c` int -> long");
    let of = |schema: &Arc<TableSchema>, token: &str| shown(&batch(schema, "u", token).unwrap()).1[1].clone();
    assert_eq!(of(&wider, "-7"), of(&masked("int"), "-7"));
    assert_eq!(of(&wider, "9223372036854775807"), mask("long", "9223372036854775807"));
    let (_, wider) = extended("decimal(6,2)@text", hmac(), "decimal(9,2)@base64").unwrap();
    assert_eq!(of(&wider, r#""AJY=""#), mask("decimal(6,2)@text", r#""1.5""#));
    for (declared, found) in
        [("decimal(6,2)", "decimal(9,3)"), ("float", "double"), ("int", "string"), ("string", "int")]
    {
        assert!(extended(declared, hmac(), found).is_none(), "{declared} {found}");
    }
    assert!(extended("float", Mask::Null, "double").is_some());
}
