//! [`Models`]: the list at `/v1/models`. It contains the configured names and, if there is a wildcard model, the names
//! in its upstream's list.

use std::{collections::HashMap, sync::Arc};

use futures_util::future::join_all;
use http::request;
use serde_json::Value;

use super::{
    ServeError,
    auth::Caller,
    catalogue::{Catalogue, Entry, Listed, id},
    routes::Route,
    stamp::unix_time,
};
use toolwire_config::{Changes, Config, Model};
use toolwire_pipeline::{
    dialect::{self, ClientDialect},
    failure::Failure,
};

/// The list of models, shared by all threads.
#[derive(Debug)]
pub(super) struct Models {
    config: Arc<Config>,
    /// The lists of the models' upstreams, by the upstream's name.
    catalogues: HashMap<String, Arc<Catalogue>>,
    /// When the server started, as Unix time in seconds. Used as `created` for models without a time of their own.
    started: u64,
}

/// A model that a client may use.
#[derive(Debug)]
pub struct UsableModel {
    pub name: String,
    pub upstream: String,
    /// Whether the upstream answers. `None` if its API has nothing to ask for without cost.
    pub answers: Option<bool>,
}

/// Anthropic's SDKs send this header with every request.
const ANTHROPIC_VERSION: &str = "anthropic-version";

/// Google's SDKs send one of these with every request.
const OF_GOOGLE: [&str; 2] = ["x-goog-api-key", "x-goog-api-client"];

/// The dialect of a client that requests models at a path that several APIs have, or a path that does not exist. `None`
/// if it does not differ from that of the path.
pub(super) fn asking_dialect(route: Option<&Route>, head: &request::Parts) -> Option<ClientDialect> {
    if !route.is_none_or(Route::is_shared_list) {
        return None;
    }
    if head.headers.contains_key(ANTHROPIC_VERSION) {
        return Some(ClientDialect::Messages);
    }
    let parameter = ClientDialect::Gemini.side().key_parameter();
    let key = parameter.zip(head.uri.query()).and_then(|(name, query)| dialect::parameter(query, name));
    let is_google = key.is_some() || OF_GOOGLE.iter().any(|name| head.headers.contains_key(*name));
    is_google.then_some(ClientDialect::Gemini)
}

impl Models {
    /// Creates the list for `config` without fetching anything. `before` is the list for the replaced configuration,
    /// along with what has changed from that configuration to `config`.
    ///
    /// # Errors
    /// If no request can be built for an upstream.
    pub(super) fn new(config: Arc<Config>, before: Option<(&Self, &Changes)>) -> Result<Self, ServeError> {
        let known = |name: &str| {
            let (before, changes) = before?;
            before.catalogues.get(name).filter(|_| !changes.touch_entry("upstreams", name)).cloned()
        };
        let mut catalogues = HashMap::new();
        for upstream in config.models.iter().map(|model| &model.upstream) {
            let name = &upstream.name;
            if catalogues.contains_key(name) {
                continue;
            }
            let catalogue = match known(name) {
                Some(known) => Some(known),
                None => Catalogue::new(upstream)
                    .map_err(|error| ServeError::Upstream { name: name.clone(), error })?
                    .map(Arc::new),
            };
            catalogues.extend(catalogue.map(|catalogue| (name.clone(), catalogue)));
        }
        let started = before.map_or_else(unix_time, |(before, _)| before.started);
        Ok(Self { config, catalogues, started })
    }

    /// The list of the wildcard model's upstream.
    fn catalogue(&self) -> Option<&Arc<Catalogue>> {
        let wildcard = self.config.models.iter().find(|model| model.is_wildcard());
        // If `upstream_name` is configured, the upstream only ever receives that name.
        let upstream = wildcard.filter(|model| model.upstream_name.is_none()).map(|model| &model.upstream);
        self.catalogues.get(&upstream?.name)
    }

