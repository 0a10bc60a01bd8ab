//! From the text of an Avro schema to its [`Type`] and to the record schema.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use serde_json::{Map, Value};

use super::{Field, Type, logical};
use crate::connect::Schema;

/// Debezium's envelopes are 6 types deep.
const DEPTH_MAX: usize = 64;
/// A table of 1,600 columns, PostgreSQL's limit, has 10,000 of them. What a schema names twice counts twice.
const TYPES_MAX: usize = 100_000;

/// Parses a schema. The types of `references` are known in it, those of the first ones in the later ones, too.
///
/// # Errors
/// A sentence that says why the schema cannot be used.
pub(crate) fn parse(text: &str, references: &[String]) -> Result<(Type, Schema), String> {
    let mut parser = Parser::default();
    for reference in references {
        parser.text(reference)?;
    }
    let Parsed { of, schema, .. } = parser.text(text)?;
    Ok((of, schema))
}

/// A type, what it means, and how many types deep it is.
#[derive(Clone)]
struct Parsed {
    of: Type,
    schema: Schema,
    depth: usize,
}

impl Parsed {
    fn flat(of: Type, base: &'static str) -> Self {
        Self { of, schema: Schema::of(base), depth: 1 }
    }
}

#[derive(Default)]
struct Parser {
    /// The types that have a name, by their full one, and how many types are in each.
    named: HashMap<String, (Parsed, usize)>,
    /// Those that are being parsed.
    open: HashSet<String>,
    types: usize,
}

impl Parser {
    fn text(&mut self, text: &str) -> Result<Parsed, String> {
        let json: Value = serde_json::from_str(text).map_err(|_| "it is no JSON".to_owned())?;
        self.parse(&json, "")
    }

    fn parse(&mut self, json: &Value, namespace: &str) -> Result<Parsed, String> {
        self.count(1)?;
        let parsed = match json {
            Value::String(name) => self.by_name(name, namespace)?,
            Value::Array(branches) => self.union(branches, namespace)?,
            Value::Object(declared) => self.declared(declared, namespace)?,
            _ => return Err("a type is neither a name, a list nor an object".to_owned()),
        };
        if parsed.depth > DEPTH_MAX { Err(format!("it is more than {DEPTH_MAX} types deep")) } else { Ok(parsed) }
    }

    fn count(&mut self, types: usize) -> Result<(), String> {
        self.types += types;
        if self.types > TYPES_MAX { Err(format!("it has more than {TYPES_MAX} types")) } else { Ok(()) }
    }

    fn declared(&mut self, declared: &Map<String, Value>, namespace: &str) -> Result<Parsed, String> {
        let kind = part(declared, "type")?;
        let mut parsed = match kind.as_str() {
            Some("record" | "error") => return self.define(declared, namespace, Self::record),
            Some("enum") => return self.define(declared, namespace, |_, _, declared, _| enumeration(declared)),
            Some("fixed") => return self.define(declared, namespace, |_, _, declared, _| fixed(declared)),
            Some("array") => {
                let Parsed { of, schema, depth } = self.parse(part(declared, "items")?, namespace)?;
                Parsed { of: Type::Array(of.into()), schema: Schema::array(schema), depth: depth + 1 }
            }
            Some("map") => {
                let Parsed { of, schema, depth } = self.parse(part(declared, "values")?, namespace)?;
                Parsed { of: Type::Map(of.into()), schema: Schema::map(schema), depth: depth + 1 }
            }
            _ => self.parse(kind, namespace)?,
        };
        logical::annotate(&mut parsed.schema, declared);
        Ok(parsed)
    }

    /// Defines a type with a name; `body` gets the full name, the declaration and the namespace of the names in it.
    fn define(
        &mut self,
        declared: &Map<String, Value>,
        namespace: &str,
        body: impl FnOnce(&mut Self, &str, &Map<String, Value>, &str) -> Result<Parsed, String>,
    ) -> Result<Parsed, String> {
        let name = part(declared, "name")?.as_str().ok_or("a type's name is no string")?;
        let (name, namespace) = full_name(name, declared, namespace);
        let before = self.types;
        self.open.insert(name.clone());
        let mut parsed = body(self, &name, declared, &namespace)?;
        self.open.remove(&name);
        logical::annotate(&mut parsed.schema, declared);
        self.named.insert(name, (parsed.clone(), self.types - before));
        Ok(parsed)
    }

