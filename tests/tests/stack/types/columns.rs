//! The columns, one of each type, with the values that are sent one by one and a source of random ones.

use rand::Rng;
use rand::rngs::StdRng;

use super::kinds::Kind;
use super::random as any;

/// A column of PostgreSQL's table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    /// Its name on both sides.
    pub(crate) name: &'static str,
    /// Its type in PostgreSQL.
    pub(crate) postgres: &'static str,
    pub(crate) kind: Kind,
    /// An ordinary value and the extreme ones, as texts that the type reads.
    pub(crate) values: &'static [&'static str],
    /// Makes such a text, of a value that every mode can carry.
    pub(crate) random: fn(&mut StdRng) -> String,
}

impl Column {
    /// Its type as the document names it.
    pub(crate) fn title(&self) -> &'static str {
        match self.postgres {
            "price" => "domain over numeric(10,4)",
            "mood" => "enum",
            "mood[]" => "enum[]",
            "pair" => "composite",
            plain => plain,
        }
    }

    /// Whether random values of it mean anything: of a `name` the stream holds nulls.
    pub(crate) fn is_random(&self) -> bool {
        self.postgres != "name"
    }
}

const fn column(
    name: &'static str,
    postgres: &'static str,
    kind: Kind,
    values: &'static [&'static str],
    random: fn(&mut StdRng) -> String,
) -> Column {
    Column { name, postgres, kind, values, random }
}

/// Text with all that JSON and Java escape, and characters of two, three and four bytes.
const HARD_TEXT: &str = "\u{1}\t\n\r\"\\/'\u{7f}\u{2028}ü漢字😀\u{fffe}";

