//! Checks the machine before the start: the state folder and its files, the store's server, the listeners' certificate,
//! and the limit of open files. Changes nothing.

use std::{
    fmt, fs, io,
    path::Path,
    time::{Duration, SystemTime},
};

use rustix::{
    fs::{Access, access, statvfs},
    process::{Resource, getrlimit},
};

use toolwire_config::{Config, StoreKind};
use toolwire_net::{
    causes::causes,
    store::{FileState, RedisServer, ServerFacts, StoreAddress, examine_files},
};

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was checked.
    pub part: String,
    pub grade: Grade,
    /// What was found, and what to do about it.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grade {
    Ok,
    Warning,
    Error,
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

impl Finding {
    fn new(part: &str, grade: Grade, message: impl Into<String>) -> Self {
        Self { part: part.to_owned(), grade, message: message.into() }
    }
}

/// Space for usage, deferred turns and cached results, in bytes, besides the stored responses.
const OTHER_STATE: u64 = 256 << 20;

/// Files that are open without any request, about.
const STANDING_FILES: u64 = 64;

/// A certificate that expires within this time is reported.
const EXPIRES_SOON: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Checks everything that `config` uses on this machine, and the server that stores its state.
pub async fn examine_machine(config: &Config) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(folder) = &config.state_dir {
        found.push(state_dir(folder, config));
        if config.store == StoreKind::Embedded {
            found.extend(files(folder));
        }
    }
    if let StoreKind::Redis(address) = &config.store {
        found.extend(server(address).await);
    }
    if let Some(tls) = &config.tls {
        let (cert, expires) = (tls.files.cert.display().to_string(), tls.identity.expires());
        found.extend(expires.map(|expires| certificate(&cert, expires, SystemTime::now())));
    }
    let streams = config.upstreams.iter().map(|upstream| upstream.queue.max_concurrent as u64);
    let waiting = config.upstreams.iter().map(|upstream| upstream.queue.max_waiting as u64);
    let limit = getrlimit(Resource::Nofile).maximum;
    // Limits may be as large as anybody writes them.
    let [streams, waiting] = [streams.fold(0, u64::saturating_add), waiting.fold(0, u64::saturating_add)];
    found.push(open_files(limit, streams, waiting));
    found
}

fn state_dir(folder: &Path, config: &Config) -> Finding {
    const PART: &str = "state_dir";
    let path = folder.display();
    let existing = folder.ancestors().find(|path| path.exists() || path.as_os_str().is_empty());
    let existing = match existing {
        Some(path) if path.as_os_str().is_empty() => Path::new("."),
        Some(path) => path,
        None => Path::new("/"),
    };
    if !existing.is_dir() {
        let message = format!("{} is not a folder: set `state_dir` to a folder", existing.display());
        return Finding::new(PART, Grade::Error, message);
    }
    if let Err(error) = access(existing, Access::WRITE_OK | Access::EXEC_OK) {
        let why = io::Error::from(error);
        let message = format!(
            "{} cannot be written ({why}), so nothing outlives a restart: let this user write it, or set `state_dir` to another folder",
            existing.display()
        );
        return Finding::new(PART, Grade::Error, message);
    }
    let free = match statvfs(existing) {
        Ok(found) => found.f_bavail.saturating_mul(found.f_frsize),
        Err(error) => {
            let why = io::Error::from(error);
            return Finding::new(PART, Grade::Warning, format!("the free space of {path} is unknown: {why}"));
        }
    };
    let needed = match config.store {
        // The file of stored responses may take twice their size.
        StoreKind::Embedded => {
            let stored = u64::try_from(config.limits.max_store).unwrap_or(u64::MAX);
            stored.saturating_mul(2).saturating_add(OTHER_STATE)
        }
        StoreKind::Off | StoreKind::Redis(_) => 0,
    };
    let used = fs::metadata(folder.join("store.redb")).map_or(0, |found| found.len());
    space(&path, free, needed.saturating_sub(used))
}

