//! The SQL by which a table is compared.

use change::Mask;

use super::table;
use crate::{
    ComparedTable, KeyOrder,
    compared::{Bounds, Wanted},
};

fn replica(columns: &[(&str, &str)]) -> Vec<(usize, change::Column)> {
    let declared = columns.iter().map(|(name, declared)| change::Column::declared(name, declared).unwrap());
    declared.enumerate().collect()
}

const COLUMNS: [(&str, &str); 3] = [("Id\"", "bigint"), ("day", "date"), ("note", "text")];
const DECLARED: [(&str, &str); 3] = [("Id\"", "long"), ("day", "date"), ("note", "string")];
const BETWEEN: Bounds = Bounds { after: true, up_to: true, excluded: true };
const ALL: Bounds = Bounds { after: false, up_to: false, excluded: false };

#[test]
fn a_range_of_a_key_that_both_sides_order_alike_is_one_of_its_index() {
    let mut source = table(&COLUMNS);
    source.columns.iter_mut().take(2).for_each(|column| column.not_null = true);
    let compared = ComparedTable::new(&source, &replica(&DECLARED), &[0, 1], true).unwrap();
    assert_eq!(compared.order(), KeyOrder::Native);
    let row = "concat_ws(',', quote_nullable(t.\"Id\"\"\"::text), quote_nullable(t.\"day\"::date::text), \
               quote_nullable(t.\"note\"::text))";
    let expected = format!(
        "select range, count(*), sum(('x' || left(hash, 16))::bit(64)::bigint)::text, \
         md5(string_agg(hash, '' order by p0, p1)) \
         from (select 0 as range, t.\"Id\"\"\" as p0, t.\"day\" as p1, md5({row}) as hash from \"public\".\"t\" as t \
         where (t.\"Id\"\"\", t.\"day\") > ($1::text::\"pg_catalog\".\"int8\", $2::text::\"pg_catalog\".\"date\") \
         and (t.\"Id\"\"\", t.\"day\") <= ($3::text::\"pg_catalog\".\"int8\", $4::text::\"pg_catalog\".\"date\") \
         and not exists (select from unnest($5::text[], $6::text[]) as x(k0, k1) \
         where t.\"Id\"\"\" = x.k0::\"pg_catalog\".\"int8\" and t.\"day\" = x.k1::\"pg_catalog\".\"date\") offset 0) as r \
         group by range"
    );
    assert_eq!(compared.digests(BETWEEN, false), expected);
    let key = vec![Some("7".to_owned()), Some("2024-02-29".to_owned())];
    assert_eq!(compared.place(&key), ["7", "2024-02-29"]);
    let named = "select x.number, md5(ROW) from unnest($1::text[], $2::text[]) with ordinality as x(k0, k1, number) \
                 join \"public\".\"t\" as t on t.\"Id\"\"\" = x.k0::\"pg_catalog\".\"int8\" \
                 and t.\"day\" = x.k1::\"pg_catalog\".\"date\"";
    assert_eq!(compared.named(Wanted::Hash), named.replace("ROW", row));
}

#[test]
fn any_other_key_is_ordered_by_the_bytes_of_its_text() {
    // a text whose collation is not that of its bytes, and a column that may be null
    for (columns, declared) in
        [([("k", "text"), ("n", "bigint")], "string"), ([("k", "integer"), ("n", "bigint")], "int")]
    {
        let mut source = table(&columns);
        source.columns[0].not_null = declared == "string";
        let replica = replica(&[("k", declared), ("n", "long")]);
        let compared = ComparedTable::new(&source, &replica, &[0], false).unwrap();
        assert_eq!(compared.order(), KeyOrder::Text);
        assert_eq!(compared.place(&vec![Some("it's".to_owned())]), ["'it''s'"]);
        let sql = compared.digests(ALL, true);
        assert!(
            sql.contains("width_bucket((concat_ws(',', quote_nullable(t.\"k\"::text)) collate \"C\"), $1::text[])"),
            "{sql}"
        );
        assert!(sql.contains("md5(convert_to(concat_ws("), "{sql}");
        let operator = if declared == "string" { "= x.k0" } else { "is not distinct from x.k0" };
        assert!(compared.named(Wanted::Columns).contains(operator));
    }
    let mut source = table(&[("k", "text")]);
    (source.columns[0].not_null, source.columns[0].by_bytes) = (true, true);
    let compared = ComparedTable::new(&source, &replica(&[("k", "string")]), &[0], true).unwrap();
    assert_eq!(compared.order(), KeyOrder::Native);
}

#[test]
fn what_one_side_does_not_have_is_named_and_a_masked_key_is_refused() {
    let mut replica = replica(&[("id", "long"), ("gone", "int"), ("secret", "string")]);
    replica[2].1 = replica[2].1.clone().masked(Mask::Null);
    let source = table(&[("id", "bigint"), ("secret", "text"), ("new", "text")]);
    let compared = ComparedTable::new(&source, &replica, &[0], true).unwrap();
    let left_out: Vec<_> =
        compared.left_out().iter().map(|column| format!("{}: {}", column.name, column.reason)).collect();
    assert_eq!(
        left_out,
        ["gone: the source does not have it any more", "secret: it is masked", "new: the replica does not have it"]
    );
    assert_eq!(compared.columns().iter().map(|column| column.position).collect::<Vec<_>>(), [0]);
    // its values are read for a repair, which masks them
    assert_eq!(compared.positions().collect::<Vec<_>>(), [0, 2]);
    assert_eq!(ComparedTable::new(&source, &replica, &[2], true).unwrap_err(), "its key is masked");
    assert!(ComparedTable::new(&source, &replica, &[1], true).unwrap_err().contains("no key column `gone`"));
}

#[test]
fn a_table_of_more_columns_than_a_function_takes_is_one_text() {
    let names: Vec<String> = (0..200).map(|n| format!("c{n}")).collect();
    let columns: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "bigint")).collect();
    let declared: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "long")).collect();
    let compared = ComparedTable::new(&table(&columns), &replica(&declared), &[0], true).unwrap();
    let sql = compared.rows(ALL);
    assert_eq!(sql.matches("concat_ws(").count(), 4);
    assert!(sql.contains("quote_nullable(t.\"c199\"::text)"));
}
