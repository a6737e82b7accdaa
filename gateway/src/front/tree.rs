//! The body as a tree of borrowed JSON, each value with the path that leads to it, so that every fault names its field.
//!
//! One pass over the body: strings without escapes stay slices of it, and objects are lists of pairs. Measured on
//! 20 KB, nested `RawValue`s scan the same bytes once a level and take three times as long as a `Value`.

use super::bad_request::BadRequest;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::{Number, Value};
use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

/// Values in one body: 500,000. A value of two bytes takes 32 in the tree, so this bounds what a body grows to at
/// 28 MB or so; the largest conversations have some tens of thousands.
const VALUES_MAX: usize = 500_000;
/// Characters of the caller's own text that a fault repeats: 80, enough to find it by.
const QUOTED_CHARS_MAX: usize = 80;

/// Reads a body as far as being one JSON value.
pub(super) fn read(body: &[u8]) -> Result<Tree<'_>, BadRequest> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let values = Cell::new(0);
    let tree = Grow(&values).deserialize(&mut reader);
    let whole = tree.and_then(|tree| reader.end().map(|()| tree));
    whole.map_err(|error| BadRequest {
        field: Path::Top.to_string(),
        rule: format!("can not be read as JSON ({error})"),
        mend: "send one JSON object, in UTF-8".to_owned(),
    })
}

/// Text of the caller's, cut short and quoted.
pub(super) fn quoted(text: &str) -> String {
    let short: String = text.chars().take(QUOTED_CHARS_MAX).collect();
    if short.len() < text.len() { format!("{short:?}…") } else { format!("{short:?}") }
}

/// Where a value stands in the body. A chain on the stack: it costs nothing until a fault prints it.
#[derive(Debug, Clone, Copy)]
enum Path<'p> {
    Top,
    Field(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Top => f.write_str("body"),
            Self::Field(Self::Top, name) => write!(f, "{name}"),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// A JSON value that borrows from the body.
#[derive(Debug)]
pub(super) enum Tree<'a> {
    Null,
    Flag(bool),
    Number(Number),
    Text(Cow<'a, str>),
    List(Vec<Tree<'a>>),
    /// Fields in the order of the body.
    Object(Vec<(Cow<'a, str>, Tree<'a>)>),
}

impl Tree<'_> {
    /// A tree of its own; of two fields with one name the last counts. No deeper than the reader let the body be.
    fn value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Flag(flag) => Value::Bool(*flag),
            Self::Number(number) => Value::Number(number.clone()),
            Self::Text(text) => Value::String(text.clone().into_owned()),
            Self::List(items) => items.iter().map(Self::value).collect(),
            Self::Object(fields) => fields
                .iter()
                .map(|(key, value)| (key.clone().into_owned(), value.value()))
                .collect(),
        }
    }
}

impl Serialize for Tree<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Flag(flag) => serializer.serialize_bool(*flag),
            Self::Number(number) => number.serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => serializer.collect_seq(items),
            Self::Object(fields) => {
                serializer.collect_map(fields.iter().map(|(key, value)| (key, value)))
            }
        }
    }
}

/// What sort of value it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Text,
    Number,
    Flag,
    List,
    Object,
    Null,
}

impl fmt::Display for Sort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "a string",
            Self::Number => "a number",
            Self::Flag => "true or false",
            Self::List => "a list",
            Self::Object => "an object",
            Self::Null => "null",
        })
    }
}

/// A value and its path.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node<'p, 't> {
    path: Path<'p>,
    tree: &'t Tree<'t>,
}

impl<'p, 't> Node<'p, 't> {
    pub(super) const fn top(tree: &'t Tree<'t>) -> Self {
        Self { path: Path::Top, tree }
    }

    pub(super) const fn sort(&self) -> Sort {
        match self.tree {
            Tree::Null => Sort::Null,
            Tree::Flag(_) => Sort::Flag,
            Tree::Number(_) => Sort::Number,
            Tree::Text(_) => Sort::Text,
            Tree::List(_) => Sort::List,
            Tree::Object(_) => Sort::Object,
        }
    }

    /// Where it stands, for a fault that is found later.
    pub(super) fn field(&self) -> String {
        self.path.to_string()
    }

    /// The fault of this value.
    pub(super) fn refuse(&self, rule: impl Into<String>, mend: impl Into<String>) -> BadRequest {
        BadRequest { field: self.path.to_string(), rule: rule.into(), mend: mend.into() }
    }

    /// The fault of being of another sort than `wanted`.
    pub(super) fn missorted(&self, wanted: &str) -> BadRequest {
        self.refuse(format!("must be {wanted}, not {}", self.sort()), format!("send {wanted}"))
    }

