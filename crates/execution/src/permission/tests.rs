use std::{fs, path::PathBuf, time::Duration};

use parking_lot::MutexGuard;

use super::*;
use crate::stage::save;
use toolwire_net::{
    redact::Redactor,
    store::{Owner, Revised, Revision, SharedText, StoreError},
};

const ASKED: Asked<'_> = Asked {
    key: Some(Owner([7; 32])),
    client: None,
    model: "qwen3",
    tool: "scrape",
    aliases: &[],
    domain: Some("example.com"),
};

const SHOWN: Shown<'_> = Shown { label: "Scrape", params: "{}", definition: &|| "one".to_owned() };

fn settings() -> PermissionSettings {
    PermissionSettings { default: Permission::Ask, ..PermissionSettings::default() }
}

fn permissions(settings: PermissionSettings, file: Option<PathBuf>) -> Arc<Permissions> {
    kept(settings, Keeping::File(file))
}

fn kept(settings: PermissionSettings, keeping: Keeping) -> Arc<Permissions> {
    let audit = Audit::new(Arc::new(Redactor::new(["secret-word"])), None);
    Arc::new(Permissions::new(settings, Arc::new(audit), keeping))
}

/// Checks [`ASKED`] in a task while the event feed has a reader.
fn ask(permissions: &Arc<Permissions>) -> tokio::task::JoinHandle<Result<(), ToolError>> {
    let permissions = Arc::clone(permissions);
    tokio::task::spawn_local(async move {
        let _live = permissions.audit.subscribe();
        let deadline = Instant::now() + std::time::Duration::from_secs(300);
        permissions
            .check(&ASKED, Shown { params: "{\"url\":\"secret-word\"}", ..SHOWN }, None, deadline)
            .await
    })
}

/// Runs a test with a paused clock. Tasks run while the test waits.
fn run(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test);
}

async fn question(permissions: &Permissions) -> Question {
    while permissions.questions().is_empty() {
        tokio::task::yield_now().await;
    }
    permissions.questions().remove(0)
}

fn code(result: Result<(), ToolError>) -> Option<ErrorCode> {
    result.err().map(|error| error.code)
}

const YES: Answer = Answer { granted: true, remember: false, scope: Scope::Global };

#[test]
fn first_answer_counts_and_the_second_gets_the_winner() {
    run(async {
        let permissions = permissions(settings(), None);
        let asking = ask(&permissions);
        let question = question(&permissions).await;
        assert_eq!(question.params, serde_json::json!({"url": "xxxxxxxxxxx"}));
        assert_eq!(question.context.domain.as_deref(), Some("example.com"));
        let settled = permissions.answer(&question.id, YES).await.unwrap().unwrap();
        assert!(settled.granted);
        let late = permissions.answer(&question.id, Answer { granted: false, ..YES }).await;
        assert_eq!(late.unwrap_err(), AnswerError::Late(settled));
        assert_eq!(permissions.answer("perm_0", YES).await.unwrap_err(), AnswerError::Unknown);
        assert_eq!(asking.await.unwrap(), Ok(()));
        assert_eq!(permissions.rules(), [], "the answer is not to be remembered");
    });
}

#[test]
fn unanswered_question_is_denied_when_it_expires() {
    run(async {
        let permissions = permissions(settings(), None);
        let began = Instant::now();
        let asking = ask(&permissions);
        assert_eq!(code(asking.await.unwrap()), Some(ErrorCode::PermissionTimeout));
        assert_eq!(began.elapsed().as_secs(), 60);
        assert_eq!(permissions.questions(), []);
    });
}

#[test]
fn question_expires_with_its_turn_and_can_be_extended_until_then() {
    run(async {
        let permissions = permissions(settings(), None);
        let began = Instant::now();
        let asking = ask(&permissions);
        let question = question(&permissions).await;
        for _ in 0..5 {
            tokio::time::sleep(std::time::Duration::from_secs(59)).await;
            assert!(permissions.extend(&question.id).is_some());
        }
        assert_eq!(permissions.extend("perm_0"), None);
        assert_eq!(code(asking.await.unwrap()), Some(ErrorCode::PermissionTimeout));
        assert_eq!(began.elapsed().as_secs(), 300);
    });
}

