//! [`preview`]: the request that an upstream would receive for a client's request, without sending it.

use std::sync::Arc;

use bytes::Bytes;

use super::exchange;
use super::servers::Servers;
use toolwire_config::Config;
use toolwire_config::Upstream;
use toolwire_pipeline::{
    conversation::{Conversation, ToolChoice},
    dialect::ClientDialect,
    failure::Failure,
    format::estimated_tokens,
};

/// The request that the upstream would receive for a client's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// The body of the request.
    pub body: Bytes,
    /// The text of all turns, with the instructions that teach the tools.
    pub text: String,
    /// The cost of the tools: the estimated tokens of their instructions, or of their declarations.
    pub tool_tokens: usize,
}

/// The request that the upstream of the model named in `body` would receive. Its text does not depend on the current
/// time: chat templates get the time 0.
///
/// # Errors
/// The failure that a request would have before anything is sent.
pub fn preview(config: &Arc<Config>, dialect: ClientDialect, body: &Bytes) -> Result<Preview, Failure> {
    const NOW: u64 = 0;
    let mut conversation = exchange::decode(dialect, body)?;
    let model = exchange::model(config, dialect, &conversation)?;
    exchange::settle_choice(model, &mut conversation)?;
    let means = model.upstream.options.side().means();
    let mut sent = exchange::sent(model, &conversation, dialect.dialect(), &means, NOW)?;
    let (request, _) = exchange::encode(model, &model.upstream.options, &mut sent, NOW)?;
    let untaught = Conversation { tool_choice: ToolChoice::None, ..conversation.clone() };
    let without = tokens(&*exchange::sent(model, &untaught, dialect.dialect(), &means, NOW)?);
    let tool_tokens = tokens(&sent).saturating_sub(without);
    Ok(Preview { body: request.body, text: text(&sent), tool_tokens })
}

/// `config` with the software of its upstreams, as far as their responses reveal it. A server that runs with `config`
/// would only begin to determine the software with the first request, and would send that request without a constraint.
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

/// The estimated tokens of the turns and of the declared tools.
fn tokens(conversation: &Conversation) -> usize {
    let tools = conversation.callable_tools().map(|tool| {
        let parameters = tool.parameters.as_ref().map_or("", |parameters| parameters.view().raw());
        [&tool.name, &tool.description, parameters].into_iter().map(estimated_tokens).sum::<usize>()
    });
    estimated_tokens(&text(conversation)) + tools.sum::<usize>()
}
