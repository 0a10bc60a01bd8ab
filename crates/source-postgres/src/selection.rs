//! [`Selection`]: which tables are asked for.

use crate::{Modes, ModesError, patterns::Patterns};

/// The tables that the connector captures, or those among them that are named.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Names or patterns of `schema.table`; all where empty.
    named: Option<Patterns>,
    schemas: Filter,
    tables: Filter,
    /// The connector reads this table and does not publish it.
    signals: Option<String>,
}

/// An include list, which leaves out what it does not name, or an exclude list.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    pub(crate) include: Option<Patterns>,
    pub(crate) exclude: Option<Patterns>,
}

impl Filter {
    pub(crate) fn takes(&self, name: &str) -> bool {
        self.include.as_ref().is_none_or(|include| include.matches(name))
            && !self.exclude.as_ref().is_some_and(|exclude| exclude.matches(name))
    }
}

/// What a selection takes of a list of tables.
pub(crate) struct Taken {
    /// Of each table, whether it is taken.
    pub(crate) tables: Vec<bool>,
    /// Patterns that are about none of them.
    pub(crate) unmatched: Vec<String>,
}

impl Selection {
    /// What `modes`' connector captures; where `named` is not empty, only what it names among them. Each of these is a
    /// table's `schema.table`, or a regular expression about it, whatever its case, as in `table.include.list`.
    ///
    /// # Errors
    /// [`ModesError`] names the first that is no regular expression.
    pub fn new(modes: &Modes, named: &[String]) -> Result<Self, ModesError> {
        Ok(Self {
            named: if named.is_empty() { None } else { Some(Patterns::each("--table", named)?) },
            schemas: modes.schemas.clone(),
            tables: modes.tables.clone(),
            signals: modes.signals.clone(),
        })
    }

    /// What it takes of these (schema, table) pairs. A pattern that is some table's very name takes that table alone.
    pub(crate) fn taken(&self, tables: &[(&str, &str)]) -> Taken {
        let names: Vec<String> = tables.iter().map(|(schema, table)| format!("{schema}.{table}")).collect();
        let is_named = |name: &String| {
            self.named.as_ref().is_none_or(|named| {
                named
                    .iter()
                    .any(|pattern| pattern.text == *name || !names.contains(&pattern.text) && pattern.matches(name))
            })
        };
        let takes = |(name, (schema, _)): (&String, &(&str, &str))| {
            is_named(name)
                && self.schemas.takes(schema)
                && self.tables.takes(name)
                && self.signals.as_ref() != Some(name)
        };
        let patterns = [&self.named, &self.tables.include].into_iter().flatten().flat_map(Patterns::iter);
        let idle = patterns.filter(|pattern| !names.iter().any(|name| pattern.text == *name || pattern.matches(name)));
        Taken {
            unmatched: idle.map(|pattern| pattern.text.clone()).collect(),
            tables: names.iter().zip(tables).map(takes).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLES: [(&str, &str); 5] = [
        ("public", "orders"),
        ("public", "order_lines"),
        ("public", "Orders"),
        ("sales", "orders"),
        ("public", "signal"),
    ];

    fn taken(connector: &str, named: &[&str]) -> (Vec<bool>, Vec<String>) {
        let modes = Modes::from_connector(connector).unwrap();
        let named: Vec<String> = named.iter().map(|&name| name.to_owned()).collect();
        let taken = Selection::new(&modes, &named).unwrap().taken(&TABLES);
        (taken.tables, taken.unmatched)
    }

    #[test]
    fn a_name_takes_one_table_and_a_pattern_all_that_it_is_about() {
        type Case = (&'static str, &'static [&'static str], [bool; 5], &'static [&'static str]);
        let table: &[Case] = &[
            ("{}", &[], [true; 5], &[]),
            ("{}", &["public.orders"], [true, false, false, false, false], &[]),
            ("{}", &["public.order.*"], [true, true, true, false, false], &[]),
            ("{}", &["PUBLIC.ORDERS"], [true, false, true, false, false], &[]),
            ("{}", &["sales.*", "shop.x"], [false, false, false, true, false], &["shop.x"]),
        ];
        for (connector, named, tables, unmatched) in table {
            assert_eq!(taken(connector, named), (tables.to_vec(), unmatched.iter().map(|&u| u.to_owned()).collect()));
        }
    }

    #[test]
    fn the_lists_of_the_connector_are_followed() {
        let tables = |connector| taken(connector, &[]).0;
        assert_eq!(tables(r#"{"table.include.list":"public.orders"}"#), [true, false, true, false, false]);
        assert_eq!(tables(r#"{"table.exclude.list":"public.o.*"}"#), [false, false, false, true, true]);
        assert_eq!(tables(r#"{"schema.include.list":"sales"}"#), [false, false, false, true, false]);
        assert_eq!(tables(r#"{"schema.exclude.list":"public"}"#), [false, false, false, true, false]);
        assert_eq!(tables(r#"{"signal.data.collection":"public.signal"}"#), [true, true, true, true, false]);
        let both = taken(r#"{"table.include.list":"public.orders,public.gone"}"#, &["public.order.*"]);
        assert_eq!(both, (vec![true, false, true, false, false], vec!["public.gone".to_owned()]));
    }
}
