//! `[upstreams.tls]`: the certificates that toolwire trusts and presents when it connects to an upstream.

use std::{path::PathBuf, sync::Arc};

use http::Uri;
use tokio_rustls::rustls::RootCertStore;

use super::{
    keys::{Reading, some, string, table_of},
    mask::{MASK, marked, masked},
    table::{Cell, Table},
    tls,
};
use toolwire_net::tls::{IdentityFiles, KeySource, UpstreamTls};
use toolwire_pipeline::settings::Settings;

/// A table that is being read.
#[derive(Debug, Settings)]
pub(super) struct Draft {
    /// the PEM file of the trusted authorities
    #[setting(
        or = "the system's, else Mozilla's",
        read = |cell| tls::authorities(&cell, noted(cell.clone())?).map(Some),
        show = |ca| ca.as_ref().map(|(path, roots)| string(&marked(&path.display().to_string(), content(roots))))
    )]
    ca: Option<(PathBuf, Arc<RootCertStore>)>,
    /// the PEM file of the certificate that is shown to the upstream
    #[setting(
        or = "none", read = some(noted),
        show = |cert| cert.as_ref().map(|cert| tls::path_value(cert))
    )]
    client_cert: Option<PathBuf>,
    /// its private key, `"file:PATH"` or `"env:NAME"`
    #[setting(
        or = "none", read = some(client_key),
        show = |key| key.as_ref().map(|_| string(MASK))
    )]
    client_key: Option<KeySource>,
}

/// Returns the path of the file that `cell` names. The file is watched for changes, and compared when the
/// configuration is read again.
fn noted(cell: Cell<'_>) -> Option<PathBuf> {
    let path = tls::path(cell.clone())?;
    cell.context.files.note(&path);
    Some(path)
}

/// Reads the private key. Its file is also watched and compared.
fn client_key(cell: Cell<'_>) -> Option<KeySource> {
    let key = tls::key_source(cell.clone())?;
    if let KeySource::File(path) = &key {
        cell.context.files.note(path);
    }
    Some(key)
}

/// Bytes that identify the authorities: their names and keys.
fn content(roots: &RootCertStore) -> Vec<u8> {
    let parts =
        roots.roots.iter().flat_map(|root| [root.subject.as_ref(), root.subject_public_key_info.as_ref()]);
    parts.flatten().copied().collect()
}

/// Reads the TLS table of the upstream at `base_url`. Returns `None` if it is absent or contains mistakes.
pub(super) fn read(table: &mut Table<'_>, base_url: Option<&Uri>) -> Option<Arc<UpstreamTls>> {
    let cell = table.cell("tls")?;
    if base_url.is_some_and(|url| url.scheme_str() == Some("http")) {
        return cell.wrong("settings of TLS, but `base_url` begins with `http://`");
    }
    cell.clone().table(|table| {
        let mut draft = Draft::default();
        draft.settings(&mut Reading(table));
        for (given, missing) in [("client_cert", "client_key"), ("client_key", "client_cert")] {
            if let (Some(cell), None) = (table.cell(given), table.cell(missing)) {
                cell.wrong::<()>(format!("`{given}` without `{missing}`"));
            }
        }
        let files = draft.client_cert.zip(draft.client_key).map(|(cert, key)| IdentityFiles { cert, key });
        let identity = match files {
            Some(files) => {
                let identity = tls::identity(table, &files, ("client_cert", "client_key"))?;
                Some((files, identity))
            }
            None => None,
        };
        match UpstreamTls::new(draft.ca, identity) {
            Ok(tls) => Some(Arc::new(tls)),
            Err(error) => cell.wrong(error.to_string()),
        }
    })
}

/// The table with all values, and with the key masked.
pub(super) fn shown(tls: &UpstreamTls) -> toml::Table {
    let identity = tls.identity.as_ref();
    let mut draft = Draft {
        ca: tls.ca.clone(),
        client_cert: identity.map(|(files, _)| files.cert.clone()),
        client_key: identity.map(|(files, _)| files.key.clone()),
    };
    let mut shown = table_of(|keys| draft.settings(keys));
    if let Some((_, identity)) = identity {
        shown.insert("client_key".to_owned(), string(&masked(identity.digest())));
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use rcgen::{CertificateParams, KeyPair};
    use tempfile::TempDir;

    use crate::{Config, Overrides, load};

    const FILE: &str = "[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\nbase_url = \"https://127.0.0.1:1/v1\"\n\
        [upstreams.tls]\nca = \"ca.pem\"\nclient_cert = \"cert.pem\"\nclient_key = \"file:key.pem\"\n\
        [[models]]\nname = \"m\"\n";

    fn write(folder: &Path, cert: &str, key: &str) {
        let pair = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        fs::write(folder.join(cert), params.self_signed(&pair).unwrap().pem()).unwrap();
        fs::write(folder.join(key), pair.serialize_pem()).unwrap();
    }

    fn read(folder: &Path) -> Config {
        let overrides = Overrides { file: Some(folder.join("toolwire.toml")), ..Overrides::default() };
        load(&overrides, &|_| None).unwrap().config
    }

    #[test]
    fn files_with_other_content_are_changes_and_their_marks_are_not_shown() {
        let folder = TempDir::new().unwrap();
        let folder = folder.path();
        fs::write(folder.join("toolwire.toml"), FILE).unwrap();
        write(folder, "cert.pem", "key.pem");
        write(folder, "ca.pem", "ca-key.pem");
        let before = read(folder);
        assert_eq!(before.files().len(), 4, "all are watched");
        let shown = before.to_toml().to_string();
        assert!(shown.contains("ca.pem\"") && !shown.contains("\\u0000"), "{shown}");

        let changed = |before: &Config| before.changes_to(&read(folder)).paths().to_vec();
        assert_eq!(changed(&before), [""; 0]);
        write(folder, "cert.pem", "key.pem");
        assert_eq!(changed(&before), ["upstreams.up.tls.client_key"]);
        let before = read(folder);
        write(folder, "ca.pem", "ca-key.pem");
        assert_eq!(changed(&before), ["upstreams.up.tls.ca"]);
    }
}
