//! [`Fields`]: the request fields that make a server of this dialect constrain its model's output.
//!
//! See docs/protocols/enforcement.md.

use serde_json::{Map, Value, json};

use super::Server;
use crate::conversation::{Constraint, Prefill};

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Fields {
    pub(super) members: Map<String, Value>,
    /// The last message: an assistant turn for the model to continue.
    pub(super) begun: Option<Value>,
    pub(super) prefill: Option<Prefill>,
}

impl Fields {
    /// The fields that make `server` enforce `constraint`.
    pub(super) fn new(server: Server, constraint: &Constraint) -> Self {
        let mut members = server.members(constraint);
        let Constraint::Prefill(text) = constraint else { return Self { members, ..Self::default() } };
        let mut begun = json!({"role": "assistant", "content": text});
        match server {
            Server::Mistral | Server::DeepSeek => {
                if let Value::Object(begun) = &mut begun {
                    begun.insert("prefix".to_owned(), true.into());
                }
            }
            Server::Vllm => {
                members.insert("continue_final_message".to_owned(), true.into());
                members.insert("add_generation_prompt".to_owned(), false.into());
            }
            Server::Sglang => {
                members.insert("continue_final_message".to_owned(), true.into());
            }
            _ => {}
        }
        let prefill = Prefill { text: text.clone(), is_repeated: server.repeats_prefill() };
        Self { members, begun: Some(begun), prefill: Some(prefill) }
    }
}
