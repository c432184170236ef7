use std::fs;

use super::*;
use crate::{redact::Redactor, store::Owner};

const ASKED: Asked<'_> = Asked {
    key: Some(Owner([7; 32])),
    client: None,
    model: "qwen3",
    tool: "scrape",
    aliases: &[],
    domain: Some("example.com"),
};

fn settings() -> PermissionSettings {
    PermissionSettings { default: Permission::Ask, ..PermissionSettings::default() }
}

fn permissions(settings: PermissionSettings, file: Option<PathBuf>) -> Arc<Permissions> {
    let audit = Audit::new(Arc::new(Redactor::new(["secret-word"])), None);
    Arc::new(Permissions::new(settings, Arc::new(audit), file))
}

/// Asks for [`ASKED`]; somebody reads the feed.
fn ask(permissions: &Arc<Permissions>) -> tokio::task::JoinHandle<Result<(), ToolError>> {
    let permissions = Arc::clone(permissions);
    tokio::task::spawn_local(async move {
        let _live = permissions.audit.subscribe();
        let deadline = Instant::now() + std::time::Duration::from_secs(300);
        permissions.check(&ASKED, ("Scrape", "{\"url\":\"secret-word\"}"), (None, deadline)).await
    })
}

/// Runs a test in which tasks run when it waits, on a clock that stands still.
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
        let settled = permissions.answer(&question.id, YES).unwrap();
        assert!(settled.granted);
        let late = permissions.answer(&question.id, Answer { granted: false, ..YES });
        assert_eq!(late, Err(AnswerError::Late(settled)));
        assert_eq!(permissions.answer("perm_0", YES), Err(AnswerError::Unknown));
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
            let result = permissions.check(&ASKED, ("Scrape", "{}"), (None, deadline)).await;
            assert_eq!(code(result), expected, "{unattended:?}");
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
        let late = permissions.answer(&question.id, YES).unwrap_err();
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
        permissions.answer(&id, Answer { remember: true, scope: Scope::Domain, ..YES }).unwrap();
        for asking in asking {
            assert_eq!(asking.await.unwrap(), Ok(()));
        }
        let [rule] = &permissions.rules()[..] else { panic!("one rule") };
        assert_eq!((rule.domain.as_deref(), rule.use_count), (Some("example.com"), 1));
        // The next call is not asked about, one to another domain is.
        assert_eq!(ask(&permissions).await.unwrap(), Ok(()));
        assert_eq!(permissions.rules()[0].use_count, 2);
        assert!(permissions.revoke(&rule.id));
        assert!(!permissions.revoke(&rule.id));
    });
}

#[test]
fn allow_all_and_auto_approve_answer_what_waits_but_not_what_is_denied() {
    run(async {
        for allow in [
            |permissions: &Permissions| permissions.allow_all(["scrape".into()]),
            |permissions: &Permissions| permissions.set_auto_approve(true),
        ] {
            let permissions = permissions(settings(), None);
            let asking = ask(&permissions);
            question(&permissions).await;
            allow(&permissions);
            assert_eq!(asking.await.unwrap(), Ok(()));
            assert_eq!(ask(&permissions).await.unwrap(), Ok(()));
        }
        let permissions = permissions(PermissionSettings { default: Permission::Deny, ..settings() }, None);
        permissions.set_auto_approve(true);
        permissions.allow_all(["scrape".into()]);
        assert_eq!(code(ask(&permissions).await.unwrap()), Some(ErrorCode::PermissionDenied));
    });
}

#[test]
fn changes_that_were_saved_survive_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("permissions.json");
    run(async {
        let first = permissions(settings(), Some(file.clone()));
        first.allow_all(["scrape".into()]);
        first.set_auto_approve(true);
        first.save().unwrap();
        // The file cannot be replaced as long as a folder is in its place.
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        first.set_auto_approve(false);
        assert!(first.revoke(&first.rules()[0].id));
        assert!(first.save().is_err());
        fs::remove_dir(&file).unwrap();
        first.save().unwrap();
        std::mem::forget(first);
        let second = permissions(settings(), Some(file.clone()));
        assert_eq!((second.auto_approve(), second.rules().len()), (false, 0));
    });
}

#[test]
fn remembered_rules_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state/permissions.json");
    run(async {
        let first = permissions(settings(), Some(file.clone()));
        first.allow_all(["scrape".into()]);
        first.set_auto_approve(true);
        drop(first);
        let second = permissions(settings(), Some(file.clone()));
        assert!(second.auto_approve());
        second.set_auto_approve(false);
        assert_eq!(ask(&second).await.unwrap(), Ok(()));
        drop(second);
        let third = permissions(settings(), Some(file.clone()));
        assert_eq!(third.rules()[0].use_count, 1);
        drop(third);
        fs::write(&file, "{").unwrap();
        assert_eq!(permissions(settings(), Some(file.clone())).rules(), []);
        assert!(file.with_extension("unreadable").exists());
    });
}
