//! Checks the table of the types that MCP servers and their clients exchange: a server sends an instance of each, and the
//! model gets what the table says.

use std::{
    collections::BTreeMap,
    fs,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use tokio::time::{Duration, sleep};

use super::script::{call, end, text};
use crate::{
    independent::types::{self, MCP, Types, claim::Becomes, trace::Seen},
    support::{
        client::Client,
        proxy::{Proxy, Setup},
        soon,
        upstream::{Exchange, Upstream},
    },
};

/// The server. Each instance of a member of tools is in a tool of its own, and all else in the result of `run`.
const SERVER: &str = r#"
import json, sys
instances, methods = json.load(open(sys.argv[1])), []
said = {"type": "text", "text": "said"}

def tool(name, **more):
    return {"name": name, "inputSchema": {"type": "object"}, **more}

def tools():
    members = instances["tool member"].items()
    hints = instances["annotation of a tool"].items()
    return [tool("run"), tool("plain"),
            *({**tool("tool_" + key), key: value} for key, value in members),
            *(tool("hint_" + key, annotations={key: value}) for key, value in hints)]

def write(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def resource(members):
    return {"content": [{"type": "resource", "resource": {"uri": "file:///u", **members}}]}

def result(kind, name):
    instance = instances.get(kind, {}).get(name)
    match kind:
        case "content": return {"content": [instance] if instance else []}
        case "result member": return {"content": [said], **({name: instance} if name else {})}
        case "result type":
            more = {"inputRequests": {}, "requestState": "s"} if name == "input_required" else {"content": [said]}
            return {**more, **({"resultType": name} if name else {})}
        case "text resource member": return resource({"text": "t", **({name: instance} if name else {})})
        case "binary resource member": return resource({"blob": "AAAA", **({name: instance} if name else {})})
        case "notification of the server" if name: write(instance)
        case "request of the server" if name:
            write({"id": "own", **instance})
            return {"content": [{"type": "text", "text": sys.stdin.readline()}]}
        case "methods": return {"content": [{"type": "text", "text": "\n".join(methods)}]}
    return {"content": [said]}

for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params") or {}
    methods.append(method)
    if "id" not in message:
        continue
    answer = {}
    if method == "initialize":
        capabilities = {"tools": {"listChanged": True}}
        answer = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {"name": "s", "version": "1"}}
    if method == "tools/list":
        answer = {"tools": tools()}
    if method == "tools/call":
        answer = result(params["arguments"]["kind"], params["arguments"]["name"])
    write({"id": message["id"], "result": answer})
"#;

/// What the model has got: the tools, and the result of the last call.
#[derive(Debug, Default)]
struct Got {
    tools: Vec<Value>,
    result: String,
}

type Shared = Arc<Mutex<Got>>;

/// A model that calls `run` with the user's message as arguments, if it has that tool.
async fn upstream(got: &Shared) -> Upstream {
    Upstream::start_sharing(got.clone(), |exchange: Exchange, got| async move {
        let body: Value = serde_json::from_slice(&exchange.body).unwrap();
        let last = body["messages"].as_array().unwrap().last().unwrap();
        let stream = match last["role"].as_str() {
            Some("tool") => {
                got.lock().unwrap().result = last["content"].as_str().unwrap().to_owned();
                text("done") + &end("stop")
            }
            _ if body["tools"].is_null() => text("not yet") + &end("stop"),
            _ => {
                got.lock().unwrap().tools = body["tools"].as_array().unwrap().clone();
                call(0, "c0", "s__run", last["content"].as_str().unwrap()) + &end("tool_calls")
            }
        };
        exchange.stream(stream).await
    })
    .await
}

/// The result of `run` for an instance.
async fn result(proxy: &Proxy, got: &Shared, kind: &str, name: &str) -> String {
    let arguments = json!({"kind": kind, "name": name}).to_string();
    let request = json!({"model": "m", "messages": [{"role": "user", "content": arguments}]}).to_string();
    let asked = async {
        loop {
            let response = Client::new().chat(proxy, request.clone()).await.json().await;
            if response["choices"][0]["message"]["content"] != "not yet" {
                return got.lock().unwrap().result.clone();
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    soon(&format!("the result of {kind} {name}"), asked).await
}

#[tokio::test]
async fn each_type_of_mcp_becomes_what_its_table_says() {
    let folder = tempfile::tempdir().unwrap();
    let (script, instances) = (folder.path().join("server.py"), folder.path().join("instances.json"));
    let all = types::instances("mcp");
    fs::write(&script, SERVER).unwrap();
    fs::write(&instances, json!(all).to_string()).unwrap();
    let got = Shared::default();
    let upstream = upstream(&got).await;
    let mut setup = Setup::new(upstream.address);
    setup.execution = format!(
        "[execution]\n[[providers]]\nname = \"s\"\nkind = \"mcp\"\nprotocol = \"initialize\"\ncommand = [\"python3\", {:?}, {:?}]\n",
        script.display().to_string(),
        instances.display().to_string(),
    );
    let proxy = setup.start().await;
    let mut faults = Vec::new();
    let mut without = BTreeMap::new();
    for (kind, names) in &all {
        without.insert(kind.clone(), result(&proxy, &got, kind, "").await);
        for name in names.keys().filter(|_| is_in_results(kind)) {
            let with = result(&proxy, &got, kind, name).await;
            faults.extend(contradiction(&all, kind, name, &with, &without[kind]));
        }
    }
    let methods = result(&proxy, &got, "methods", "").await;
    faults.extend(unsent(&methods));
    faults.extend(tool_faults(&all, &got.lock().unwrap().tools));
    assert!(faults.is_empty(), "{} claims are wrong:\n{}", faults.len(), faults.join("\n"));
}

fn is_in_results(kind: &str) -> bool {
    let is_of_tools = matches!(kind, "tool member" | "annotation of a tool" | "list member");
    !is_of_tools && !kind.ends_with("of the client")
}

/// What contradicts the claim about an instance in a result.
fn contradiction(all: &Types<Value>, kind: &str, name: &str, with: &str, without: &str) -> Option<String> {
    let table = types::table(MCP);
    let claim = table[kind][name].0.first().unwrap();
    let fault = match (kind, claim.becomes) {
        // The result is the client's reply.
        ("request of the server", becomes) => {
            let reply: Value = serde_json::from_str(with).unwrap();
            let is_declined = reply.get("error").is_some() || reply["result"]["action"] == "decline";
            (is_declined != (becomes == Becomes::Refused)).then(|| format!("got {reply}"))
        }
        // The tests of the provider show what follows.
        ("notification of the server", Becomes::Mapped) => None,
        _ => {
            let instance = &all[kind][name];
            let of_member = json!({ name: instance });
            let instance = if kind.ends_with("member") { &of_member } else { instance };
            Seen::of(instance, Ok(with.into()), &without.into()).contradicts(claim)
        }
    };
    fault.map(|fault| format!("{kind} `{name}` {fault}"))
}

/// The requests and notifications of toolwire that the table does not have as such. Those that this server does not
/// provoke are in the tests of the provider.
fn unsent(methods: &str) -> Vec<String> {
    let folder = crate::independent::repository::root().join(MCP);
    let script = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let provider = script("scripted.py") + &script("interactive.py");
    let mut faults = Vec::new();
    for (kind, entries) in types::table(MCP).into_iter().filter(|(kind, _)| kind.ends_with("of the client")) {
        for (name, entry) in entries {
            let is_mapped = entry.0.iter().any(|claim| claim.becomes == Becomes::Mapped);
            let is_sent = methods.lines().any(|method| method == name);
            let is_known = provider.contains(&format!("\"{name}\""));
            if is_sent && !is_mapped || is_mapped && !is_sent && !is_known {
                faults.push(format!("{kind} `{name}`: {entry:?}, but sent were {methods}"));
            }
        }
    }
    faults
}

/// What contradicts the claims about members of tools.
fn tool_faults(all: &Types<Value>, tools: &[Value]) -> Vec<String> {
    let table = types::table(MCP);
    let function = |name: &str| {
        // The names that models get are in lower case.
        let name = name.to_lowercase();
        let tool = tools.iter().find(|tool| tool["function"]["name"] == name);
        let mut tool = tool.unwrap_or_else(|| panic!("{name} in {tools:?}"))["function"].clone();
        if name.starts_with("s__tool_") || name.starts_with("s__hint_") || name == "s__plain" {
            tool["name"].take();
        }
        tool
    };
    let mut faults = Vec::new();
    for (kind, prefix) in [("tool member", "tool"), ("annotation of a tool", "hint")] {
        for (name, instance) in &all[kind] {
            let own =
                if name == "name" { "s__name_text_1".to_owned() } else { format!("s__{prefix}_{name}") };
            let claim = table[kind][name].0.first().unwrap();
            let fault = Seen::of(instance, Ok(function(&own)), &function("s__plain")).contradicts(claim);
            faults.extend(fault.map(|fault| format!("{kind} `{name}` {fault}")));
        }
    }
    faults
}
