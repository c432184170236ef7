//! Tests searches that another model answers with its upstream's own search, in each dialect that has one.

use serde_json::{Value, json};
use toolwire::dialect::{Dialect, UpstreamDialect, lumo};

use super::{
    plan::history,
    script::{Asked, Scripted, scripted},
};
use crate::{
    independent::upstream::Speech,
    support::{
        client::{Client, STREAM},
        proxy::Setup,
        upstream::Upstream,
    },
};

const SEARCHING: [Speech; 5] =
    [Speech::Chat, Speech::Gemini, Speech::Responses, Speech::Messages, Speech::LumoV2];

/// The model's call and its final answer. The search runs in between.
fn hops(speech: Speech) -> [Scripted; 2] {
    let query = json!({"query": "rain Lyon", "recency": "oneWeek"});
    let call = match speech {
        Speech::Gemini => json!(["d", {"functionCall": {"name": "web_search", "args": query}}]),
        Speech::LumoV2 => {
            let call = json!({"name": "web_search", "arguments": query});
            json!(["m", format!("<tool_call>{call}</tool_call>")])
        }
        _ => json!(["d", {"tool_calls": [{"index": 0, "id": "call_0", "type": "function",
            "function": {"name": "web_search", "arguments": query.to_string()}}]}]),
    };
    let finish = if speech == Speech::LumoV2 { "stop" } else { "tool_calls" };
    let first = speech.stream(&[call, json!(["fin", finish]), json!(["done"])]);
    [Scripted::stream(first), Scripted::stream(speech.says(&["Take an umbrella."], "stop"))]
}

/// The searching model's answer: some text, and two pages that the upstream found.
fn answer(speech: Speech) -> Scripted {
    let body = match speech {
        Speech::Chat => {
            json!({"id": "c2", "object": "chat.completion", "created": 1, "model": "up", "choices": [{
            "index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "It rains.", "annotations": [
                {"type": "url_citation", "url_citation": {"url": "https://weather.example/", "title": "Weather", "start_index": 0, "end_index": 2}},
                {"type": "url_citation", "url_citation": {"url": "https://lyon.example/", "title": "Lyon", "start_index": 0, "end_index": 2}},
            ]}}]})
        }
        Speech::Gemini => json!({"candidates": [{"index": 0, "finishReason": "STOP",
            "content": {"role": "model", "parts": [{"text": "It rains."}]},
            "groundingMetadata": {
                "webSearchQueries": ["rain Lyon"],
                "groundingChunks": [
                    {"web": {"uri": "https://weather.example/", "title": "Weather"}},
                    {"web": {"uri": "https://lyon.example/", "title": "Lyon"}},
                ],
                "groundingSupports": [{"segment": {"endIndex": 9}, "groundingChunkIndices": [0, 1]}],
            }}], "modelVersion": "m", "responseId": "r"}),
        Speech::Responses => {
            json!({"id": "resp_2", "object": "response", "created_at": 1, "model": "m", "status": "completed", "output": [
                {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "rain Lyon",
                    "sources": [{"type": "url", "url": "https://lyon.example/"}, {"type": "url", "url": "https://weather.example/"}]}},
                {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "It rains.",
                    "annotations": [{"type": "url_citation", "url": "https://weather.example/", "title": "Weather", "start_index": 0, "end_index": 9}]}]},
            ]})
        }
        Speech::Messages => {
            json!({"id": "msg_2", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
                "usage": {"input_tokens": 1, "output_tokens": 1}, "content": [
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "rain Lyon"}},
                {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [
                    {"type": "web_search_result", "url": "https://weather.example/", "title": "Weather", "encrypted_content": "x", "page_age": "1 day"},
                    {"type": "web_search_result", "url": "https://lyon.example/", "title": "Lyon", "encrypted_content": "y", "page_age": null},
                ]},
                {"type": "text", "text": "It rains.", "citations": [{"type": "web_search_result_location", "url": "https://weather.example/",
                    "title": "Weather", "cited_text": "rain", "encrypted_index": "e"}]},
            ]})
        }
        _ => {
            let call = json!({"id": "n1", "name": "web_search", "arguments": "{\"query\":\"rain Lyon\"}"});
            let pages = json!({"results": [
                {"title": "Weather", "url": "https://weather.example/", "description": "rain"},
                {"title": "Lyon", "url": "https://lyon.example/"},
            ]});
            let result = json!({"call_id": "n1", "content": pages.to_string()});
            let events = [
                json!(["stc", call]),
                json!(["str", result]),
                json!(["m", "It rains."]),
                json!(["fin", "stop"]),
                json!(["done"]),
            ];
            return Scripted::stream(speech.stream(&events));
        }
    };
    Scripted::whole("200 OK", &body.to_string())
}

/// A proxy that lets a model answer searches.
fn setup(speech: Speech, upstream: &Upstream, rules: &str) -> Setup {
    let mut setup = Setup::new(upstream.address);
    let of = |dialect| UpstreamDialect::try_from(dialect).unwrap();
    setup.upstream.options = match speech {
        Speech::Messages => of(Dialect::Messages),
        Speech::Responses => of(Dialect::Responses),
        Speech::Gemini => of(Dialect::Gemini),
        Speech::LumoV2 => {
            setup.tools = toolwire::config::ToolStyle::Format(&toolwire::format::HERMES);
            UpstreamDialect::Lumo(lumo::Options { native_tools: Vec::new(), ..lumo::Options::default() })
        }
        _ => setup.upstream.options,
    };
    setup.execution = format!(
        "[execution]\nretries = 0\n[[providers]]\nname = \"own\"\nkind = \"search\"\nmodel = \"org/other\"\n{rules}"
    );
    setup
}

