//! Work and memory of a template are bounded, and grow with the conversation.

use serde_json::json;
use toolwire::failure::Kind;

use super::{NOW, conversation, render, said, template};

#[test]
fn hostile_templates_end_with_an_error() {
    let double =
        "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}";
    let nested =
        "{% macro d(x, n) %}{% if n %}{{ d(x ~ x, n - 1) }}{% else %}{{ x }}{% endif %}{% endmacro %}";
    let loops = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}";
    for template in [
        double.to_owned(),
        double.replace("ns.s ~ ns.s", "[ns.s, ns.s] | join"),
        double.replace("ns.s ~ ns.s", "ns.s + ns.s"),
        double.replace("ns.s ~ ns.s", "ns.s * 2"),
        double.replace("ns.s ~ ns.s", "ns.s.replace('x', 'xx')"),
        double.replace("ns.s ~ ns.s", "'%s%s' | format(ns.s, ns.s)"),
        double.replace("ns.s ~ ns.s", "[ns.s, ns.s]") + "{{ ns.s | tojson }}",
        double.replace("ns.s ~ ns.s", "[ns.s, ns.s]") + "{{ ns.s }}",
        format!("{nested}{{{{ d('x', 55) }}}}"),
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}".to_owned(),
        "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}".to_owned(),
        loops.to_owned(),
        loops.replace("{% endfor %}{% endfor %}", "text{% endfor %}{% endfor %}"),
        "{{ range(10000000000) | list | length }}".to_owned(),
        "{{ 'x' * 10000000000 }}".to_owned(),
        "{{ ('x' * 100000) | indent(1000000) }}{{ [1] * 1000000000 }}".to_owned(),
        "{{ 'a\nb' | indent(10000000000) }}".to_owned(),
        "{{ ['a'] | tojson(indent=10000000000) }}{{ 2 ** 100000 }}".to_owned(),
        "{{ strftime_now('%Y' * 100000) }}".to_owned(),
        "{% for i in range(99999) %}{{ 'x' * 10000 }}{% endfor %}".to_owned(),
        "{% for i in range(99999) %}{% set s %}{{ 'x' * 100000 }}{% endset %}{% endfor %}".to_owned(),
    ] {
        let failure = render(&template, &said("x")).expect_err(&template);
        assert_eq!(failure.kind(), Kind::Internal, "{template}");
    }
}

#[test]
fn deep_values_do_not_exhaust_the_stack() {
    for inner in ["[ns.x]", "{'a': ns.x}", "(ns.x,)", "ns.x + [1]", "namespace(x=ns.x)", "[1] + ns.x"] {
        for shown in ["", "{{ ns.x | tojson }}", "{{ ns.x }}", "{{ ns.x == ns.x }}", "{{ ns.x | length }}"] {
            let template = format!(
                "{{% set ns = namespace(x=[]) %}}{{% for i in range(99999) %}}{{% set ns.x = {inner} %}}{{% endfor %}}{shown}"
            );
            // Whether it renders or fails does not matter.
            let _ = render(&template, &said("x"));
        }
    }
}

#[test]
fn large_conversations_are_rendered() {
    let text = "Some words, and a line.\n".repeat(450_000);
    let rendered = template("chatml.jinja").render(&said(&text), NOW).unwrap();
    assert!(rendered.text.len() > text.len());
    let turns = (0..20_000).map(|n| {
        let role = if n % 2 == 0 { "user" } else { "assistant" };
        json!({"role": role, "content": "Hello <think>x</think> there."})
    });
    let request = json!({"model": "m", "messages": turns.collect::<Vec<_>>()});
    for name in ["chatml.jinja", "headers.jinja", "inst.jinja", "spaced.jinja", "turns.jinja"] {
        template(name).render(&conversation(&request), NOW).unwrap();
    }
}

#[test]
fn many_tools_are_rendered() {
    let tools = (0..10_000).map(|n| {
        let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
        json!({"type": "function", "function": {"name": format!("tool_{n}"), "parameters": schema}})
    });
    let messages = json!([{"role": "user", "content": "Hi"}]);
    let request = json!({"model": "m", "messages": messages, "tools": tools.collect::<Vec<_>>()});
    for name in ["chatml.jinja", "headers.jinja", "inst.jinja", "turns.jinja"] {
        template(name).render(&conversation(&request), NOW).unwrap();
    }
}

#[test]
fn deep_arguments_are_rendered_or_kept_as_text() {
    for depth in [100, 127, 128, 10_000] {
        let arguments = format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}});
        let messages = json!([{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [call]}]);
        let request = conversation(&json!({"model": "m", "messages": messages}));
        let text = template("chatml.jinja").render(&request, NOW).unwrap().text;
        assert!(text.contains(&"[".repeat(depth)), "{depth}");
    }
}
