//! Tests approvals of calls to MCP servers that clients name, and the lists of these servers' tools.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};

use super::{
    client_servers::{Received, admitting, ask, responses, said, server, tool},
    script::{Scripted, added, call, end, scripted, text, upstream},
};
use crate::support::{client::Client, proxy::Proxy, upstream::Upstream};

const PATH: &str = "/v1/responses";

/// A request whose calls need an approval, which is the default of the API.
fn asking(server: &Upstream) -> Value {
    let mut body = responses(server);
    body["tools"][0].as_object_mut().unwrap().remove("require_approval");
    body
}

fn adding(arguments: &str) -> String {
    text("Hm.") + &call(0, "call_0", "sums__add", arguments) + &end("tool_calls")
}

fn done() -> String {
    text("Done.") + &end("stop")
}

fn items<'a>(answer: &'a Value, kind: &str) -> Vec<&'a Value> {
    let items = answer["output"].as_array().unwrap_or_else(|| panic!("{answer}"));
    items.iter().filter(|item| item["type"] == kind).collect()
}

fn answering(request: &Value, approve: bool) -> Value {
    json!({"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": approve})
}

/// The arguments of the calls that the server has run.
fn ran(received: &Received) -> Vec<Value> {
    let received = received.lock().unwrap();
    let calls = received.iter().filter(|(_, message)| message["method"] == "tools/call");
    calls.map(|(_, message)| message["params"]["arguments"].clone()).collect()
}

/// The request with the items of `answer` and those of the client in its input.
fn continued(body: &Value, answer: &Value, own: Vec<Value>) -> Value {
    let mut body = body.clone();
    let before = match &body["input"] {
        Value::String(text) => vec![json!({"role": "user", "content": text})],
        input => input.as_array().unwrap().clone(),
    };
    body["input"] = json!([before, answer["output"].as_array().unwrap().clone(), own].concat());
    body
}

/// The messages of a request to the upstream, without the system's.
fn roles(request: &Value) -> Vec<&str> {
    let messages = request["messages"].as_array().unwrap().iter();
    messages.map(|message| message["role"].as_str().unwrap()).collect()
}

