use std::{sync::atomic::Ordering, time::Duration};

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    CacheRule, ExecutionSettings, Permission, ProviderEntry, Rate, ToolRules, ToolSpec,
    double::{Act, Scripted, asker, call, idempotent, names, run, spec, stage, turn},
};

/// The error code in a result.
fn code(ran: &Ran) -> Option<String> {
    let content: Value = serde_json::from_str(&ran.output.content).ok()?;
    content["error"]["code"].as_str().map(str::to_owned)
}

fn rules(rules: ToolRules) -> ExecutionSettings {
    ExecutionSettings { tools: [("tool".to_owned(), rules)].into(), ..ExecutionSettings::default() }
}

#[test]
fn results_come_in_the_order_of_the_calls_whatever_ends_first() {
    run(async {
        let answers =
            [3, 1, 2].map(|after| Act::Answer(Duration::from_secs(after), format!("after {after}")));
        let provider = Scripted::new(vec![spec("tool")], answers);
        let execution = stage(ExecutionSettings::default(), &[("p", &provider)]);
        let calls = vec![call("a", "tool", "1"), call("b", "tool", "2"), call("c", "tool", "3")];
        let ran = turn(&execution).run(calls).await;
        let results: Vec<_> = ran.iter().map(|ran| (&*ran.output.id, &*ran.output.content)).collect();
        assert_eq!(results, [("a", "after 3"), ("b", "after 1"), ("c", "after 2")]);
        assert_eq!(ran[0].note, "A Tool: 1 result");
    });
}

#[test]
fn no_more_calls_run_at_once_than_turn_provider_and_process_allow() {
    for (max_parallel, at_provider, max_running, most) in [(3, 9, 9, 3), (9, 2, 9, 2), (9, 9, 4, 4)] {
        run(async {
            let answers = (0..10).map(|_| Act::Answer(Duration::from_secs(1), "done".to_owned()));
            let provider = Scripted::new(vec![spec("tool")], answers);
            let (_, default) = crate::KINDS[0];
            let entry = ProviderEntry {
                name: "p".to_owned(),
                options: default(),
                tools: Vec::new(),
                deny: Vec::new(),
                max_running: at_provider,
                rate_limit: None,
            };
            let defaults = ExecutionSettings::default();
            let settings =
                ExecutionSettings { max_parallel, max_running, providers: vec![entry], ..defaults };
            let execution = stage(settings, &[("p", &provider)]);
            let calls = (0..10).map(|n| call(&n.to_string(), "tool", &n.to_string())).collect();
            turn(&execution).run(calls).await;
            assert_eq!(provider.most_running.load(Ordering::SeqCst), most);
        });
    }
}

#[test]
fn calls_that_cannot_run_have_results_that_say_so() {
    run(async {
        let provider = Scripted::new(vec![spec("tool")], []);
        let execution = stage(ExecutionSettings::default(), &[("p", &provider)]);
        let calls = vec![
            call("a", "other", ""),
            Call::new("b", "tool", "{\"q\":1}"),
            Call::new("c", "tool", "{\"q\":"),
            Call::new("d", "tool", ""),
            Call::new("e", "tool", "null"),
        ];
        let ran = turn(&execution).run(calls).await;
        let codes: Vec<_> = ran.iter().map(code).collect();
        let invalid = || Some("invalid_arguments".to_owned());
        assert_eq!(codes, [Some("unknown_tool".to_owned()), invalid(), invalid(), None, None]);
        assert!(ran[1].output.is_error && ran[1].output.content.contains("`q` must be of type string"));
        assert_eq!((&*ran[3].arguments, &*ran[3].output.content), ("{}", "{}"));
        assert_eq!(provider.count(), 2);
    });
}