/// Returns the result that the model gets for its search.
async fn told(speech: Speech, answer: Scripted, rules: &str) -> (Value, Asked) {
    let [first, last] = hops(speech);
    let (upstream, asked) = scripted(vec![first, answer, last]).await;
    let proxy = setup(speech, &upstream, rules).start().await;
    let body = Client::new().chat(&proxy, STREAM).await.rest().await;
    assert!(body.contains("Take an umbrella.") && body.contains("[DONE]"), "{speech:?}: {body}");
    assert!(!body.contains("web_search"), "{speech:?}: {body}");
    let last = asked.lock().unwrap().last().unwrap().clone();
    let result = match speech {
        Speech::LumoV2 => {
            let said = last["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
            said[said.find("{\"ok\"").unwrap()..=said.rfind('}').unwrap()].to_owned()
        }
        _ => history(speech, &last)[0].results[0].clone(),
    };
    (serde_json::from_str(&result).unwrap_or_else(|error| panic!("{error}: {result}")), asked)
}

#[tokio::test]
async fn upstreams_of_each_dialect_search_for_the_model() {
    for speech in SEARCHING {
        let (told, asked) = told(speech, answer(speech), "").await;
        let asked = asked.lock().unwrap();
        assert_eq!(asked.len(), 3, "{speech:?}");
        let question = &asked[1];
        let own = match speech {
            Speech::Chat => {
                question["tools"]
                    == json!([{"type": "web_search", "web_search": {"enable": true, "search_result": true}}])
            }
            Speech::Gemini => question["tools"] == json!([{"googleSearch": {}}]),
            Speech::Responses => question["tools"] == json!([{"type": "web_search"}]),
            Speech::Messages => {
                question["tools"][0]["type"] == "web_search_20250305" && question["tools"][1].is_null()
            }
            _ => question.to_string().contains("web_search"),
        };
        assert!(own, "{speech:?}: {question}");
        let text = question.to_string();
        assert!(
            text.contains("rain Lyon") && text.contains("last week") && !text.contains("umbrella"),
            "{text}"
        );
        assert_eq!(
            (&told["ok"], &told["engine"], &told["query"]),
            (&json!(true), &json!("own"), &json!("rain Lyon")),
            "{speech:?}"
        );
        assert_eq!(told["summary"], "It rains.", "{speech:?}");
        let mut pages = vec![
            json!({"title": "Weather", "url": "https://weather.example/"}),
            json!({"title": "Lyon", "url": "https://lyon.example/"}),
        ];
        if speech == Speech::Responses {
            // The API gives no title for a page that the text does not cite.
            pages[1]["title"] = json!("https://lyon.example/");
        }
        assert_eq!(told["results"], json!(pages), "{speech:?}: {told}");
    }
}

#[tokio::test]
async fn answer_without_sources_is_a_summary() {
    for speech in SEARCHING {
        let (told, _) = told(speech, Scripted::stream(speech.says(&["It ", "rains."], "stop")), "").await;
        let expected =
            json!({"ok": true, "engine": "own", "query": "rain Lyon", "summary": "It rains.", "results": []});
        assert_eq!(told, expected, "{speech:?}");
    }
}

/// Returns the error that the model gets. Asserts that it does not contain the upstream's message.
async fn error(speech: Speech, answer: Scripted, rules: &str) -> String {
    let (told, _) = told(speech, answer, rules).await;
    assert_eq!((&told["ok"], &told["tool"]), (&json!(false), &json!("web_search")), "{speech:?}: {told}");
    assert!(!told.to_string().contains("RAW"), "{told}");
    told["error"]["code"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn failed_search_of_a_model_is_a_result_for_the_other() {
    let refused = |status| Scripted::whole(status, r#"{"error":{"message":"RAW","type":"x","code":"RAW"}}"#);
    for speech in SEARCHING {
        for (status, code) in [
            ("400 Bad Request", "provider_error"),
            ("401 Unauthorized", "auth_failed"),
            ("403 Forbidden", "auth_failed"),
            ("404 Not Found", "provider_error"),
            ("429 Too Many Requests", "rate_limited"),
            ("500 Internal Server Error", "provider_error"),
            ("503 Service Unavailable", "rate_limited"),
        ] {
            assert_eq!(error(speech, refused(status), "").await, code, "{speech:?} {status}");
        }
        let half = &speech.says(&["It rains"], "stop")[..40];
        for broken in [
            Scripted::whole("200 OK", "<html>RAW</html>"),
            Scripted::whole("200 OK", "{\"RAW\": "),
            Scripted::whole("200 OK", ""),
            Scripted::stream(half.to_vec()),
            Scripted::stream(speech.says(&[], "stop")),
            Scripted::stream(speech.says(&[" \n "], "stop")),
        ] {
            assert_eq!(error(speech, broken.clone(), "").await, "provider_error", "{speech:?} {broken:?}");
        }
    }
}

#[tokio::test]
async fn search_of_a_model_that_never_answers_ends_at_its_timeout() {
    for speech in SEARCHING {
        let rules = "[[tools]]\nname = \"web_search\"\ntimeout = \"200ms\"\n";
        for silent in [Scripted::Silent, Scripted::Stalls(speech.says(&["It rains"], "stop")[..30].to_vec())]
        {
            assert_eq!(error(speech, silent, rules).await, "timeout", "{speech:?}");
        }
    }
}
