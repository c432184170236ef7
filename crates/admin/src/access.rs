//! [`Access`]: decides who may use the admin API.
//!
//! - With keys: scripts send a key in `Authorization: Bearer`; browsers use a session that was started with a key.
//! - Without keys: only clients on this machine. A page of another origin can make a browser on this machine send
//!   requests, so the request's host must be one of this machine's names, which pages of other origins do not have.
//!
//! A browser adds the session's cookie to a request no matter which page caused it. A request that belongs to a session
//! and changes state must therefore also show that it comes from toolwire's own page: with a token that only this page
//! can read, with its content type, and with the headers that name the page's origin.

use std::{net::IpAddr, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName, Method, StatusCode, Version, header, request};
use parking_lot::{Mutex, MutexGuard};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};
use subtle::ConstantTimeEq;
use tokio::time::Instant;

use super::{
    AdminError, AdminResponse,
    code::OneTimeCode,
    object,
    sessions::{Digest, Session, Sessions, digest_of, random},
    switch_of,
};
use toolwire_config::{AdminSettings, Config};
use toolwire_execution::audit::unix_millis;
use toolwire_gateway::{
    attempt_throttle::{AttemptThrottle, WrongKeys, seconds},
    auth::bearer_token,
    web_pages::{self, HostNames},
};
use toolwire_pipeline::{dialect::ClientDialect, wire::hex};

const CSRF: HeaderName = HeaderName::from_static("x-toolwire-csrf");

/// Headers in which proxies identify the client of a forwarded request.
const FORWARDED: [&str; 16] = [
    "forwarded",
    "via",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-original-host",
    "x-original-forwarded-for",
    "x-envoy-external-address",
    "x-azure-clientip",
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "cf-ray",
    "cdn-loop",
    "true-client-ip",
    "fastly-client-ip",
    "fly-client-ip",
];

/// Maximum number of sign-in attempts per address and minute.
const MAX_SIGN_INS: usize = 5;

/// Maximum length of a page's path, in characters.
const MAX_BASE: usize = 256;

#[derive(Debug, Clone)]
pub(super) struct Access {
    settings: Arc<AdminSettings>,
    state: Arc<AccessState>,
}

/// State that survives a reload of the settings.
#[derive(Debug)]
struct AccessState {
    /// Part of the cookie's name. Cookies ignore ports, so several instances on one host need different names.
    instance: String,
    /// CSRF token shared by all visitors when no key is needed.
    anonymous_csrf: String,
    sessions: Mutex<Sessions>,
    code: Mutex<OneTimeCode>,
    throttle: Mutex<AttemptThrottle>,
    wrong_keys: WrongKeys,
}

#[derive(Debug)]
pub(super) enum Visitor {
    /// A client that sends a key.
    Script,
    /// A signed-in browser, with the digest of its session token.
    Session(Digest, Session),
    /// Anyone on this machine, if no key is needed. Otherwise a visitor without a session, who may only sign in or
    /// check for a session.
    Anonymous,
}

/// Identifies the visitor's session. `None` if there is no session.
pub(crate) type SessionMark = Option<Digest>;

impl Visitor {
    pub(super) fn mark(&self) -> SessionMark {
        match self {
            Self::Session(token, _) => Some(*token),
            Self::Script | Self::Anonymous => None,
        }
    }
}

impl Access {
    pub(super) fn new(settings: Arc<AdminSettings>, config: &Config) -> Self {
        let listen: Vec<_> = config.listen.iter().map(ToString::to_string).collect();
        let known = format!("{} {:?}", listen.join(" "), config.state_dir);
        let instance = hex::encode(&digest_of(known.as_bytes())).chars().take(8).collect();
        let sessions = Mutex::new(Sessions::new(settings.session_ttl));
        // If no random token can be created, only requests with a key can change anything.
        let anonymous_csrf = random().unwrap_or_default();
        let (code, throttle) = (Mutex::default(), Mutex::new(AttemptThrottle::new(MAX_SIGN_INS)));
        let wrong_keys = WrongKeys::new("the admin API");
        Self {
            settings,
            state: Arc::new(AccessState { instance, anonymous_csrf, sessions, code, throttle, wrong_keys }),
        }
    }

    /// Returns a copy with new settings. Sessions whose key still exists survive.
    pub(super) fn with_settings(&self, settings: Arc<AdminSettings>) -> Self {
        self.state.sessions.lock().set_idle(settings.session_ttl);
        Self { settings, state: Arc::clone(&self.state) }
    }

