//! Tests which target is asked next, without upstreams.

use super::*;
use parking_lot::Mutex;

const CLIENT: Claimant = Claimant::Own;

type Log = Arc<Mutex<Vec<String>>>;

fn attempts(order: &[&str], retries: usize, settings: Settings) -> (Attempts<()>, Log) {
    attempts_of(&[order], retries, settings)
}

/// Creates attempts for the targets of several models.
fn attempts_of(models: &[&[&str]], retries: usize, settings: Settings) -> (Attempts<()>, Log) {
    let shared = Arc::new(Failover::new(settings, Arc::new(Metrics::new(false))));
    let ways = models.iter().enumerate().flat_map(|(model, targets)| {
        targets.iter().map(move |target| Way { target: (*target).to_owned(), model })
    });
    let order: Vec<_> = ways.collect();
    let plan = Plan {
        current: order[0].target.clone(),
        client: CLIENT,
        asked: Instant::now(),
        order,
        retries,
        is_outage: false,
    };
    let log = Log::default();
    let begun = Arc::clone(&log);
    let begin: Begin<()> = Box::new(move |target, _| {
        begun.lock().push(target);
        Box::pin(async { Ok(()) })
    });
    (Attempts::new(shared, plan, begin, 503), log)
}

fn down() -> Failure {
    Failure::new(Kind::Overloaded, "down")
}

#[tokio::test(start_paused = true)]
async fn each_target_is_asked_once_and_again_after_a_pause_that_grows() {
    let (mut attempts, log) = attempts(&["a", "b"], 2, Settings::default());
    let mut pauses = Vec::new();
    while let Some(beginning) = attempts.next(&down(), || None) {
        let before = tokio::time::Instant::now();
        beginning.await.unwrap();
        pauses.push(before.elapsed());
    }
    assert_eq!(*log.lock(), ["b", "a", "b", "a", "b"]);
    assert_eq!(attempts.count(), 6);
    let is_near = |pause: Duration, millis: u64| {
        let expected = Duration::from_millis(millis);
        (expected.mul_f64(0.74)..expected.mul_f64(1.26)).contains(&pause)
    };
    assert!(pauses[0].is_zero() && pauses[2].is_zero() && pauses[4].is_zero(), "{pauses:?}");
    assert!(is_near(pauses[1], 500) && is_near(pauses[3], 1000), "{pauses:?}");
}

#[test]
fn nothing_is_asked_after_content_after_the_deadline_or_for_the_clients_fault() {
    let (mut closed, _) = attempts(&["a", "b"], 0, Settings::default());
    closed.close(false);
    assert!(closed.next(&down(), || None).is_none());
    let (mut late, _) =
        attempts(&["a", "b"], 0, Settings { deadline: Duration::ZERO, ..Settings::default() });
    assert!(late.next(&down(), || None).is_none());
    let (mut wrong, _) = attempts(&["a", "b"], 9, Settings::default());
    for kind in [Kind::Request, Kind::TooLarge, Kind::StoreAway, Kind::Draining, Kind::Internal] {
        assert!(wrong.next(&Failure::new(kind, "no"), || None).is_none(), "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_is_at_least_what_the_upstream_says_unless_that_is_after_the_deadline() {
    let wait = |wait: &str| down().with_retry_after(wait);
    let (mut patient, _) = attempts(&["a"], 1, Settings::default());
    let beginning = patient.next(&wait("7"), || None).unwrap();
    let before = tokio::time::Instant::now();
    beginning.await.unwrap();
    assert_eq!(before.elapsed(), Duration::from_secs(7));
    for never in ["301", "1e300", "99999999999999999999"] {
        let (mut attempts, _) = attempts(&["a"], 1, Settings::default());
        // A value that is not a duration counts as no wait.
        let is_number = wait_of(&wait(never)).is_some();
        assert_eq!(attempts.next(&wait(never), || None).is_none(), is_number, "{never}");
    }
}

#[test]
fn an_ejected_target_is_passed_over_and_returns_when_it_answers() {
    let settings = Settings { eject_after: 1, ..Settings::default() };
    let (mut first, log) = attempts(&["a", "b", "c"], 0, settings);
    let shared = Arc::clone(&first.shared);
    shared.judge(Request { target: "b", client: CLIENT, asked: Instant::now() }, Some(&down()));
    assert!(first.next(&down(), || None).is_some());
    assert_eq!(*log.lock(), ["c"]);
    // All other targets are ejected, so the one whose ejection ends first is asked.
    assert!(first.next(&down(), || None).is_some());
    assert_eq!(*log.lock(), ["c", "b"]);
    first.ended(&Outcome::Done);
    assert_eq!(shared.health.first(&["b", "a"], CLIENT, Instant::now()), Some("b"));
}

/// A hop that consists of calls to hosted tools has no content for the client.
#[test]
fn ejected_target_returns_with_a_hop_without_content() {
    let (mut attempts, _) = attempts(&["a", "b"], 0, Settings { eject_after: 1000, ..Settings::default() });
    let shared = Arc::clone(&attempts.shared);
    let busy = down().with_retry_after("0");
    shared.judge(Request { target: "a", client: CLIENT, asked: Instant::now() }, Some(&busy));
    let asked = Instant::now();
    assert_eq!(shared.health.first(&["a", "b"], CLIENT, asked), Some("a"));
    attempts.plan.asked = asked;
    attempts.next_hop();
    assert!(attempts.next(&down(), || None).is_some());
    assert_eq!(shared.health.first(&["a", "b"], CLIENT, Instant::now()), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn what_is_too_long_for_a_model_is_asked_of_the_next_model_and_never_again_of_this_one() {
    let too_long = Failure::new(Kind::ContextLength, "too long");
    let (mut attempts, log) = attempts_of(&[&["a", "b"], &["c"], &["d"]], 1, Settings::default());
    for failure in [&too_long, &down(), &too_long, &too_long] {
        match attempts.next(failure, || None) {
            Some(beginning) => beginning.await.unwrap(),
            None => assert_eq!(failure, &too_long),
        }
    }
    assert_eq!(*log.lock(), ["c", "d", "c"]);
    let (mut one, _) = attempts_of(&[&["a", "b"]], 9, Settings::default());
    assert!(one.next(&too_long, || None).is_none());
    assert_eq!(one.shared.health.ejected(Instant::now()), 0, "it says nothing of the target");
}
