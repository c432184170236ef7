//! [`SeenPages`]: the pages found by searches, for each client.

use std::{
    collections::{HashSet, VecDeque},
};

use parking_lot::Mutex;
use url::Url;

use toolwire_net::store::Owner;
use toolwire_pipeline::wire::digest::Digest;

/// Maximum number of pages of all clients together. If it is exceeded, the oldest are forgotten.
const MAX_PAGES: usize = 50_000;

/// The pages found by searches, for each client.
#[derive(Debug, Default)]
pub(super) struct SeenPages(Mutex<Pages>);

#[derive(Debug, Default)]
struct Pages {
    known: HashSet<(Owner, Digest)>,
    order: VecDeque<(Owner, Digest)>,
}

impl SeenPages {
    /// Adds pages found by a search of `client`.
    pub(super) fn add<'u>(&self, client: Owner, urls: impl Iterator<Item = &'u str>) {
        let mut pages = self.0.lock();
        for url in urls {
            let page = (client, digest(url));
            if pages.known.insert(page) {
                pages.order.push_back(page);
            }
            if pages.order.len() > MAX_PAGES
                && let Some(oldest) = pages.order.pop_front()
            {
                pages.known.remove(&oldest);
            }
        }
    }

    /// Whether a search of `client` found this page.
    pub(super) fn has(&self, client: Owner, url: &str) -> bool {
        self.0.lock().known.contains(&(client, digest(url)))
    }
}

/// The digest of a page. It ignores the fragment of the URL.
fn digest(url: &str) -> Digest {
    match Url::parse(url) {
        Ok(mut url) => {
            url.set_fragment(None);
            Digest::of(url.as_str())
        }
        Err(_) => Digest::of(url),
    }
}
