use std::time::Duration;

use http::HeaderMap;
use tokio::time::advance;

use super::*;
use toolwire_pipeline::failure::{Failure, Kind};

/// 23 November 2026.
const NOW: u64 = 1_795_392_000;

fn account(limits: KeyLimits) -> Arc<Account> {
    Ledger::new(&Stores::in_folder(None)).account("team", &Grant { models: Vec::new(), limits }, NOW)
}

fn demand(input: u64, max_output: u64) -> RequestDemand {
    RequestDemand { input, max_output: Some(max_output), choices: 1, takes_place: true, counts_tokens: true }
}

fn admit(account: &Arc<Account>, demand: RequestDemand) -> Result<Box<Allowance>, Box<Limited>> {
    account.admit_here(demand, ClientDialect::Chat, NOW)
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).map(|value| value.to_str().unwrap().to_owned())
}

/// No matter how a response ends, exactly what was reserved is returned.
#[tokio::test(start_paused = true)]
async fn reservations_and_places_come_back() {
    let limits = KeyLimits {
        tokens_per_minute: Some(1000),
        streams: Some(1),
        tokens_per_month: Some(10_000),
        requests_per_minute: None,
    };
    type End = fn(Box<Allowance>);
    let ends: [(&str, End, u64); 4] = [
        ("dropped before anything was used", |own| drop(own), 0),
        ("used less", |own| _ = own.settle(None, (20, 30), NOW), 50),
        ("used more", |own| _ = own.settle(None, (100, 1900), NOW), 2000),
        (
            "panic",
            |own| {
                let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
                    let _own = own;
                    panic!("in a test");
                }));
                assert!(panicked.is_err());
            },
            0,
        ),
    ];
    for (what, end, used) in ends {
        let account = account(limits);
        let own = admit(&account, demand(100, 500)).unwrap();
        assert!(admit(&account, RequestDemand { takes_place: false, ..demand(1, 500) }).is_err(), "{what}");
        assert_eq!(account.used(NOW).1, 1);
        end(own);
        assert_eq!(account.used(NOW).1, 0, "{what}");
        assert_eq!(account.usage.current(NOW).1, 0, "{what}");
        assert_eq!(account.usage.current(NOW).0.tokens(), used, "{what}");
        assert_eq!(account.levels().tokens.unwrap().remaining, 1000_u64.saturating_sub(used), "{what}");
        assert_eq!(admit(&account, demand(1, 1)).is_ok(), used < 1000, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn refused_request_takes_nothing() {
    let account = account(KeyLimits {
        requests_per_minute: Some(1),
        tokens_per_minute: Some(1000),
        streams: Some(10),
        tokens_per_month: Some(10_000),
    });
    drop(admit(&account, demand(1, 1)).unwrap());
    for _ in 0..5 {
        let limited = admit(&account, demand(100, 100)).unwrap_err();
        let (failure, headers) = limited.parts();
        assert_eq!(
            (failure.kind(), failure.status(), failure.retry_after()),
            (Kind::RateLimit, 429, Some("60"))
        );
        assert_eq!(header(headers, "retry-after-ms").as_deref(), Some("60000"));
        assert_eq!(header(headers, "x-ratelimit-remaining-requests").as_deref(), Some("0"));
        assert_eq!(header(headers, "x-ratelimit-limit-tokens").as_deref(), Some("1000"));
        assert_eq!(header(headers, "x-ratelimit-remaining-tokens").as_deref(), Some("1000"));
    }
    assert_eq!((account.used(NOW).1, account.usage.current(NOW).1), (0, 0));
    assert_eq!(account.used(NOW).0.requests, 1);
    advance(Duration::from_secs(60)).await;
    assert!(admit(&account, demand(1, 1)).is_ok());
}

#[tokio::test(start_paused = true)]
async fn request_larger_than_the_limit_is_admitted_alone() {
    let account = account(KeyLimits { tokens_per_minute: Some(100), ..KeyLimits::default() });
    let own = admit(&account, demand(5000, 30_000)).unwrap();
    assert!(admit(&account, demand(1, 1)).is_err());
    own.settle(None, (5000, 10), NOW);
    let limited = admit(&account, demand(1, 1)).unwrap_err();
    let (failure, headers) = limited.parts();
    // The client owes more than one minute's worth of tokens.
    assert_eq!((failure.status(), failure.retry_after()), (429, None));
    assert_eq!(header(headers, "x-should-retry").as_deref(), Some("false"));
    assert_eq!(header(headers, "retry-after-ms"), None);
}

#[tokio::test(start_paused = true)]
async fn learned_length_is_reserved_without_max_tokens() {
    let account = account(KeyLimits { tokens_per_minute: Some(10_000), ..KeyLimits::default() });
    let unknown = RequestDemand { max_output: None, ..demand(0, 0) };
    for _ in 0..100 {
        admit(&account, unknown).unwrap().settle(None, (0, 100), NOW);
        advance(Duration::from_secs(1)).await;
    }
    let before = account.levels().tokens.unwrap().remaining;
    let _own = admit(&account, RequestDemand { choices: 2, ..unknown }).unwrap();
    let reserved = before - account.levels().tokens.unwrap().remaining;
    assert!((200..220).contains(&reserved), "{reserved}");
}

#[tokio::test(start_paused = true)]
async fn used_up_budget_has_the_answer_of_its_dialect() {
    let account = account(KeyLimits { tokens_per_month: Some(100), ..KeyLimits::default() });
    let first = admit(&account, demand(10, 10)).unwrap();
    let other = admit(&account, demand(10, 100)).unwrap();
    let waiting = admit(&account, demand(1, 1)).unwrap_err();
    assert_eq!(waiting.parts().0.retry_after(), Some("5"), "responses in progress may need the rest");
    first.settle(None, (10, 10), NOW);
    other.settle(None, (10, 70), NOW);
    for (dialect, status, limit) in [
        (ClientDialect::Chat, 429, "x-ratelimit-limit-tokens"),
        (ClientDialect::Responses, 429, "x-ratelimit-limit-tokens"),
        (ClientDialect::Messages, 402, "anthropic-ratelimit-tokens-limit"),
    ] {
        let limited = account.admit_here(demand(1, 1), dialect, NOW).unwrap_err();
        let (failure, headers) = limited.parts();
        assert_eq!((failure.kind(), failure.status(), failure.retry_after()), (Kind::Budget, status, None));
        assert!(failure.message().contains("2026-12-01T00:00:00Z"), "{failure}");
        assert_eq!(header(headers, "x-should-retry").as_deref(), Some("false"));
        assert_eq!(header(headers, limit).as_deref(), Some("100"));
    }
    let body = ClientDialect::Messages.side().error_body(&Failure::new(Kind::Budget, "gone"));
    assert!(String::from_utf8(body).unwrap().contains("billing_error"));
    assert!(account.admit_here(demand(1, 1), ClientDialect::Chat, Month::of(NOW).end()).is_ok());
}

#[tokio::test(start_paused = true)]
async fn change_of_limits_keeps_what_was_used() {
    let ledger = Ledger::new(&Stores::in_folder(None));
    let grant = |requests, streams| Grant {
        models: Vec::new(),
        limits: KeyLimits {
            requests_per_minute: Some(requests),
            streams: Some(streams),
            ..KeyLimits::default()
        },
    };
    let before = ledger.account("team", &grant(1, 5), NOW);
    let open = admit(&before, demand(1, 1)).unwrap();
    assert!(Arc::ptr_eq(&before, &ledger.account("team", &grant(1, 5), NOW)));
    let after = ledger.account("team", &grant(1, 1), NOW);
    assert_eq!((after.used(NOW).0.requests, after.used(NOW).1), (1, 1));
    assert!(admit(&after, demand(1, 1)).is_err(), "the place is taken");
    drop(open);
    assert!(admit(&after, demand(1, 1)).is_err(), "the request of this minute is made");
    let more = ledger.account("team", &grant(2, 1), NOW);
    assert!(admit(&more, demand(1, 1)).is_ok());
}

#[tokio::test]
async fn counts_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let grant = Grant {
        models: Vec::new(),
        limits: KeyLimits { tokens_per_month: Some(50), ..KeyLimits::default() },
    };
    let ledger = || Ledger::new(&Stores::in_folder(Some(folder.path().to_owned())));
    let first = ledger();
    let account = first.account("team", &grant, NOW);
    admit(&account, demand(1, 1)).unwrap().settle(Some("m"), (30, 29), NOW);
    account.pay("eyes", (0, 1));
    first.save(NOW);
    drop(first);
    let second = ledger();
    let account = second.account("team", &grant, NOW);
    assert_eq!(account.used(NOW).0, Counts { requests: 1, input_tokens: 30, output_tokens: 30 });
    let by_model = account.used_by_model(NOW);
    assert_eq!(by_model["m"], Counts { requests: 1, input_tokens: 30, output_tokens: 29 });
    assert_eq!(by_model["eyes"], Counts { requests: 0, input_tokens: 0, output_tokens: 1 });
    assert!(admit(&account, demand(1, 1)).is_err());
    assert_eq!(second.account("other", &grant, NOW).used(NOW).0, Counts::default());
    let next = Month::of(NOW).end();
    drop(account);
    drop(second);
    let account = ledger().account("team", &grant, next);
    assert_eq!((account.used(next).0, account.used_by_model(next).len()), (Counts::default(), 0));
}

/// The files come from `fixtures/upgrade`.
#[test]
fn usage_that_older_versions_saved_is_read() {
    const VERSIONS: &[&str] = &["93faecc2"];
    let fixtures = crate::repository::root().join("fixtures/upgrade");
    for version in VERSIONS {
        let folder = tempfile::tempdir().unwrap();
        let file = "usage.redb";
        std::fs::copy(fixtures.join(version).join("state").join(file), folder.path().join(file)).unwrap();
        let ledger = Ledger::new(&Stores::in_folder(Some(folder.path().to_owned())));
        let grant = Grant { models: Vec::new(), limits: KeyLimits::default() };
        let counts = ledger.account("team", &grant, NOW).usage.current(NOW).0;
        assert_eq!((counts.requests, counts.input_tokens, counts.output_tokens), (2, 200, 40), "{version}");
    }
}

/// Damages the two files in turn, in various ways.
#[test]
fn damaged_file_of_usage_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let grant = Grant { models: Vec::new(), limits: KeyLimits::default() };
    let ledger = || Ledger::new(&Stores::in_folder(Some(folder.path().to_owned())));
    let used = |ledger: &Ledger| ledger.account("team", &grant, NOW).usage.current(NOW).0.tokens();
    let mut expected = 0;
    for (round, file) in ["usage.redb", "usage_copy.redb"].into_iter().cycle().take(20).enumerate() {
        let ledger = ledger();
        assert_eq!(used(&ledger), expected, "{round}");
        // In half of the rounds, nothing is used, so the files must already agree.
        if round % 4 < 2 {
            ledger.account("team", &grant, NOW).usage.add((70, 7), 0, NOW);
            expected += 77;
        }
        ledger.save(NOW);
        drop(ledger);
        let path = folder.path().join(file);
        match round % 5 {
            0 => std::fs::write(path, [b'?'; 5000]).unwrap(),
            1 => std::fs::write(path, "").unwrap(),
            2 => std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(9000).unwrap(),
            3 => std::fs::remove_file(path).unwrap(),
            _ => {
                let mut bytes = std::fs::read(&path).unwrap();
                bytes.iter_mut().skip(512).step_by(300).for_each(|byte| *byte ^= 4);
                std::fs::write(path, bytes).unwrap();
            }
        }
    }
    assert_eq!(used(&ledger()), expected);
}

