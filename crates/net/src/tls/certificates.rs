//! [`Certificates`]: the certificate chain and key of the listeners, which are reloaded when their files change.

use std::{
    convert::Infallible,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::{Mutex, RwLock};
use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};
use tokio::{task::spawn_blocking, time::sleep};
use tokio_rustls::rustls::{
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

use super::{Identity, IdentityFiles, PemError, TlsSettings, identity::IdentityError};
use crate::causes::causes;

/// The interval at which the files are checked for changes.
const INTERVAL: Duration = Duration::from_secs(5);

/// Delay before a second attempt if the files do not match, since one of them may just have been replaced.
const SECOND_TRY: Duration = Duration::from_secs(1);

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How close the expiry of a certificate is, in the order in which it is logged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Expiry {
    #[default]
    Far,
    /// Within a week.
    Week,
    /// Within a day.
    Day,
    Past,
}

impl Expiry {
    fn of(identity: &Identity, now: SystemTime) -> Self {
        match identity.expires.map(|expires| expires.duration_since(now)) {
            Some(Err(_)) => Self::Past,
            Some(Ok(left)) if left < DAY => Self::Day,
            Some(Ok(left)) if left < DAY * 7 => Self::Week,
            Some(Ok(_)) | None => Self::Far,
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct CertificateMetrics {
    /// The expiry time of the certificate, as Unix time in seconds. Absent if unknown.
    pub expiry: Family<[(&'static str, &'static str); 0], Gauge>,
    pub reload_failures: Counter,
    /// Handshakes that failed or timed out.
    pub handshake_failures: Counter,
}

impl CertificateMetrics {
    fn set_expiry(&self, identity: &Identity) {
        let Some(expires) = identity.expires else {
            self.expiry.clear();
            return;
        };
        let seconds = expires.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.expiry.get_or_create(&[]).set(i64::try_from(seconds).unwrap_or(i64::MAX));
    }
}

/// The certificate of the listeners, which is replaced when its files change.
#[derive(Debug)]
pub struct Certificates {
    files: IdentityFiles,
    current: RwLock<Identity>,
    /// Why the files cannot be used at the moment. It is logged again only when it changes.
    fault: Mutex<Option<String>>,
    /// The last expiry that was logged.
    logged: Mutex<Expiry>,
    metrics: CertificateMetrics,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reloaded {
    /// The files contain the certificate that is in use.
    Unchanged,
    /// New connections use the new certificate.
    Exchanged,
}

impl Certificates {
    pub fn new(settings: &TlsSettings, metrics: CertificateMetrics) -> Arc<Self> {
        let (files, identity) = (settings.files.clone(), settings.identity.clone());
        metrics.set_expiry(&identity);
        Arc::new(Self {
            files,
            current: RwLock::new(identity),
            fault: Mutex::default(),
            logged: Mutex::default(),
            metrics,
        })
    }

    /// Reads the files. If they cannot be used, the current certificate stays in use. A failure is logged and counted,
    /// unless the previous one had the same reason.
    ///
    /// # Errors
    /// Why the files cannot be used.
    pub async fn reload(&self) -> Result<Reloaded, PemError> {
        let mut found = self.read().await;
        if found.is_err() {
            sleep(SECOND_TRY).await;
            found = self.read().await;
        }
        match found {
            Ok(None) => {
                *self.fault.lock() = None;
                Ok(Reloaded::Unchanged)
            }
            Ok(Some(identity)) => {
                let expires = identity.expires.map(|expires| humantime::format_rfc3339(expires).to_string());
                tracing::info!(cert = %self.files.cert.display(), expires, "the certificate was exchanged");
                self.metrics.set_expiry(&identity);
                *self.fault.lock() = None;
                *self.current.write() = identity;
                Ok(Reloaded::Exchanged)
            }
            Err((_, error)) => {
                let reason = causes(&error);
                let before = self.fault.lock().replace(reason.clone());
                if before.as_ref() != Some(&reason) {
                    tracing::warn!(reason, "the new certificate is not used, the old one stays");
                    self.metrics.reload_failures.inc();
                }
                Err(error)
            }
        }
    }

    /// Reloads the files at regular intervals, and logs that the certificate expires soon or has expired.
    pub async fn watch(&self) -> Infallible {
        loop {
            self.log_expiry(SystemTime::now());
            sleep(INTERVAL).await;
            // Failures were logged.
            let _ = self.reload().await;
        }
    }

    /// Logs how close the expiry is, once each time it comes closer. Returns it.
    fn log_expiry(&self, now: SystemTime) -> Expiry {
        let identity = self.current();
        let expiry = Expiry::of(&identity, now);
        let before = std::mem::replace(&mut *self.logged.lock(), expiry);
        if expiry <= before {
            return expiry;
        }
        let (cert, expires) = (self.files.cert.display(), identity.expires.map(humantime::format_rfc3339));
        let expires = expires.map(|expires| expires.to_string());
        match expiry {
            Expiry::Past => tracing::error!(
                %cert, expires,
                "the certificate has expired: clients refuse connections. Replace its files; they are read without a restart"
            ),
            Expiry::Day | Expiry::Week => tracing::warn!(
                %cert, expires, "the certificate expires soon. Replace its files; they are read without a restart"
            ),
            Expiry::Far => {}
        }
        expiry
    }

    async fn read(&self) -> Result<Option<Identity>, IdentityError> {
        let (files, current) = (self.files.clone(), self.current());
        match spawn_blocking(move || files.read(Some(&current))).await {
            Ok(read) => read,
            // The runtime is shutting down.
            Err(_) => Ok(None),
        }
    }

    fn current(&self) -> Identity {
        self.current.read().clone()
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current().certified)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use rcgen::{CertificateParams, KeyPair};
    use tempfile::TempDir;

    use super::*;
    use crate::tls::{ClientAuth, KeySource, MinVersion};

    fn made() -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    fn write(folder: &Path, (cert, key): &(String, String)) {
        fs::write(folder.join("cert.pem"), cert).unwrap();
        fs::write(folder.join("key.pem"), key).unwrap();
    }

    fn certificates(folder: &Path) -> Arc<Certificates> {
        let key = KeySource::File(folder.join("key.pem"));
        let files = IdentityFiles { cert: folder.join("cert.pem"), key };
        let identity = files.read(None).unwrap().unwrap();
        let settings = TlsSettings {
            files,
            identity,
            client_ca: None,
            client_auth: ClientAuth::Required,
            min_version: MinVersion::Tls12,
        };
        Certificates::new(&settings, CertificateMetrics::default())
    }

    #[tokio::test]
    async fn new_files_are_used_if_they_belong_together() {
        let folder = TempDir::new().unwrap();
        let (old, new) = (made(), made());
        write(folder.path(), &old);
        let certificates = certificates(folder.path());
        let first = certificates.current();
        assert_eq!(certificates.reload().await.unwrap(), Reloaded::Unchanged);

        // Only one of the two files is replaced. Reading them twice logs and counts the failure once.
        write(folder.path(), &(new.0.clone(), old.1.clone()));
        for _ in 0..2 {
            assert!(certificates.reload().await.unwrap_err().to_string().contains("does not belong"));
            assert!(Arc::ptr_eq(&certificates.current().certified, &first.certified));
            assert_eq!(certificates.metrics.reload_failures.get(), 1);
        }

        write(folder.path(), &new);
        assert_eq!(certificates.reload().await.unwrap(), Reloaded::Exchanged);
        assert!(!Arc::ptr_eq(&certificates.current().certified, &first.certified));
        assert_eq!(certificates.reload().await.unwrap(), Reloaded::Unchanged);

        fs::remove_file(folder.path().join("cert.pem")).unwrap();
        assert!(certificates.reload().await.unwrap_err().to_string().contains("cannot read"));
        assert_eq!(certificates.metrics.reload_failures.get(), 2);
    }

    #[tokio::test]
    async fn expiry_is_logged_each_time_it_comes_closer() {
        let folder = TempDir::new().unwrap();
        write(folder.path(), &made());
        let certificates = certificates(folder.path());
        let expires = certificates.current().expires.unwrap();
        for (days, expected) in [(8, Expiry::Far), (7, Expiry::Far), (6, Expiry::Week), (1, Expiry::Week)] {
            assert_eq!(certificates.log_expiry(expires - DAY * days), expected, "{days}");
        }
        assert_eq!(certificates.log_expiry(expires - Duration::from_secs(1)), Expiry::Day);
        assert_eq!(certificates.log_expiry(expires + Duration::from_secs(1)), Expiry::Past);
        assert_eq!(*certificates.logged.lock(), Expiry::Past);
        assert_eq!(
            certificates.log_expiry(expires - DAY * 30),
            Expiry::Far,
            "the clock was wrong, or it was renewed"
        );
    }

    #[tokio::test]
    async fn files_that_are_exchanged_one_after_the_other_are_read_twice() {
        let folder = TempDir::new().unwrap();
        let new = made();
        write(folder.path(), &made());
        let certificates = certificates(folder.path());
        fs::write(folder.path().join("key.pem"), &new.1).unwrap();
        let rest = async {
            tokio::task::yield_now().await;
            sleep(SECOND_TRY / 2).await;
            fs::write(folder.path().join("cert.pem"), &new.0).unwrap();
        };
        let (reloaded, ()) = tokio::join!(certificates.reload(), rest);
        assert_eq!(reloaded.unwrap(), Reloaded::Exchanged);
        assert_eq!(certificates.metrics.reload_failures.get(), 0);
    }

    /// As in a mounted Kubernetes secret, the files are links through a folder that is replaced.
    #[cfg(unix)]
    #[tokio::test]
    async fn exchanged_folder_is_followed() {
        use std::os::unix::fs::symlink;
        let folder = TempDir::new().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (version, identity) in [("..1", made()), ("..2", made())] {
            fs::create_dir(at(version)).unwrap();
            write(&at(version), &identity);
        }
        symlink("..1", at("..data")).unwrap();
        for name in ["cert.pem", "key.pem"] {
            symlink(Path::new("..data").join(name), at(name)).unwrap();
        }
        let certificates = certificates(folder.path());
        symlink("..2", at("..new")).unwrap();
        fs::rename(at("..new"), at("..data")).unwrap();
        fs::remove_dir_all(at("..1")).unwrap();
        assert_eq!(certificates.reload().await.unwrap(), Reloaded::Exchanged);
    }
}
