//! `[tls]`: TLS on the listeners.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use secrecy::SecretString;
use tokio_rustls::rustls::RootCertStore;
use toml::Value;

use super::{
    keys::{Reading, some, string, table_of},
    mask::MASK,
    table::{Cell, Table},
    value::{Origin, referred, text},
};
use toolwire_net::{
    causes::causes,
    tls::{self, ClientAuth, IdentityFiles, IdentityPart, KeySource, MinVersion, TlsSettings},
};
use toolwire_pipeline::settings::Settings;

const CLIENT_AUTH: [(&str, ClientAuth); 2] =
    [("required", ClientAuth::Required), ("optional", ClientAuth::Optional)];

const MIN_VERSION: [(&str, MinVersion); 2] = [("1.2", MinVersion::Tls12), ("1.3", MinVersion::Tls13)];

/// A table that is being read.
#[derive(Debug, Settings)]
pub(super) struct Draft {
    /// the PEM file of the certificate, then those of the intermediate authorities. It and the key are [read
    /// again](tls.md) when they change
    #[setting(
        required, file_only, read = some(path),
        show = |cert| cert.as_ref().map(|cert| path_value(cert))
    )]
    cert: Option<PathBuf>,
    /// its private key, `"file:PATH"` or `"env:NAME"`: PEM of PKCS#8, PKCS#1 or SEC1, not encrypted
    #[setting(
        required, file_only, read = some(key_source),
        show = |key| key.as_ref().map(|_| string(MASK))
    )]
    key: Option<KeySource>,
    /// the PEM file of the authorities of certificates that clients must show, in addition to an API key
    #[setting(
        or = "none", file_only, read = |cell| authorities(&cell, path(cell.clone())?).map(Some),
        show = |authorities| authorities.as_ref().map(|(path, _)| path_value(path))
    )]
    client_ca: Option<(PathBuf, Arc<RootCertStore>)>,
    /// with `client_ca`: a certificate is `"required"`, or `"optional"`, only checked if shown
    #[setting(words = CLIENT_AUTH, file_only)]
    client_auth: ClientAuth,
    /// the oldest version of TLS: `"1.2"` or `"1.3"`
    #[setting(words = MIN_VERSION, file_only)]
    min_version: MinVersion,
}

/// Reads the table. `None` if it is absent or contains mistakes.
pub(super) fn read(table: &mut Table<'_>) -> Option<Arc<TlsSettings>> {
    table.cell("tls")?.table(|table| {
        let mut draft = Draft::default();
        draft.settings(&mut Reading(table));
        if let (Some(cell), None) = (table.cell("client_auth"), table.cell("client_ca")) {
            cell.wrong::<()>("without `client_ca` no certificate of a client can be checked");
        }
        let files = IdentityFiles { cert: draft.cert?, key: draft.key? };
        let identity = identity(table, &files, ("cert", "key"))?;
        let settings = TlsSettings {
            files,
            identity,
            client_ca: draft.client_ca,
            client_auth: draft.client_auth,
            min_version: draft.min_version,
        };
        Some(Arc::new(settings))
    })
}

/// The table with all values, and with the key masked.
pub(super) fn shown(settings: &TlsSettings) -> toml::Table {
    let mut draft = Draft {
        cert: Some(settings.files.cert.clone()),
        key: Some(settings.files.key.clone()),
        client_ca: settings.client_ca.clone(),
        client_auth: settings.client_auth,
        min_version: settings.min_version,
    };
    let mut shown = table_of(|keys| draft.settings(keys));
    if settings.client_ca.is_none() {
        shown.remove("client_auth");
    }
    shown
}

/// Loads `files`, whose paths come from the keys `cert` and `key` of `table`. Reports mistakes in the files, and warns
/// about an expired certificate.
pub(super) fn identity(
    table: &mut Table<'_>,
    files: &IdentityFiles,
    (cert, key): (&'static str, &'static str),
) -> Option<tls::Identity> {
    match files.read(None) {
        Ok(identity) => {
            if let Some((expired, cell)) =
                identity.as_ref().and_then(tls::Identity::expired).zip(table.cell(cert))
            {
                let expired = humantime::format_rfc3339_seconds(expired);
                cell.warn(format!("the certificate in {} expired at {expired}", files.cert.display()));
            }
            identity
        }
        Err((part, wrong)) => {
            let key = if part == IdentityPart::Cert { cert } else { key };
            table.report_fault(key, &causes(&wrong));
            None
        }
    }
}

/// Reads a path. It is relative to the configuration file.
pub(super) fn path(cell: Cell<'_>) -> Option<PathBuf> {
    let written = text(cell.clone())?;
    let written = written.strip_prefix("file:").unwrap_or(&written);
    Some(cell.context.source.resolve(written, cell.span.start))
}

/// Reads the location of a private key. For a file, keeps the path rather than the content, since the content may
/// change.
pub(super) fn key_source(cell: Cell<'_>) -> Option<KeySource> {
    let written = text(cell.clone())?;
    if let Some(path) = written.strip_prefix("file:") {
        return Some(KeySource::File(cell.context.source.resolve(path, cell.span.start)));
    }
    match referred(cell.clone())? {
        (_, Origin::Here) if !written.contains("-----BEGIN ") => {
            cell.wrong("expected `\"file:PATH\"` or `\"env:NAME\"` of a private key")
        }
        (key, origin) => {
            if origin == Origin::Here {
                cell.warn("a private key in the file itself; `\"file:PATH\"` or `\"env:NAME\"` keeps it out");
            }
            Some(KeySource::Text(SecretString::from(key)))
        }
    }
}

