//! Parts of a client's request that only its own dialect can express, stored unchanged.
//!
//! Each value has the name of its dialect, and can be read only with that name, so that encoders see only
//! values of their own dialect. Fields, declarations and content parts therefore never reach an upstream that
//! would misinterpret them. Only the dialects' `fit` module reads values of all dialects, because it
//! translates them.

use serde_json::{Map, Value};

/// A value as it is written in one dialect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received<T> {
    dialect: &'static str,
    value: T,
}

impl<T> Received<T> {
    /// Creates a value from a client of `dialect`.
    pub fn new(dialect: &'static str, value: T) -> Self {
        Self { dialect, value }
    }

    /// The value, if it came from `dialect`.
    pub fn from_dialect(&self, dialect: &str) -> Option<&T> {
        (self.dialect == dialect).then_some(&self.value)
    }

    /// The name of the dialect and the value, for code that translates it.
    pub fn parts(&self) -> (&'static str, &T) {
        (self.dialect, &self.value)
    }
}

/// The fields of an object that [`Conversation`](super::Conversation) does not model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rest(Option<Received<Map<String, Value>>>);

impl Rest {
    /// Creates the fields from a client of `dialect`.
    pub fn new(dialect: &'static str, fields: Map<String, Value>) -> Self {
        Self((!fields.is_empty()).then(|| Received::new(dialect, fields)))
    }

    /// The fields, if there are any and they came from `dialect`.
    pub fn from_dialect(&self, dialect: &str) -> Option<&Map<String, Value>> {
        self.0.as_ref()?.from_dialect(dialect)
    }

    /// The fields, whatever their dialect.
    pub fn fields(&self) -> Option<&Map<String, Value>> {
        self.0.as_ref().map(|received| &received.value)
    }

    /// The names of all fields, to report what was left out.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.0.iter().flat_map(|received| received.value.keys())
    }

    /// The names of the fields, if they came from a dialect other than `dialect`.
    pub fn foreign_keys(&self, dialect: &str) -> impl Iterator<Item = &String> {
        let foreign = self.0.iter().filter(move |received| received.dialect != dialect);
        foreign.flat_map(|received| received.value.keys())
    }

    /// The value of the field `key`, whatever its dialect.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.as_ref()?.value.get(key)
    }

    /// Whether there is a field `key`.
    pub fn contains(&self, key: &str) -> bool {
        self.0.as_ref().is_some_and(|received| received.value.contains_key(key))
    }

    /// Adds the declaration of a server tool for upstreams of `dialect`. Fields of another dialect are
    /// dropped.
    pub fn add_tool(&mut self, dialect: &'static str, tool: Value) {
        let mut fields = match self.0.take() {
            Some(received) if received.dialect == dialect => received.value,
            _ => Map::new(),
        };
        match fields.get_mut("tools").and_then(Value::as_array_mut) {
            Some(tools) => tools.push(tool),
            None => _ = fields.insert("tools".to_owned(), vec![tool].into()),
        }
        *self = Self::new(dialect, fields);
    }

    /// Keeps only the declarations of server tools whose types satisfy `is_kept`.
    pub fn retain_tools(&mut self, is_kept: impl Fn(&str) -> bool) {
        let Some(received) = &mut self.0 else { return };
        let Some(tools) = received.value.get_mut("tools").and_then(Value::as_array_mut) else { return };
        tools.retain(|tool| tool.get("type").and_then(Value::as_str).is_none_or(&is_kept));
        if tools.is_empty() {
            self.remove("tools");
        }
    }

    /// The value of the field `key`, to be changed.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.0.as_mut()?.value.get_mut(key)
    }

    /// Sets the field `key` for upstreams of `dialect`, unless the fields are those of another dialect.
    pub fn set(&mut self, dialect: &'static str, key: &str, value: Value) {
        match &mut self.0 {
            Some(received) if received.dialect == dialect => {
                received.value.insert(key.to_owned(), value);
            }
            Some(_) => {}
            None => *self = Self::new(dialect, Map::from_iter([(key.to_owned(), value)])),
        }
    }

    /// Removes the field `key`, without changing the order of the remaining fields.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let received = self.0.as_mut()?;
        let removed = received.value.shift_remove(key);
        if received.value.is_empty() {
            self.0 = None;
        }
        removed
    }

    /// Adds the fields of `other`. Lists with the same name are joined; for any other name, the existing
    /// value stays. Fields of another dialect are not added.
    pub(super) fn merge(&mut self, other: Self) {
        let (Some(received), Some(more)) = (&mut self.0, &other.0) else {
            if self.0.is_none() {
                *self = other;
            }
            return;
        };
        if received.dialect != more.dialect {
            return;
        }
        for (key, value) in other.0.into_iter().flat_map(|more| more.value) {
            match (received.value.get_mut(&key), value) {
                (Some(Value::Array(list)), Value::Array(mut more)) => list.append(&mut more),
                (Some(_), _) => {}
                (None, value) => _ = received.value.insert(key, value),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rest(dialect: &'static str, fields: Value) -> Rest {
        let Value::Object(fields) = fields else { panic!("the fields of an object") };
        Rest::new(dialect, fields)
    }

    #[test]
    fn values_are_read_by_the_name_of_their_dialect() {
        let declared = Received::new("messages", 1);
        assert_eq!((declared.from_dialect("messages"), declared.from_dialect("chat")), (Some(&1), None));
        let fields = rest("messages", json!({"thinking": {}}));
        assert!(fields.from_dialect("messages").is_some() && fields.from_dialect("chat").is_none());
        assert_eq!(fields.foreign_keys("chat").collect::<Vec<_>>(), ["thinking"]);
        assert_eq!(fields.foreign_keys("messages").count(), 0);
    }

    #[test]
    fn merging_joins_lists_and_keeps_dialects_apart() {
        let mut fields = rest("chat", json!({"content": [1], "name": "a"}));
        fields.merge(rest("chat", json!({"content": [2], "name": "b", "x": 1})));
        let merged = rest("chat", json!({"content": [1, 2], "name": "a", "x": 1}));
        assert_eq!(fields, merged);
        fields.merge(rest("messages", json!({"cache_control": {}})));
        assert_eq!(fields, merged);
        let mut none = Rest::default();
        none.merge(merged.clone());
        assert_eq!(none, merged);
    }

    #[test]
    fn a_rest_without_fields_has_no_dialect() {
        let mut fields = rest("chat", json!({"name": "a"}));
        assert_eq!(fields.remove("name"), Some(json!("a")));
        assert_eq!(fields, Rest::default());
        assert_eq!(rest("chat", json!({})), Rest::default());
    }
}
