//! Tests messages that two programs read differently: what toolwire checks must be what the upstream or a tool gets.

use serde_json::Value;

use crate::{
    clients::{ALICE, ask, bearer, proxy},
    hosted::code,
    script::{self, call, end, text},
    support::{client::Client, client::WHOLE, proxy::Setup},
};

const CHAT: (&str, &str) = ("POST", "/v1/chat/completions");

/// Sends a request of alice, who may use the model `m` only, with these members in place of the model.
async fn chosen(members: &str) -> (u16, usize) {
    let (upstream, proxy) = proxy().await;
    let body = format!(r#"{{{members},"messages":[{{"role":"user","content":"hi"}}]}}"#);
    let response = ask(&proxy, CHAT, ("localhost", &bearer(ALICE)), &body).await;
    (response.status, upstream.requests())
}

/// CVE-2026-27896 (MCP Go SDK): the names of members were compared without regard to case, so that `Name` replaced the
/// `name` that an intermediary had checked.
#[tokio::test]
async fn member_in_other_case_does_not_replace_what_was_checked() {
    for other in ["Model", "MODEL", "mODEL"] {
        for members in [
            format!(r#""model":"m","{other}":"org/other""#),
            format!(r#""{other}":"org/other","model":"m""#),
            format!(r#""{other}":"org/other""#),
        ] {
            assert_eq!(chosen(&members).await, (400, 0), "{members}");
        }
    }
    // Go takes the long s and the Kelvin sign for `s` and `k`.
    for name in ["meſſages", "tool\u{17f}", "\u{212a}"] {
        let (status, requests) = chosen(&format!(r#""model":"m","{name}":[]"#)).await;
        let is_known = name != "\u{212a}";
        assert_eq!((status, requests), if is_known { (400, 0) } else { (200, 1) }, "{name}");
    }
    assert_eq!(chosen(r#""model":"m""#).await, (200, 1));
}

/// GHSA-q382-vc8q-7jhj (MCP Go SDK): a name that ends with a null character was taken for the name without it, and of
/// two equal names the last one counted.
#[tokio::test]
async fn repeated_member_does_not_replace_what_was_checked() {
    for members in [
        r#""model":"m","model\u0000":"org/other""#,
        r#""model\u0000":"org/other","model":"m""#,
        r#""model\u0000x":"org/other","model":"m""#,
        r#""model\u0000":"m""#,
    ] {
        assert_eq!(chosen(members).await, (400, 0), "{members}");
    }
    // Of two equal names, the upstream gets the one that was checked.
    for (members, expected) in [
        (r#""model":"m","model":"org/other""#, (403, 0)),
        (r#""model":"m","mod\u0065l":"org/other""#, (403, 0)),
        (r#""model":"org/other","model":"m""#, (200, 1)),
    ] {
        assert_eq!(chosen(members).await, expected, "{members}");
    }
    let (upstream, asked) = script::upstream([text("Done.") + &end("stop")]).await;
    let proxy = Setup::new(upstream.address).start().await;
    let body = WHOLE.replacen('{', r#"{"model":"org/other","#, 1);
    assert_eq!(Client::new().chat(&proxy, body).await.status(), 200);
    assert_eq!(asked.lock().unwrap()[0]["model"], "m");
}

/// A tool that repeats what its program has read. Only `allowed` may be said.
const TOOL: &str = r#"
[execution]
[[providers]]
name = "say"
kind = "command"
command = ["cat"]
parameters = { type = "object", properties = { word = { type = "string", enum = ["allowed"] } }, required = ["word"] }
"#;

/// CVE-2026-27896 (MCP Go SDK): as above, in the arguments of a tool.
#[tokio::test]
async fn argument_in_other_case_does_not_reach_the_tool() {
    for (arguments, is_run) in [
        (r#"{"word":"allowed"}"#, true),
        (r#"{"word":"allowed","Word":"other"}"#, false),
        (r#"{"Word":"other","word":"allowed"}"#, false),
        (r#"{"word":"allowed","word":"other"}"#, false),
        (r#"{"word":"other"}"#, false),
    ] {
        let streams =
            [call(0, "call_0", "say", arguments) + &end("tool_calls"), text("Done.") + &end("stop")];
        let (upstream, asked) = script::upstream(streams).await;
        let setup = Setup { execution: TOOL.to_owned(), ..Setup::new(upstream.address) };
        let proxy = setup.start().await;
        let answer: Value = Client::new().chat(&proxy, WHOLE).await.json().await;
        assert_eq!(answer["choices"][0]["message"]["content"], "Done.");
        let asked = asked.lock().unwrap();
        let result = asked[1]["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
        match is_run {
            true => assert_eq!(result, arguments),
            false => assert_eq!(code(result), "invalid_arguments", "{arguments}: {result}"),
        }
    }
}
