use super::*;

const URL: &str = "https://up.example/api";

fn session(form: Form) -> Session {
    Session {
        uid: "u1".to_owned(),
        access_token: "access-1".into(),
        refresh_token: Some("refresh-1".into()),
        form,
        app_version: None,
        expires_at: Some(1000),
        refreshed_at: None,
    }
}

fn answer(status: u16, headers: &[(&'static str, &str)], body: &str) -> Response<Bytes> {
    let mut answer = Response::builder().status(status);
    for (name, value) in headers {
        answer = answer.header(*name, *value);
    }
    answer.body(Bytes::from(body.to_owned())).unwrap()
}

#[test]
fn requests_carry_the_session() {
    let settings = AccountSettings::default();
    let headers = session(Form::Token).headers(&settings).unwrap();
    assert_eq!(headers.get("x-pm-uid").unwrap(), "u1");
    assert_eq!(headers.get("x-pm-appversion").unwrap(), settings.app_version.as_str());
    assert_eq!(headers.get("authorization").unwrap(), "Bearer access-1");
    assert!(headers.get("authorization").unwrap().is_sensitive() && !headers.contains_key("cookie"));
    let own = Session { app_version: Some("Other".to_owned()), ..session(Form::Cookie) };
    let headers = own.headers(&settings).unwrap();
    assert_eq!(headers.get("cookie").unwrap(), "AUTH-u1=access-1");
    assert_eq!(headers.get("x-pm-appversion").unwrap(), "Other");
}

#[test]
fn tokens_are_refreshed_with_json() {
    let settings = AccountSettings {
        account_url: Some(Uri::from_static("https://account.example/api/")),
        ..Default::default()
    };
    let request = session(Form::Token).refresh(&settings, &Uri::from_static(URL)).unwrap().unwrap();
    assert_eq!(request.uri(), "https://account.example/api/auth/refresh");
    assert!(!request.headers().contains_key("authorization"));
    let body: Value = serde_json::from_slice(request.body()).unwrap();
    assert_eq!((&body["UID"], &body["RefreshToken"]), (&json!("u1"), &json!("refresh-1")));
    let body = r#"{"Code":1000,"AccessToken":"a2","RefreshToken":"r2","UID":"u1","ExpiresIn":60}"#;
    let next = session(Form::Token).refreshed(&answer(200, &[], body), 5000).unwrap();
    assert_eq!(next.secrets().collect::<Vec<_>>(), ["a2", "r2"]);
    assert_eq!((next.expires_at, next.refreshed_at), (Some(5060), Some(5000)));
}

#[test]
fn lifetime_of_a_token_has_a_default_and_a_limit() {
    for (given, expected) in [
        ("", 43_200),
        (r#","ExpiresIn":null"#, 43_200),
        (r#","ExpiresIn":-1"#, 43_200),
        (r#","ExpiresIn":18446744073709551615"#, 31 * 86_400),
        (r#","ExpiresIn":0"#, 0),
    ] {
        let body = format!(r#"{{"AccessToken":"a2","RefreshToken":"r2"{given}}}"#);
        let next = session(Form::Token).refreshed(&answer(200, &[], &body), 1).unwrap();
        assert_eq!(next.expires_at, Some(1 + expected), "{given}");
    }
}

#[test]
fn cookies_are_refreshed_with_a_cookie() {
    let request =
        session(Form::Cookie).refresh(&AccountSettings::default(), &Uri::from_static(URL)).unwrap().unwrap();
    assert_eq!(request.uri(), "https://up.example/api/auth/refresh");
    assert!(request.body().is_empty());
    let cookie = request.headers().get("cookie").unwrap().to_str().unwrap();
    let (name, value) = cookie.split_once('=').unwrap();
    assert_eq!(name, "REFRESH-u1");
    assert!(value.contains("%22RefreshToken%22%3A%22refresh-1%22") && !value.contains('"'), "{value}");
    let refresh = "REFRESH-u1=%7B%22RefreshToken%22%3A%22r+2%2B%22%7D; Path=/api/auth/refresh; HttpOnly";
    let headers =
        [("set-cookie", "AUTH-u1=a2; Path=/"), ("set-cookie", refresh), ("set-cookie", "AUTH-u2=other")];
    let next =
        session(Form::Cookie).refreshed(&answer(200, &headers, r#"{"UID":"u1","ExpiresIn":9}"#), 1).unwrap();
    assert_eq!(next.secrets().collect::<Vec<_>>(), ["a2", "r+2+"]);
    assert_eq!(next.expires_at, Some(10));
}

#[test]
fn answers_without_both_tokens_give_no_session() {
    for body in [
        "",
        "{}",
        "[]",
        r#"{"AccessToken":"a2"}"#,
        r#"{"RefreshToken":"r2"}"#,
        r#"{"AccessToken":"","RefreshToken":"r2"}"#,
        r#"{"AccessToken":"a\r\nx: y","RefreshToken":"r2"}"#,
        r#"{"AccessToken":1,"RefreshToken":"r2"}"#,
    ] {
        let refreshed = session(Form::Token).refreshed(&answer(200, &[], body), 1);
        assert!(matches!(refreshed, Err(RefreshError::Failed(_))), "{body}");
    }
    let without = Session { refresh_token: None, ..session(Form::Token) };
    assert!(without.refresh(&AccountSettings::default(), &Uri::from_static(URL)).unwrap().is_none());
}

#[test]
fn refused_tokens_end_the_session_and_other_refusals_do_not() {
    for (status, body, is_ended) in [
        (400, r#"{"Code":10013,"Error":"Invalid refresh token"}"#, true),
        (422, r#"{"Code":10013,"Error":"Invalid refresh token"}"#, true),
        (401, "", true),
        (400, r#"{"Code":5003,"Error":"too old"}"#, false),
        (422, r#"{"Code":9001,"Error":"CAPTCHA"}"#, false),
        (429, r#"{"Code":2028}"#, false),
        (500, "", false),
        (302, "", false),
        (404, "", false),
    ] {
        let refreshed = session(Form::Token).refreshed(&answer(status, &[], body), 1).map(|_| ());
        assert_eq!(matches!(refreshed, Err(RefreshError::LoggedOut(_))), is_ended, "{status} {body}");
    }
}

#[test]
fn file_keeps_a_session_and_what_else_it_has() {
    let earlier = br#"{"note":"mine","uid":"u0","app_version":"old","refresh_token":"r0"}"#;
    let text = session(Form::Cookie).to_file(earlier);
    let members: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(
        (&members["note"], &members["uid"], &members["form"]),
        (&json!("mine"), &json!("u1"), &json!("cookie"))
    );
    assert!(members.get("app_version").is_none());
    let read = Session::parse(&text).unwrap();
    assert!(read.has_tokens_of(&session(Form::Token)));
    assert_eq!((read.form, read.expires_at), (Form::Cookie, Some(1000)));
}

#[test]
fn mistakes_in_a_file_are_named_without_its_secrets() {
    for (text, expected) in [
        ("", "not a JSON object"),
        ("[]", "not a JSON object"),
        (r#"{"uid":"u"}"#, "`access_token` is missing"),
        (r#"{"access_token":"secret"}"#, "`uid` is missing"),
        (r#"{"uid":"u","access_token":["secret"]}"#, "`access_token` is not a text"),
        (r#"{"uid":"u","access_token":"secret\nx: y"}"#, "`access_token` is not a text"),
        (r#"{"uid":"u","access_token":"secret;x=y"}"#, "`access_token` is not a text"),
        (r#"{"uid":"u;x=y","access_token":"secret"}"#, "`uid` is not a text"),
        (r#"{"uid":"u","access_token":"secret","form":"secret"}"#, "`form` is neither"),
        (r#"{"uid":"u","access_token":"secret","expires_at":"secret"}"#, "`expires_at` is not a time"),
    ] {
        let problem = Session::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(problem.contains(expected) && !problem.contains("secret"), "{text}: {problem}");
    }
    let long = |length: usize| format!(r#"{{"uid":"u","access_token":"{}"}}"#, "a".repeat(length));
    assert!(Session::parse(long(8 << 10).as_bytes()).is_ok());
    assert!(Session::parse(long((8 << 10) + 1).as_bytes()).is_err());
}

#[test]
fn clients_session_needs_its_id_and_a_token() {
    let headers = |pairs: &[(&'static str, &'static str)]| -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    };
    let whole = headers(&[
        ("authorization", "Bearer t"),
        ("x-pm-uid", "u"),
        ("x-pm-appversion", "v"),
        ("x-pm-human-verification-token", "h"),
        ("cookie", "console=secret"),
        ("x-api-key", "toolwire's"),
    ]);
    let brought = brought(&whole).unwrap();
    let mut names: Vec<_> = brought.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["authorization", "x-pm-appversion", "x-pm-human-verification-token", "x-pm-uid"]);
    assert!(brought.values().all(HeaderValue::is_sensitive));
    assert!(super::brought(&headers(&[("authorization", "Bearer t")])).is_none());
    assert!(super::brought(&headers(&[("x-pm-uid", "u")])).is_none());
    assert!(super::brought(&headers(&[("x-pm-uid", ""), ("authorization", "Bearer t")])).is_none());
}

#[test]
fn settings_that_contradict_each_other_are_reported() {
    let none = AccountSettings::default;
    let token = || Some(SecretString::from("token"));
    let uid = || Some("u".to_owned());
    let client = || AccountSettings { credentials: super::super::Credentials::Client, ..none() };
    let file = || Some("session.json".into());
    for (settings, has_key, is_wrong) in [
        (none(), false, false),
        (none(), true, false),
        (client(), false, false),
        (client(), true, true),
        (AccountSettings { session: file(), ..client() }, false, true),
        (AccountSettings { session: file(), ..none() }, false, false),
        (AccountSettings { session: file(), ..none() }, true, true),
        (AccountSettings { uid: uid(), ..none() }, false, true),
        (AccountSettings { access_token: token(), ..none() }, false, true),
        (AccountSettings { uid: uid(), access_token: token(), ..none() }, false, false),
        (
            AccountSettings { uid: uid(), access_token: token(), refresh_token: token(), ..none() },
            false,
            true,
        ),
        (
            AccountSettings {
                uid: uid(),
                access_token: token(),
                refresh_token: token(),
                session: file(),
                ..none()
            },
            false,
            false,
        ),
        (AccountSettings { uid: Some("u\r\nx: y".to_owned()), access_token: token(), ..none() }, false, true),
        (AccountSettings { uid: uid(), access_token: Some("AUTH-u=t; x=y".into()), ..none() }, false, true),
    ] {
        assert_eq!(settings.problem(has_key).is_some(), is_wrong, "{settings:?} {has_key}");
    }
}