#[test]
fn failed_calls_are_repeated_only_if_that_is_harmless() {
    let unsent = Act::Fail(ToolError::new(ErrorCode::ProviderError, "No connection.").unsent());
    let fails = |code| vec![Act::fail(code); 9];
    for (spec, acts, runs, seconds) in [
        (idempotent("tool"), fails(ErrorCode::ProviderError), 4, 7.0),
        (idempotent("tool"), fails(ErrorCode::AuthFailed), 1, 0.0),
        (idempotent("tool"), fails(ErrorCode::ContentPolicy), 1, 0.0),
        (spec("tool"), fails(ErrorCode::ProviderError), 1, 0.0),
        (spec("tool"), vec![unsent; 9], 4, 7.0),
    ] {
        run(async {
            let provider = Scripted::new(vec![spec], acts);
            let execution = stage(ExecutionSettings::default(), &[("p", &provider)]);
            let began = Instant::now();
            let ran = turn(&execution).run(vec![call("a", "tool", "")]).await;
            assert!(ran[0].output.is_error);
            assert_eq!(provider.count(), runs);
            let took = began.elapsed().as_secs_f64();
            assert!((seconds * 0.75..=seconds * 1.26).contains(&took), "{took} s");
        });
    }
}

#[test]
fn retry_waits_as_long_as_the_provider_says_but_not_beyond_the_deadline() {
    for (retry_after, runs) in [(20, 2), (400, 1)] {
        run(async {
            let error = ToolError::new(ErrorCode::RateLimited, "Later.");
            let error = ToolError { retry_after: Some(Duration::from_secs(retry_after)), ..error };
            let provider = Scripted::new(vec![idempotent("tool")], [Act::Fail(error), Act::say("done")]);
            let execution = stage(ExecutionSettings::default(), &[("p", &provider)]);
            let began = Instant::now();
            let ran = turn(&execution).run(vec![call("a", "tool", "")]).await;
            assert_eq!((provider.count(), ran[0].output.is_error), (runs, runs == 1));
            assert_eq!(began.elapsed().as_secs(), if runs == 2 { retry_after } else { 0 });
        });
    }
}

#[test]
fn slow_tools_are_cancelled_by_their_timeout_and_by_the_turn() {
    run(async {
        let provider = Scripted::new(vec![spec("tool")], [Act::Hang, Act::Hang]);
        let execution = stage(ExecutionSettings::default(), &[("p", &provider)]);
        let ran = turn(&execution).run(vec![call("a", "tool", "")]).await;
        assert_eq!(code(&ran[0]).as_deref(), Some("timeout"));
        assert!(ran[0].output.content.contains("within 30 s"));
        let settings =
            ExecutionSettings { deadline: Duration::from_secs(10), ..ExecutionSettings::default() };
        let execution = stage(settings, &[("p", &provider)]);
        let turn = turn(&execution);
        let began = Instant::now();
        let ran = turn.run(vec![call("a", "tool", "")]).await;
        assert_eq!((code(&ran[0]).as_deref(), began.elapsed().as_secs()), (Some("timeout"), 10));
        // The message is about the turn's deadline, not about the tool's timeout, which has not passed.
        assert!(ran[0].output.content.contains("time for the tools of this response is over"));
        assert_eq!(turn.exhausted_limit(), Some("deadline"));
        // The model may still call the tool.
        let late = turn.run(vec![call("b", "tool", "")]).await;
        assert_eq!((code(&late[0]).as_deref(), provider.count()), (Some("timeout"), 2));
    });
}

#[test]
fn panicking_provider_fails_its_own_call_only() {
    run(async {
        let provider = Scripted::new(vec![spec("tool")], [Act::Panic, Act::say("done")]);
        let execution = stage(ExecutionSettings::default(), &[("p", &provider)]);
        let mut live = execution.audit().subscribe();
        let ran = turn(&execution).run(vec![call("a", "tool", "1"), call("b", "tool", "2")]).await;
        assert_eq!(code(&ran[0]).as_deref(), Some("provider_error"));
        assert_eq!(ran[1].output.content, "done");
        let results = names(&mut live).into_iter().filter(|name| *name == "tool_result").count();
        assert_eq!(results, 2);
    });
}

