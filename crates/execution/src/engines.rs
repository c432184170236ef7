//! [`joined`]: combines all providers that search the web, called engines, into one tool.
//!
//! The first of these providers in the configuration offers the tool. A call goes to the engine that the model selects,
//! or to the first one. If it fails, the other engines are tried in order until one succeeds. If all fail, the error is
//! the last one that a retry can fix, or else the last one.

use std::sync::Arc;

use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::intent::{mentions, plain};
use super::{
    provider::{Host, Invocation, Provider, Running, Status, Testing},
    tool::{ErrorCode, Output, ToolError, ToolSpec},
};
use toolwire_pipeline::wire::json::Raw;

const TOOL: &str = "web_search";

/// The argument that selects an engine.
const ENGINE: &str = "engine";

/// An engine whose name contains one of these words uses Google Search.
const GOOGLE: [&str; 3] = ["google", "serper", "gemini"];

/// Maximum length of a query, in characters. Search engines ignore what exceeds it.
const MAX_QUERY: usize = 400;

type Providers = Vec<(Arc<str>, Arc<dyn Provider>)>;

/// Combines the providers that search the web into one tool. Other providers are returned unchanged.
pub(super) fn joined(providers: Providers) -> Providers {
    let engines: Providers =
        providers.iter().filter(|(_, provider)| provider.is_search_engine()).cloned().collect();
    if engines.len() < 2 {
        return providers;
    }
    let mut engines = Some(engines);
    let joined = providers.into_iter().map(|(name, own)| {
        if !own.is_search_engine() {
            return (name, own);
        }
        let engine: Arc<dyn Provider> = Arc::new(Engine { own, engines: engines.take().unwrap_or_default() });
        (name, engine)
    });
    joined.collect()
}

#[derive(Debug)]
struct Engine {
    own: Arc<dyn Provider>,
    /// All engines if this is the first one, which offers the tool; otherwise empty.
    engines: Providers,
}

impl Provider for Engine {
    fn tools(&self) -> Vec<Arc<ToolSpec>> {
        let engines: Vec<_> = self.able().collect();
        let search = match engines.as_slice() {
            [] => None,
            [(_, _, only)] => Some(Arc::clone(only)),
            engines => Some(Arc::new(shared(engines))),
        };
        let others = self.own.tools().into_iter().filter(|spec| spec.name != TOOL);
        search.into_iter().chain(others).collect()
    }

    fn run<'a>(&'a self, call: &'a Invocation) -> Running<'a> {
        if call.tool == TOOL { Box::pin(self.search(call)) } else { self.own.run(call) }
    }

    fn test<'a>(&'a self, key: Option<&'a SecretString>) -> Testing<'a> {
        self.own.test(key)
    }

    fn status(&self) -> Status {
        self.own.status()
    }

    fn restart(&self) -> bool {
        self.own.restart()
    }

    fn start(self: Arc<Self>, host: &Host) {
        Arc::clone(&self.own).start(host);
    }
}

impl Engine {
    /// The engines that are currently available.
    fn able(&self) -> impl Iterator<Item = (&str, &Arc<dyn Provider>, Arc<ToolSpec>)> {
        self.engines.iter().filter_map(|(name, provider)| {
            let spec = provider.tools().into_iter().find(|spec| spec.name == TOOL)?;
            Some((&**name, provider, spec))
        })
    }

    async fn search(&self, call: &Invocation) -> Result<Output, ToolError> {
        let asked = call.arguments.get(ENGINE).and_then(Value::as_str);
        let mut engines: Vec<_> = self.able().collect();
        if let Some(place) = engines.iter().position(|(name, ..)| Some(*name) == asked)
            && let Some(first) = engines.get_mut(..=place)
        {
            first.rotate_right(1);
        }
        let mut last = Err(ToolError::new(ErrorCode::ProviderError, "No search engine can be used."));
        // A retryable error takes precedence, so that the call is retried. The retry skips engines that failed
        // permanently.
        let mut retryable = None;
        for (name, provider, spec) in engines {
            if call.given_up.has(name) {
                continue;
            }
            let end = call.deadline.min(Instant::now() + spec.timeout);
            last = timeout_at(end, provider.run(call)).await.unwrap_or_else(|_| {
                let message = format!("The search did not end within {:?}.", spec.timeout);
                Err(ToolError::new(ErrorCode::Timeout, message))
            });
            match &last {
                Ok(output) if !output.is_error => return last,
                // Arguments that one engine rejects are invalid for all.
                Err(error) if error.code == ErrorCode::InvalidArguments => return last,
                Ok(_) => {
                    call.given_up.add(name);
                    tracing::warn!(engine = name, "the search failed");
                }
                Err(error) => {
                    match error.is_retryable {
                        true => retryable = Some(error.clone()),
                        false => call.given_up.add(name),
                    }
                    tracing::warn!(engine = name, code = error.code.name(), "the search failed");
                }
            }
        }
        retryable.map_or(last, Err)
    }
}