    /// The models of [`Models::list`], and whether their upstreams answer. Asks each upstream for its list.
    ///
    /// # Errors
    /// See [`Models::list`].
    pub(super) async fn usable(&self, caller: &Caller) -> Result<Vec<UsableModel>, Failure> {
        let answering = self.catalogues.iter();
        let answering =
            answering.map(|(name, catalogue)| async move { (name.as_str(), catalogue.answers().await) });
        let (listed, answering) = futures_util::join!(self.list(caller), join_all(answering));
        let answering: HashMap<_, _> = answering.into_iter().collect();
        let listed = listed?;
        let names = listed.iter().filter_map(|entry| entry.get("id")?.as_str());
        let usable = names.filter_map(|name| {
            let upstream = &self.config.model(name)?.upstream.name;
            let answers = answering.get(upstream.as_str()).copied();
            Some(UsableModel { name: name.to_owned(), upstream: upstream.clone(), answers })
        });
        Ok(usable.collect())
    }

    /// Lists the models that the caller may use, configured names first.
    ///
    /// # Errors
    /// If no model is known and the upstream of the wildcard model returns no list.
    pub(super) async fn list(&self, caller: &Caller) -> Result<Vec<Value>, Failure> {
        let Listed { entries, error } = self.upstream_list().await;
        let is_allowed = |name: &str| caller.check_model(name).is_ok();
        let mut data = Vec::new();
        for model in &self.config.models {
            let name = if model.is_wildcard() { model.upstream_name.as_deref() } else { Some(&*model.name) };
            let name = name.filter(|name| is_allowed(name));
            data.extend(name.map(|name| self.describe(name, model, self.listed(model, name, &entries))));
        }
        if let Some(wildcard) = self.config.models.iter().find(|model| model.is_wildcard()) {
            let known =
                wildcard.upstream.options.side().known_model().filter(|_| wildcard.upstream_name.is_none());
            let others = entries.iter().filter_map(|entry| Some((id(entry)?, Some(entry))));
            let others = others.chain(known.map(|id| (id, None)));
            let others = others.filter(|(id, _)| !self.is_named(id) && is_allowed(id));
            data.extend(others.map(|(id, entry)| self.describe(id, wildcard, entry)));
            if let Some(error) = error.filter(|_| data.is_empty()) {
                return Err(error.failure(&wildcard.upstream.name));
            }
        }
        Ok(data)
    }

    /// Describes the model `name`. `None` if requests for it are not accepted.
    pub(super) async fn find(&self, name: &str) -> Option<Value> {
        let model = self.config.model(name)?;
        let Listed { entries, .. } = self.upstream_list().await;
        Some(self.describe(name, model, self.listed(model, name, &entries)))
    }

    async fn upstream_list(&self) -> Listed {
        match self.catalogue() {
            Some(catalogue) => catalogue.listed().await,
            None => Listed::default(),
        }
    }

    fn is_named(&self, name: &str) -> bool {
        self.config.models.iter().any(|model| model.name == name && !model.is_wildcard())
    }

    /// Merges the upstream's fields of a model with the configured ones, which take precedence.
    fn describe(&self, name: &str, model: &Model, theirs: Option<&Entry>) -> Value {
        let mut object = theirs.cloned().unwrap_or_default();
        // A model with a configured name counts as toolwire's own.
        let is_theirs = model.is_wildcard();
        let created = object.get("created").filter(|created| is_theirs && created.is_u64()).cloned();
        let owner = object.get("owned_by").filter(|owner| is_theirs && owner.is_string()).cloned();
        let own = [
            ("id", name.into()),
            ("object", "model".into()),
            ("created", created.unwrap_or_else(|| self.started.into())),
            ("owned_by", owner.unwrap_or_else(|| model.upstream.name.as_str().into())),
        ];
        object.extend(own.map(|(key, value)| (key.to_owned(), value)));
        Value::Object(object)
    }

    /// Returns the upstream's entry for `model` when it is requested as `name`.
    fn listed<'e>(&self, model: &Model, name: &str, entries: &'e [Entry]) -> Option<&'e Entry> {
        let catalogue = self.catalogue()?;
        let theirs = model.upstream_name(name);
        (catalogue.upstream().name == model.upstream.name)
            .then(|| entries.iter().find(|entry| id(entry) == Some(theirs)))
            .flatten()
    }
}