/// Reads the certificate authorities in the PEM file `path`. Reports mistakes at `cell`.
pub(super) fn authorities(cell: &Cell<'_>, path: PathBuf) -> Option<(PathBuf, Arc<RootCertStore>)> {
    match tls::authorities(&path) {
        Ok(roots) => Some((path, Arc::new(roots))),
        Err(wrong) => cell.wrong(causes(&wrong)),
    }
}

pub(super) fn path_value(path: &Path) -> Value {
    string(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use tempfile::TempDir;

    use super::*;
    use crate::{Config, Overrides, Problems, load};

    const REST: &str = "[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\nbase_url = \"http://127.0.0.1:1/v1\"\n[[models]]\nname = \"m\"\n";

    /// Creates a folder with a certificate that expires at the start of `year`, its key, and an unrelated key.
    fn folder(year: i32) -> TempDir {
        let folder = TempDir::new().unwrap();
        let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_after = date_time_ymd(year, 1, 1);
        for (name, content) in [
            ("cert.pem", params.self_signed(&key).unwrap().pem()),
            ("key.pem", key.serialize_pem()),
            ("other.pem", other.serialize_pem()),
            ("empty.pem", String::new()),
        ] {
            fs::write(folder.path().join(name), content).unwrap();
        }
        folder
    }

    fn read(folder: &TempDir, table: &str) -> (Option<Config>, String) {
        let file = folder.path().join("toolwire.toml");
        fs::write(&file, format!("{table}\n{REST}")).unwrap();
        let key = fs::read_to_string(folder.path().join("key.pem")).unwrap();
        let environment = |name: &str| (name == "KEY").then(|| key.clone());
        let overrides = Overrides { file: Some(file), ..Overrides::default() };
        let (config, said) = match load(&overrides, &environment) {
            Ok(loaded) => (Some(loaded.config), Problems(loaded.warnings)),
            Err(problems) => (None, problems),
        };
        let path = format!("{}/", folder.path().display());
        (config, said.to_string().replace(&path, ""))
    }

    #[test]
    fn key_is_a_file_or_in_the_environment_and_never_shown() {
        let folder = folder(2100);
        for key in ["file:key.pem", "env:KEY"] {
            let table = format!(
                "[tls]\ncert = \"cert.pem\"\nkey = \"{key}\"\nclient_ca = \"cert.pem\"\nclient_auth = \"optional\"\nmin_version = \"1.3\""
            );
            let (config, said) = read(&folder, &table);
            assert_eq!(said, "");
            let config = config.unwrap();
            assert_eq!(config.scheme(), "https");
            let shown = config.to_toml();
            let shown = shown.get("tls").unwrap().to_string();
            assert!(
                shown.contains("cert.pem") && shown.contains("optional") && shown.contains("1.3"),
                "{shown}"
            );
            assert!(
                shown.contains(MASK) && !shown.contains("BEGIN") && !shown.contains("key.pem"),
                "{shown}"
            );
        }
    }

    #[test]
    fn expired_certificate_is_a_warning() {
        let (config, said) = read(&folder(2020), "[tls]\ncert = \"cert.pem\"\nkey = \"file:key.pem\"");
        assert!(config.is_some());
        assert!(
            said.contains("warning: the certificate in cert.pem expired at 2020-01-01T00:00:00Z"),
            "{said}"
        );
    }

    #[test]
    fn faults_are_reported_at_their_keys() {
        let folder = folder(2100);
        for (table, line, words) in [
            ("[tls]", 1, "missing key `cert`"),
            ("[tls]\ncert = \"cert.pem\"", 1, "missing key `key`"),
            ("[tls]\ncert = \"none.pem\"\nkey = \"file:key.pem\"", 2, "cannot read none.pem"),
            ("[tls]\ncert = \"empty.pem\"\nkey = \"file:key.pem\"", 2, "empty.pem holds no certificate"),
            ("[tls]\ncert = \"cert.pem\"\nkey = \"file:other.pem\"", 3, "other.pem does not belong to"),
            ("[tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"", 3, "expected `\"file:PATH\"`"),
            ("[tls]\ncert = \"cert.pem\"\nkey = \"env:NONE\"", 3, "`NONE` is not set"),
            (
                "[tls]\ncert = \"cert.pem\"\nkey = \"file:key.pem\"\nclient_auth = \"optional\"",
                4,
                "without `client_ca`",
            ),
            (
                "[tls]\ncert = \"cert.pem\"\nkey = \"file:key.pem\"\nclient_ca = \"key.pem\"",
                4,
                "key.pem holds no certificate",
            ),
            (
                "[tls]\ncert = \"cert.pem\"\nkey = \"file:key.pem\"\nmin_version = \"1.1\"",
                4,
                "unknown value `1.1`",
            ),
            ("[tls]\ncert = \"cert.pem\"\nkey = \"file:key.pem\"\nca = \"\"", 4, "unknown key `ca`"),
        ] {
            let (config, said) = read(&folder, table);
            assert!(config.is_none(), "{table}");
            assert!(
                said.contains(&format!("toolwire.toml:{line}:")) && said.contains(words),
                "{table}: {said}"
            );
        }
    }

    #[test]
    fn without_keys_only_loopback_is_listened_on_over_tls_too() {
        let folder = folder(2100);
        let table = "listen = \"0.0.0.0:1\"\n[tls]\ncert = \"cert.pem\"\nkey = \"file:key.pem\"";
        let (config, said) = read(&folder, table);
        assert!(config.is_none() && said.contains("without `api_keys`"), "{said}");
        let (config, said) = read(&folder, &format!("api_keys = [\"env:KEY_OF_CLIENTS\"]\n{table}"));
        assert!(config.is_none() && !said.contains("without `api_keys`"), "{said}");
    }
}