/// The tool of the first engine, with an additional argument that selects an engine.
fn shared(engines: &[(&str, &Arc<dyn Provider>, Arc<ToolSpec>)]) -> ToolSpec {
    let spec = engines.first().map(|(_, _, spec)| ToolSpec::clone(spec)).unwrap_or_default();
    let names: Vec<_> = engines.iter().map(|(name, ..)| *name).collect();
    let engine = json!({
        "type": "string",
        "enum": names,
        "description": "The search engine. Default: the first. If one fails, the others are tried.",
    });
    let mut parameters = spec.parameters.view().to_value();
    if let Some(properties) = parameters.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert(ENGINE.to_owned(), engine);
    }
    let timeout = engines.iter().map(|(_, _, spec)| spec.timeout).sum();
    ToolSpec { parameters: Raw::from(parameters), timeout, ..spec }
}

/// Restricts the schema to the engines that the user names in `texts`, which must be in the form that [`plain`]
/// returns. Returns `None` if the user names none.
pub(super) fn narrowed(tool: &str, schema: &Raw, texts: &[String]) -> Option<Raw> {
    if tool != TOOL {
        return None;
    }
    let all = schema.view().get("properties")?.get(ENGINE)?.get("enum")?;
    let all: Vec<_> = all.elements().filter_map(|name| Some(name.as_str()?.into_owned())).collect();
    let is_named = |name: &&String| {
        let name = plain(name);
        let is_googles = GOOGLE.iter().any(|own| name.contains(own));
        texts.iter().any(|text| mentions(text, &name) || (is_googles && mentions(text, GOOGLE[0])))
    };
    let named: Vec<_> = all.iter().filter(is_named).collect();
    if named.is_empty() || named.len() == all.len() {
        return None;
    }
    let mut schema = schema.view().to_value();
    *schema.pointer_mut("/properties/engine/enum")? = json!(named);
    Some(Raw::from(schema))
}

/// The schema of the argument `recency`, which all engines support.
pub(super) fn recency() -> Value {
    json!({
        "type": "string",
        "enum": ["oneDay", "oneWeek", "oneMonth", "oneYear", "noLimit"],
        "description": "How old results may be. Default: any age.",
    })
}