/// All columns but the key.
pub(crate) const COLUMNS: &[Column] = &[
    column("c_smallint", "smallint", Kind::Integer("short"), &["1", "32767", "-32768"], |r| any::integer(r, 16)),
    column("c_int", "integer", Kind::Integer("int"), &["2", "2147483647", "-2147483648"], |r| any::integer(r, 32)),
    column(
        "c_bigint",
        "bigint",
        Kind::Integer("long"),
        &["3", "9223372036854775807", "-9223372036854775808", "9007199254740993"],
        |r| any::integer(r, 64),
    ),
    column("c_serial", "serial", Kind::Integer("int"), &["4", "2147483647"], |r| any::integer(r, 32)),
    column("c_oid", "oid", Kind::Integer("long"), &["5", "4294967295", "0"], |r| r.random::<u32>().to_string()),
    column(
        "c_numeric_12_2",
        "numeric(12,2)",
        Kind::Decimal(12, 2),
        &["12.34", "9999999999.99", "-9999999999.99", "0", "-0.01", "NaN"],
        |r| any::decimal(r, 12, 2),
    ),
    column(
        "c_numeric_38_0",
        "numeric(38,0)",
        Kind::Decimal(38, 0),
        &["12345678901234567890123456789012345678", "-99999999999999999999999999999999999999", "0"],
        |r| any::decimal(r, 38, 0),
    ),
    column("c_domain", "price", Kind::Decimal(10, 4), &["1.5", "999999.9999", "0"], |r| {
        any::decimal(r, 10, 4).trim_start_matches('-').into()
    }),
    column(
        "c_numeric",
        "numeric",
        Kind::Numeric,
        &[
            "3.14159",
            "NaN",
            "Infinity",
            "-Infinity",
            "1e-20",
            "123456789012345678901234567890.123456789",
            "1.500",
            "1e30",
            "0",
            "-0.000",
        ],
        any::numeric,
    ),
    column("c_money", "money", Kind::Money, &["1234.56", "-92233720368547758.08", "92233720368547758.07"], |r| {
        any::money(r)
    }),
    column(
        "c_real",
        "real",
        Kind::Real,
        &["1.5", "NaN", "Infinity", "-Infinity", "1e-45", "3.4028235e38", "0.1", "-0", "16777216"],
        any::real,
    ),
    column(
        "c_double",
        "double precision",
        Kind::Double,
        &[
            "2.5",
            "NaN",
            "Infinity",
            "-Infinity",
            "5e-324",
            "1.7976931348623157e308",
            "0.1",
            "-0",
            "100000000000000000000",
            "2.2250738585072014e-308",
        ],
        any::double,
    ),
    column("c_bool", "boolean", Kind::Boolean, &["t", "f"], any::boolean),
    column("c_bit1", "bit(1)", Kind::Bit, &["1", "0"], |r| any::bits(r, 1)),
    column("c_text", "text", Kind::Text, &["text", "", HARD_TEXT, "null"], |r| any::text(r, 40)),
    column("c_varchar", "varchar", Kind::Text, &["varchar", "", HARD_TEXT], |r| any::text(r, 40)),
    column("c_varchar20", "varchar(20)", Kind::Text, &["v20", "12345678901234567890"], |r| any::text(r, 20)),
    column("c_char5", "char(5)", Kind::Text, &["ab", "", " 漢 x "], |r| any::text(r, 5)),
    column("c_char", "\"char\"", Kind::Text, &["x", " ", ""], any::letter),
    column("c_name", "name", Kind::Text, &["name", ""], |r| any::text(r, 5)),
    column("c_citext", "citext", Kind::Text, &["CiText", ""], |r| any::text(r, 20)),
    column("c_enum", "mood", Kind::Text, &["happy", "sad"], any::mood),
    column(
        "c_uuid",
        "uuid",
        Kind::Text,
        &["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000000"],
        any::uuid,
    ),
    column("c_xml", "xml", Kind::Text, &["<a b=\"c\">d</a>", ""], any::xml),
    column(
        "c_inet",
        "inet",
        Kind::Text,
        &["192.168.0.1/24", "0.0.0.0", "::ffff:1.2.3.4", "2001:db8::1/64", "::"],
        any::inet,
    ),
    column("c_cidr", "cidr", Kind::Text, &["10.0.0.0/8", "0.0.0.0/0", "::1/128"], any::cidr),
    column("c_macaddr", "macaddr", Kind::Text, &["08:00:2b:01:02:03", "ff:ff:ff:ff:ff:ff"], |r| any::mac(r, 6)),
    column("c_macaddr8", "macaddr8", Kind::Text, &["08:00:2b:01:02:03:04:05", "ff:ff:ff:ff:ff:ff:ff:ff"], |r| {
        any::mac(r, 8)
    }),
    column("c_ltree", "ltree", Kind::Text, &["top.science", ""], any::ltree),
    column("c_tsvector", "tsvector", Kind::Text, &["a fat cat", "'it''s':1A,3 '\\\\':2", ""], any::tsvector),
    column("c_int4range", "int4range", Kind::Text, &["[1,10)", "empty", "(,)"], |r| {
        any::range(r, |r| r.random::<i16>().into(), |bound| bound.to_string())
    }),
    column("c_int8range", "int8range", Kind::Text, &["(,100]", "(,)", "[-9223372036854775808,1)"], |r| {
        any::range(r, |r| i64::from(r.random::<i32>()), |bound| bound.to_string())
    }),
    column("c_numrange", "numrange", Kind::Text, &["[1.5,2.5]", "(-1e30,1e-30)"], |r| {
        any::range(r, |r| r.random::<i32>().into(), |bound| format!("{bound}e-3"))
    }),
    column("c_tsrange", "tsrange", Kind::Text, &["[2024-01-01,2024-02-01)", "[0044-03-15 BC,infinity]"], |r| {
        any::range(r, any::day, |day| format!("J{day} 12:34:56.789012"))
    }),
    column(
        "c_tstzrange",
        "tstzrange",
        Kind::Text,
        &["[2024-01-01 00:00+00,)", "(-infinity,1500-01-01 00:00+00]"],
        |r| any::range(r, any::day, |day| format!("J{day} 12:34:56.789012+00")),
    ),
    column("c_daterange", "daterange", Kind::Text, &["[2024-01-01,2024-02-01)", "[0044-03-15 BC,)"], |r| {
        any::range(r, any::day, |day| format!("J{day}"))
    }),
    column(
        "c_json",
        "json",
        Kind::Json,
        &["{\"b\" : 1, \"a\": [1.0, null, \"x\"], \"b\": 2}", "null", " 1e400 "],
        |r| any::json(r, 3),
    ),
    column(
        "c_jsonb",
        "jsonb",
        Kind::Json,
        &[
            "{\"b\" : 1, \"a\": [1.0, null, \"x\"], \"b\": 2}",
            "null",
            "\"str\"",
            "{\"n\":12345678901234567890.123456789012345678901,\"e\":1e400,\"u\":\"\\u00e9\"}",
        ],
        |r| any::json(r, 3),
    ),
    column("c_hstore", "hstore", Kind::Hstore, &["a=>1,b=>NULL,\"c d\"=>\"e\\\"f\"", ""], any::hstore),
    column("c_point", "point", Kind::Point, &["(1.5,-2.5)", "(-0,1e300)", "(NaN,Infinity)"], any::point),
    column("c_bytea", "bytea", Kind::Bytes, &["\\x00ff10", "\\x", "\\xfbefbe"], any::bytes),
    column("c_bit8", "bit(8)", Kind::Bits, &["10101010", "00000001", "00000000"], |r| any::bits(r, 8)),
    column("c_bit20", "bit(20)", Kind::Bits, &["10000000000000000001", "00000000000000000000"], |r| any::bits(r, 20)),
    column(
        "c_varbit",
        "bit varying",
        Kind::VarBits,
        &[
            "101",
            "",
            "10101010101010101010101010101010101010101010101010101010101010101010101010101010",
            "0000000000001",
        ],
        |r| {
            let length = r.random_range(0..100);
            any::bits(r, length)
        },
    ),
    column(
        "c_date",
        "date",
        Kind::Date,
        &[
            "2024-02-29",
            "infinity",
            "-infinity",
            "0044-03-15 BC",
            "4713-01-01 BC",
            "5874897-12-31",
            "0001-01-01",
            "1582-10-04",
            "1582-10-10",
            "9999-12-31",
        ],
        any::date,
    ),
    column("c_time", "time", Kind::Time(6), &["12:34:56.789012", "24:00:00", "23:59:59.999999", "00:00:00"], any::time),
    column(
        "c_time3",
        "time(3)",
        Kind::Time(3),
        &["12:34:56.789", "24:00:00", "23:59:59.999", "00:00:00"],
        any::time_of_millis,
    ),
    column(
        "c_timetz",
        "time with time zone",
        Kind::TimeTz,
        &["12:34:56.789012+02", "00:00:00+15:59", "24:00:00-15:59", "24:00:00+00"],
        any::time_with_zone,
    ),
    column(
        "c_timestamp",
        "timestamp",
        Kind::Timestamp(6),
        &[
            "2024-02-29 12:34:56.789012",
            "infinity",
            "-infinity",
            "4713-01-01 00:00:00 BC",
            "294276-12-31 23:59:59.999999",
            "1969-12-31 23:59:59.999999",
            "1582-10-10 00:00:00",
            "3000-01-01 00:00:00.123456",
            "0001-01-01 00:00:00",
            "9999-12-31 23:59:59.999999",
        ],
        any::timestamp,
    ),
    column(
        "c_timestamp0",
        "timestamp(0)",
        Kind::Timestamp(0),
        &["2024-02-29 12:34:56", "0001-01-01 00:00:00", "9999-12-31 23:59:59"],
        any::timestamp,
    ),
    column(
        "c_timestamp3",
        "timestamp(3)",
        Kind::Timestamp(3),
        &["2024-02-29 12:34:56.789", "infinity", "-infinity", "9999-12-31 23:59:59.999"],
        any::timestamp,
    ),
    column(
        "c_timestamptz",
        "timestamp with time zone",
        Kind::Instant,
        &[
            "2024-02-29 12:34:56.789012+02",
            "infinity",
            "-infinity",
            "4713-01-01 00:00:00+00 BC",
            "294276-12-31 23:59:59.999999+00",
            "0044-03-15 12:00:00+00 BC",
            "1500-01-01 00:00:00+00",
            "1582-10-10 00:00:00+00",
            "0001-01-01 00:00:00+00",
            "9999-12-31 23:59:59.999999+00",
        ],
        any::instant,
    ),
    column(
        "c_timestamptz3",
        "timestamp(3) with time zone",
        Kind::Instant,
        &["2024-02-29 12:34:56.789+02", "9999-12-31 23:59:59.999+00"],
        any::instant,
    ),
    column(
        "c_interval",
        "interval",
        Kind::Interval,
        &["1 year 2 mons 3 days 04:05:06.789012", "-178000000 years", "-1 mons +1 day -00:00:00.000001", "0"],
        any::interval,
    ),
    column("c_int_arr", "integer[]", Kind::Array(&Kind::Integer("int")), &["{1,NULL,3}", "{}", "{{1,2},{3,4}}"], |r| {
        any::array(r, |r| any::integer(r, 32))
    }),
    column(
        "c_bigint_arr",
        "bigint[]",
        Kind::Array(&Kind::Integer("long")),
        &["{1,2}", "{9223372036854775807,-9223372036854775808}"],
        |r| any::array(r, |r| any::integer(r, 64)),
    ),
    column("c_bool_arr", "boolean[]", Kind::Array(&Kind::Boolean), &["{t,f}", "{NULL}"], |r| {
        any::array(r, any::boolean)
    }),
    column(
        "c_double_arr",
        "double precision[]",
        Kind::Array(&Kind::Double),
        &["{1.5,NaN}", "{-Infinity,-0,5e-324}"],
        |r| any::array(r, any::double),
    ),
    column("c_text_arr", "text[]", Kind::Array(&Kind::Text), &["{a,\"b,c\",\"d\\\"e\",NULL,\"\"}", "{}"], |r| {
        any::array(r, |r| any::text(r, 10))
    }),
    column(
        "c_uuid_arr",
        "uuid[]",
        Kind::Array(&Kind::Text),
        &["{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}", "{NULL}"],
        |r| any::array(r, any::uuid),
    ),
    column("c_enum_arr", "mood[]", Kind::Array(&Kind::Text), &["{sad,happy}", "{ok,NULL}"], |r| {
        // the connector makes null of all of it where one element is
        any::array(r, any::mood).replace("NULL", "ok")
    }),
    column("c_jsonb_arr", "jsonb[]", Kind::Array(&Kind::Json), &["{\"{\\\"a\\\": 1}\"}", "{NULL,\"null\"}"], |r| {
        any::array(r, |r| any::json(r, 1))
    }),
    column("c_bytea_arr", "bytea[]", Kind::Array(&Kind::Bytes), &["{\"\\\\x0102\"}", "{NULL,\"\\\\x\"}"], |r| {
        any::array(r, any::bytes)
    }),
    column("c_numeric_arr", "numeric(10,2)[]", Kind::Array(&Kind::Decimal(10, 2)), &["{1.10,2.25}", "{NULL,1}"], |r| {
        any::array(r, |r| any::decimal(r, 10, 2))
    }),
    column(
        "c_date_arr",
        "date[]",
        Kind::Array(&Kind::Date),
        &["{2024-01-01}", "{NULL,0001-01-01}", "{1582-10-10}", "{1582-10-04}", "{0044-03-15 BC}"],
        |r| any::array(r, any::date),
    ),
    column(
        "c_ts_arr",
        "timestamp[]",
        Kind::Array(&Kind::Timestamp(6)),
        &[
            "{2024-01-01 01:02:03.000004}",
            "{NULL,9999-12-31 23:59:59.999999}",
            "{1582-10-15 00:00:00}",
            "{1582-10-04 00:00:00}",
            "{0001-01-03 00:00:00}",
        ],
        |r| any::array(r, any::modern_timestamp),
    ),
    column(
        "c_tstz_arr",
        "timestamp with time zone[]",
        Kind::Array(&Kind::Instant),
        &["{2024-01-01 01:02:03.000004+00}", "{NULL,infinity}", "{0001-01-01 00:00:00+00,1582-10-04 00:00:00+00}"],
        |r| any::array(r, any::instant),
    ),
    column("c_tsquery", "tsquery", Kind::Unknown, &["'fat' & 'cat'", ""], |_| "'fat' & !'cat':A".into()),
    column("c_pg_lsn", "pg_lsn", Kind::Unknown, &["16/B374D848", "0/0"], |r| {
        format!("{:X}/{:X}", r.random::<u32>(), r.random::<u32>())
    }),
    column("c_composite", "pair", Kind::Unknown, &["(1,x)", "(,)"], |r| format!("({},x)", r.random::<i32>())),
    column("c_line", "line", Kind::Unknown, &["{1,2,3}", "{-1,0,0}"], |r| format!("{{1,{},3}}", r.random::<i16>())),
    column("c_box", "box", Kind::Unknown, &["(1,1),(0,0)", "(2,3),(-4,-5)"], |r| any::points(r, 2)),
    column("c_circle", "circle", Kind::Unknown, &["<(0,0),5>", "<(1,2),0>"], |r| {
        format!("<{},{}>", any::points(r, 1), r.random::<u16>())
    }),
    column("c_polygon", "polygon", Kind::Unknown, &["((0,0),(1,0),(1,1))", "((1,2))"], |r| {
        format!("({})", any::points(r, 3))
    }),
    column("c_path", "path", Kind::Unknown, &["[(0,0),(1,1)]", "((0,0),(1,1))"], |r| {
        format!("[{}]", any::points(r, 2))
    }),
];
