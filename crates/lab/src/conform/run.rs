//! Runs cases concurrently.

use std::sync::Arc;

use futures_util::{StreamExt, stream};

use super::{
    case::{Ask, Case},
    check::{Found, check},
    client::Client,
    departures::Departures,
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

/// What is played.
#[derive(Debug, Clone, Copy)]
pub struct Played<'p> {
    pub cases: &'p [Arc<Case>],
    /// The dialects of the clients.
    pub clients: &'p [ClientDialect],
    pub models: &'p Models,
    /// Those of the mock.
    pub departures: &'p Departures,
    /// Whether no violation is tolerated.
    pub is_strict: bool,
}

/// Runs every case with a client of every dialect that suits it, `concurrency` at a time. The verdicts are in the order of
/// the cases.
pub async fn run(
    client: &Client,
    played: &Played<'_>,
    concurrency: usize,
    mut progress: impl FnMut(&Verdict),
) -> Vec<Verdict> {
    let Played { cases, clients, models, departures, is_strict } = *played;
    let pairs = clients.iter().flat_map(|&dialect| cases.iter().map(move |case| (dialect, case)));
    let pairs = pairs.filter(|(dialect, case)| case.suits(*dialect));
    let verdicts = stream::iter(pairs).map(|(dialect, case)| async move {
        let model = models.of(case);
        let found = match case.ask {
            Ask::Leave => client.leave(dialect, case, &model, departures).await,
            _ => check(&case.expected, dialect, &client.ask(dialect, case, &model).await, is_strict),
        };
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
