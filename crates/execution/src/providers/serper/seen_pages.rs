//! [`SeenPages`]: remembers which pages each client's searches have found.

use std::{
    collections::{HashSet, VecDeque},
};

use parking_lot::Mutex;
use url::Url;

use toolwire_net::store::Owner;
use toolwire_pipeline::wire::digest::Digest;

/// Maximum number of pages for all clients together. Beyond it, the oldest are forgotten.
const MAX_PAGES: usize = 50_000;

#[derive(Debug, Default)]
pub(super) struct SeenPages(Mutex<Pages>);

#[derive(Debug, Default)]
struct Pages {
    known: HashSet<(Owner, Digest)>,
    order: VecDeque<(Owner, Digest)>,
}

impl SeenPages {
    /// Adds pages found by one of `client`'s searches.
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

    /// Whether one of `client`'s searches has found this page.
    pub(super) fn has(&self, client: Owner, url: &str) -> bool {
        self.0.lock().known.contains(&(client, digest(url)))
    }
}

/// Digest of a URL without its fragment.
fn digest(url: &str) -> Digest {
    match Url::parse(url) {
        Ok(mut url) => {
            url.set_fragment(None);
            Digest::of(url.as_str())
        }
        Err(_) => Digest::of(url),
    }
}
