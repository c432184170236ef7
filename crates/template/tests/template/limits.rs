//! Tests that the work and the memory of a template are bounded and grow with the conversation.

use serde_json::json;
use toolwire_engine::failure::Kind;

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

/// Each result would need more memory than any machine has.
#[test]
fn results_are_refused_before_they_are_written() {
    let field = |spec: &str, value: &str| format!("{{{{ \"{spec}\".format({value}) }}}}");
    let big = "{% set big = 'x' * 1000000 %}";
    for template in [
        field("{:>20000000000}", "1"),
        field("{:}>20000000000}", "1"),
        field("{0[a}b]:*^20000000000}", "{'a}b': 1}"),
        field("{a[:x]:<20000000000}", "a={':x': 1}"),
        field("{:0900000000d}", "1"),
        field("{:0900000000,d}", "1"),
        field("{:.60000000000f}", "1.5"),
        field("{:.60000000000e}", "1.5"),
        field("{:99999999999999999999999}", "'a'"),
        "{{ '%1000000000d' | format(1) }}{{ '%.60000000000f' | format(1.5) }}".to_owned(),
        "{{ '%*d' | format(1000000000, 1) }}".to_owned(),
        format!("{big}{{{{ ('{{0}}' * 1000000).format(big) }}}}"),
        format!("{big}{{{{ ('{{0[0]}}' * 1000000).format([big]) }}}}"),
        format!("{big}{{{{ ('{{a}}' * 1000000).format(a=big) }}}}"),
        format!("{big}{{{{ big.replace('x', big) }}}}"),
        format!("{big}{{{{ big.replace('', big) }}}}"),
        format!("{big}{{{{ big | replace('x', big) }}}}"),
        format!("{big}{{{{ big.join(big) }}}}"),
        format!("{big}{{{{ ''.join([big] * 100000) }}}}"),
        format!("{big}{{{{ ([big] * 100000) | join }}}}"),
        format!("{big}{{{{ ([{{'a': big}}] * 100000) | join(attribute='a') }}}}"),
        format!("{big}{{{{ ([big] * 100000) | map('upper') | join }}}}"),
        format!("{big}{{{{ ([[big] * 1000] * 1000) | sum(start=[]) | join }}}}"),
        "{{ 'x' | center(20000000000) }}".to_owned(),
        "{{ [1] | batch(20000000000, 'x') | list }}".to_owned(),
        "{{ [1] | slice(20000000000, 'x') | list }}".to_owned(),
        "{{ ('x' * 12000000).split('') | length }}{{ ('a ' * 6000000).split() | length }}".to_owned(),
        "{{ ('\n' * 12000000).splitlines() | length }}".to_owned(),
        "{{ ([0] * 100000) | tojson(indent=100000) }}".to_owned(),
        "{{ (('%' * 12000000) | urlencode) * 100 }}".to_owned(),
    ] {
        let failure = render(&template, &said("x")).expect_err(&template);
        let message = failure.message();
        let is_limit = ["takes too much work", "too long", "fails"].iter().any(|said| message.contains(said));
        assert!(failure.kind() == Kind::Internal && is_limit, "{template}: {message}");
        let is_ours =
            template.contains(".format(") || template.contains(".replace(") || template.contains("join");
        assert!(!is_ours || message.contains("takes too much work"), "{template}: {message}");
    }
}

#[test]
fn ordinary_methods_have_their_results() {
    for (template, text) in [
        ("{{ '{:>8}|{:*^7}|{:08.3f}|{{}}'.format('a', 'b', 1.5) }}", "       a|***b***|0001.500|{}"),
        ("{{ '{0[k]} {name:}>4} 123456789: 99999'.format({'k': 'v'}, name=7) }}", "v }}}7 123456789: 99999"),
        ("{{ 'abc'.replace('b', 'xx') }}{{ 'aaa'.replace('a', 'b', 1) }}", "axxcbaa"),
        ("{{ ', '.join(['a', 1, [2]]) }}{{ '-'.join('abc') }}", "a, 1, [2]a-b-c"),
        ("{{ ['a', 'b'] | join }}{{ ['a', 'b'] | join(', ') }}{{ 'ab' | join('-') }}", "aba, ba-b"),
        ("{{ [{'a': 1}, {'a': 2}] | join('+', attribute='a') }}{{ [1, 2] | map('string') | join }}", "1+212"),
        (
            "{{ {'a': 1, 'b': 2} | join(',') }}{{ 'a b'.split() | join('/') }}{{ 'a,b'.split(',')[1] }}",
            "a,ba/bb",
        ),
        (
            "{{ 'a\nb'.splitlines() | length }}{{ [1, 1].count(1) }}{{ 'ß'.upper() }}{{ 'ab'.title() }}",
            "22SSAb",
        ),
    ] {
        assert_eq!(render(template, &said("x")).unwrap(), text, "{template}");
    }
}

#[test]
fn deep_values_do_not_exhaust_the_stack() {
    for inner in ["[ns.x]", "{'a': ns.x}", "(ns.x,)", "ns.x + [1]", "namespace(x=ns.x)", "[1] + ns.x"] {
        for shown in ["", "{{ ns.x | tojson }}", "{{ ns.x }}", "{{ ns.x == ns.x }}", "{{ ns.x | length }}"] {
            let template = format!(
                "{{% set ns = namespace(x=[]) %}}{{% for i in range(99999) %}}{{% set ns.x = {inner} %}}{{% endfor %}}{shown}"
            );
            // Rendering may succeed or fail, but must not crash.
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