/// Removes control characters and extra whitespace from a query, and cuts it at its maximum length.
pub(super) fn cleaned(query: &str) -> String {
    let is_invisible = |character: char| {
        character.is_control()
            || matches!(character, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    let visible: String =
        query.chars().map(|character| if is_invisible(character) { ' ' } else { character }).collect();
    let words: Vec<_> = visible.split_whitespace().collect();
    let cut: String = words.join(" ").chars().take(MAX_QUERY).collect();
    cut.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use std::{future::pending, time::Duration};

    use super::*;

    #[derive(Debug)]
    struct Double {
        name: &'static str,
        behaviour: Behaviour,
        asked: Arc<Mutex<Vec<&'static str>>>,
    }

    #[derive(Debug, Clone, Copy)]
    enum Behaviour {
        Answers,
        Fails(ErrorCode),
        Reports,
        Hangs,
        OffersNothing,
    }

    impl Provider for Double {
        fn is_search_engine(&self) -> bool {
            true
        }

        fn tools(&self) -> Vec<Arc<ToolSpec>> {
            let spec = |name: &str| {
                let parameters = json!({"type": "object", "properties": {"query": {"type": "string"}}});
                let (name, timeout) = (name.to_owned(), Duration::from_secs(5));
                Arc::new(ToolSpec { name, timeout, parameters: Raw::from(parameters), ..ToolSpec::default() })
            };
            match self.behaviour {
                Behaviour::OffersNothing => Vec::new(),
                _ => vec![spec(TOOL), spec(&format!("{}_extra", self.name))],
            }
        }

        fn run<'a>(&'a self, call: &'a Invocation) -> Running<'a> {
            self.asked.lock().push(self.name);
            let own = format!("{} {}", self.name, call.tool);
            match self.behaviour {
                Behaviour::Fails(code) => Box::pin(async move { Err(ToolError::new(code, own)) }),
                Behaviour::Reports => Box::pin(async move { Ok(Output::failed(own)) }),
                Behaviour::Hangs => Box::pin(pending()),
                _ => Box::pin(async move { Ok(Output::text(own)) }),
            }
        }
    }

    type Asked = Arc<Mutex<Vec<&'static str>>>;

    fn engines(list: &[(&'static str, Behaviour)]) -> (Providers, Asked) {
        let asked = Asked::default();
        let engine = |(name, behaviour): &(&'static str, Behaviour)| {
            let engine = Double { name, behaviour: *behaviour, asked: Arc::clone(&asked) };
            let engine: Arc<dyn Provider> = Arc::new(engine);
            (Arc::from(*name), engine)
        };
        (joined(list.iter().map(engine).collect()), asked)
    }

    fn call(tool: &str, engine: Option<&str>) -> Invocation {
        let engine = engine.map(|engine| (ENGINE.to_owned(), engine.into()));
        Invocation::in_test(tool, Value::Object(engine.into_iter().collect()))
    }

    fn names(providers: &Providers) -> Vec<Vec<String>> {
        let names =
            |provider: &Arc<dyn Provider>| provider.tools().iter().map(|spec| spec.name.clone()).collect();
        providers.iter().map(|(_, provider)| names(provider)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_success_wins_and_else_the_last_failure() {
        use Behaviour::{Answers, Fails, Hangs, OffersNothing, Reports};
        let failing = Fails(ErrorCode::ProviderError);
        for (list, engine, expected, order) in [
            ([("a", Answers), ("b", Answers), ("c", Answers)], None, "a web_search", vec!["a"]),
            ([("a", Answers), ("b", Answers), ("c", Answers)], Some("c"), "c web_search", vec!["c"]),
            ([("a", Answers), ("b", Answers), ("c", Answers)], Some("x"), "a web_search", vec!["a"]),
            ([("a", failing), ("b", Hangs), ("c", Answers)], None, "c web_search", vec!["a", "b", "c"]),
            ([("a", Answers), ("b", failing), ("c", Reports)], Some("c"), "a web_search", vec!["c", "a"]),
            ([("a", Answers), ("b", failing), ("c", failing)], Some("b"), "a web_search", vec!["b", "a"]),
            (
                [("a", failing), ("b", failing), ("c", Fails(ErrorCode::RateLimited))],
                None,
                "rate_limited",
                vec!["a", "b", "c"],
            ),
            (
                [("a", failing), ("b", failing), ("c", Hangs)],
                Some("c"),
                "provider_error",
                vec!["c", "a", "b"],
            ),
            ([("a", failing), ("b", failing), ("c", Hangs)], None, "timeout", vec!["a", "b", "c"]),
            (
                [("a", Fails(ErrorCode::InvalidArguments)), ("b", Answers), ("c", Answers)],
                None,
                "invalid_arguments",
                vec!["a"],
            ),
            ([("a", OffersNothing), ("b", Answers), ("c", Answers)], Some("a"), "b web_search", vec!["b"]),
        ] {
            let (providers, asked) = engines(&list);
            let call = call(TOOL, engine);
            let result = providers[0].1.run(&call).await;
            let shown = result.map_or_else(|error| error.code.name().to_owned(), |output| output.content);
            assert_eq!((shown.as_str(), &*asked.lock()), (expected, &order), "{list:?} {engine:?}");
        }
    }

    #[tokio::test]
    async fn only_engines_whose_own_error_is_retryable_are_asked_again() {
        use Behaviour::{Fails, Reports};
        let list =
            [("a", Fails(ErrorCode::ProviderError)), ("b", Fails(ErrorCode::AuthFailed)), ("c", Reports)];
        let (providers, asked) = engines(&list);
        let call = call(TOOL, None);
        for expected in [vec!["a", "b", "c"], vec!["a"], vec!["a"]] {
            let error = providers[0].1.run(&call).await.unwrap_err();
            assert_eq!((error.code, error.is_retryable), (ErrorCode::ProviderError, true));
            assert_eq!(std::mem::take(&mut *asked.lock()), expected);
        }
    }

    #[test]
    fn one_tool_has_a_choice_of_all_engines() {
        use Behaviour::{Answers, OffersNothing};
        let (providers, _) = engines(&[("a", Answers), ("b", Answers), ("c", OffersNothing)]);
        assert_eq!(names(&providers), [vec![TOOL, "a_extra"], vec!["b_extra"], vec![]]);
        let spec = &providers[0].1.tools()[0];
        assert_eq!(spec.parameters.view().to_value()["properties"]["engine"]["enum"], json!(["a", "b"]));
        assert_eq!(spec.timeout, Duration::from_secs(10));
        // A tool with one engine has no argument that selects one.
        let (providers, _) = engines(&[("a", OffersNothing), ("b", Answers)]);
        assert_eq!(names(&providers), [vec![TOOL], vec!["b_extra"]]);
        assert!(providers[0].1.tools()[0].parameters.view().to_value()["properties"].get("engine").is_none());
    }

    #[test]
    fn named_engines_narrow_the_choice() {
        use Behaviour::Answers;
        let (providers, _) = engines(&[("duck", Answers), ("serper", Answers), ("my-google", Answers)]);
        let spec = &providers[0].1.tools()[0];
        let narrowed = |tool: &str, text: &str| {
            let schema = narrowed(tool, &spec.parameters, &[plain("hello"), plain(text)])?;
            Some(schema.view().to_value()["properties"]["engine"]["enum"].clone())
        };
        for (text, expected) in [
            ("Google the news", Some(json!(["serper", "my-google"]))),
            ("ask Duck, please", Some(json!(["duck"]))),
            ("use serper", Some(json!(["serper"]))),
            ("use my-google or duck", None),
            ("ducks and googled things", None),
            ("search the web", None),
        ] {
            assert_eq!(narrowed(TOOL, text), expected, "{text}");
            assert_eq!(narrowed("other", text), None);
        }
    }

    #[tokio::test]
    async fn other_tools_run_at_their_own_provider() {
        let (providers, _) = engines(&[("a", Behaviour::Answers), ("b", Behaviour::Answers)]);
        for (place, expected) in [(0, "a other"), (1, "b other")] {
            let output = providers[place].1.run(&call("other", None)).await.unwrap();
            assert_eq!(output.content, expected);
        }
    }
}