/// Compares the free bytes of the folder `path` with how many its files may still grow by.
fn space(path: &dyn fmt::Display, free: u64, needed: u64) -> Finding {
    let mebibytes = |bytes: u64| bytes >> 20;
    let (grade, message) = if free < 1 << 20 {
        (Grade::Error, format!("the disk is full ({path}): free space on it"))
    } else if free < needed {
        let message = format!(
            "{} MiB are free in {path}, but its files may take {} MiB more: free space, or lower `limits.max_store`",
            mebibytes(free),
            mebibytes(needed)
        );
        (Grade::Warning, message)
    } else {
        (Grade::Ok, format!("can be written, {} MiB are free ({path})", mebibytes(free)))
    };
    Finding::new("state_dir", grade, message)
}

/// Reports the files that need attention, or else how many are whole.
fn files(folder: &Path) -> Vec<Finding> {
    let (mut found, mut whole) = (Vec::new(), 0);
    for (path, state) in examine_files(folder) {
        match state {
            FileState::Missing => {}
            FileState::Whole(_) => whole += 1,
            state => found.push(file(&path, &state)),
        }
    }
    if whole > 0 {
        let message = format!("{whole} {} whole", if whole == 1 { "file is" } else { "files are" });
        found.push(Finding::new("store", Grade::Ok, message));
    }
    found
}

fn file(path: &Path, state: &FileState) -> Finding {
    let name = path.display();
    let (grade, message) = match state {
        FileState::Damaged(why) => (
            Grade::Error,
            format!(
                "{name} is damaged ({why}): put back a copy, or it is renamed at the start and a fresh one is begun"
            ),
        ),
        FileState::Unusable(why) => (
            Grade::Error,
            format!(
                "{name} cannot be used ({why}), so its values would be kept in memory only: move it away, or let this user read and write it"
            ),
        ),
        FileState::InUse => (Grade::Ok, format!("{name} is in use by a running server")),
        FileState::Missing | FileState::Whole(_) => (Grade::Ok, format!("{name} can be used")),
    };
    Finding::new("store", grade, message)
}

async fn server(address: &StoreAddress) -> Vec<Finding> {
    match RedisServer::examine(address).await {
        Ok(facts) => settings(address, &facts),
        Err(error) => {
            let message = format!(
                "{address} cannot be used ({}): is it running, and are address, user and password right?",
                causes(&error)
            );
            vec![Finding::new("store", Grade::Error, message)]
        }
    }
}

/// Reports the settings by which the server may lose state.
fn settings(address: &StoreAddress, facts: &ServerFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut warn = |message: String| found.push(Finding::new("store", Grade::Warning, message));
    match &facts.eviction_policy {
        Some(policy) if policy != "noeviction" => {
            warn(format!(
                "{address} removes state when its memory is full (`maxmemory-policy {policy}`): set it to `noeviction`"
            ));
        }
        _ => {}
    }
    if facts.max_memory == Some(0) {
        warn(format!(
            "{address} has no `maxmemory`, so it may be killed when the machine's memory is used up: set it"
        ));
    }
    if facts.appends == Some(false) {
        warn(format!("{address} loses state when it restarts (`appendonly no`): set it to `yes`"));
    }
    if *facts == ServerFacts::default() {
        warn(format!(
            "{address} answers, but does not say its settings (`INFO`): check `appendonly` and `maxmemory-policy`"
        ));
    }
    if found.is_empty() {
        found.push(Finding::new("store", Grade::Ok, format!("{address} answers, and keeps what it stores")));
    }
    found
}