#[test]
fn third_equal_call_of_a_turn_is_refused() {
    run(async {
        let provider = Scripted::new(vec![spec("tool"), spec("other")], []);
        let execution = stage(ExecutionSettings::default(), &[("p", &provider)]);
        let turn = turn(&execution);
        let equal = |id: &str, arguments: &str| Call::new(id, "tool", arguments);
        let first =
            turn.run(vec![equal("a", "{\"q\":\"x\",\"r\":1}"), equal("b", "{ \"r\":1, \"q\":\"x\" }")]).await;
        assert!(first.iter().all(|ran| code(ran).is_none()));
        let second = turn.run(vec![equal("c", "{\"r\":1,\"q\":\"x\"}"), equal("d", "{\"q\":\"y\"}")]).await;
        assert_eq!(code(&second[0]).as_deref(), Some("loop"));
        assert_eq!(code(&second[1]), None);
        assert_eq!(code(&turn.run(vec![call("e", "other", "x")]).await[0]), None);
        assert_eq!(provider.count(), 4);
    });
}

#[test]
fn calls_beyond_the_limits_of_the_turn_do_not_run() {
    run(async {
        let provider = Scripted::new(vec![spec("tool")], []);
        let settings = ExecutionSettings { max_calls: 3, max_rounds: 2, ..ExecutionSettings::default() };
        let execution = stage(settings, &[("p", &provider)]);
        let turn = turn(&execution);
        let calls = |from: usize, n: usize| {
            (from..from + n).map(|n| call(&n.to_string(), "tool", &n.to_string())).collect::<Vec<_>>()
        };
        turn.run(calls(0, 1)).await;
        assert_eq!(turn.exhausted_limit(), None);
        let ran = turn.run(calls(1, 3)).await;
        let codes: Vec<_> = ran.iter().map(code).collect();
        assert_eq!(codes, [None, None, Some("max_calls".to_owned())]);
        assert!(turn.exhausted_limit().is_some());
        assert_eq!(code(&turn.run(calls(9, 1)).await[0]).as_deref(), Some("max_calls"));
        assert_eq!(provider.count(), 3);
    });
}

#[test]
fn tool_is_exhausted_after_its_uses() {
    run(async {
        let provider = Scripted::new(vec![spec("tool"), spec("other")], []);
        let execution =
            stage(rules(ToolRules { max_uses: Some(1), ..ToolRules::default() }), &[("p", &provider)]);
        let mut conversation = toolwire_pipeline::conversation::Conversation::default();
        let turn = Arc::new(execution.offer(&mut conversation, &[], asker()).unwrap());
        assert_eq!(turn.exhausted(), [""; 0]);
        let ran =
            turn.run(vec![call("a", "tool", "1"), call("b", "tool", "2"), call("c", "other", "3")]).await;
        let codes: Vec<_> = ran.iter().map(code).collect();
        assert_eq!(codes, [None, Some("max_uses".to_owned()), None]);
        assert_eq!(turn.exhausted(), ["tool"]);
    });
}

#[test]
fn equal_calls_are_served_from_the_cache_for_a_while_and_take_no_rate() {
    run(async {
        let provider = Scripted::new(vec![idempotent("tool")], []);
        let rate = Rate { count: 1.try_into().unwrap(), period: Duration::from_secs(3600) };
        let execution =
            stage(rules(ToolRules { rate_limit: Some(rate), ..ToolRules::default() }), &[("p", &provider)]);
        let mut live = execution.audit().subscribe();
        let once = async || turn(&execution).run(vec![call("a", "tool", "x")]).await.remove(0);
        let first = once().await;
        assert_eq!(once().await.output, first.output);
        assert_eq!(provider.count(), 1);
        assert!(names(&mut live).contains(&"cache_hit"));
        // Each client has its own cache.
        let mut other = asker();
        other.owner = toolwire_net::store::Owner([8; 32]);
        Arc::new(execution.by_hand(other)).run(vec![call("a", "tool", "x")]).await;
        assert_eq!(provider.count(), 2);
        // After the result has expired, the call counts against the rate limit again.
        tokio::time::advance(Duration::from_secs(300)).await;
        assert_eq!(code(&once().await).as_deref(), Some("rate_limited"));
        tokio::time::advance(Duration::from_secs(3300)).await;
        assert_eq!(code(&once().await), None);
        assert_eq!(provider.count(), 3);
    });
}