    pub(super) fn word(&self) -> Result<&'t str, BadRequest> {
        if let Tree::Text(text) = self.tree { Ok(text) } else { Err(self.missorted("a string")) }
    }

    pub(super) fn text(&self) -> Result<String, BadRequest> {
        self.word().map(str::to_owned)
    }

    /// A string that says something.
    pub(super) fn name(&self, mend: &str) -> Result<String, BadRequest> {
        let text = self.text()?;
        if text.is_empty() { Err(self.refuse("must not be empty", mend)) } else { Ok(text) }
    }

    pub(super) fn flag(&self) -> Result<bool, BadRequest> {
        if let Tree::Flag(flag) = self.tree {
            Ok(*flag)
        } else {
            Err(self.missorted("true or false"))
        }
    }

    pub(super) fn number(&self) -> Result<&'t Number, BadRequest> {
        if let Tree::Number(number) = self.tree {
            Ok(number)
        } else {
            Err(self.missorted("a number"))
        }
    }

    pub(super) fn object(&self) -> Result<Object<'p, 't>, BadRequest> {
        if let Tree::Object(fields) = self.tree {
            Ok(Object { path: self.path, fields })
        } else {
            Err(self.missorted("an object"))
        }
    }

    pub(super) fn list(&self) -> Result<List<'p, 't>, BadRequest> {
        if let Tree::List(items) = self.tree {
            Ok(List { path: self.path, items })
        } else {
            Err(self.missorted("a list"))
        }
    }

    /// The whole value as text, its fields in the order of the body: a model that reads its own call again shall find
    /// it as it was.
    pub(super) fn json(&self) -> String {
        // A tree has strings for keys and no number that JSON lacks; serialising it can not fail.
        serde_json::to_string(self.tree).unwrap_or_default()
    }

    /// The whole value, for keeping.
    pub(super) fn value(&self) -> Value {
        self.tree.value()
    }
}

/// A list and its path.
#[derive(Debug)]
pub(super) struct List<'p, 't> {
    path: Path<'p>,
    items: &'t [Tree<'t>],
}

impl<'t> List<'_, 't> {
    pub(super) const fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Node<'_, 't>> {
        let path = &self.path;
        let items = self.items.iter().enumerate();
        items.map(move |(index, tree)| Node { path: Path::Item(path, index), tree })
    }
}

/// An object and its path.
#[derive(Debug)]
pub(super) struct Object<'p, 't> {
    path: Path<'p>,
    fields: &'t [(Cow<'t, str>, Tree<'t>)],
}

impl<'t> Object<'_, 't> {
    /// A field; null counts as absent, and of two with one name the last counts, as in most parsers.
    pub(super) fn get<'s>(&'s self, name: &'s str) -> Option<Node<'s, 't>> {
        let (_, tree) = self.fields.iter().rev().find(|(key, _)| key == name)?;
        let node = Node { path: Path::Field(&self.path, name), tree };
        (node.sort() != Sort::Null).then_some(node)
    }

    /// A field that must be there.
    pub(super) fn need<'s>(
        &'s self,
        name: &'s str,
        mend: &str,
    ) -> Result<Node<'s, 't>, BadRequest> {
        self.get(name).ok_or_else(|| BadRequest {
            field: Path::Field(&self.path, name).to_string(),
            rule: "is missing".to_owned(),
            mend: mend.to_owned(),
        })
    }

    /// The whole object, for keeping.
    pub(super) fn value(&self) -> Value {
        let field =
            |(key, value): &(Cow<'_, str>, Tree<'_>)| (key.clone().into_owned(), value.value());
        self.fields.iter().map(field).collect()
    }

    /// Fields, null ones too.
    pub(super) const fn len(&self) -> usize {
        self.fields.len()
    }

    /// Every field, null ones too.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'t str, Node<'_, 't>)> {
        let path = &self.path;
        self.fields
            .iter()
            .map(move |(key, tree)| (key.as_ref(), Node { path: Path::Field(path, key), tree }))
    }
}

/// Grows a tree and counts its values.
#[derive(Clone, Copy)]
struct Grow<'c>(&'c Cell<usize>);

impl<'a> DeserializeSeed<'a> for Grow<'_> {
    type Value = Tree<'a>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Tree<'a>, D::Error> {
        let Self(values) = self;
        values.set(values.get() + 1);
        if values.get() > VALUES_MAX {
            return Err(D::Error::custom(format!("more than {VALUES_MAX} values")));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Grow<'_> {
    type Value = Tree<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Tree<'a>, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Tree<'a>, E> {
        Ok(Tree::Flag(flag))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Tree<'a>, E> {
        Ok(Tree::Number(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Tree<'a>, E> {
        Ok(Tree::Number(number.into()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Tree<'a>, E> {
        let number = Number::from_f64(number).ok_or_else(|| E::custom("number out of range"))?;
        Ok(Tree::Number(number))
    }

    fn visit_borrowed_str<E>(self, text: &'a str) -> Result<Tree<'a>, E> {
        Ok(Tree::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree<'a>, E> {
        Ok(Tree::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<S: SeqAccess<'a>>(self, mut seq: S) -> Result<Tree<'a>, S::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<Tree<'a>, M::Error> {
        let mut fields = Vec::new();
        while let Some(key) = map.next_key_seed(Name)? {
            fields.push((key, map.next_value_seed(self)?));
        }
        Ok(Tree::Object(fields))
    }
}

/// Reads the name of a field without copying it.
struct Name;

impl<'a> DeserializeSeed<'a> for Name {
    type Value = Cow<'a, str>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Cow<'a, str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'a> for Name {
    type Value = Cow<'a, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field's name")
    }

    fn visit_borrowed_str<E>(self, text: &'a str) -> Result<Cow<'a, str>, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Cow<'a, str>, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}