async fn stream(proxy: &Proxy, body: &Value) -> Vec<Value> {
    let mut body = body.clone();
    body["stream"] = true.into();
    let request = Request::post(proxy.url(PATH)).header("content-type", "application/json");
    let reply = Client::new().send(request.body(Full::new(Bytes::from(body.to_string()))).unwrap()).await;
    let text = reply.unwrap().rest().await;
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[tokio::test]
async fn call_runs_once_the_client_has_approved_it() {
    for (is_stored, settings) in [(true, ""), (false, ""), (false, "visibility = \"items\"")] {
        let (server, received) = server(json!([tool("add")]), said("2")).await;
        let streams = [adding(r#"{"a":1}"#), done(), done()];
        let (upstream, asked) = upstream(streams).await;
        let proxy = admitting(&upstream, &server, settings, "").await;
        let body = asking(&server);
        let first = ask(&proxy, PATH, &body).await;
        assert_eq!(first["status"], "completed", "{first}");
        let requests = items(&first, "mcp_approval_request");
        let [request] = requests[..] else { panic!("{first}") };
        assert!(request["id"].as_str().unwrap().starts_with("mcpr_"), "{first}");
        let expected = (&json!("sums"), &json!("add"), &json!(r#"{"a":1}"#));
        assert_eq!((&request["server_label"], &request["name"], &request["arguments"]), expected);
        assert_eq!((items(&first, "mcp_list_tools").len(), items(&first, "mcp_call").len()), (1, 0));
        assert!(ran(&received).is_empty());

        let own = vec![answering(request, true)];
        let mut next = continued(&body, &first, own.clone());
        if is_stored {
            next["input"] = json!(own);
            next["previous_response_id"] = first["id"].clone();
        }
        let second = ask(&proxy, PATH, &next).await;
        assert_eq!(ran(&received), [json!({"a": 1})]);
        let [called, message] = &second["output"].as_array().unwrap()[..] else { panic!("{second}") };
        assert_eq!((&called["type"], &called["approval_request_id"]), (&json!("mcp_call"), &request["id"]));
        assert_eq!((&called["arguments"], &called["output"]), (&json!(r#"{"a":1}"#), &json!("2")));
        assert_eq!(message["content"][0]["text"], "Done.", "{second}");
        {
            let asked = asked.lock().unwrap();
            assert_eq!(roles(&asked[1]), ["user", "assistant", "tool"], "{}", asked[1]);
            let turns = added(&asked[1], 1);
            assert_eq!(turns[0]["content"], "Hm.", "{}", asked[1]);
            assert_eq!(turns[0]["tool_calls"][0]["function"]["name"], "sums__add");
            assert_eq!(turns[0]["tool_calls"][0]["function"]["arguments"], r#"{"a":1}"#);
            assert_eq!(turns[1]["content"], "2");
        }

        let thanks = vec![json!({"role": "user", "content": "Thanks."})];
        let mut last = continued(&next, &second, thanks.clone());
        if is_stored {
            last["input"] = json!(thanks);
            last["previous_response_id"] = second["id"].clone();
        }
        let third = ask(&proxy, PATH, &last).await;
        assert_eq!(third["output"].as_array().unwrap().len(), 1, "{third}");
        assert_eq!(ran(&received).len(), 1, "it has run");
        let asked = asked.lock().unwrap();
        assert_eq!(roles(&asked[2]), ["user", "assistant", "tool", "assistant", "user"], "{}", asked[2]);
        assert_eq!(added(&asked[2], 1)[..2], added(&asked[1], 1)[..], "the history stays the same");
    }
}

#[tokio::test]
async fn stream_has_the_events_of_the_api() {
    let (server, _) = server(json!([tool("add")]), said("2")).await;
    let (upstream, _) = upstream([adding("{}"), done()]).await;
    let proxy = admitting(&upstream, &server, "", "").await;
    let body = asking(&server);
    let kinds = |events: &[Value]| {
        let kinds = events.iter().map(|event| {
            let item = event["item"]["type"].as_str().map_or(String::new(), |kind| format!(" {kind}"));
            format!("{}{item}", event["type"].as_str().unwrap().trim_start_matches("response."))
        });
        kinds.collect::<Vec<_>>()
    };
    let events = stream(&proxy, &body).await;
    let is_text =
        |kind: &String| kind.contains("text") || kind.contains("part") || kind.ends_with(" message");
    let seen: Vec<_> = kinds(&events).into_iter().filter(|kind| !is_text(kind)).collect();
    assert_eq!(
        seen,
        [
            "created",
            "in_progress",
            "output_item.added mcp_list_tools",
            "mcp_list_tools.in_progress",
            "mcp_list_tools.completed",
            "output_item.done mcp_list_tools",
            "output_item.added mcp_approval_request",
            "output_item.done mcp_approval_request",
            "completed",
        ]
    );
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number, "{event}");
    }
    let first = &events.last().unwrap()["response"];
    let request = items(first, "mcp_approval_request")[0];
    let events = stream(&proxy, &continued(&body, first, vec![answering(request, true)])).await;
    let seen: Vec<_> = kinds(&events).into_iter().filter(|kind| !is_text(kind)).collect();
    assert_eq!(
        seen,
        [
            "created",
            "in_progress",
            "output_item.added mcp_call",
            "mcp_call.in_progress",
            "mcp_call_arguments.delta",
            "mcp_call_arguments.done",
            "mcp_call.completed",
            "output_item.done mcp_call",
            "completed",
        ]
    );
}

#[tokio::test]
async fn model_is_told_what_was_not_approved() {
    let declined = |request: &Value, reason: Option<&str>| {
        let mut answer = answering(request, false);
        answer["reason"] = reason.into();
        answer
    };
    for (reason, is_answered, told) in [
        (None, true, "The user declined this call. It was not run."),
        (
            Some("Too dear."),
            true,
            "The user declined this call. It was not run. The user's reason: Too dear.",
        ),
        (None, false, "This call was not run, since the user has not approved it."),
    ] {
        let (server, received) = server(json!([tool("add")]), said("2")).await;
        let (upstream, asked) = upstream([adding(r#"{"a":1}"#), done(), done()]).await;
        let proxy = admitting(&upstream, &server, "", "").await;
        let body = asking(&server);
        let first = ask(&proxy, PATH, &body).await;
        let request = items(&first, "mcp_approval_request")[0];
        let own = match is_answered {
            true => vec![declined(request, reason)],
            false => vec![json!({"role": "user", "content": "Never mind."})],
        };
        let next = continued(&body, &first, own);
        let second = ask(&proxy, PATH, &next).await;
        assert_eq!(items(&second, "mcp_call").len(), 0, "{second}");
        let last = continued(&next, &second, vec![json!({"role": "user", "content": "Bye."})]);
        ask(&proxy, PATH, &last).await;
        assert!(ran(&received).is_empty());
        let asked = asked.lock().unwrap();
        for request in &asked[1..] {
            let turns = added(request, 1);
            assert_eq!(turns[0]["tool_calls"][0]["function"]["name"], "sums__add", "{request}");
            assert_eq!((&turns[0]["content"], &turns[1]["role"]), (&json!("Hm."), &json!("tool")));
            assert_eq!(turns[1]["content"], told, "{request}");
        }
    }
}

#[tokio::test]
async fn answers_that_approve_nothing_are_refused_and_nothing_runs() {
    let (server, received) = server(json!([tool("add")]), said("2")).await;
    let (upstream, asked) = upstream([adding("{}")]).await;
    let proxy = admitting(&upstream, &server, "", "").await;
    let body = asking(&server);
    let first = ask(&proxy, PATH, &body).await;
    let request = items(&first, "mcp_approval_request")[0].clone();
    let yes = answering(&request, true);
    let with = |own: Vec<Value>| continued(&body, &first, own);
    let place = with(Vec::new())["input"].as_array().unwrap().len();
    let changed = |pointer: &str, value: Value| {
        let mut body = with(vec![yes.clone()]);
        *body.pointer_mut(pointer).unwrap() = value;
        body
    };
    let mut unknown = yes.clone();
    unknown["approval_request_id"] = json!("mcpr_x_toolwire9xabcd");
    let mut foreign = yes.clone();
    foreign["approval_request_id"] = json!("mcpr_68a1");
    let without = |key: &str| {
        let mut answer = yes.clone();
        answer.as_object_mut().unwrap().remove(key);
        answer
    };
    let mut wrong = yes.clone();
    wrong["approve"] = json!("yes");
    let mut early = with(Vec::new());
    early["input"].as_array_mut().unwrap().insert(1, yes.clone());
    let mut other_url = with(vec![yes.clone()]);
    other_url["tools"][0]["server_url"] = json!(format!("http://{}/mcp/other", server.address));
    let mut no_tools = with(vec![yes.clone()]);
    no_tools["tools"] = json!([]);
    let mut none_chosen = with(vec![yes.clone()]);
    none_chosen["tool_choice"] = json!("none");
    let mut not_allowed = with(vec![yes.clone()]);
    not_allowed["tools"][0]["allowed_tools"] = json!(["sub"]);
    let at = |key: &str| format!("input[{place}].{key}");
    let label = format!("/input/{}/server_label", place - 1);
    for (name, body, param) in [
        ("unknown", with(vec![unknown]), at("approval_request_id")),
        ("foreign", with(vec![foreign]), at("approval_request_id")),
        ("no id", with(vec![without("approval_request_id")]), at("approval_request_id")),
        ("no answer", with(vec![without("approve")]), at("approve")),
        ("wrong type", with(vec![wrong]), at("approve")),
        ("twice", with(vec![yes.clone(), yes.clone()]), format!("input[{}].approval_request_id", place + 1)),
        (
            "yes and no",
            with(vec![answering(&request, false), yes.clone()]),
            format!("input[{}].approval_request_id", place + 1),
        ),
        ("requested twice", with(vec![request.clone(), yes.clone()]), at("id")),
        ("before the request", early, "input[1].approval_request_id".to_owned()),
        ("other label", changed(&label, json!("other")), at("approval_request_id")),
        ("other URL", other_url, at("approval_request_id")),
        ("no servers", no_tools, at("approval_request_id")),
        ("no tool chosen", none_chosen, at("approval_request_id")),
        ("tool not allowed", not_allowed, at("approval_request_id")),
    ] {
        let answer = ask(&proxy, PATH, &body).await;
        assert_eq!(answer["error"]["param"], param, "{name} {answer}");
        assert!(!answer.to_string().contains("secret"), "{answer}");
    }
    assert!(ran(&received).is_empty());
    assert_eq!(asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn what_the_client_approves_is_what_runs_under_the_operators_rules() {
    let (server, received) = server(json!([tool("add"), tool("sub")]), said("2")).await;
    let streams = [adding(r#"{"a":1}"#), done(), done(), done()];
    let (upstream, asked) = upstream(streams).await;
    let denied = "[[permissions]]\ntool = \"sums__sub\"\npermission = \"deny\"\n";
    let proxy = admitting(&upstream, &server, "", denied).await;
    let body = asking(&server);
    let first = ask(&proxy, PATH, &body).await;
    let request = items(&first, "mcp_approval_request")[0];
    let mut next = continued(&body, &first, vec![answering(request, true)]);
    let place = next["input"].as_array().unwrap().len() - 2;
    // The client may write its own history.
    next["input"][place]["arguments"] = json!(r#"{"a":7}"#);
    let second = ask(&proxy, PATH, &next).await;
    assert_eq!(ran(&received), [json!({"a": 7})]);
    assert_eq!(items(&second, "mcp_call")[0]["arguments"], r#"{"a":7}"#);
    assert_eq!(
        added(&asked.lock().unwrap()[1], 1)[0]["tool_calls"][0]["function"]["arguments"],
        r#"{"a":7}"#
    );
    // Arguments that the tool does not take, and a tool that the operator denies.
    next["input"][place]["arguments"] = json!(r#"{"a":"x"}"#);
    let third = ask(&proxy, PATH, &next).await;
    assert!(items(&third, "mcp_call")[0]["error"].to_string().contains("invalid_arguments"), "{third}");
    next["input"][place]["name"] = json!("sub");
    next["input"][place]["arguments"] = json!("{}");
    let refused = ask(&proxy, PATH, &next).await;
    assert!(refused["error"]["param"].as_str().unwrap().ends_with("].approval_request_id"), "{refused}");
    assert_eq!(ran(&received).len(), 1);
}

#[tokio::test]
async fn calls_without_approval_run_beside_those_that_need_it() {
    let (server, received) = server(json!([tool("sub"), tool("add")]), said("2")).await;
    let calling = call(0, "call_0", "sums__sub", r#"{"a":1}"#)
        + &call(1, "call_1", "sums__add", r#"{"a":2}"#)
        + &call(2, "call_2", "sums__sub", r#"{"a":3}"#)
        + &call(3, "call_3", "sums__add", r#"{"a":4}"#);
    let (upstream, asked) = upstream([calling + &end("tool_calls"), done()]).await;
    let proxy = admitting(&upstream, &server, "", "").await;
    let mut body = responses(&server);
    body["tools"][0]["require_approval"] = json!({"never": {"tool_names": ["sub"]}});
    let first = ask(&proxy, PATH, &body).await;
    let seen: Vec<_> = first["output"].as_array().unwrap().iter().map(|item| &item["type"]).collect();
    let (run, request) = ("mcp_call", "mcp_approval_request");
    assert_eq!(seen, ["mcp_list_tools", run, request, run, request], "{first}");
    let numbers = |received: &Received| {
        let mut numbers: Vec<_> = ran(received).iter().map(|arguments| arguments["a"].as_u64()).collect();
        numbers.sort_unstable();
        numbers
    };
    assert_eq!(numbers(&received), [Some(1), Some(3)]);
    let requests = items(&first, request);
    let own = vec![answering(requests[1], true), answering(requests[0], false)];
    let second = ask(&proxy, PATH, &continued(&body, &first, own)).await;
    assert_eq!(numbers(&received), [Some(1), Some(3), Some(4)]);
    assert_eq!(items(&second, run).len(), 1, "{second}");
    let asked = asked.lock().unwrap();
    let turns = added(&asked[1], 1);
    let calls = turns.iter().flat_map(|turn| turn["tool_calls"].as_array().cloned().unwrap_or_default());
    let calls: Vec<_> = calls.map(|call| call["function"]["arguments"].clone()).collect();
    assert_eq!(calls, [r#"{"a":1}"#, r#"{"a":2}"#, r#"{"a":3}"#, r#"{"a":4}"#], "{}", asked[1]);
    let results =
        turns.iter().filter(|turn| turn["role"] == "tool").map(|turn| turn["content"].as_str().unwrap());
    let results: Vec<_> = results.collect();
    assert_eq!((results.len(), results[0], results[2], results[3]), (4, "2", "2", "2"), "{}", asked[1]);
    assert!(results[1].starts_with("The user declined"), "{}", asked[1]);
}

#[tokio::test]
async fn clients_calls_and_approvals_are_answered_together() {
    for mixed in ["defer", "server_first"] {
        for approve in [true, false] {
            let (server, received) = server(json!([tool("add"), tool("sub")]), said("2")).await;
            let calling = text("Hm.")
                + &call(0, "call_a", "own", "{}")
                + &call(1, "call_b", "sums__add", r#"{"a":1}"#)
                + &call(2, "call_c", "sums__sub", r#"{"a":2}"#);
            let (upstream, asked) = upstream([calling + &end("tool_calls"), done(), done()]).await;
            let proxy = admitting(&upstream, &server, &format!("mixed_turns = \"{mixed}\""), "").await;
            let mut body = responses(&server);
            body["tools"][0]["require_approval"] =
                json!({"always": {"tool_names": ["add"]}, "never": {"tool_names": ["sub"]}});
            let own = json!({"type": "function", "name": "own", "parameters": {"type": "object"}});
            body["tools"].as_array_mut().unwrap().push(own);
            let first = ask(&proxy, PATH, &body).await;
            let (calls, requests) = (items(&first, "function_call"), items(&first, "mcp_approval_request"));
            assert_eq!((calls.len(), requests.len()), (1, 1), "{mixed} {first}");
            let output = json!({"type": "function_call_output", "call_id": calls[0]["call_id"], "output": "own result"});
            let next = continued(&body, &first, vec![answering(requests[0], approve), output]);
            let second = ask(&proxy, PATH, &next).await;
            assert_eq!(second["status"], "completed", "{second}");
            assert_eq!(ran(&received).contains(&json!({"a": 1})), approve, "{mixed}");
            assert!(ran(&received).contains(&json!({"a": 2})), "{mixed}");
            let last = continued(&next, &second, vec![json!({"role": "user", "content": "Bye."})]);
            ask(&proxy, PATH, &last).await;
            assert_eq!(ran(&received).len(), if approve { 2 } else { 1 });
            let asked = asked.lock().unwrap();
            for request in &asked[1..] {
                let turns = added(request, 1);
                let count = |name: &str| {
                    let calls =
                        turns.iter().flat_map(|turn| turn["tool_calls"].as_array().into_iter().flatten());
                    calls.filter(|call| call["function"]["name"] == name).count()
                };
                assert_eq!(
                    (count("own"), count("sums__add"), count("sums__sub")),
                    (1, 1, 1),
                    "{mixed} {request}"
                );
                // Each turn with calls is followed by their results.
                let mut open: Vec<Value> = Vec::new();
                for turn in &turns {
                    match turn["role"].as_str().unwrap() {
                        "tool" => {
                            let place = open.iter().position(|id| *id == turn["tool_call_id"]);
                            open.remove(place.unwrap_or_else(|| panic!("{mixed} {request}")));
                        }
                        _ => {
                            assert!(open.is_empty(), "{mixed} {request}");
                            let calls = turn["tool_calls"].as_array().into_iter().flatten();
                            open.extend(calls.map(|call| call["id"].clone()));
                        }
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn approved_call_does_not_run_again_if_the_upstream_fails() {
    let (server, received) = server(json!([tool("add")]), said("2")).await;
    let failed = Scripted::whole("500 Internal Server Error", "{}");
    let (upstream, asked) =
        scripted(vec![Scripted::stream(adding("{}").into()), failed, Scripted::stream(done().into())]).await;
    let proxy = admitting(&upstream, &server, "", "").await;
    let body = asking(&server);
    let first = ask(&proxy, PATH, &body).await;
    let next = continued(&body, &first, vec![answering(items(&first, "mcp_approval_request")[0], true)]);
    let error = ask(&proxy, PATH, &next).await;
    assert!(error["error"].is_object(), "{error}");
    let answer = ask(&proxy, PATH, &next).await;
    assert_eq!(answer["status"], "completed", "{answer}");
    assert_eq!(ran(&received).len(), 1);
    // The client learns that the call has run.
    let called = items(&answer, "mcp_call");
    let [called] = called[..] else { panic!("{answer}") };
    let id = &items(&first, "mcp_approval_request")[0]["id"];
    assert_eq!((&called["approval_request_id"], &called["output"]), (id, &json!("2")), "{answer}");
    let asked = asked.lock().unwrap();
    assert_eq!(asked[1]["messages"], asked[2]["messages"]);
}

#[tokio::test]
async fn tools_are_listed_once_for_each_server() {
    let annotated = json!({"name": "look", "description": "Looks.", "inputSchema": {"type": "object", "properties": {}},
        "annotations": {"readOnlyHint": true}});
    let (server, _) = server(json!([tool("add"), annotated]), said("2")).await;
    let (upstream, asked) = upstream([done(), done(), done(), done()]).await;
    let proxy = admitting(&upstream, &server, "", "").await;
    let body = asking(&server);
    let first = ask(&proxy, PATH, &body).await;
    let lists = items(&first, "mcp_list_tools");
    let [list] = lists[..] else { panic!("{first}") };
    assert!(list["id"].as_str().unwrap().starts_with("mcpl_"), "{first}");
    assert_eq!((&list["server_label"], &list["error"]), (&json!("sums"), &Value::Null));
    let names: Vec<_> = list["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["add", "look"]);
    assert_eq!(list["tools"][0]["description"], "Adds numbers.");
    assert_eq!(list["tools"][0]["input_schema"]["properties"]["a"]["type"], "integer");
    assert_eq!(list["tools"][1]["annotations"]["readOnlyHint"], true);
    let thanks = json!({"role": "user", "content": "Thanks."});
    let second = ask(&proxy, PATH, &continued(&body, &first, vec![thanks.clone()])).await;
    assert_eq!(items(&second, "mcp_list_tools").len(), 0, "{second}");
    let mut stored = body.clone();
    stored["input"] = json!([thanks]);
    stored["previous_response_id"] = first["id"].clone();
    let third = ask(&proxy, PATH, &stored).await;
    assert_eq!(items(&third, "mcp_list_tools").len(), 0, "{third}");
    let mut other = continued(&body, &first, vec![thanks]);
    other["tools"][0]["server_label"] = json!("totals");
    let fourth = ask(&proxy, PATH, &other).await;
    assert_eq!(items(&fourth, "mcp_list_tools")[0]["server_label"], "totals", "{fourth}");
    for request in &asked.lock().unwrap()[1..] {
        assert!(!request["messages"].to_string().contains("mcp_list_tools"), "{request}");
    }
}

#[tokio::test]
async fn server_that_cannot_be_used_is_said_to_be_so_and_the_response_goes_on() {
    let refusing = Upstream::start(|mut exchange| async move {
        exchange.whole("401 Unauthorized", "www-authenticate: Bearer error=\"client-secret\"\r\n", "").await;
        exchange
    })
    .await;
    let (upstream, asked) = upstream([done(), done()]).await;
    let proxy = admitting(&upstream, &refusing, "", "").await;
    let body = asking(&refusing);
    let events = stream(&proxy, &body).await;
    assert!(events.iter().any(|event| event["type"] == "response.mcp_list_tools.failed"), "{events:?}");
    let response = &events.last().unwrap()["response"];
    let list = items(response, "mcp_list_tools")[0];
    assert!(list["error"].is_string() && list["tools"] == json!([]), "{list}");
    assert!(!json!(events).to_string().contains("secret"), "{list}");
    // It is said again as long as it is so.
    let thanks = json!({"role": "user", "content": "Thanks."});
    let second = ask(&proxy, PATH, &continued(&body, response, vec![thanks])).await;
    assert_eq!(items(&second, "mcp_list_tools").len(), 1, "{second}");
    assert!(asked.lock().unwrap().iter().all(|request| request["tools"].is_null()));
}

#[tokio::test]
async fn lists_are_bounded() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string", "description": "x".repeat(4 << 10)}}});
    let many: Vec<_> = (0..300)
        .map(|number| json!({"name": format!("t{number}"), "description": "T", "inputSchema": schema}))
        .collect();
    let (server, _) = server(json!(many), said("2")).await;
    let (upstream, _) = upstream([done()]).await;
    let proxy = admitting(&upstream, &server, "", "").await;
    let answer = ask(&proxy, PATH, &asking(&server)).await;
    let list = items(&answer, "mcp_list_tools")[0].clone();
    let tools = list["tools"].as_array().unwrap();
    assert!((200..=256).contains(&tools.len()), "{}", tools.len());
    assert!(list.to_string().len() < 600 << 10, "{}", list.to_string().len());
    assert!(tools[0]["input_schema"]["properties"].is_object() && tools[0]["description"] == "T");
    assert_eq!(tools.last().unwrap()["input_schema"], json!({}));
}