#[test]
fn errors_and_calls_that_do_something_are_not_cached() {
    run(async {
        for (spec, cache, acts, runs) in [
            (idempotent("tool"), CacheRule::Default, vec![Act::fail(ErrorCode::AuthFailed)], 2),
            (idempotent("tool"), CacheRule::Off, vec![], 2),
            (spec("tool"), CacheRule::Default, vec![], 2),
            (spec("tool"), CacheRule::For(Duration::from_secs(1)), vec![], 1),
        ] {
            let provider = Scripted::new(vec![spec], acts);
            let execution = stage(rules(ToolRules { cache, ..ToolRules::default() }), &[("p", &provider)]);
            for _ in 0..2 {
                turn(&execution).run(vec![call("a", "tool", "x")]).await;
            }
            assert_eq!(provider.count(), runs);
        }
    });
}

#[test]
fn one_of_several_equal_calls_runs_and_another_takes_over_if_it_is_cancelled() {
    run(async {
        let slow = || Act::Answer(Duration::from_secs(5), "done".to_owned());
        let provider = Scripted::new(vec![idempotent("tool")], [slow(), slow()]);
        let execution = stage(ExecutionSettings::default(), &[("p", &provider)]);
        let (first, second) = (turn(&execution), turn(&execution));
        let leader = tokio::task::spawn(first.run(vec![call("a", "tool", "x")]));
        tokio::time::sleep(Duration::from_secs(1)).await;
        let follower = tokio::task::spawn(second.run(vec![call("a", "tool", "x"), call("b", "tool", "x")]));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(provider.count(), 1);
        leader.abort();
        let ran = follower.await.unwrap();
        assert!(ran.iter().all(|ran| ran.output.content == "done"));
        assert_eq!(provider.count(), 2);
    });
}

/// The default limit for images is ten calls per minute.
#[test]
fn eleventh_call_in_a_minute_is_refused_and_other_clients_are_not_affected() {
    run(async {
        let rate_limit = Some(Rate::per_minute(10.try_into().unwrap()));
        let provider = Scripted::new(vec![ToolSpec { rate_limit, ..ToolSpec::clone(&spec("tool")) }], []);
        let settings = ExecutionSettings { max_calls: 99, ..ExecutionSettings::default() };
        let execution = stage(settings, &[("p", &provider)]);
        let calls = async |client: u8, count: usize| {
            let mut asker = asker();
            asker.owner = toolwire_net::store::Owner([client; 32]);
            let turn = Arc::new(execution.by_hand(asker));
            let calls = (0..count).map(|n| call(&n.to_string(), "tool", &n.to_string())).collect();
            let ran = turn.run(calls).await;
            ran.iter().map(|ran| code(ran).unwrap_or_default()).filter(|code| code == "rate_limited").count()
        };
        assert_eq!(calls(1, 10).await, 0);
        // One more call would have to wait six seconds, which is longer than `rate_wait`.
        assert_eq!(calls(1, 1).await, 1);
        assert_eq!(calls(2, 11).await, 1);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(calls(1, 10).await, 0);
    });
}

#[test]
fn calls_wait_for_their_rate_for_a_while() {
    run(async {
        let provider = Scripted::new(vec![spec("tool")], []);
        let rate_limit = Some(Rate { count: 2.try_into().unwrap(), period: Duration::from_secs(6) });
        let settings = ExecutionSettings { rate_limit, max_parallel: 9, ..ExecutionSettings::default() };
        let execution = stage(settings, &[("p", &provider)]);
        let began = Instant::now();
        let calls = (0..5).map(|n| call(&n.to_string(), "tool", &n.to_string())).collect();
        let ran = turn(&execution).run(calls).await;
        // Two calls run immediately and one after 3 s. The others would run after 6 and 9 s.
        let codes: Vec<_> = ran.iter().map(|ran| code(ran).is_none()).collect();
        assert_eq!(codes.iter().filter(|ok| **ok).count(), 3, "{codes:?}");
        assert_eq!(began.elapsed().as_secs(), 3);
    });
}

