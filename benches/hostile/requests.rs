//! Requests with very many small parts. They are decoded in the client's dialect and encoded for an upstream of
//! each other dialect, with native tools and with tools taught as text.

use std::{hint::black_box, process};

use toolwire::{
    conversation::{IdForm, NameForm},
    dialect::{ClientDialect, Dialect, UpstreamDialect, fitted},
    enforce::{self, Means, Subset},
    format::{self, Teaching, estimated_tokens},
    rules::Enforce,
};

/// Number of times that the shorter request repeats its parts.
pub(super) const MANY: usize = 3_000;

/// Like [`MANY`], for slow counters.
pub(super) const FEW: usize = 600;

/// Upstreams with different request formats.
const UPSTREAMS: [Dialect; 5] =
    [Dialect::Chat, Dialect::Responses, Dialect::Messages, Dialect::Gemini, Dialect::Ollama];

/// How calls are enforced if tools are taught.
const MEANS: [(Enforce, Means); 3] = {
    let means = Means { schema: Some(Subset::PORTABLE), tags: true, grammar: true, prefill: true };
    [(Enforce::Schema, means), (Enforce::StructuralTag, means), (Enforce::Grammar, means)]
};

/// A client dialect, and a request whose text between `«` and `»` is repeated with commas in between. `№` stands
/// for the number of the repetition.
const SHAPES: &[(ClientDialect, &str)] = &[
    (ClientDialect::Chat, r##"{"messages":[«{"role":"user","content":"x"}»]}"##),
    (
        ClientDialect::Chat,
        r##"{"messages":[«{"role":"system","content":"x"},{"role":"user","content":"y"}»]}"##,
    ),
    (
        ClientDialect::Chat,
        r##"{"messages":[{"role":"user","content":[«{"type":"text","text":"№","cache_control":{"type":"ephemeral"}}»]}]}"##,
    ),
    (
        ClientDialect::Chat,
        r##"{"messages":[{"role":"assistant","tool_calls":[«{"id":"c№","type":"function","function":{"name":"f","arguments":"{}"},"x":1}»]},«{"role":"tool","tool_call_id":"c№","content":"x"}»]}"##,
    ),
    (
        ClientDialect::Chat,
        r##"{"messages":[{"role":"assistant","tool_calls":[«{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}»]},«{"role":"tool","tool_call_id":"c","content":"№"}»]}"##,
    ),
    (
        ClientDialect::Chat,
        r##"{"messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},«{"role":"tool","tool_call_id":"c","content":"№"}»]}"##,
    ),
    (
        ClientDialect::Chat,
        r##"{"messages":[{"role":"assistant","tool_calls":[«{"id":"c№","type":"function","function":{"name":"f.№","arguments":"{}"}}»]},«{"role":"tool","tool_call_id":"c№","content":[{"type":"image_url","image_url":{"url":"https://h/a.png"}}]}»]}"##,
    ),
    (
        ClientDialect::Chat,
        r##"{"messages":[{"role":"user","content":"x"}],"tools":[«{"type":"custom","custom":{"name":"t№"}}»]}"##,
    ),
    (
        ClientDialect::Chat,
        r##"{"messages":[{"role":"user","content":"x"}],"tools":[«{"type":"function","function":{"name":"t.№","parameters":{}}}»],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[«{"type":"function","function":{"name":"t.№"}}»]}}}"##,
    ),
    (ClientDialect::Chat, r##"{"messages":[{"role":"user","content":"x",«"u№":1»}],«"u№":1»}"##),
    (ClientDialect::Responses, r##"{"input":[«{"type":"zzz","n":№}»]}"##),
    (
        ClientDialect::Responses,
        r##"{"input":[«{"type":"zzz_call","call_id":"c№","a":1}»,«{"type":"zzz_call_output","call_id":"c№","output":"x"}»]}"##,
    ),
    (
        ClientDialect::Responses,
        r##"{"input":[«{"type":"function_call","call_id":"c№","name":"f","arguments":"{}","x":1}»,«{"type":"function_call_output","call_id":"c№","output":"x"}»]}"##,
    ),
    (
        ClientDialect::Responses,
        r##"{"input":[{"role":"user","content":"x"},«{"type":"mcp_call","id":"mcp_toolwire№","name":"f","arguments":"{}","output":"x"}»]}"##,
    ),
    (
        ClientDialect::Responses,
        r##"{"input":[«{"type":"custom_tool_call","call_id":"c№","name":"t№","input":"x"}»],"tools":[«{"type":"custom","name":"t№"}»]}"##,
    ),
    (
        ClientDialect::Responses,
        r##"{"input":[{"type":"additional_tools","tools":[«{"type":"namespace","name":"n№","tools":[{"type":"function","name":"f","parameters":{}}]}»]},{"role":"user","content":"x"}]}"##,
    ),
    (
        ClientDialect::Messages,
        r##"{"max_tokens":9,"messages":[{"role":"user","content":[«{"type":"text","text":"№","cache_control":{"type":"ephemeral"}}»]}]}"##,
    ),
    (
        ClientDialect::Messages,
        r##"{"max_tokens":9,"messages":[{"role":"assistant","content":[«{"type":"zzz","n":№}»]},{"role":"user","content":"x"}]}"##,
    ),
    (
        ClientDialect::Messages,
        r##"{"max_tokens":9,"messages":[{"role":"assistant","content":[«{"type":"tool_use","id":"c№","name":"f","input":{}}»]},{"role":"user","content":[«{"type":"tool_result","tool_use_id":"c№","content":[{"type":"text","text":"x"},{"type":"zzz"}]}»]}]}"##,
    ),
    (
        ClientDialect::Messages,
        r##"{"max_tokens":9,"messages":[{"role":"assistant","content":[«{"type":"server_tool_use","id":"s№","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"s№","content":[]}»]},{"role":"user","content":"x"}]}"##,
    ),
    (
        ClientDialect::Gemini,
        r##"{"contents":[{"role":"model","parts":[«{"text":"№"}»]},{"parts":[{"text":"x"}]}]}"##,
    ),
    (
        ClientDialect::Gemini,
        r##"{"contents":[«{"role":"model","parts":[{"text":"№"}]}»,{"parts":[{"text":"x"}]}]}"##,
    ),
    (
        ClientDialect::Gemini,
        r##"{"contents":[{"role":"model","parts":[«{"functionCall":{"name":"f","args":{"n":№}}}»]},{"parts":[«{"functionResponse":{"name":"f","response":{"n":№}}}»]}]}"##,
    ),
    (
        ClientDialect::Gemini,
        r##"{"contents":[{"parts":[«{"inlineData":{"mimeType":"image/png","data":"","displayName":"№"}}»]}]}"##,
    ),
    (
        ClientDialect::Interactions,
        r##"{"input":[{"type":"text","text":"x"},«{"type":"thought","summary":[{"type":"text","text":"№"}]},{"type":"model_output","content":[{"type":"text","text":"№"}]}»]}"##,
    ),
    (
        ClientDialect::Interactions,
        r##"{"input":[«{"type":"function_call","id":"c№","name":"f","arguments":{"n":№}}»,«{"type":"function_result","call_id":"c№","result":[{"type":"text","text":"№"}]}»]}"##,
    ),
    (ClientDialect::Chat, r##"{"messages":[{"role":"user","content":[«{"type":"text","text":"№"}»]}]}"##),
    (
        ClientDialect::Chat,
        r##"{"messages":[{"role":"user","content":[«{"type":"text","text":"№"},{"type":"image_url","image_url":{"url":"https://h/№.png"}}»]}]}"##,
    ),
    (
        ClientDialect::Chat,
        r##"{"messages":[{"role":"user","content":"«a-1 é\n\u00e9»"},«{"role":"assistant","content":null,"reasoning_content":"x"}»]}"##,
    ),
    (
        ClientDialect::Chat,
        r##"{"messages":[{"role":"user","content":"x"}],"tools":[«{"type":"function","function":{"name":"t№","parameters":{"type":"object","properties":{"a":{"type":"integer"}}}}}»],"tool_choice":{"type":"function","function":{"name":"t99"}}}"##,
    ),
    (
        ClientDialect::Chat,
        r##"{"messages":[{"role":"user","content":"x"}],"tools":[«{"type":"function","function":{"name":"t№","strict":true,"parameters":{"type":"object","properties":{"a":{"$ref":"#/$defs/d"}},"$defs":{"d":{"type":"string"}}}}}»],"tool_choice":"required"}"##,
    ),
    (
        ClientDialect::Chat,
        r##"{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"t","strict":true,"parameters":{"type":"object","properties":{«"p№":{"$ref":"#/$defs/d№"}»},"$defs":{«"d№":{"type":"string"}»}}}}],"tool_choice":"required"}"##,
    ),
    (
        ClientDialect::Chat,
        r##"{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"t","parameters":{"type":"object","properties":{«"p№":{"$ref":"#/$defs/d"}»},"$defs":{"d":{"type":"object","properties":{«"q№":{"type":"string"}»}}}}}}],"tool_choice":"required"}"##,
    ),
    (
        ClientDialect::Chat,
        r##"{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"t","parameters":{"type":"object","properties":{"a":{"$ref":"#/$defs/d99"}},"$defs":{"d0":{"type":"string"},"d1":{"$ref":"#/$defs/d0"},«"e№":{"$ref":"#/$defs/e№"}»,«"d№":{"anyOf":[{"$ref":"#/$defs/d1"},{"$ref":"#/$defs/d№"}]}»}}}}]}"##,
    ),
    (
        ClientDialect::Chat,
        r##"{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"t","parameters":{"type":"object","properties":{"a":{"anyOf":[«{"type":"object","properties":{"k":{"const":"№"},"v№":{"type":"string"}},"required":["k"]}»]}},"required":[«"r№"»]}}}]}"##,
    ),
    (
        ClientDialect::Chat,
        r##"{"messages":[{"role":"user","content":"x"}],"functions":[«{"name":"t.№","parameters":{}}»],"function_call":{"name":"t.5"}}"##,
    ),
    (
        ClientDialect::Responses,
        r##"{"input":"x","tools":[«{"type":"function","name":"t.№","parameters":{}}»],"tool_choice":{"type":"allowed_tools","mode":"required","tools":[«{"type":"function","name":"t.№"}»]}}"##,
    ),
    (
        ClientDialect::Responses,
        r##"{"input":[«{"type":"reasoning","id":"rs№","summary":[{"type":"summary_text","text":"x"}],"encrypted_content":"e"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"x"}]}»,{"role":"user","content":[«{"type":"input_text","text":"№"},{"type":"input_image","image_url":"https://h/№.png"}»]}]}"##,
    ),
    (
        ClientDialect::Responses,
        r##"{"input":[«{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}»,«{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"№"},{"type":"input_image","image_url":"https://h/a.png"}]}»]}"##,
    ),
    (
        ClientDialect::Messages,
        r##"{"max_tokens":9,"messages":[{"role":"assistant","content":[«{"type":"tool_use","id":"c№","name":"f","input":{}}»]},{"role":"user","content":[«{"type":"tool_result","tool_use_id":"c№","content":"x"},{"type":"text","text":"y"}»]}]}"##,
    ),
    (
        ClientDialect::Messages,
        r##"{"max_tokens":9,"messages":[«{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s№"},{"type":"tool_use","id":"c","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"image","source":{"type":"url","url":"https://h/№.png"}}]}]}»]}"##,
    ),
    (
        ClientDialect::Messages,
        r##"{"max_tokens":9,"system":[«{"type":"text","text":"№","cache_control":{"type":"ephemeral"}}»],"messages":[{"role":"user","content":"x"}],"tools":[«{"name":"t№","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}},{"type":"web_search_20250305","name":"web_search"}»],"tool_choice":{"type":"any"}}"##,
    ),
    (
        ClientDialect::Messages,
        r##"{"max_tokens":9,"messages":[{"role":"user","content":[«{"type":"document","source":{"type":"text","media_type":"text/plain","data":"№"},"title":"t","citations":{"enabled":true}}»]}]}"##,
    ),
];

pub(super) struct Case {
    client: ClientDialect,
    upstream: Dialect,
    is_taught: bool,
    pub(super) shape: &'static str,
}

impl Case {
    pub(super) fn all() -> Vec<Self> {
        let ways = UPSTREAMS.into_iter().flat_map(|upstream| [(upstream, false), (upstream, true)]);
        // Taught tools look nearly the same for all upstreams, so one upstream is enough.
        let ways: Vec<_> = ways.filter(|(upstream, taught)| !taught || *upstream == Dialect::Chat).collect();
        let case = |(client, shape): &(ClientDialect, &'static str)| {
            let (client, shape) = (*client, *shape);
            let case =
                move |(upstream, is_taught): (Dialect, bool)| Self { client, upstream, is_taught, shape };
            ways.clone().into_iter().map(case)
        };
        SHAPES.iter().flat_map(case).collect()
    }

    pub(super) fn name(&self) -> String {
        let taught = if self.is_taught { ", taught" } else { "" };
        format!("{} to {}{taught}", self.client.dialect().name(), self.upstream.name())
    }

    pub(super) fn text(&self, number: usize) -> String {
        let mut text = String::new();
        for (place, piece) in self.shape.split(['«', '»']).enumerate() {
            if place % 2 == 0 {
                text.push_str(piece);
                continue;
            }
            let numbered = (0..number).map(|number| piece.replace('№', &number.to_string()));
            text.push_str(&numbered.collect::<Vec<_>>().join(","));
        }
        text
    }

    pub(super) fn translate(&self, text: &str) {
        let (Ok(conversation), Ok(upstream)) =
            (self.client.side().decode(text.as_bytes()), UpstreamDialect::try_from(self.upstream))
        else {
            println!("cannot be read: {}", self.shape);
            process::exit(2);
        };
        let side = upstream.side();
        // Refusing a request must take linear time too.
        let fitted = match fitted(&conversation, self.client.dialect(), side) {
            Ok(fitted) => fitted,
            Err(unfit) => {
                black_box(unfit.failure(Some(text.as_bytes())));
                return;
            }
        };
        let sent = match format::by_name("hermes").filter(|_| self.is_taught) {
            Some(taught) => {
                let named = fitted.in_forms(NameForm::Word, side.id_form()).into_owned();
                for (enforce, means) in MEANS {
                    black_box(enforce::constrain(&named, taught, "", enforce, &means));
                }
                format::instruct(named, taught, &Teaching::default())
            }
            None => fitted.in_forms(side.name_form(), IdForm::AtMost(40)).into_owned(),
        };
        black_box(sent.turns.iter().map(|turn| estimated_tokens(&turn.joined_text())).sum::<usize>());
        black_box(side.encode(&sent, "m"));
    }
}