    /// Issues a one-time code that lets a browser sign in within two minutes. `None` if no key is needed.
    pub(super) fn issue_code(&self) -> Option<String> {
        (!self.is_open()).then(|| self.code().issue(Instant::now())).flatten()
    }

    fn is_open(&self) -> bool {
        self.settings.api_keys.is_empty()
    }

    /// If no keys are configured, checks that the request comes from this machine and is addressed to one of its names.
    ///
    /// # Errors
    /// 403
    pub(super) fn check_host(&self, head: &request::Parts, peer: IpAddr) -> Result<(), AdminError> {
        if !self.is_open() {
            return Ok(());
        }
        if !peer.to_canonical().is_loopback() {
            let message =
                "without admin keys, only requests from this machine are served; set [admin] api_keys";
            return Err(AdminError::forbidden("not_local", message));
        }
        let host = web_pages::host(head).unwrap_or_default();
        if self.names().contain(host) {
            return Ok(());
        }
        // A proxy on this machine forwards requests from other machines, and may replace `Host` with its own name for
        // toolwire.
        if is_passed_on(head) {
            let message = "without admin keys, requests that a proxy passes on are only served to a name in [admin] hosts; set [admin] api_keys. HTTP/1.0 and headers such as X-Forwarded-For come from proxies";
            return Err(AdminError::forbidden("not_local", message));
        }
        if web_pages::is_local(host) {
            return Ok(());
        }
        let message =
            "the request is for another host; if this is a name of this server, add it to [admin] hosts";
        Err(AdminError::forbidden("wrong_host", message))
    }

    /// Identifies the sender of a request. If `may_be_nobody` is set, a sender without a key or session is accepted.
    ///
    /// # Errors
    /// 401 without a key or a session; 403 if the request may come from another page; 429 after too many wrong keys.
    pub(super) fn visitor(
        &self,
        head: &request::Parts,
        peer: IpAddr,
        may_be_nobody: bool,
    ) -> Result<Visitor, AdminError> {
        if self.is_open() {
            self.check_page(head, &self.state.anonymous_csrf)?;
            return Ok(Visitor::Anonymous);
        }
        // Other schemes are ignored, since a proxy in front of toolwire may ask browsers for credentials of its own.
        let bearer = head.headers.get(header::AUTHORIZATION).and_then(|shown| bearer_token(shown.as_bytes()));
        if let Some(shown) = bearer {
            if self.key(shown).is_some() {
                self.state.wrong_keys.forget(peer);
                return Ok(Visitor::Script);
            }
            return Err(match self.state.wrong_keys.count(shown, peer) {
                Ok(()) => AdminError::unauthorized("this key is not an admin key"),
                Err(seconds) => AdminError::too_many("too many wrong keys from this address", seconds),
            });
        }
        let now = Instant::now();
        let mut sessions = self.state.sessions.lock();
        let is_key = |digest: &Digest| self.settings.api_keys.iter().any(|key| key_digest(key) == *digest);
        let found =
            tokens(&head.headers, &self.cookie_name()).find_map(|token| sessions.find(token, is_key, now));
        drop(sessions);
        match found {
            Some((token, session)) => {
                self.check_page(head, &session.csrf)?;
                Ok(Visitor::Session(token, session))
            }
            None if may_be_nobody => Ok(Visitor::Anonymous),
            None => Err(AdminError::unauthorized(
                "an admin key is needed: send it as `Authorization: Bearer KEY`, or sign in",
            )),
        }
    }

