//! `[upstreams.tls]`: the certificates that an upstream is trusted by, and those that it gets.

use std::{path::PathBuf, sync::Arc};

use http::Uri;
use tokio_rustls::rustls::RootCertStore;

use super::{
    keys::{Keys, Reading, string, table_of},
    show::MASK,
    table::Table,
    tls,
};
use crate::{
    settings::Key,
    tls::{IdentityFiles, KeySource, UpstreamTls},
};

/// A table whose keys have not all been read.
#[derive(Debug, Default)]
pub(super) struct Draft {
    ca: Option<(PathBuf, Arc<RootCertStore>)>,
    client_cert: Option<PathBuf>,
    client_key: Option<KeySource>,
}

/// The keys.
pub(super) fn keys(keys: &mut impl Keys, draft: &mut Draft) {
    keys.special(
        Key::new("ca", "the PEM file of the authorities that are trusted, instead of the system's")
            .or("the system's, or Mozilla's if there are none"),
        &mut draft.ca,
        |cell| tls::authorities(cell).map(Some),
        |ca| ca.as_ref().map(|(path, _)| tls::path_value(path)),
    );
    keys.special(
        Key::new("client_cert", "the PEM file of the certificate that is shown to the upstream").or("none"),
        &mut draft.client_cert,
        |cell| tls::path(cell).map(Some),
        |cert| cert.as_ref().map(|cert| tls::path_value(cert)),
    );
    keys.special(
        Key::new("client_key", "its private key, `\"file:PATH\"` or `\"env:NAME\"`").or("none"),
        &mut draft.client_key,
        |cell| tls::key_source(cell).map(Some),
        |key| key.as_ref().map(|_| string(MASK)),
    );
}

/// Reads the table of an upstream at `base_url`. `None`: it is not there, or wrong.
pub(super) fn read(table: &mut Table<'_>, base_url: Option<&Uri>) -> Option<Arc<UpstreamTls>> {
    let cell = table.cell("tls")?;
    if base_url.is_some_and(|url| url.scheme_str() == Some("http")) {
        return cell.wrong("settings of TLS, but `base_url` begins with `http://`");
    }
    cell.clone().table(|table| {
        let mut draft = Draft::default();
        keys(&mut Reading(table), &mut draft);
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

/// The table as it resolved, the key masked.
pub(super) fn shown(tls: &UpstreamTls) -> toml::Table {
    let mut draft = Draft {
        ca: tls.ca.clone(),
        client_cert: tls.identity.as_ref().map(|files| files.cert.clone()),
        client_key: tls.identity.as_ref().map(|files| files.key.clone()),
    };
    table_of(|visitor| keys(visitor, &mut draft))
}
