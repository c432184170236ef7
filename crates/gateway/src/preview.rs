//! [`preview`]: shows the request that an upstream would receive for a client's request, without sending it.

use std::sync::Arc;

use bytes::Bytes;

use super::exchange::{self, Encoded};
use super::servers::Servers;
use super::tool_search;
use super::upstream_capabilities::Known;
use toolwire_config::Config;
use toolwire_config::Upstream;
use toolwire_pipeline::{
    conversation::{Conversation, ToolChoice},
    dialect::ClientDialect,
    failure::Failure,
    format::estimated_tokens,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    pub body: Bytes,
    /// The text of all turns, including the instructions that teach tools.
    pub text: String,
    /// Estimated tokens of the tools' instructions or declarations.
    pub tool_tokens: usize,
}

/// Returns the request that the upstream of the model named in `body` would receive. It does not depend on the current
/// time: chat templates get the time 0.
///
/// # Errors
/// Returns the failure that the request would cause before anything is sent.
pub fn preview(config: &Arc<Config>, dialect: ClientDialect, body: &Bytes) -> Result<Preview, Failure> {
    const NOW: u64 = 0;
    let mut conversation = exchange::decode(dialect, body)?;
    let model = exchange::model(config, dialect, &conversation)?;
    tool_search::offer(model, &model.upstream.options, dialect, &mut conversation);
    exchange::settle_choice(model, &mut conversation)?;
    let known = Known::configured(model, &conversation.model);
    let mut sent = exchange::sent(model, &conversation, dialect.dialect(), &known.means, NOW)?;
    let tokens_sent = tokens(&sent);
    let Encoded { request, .. } = exchange::encode(model, &known, &mut sent, NOW)?;
    let untaught = Conversation { tool_choice: ToolChoice::None, ..(*conversation).clone() };
    let without = tokens(&*exchange::sent(model, &untaught, dialect.dialect(), &known.means, NOW)?);
    let tool_tokens = tokens_sent.saturating_sub(without);
    Ok(Preview { body: request.body, text: text(&sent), tool_tokens })
}

/// Returns `config` with the detected software of its upstreams. A server detects it only after the first request,
/// which is still sent without constraints.
pub async fn with_known_servers(mut config: Config) -> Config {
    let Ok(servers) = Servers::new(&config, None) else { return config };
    servers.look_at_all().await;
    let known = |upstream: &Arc<Upstream>| {
        let options = servers.options(upstream).clone();
        Arc::new(Upstream { options, ..Upstream::clone(upstream) })
    };
    let upstreams: Vec<_> = config.upstreams.iter().map(known).collect();
    for model in &mut config.models {
        let known = upstreams.iter().find(|upstream| upstream.name == model.upstream.name);
        model.upstream = known.map_or_else(|| Arc::clone(&model.upstream), Arc::clone);
    }
    Config { upstreams, ..config }
}

fn text(conversation: &Conversation) -> String {
    conversation.turns.iter().map(|turn| turn.joined_text()).collect::<Vec<_>>().join("\n")
}

/// Estimates the tokens of the turns and of the declared tools.
fn tokens(conversation: &Conversation) -> usize {
    let tools = conversation.callable_tools().map(|tool| {
        let parameters = tool.parameters.as_ref().map_or("", |parameters| parameters.view().raw());
        [&tool.name, &tool.description, parameters].into_iter().map(estimated_tokens).sum::<usize>()
    });
    estimated_tokens(&text(conversation)) + tools.sum::<usize>()
}
