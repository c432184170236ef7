use super::*;

fn read(name: &str, text: &str) -> Result<CaseSet, String> {
    CaseSet::read((Path::new(name), text), None).map_err(|error| error.to_string())
}

#[test]
fn built_in_prompts_are_sixty_of_every_kind() {
    let cases = CaseSet::built_in().unwrap().cases;
    assert_eq!(cases.len(), 60);
    let count = |test: &dyn Fn(&Case) -> bool| cases.iter().filter(|case| test(case)).count();
    assert!(count(&|case| !case.wants_call()) >= 12);
    assert!(count(&Case::has_history) >= 12);
    assert!(count(&Case::requires_call) >= 6);
    assert!(count(&|case| case.tools.len() == 1) >= 8);
    assert!(cases.iter().all(|case| !case.group.is_empty() && !case.tools.is_empty()));
}

/// No response could be right if a prompt expected arguments that its tool does not have.
#[test]
fn built_in_expectations_fit_the_tools() {
    for case in CaseSet::built_in().unwrap().cases {
        for call in &case.calls {
            let properties = &case.tool(&call.name).unwrap().parameters["properties"];
            for key in call.arguments.keys() {
                assert!(properties.get(key).is_some(), "{}: {key}", case.name);
            }
        }
    }
}

#[test]
fn conversation_is_written_as_chat_messages() {
    let text = r#"
        [[prompts]]
        system = "Be brief."
        earlier = [{ user = "Rome?", name = "get_weather", arguments = { city = "Rome" }, result = "24", reply = "24 °C" }]
        user = "And Oslo?"
        calls = [{ name = "get_weather" }]
    "#;
    let case = read("p.toml", text).unwrap().cases.remove(0);
    let roles: Vec<_> = case.messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "assistant", "user"]);
    assert_eq!(case.messages[2]["tool_calls"][0]["function"]["arguments"], r#"{"city":"Rome"}"#);
    assert_eq!(case.messages[3]["tool_call_id"], case.messages[2]["tool_calls"][0]["id"]);
    assert_eq!((case.name.as_str(), case.last_user_text()), ("prompt-1", "And Oslo?"));
    assert!(case.has_history() && case.said().contains("24 °C"));
}

#[test]
fn json_says_the_same_as_toml() {
    let toml =
        "[[tools]]\nname = \"f\"\n[[prompts]]\nuser = \"x\"\ntool_choice = \"f\"\ncalls = [{ name = \"f\" }]";
    let json = r#"{"tools": [{"type": "function", "function": {"name": "f"}}],
        "prompts": [{"user": "x", "tool_choice": "f", "calls": [{"name": "f"}]}]}"#;
    let read_json = read("p.json", json).unwrap();
    assert_eq!(read_json, read("p.toml", toml).unwrap());
    assert_eq!(read_json.cases[0].choice, CaseChoice::Named("f".to_owned()));
    assert_eq!(read_json.cases[0].request()["tool_choice"]["function"]["name"], "f");
}

#[test]
fn tools_come_from_their_own_file() {
    let prompts = (Path::new("p.toml"), "[[prompts]]\nuser = \"x\"\ncalls = [{ name = \"g\" }]");
    for tools in [r#"[{"name": "g", "parameters": {"type": "object"}}]"#, r#"{"tools": [{"name": "g"}]}"#] {
        let set = CaseSet::read(prompts, Some((Path::new("t.json"), tools))).unwrap();
        assert_eq!(set.cases[0].tools.len(), 1);
    }
    for (tools, why) in [
        ("[]", "t.json: there are no `tools`"),
        ("[{\"description\": 1}]", "t.json:1:"),
        ("[{\"name\": \"g\"}, {\"name\": \"g\"}]", "two tools are called `g`"),
        ("[{\"name\": \"g\", \"parameters\": 3}]", "not a JSON Schema object"),
        ("[{\"name\": \"\"}]", "no name"),
    ] {
        let error = CaseSet::read(prompts, Some((Path::new("t.json"), tools))).unwrap_err().to_string();
        assert!(error.contains(why), "{tools}: {error}");
    }
}

#[test]
fn errors_name_their_place() {
    for (name, text, why) in [
        ("p.toml", "[[prompts]]\nuser = 3", "p.toml:2:8: invalid type"),
        ("p.toml", "[[prompts]]\nusr = \"x\"", "p.toml:2:1: unknown field `usr`"),
        ("p.toml", "x = [", "p.toml:1:"),
        ("p.json", "{\"prompts\": [{\"user\": 3}]}", "p.json:1:23: invalid type"),
        ("p.toml", "", "there are no `prompts`"),
        (
            "p.toml",
            "[[prompts]]\nname = \"a\"\nuser = \"x\"\ntools = [\"get_wether\"]",
            "prompt `a`: offers the tool `get_wether`",
        ),
        (
            "p.toml",
            "[[prompts]]\nuser = \"x\"\ncalls = [{ name = \"f\" }]",
            "prompt 1: expects a call of `f`",
        ),
        ("p.toml", "[[prompts]]\nuser = \"x\"\ntool_choice = \"f\"", "`tool_choice` names the tool `f`"),
        ("p.toml", "[[prompts]]\nuser = \"x\"\ntool_choice = \"required\"", "expects none"),
        ("p.toml", "[[prompts]]\nname = \"a\"", "has no message"),
        ("p.toml", "[[prompts]]\nuser = \"x\"\nmessages = []", "whole conversation"),
        (
            "p.toml",
            "[[prompts]]\nname = \"a\"\nuser = \"x\"\n[[prompts]]\nname = \"a\"\nuser = \"y\"",
            "a second prompt",
        ),
    ] {
        let error = read(name, text).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
}