    fn record(&mut self, name: &str, declared: &Map<String, Value>, namespace: &str) -> Result<Parsed, String> {
        let (mut fields, mut schemas, mut deepest) = (Vec::new(), Vec::new(), 0);
        for field in part(declared, "fields")?.as_array().ok_or("a record's fields are no list")? {
            let name = field.get("name").and_then(Value::as_str).ok_or("a field has no name")?;
            let json = field.get("type").ok_or_else(|| format!("field `{name}` has no type"))?;
            let Parsed { of, schema, depth } = self.parse(json, namespace).map_err(|why| at(name, why))?;
            fields.push(Field { name: name.to_owned(), label: format!("{}:", Value::from(name)), of });
            schemas.push(Schema { field: Some(name.to_owned()), ..schema });
            deepest = deepest.max(depth);
        }
        let schema = Schema { fields: schemas, name: Some(name.to_owned()), ..Schema::of("struct") };
        Ok(Parsed { of: Type::Record(fields.into()), schema, depth: deepest + 1 })
    }

    fn union(&mut self, branches: &[Value], namespace: &str) -> Result<Parsed, String> {
        let (mut types, mut other, mut optional) = (Vec::new(), None, false);
        for branch in branches {
            if *branch == "null" {
                optional = true;
                types.push(Type::Null);
                continue;
            }
            let Parsed { of, schema, depth } = self.parse(branch, namespace)?;
            types.push(of);
            if other.replace((schema, depth)).is_some() {
                return Err("a union has more than one type beside null".to_owned());
            }
        }
        let (schema, depth) = other.ok_or("a union has no type beside null")?;
        Ok(Parsed { of: Type::Union(types.into()), schema: Schema { optional, ..schema }, depth: depth + 1 })
    }

    fn by_name(&mut self, name: &str, namespace: &str) -> Result<Parsed, String> {
        Ok(match name {
            "boolean" => Parsed::flat(Type::Boolean, "boolean"),
            "int" => Parsed::flat(Type::Int, "int32"),
            "long" => Parsed::flat(Type::Long, "int64"),
            "float" => Parsed::flat(Type::Float, "float"),
            "double" => Parsed::flat(Type::Double, "double"),
            "bytes" => Parsed::flat(Type::Bytes, "bytes"),
            "string" => Parsed::flat(Type::String, "string"),
            "null" => return Err("a type is null and nothing else".to_owned()),
            _ => return self.reference(name, namespace),
        })
    }

    fn reference(&mut self, name: &str, namespace: &str) -> Result<Parsed, String> {
        let full = qualified(name, namespace);
        if self.open.contains(&full) {
            return Err(format!("type `{full}` contains itself"));
        }
        let found = self.named.get(&full).or_else(|| self.named.get(name));
        let (parsed, types) = found.cloned().ok_or_else(|| format!("type `{full}` is not defined"))?;
        self.count(types)?;
        Ok(parsed)
    }
}

fn enumeration(declared: &Map<String, Value>) -> Result<Parsed, String> {
    let symbols = part(declared, "symbols")?.as_array().ok_or("an enum's symbols are no list")?;
    let symbols: Option<Arc<[String]>> =
        symbols.iter().map(|symbol| Some(Value::from(symbol.as_str()?).to_string())).collect();
    Ok(Parsed::flat(Type::Enum(symbols.ok_or("an enum's symbol is no string")?), "string"))
}

fn fixed(declared: &Map<String, Value>) -> Result<Parsed, String> {
    let size = part(declared, "size")?.as_u64().and_then(|size| usize::try_from(size).ok());
    Ok(Parsed::flat(Type::Fixed(size.ok_or("a fixed type's size is no number")?), "bytes"))
}

/// The innermost field is named: it is where to look.
fn at(field: &str, why: String) -> String {
    if why.starts_with("field `") { why } else { format!("field `{field}`: {why}") }
}

fn part<'a>(declared: &'a Map<String, Value>, name: &str) -> Result<&'a Value, String> {
    declared.get(name).ok_or_else(|| format!("a type has no `{name}`"))
}

/// The name with its namespace, and that namespace: the one in the name, that of the declaration, or the surrounding one.
fn full_name(name: &str, declared: &Map<String, Value>, namespace: &str) -> (String, String) {
    if let Some((namespace, _)) = name.rsplit_once('.') {
        return (name.to_owned(), namespace.to_owned());
    }
    let namespace = declared.get("namespace").and_then(Value::as_str).unwrap_or(namespace);
    (qualified(name, namespace), namespace.to_owned())
}

fn qualified(name: &str, namespace: &str) -> String {
    if namespace.is_empty() || name.contains('.') { name.to_owned() } else { format!("{namespace}.{name}") }
}