#[test]
fn large_results_are_shortened_and_all_together_have_a_limit() {
    run(async {
        let texts = (0..4).map(|_| Act::say(&"x".repeat(5000)));
        let provider = Scripted::new(vec![spec("tool")], texts);
        let defaults = ExecutionSettings::default();
        let settings = ExecutionSettings { max_result: 1000, max_results: 2500, ..defaults };
        let execution = stage(settings, &[("p", &provider)]);
        let turn = turn(&execution);
        let calls = (0..4).map(|n| call(&n.to_string(), "tool", &n.to_string())).collect();
        let ran = turn.run(calls).await;
        let lengths: Vec<_> = ran.iter().map(|ran| ran.output.content.len()).collect();
        assert!(lengths[..3].iter().all(|length| *length <= 1000), "{lengths:?}");
        assert!(lengths[..3].iter().sum::<usize>() <= 2500, "{lengths:?}");
        assert!(ran[2].output.content.contains("[Shortened"));
        assert_eq!(code(&ran[3]).as_deref(), Some("too_large"));
        assert!(turn.exhausted_limit().is_some());
    });
}

#[test]
fn configured_secrets_leave_results_and_events() {
    run(async {
        let answer = Output {
            summary: "secret-word".to_owned(),
            details: json!({"key": "secret-word"}),
            ..Output::text("a secret-word, and sk-0123456789abcdef which is not ours")
        };
        let provider = Scripted::new(vec![spec("tool")], [Act::say(&answer.content)]);
        let execution = stage(ExecutionSettings::default(), &[("p", &provider)]);
        let mut live = execution.audit().subscribe();
        execution.audit().capture(true);
        let ran = turn(&execution).run(vec![call("a", "tool", "secret-word")]).await.remove(0);
        assert_eq!(ran.output.content, "a xxxxxxxxxxx, and sk-0123456789abcdef which is not ours");
        assert_eq!(provider.calls.lock()[0].1["q"], "secret-word", "the provider gets what the model wrote");
        while let Ok(record) = live.try_recv() {
            let shown = Value::Object(record.data()).to_string();
            assert!(!shown.contains("secret-word") && !shown.contains("sk-0123"), "{shown}");
        }
    });
}

#[test]
fn events_say_what_a_tool_does_while_contents_are_captured() {
    run(async {
        let provided = ToolSpec { progress: "Asking: {q}".to_owned(), ..spec("tool") };
        for (own, expected) in [
            (None, Some("Asking: a xxxxxxxxxxx")),
            (Some("Looking up {q}, {q}"), Some("Looking up a xxxxxxxxxxx, a xxxxxxxxxxx")),
            (Some(""), None),
        ] {
            let own = ToolRules { progress: own.map(str::to_owned), ..ToolRules::default() };
            let provider = Scripted::new(vec![provided.clone()], []);
            let execution = stage(rules(own), &[("p", &provider)]);
            for is_captured in [true, false] {
                let mut live = execution.audit().subscribe();
                execution.audit().capture(is_captured);
                turn(&execution).run(vec![call("a", "tool", "a secret-word")]).await;
                let data = live.try_recv().unwrap().data();
                let progress = data.get("progress").and_then(Value::as_str);
                assert_eq!(progress, expected.filter(|_| is_captured), "{data:?}");
            }
        }
    });
}

#[test]
fn tool_without_a_line_of_its_own_shows_its_label() {
    run(async {
        let spec = ToolSpec { label: "Look {q}\u{1b} up".to_owned(), ..spec("tool") };
        let execution = stage(ExecutionSettings::default(), &[("p", &Scripted::new(vec![spec], []))]);
        let line = turn(&execution).progress(&call("a", "tool", "x"));
        assert_eq!(line.as_deref(), Some(r"Running: Look {q}\u{1b} up"));
        assert_eq!(turn(&execution).progress(&call("a", "unknown", "x")), None);
    });
}