#[test]
fn unattended_setting_decides_while_nobody_reads_the_feed() {
    run(async {
        for (unattended, expected) in [
            (Unattended::Deny, Some(ErrorCode::PermissionDenied)),
            (Unattended::Allow, None),
            (Unattended::Wait, Some(ErrorCode::PermissionTimeout)),
        ] {
            let permissions = permissions(PermissionSettings { unattended, ..settings() }, None);
            let deadline = Instant::now() + std::time::Duration::from_secs(300);
            let result = permissions.check(&ASKED, SHOWN, None, deadline).await;
            assert_eq!(code(result), expected, "{unattended:?}");
        }
    });
}

/// A server could otherwise turn a tool that was allowed into another one.
#[test]
fn tool_that_has_changed_is_asked_about_again() {
    run(async {
        for (granted, scope) in [(true, Scope::Global), (true, Scope::Domain), (false, Scope::Global)] {
            let permissions = permissions(settings(), None);
            let asking = ask(&permissions);
            let id = question(&permissions).await.id;
            permissions.answer(&id, Answer { granted, remember: true, scope }).await.unwrap().unwrap();
            assert_eq!(code(asking.await.unwrap()), (!granted).then_some(ErrorCode::PermissionDenied));
            let deadline = Instant::now() + std::time::Duration::from_secs(300);
            for (definition, is_known) in [("one", true), ("two", !granted), ("one", true)] {
                let defined = || definition.to_owned();
                let shown = Shown { definition: &defined, ..SHOWN };
                let _live = permissions.audit.subscribe();
                let checked = tokio::time::timeout(
                    std::time::Duration::from_secs(1),
                    permissions.check(&ASKED, shown, None, deadline),
                );
                assert_eq!(checked.await.is_ok(), is_known, "{granted} {scope:?} {definition}");
            }
        }
    });
}

#[test]
fn question_of_a_cancelled_call_is_withdrawn() {
    run(async {
        let permissions = permissions(settings(), None);
        let asking = ask(&permissions);
        let question = question(&permissions).await;
        asking.abort();
        let _ = asking.await;
        assert_eq!(permissions.questions(), []);
        let late = permissions.answer(&question.id, YES).await.unwrap_err();
        assert!(matches!(late, AnswerError::Late(settled) if settled.by == By::Cancelled));
    });
}

#[test]
fn remembered_answer_also_answers_the_questions_that_wait() {
    run(async {
        let permissions = permissions(settings(), None);
        let asking = [ask(&permissions), ask(&permissions)];
        while permissions.questions().len() < 2 {
            tokio::task::yield_now().await;
        }
        let id = question(&permissions).await.id;
        let answer = Answer { remember: true, scope: Scope::Domain, ..YES };
        permissions.answer(&id, answer).await.unwrap().unwrap();
        for asking in asking {
            assert_eq!(asking.await.unwrap(), Ok(()));
        }
        let [rule] = &permissions.rules()[..] else { panic!("one rule") };
        assert_eq!((rule.domain.as_deref(), rule.use_count), (Some("example.com"), 1));
        // The answer was remembered for the domain: the next call to it needs no question, but a call to another domain
        // does.
        assert_eq!(ask(&permissions).await.unwrap(), Ok(()));
        assert_eq!(permissions.rules()[0].use_count, 2);
        assert!(permissions.revoke(&rule.id).await.unwrap());
        assert!(!permissions.revoke(&rule.id).await.unwrap());
    });
}

