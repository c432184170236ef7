//! [`Authorization`]: how an upstream knows who asks.

use std::sync::Arc;

use super::account::Account;
#[cfg(feature = "bedrock")]
use super::signer::Signer;
use crate::observe::Metrics;
use toolwire_config::Upstream;
use toolwire_net::redact::Redactor;

#[derive(Debug, Clone)]
pub(super) enum Authorization {
    /// By the headers of the target, which contain the key, if there is one.
    Target,
    /// By the session of an account.
    Account(Arc<Account>),
    /// By a signature of each request.
    #[cfg(feature = "bedrock")]
    Signature(Arc<Signer>),
    /// By the client's own session; see [`Client::of_request`](super::Client::of_request). Its tokens are added to the
    /// redactor.
    Client(Arc<Redactor>),
}

/// The account of a client that has been replaced. Dropping the last reference to an account waits for a running
/// refresh of its session, which a thread that serves streams must not do.
#[derive(Debug)]
pub(in super::super) struct ReplacedAccount(Arc<Account>);

impl Authorization {
    /// How requests to `upstream` are authorized. Its secrets are added to the redactor.
    pub(super) fn of(
        upstream: &Arc<Upstream>,
        redactor: &Arc<Redactor>,
        metrics: &Metrics,
    ) -> Result<Self, http::Error> {
        #[cfg(feature = "bedrock")]
        if let Some(signing) = upstream.options.side().signing() {
            return Ok(Self::Signature(Arc::new(Signer::new(signing, redactor))));
        }
        Ok(match Account::of(upstream, redactor, metrics)? {
            Some(account) => Self::Account(account),
            None if upstream.takes_sessions() => Self::Client(Arc::clone(redactor)),
            None => Self::Target,
        })
    }

    /// The account of a client that is being replaced.
    pub(super) fn replaced(&self) -> Option<ReplacedAccount> {
        match self {
            Self::Account(account) => Some(ReplacedAccount(Arc::clone(account))),
            _ => None,
        }
    }
}

impl ReplacedAccount {
    /// Whether a request still uses the account, or its session is being refreshed.
    pub(in super::super) fn is_busy(&self) -> bool {
        Arc::strong_count(&self.0) > 1 || self.0.is_renewing()
    }
}
