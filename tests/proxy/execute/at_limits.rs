//! Tests the limits on hosted calls just below, at, and just above each limit.

use serde_json::Value;

use super::script::{added, call, end, setup, text, upstream};
use crate::support::client::{Client, WHOLE};

/// A hop that calls `search` once for each of `numbers`.
fn hop(numbers: &[usize]) -> String {
    let calls = numbers.iter().enumerate().map(|(index, number)| {
        call(index, &format!("call_{index}"), "search", &format!(r#"{{"query":"{number}"}}"#))
    });
    calls.collect::<String>() + &end("tool_calls")
}

/// Returns the outcome of each call, grouped by hop, and the tools offered in each request. `rules` is
/// configuration for individual tools.
async fn outcomes(hops: &[&[usize]], settings: &str, rules: &str) -> (Vec<Vec<String>>, Vec<Vec<String>>) {
    let streams = hops.iter().map(|numbers| hop(numbers)).chain([text("Done.") + &end("stop")]);
    let (upstream, asked) = upstream(streams).await;
    let mut setup = setup(&upstream, settings);
    setup.execution += rules;
    let proxy = setup.start().await;
    let response = Client::new().chat(&proxy, WHOLE).await.json().await;
    assert_eq!(response["choices"][0]["message"]["content"], "Done.", "{response}");
    let asked = asked.lock().unwrap();
    let results = added(asked.last().unwrap(), 1);
    let mut by_hop = Vec::new();
    for message in results {
        match message["role"].as_str().unwrap() {
            "assistant" => by_hop.push(Vec::new()),
            _ => {
                let content = message["content"].as_str().unwrap();
                let error = serde_json::from_str::<Value>(content).unwrap_or_default();
                let outcome = error["error"]["code"].as_str().unwrap_or("ok").to_owned();
                by_hop.last_mut().unwrap().push(outcome);
            }
        }
    }
    let tools = |request: &Value| {
        let tools = request["tools"].as_array().into_iter().flatten();
        let mut names: Vec<_> =
            tools.map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    (by_hop, asked.iter().map(tools).collect())
}

const ALL: [&str; 3] = ["broken", "search", "slow"];

#[tokio::test]
async fn calls_beyond_max_calls_are_refused() {
    let settings = "max_calls = 3";
    let (ran, tools) = outcomes(&[&[1, 2]], settings, "").await;
    assert_eq!((ran, &tools[1][..]), (vec![vec!["ok".to_owned(); 2]], &ALL.map(str::to_owned)[..]));
    let (ran, tools) = outcomes(&[&[1, 2, 3]], settings, "").await;
    assert_eq!((ran, tools[1].len()), (vec![vec!["ok".to_owned(); 3]], 0));
    let (ran, tools) = outcomes(&[&[1, 2, 3, 4, 5]], settings, "").await;
    assert_eq!(
        (ran, tools[1].len()),
        (vec![["ok", "ok", "ok", "max_calls", "max_calls"].map(str::to_owned).to_vec()], 0)
    );
    let (ran, tools) = outcomes(&[&[1, 2], &[3, 4]], settings, "").await;
    assert_eq!(ran, [["ok", "ok"], ["ok", "max_calls"]]);
    assert_eq!(tools.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 0]);
}

#[tokio::test]
async fn tool_is_withdrawn_after_max_uses() {
    let rules = "[[tools]]\nname = \"search\"\nmax_uses = 2\n";
    for (hops, expected, offered) in [
        (&[&[1][..]][..], vec![vec!["ok"]], vec![3, 3]),
        (&[&[1, 2]], vec![vec!["ok", "ok"]], vec![3, 2]),
        (&[&[1], &[2]], vec![vec!["ok"], vec!["ok"]], vec![3, 3, 2]),
        (&[&[1, 2, 3]], vec![vec!["ok", "ok", "max_uses"]], vec![3, 2]),
        // If the model calls the tool anyway, the call fails.
        (&[&[1, 2], &[3]], vec![vec!["ok", "ok"], vec!["max_uses"]], vec![3, 2, 2]),
    ] {
        let (ran, tools) = outcomes(hops, "", rules).await;
        assert_eq!(ran, expected, "{hops:?}");
        assert_eq!(tools.iter().map(Vec::len).collect::<Vec<_>>(), offered, "{hops:?}");
        assert!(tools.iter().all(|tools| tools.contains(&"slow".to_owned())), "{hops:?}");
    }
}

#[tokio::test]
async fn same_call_is_refused_the_third_time() {
    for (hops, expected) in [
        (&[&[1, 1][..]][..], vec![vec!["ok", "ok"]]),
        (&[&[1, 1, 1]], vec![vec!["ok", "ok", "loop"]]),
        (&[&[1], &[1], &[1, 2]], vec![vec!["ok"], vec!["ok"], vec!["loop", "ok"]]),
    ] {
        assert_eq!(outcomes(hops, "", "").await.0, expected, "{hops:?}");
    }
}

#[tokio::test]
async fn equal_arguments_are_recognised_however_they_are_written() {
    let written = [
        r#"{"query":"x","more":[1, 2]}"#,
        r#"{"more":[1,2],"query":"x"}"#,
        r#"{ "query" : "\u0078", "more": [1,2] }"#,
    ];
    let calls = written
        .iter()
        .enumerate()
        .map(|(index, arguments)| call(index, &format!("c{index}"), "search", arguments));
    let (upstream, asked) =
        upstream([calls.collect::<String>() + &end("tool_calls"), text("Done.") + &end("stop")]).await;
    let proxy = setup(&upstream, "").start().await;
    Client::new().chat(&proxy, WHOLE).await.json().await;
    let results = added(&asked.lock().unwrap()[1], 1);
    let is_loop: Vec<_> =
        results[1..].iter().map(|result| result["content"].as_str().unwrap().contains("\"loop\"")).collect();
    assert_eq!(is_loop, [false, false, true], "{results:?}");
}

#[tokio::test]
async fn last_round_answers_without_tools() {
    for (rounds, hops) in [(1, 1), (2, 1), (2, 2), (5, 5), (20, 19), (20, 20)] {
        let numbers: Vec<_> = (0..hops).map(|number| [number]).collect();
        let numbers: Vec<&[usize]> = numbers.iter().map(|number| &number[..]).collect();
        let (ran, tools) = outcomes(&numbers, &format!("max_rounds = {rounds}\nmax_calls = 100"), "").await;
        assert!(ran.iter().flatten().all(|outcome| outcome == "ok") && ran.len() == hops, "{rounds} {hops}");
        let last = if hops == rounds { 0 } else { 3 };
        let expected: Vec<_> = std::iter::repeat_n(3, hops).chain([last]).collect();
        assert_eq!(tools.iter().map(Vec::len).collect::<Vec<_>>(), expected, "{rounds} {hops}");
    }
}