#[test]
fn allow_all_and_auto_approve_answer_what_waits_but_not_what_is_denied() {
    run(async {
        for all in [false, true] {
            let permissions = permissions(settings(), None);
            let asking = ask(&permissions);
            question(&permissions).await;
            match all {
                true => permissions.allow_all(&["scrape".into()]).await.unwrap(),
                false => permissions.set_auto_approve(true).await.unwrap(),
            }
            assert_eq!(asking.await.unwrap(), Ok(()));
            assert_eq!(ask(&permissions).await.unwrap(), Ok(()));
        }
        let permissions = permissions(PermissionSettings { default: Permission::Deny, ..settings() }, None);
        permissions.set_auto_approve(true).await.unwrap();
        permissions.allow_all(&["scrape".into()]).await.unwrap();
        assert_eq!(code(ask(&permissions).await.unwrap()), Some(ErrorCode::PermissionDenied));
    });
}

#[test]
fn changes_that_were_saved_survive_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("permissions.json");
    run(async {
        let first = permissions(settings(), Some(file.clone()));
        first.allow_all(&["scrape".into()]).await.unwrap();
        first.set_auto_approve(true).await.unwrap();
        // The file cannot be replaced with a folder at its path.
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert!(matches!(first.set_auto_approve(false).await, Err(NotKept::Unwritten)));
        assert!(matches!(first.revoke(&first.rules()[0].id).await, Err(NotKept::Unwritten)));
        fs::remove_dir(&file).unwrap();
        first.save().await.unwrap();
        std::mem::forget(first);
        let second = permissions(settings(), Some(file.clone()));
        assert_eq!((second.auto_approve(), second.rules().len()), (false, 0));
    });
}

#[test]
fn changes_are_written_when_there_is_room_without_another_change() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("permissions.json");
    run(async {
        let first = permissions(settings(), Some(file.clone()));
        let saving = save(first.changed(), Arc::downgrade(&first));
        let saving = tokio::task::spawn_local(saving);
        fs::create_dir(&file).unwrap();
        assert!(matches!(first.set_auto_approve(true).await, Err(NotKept::Unwritten)));
        tokio::time::sleep(Duration::from_secs(60)).await;
        fs::remove_dir(&file).unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(file.is_file(), "it is tried again");
        saving.abort();
        std::mem::forget(first);
        assert!(permissions(settings(), Some(file.clone())).auto_approve());
    });
}

#[test]
fn remembered_rules_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state/permissions.json");
    run(async {
        let first = permissions(settings(), Some(file.clone()));
        first.allow_all(&["scrape".into()]).await.unwrap();
        first.set_auto_approve(true).await.unwrap();
        drop(first);
        let second = permissions(settings(), Some(file.clone()));
        assert!(second.auto_approve());
        second.set_auto_approve(false).await.unwrap();
        assert_eq!(ask(&second).await.unwrap(), Ok(()));
        drop(second);
        let third = permissions(settings(), Some(file.clone()));
        assert_eq!(third.rules()[0].use_count, 1);
        drop(third);
        for damaged in [b"{".as_slice(), b"{\"rules\": [\xff\xff"] {
            fs::write(&file, damaged).unwrap();
            assert_eq!(permissions(settings(), Some(file.clone())).rules(), []);
            assert_eq!(fs::read(file.with_extension("unreadable")).unwrap(), damaged);
        }
    });
}

/// A shared string that can be made unreachable.
#[derive(Debug, Default)]
struct Place(Mutex<(Revision, String)>, std::sync::atomic::AtomicBool);

impl Place {
    fn is_away(&self, is_away: bool) {
        self.1.store(is_away, std::sync::atomic::Ordering::Relaxed);
    }

    fn kept(&self) -> Result<MutexGuard<'_, (Revision, String)>, StoreError> {
        match self.1.load(std::sync::atomic::Ordering::Relaxed) {
            true => Err(StoreError::new("away")),
            false => Ok(self.0.lock()),
        }
    }
}

impl SharedText for Place {
    fn newest(&self, known: &Revision) -> toolwire_net::store::Asked<Result<Option<Revised>, StoreError>> {
        let newest = self.kept().map(|kept| {
            let (revision, text) = kept.clone();
            (revision != *known).then_some(Revised { revision, text })
        });
        Box::pin(async move { newest })
    }