#[test]
fn progress_is_shown_and_renews_the_time_limit() {
    run(async {
        for (visibility, count, expected) in [
            (Visibility::Reasoning, 3, Some("done")),
            (Visibility::Items, 3, Some("done")),
            // Ten times the limit of 30 s.
            (Visibility::Off, 20, None),
        ] {
            let provider = Scripted::new(vec![spec("tool")], [Act::Progress(count)]);
            let settings = ExecutionSettings {
                visibility,
                deadline: Duration::from_secs(3600),
                ..ExecutionSettings::default()
            };
            let execution = stage(settings, &[("p", &provider)]);
            execution.audit().capture(true);
            let (mut live, turn) = (execution.audit().subscribe(), turn(&execution));
            let began = Instant::now();
            let ran = turn.run(vec![call("a", "tool", "x")]).await.remove(0);
            assert_eq!(expected.unwrap_or("timeout").to_owned(), code(&ran).unwrap_or(ran.output.content));
            assert!(began.elapsed() <= Duration::from_secs(300));
            let mut events = std::iter::from_fn(|| live.try_recv().ok());
            let first =
                events.find(|record| record.event.name() == "tool_progress").expect("an event").data();
            assert_eq!(first["progress"], "A Tool: 0%, a xxxxxxxxxxx");
            assert_eq!((&first["done"], first["toolCall"].get("input")), (&0.0.into(), None));
            let lines = turn.poll_reports(&Context::from_waker(std::task::Waker::noop()));
            match visibility {
                Visibility::Off => assert!(lines.is_pending()),
                _ => {
                    let Poll::Ready(lines) = lines else { panic!("there are lines") };
                    let own = ["A Tool (10 s)", "A Tool: 0%, a xxxxxxxxxxx (20 s)"];
                    assert_eq!(lines.iter().take(2).map(String::as_str).collect::<Vec<_>>(), own);
                }
            }
        }
    });
}

#[test]
fn denied_calls_and_addresses_do_not_run() {
    run(async {
        let page = ToolSpec {
            url_argument: Some("url"),
            parameters: toolwire_pipeline::wire::json::Raw::from(json!({"type": "object"})),
            ..spec("tool")
        };
        let provider = Scripted::new(vec![page], []);
        let own = ToolRules {
            deny_domains: vec![crate::Domain::parse("*.Bad.example").unwrap()],
            ..ToolRules::default()
        };
        let mut settings = rules(own);
        settings.permissions.rules.push(crate::PermissionRule {
            key: None,
            model: None,
            tool: None,
            domain: crate::Domain::parse("denied.example"),
            permission: Permission::Deny,
        });
        let execution = stage(settings, &[("p", &provider)]);
        let visit = |url: &str| Call::new(url, "tool", json!({"url": url}).to_string());
        let calls = [
            "https://good.example/",
            "https://www.bad.example/",
            "https://denied.example./",
            "https://good.example\\@denied.example/",
            "no url",
        ];
        let ran = turn(&execution).run(calls.map(visit).to_vec()).await;
        let codes: Vec<_> = ran.iter().map(code).collect();
        let expected = [None, Some("blocked_url"), Some("permission_denied"), None, Some("blocked_url")];
        assert_eq!(codes, expected.map(|code| code.map(str::to_owned)));
        assert_eq!(provider.count(), 2);
        let urls: Vec<_> =
            provider.calls.lock().iter().map(|(_, arguments)| arguments["url"].clone()).collect();
        assert_eq!(
            urls,
            ["https://good.example/", "https://good.example/@denied.example/"],
            "what was checked"
        );
    });
}

#[test]
fn url_that_was_checked_is_the_one_that_the_tool_gets() {
    run(async {
        let page = ToolSpec {
            parameters: toolwire_pipeline::wire::json::Raw::from(json!({"type": "object"})),
            ..spec("fetch")
        };
        let provider = Scripted::new(vec![page], [Act::fail(ErrorCode::ProviderError)]);
        let own = ToolRules {
            url_argument: Some("url".to_owned()),
            deny_domains: vec![crate::Domain::parse("127.0.0.1").unwrap()],
            ..ToolRules::default()
        };
        let settings =
            ExecutionSettings { tools: [("fetch".to_owned(), own)].into(), ..ExecutionSettings::default() };
        let execution = stage(settings, &[("p", &provider)]);
        let mut live = execution.audit().subscribe();
        execution.audit().capture(true);
        let (written, normal) =
            ("http:\\\\Good.example\\@127.0.0.1:9001/i", "http://good.example/@127.0.0.1:9001/i");
        let call = Call::new("a", "fetch", json!({"url": written, "x": 1}).to_string());
        turn(&execution).run(vec![call]).await;
        assert_eq!(provider.calls.lock()[0].1["url"], normal);
        let used = Value::Object(live.try_recv().unwrap().data());
        assert_eq!(used["toolCall"]["input"]["url"], normal, "{used}");
        for arguments in [
            r#"{"url":"http://x\\@127.0.0.1/","URL":"http://good.example/"}"#,
            r#"{"url":"http://good.example/","URL":"http://127.0.0.1/"}"#,
            r#"{"Url":"http://127.0.0.1/"}"#,
            r#"{"url":"http://good.example/","url":"http://127.0.0.1/"}"#,
            r#"{"url":"http://good.example/","u\u0072l":"http://0/"}"#,
            r#"{"url":"http://user@good.example/"}"#,
            r#"{"url":"http://127.0.0.{1,2}/"}"#,
            r#"{"url":"http://[::ffff:127.0.0.1]/"}"#,
        ] {
            let ran = turn(&execution).run(vec![Call::new("b", "fetch", arguments)]).await;
            assert_eq!(code(&ran[0]).as_deref(), Some("blocked_url"), "{arguments}");
        }
        assert_eq!(provider.count(), 1);
    });
}

