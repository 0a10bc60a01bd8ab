//! Keys, and what stands against a table.

use super::{index, modes, table};
use crate::{
    TablePlan,
    table::{ReplicaIdentity, Table},
};

fn two() -> Table {
    table(&[("id", "bigint"), ("other", "bigint"), ("note", "text")])
}

fn plan(change: impl FnOnce(&mut Table), json: &str) -> TablePlan {
    let mut table = two();
    change(&mut table);
    TablePlan::new(&table, &modes(json))
}

fn without_key(table: &mut Table) {
    table.primary_key.clear();
    table.replica_identity = ReplicaIdentity::Full;
}

#[test]
fn the_key_is_the_connectors() {
    let by_other = r#"{"message.key.columns": "public.t:other"}"#;
    assert_eq!(plan(|_| (), "{}").key, ["id"]);
    assert_eq!(plan(|t| t.primary_key = vec!["other".into(), "id".into()], "{}").key, ["other", "id"]);
    assert_eq!(plan(|t| t.replica_identity = ReplicaIdentity::Full, by_other).key, ["other"]);
    assert_eq!(plan(without_key, by_other).key, ["other"]);
    let by_index = plan(
        |t| {
            without_key(t);
            t.columns[1].not_null = true;
            t.unique = vec![index("first", &["other"]), index("second", &["id"])];
        },
        "{}",
    );
    assert_eq!(by_index.key, ["other"]);
    assert!(by_index.can_be_replicated() && by_index.warnings[0].contains("message.key.columns"));
}

#[test]
fn a_table_without_a_key_names_the_remedy() {
    let refused = |plan: TablePlan| {
        assert!(plan.refusals[0].contains("add a primary key, or message.key.columns"), "{:?}", plan.refusals);
        plan.refusals[0].clone()
    };
    refused(plan(without_key, "{}"));
    let nullable = plan(
        |t| {
            without_key(t);
            t.unique = vec![index("u", &["other"])];
        },
        "{}",
    );
    assert!(refused(nullable).contains("`other` can be null"));
    let partial = plan(
        |t| {
            without_key(t);
            t.unique = vec![index("u", &["id"])];
            t.unique[0].partial = true;
        },
        "{}",
    );
    assert!(refused(partial).contains("does not hold every row"));
}

#[test]
fn a_key_that_deletes_do_not_carry_is_refused() {
    let identity = |t: &mut Table| t.replica_identity = ReplicaIdentity::Index(index("t_other_key", &["other"]));
    let refused = plan(identity, "{}");
    assert!(refused.refusals[0].contains("would remove another row"), "{:?}", refused.refusals);
    let by_other = r#"{"message.key.columns": "public.t:other"}"#;
    assert!(plan(identity, by_other).can_be_replicated());
    assert!(!plan(|_| (), by_other).can_be_replicated(), "the primary key does not carry it");
    assert!(plan(|t| t.replica_identity = ReplicaIdentity::Full, by_other).can_be_replicated());
}

#[test]
fn what_postgresql_would_refuse_is_warned_of() {
    let warned = |plan: TablePlan| plan.warnings.iter().any(|warning| warning.contains("refuses updates and deletes"));
    assert!(warned(plan(|t| t.replica_identity = ReplicaIdentity::Nothing, "{}")));
    let keyless = |t: &mut Table| t.primary_key.clear();
    assert!(warned(plan(keyless, r#"{"message.key.columns": "public.t:id"}"#)));
    assert!(!warned(plan(|_| (), "{}")));
}

#[test]
fn a_key_that_a_replica_cannot_have_is_refused() {
    let of = |columns: &[(&str, &str)]| TablePlan::new(&table(columns), &modes("{}")).refusals.join("; ");
    assert!(of(&[("doc", "jsonb"), ("n", "integer")]).contains("cannot be a key"));
    assert!(of(&[("at", "pg_lsn"), ("n", "integer")]).contains("is not sent"));
    assert!(of(&[("id", "bigint"), ("Name", "text"), ("name", "text")]).contains("nothing but case"));
    assert_eq!(of(&[("id", "bigint")]), "");
}

#[test]
fn highwaters_own_columns_get_other_names_where_the_table_has_theirs() {
    let plan =
        TablePlan::new(&table(&[("id", "bigint"), ("Source_LSN", "text"), ("_source_lsn", "text")]), &modes("{}"));
    assert!(plan.can_be_replicated());
    assert_eq!((plan.meta.source_lsn.as_str(), plan.meta.is_deleted.as_str()), ("__source_lsn", "is_deleted"));
}

#[test]
fn values_that_an_update_may_leave_out_are_named() {
    let columns = [
        ("id", "bigint"),
        ("note", "text"),
        ("days", "date[]"),
        ("tags", "text[]"),
        ("n", "numeric(12,2)"),
        ("b", "bit(1)"),
    ];
    let mut toasted = table(&columns);
    let warnings = TablePlan::new(&toasted, &modes("{}")).warnings;
    assert!(
        warnings[0].contains("keeps the value that it has") && warnings[0].ends_with("`note`, `tags`"),
        "{warnings:?}"
    );
    assert!(warnings[1].contains("lost in an update") && warnings[1].ends_with("`days`"), "{warnings:?}");
    toasted.replica_identity = ReplicaIdentity::Full;
    assert_eq!(TablePlan::new(&toasted, &modes("{}")).warnings, Vec::<String>::new());
}

#[test]
fn nulls_that_become_defaults_are_warned_of() {
    let with_default = |t: &mut Table| t.columns[1].has_default = true;
    let warned = |plan: TablePlan| plan.warnings.iter().any(|warning| warning.contains("`other`"));
    assert!(warned(plan(with_default, "{}")));
    assert!(!warned(plan(with_default, r#"{"value.converter.replace.null.with.default": "false"}"#)));
    assert!(!warned(plan(
        |t| {
            with_default(t);
            t.columns[1].not_null = true;
        },
        "{}"
    )));
}

#[test]
fn a_partitioned_table_says_what_its_publication_needs() {
    let warnings = plan(|t| t.partitioned = true, "{}").warnings;
    assert!(warnings[0].contains("publish_via_partition_root"), "{warnings:?}");
}

#[test]
fn names_that_other_writers_refuse_are_named() {
    let named =
        table(&[("id", "bigint"), ("a b", "boolean"), ("x=y", "boolean"), ("größe.", "boolean"), ("l r", "line")]);
    let warnings = TablePlan::new(&named, &modes("{}")).warnings;
    assert!(warnings[0].ends_with(": `a b`, `x=y`"), "{warnings:?}");
}
