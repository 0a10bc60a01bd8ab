//! [`ComparedTable`]: a table of the source, as it is compared with its replica, and the SQL for it.
//!
//! Ranges are over the key's order. It is the order of the key's own type where the replica has the same one, so that an
//! index serves a range; and else that of the key's text by its bytes, where one statement reads the whole table.

use std::fmt::Write as _;

use change::{Comparable, DataType, comparable::push_quoted};

use crate::{
    comparable::{self, built_in, quoted},
    table::{Column, Table},
};

/// A row's key: the text of each of its columns, as [`Comparable`] writes it.
pub type Key = Vec<Option<String>>;

/// A table of the source beside the replica's columns.
#[derive(Debug, Clone)]
pub struct ComparedTable {
    name: String,
    /// The whole row as one text, in SQL.
    row: String,
    key: Vec<KeyColumn>,
    columns: Vec<ComparedColumn>,
    /// SQL for the tokens of the columns that the source has, with each one's position in the replica.
    tokens: Vec<(usize, String)>,
    left_out: Vec<LeftOutColumn>,
    order: KeyOrder,
}

/// A column that both sides have.
#[derive(Debug, Clone)]
pub struct ComparedColumn {
    /// Its position in the replica's schema.
    pub position: usize,
    /// Its name in the source.
    pub name: String,
    /// How the replica's values are written.
    pub comparable: Comparable,
    /// SQL for the source's.
    text: String,
}

/// A column that is not compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOutColumn {
    /// Its name in the source.
    pub name: String,
    /// Why.
    pub reason: &'static str,
}

#[derive(Debug, Clone)]
struct KeyColumn {
    /// Its position in the replica's schema.
    position: usize,
    /// The column, and its text, in SQL.
    value: String,
    text: String,
    /// The type's name in SQL; `None` where rows are found by the text.
    type_name: Option<String>,
    comparable: Comparable,
    is_not_null: bool,
}

/// By what the rows of a table are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyOrder {
    /// The order of the key columns' types, on both sides.
    Native,
    /// That of the bytes of the key's row text.
    Text,
}