fn certificate(cert: &str, expires: SystemTime, now: SystemTime) -> Finding {
    let day = 24 * 60 * 60;
    let at = httpdate::fmt_http_date(expires);
    let (grade, message) = match expires.duration_since(now) {
        Err(_) => (
            Grade::Error,
            format!(
                "the certificate expired at {at}, so clients refuse it: renew it, or set the clock right ({cert})"
            ),
        ),
        Ok(left) if left < EXPIRES_SOON => (
            Grade::Warning,
            format!(
                "the certificate expires within {} days, at {at}: renew it ({cert})",
                left.as_secs() / day + 1
            ),
        ),
        Ok(left) => {
            (Grade::Ok, format!("the certificate is valid for {} days ({cert})", left.as_secs() / day))
        }
    };
    Finding::new("tls", grade, message)
}

/// Compares the limit of open files with what the upstreams' limits allow: a response in progress takes two sockets, a
/// waiting request one. An eighth of the limit is reserved for upstreams.
fn open_files(limit: Option<u64>, streams: u64, waiting: u64) -> Finding {
    const PART: &str = "open files";
    let needed = streams.saturating_mul(2).saturating_add(waiting).saturating_add(STANDING_FILES);
    match limit {
        Some(limit) if limit < needed => {
            let message = format!(
                "{limit} files may be open, but {streams} responses and {waiting} waiting requests, which the limits of upstreams allow, need {needed}: raise the limit (`ulimit -Hn`, `LimitNOFILE=`), or lower `max_concurrent` and `max_waiting`"
            );
            Finding::new(PART, Grade::Warning, message)
        }
        Some(limit) => {
            Finding::new(PART, Grade::Ok, format!("{limit} may be open, {needed} are needed at most"))
        }
        None => Finding::new(PART, Grade::Ok, "any number may be open"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graded(finding: &Finding, grade: Grade, words: &str) {
        assert!(finding.grade == grade && finding.message.contains(words), "{finding:?}");
    }

    #[test]
    fn free_space_is_compared_with_what_files_may_take() {
        graded(&space(&"/s", 0, 0), Grade::Error, "the disk is full (/s)");
        graded(
            &space(&"/s", 10 << 20, 11 << 20),
            Grade::Warning,
            "10 MiB are free in /s, but its files may take 11",
        );
        graded(&space(&"/s", 11 << 20, 11 << 20), Grade::Ok, "11 MiB are free");
    }

    #[test]
    fn settings_by_which_a_server_loses_state_are_named() {
        let address = StoreAddress::parse("redis://user:secret@h/0").unwrap();
        let facts = |policy: &str, max_memory, appends| ServerFacts {
            eviction_policy: Some(policy.to_owned()),
            max_memory: Some(max_memory),
            appends: Some(appends),
        };
        let found = settings(&address, &facts("allkeys-lru", 0, false));
        assert_eq!(found.len(), 3);
        for (finding, words) in
            found.iter().zip(["maxmemory-policy allkeys-lru", "no `maxmemory`", "appendonly no"])
        {
            graded(finding, Grade::Warning, words);
            assert!(!finding.message.contains("secret"));
        }
        graded(&settings(&address, &facts("noeviction", 1, true))[0], Grade::Ok, "redis://h:6379/0 answers");
        graded(&settings(&address, &ServerFacts::default())[0], Grade::Warning, "does not say its settings");
    }

    #[test]
    fn expiry_of_a_certificate_is_counted_in_days() {
        let (now, day) = (SystemTime::now(), Duration::from_secs(86_400));
        graded(&certificate("c", now, now), Grade::Warning, "within 1 days");
        graded(&certificate("c", now - day, now), Grade::Error, "expired at");
        graded(&certificate("c", now + day * 7, now), Grade::Ok, "valid for 7 days (c)");
    }

    #[test]
    fn open_files_are_compared_with_the_limits_of_upstreams() {
        graded(&open_files(Some(447), 64, 256), Grade::Warning, "447 files may be open, but 64 responses");
        graded(&open_files(Some(448), 64, 256), Grade::Ok, "448 may be open");
        graded(&open_files(None, 64, 256), Grade::Ok, "any number");
    }
}