    /// Checks that a sign-in request, which has no session yet, does not come from a page of another origin.
    ///
    /// # Errors
    /// 403, 415 or 429.
    pub(super) fn check_sign_in(&self, head: &request::Parts, peer: IpAddr) -> Result<(), AdminError> {
        if !is_json(&head.headers) {
            let message = "the content type must be `application/json`";
            return Err(AdminError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                message,
            ));
        }
        if web_pages::is_from_browser(&head.headers) && !self.names().are_origin_of(head) {
            return Err(other_origin());
        }
        if self.is_open() {
            return Ok(());
        }
        let counted = self.throttle().count(peer, Instant::now());
        counted.map_err(|wait| {
            AdminError::too_many("too many tries to sign in from this address", seconds(wait))
        })
    }

    /// Starts a session.
    ///
    /// # Errors
    /// 400 or 401.
    pub(super) fn sign_in(&self, body: &[u8], peer: IpAddr) -> Result<AdminResponse, AdminError> {
        let object = object(body)?;
        let is_secure = switch_of(&object, "secure")?.unwrap_or(false);
        let base = match object.get("base") {
            None => "/".to_owned(),
            Some(Value::String(base)) if is_base(base) => base.clone(),
            Some(_) => {
                let message =
                    "`base` is the path of the page without its last part, such as `/` or `/tools/`";
                return Err(AdminError::invalid(message, Some("base")));
            }
        };
        if self.is_open() {
            return Ok(self.state(&Visitor::Anonymous));
        }
        let key = self.shown_key(&object);
        if key.as_ref().is_err_and(|error| error.status() == StatusCode::UNAUTHORIZED) {
            tracing::warn!(%peer, "a wrong key or code to sign in to the admin API was refused");
        }
        let key = key?;
        self.throttle().forget(peer);
        let now = Instant::now();
        let begun = self.state.sessions.lock().begin(key_digest(key), base, is_secure, now);
        let (token, session) = begun.ok_or_else(|| {
            AdminError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "there are no random numbers")
        })?;
        tracing::info!(%peer, "signed in to the admin API");
        let mut response = AdminResponse::json(
            self.session_json(&session.csrf, Some(self.state.sessions.lock().left(&session, now))),
        );
        for cookie in self.cookies(&session, &token, "") {
            response = response.with(header::SET_COOKIE, cookie);
        }
        Ok(response)
    }

    /// Returns the key that a sign-in request contains, or the key that its one-time code stands for.
    fn shown_key(&self, object: &Map<String, Value>) -> Result<&SecretString, AdminError> {
        match (object.get("key"), object.get("code")) {
            (Some(Value::String(shown)), None) => {
                let key = self.key(shown.as_bytes());
                key.ok_or_else(|| AdminError::unauthorized("this key is not an admin key"))
            }
            (None, Some(Value::String(shown))) => {
                let is_valid = self.code().redeem(shown, Instant::now());
                let key = self.settings.api_keys.first().filter(|_| is_valid);
                key.ok_or_else(|| {
                    AdminError::unauthorized("this code is not valid: a code works once, for two minutes")
                })
            }
            (Some(_), Some(_)) => Err(AdminError::invalid("either `key` or `code`, not both", Some("code"))),
            (None, Some(_)) => Err(AdminError::invalid("`code` is a string", Some("code"))),
            _ => Err(AdminError::invalid("`key` is missing: an admin key", Some("key"))),
        }
    }

    /// Whether the session whose token has this digest is still valid.
    pub(super) fn lasts(&self, token: &Digest) -> bool {
        self.state.sessions.lock().lasts(token, Instant::now())
    }

    pub(super) fn sign_out(&self, visitor: &Visitor) -> AdminResponse {
        let Visitor::Session(token, session) = visitor else { return AdminResponse::nothing() };
        self.state.sessions.lock().end(token);
        let cookies = self.cookies(session, "", "; Max-Age=0");
        cookies
            .into_iter()
            .fold(AdminResponse::nothing(), |response, cookie| response.with(header::SET_COOKIE, cookie))
    }

    /// Reports whether the visitor has signed in, with the data that the page needs.
    pub(super) fn state(&self, visitor: &Visitor) -> AdminResponse {
        AdminResponse::json(match visitor {
            Visitor::Session(_, session) => {
                let left = self.state.sessions.lock().left(session, Instant::now());
                self.session_json(&session.csrf, Some(left))
            }
            Visitor::Anonymous if self.is_open() => self.session_json(&self.state.anonymous_csrf, None),
            Visitor::Anonymous => json!({"signed_in": false, "server_time": unix_millis()}),
            // Scripts need no CSRF token.
            Visitor::Script => self.session_json("", None),
        })
    }

    fn session_json(&self, csrf: &str, left: Option<Duration>) -> Value {
        let now = unix_millis();
        let expires =
            left.map(|left| now.saturating_add(u64::try_from(left.as_millis()).unwrap_or(u64::MAX)));
        json!({
            "signed_in": true,
            "csrf": csrf,
            "expires_at": expires,
            "server_time": now,
            "version": env!("CARGO_PKG_VERSION"),
            "instance": self.state.instance,
            "capture": self.settings.capture.word(),
            "clients": ClientDialect::all().map(|client| client.dialect().name()).collect::<Vec<_>>(),
        })
    }

    /// Returns the cookie once for each of the two paths that need it, so that it is never sent to `/v1/` or to other
    /// services on the host.
    fn cookies(&self, session: &Session, token: &str, more: &str) -> [String; 2] {
        let secure = if session.is_secure { "; Secure" } else { "" };
        let (name, base) = (self.cookie_name(), &session.base);
        ["admin", "console"].map(|folder| {
            format!("{name}={token}; HttpOnly; SameSite=Strict; Path={base}{folder}/{secure}{more}")
        })
    }

    fn cookie_name(&self) -> String {
        format!("toolwire_{}", self.state.instance)
    }

    /// Returns the configured key that equals `shown`. Compares every key, even after a match, so that timing reveals
    /// nothing.
    fn key(&self, shown: &[u8]) -> Option<&SecretString> {
        let fits = |key: &SecretString| bool::from(key.expose_secret().as_bytes().ct_eq(shown));
        self.settings.api_keys.iter().fold(None, |found, key| if fits(key) { Some(key) } else { found })
    }

    /// Checks that the request does not come from a page of another origin. A request that changes state must also
    /// carry the token `csrf`.
    fn check_page(&self, head: &request::Parts, csrf: &str) -> Result<(), AdminError> {
        if !matches!(head.method, Method::GET | Method::HEAD) {
            return self.check_origin(head, csrf);
        }
        // Other pages cannot read the response, but an open event stream counts as a reader, and permission questions
        // stay open as long as there are readers.
        let is_from_page = web_pages::is_from_browser(&head.headers) && !web_pages::is_typed(&head.headers);
        if is_from_page && !self.names().are_origin_of(head) {
            return Err(other_origin());
        }
        Ok(())
    }

    fn check_origin(&self, head: &request::Parts, csrf: &str) -> Result<(), AdminError> {
        // Other content types can be sent from pages of other origins without a preflight request.
        if !is_json(&head.headers) {
            let message = "the content type must be `application/json`, also without a body";
            return Err(AdminError::forbidden("content_type", message));
        }
        let shown = head.headers.get(CSRF).map(|shown| shown.as_bytes()).unwrap_or_default();
        if csrf.is_empty() || !bool::from(shown.ct_eq(csrf.as_bytes())) {
            let message = "the header `X-Toolwire-CSRF` must have the token that GET /admin/session returns";
            return Err(AdminError::forbidden("csrf", message));
        }
        if self.names().are_origin_of(head) { Ok(()) } else { Err(other_origin()) }
    }

    fn names(&self) -> HostNames<'_> {
        HostNames([&self.settings.hosts, &[]])
    }

    fn code(&self) -> MutexGuard<'_, OneTimeCode> {
        self.state.code.lock()
    }

    fn throttle(&self) -> MutexGuard<'_, AttemptThrottle> {
        self.state.throttle.lock()
    }
}