impl ComparedTable {
    /// The table of the catalog beside the replica's columns, each with its position there, and the positions of its key;
    /// `is_utf8` says whether the database is in UTF-8.
    ///
    /// # Errors
    /// Why it cannot be compared.
    pub(crate) fn new(
        table: &Table,
        replica: &[(usize, change::Column)],
        key: &[usize],
        is_utf8: bool,
    ) -> Result<Self, String> {
        let name = format!("{}.{}", quoted(&table.schema), quoted(&table.name));
        let of_source = |name: &str| table.columns.iter().find(|column| column.name == name);
        let (mut columns, mut tokens, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
        for (position, declared) in replica {
            let found = of_source(&declared.source);
            tokens.extend(found.map(|found| (*position, comparable::token(&value(found), found, declared))));
            let reason = match found {
                _ if declared.mask.is_some() => "it is masked",
                None => "the source does not have it any more",
                Some(found) => {
                    let (text, comparable) = comparable::text(&value(found), found, declared);
                    let name = declared.source.clone();
                    columns.push(ComparedColumn { position: *position, name, comparable, text });
                    continue;
                }
            };
            left_out.push(LeftOutColumn { name: declared.source.clone(), reason });
        }
        for found in &table.columns {
            if !replica.iter().any(|(_, column)| column.source == found.name) {
                left_out.push(LeftOutColumn { name: found.name.clone(), reason: "the replica does not have it" });
            }
        }
        let (mut parts, mut is_native) = (Vec::new(), true);
        for position in key {
            let declared = replica.iter().find(|(known, _)| known == position).map(|(_, column)| column);
            let declared = declared.filter(|column| column.mask.is_none()).ok_or("its key is masked")?;
            let found = of_source(&declared.source);
            let found = found.ok_or_else(|| format!("the source has no key column `{}`", declared.source))?;
            is_native &= is_ordered_alike(found, &declared.data_type);
            parts.push(KeyColumn::new(*position, found, declared));
        }
        let key = parts;
        let order = if is_native { KeyOrder::Native } else { KeyOrder::Text };
        let row = row_sql(columns.iter().map(|column| column.text.as_str()));
        let row = if is_utf8 { row } else { format!("convert_to({row}, 'UTF8')") };
        Ok(Self { name, row, key, columns, tokens, left_out, order })
    }

    /// The columns that are compared, in the replica's order.
    #[must_use]
    pub fn columns(&self) -> &[ComparedColumn] {
        &self.columns
    }

    /// The columns that are not.
    #[must_use]
    pub fn left_out(&self) -> &[LeftOutColumn] {
        &self.left_out
    }

    /// How the key's columns are written.
    pub fn key(&self) -> impl Iterator<Item = &Comparable> {
        self.key.iter().map(|column| &column.comparable)
    }

    /// The positions of the columns that the source has, in the replica's schema.
    pub(crate) fn positions(&self) -> impl Iterator<Item = usize> {
        self.tokens.iter().map(|(position, _)| *position)
    }

    /// A key as the tokens of its columns, each with its position in the replica's schema.
    #[must_use]
    pub fn key_tokens(&self, key: &Key) -> Vec<(usize, String)> {
        let parts = self.key.iter().zip(key);
        let token = |(column, text): (&KeyColumn, &Option<String>)| {
            text.as_deref().map(|text| (column.position, column.comparable.token(text)))
        };
        parts.filter_map(token).collect()
    }

    /// By what ranges are cut.
    #[must_use]
    pub fn order(&self) -> KeyOrder {
        self.order
    }

    /// What a key is compared by in ranges, as texts that PostgreSQL reads.
    pub(crate) fn place(&self, key: &Key) -> Vec<String> {
        match self.order {
            KeyOrder::Native => {
                let texts = self.key.iter().zip(key);
                texts
                    .map(|(column, text)| column.comparable.literal(text.as_deref().unwrap_or_default()).into_owned())
                    .collect()
            }
            KeyOrder::Text => {
                let mut row = String::new();
                for (place, text) in key.iter().enumerate() {
                    row += if place > 0 { "," } else { "" };
                    push_quoted(&mut row, text.as_deref());
                }
                vec![row]
            }
        }
    }

    /// Keys as arrays of texts that PostgreSQL reads, one a key column.
    pub(crate) fn literals(&self, keys: &[Key]) -> Vec<Vec<Option<String>>> {
        let each = |(place, column): (usize, &KeyColumn)| {
            let literal = |key: &Key| {
                let text = key[place].as_deref()?;
                let by_text = column.type_name.is_none();
                Some(if by_text { text.to_owned() } else { column.comparable.literal(text).into_owned() })
            };
            keys.iter().map(literal).collect()
        };
        self.key.iter().enumerate().map(each).collect()
    }

    /// The expressions that rows are ordered by, each with the type of what it is compared with.
    fn places(&self) -> Vec<(String, String)> {
        match self.order {
            KeyOrder::Native => {
                let each = self.key.iter();
                each.map(|key| (key.value.clone(), key.type_name.clone().unwrap_or_default())).collect()
            }
            KeyOrder::Text => {
                let row = row_sql(self.key.iter().map(|column| column.text.as_str()));
                vec![(format!("({row} collate \"C\")"), "text".to_owned())]
            }
        }
    }

    /// Rows after `after` up to `up_to` and none of the excluded keys; counts the parameters that it takes.
    fn condition(&self, bounds: Bounds, parameters: &mut usize) -> String {
        let places = self.places();
        let row = places.iter().map(|(place, _)| place.as_str()).collect::<Vec<_>>().join(", ");
        let mut conditions = Vec::new();
        let mut bound = |operator: &str| {
            let each = places.iter().map(|(_, type_name)| format!("${}::text::{type_name}", next(parameters)));
            conditions.push(format!("({row}) {operator} ({})", each.collect::<Vec<_>>().join(", ")));
        };
        if bounds.after {
            bound(">");
        }
        if bounds.up_to {
            bound("<=");
        }
        if bounds.excluded {
            let arrays =
                self.key.iter().map(|_| format!("${}::text[]", next(parameters))).collect::<Vec<_>>().join(", ");
            conditions.push(format!(
                "not exists (select from unnest({arrays}) as x({}) where {})",
                self.names(),
                self.same_key()
            ));
        }
        if conditions.is_empty() { "true".to_owned() } else { conditions.join(" and ") }
    }

    /// Digests of the ranges: which one, how many rows, the sum of their hashes, and the hash of these in the key's order.
    /// `is_cut`: into several, between places that an array names.
    pub(crate) fn digests(&self, bounds: Bounds, is_cut: bool) -> String {
        let places = self.places();
        let mut parameters = 0;
        let condition = self.condition(bounds, &mut parameters);
        let range = match places.as_slice() {
            [(place, _)] if is_cut => format!("width_bucket({place}, ${}::text[])", next(&mut parameters)),
            _ => "0".to_owned(),
        };
        let named = |(at, (place, _)): (usize, &(String, String))| format!("{place} as p{at}");
        let named = places.iter().enumerate().map(named).collect::<Vec<_>>().join(", ");
        let order = (0..places.len()).map(|at| format!("p{at}")).collect::<Vec<_>>().join(", ");
        // the offset keeps the hash from being made twice
        format!(
            "select range, count(*), sum(('x' || left(hash, 16))::bit(64)::bigint)::text, \
             md5(string_agg(hash, '' order by {order})) \
             from (select {range} as range, {named}, md5({}) as hash from {} as t where {condition} offset 0) as r \
             group by range",
            self.row, self.name
        )
    }

    /// Each row of a range: the texts of its key, and its hash.
    pub(crate) fn rows(&self, bounds: Bounds) -> String {
        let condition = self.condition(bounds, &mut 0);
        let key = self.key.iter().fold(String::new(), |sql, key| sql + &key.text + ", ");
        format!("select {key}md5({}) from {} as t where {condition}", self.row, self.name)
    }

    /// The rows of some keys: the key's number from 1 on, and the row's hash, or the text of each column.
    pub(crate) fn named(&self, wanted: Wanted) -> String {
        let arrays = (1..=self.key.len()).map(|at| format!("${at}::text[]")).collect::<Vec<_>>().join(", ");
        let mut sql = "select x.number".to_owned();
        match wanted {
            Wanted::Hash => _ = write!(sql, ", md5({})", self.row),
            Wanted::Tokens => self.tokens.iter().for_each(|(_, token)| _ = write!(sql, ", {token}")),
            Wanted::Columns => self.columns.iter().for_each(|column| _ = write!(sql, ", {}", column.text)),
        }
        _ = write!(
            sql,
            " from unnest({arrays}) with ordinality as x({}, number) join {} as t on {}",
            self.names(),
            self.name,
            self.same_key()
        );
        sql
    }

    /// The whole table in one line, for a person with psql: rows, the sum of their hashes, and the hash over those of
    /// blocks of `block` rows in the key's order.
    #[must_use]
    pub fn oracle(&self, block: u64) -> String {
        let order = self.places().into_iter().map(|(place, _)| place).collect::<Vec<_>>().join(", ");
        format!(
            "set timezone = 'UTC'; set datestyle = 'ISO'; set bytea_output = 'hex';\n\
             select sum(rows) as rows, sum(sum) as sum, md5(string_agg(ordered, '' order by block)) as ordered\n\
             from (select block, count(*) as rows, sum(('x' || left(hash, 16))::bit(64)::bigint) as sum,\n\
             \x20            md5(string_agg(hash, '' order by number)) as ordered\n\
             \x20     from (select (number - 1) / {block} as block, number, hash\n\
             \x20           from (select row_number() over (order by {order}) as number, md5({}) as hash from {} as t) as r) as b\n\
             \x20     group by block) as t;",
            self.row, self.name
        )
    }

    fn names(&self) -> String {
        (0..self.key.len()).map(|at| format!("k{at}")).collect::<Vec<_>>().join(", ")
    }

    /// The key of a row `t` is that of `x`.
    fn same_key(&self) -> String {
        let equal = self.key.iter().enumerate().map(|(at, key)| {
            // no index is used for the other one
            let operator = if key.is_not_null { "=" } else { "is not distinct from" };
            match &key.type_name {
                Some(type_name) => format!("{} {operator} x.k{at}::{type_name}", key.value),
                None => format!("{} {operator} x.k{at}", key.text),
            }
        });
        equal.collect::<Vec<_>>().join(" and ")
    }
}

/// What bounds the rows of a statement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// They come after a place.
    pub(crate) after: bool,
    /// They come up to a place, which is one of them.
    pub(crate) up_to: bool,
    /// Some keys are left out.
    pub(crate) excluded: bool,
}