#[test]
fn details_of_a_result_are_in_its_event_while_contents_are_captured() {
    run(async {
        let details = json!({"tab": 7, "key": "secret-word"});
        let provider =
            Scripted::new(vec![spec("tool")], [Act::Detail(details.clone()), Act::Detail(details)]);
        let execution = stage(ExecutionSettings::default(), &[("p", &provider)]);
        let mut live = execution.audit().subscribe();
        for (is_captured, expected) in [(false, Value::Null), (true, json!({"tab": 7, "key": "xxxxxxxxxxx"}))]
        {
            execution.audit().capture(is_captured);
            let ran = turn(&execution).run(vec![call("a", "tool", "")]).await.remove(0);
            assert_eq!(ran.details["tab"], 7);
            live.try_recv().unwrap();
            let result = live.try_recv().unwrap().data();
            assert_eq!(result.get("details").cloned().unwrap_or_default(), expected);
        }
    });
}

#[test]
fn domains_of_a_tool_are_limited_by_the_argument_that_the_rules_name() {
    run(async {
        let page = ToolSpec {
            parameters: toolwire_pipeline::wire::json::Raw::from(json!({"type": "object"})),
            ..spec("fetch")
        };
        for (argument, expected) in [
            (None, [Some("blocked_url"); 5]),
            (Some("at"), [None, Some("blocked_url"), None, None, Some("blocked_url")]),
        ] {
            let provider = Scripted::new(vec![page.clone()], []);
            let own = ToolRules {
                url_argument: argument.map(str::to_owned),
                deny_domains: vec![crate::Domain::parse("bücher.example").unwrap()],
                ..ToolRules::default()
            };
            let settings = ExecutionSettings {
                tools: [("fetch".to_owned(), own)].into(),
                ..ExecutionSettings::default()
            };
            let execution = stage(settings, &[("p", &provider)]);
            let calls = [
                json!({"at": "https://good.example/"}),
                json!({"at": "https://www.bücher.example/x"}),
                json!({"at": null}),
                json!({"url": "https://bücher.example/"}),
                json!({"at": ["https://bücher.example/"]}),
            ];
            let calls = calls
                .iter()
                .map(|arguments| Call::new(arguments.to_string(), "fetch", arguments.to_string()));
            let ran = turn(&execution).run(calls.collect()).await;
            let codes: Vec<_> = ran.iter().map(code).collect();
            assert_eq!(codes, expected.map(|code| code.map(str::to_owned)), "{argument:?}");
        }
    });
}

#[test]
fn secrets_in_the_messages_of_errors_are_covered_also_where_they_are_cut() {
    run(async {
        for before in [0, 990, 995, 1_000] {
            let message = format!("{}secret-word", "x".repeat(before));
            let error = ToolError::new(ErrorCode::AuthFailed, message);
            let provider = Scripted::new(vec![spec("tool")], [Act::Fail(error)]);
            let execution = stage(ExecutionSettings::default(), &[("p", &provider)]);
            let ran = turn(&execution).run(vec![call("a", "tool", "")]).await.remove(0);
            assert!(!ran.output.content.contains("sec"), "{}", ran.output.content);
            assert!(!ran.note.contains("sec"), "{}", ran.note);
            let content: Value = serde_json::from_str(&ran.output.content).unwrap();
            assert_eq!(content["error"]["message"].as_str().map(str::len), Some((before + 11).min(1_000)));
        }
    });
}