/// Whether a proxy has forwarded the request. With nginx's default settings, only the HTTP version shows this.
fn is_passed_on(head: &request::Parts) -> bool {
    let is_sign = |name: &str| name.starts_with("x-forwarded") || FORWARDED.contains(&name);
    head.version < Version::HTTP_11 || head.headers.keys().any(|name| is_sign(name.as_str()))
}

fn is_json(headers: &HeaderMap) -> bool {
    web_pages::media_type(headers).eq_ignore_ascii_case("application/json")
}

fn other_origin() -> AdminError {
    AdminError::forbidden("other_origin", "the request does not come from a page of this server")
}

fn tokens<'h>(headers: &'h HeaderMap, name: &str) -> impl Iterator<Item = &'h str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
    let pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(key, _)| *key == name).map(|(_, value)| value).collect::<Vec<_>>().into_iter()
}

fn key_digest(key: &SecretString) -> Digest {
    digest_of(key.expose_secret().as_bytes())
}

/// Whether `base` is an absolute path of plain segments that ends with a slash.
fn is_base(base: &str) -> bool {
    let is_plain = |segment: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        !matches!(segment, "" | "." | "..") && segment.bytes().all(is_plain)
    };
    let inner = base.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
    base == "/" || (base.len() <= MAX_BASE && inner.is_some_and(|inner| inner.split('/').all(is_plain)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_is_an_absolute_path_of_plain_segments() {
        for base in ["/", "/tools/", "/a/b-c/~d/", "/v1.2/"] {
            assert!(is_base(base), "{base}");
        }
        let long = format!("/{}/", "a".repeat(300));
        for base in [
            "", "tools/", "/tools", "//", "/a//b/", "/../", "/./", "/a;b/", "/a b/", "/%2e/", "/a\r\n/",
            &long,
        ] {
            assert!(!is_base(base), "{base}");
        }
    }
}