    fn replace(
        &self,
        before: &Revision,
        text: String,
    ) -> toolwire_net::store::Asked<Result<Option<Revision>, StoreError>> {
        let replaced = self.kept().map(|mut kept| {
            let next = Revision::random();
            let is_same = kept.0 == *before;
            if is_same {
                *kept = (next.clone(), text);
            }
            is_same.then_some(next)
        });
        Box::pin(async move { replaced })
    }
}

fn instances(place: &Arc<Place>, unattended: Unattended) -> [Arc<Permissions>; 2] {
    let settings = PermissionSettings { unattended, ..settings() };
    [(), ()].map(|()| kept(settings.clone(), Keeping::Shared(Arc::clone(place) as _)))
}

async fn check(permissions: &Permissions) -> Result<(), ToolError> {
    let deadline = Instant::now() + Duration::from_secs(300);
    permissions.check(&ASKED, SHOWN, None, deadline).await
}

#[test]
fn instances_share_remembered_rules_and_a_revoked_one_does_not_come_back() {
    run(async {
        let place = Arc::<Place>::default();
        let [first, second] = instances(&place, Unattended::Deny);
        first.allow_all(&["scrape".into()]).await.unwrap();
        assert_eq!(check(&second).await, Ok(()));
        let id = first.rules()[0].id.clone();
        // The second instance has not written its counts yet.
        assert!(first.revoke(&id).await.unwrap());
        assert_eq!(code(check(&second).await), Some(ErrorCode::PermissionDenied));
        second.save().await.unwrap();
        first.follow().await.unwrap();
        assert_eq!((first.rules(), second.rules()), (vec![], vec![]));
        // Uses on both instances count.
        second.allow_all(&["scrape".into()]).await.unwrap();
        for permissions in [&first, &second, &first] {
            assert_eq!(check(permissions).await, Ok(()));
        }
        first.save().await.unwrap();
        second.save().await.unwrap();
        first.follow().await.unwrap();
        assert_eq!((first.rules()[0].use_count, second.rules()[0].use_count), (3, 3));
    });
}

#[test]
fn rule_of_another_instance_answers_a_question() {
    run(async {
        let place = Arc::<Place>::default();
        let [first, second] = instances(&place, Unattended::Deny);
        let asking = ask(&first);
        question(&first).await;
        assert!(first.has_to_follow() && !second.has_to_follow());
        second.allow_all(&["scrape".into()]).await.unwrap();
        first.follow().await.unwrap();
        assert_eq!(asking.await.unwrap(), Ok(()));
    });
}

#[test]
fn only_a_person_allows_while_remembered_rules_cannot_be_read() {
    run(async {
        let place = Arc::<Place>::default();
        let [first, second] = instances(&place, Unattended::Allow);
        let asking = ask(&first);
        let deny = Answer { granted: false, remember: true, ..YES };
        first.answer(&question(&first).await.id, deny).await.unwrap().unwrap();
        assert!(asking.await.unwrap().is_err());
        for permissions in [&first, &second] {
            assert!(check(permissions).await.is_err());
        }
        place.is_away(true);
        let rule = first.rules()[0].id.clone();
        assert!(matches!(first.revoke(&rule).await, Err(NotKept::Away(_))));
        assert_eq!(first.rules().len(), 1, "it is not revoked");
        for permissions in [&first, &second] {
            assert!(check(permissions).await.is_err(), "nobody knows that it was denied");
        }
        let asking = ask(&second);
        let id = question(&second).await.id;
        let kept = second.answer(&id, Answer { remember: true, ..YES }).await.unwrap();
        assert!(matches!(kept, Err(NotKept::Away(_))));
        assert_eq!(asking.await.unwrap(), Ok(()));
        place.is_away(false);
        assert!(check(&second).await.is_err());
        // Invalid text is not overwritten, and allows no calls.
        place.0.lock().clone_from(&(Revision::random(), "{".to_owned()));
        assert!(check(&second).await.is_err());
        assert!(matches!(second.set_auto_approve(true).await, Err(NotKept::Away(_))));
        assert_eq!(place.0.lock().1, "{");
    });
}