#[test]
fn failure_that_a_tool_reports_has_the_form_of_an_error() {
    run(async {
        let provider = Scripted::new(vec![spec("tool")], [Act::Report("no such page".to_owned())]);
        let execution = stage(ExecutionSettings::default(), &[("p", &provider)]);
        let ran = turn(&execution).run(vec![call("a", "tool", "")]).await.remove(0);
        let error = json!({"code": "provider_error", "message": "no such page", "retryable": false});
        assert_eq!(ran.output.content, json!({"ok": false, "tool": "tool", "error": error}).to_string());
        assert!(ran.output.is_error);
        assert_eq!(provider.count(), 1);
    });
}

#[test]
fn results_are_limited_in_bytes() {
    run(async {
        let text = "é".repeat(1000);
        for (limit, is_whole) in [(2001, true), (2000, true), (1999, false)] {
            let provider = Scripted::new(vec![spec("tool")], [Act::say(&text)]);
            let own = ToolRules { max_result: Some(limit), ..ToolRules::default() };
            let execution = stage(rules(own), &[("p", &provider)]);
            let ran = turn(&execution).run(vec![call("a", "tool", "")]).await.remove(0);
            assert_eq!(ran.output.content == text, is_whole, "{limit}");
            assert!((1900..=limit).contains(&ran.output.content.len()), "{}", ran.output.content.len());
        }
    });
}

#[test]
fn client_that_leaves_cancels_its_calls() {
    run(async {
        let provider = Scripted::new(vec![spec("tool")], [Act::Hang]);
        let execution = stage(ExecutionSettings::default(), &[("p", &provider)]);
        let mut live = execution.audit().subscribe();
        let running = tokio::task::spawn(turn(&execution).run(vec![call("a", "tool", "")]));
        tokio::time::sleep(Duration::from_secs(1)).await;
        running.abort();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut last = None;
        while let Ok(record) = live.try_recv() {
            last = Some(record);
        }
        let last = Value::Object(last.unwrap().data());
        assert_eq!((&last["code"], &last["ms"]), (&json!("cancelled"), &json!(1000)));
    });
}

/// The provider's scripts in the property test.
fn acts() -> impl Strategy<Value = Vec<Act>> {
    let code = prop_oneof![
        Just(ErrorCode::ProviderError),
        Just(ErrorCode::RateLimited),
        Just(ErrorCode::AuthFailed),
        Just(ErrorCode::Timeout),
    ];
    let act = prop_oneof![
        (0..40_u64).prop_map(|after| Act::Answer(Duration::from_secs(after), "done".to_owned())),
        code.prop_map(Act::fail),
        Just(Act::Hang),
        Just(Act::Panic),
    ];
    proptest::collection::vec(act, 0..30)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn each_call_has_one_result_in_order_and_runs_no_more_often_than_it_may(
        script in acts(),
        rounds in proptest::collection::vec(proptest::collection::vec((0..3_usize, 0..4_u8), 1..5), 1..5),
        retries in 0..4_usize,
    ) {
        run(async {
            let provider = Scripted::new(vec![idempotent("once"), spec("tool")], script);
            let execution = stage(ExecutionSettings { retries, ..ExecutionSettings::default() }, &[("p", &provider)]);
            let turn = turn(&execution);
            let mut made = 0;
            for round in rounds {
                let calls: Vec<_> = round
                    .iter()
                    .map(|(tool, q)| {
                        made += 1;
                        call(&made.to_string(), ["once", "tool", "unknown"][*tool], &q.to_string())
                    })
                    .collect();
                let ids: Vec<_> = calls.iter().map(|call| call.id.clone()).collect();
                let before = provider.count();
                let ran = turn.run(calls).await;
                let results: Vec<_> = ran.iter().map(|ran| ran.output.id.clone()).collect();
                assert_eq!(results, ids);
                let most: usize = round.iter().map(|(tool, _)| [1 + retries, 1, 0][*tool]).sum();
                assert!(provider.count() - before <= most);
            }
        });
    }
}