/// A server may start before its predecessor has ended.
#[test]
fn usage_that_another_process_holds_is_counted_when_it_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let grant = Grant { models: Vec::new(), limits: KeyLimits::default() };
    let ledger = || Ledger::new(&Stores::in_folder(Some(folder.path().to_owned())));
    let used = |ledger: &Ledger| ledger.account("team", &grant, NOW).usage.current(NOW).0.tokens();
    let first = ledger();
    first.account("team", &grant, NOW).usage.add((100, 0), 0, NOW);
    first.save(NOW);
    drop(first);
    let first = ledger();
    assert_eq!(used(&first), 100);
    let second = ledger();
    second.account("team", &grant, NOW).usage.add((7, 0), 0, NOW);
    second.save(NOW);
    assert_eq!(used(&second), 7);
    first.account("team", &grant, NOW).usage.add((10, 0), 0, NOW);
    first.save(NOW);
    drop(first);
    let begun = std::time::Instant::now();
    while used(&second) == 7 {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(50));
        second.save(NOW);
    }
    assert_eq!(used(&second), 117);
    drop(second);
    assert_eq!(used(&ledger()), 117);
}

/// When a machine starts with a wrong clock, a server may begin with the wrong month.
#[test]
fn clock_that_is_set_later_finds_the_saved_usage() {
    let folder = tempfile::tempdir().unwrap();
    let stores = Stores::in_folder(Some(folder.path().to_owned()));
    let grant = Grant { models: Vec::new(), limits: KeyLimits::default() };
    let use_some = |ledger: &Ledger, now: u64| {
        let account = ledger.account("team", &grant, now);
        account.admit_here(demand(1, 1), ClientDialect::Chat, now).unwrap().settle(None, (20, 30), now);
        account
    };
    let first = Ledger::new(&stores);
    use_some(&first, NOW);
    first.save(NOW);
    drop(first);

    let long_ago = 1_577_836_800;
    let second = Ledger::new(&stores);
    use_some(&second, long_ago);
    second.save(long_ago);
    let account = use_some(&second, NOW);
    second.save(NOW);
    let (counts, _) = account.used(NOW);
    assert_eq!((counts.requests, counts.tokens()), (2, 100));
    drop(second);

    let third = Ledger::new(&stores);
    let (counts, _) = third.account("team", &grant, NOW).used(NOW);
    assert_eq!((counts.requests, counts.tokens()), (2, 100));
    let (counts, _) = third.account("team", &grant, NOW).used(long_ago);
    assert_eq!(counts.requests, 0, "not read yet");
    third.save(long_ago);
    let (counts, _) = third.account("team", &grant, NOW).used(long_ago);
    assert_eq!((counts.requests, counts.tokens()), (1, 50));
}