/// What is wanted of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wanted {
    /// Its hash.
    Hash,
    /// The text of each column that is compared.
    Columns,
    /// The token of each column that the source has.
    Tokens,
}

impl KeyColumn {
    fn new(position: usize, found: &Column, declared: &change::Column) -> Self {
        let value = value(found);
        let (text, comparable) = comparable::text(&value, found, declared);
        let has_literal = !matches!(built_in(&found.base), Some("timetz" | "bit" | "varbit" | "money"));
        let type_name = has_literal.then(|| format!("{}.{}", quoted(&found.base.schema), quoted(&found.base.name)));
        Self { position, value, text, type_name, comparable, is_not_null: found.not_null }
    }
}

/// Whether both sides order the values alike, and none of them is null.
fn is_ordered_alike(column: &Column, data_type: &DataType) -> bool {
    let is_alike = match (built_in(&column.base), data_type) {
        (Some("int2" | "int4" | "int8"), DataType::Short | DataType::Int | DataType::Long)
        | (Some("numeric"), DataType::Decimal { .. })
        | (Some("bool"), DataType::Boolean)
        | (Some("date"), DataType::Date)
        | (Some("timestamp"), DataType::TimestampNtz)
        | (Some("timestamptz"), DataType::Timestamp)
        | (Some("uuid"), DataType::String)
        | (Some("bytea"), DataType::Binary) => true,
        (Some("text" | "varchar"), DataType::String) => column.by_bytes,
        _ => false,
    };
    is_alike && column.not_null
}

fn value(column: &Column) -> String {
    format!("t.{}", quoted(&column.name))
}

fn next(parameters: &mut usize) -> usize {
    *parameters += 1;
    *parameters
}

/// SQL for a row text of these texts. PostgreSQL takes no more than a hundred arguments.
fn row_sql<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    const ARGUMENTS: usize = 90;
    let quoted: Vec<_> = texts.map(|text| format!("quote_nullable({text})")).collect();
    let parts: Vec<_> = quoted.chunks(ARGUMENTS).map(|part| format!("concat_ws(',', {})", part.join(", "))).collect();
    if let [one] = parts.as_slice() { one.clone() } else { format!("concat_ws(',', {})", parts.join(", ")) }
}
