//! [`CacheHints`]: the positions up to which a client wants its prompt to be cached. They are given as
//! `cache_control` in Messages, and in `OpenRouter`'s version of Chat Completions.

use serde_json::Value;

use crate::conversation::{Part, Tool, Turn};

/// The member that contains a hint. It occurs in blocks, content parts, messages, tools and requests.
pub(super) const CACHE_CONTROL: &str = "cache_control";

/// The hints in a turn from a client of another dialect, in the order of the turn's parts.
#[derive(Debug, Default)]
pub(super) struct CacheHints<'t> {
    content: &'t [Value],
    calls: &'t [Value],
    /// The hint on the message itself. It applies to the last part.
    message: Option<&'t Value>,
}

impl<'t> CacheHints<'t> {
    /// The hints in `turn`, if the client speaks `dialect`.
    pub(super) fn of(turn: &'t Turn, dialect: &str) -> Self {
        let Some(rest) = turn.rest.from_dialect(dialect) else { return Self::default() };
        let list = |key: &str| {
            let list = rest.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            if list.iter().any(has_hint) { list } else { &[] }
        };
        Self { content: list("content"), calls: list("tool_calls"), message: hint(rest.get(CACHE_CONTROL)) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.content.is_empty() && self.calls.is_empty() && self.message.is_none()
    }

    /// The hint on `part`. Must be called for the turn's parts in order, though some may be left out.
    /// `is_last` is set if `part` is the last one.
    pub(super) fn next(&mut self, part: &Part, is_last: bool) -> Option<&'t Value> {
        let own = match part {
            Part::Text(said) => after(&mut self.content, |element| is(element, "text", said)),
            Part::Image { .. } => after(&mut self.content, |element| {
                matches!(element.get("type").and_then(Value::as_str), Some("image" | "image_url"))
            }),
            Part::Call(call) => {
                let list = if self.calls.is_empty() { &mut self.content } else { &mut self.calls };
                after(list, |element| is(element, "id", &call.id))
            }
            Part::Result(_) => return self.of_result(),
            Part::Reasoning { .. } | Part::Other(_) => None,
        };
        own.and_then(|own| hint(own.get(CACHE_CONTROL))).or_else(|| self.message.filter(|_| is_last))
    }

    /// The hint on a result, or on a part of it.
    pub(super) fn of_result(&self) -> Option<&'t Value> {
        let own = |element: &'t Value| hint(element.get(CACHE_CONTROL)).or_else(|| inner_hint(element));
        self.message.or_else(|| self.content.iter().rev().find_map(own))
    }
}

/// The hint on a tool declared by a client of `dialect`. Some clients put it inside the function object,
/// beside the name.
pub(super) fn of_tool(tool: &Tool, dialect: &str) -> Option<Value> {
    let declared = tool.declared.as_ref()?.from_dialect(dialect)?.view();
    // Most declarations have no hint and need not be parsed.
    if !declared.raw().contains(CACHE_CONTROL) {
        return None;
    }
    let nested = || declared.get("function")?.get(CACHE_CONTROL);
    let found = declared.get(CACHE_CONTROL).or_else(nested)?.to_value();
    hint(Some(&found)).is_some().then_some(found)
}

fn has_hint(element: &Value) -> bool {
    element.get(CACHE_CONTROL).is_some() || inner_hint(element).is_some()
}

/// The hint on one of the parts of a result.
fn inner_hint(element: &Value) -> Option<&Value> {
    let inner = element.get("content").and_then(Value::as_array).into_iter().flatten();
    inner.rev().find_map(|part| hint(part.get(CACHE_CONTROL)))
}

fn hint(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| value.get("type").is_some_and(Value::is_string))
}

fn is(element: &Value, key: &str, text: &str) -> bool {
    element.get(key).and_then(Value::as_str) == Some(text)
}

/// Returns the next element for which `is_it` is true and advances the list past it.
fn after<'t>(list: &mut &'t [Value], is_it: impl Fn(&Value) -> bool) -> Option<&'t Value> {
    /// Limits the search if the client did not write the part at all.
    const NEAR: usize = 16;
    let place = list.iter().take(NEAR).position(is_it)?;
    let (before, behind) = list.split_at_checked(place + 1)?;
    *list = behind;
    before.last()
}
