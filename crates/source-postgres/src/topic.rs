//! Names that the connector makes of a table's: of its topic, and likewise of its folder.

/// The length at which Kafka's topic names end.
const LENGTH_MAX: usize = 249;

/// A table's topic: Debezium's `SchemaTopicNamingStrategy`.
pub(crate) fn topic(prefix: &str, delimiter: &str, schema: &str, table: &str) -> String {
    let mut name = plain(&[prefix, schema, table].join(delimiter));
    name.truncate(LENGTH_MAX);
    name
}

/// A folder's name.
pub(crate) fn folder(name: &str) -> String {
    let folder = plain(name);
    if folder.chars().all(|c| c == '.') { "_".repeat(folder.len()) } else { folder }
}

/// All but ASCII letters, digits, `.`, `_` and `-` become `_`, each UTF-16 unit (Java's `char`) one.
fn plain(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    name.chars().map(|c| if is_plain(c) { c.to_string() } else { "_".repeat(c.len_utf16()) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_named_as_debezium_names_it() {
        assert_eq!(topic("shop", ".", "public", "orders"), "shop.public.orders");
        assert_eq!(topic("shop", ".", "public", "Größen 2.0/\u{1F600}"), "shop.public.Gr__en_2.0___");
        assert_eq!(topic("a", "_", "b", &"c".repeat(300)).len(), 249);
    }

    #[test]
    fn a_folder_leads_nowhere_else() {
        assert_eq!(folder(".."), "__");
        assert_eq!(folder("a/../b"), "a_.._b");
        assert_eq!(folder("orders.2024"), "orders.2024");
    }
}
