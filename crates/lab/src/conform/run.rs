//! Runs cases concurrently.

use std::sync::Arc;

use futures_util::{StreamExt, stream};

use super::{
    case::Case,
    check::{Found, check},
    client::Client,
    gateway::Models,
};
use toolwire_pipeline::dialect::ClientDialect;

/// The outcome of a case for a client of one dialect.
#[derive(Debug, Clone)]
pub struct Verdict {
    pub(crate) case: Arc<Case>,
    pub(crate) client: ClientDialect,
    pub(crate) found: Found,
}

/// Runs every case with a client of every dialect, `concurrency` at a time. The verdicts are in the order of the cases.
/// If `is_strict`, no violation is tolerated.
pub async fn run(
    client: &Client,
    cases: &[Arc<Case>],
    dialects: &[ClientDialect],
    models: &Models,
    concurrency: usize,
    is_strict: bool,
    mut progress: impl FnMut(&Verdict),
) -> Vec<Verdict> {
    let pairs = dialects.iter().flat_map(|&dialect| cases.iter().map(move |case| (dialect, case)));
    let verdicts = stream::iter(pairs).map(|(dialect, case)| async move {
        let received = client.ask(dialect, case, &models.of(case)).await;
        let found = check(&case.expected, dialect, &received, is_strict);
        Verdict { case: Arc::clone(case), client: dialect, found }
    });
    let mut all = Vec::new();
    let mut verdicts = std::pin::pin!(verdicts.buffered(concurrency.max(1)));
    while let Some(verdict) = verdicts.next().await {
        progress(&verdict);
        all.push(verdict);
    }
    all
}
