//! [`Model`]: a model that clients can request, and the rules for its responses.

mod checks;
mod facts;
mod tool_search;

use std::{borrow::Cow, fmt, fs, sync::Arc};

use self::checks::check;
pub use self::tool_search::ToolSearch;
use super::{
    Upstream,
    alternatives::{self, Alternatives},
    format::LISTED_BY,
    keys::{Keys, Reading, string, table_of},
    model_rules,
    table::{Cell, Table},
    upstream::Declared,
    value::{listed_choice, referred, text},
};
use toolwire_pipeline::{
    conversation::{Conversation, KeptState, Thinking, WantsBack},
    dialect::{MemberSettings, ModelFacts},
    enforce::{self, Enforced, Means},
    format::{self, Format, KnownFormats, Teaching, prompt_opens_reasoning},
    rules::{Detect, Enforce, ExamplesAs, Limits, ReasoningStart, Rules, ToolList},
    settings::{Field, Key, Settings},
    wire::suggest::suggest,
};
use toolwire_template::ChatTemplate;

/// The name of the entry for all models without an entry of their own.
pub const WILDCARD: &str = "*";

#[derive(Debug, Clone)]
pub struct Model {
    /// The name in clients' requests, or [`WILDCARD`].
    pub name: String,
    pub upstream: Arc<Upstream>,
    /// The model's name at the upstream. `None` sends the name that the client requested.
    pub upstream_name: Option<String>,
    /// How tools are described to the model.
    pub tools: ToolStyle,
    /// Replaces the format's instruction template.
    pub instructions: Option<String>,
    pub chat_template: Option<Arc<ChatTemplate>>,
    /// Where the instructions of a format go.
    pub system_position: SystemPosition,
    /// Whether responses start inside reasoning. If `None`, this is decided for each request.
    pub starts_in_reasoning: Option<bool>,
    /// Whether the model may use hosted tools.
    pub execution: bool,
    /// The model that describes images for this one. `None` if the model receives the images itself.
    pub vision: Option<String>,
    pub tool_search: ToolSearch,
    /// Other models that may answer in place of this one.
    pub alternatives: Option<Arc<Alternatives>>,
    /// What the configuration says about the members of requests.
    pub members: MemberSettings,
    /// What the model refuses. `None` if it depends on the model that a client requests.
    pub facts: Option<Arc<ModelFacts>>,
    /// The rules for the model's responses.
    pub settings: Rules,
    /// The formats that settings can refer to, or that model names imply.
    pub formats: Arc<KnownFormats>,
}

impl Model {
    /// Whether the entry serves all models without an entry of their own.
    pub fn is_wildcard(&self) -> bool {
        self.name == WILDCARD
    }

    /// Returns the name that is sent to the upstream for a client's request for the model `asked`.
    pub fn upstream_name<'a>(&'a self, asked: &'a str) -> &'a str {
        self.upstream_name.as_deref().unwrap_or(asked)
    }

    /// Returns [`Model::settings`] for a client's request for the model `asked`. With `detect = "auto"`, the format
    /// that the model is taught and the format that its name implies come first. The name may also imply that responses
    /// start inside reasoning.
    pub fn settings_for(&self, asked: &str) -> Cow<'_, Rules> {
        self.settings_starting(asked, self.start(asked, &Conversation::default()).0)
    }

    /// Like [`Model::settings_for`], for a response that starts as `start` says.
    pub fn settings_starting(&self, asked: &str, start: ReasoningStart) -> Cow<'_, Rules> {
        settings_for(&self.settings, self.tools, start, &self.formats, self.upstream_name(asked))
    }

    /// Returns how the response to `conversation`, for which a client requests the model as `asked`, starts according
    /// to the configuration, the request and the model's family, and what the request says about thinking.
    pub fn start(&self, asked: &str, conversation: &Conversation) -> (ReasoningStart, Thinking) {
        start_of(self.upstream_name(asked), self.starts_in_reasoning, conversation)
    }

    /// Returns the constraints for the upstream to enforce in its response to `conversation`, whose tools are
    /// taught in `format`. `means` lists the constraints that the upstream supports. The result is empty unless the
    /// response will be searched for calls in that format.
    pub fn enforced(
        &self,
        conversation: &Conversation,
        format: &'static Format,
        means: &Means,
    ) -> Option<Enforced> {
        let Rules { enforce, detect, tool_prefix, .. } = &self.settings;
        // A prefill would leave no room for the reasoning of a model that reasons first.
        let reasons_first = || self.start(&conversation.model, conversation).0.in_reasoning;
        let prefill = means.prefill && !(*enforce == Enforce::Auto && reasons_first());
        let means = Means { prefill, ..*means };
        let enforced = enforce::constrain(conversation, format, tool_prefix, *enforce, &means)?;
        let is_found = match detect {
            Detect::Off => false,
            Detect::Formats(names) => names.contains(&enforced.format.name),
            Detect::Auto | Detect::AutoAnd(_) => true,
        };
        is_found.then_some(enforced)
    }

    /// Returns the format in which the model writes calls when a client requests it as `asked`, if its name or `detect`
    /// implies one.
    pub fn own_format(&self, asked: &str) -> Option<&'static Format> {
        match &self.settings_for(asked).detect {
            Detect::AutoAnd(names) | Detect::Formats(names) => self.formats.named(names).first().copied(),
            Detect::Auto | Detect::Off => None,
        }
    }

    /// How the model is taught its tool-call format. Used only if [`Model::tools`] is [`ToolStyle::Format`].
    pub fn teaching(&self) -> Teaching {
        Teaching {
            prefix: self.settings.tool_prefix.clone(),
            server_tools: self.upstream.options.side().server_tools().to_vec(),
            template: self.instructions.clone().unwrap_or_default(),
            text: None,
            in_user_turn: self.system_position == SystemPosition::User,
            in_last_user_turn: self.system_position == SystemPosition::LastUser,
            examples: self.settings.showing.examples,
            example_turns: self.settings.showing.examples_as == ExamplesAs::Turns,
            signatures: self.settings.showing.tool_list == ToolList::Signatures,
            max_instructions: self.settings.showing.max_instructions,
        }
    }

    /// The state of responses that is stored for later requests: what the upstream wants back, or if it sees calls as
    /// plain text, this text. `None` if there is none.
    pub fn kept_state(&self) -> Option<KeptState> {
        match self.tools {
            ToolStyle::Native => match self.upstream.options.side().wants_back() {
                WantsBack::Nothing => None,
                wants => Some(KeptState::WantedBack(wants)),
            },
            ToolStyle::Format(_) => Some(KeptState::AsWritten),
        }
    }

    /// The chat template that provides the instructions, if `instructions` selects it.
    pub fn instructing_template(&self) -> Option<&ChatTemplate> {
        let is_chosen = self.instructions.as_deref() == Some(FROM_TEMPLATE);
        self.chat_template.as_deref().filter(|_| is_chosen)
    }
}

/// The value of `instructions` that selects the chat template.
const FROM_TEMPLATE: &str = "template";

/// Returns how the response of a model that the upstream calls `name` starts: as `configured`, or else as the model's
/// family does with such a request. Also returns what the request says about thinking.
pub fn start_of(
    name: &str,
    configured: Option<bool>,
    conversation: &Conversation,
) -> (ReasoningStart, Thinking) {
    if let Some(starts) = configured {
        return (ReasoningStart::certain(starts), Thinking::Default);
    }
    let (opens, thinking) = prompt_opens_reasoning(name, conversation);
    (ReasoningStart::assumed(opens.unwrap_or_default()), thinking)
}

/// Completes `settings` for a response of a model that the upstream calls `name`: adds how it starts, and the formats
/// that `tools` and the name imply.
pub fn settings_for<'s>(
    settings: &'s Rules,
    tools: ToolStyle,
    start: ReasoningStart,
    formats: &KnownFormats,
    name: &str,
) -> Cow<'s, Rules> {
    let mut settings = Cow::Borrowed(settings);
    if start != settings.start() {
        settings.to_mut().set_start(start);
    }
    if settings.detect != Detect::Auto {
        return settings;
    }
    let mut first = formats.of_model(name);
    if let ToolStyle::Format(taught) = tools {
        first.retain(|format| *format != taught);
        first.insert(0, taught);
    }
    if !first.is_empty() {
        settings.to_mut().detect = Detect::AutoAnd(format::names(&first));
    }
    settings
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolStyle {
    /// As structured data in the upstream's dialect.
    #[default]
    Native,
    /// In the prompt, in this text format.
    Format(&'static Format),
}

impl fmt::Display for ToolStyle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Format(format) => format.name,
        })
    }
}

/// `system_position`: where a format's instructions go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum SystemPosition {
    /// Into a system turn.
    #[default]
    System,
    /// Into the first user turn, for models without a system role.
    User,
    /// Into the last user turn, for models that lose track of text far from the end.
    LastUser,
}

/// An entry's name with its location, and the model if it could be read.
pub(super) type Entry<'a> = (Option<(String, Cell<'a>)>, Option<Model>);

#[derive(Debug)]
pub(super) struct Draft {
    name: Option<String>,
    upstream: Option<Arc<Upstream>>,
    upstream_name: Option<String>,
    tools: ToolStyle,
    instructions: Option<String>,
    chat_template: Option<Arc<ChatTemplate>>,
    system_position: SystemPosition,
    starts_in_reasoning: Option<bool>,
    execution: bool,
    vision: Option<String>,
    tool_search: ToolSearch,
    alternatives: Alternatives,
    members: MemberSettings,
    settings: Rules,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            name: None,
            upstream: None,
            upstream_name: None,
            tools: ToolStyle::default(),
            instructions: None,
            chat_template: None,
            system_position: SystemPosition::default(),
            starts_in_reasoning: None,
            execution: true,
            vision: None,
            tool_search: ToolSearch::default(),
            alternatives: Alternatives::default(),
            members: MemberSettings::default(),
            settings: Rules::default(),
        }
    }
}

/// The keys that select the model and determine how it learns about tools. `upstreams` and `formats` are the ones that
/// an entry may refer to.
pub(super) fn selection(
    keys: &mut impl Keys,
    draft: &mut Draft,
    upstreams: &[Declared<'_>],
    formats: &KnownFormats,
) {
    keys.special(
        Key::new(
            "name",
            "the model name that clients send; `\"*\"` matches every other name, and `/v1/models` then lists the \
             upstream's, or why it does not give them",
        )
        .or(Key::REQUIRED),
        &mut draft.name,
        |cell| text(cell).map(Some),
        |name| name.as_deref().map(string),
    );
    keys.special(
        Key::new("upstream", "the name of an upstream").or("the only one"),
        &mut draft.upstream,
        |cell| declared(cell, upstreams).map(Some),
        |upstream| upstream.as_ref().map(|upstream| string(&upstream.name)),
    );
    keys.key(
        Key::new("upstream_name", "the model name at the upstream").or("the client's name"),
        Field::OptionalText(&mut draft.upstream_name),
    );
    draft.alternatives.settings(keys);
    keys.special(
        Key::new(
            "tools",
            "how tools are presented to the model: `\"native\"` in the dialect's own fields, or by a [text \
             format](formats.md) in the prompt",
        ),
        &mut draft.tools,
        |cell| taught_by(cell, formats),
        |tools| Some(string(&tools.to_string())),
    );
}

/// The keys for building requests and reading responses. `formats` are the ones that an entry may refer to.
pub(super) fn treatment(keys: &mut impl Keys, draft: &mut Draft, formats: &KnownFormats) {
    model_rules::rules(keys, &mut draft.settings, formats);
    model_rules::starts_in_reasoning(keys, &mut draft.starts_in_reasoning);
    keys.special(
        Key::new(
            "instructions",
            "the template of the instructions that [teach](teaching.md) tools: the text, `\"file:PATH\"` or \
             `\"env:NAME\"`, with `{{tools}}`, `{{signatures}}`, `{{examples}}`, `{{example}}`, `{{words}}`, \
             `{{prefix}}`, `{{rules}}` and `{{result}}`; or `\"template\"`, that of `chat_template`",
        )
        .or("the format's own"),
        &mut draft.instructions,
        |cell| referred(cell).map(|(text, _)| Some(text)),
        |instructions| instructions.as_deref().map(string),
    );
    keys.special(
        Key::new(
            "chat_template",
            "`\"file:PATH\"` of the model's [chat template](#chat-templates): `tokenizer_config.json` or a Jinja \
             file",
        )
        .or("none"),
        &mut draft.chat_template,
        |cell| chat_template(cell).map(Some),
        |template| template.as_ref().map(|template| string(&format!("file:{}", template.origin()))),
    );
    keys.key(
        Key::new(
            "system_position",
            "where these instructions go: into a `\"system\"` message, or before the first `\"user\"` or the \
             `\"last_user\"` text (which defeats caches). `\"user\"` for a text format with Lumo",
        )
        .or("`\"system\"` or `\"user\"`"),
        Field::Word(&mut draft.system_position),
    );
    draft.settings.showing.settings(keys);
    tool_search::key(keys, &mut draft.tool_search);
    draft.members.settings(keys);
    keys.key(
        Key::new("execution", "whether the model gets the [hosted tools](tools.md)"),
        Field::Switch(&mut draft.execution),
    );
    keys.key(
        Key::new("vision", "the model that [describes images](tools.md) for this one, which cannot see")
            .or("none"),
        Field::OptionalText(&mut draft.vision),
    );
}

/// Reads an entry of `[[models]]`.
pub(super) fn read<'a>(
    table: &mut Table<'a>,
    upstreams: &[Declared<'_>],
    formats: &Arc<KnownFormats>,
    limits: Limits,
) -> Entry<'a> {
    let mut draft = Draft::default();
    match (table.cell("upstream"), upstreams) {
        (None, [only]) => draft.upstream.clone_from(&only.upstream),
        (None, _) => table.report_missing("upstream"),
        _ => {}
    }
    selection(&mut Reading(table), &mut draft, upstreams, formats);
    draft.settings.limits = limits;
    if let Some(upstream) = draft.upstream.clone() {
        imply(&upstream, &mut draft);
    }
    treatment(&mut Reading(table), &mut draft, formats);
    let name = draft.name.clone().zip(table.cell("name"));
    let model = draft.finish(formats);
    if let Some(model) = &model {
        check(model, table);
    }
    (name, model)
}

/// Applies what the upstream implies for its models: defaults of some keys, and rules that have no key.
fn imply(upstream: &Upstream, draft: &mut Draft) {
    let side = upstream.options.side();
    draft.settings.tolerate_truncation = upstream.tolerate_truncation;
    side.tool_prefix().clone_into(&mut draft.settings.tool_prefix);
    if let ToolStyle::Format(_) = draft.tools {
        // Where client tools are declared natively, a client tool replaces a server tool of the same name, so the name
        // belongs to the client. Where tools are taught with a prefix, the client's tool has a different name, and the
        // plain name still refers to the server tool.
        draft.settings.server_tools = side.server_tools().to_vec();
        if side.instructs_in_user_turn() {
            draft.system_position = SystemPosition::User;
            draft.settings.showing.examples_as = ExamplesAs::Text;
        }
    }
}

impl Draft {
    fn finish(self, formats: &Arc<KnownFormats>) -> Option<Model> {
        let (name, upstream) = (self.name?, self.upstream?);
        let facts = facts::of_entry(&name, self.upstream_name.as_deref(), &upstream, &self.members);
        Some(Model {
            name,
            upstream,
            upstream_name: self.upstream_name,
            tools: self.tools,
            instructions: self.instructions,
            chat_template: self.chat_template,
            system_position: self.system_position,
            starts_in_reasoning: self.starts_in_reasoning,
            execution: self.execution,
            vision: self.vision,
            tool_search: self.tool_search,
            alternatives: Some(self.alternatives).filter(|others| !others.is_empty()).map(Arc::new),
            members: self.members,
            facts,
            settings: self.settings,
            formats: Arc::clone(formats),
        })
    }
}

impl Model {
    /// The entry's keys with all values.
    pub(super) fn shown(&self) -> toml::Table {
        let others = self.alternatives.as_deref().filter(|others| !others.targets.all.is_empty());
        if let Some(others) = others {
            return alternatives::shown_router(&self.name, others);
        }
        let mut draft = Draft {
            name: Some(self.name.clone()),
            upstream: Some(Arc::clone(&self.upstream)),
            upstream_name: self.upstream_name.clone(),
            tools: self.tools,
            instructions: self.instructions.clone(),
            chat_template: self.chat_template.clone(),
            system_position: self.system_position,
            starts_in_reasoning: self.starts_in_reasoning,
            execution: self.execution,
            vision: self.vision.clone(),
            tool_search: self.tool_search,
            alternatives: self.alternatives.as_deref().cloned().unwrap_or_default(),
            members: self.members.clone(),
            settings: self.settings.clone(),
        };
        table_of(|keys| {
            selection(keys, &mut draft, &[], &self.formats);
            treatment(keys, &mut draft, &self.formats);
        })
    }
}

fn chat_template(cell: Cell<'_>) -> Option<Arc<ChatTemplate>> {
    let written = text(cell.clone())?;
    let Some(path) = written.strip_prefix("file:") else { return cell.expected("\"file:PATH\"") };
    let resolved = cell.context.source.resolve(path, cell.span.start);
    cell.context.files.note(&resolved);
    match fs::read_to_string(&resolved).map(|text| ChatTemplate::parse(&text, path)) {
        Ok(Ok(template)) => Some(Arc::new(template)),
        Ok(Err(error)) => cell.wrong(format!("the chat template in {}, {error}", resolved.display())),
        Err(error) => cell.wrong(format!("cannot read {}: {error}", resolved.display())),
    }
}

/// The upstream named in `cell`. `None` also if that upstream's own entry contains mistakes.
fn declared(cell: Cell<'_>, upstreams: &[Declared<'_>]) -> Option<Arc<Upstream>> {
    let name = text(cell.clone())?;
    match upstreams.iter().find(|declared| declared.name.as_ref() == Some(&name)) {
        Some(declared) => declared.upstream.clone(),
        None => {
            let names: Vec<_> = upstreams.iter().filter_map(|declared| declared.name.as_deref()).collect();
            cell.wrong(format!("no upstream `{name}`; {}", suggest(&name, &names, None)))
        }
    }
}

fn taught_by(cell: Cell<'_>, known: &KnownFormats) -> Option<ToolStyle> {
    let mut choices = vec![("native", ToolStyle::Native)];
    let taught = known.all().filter(|format| format.teach.is_some());
    choices.extend(taught.map(|format| (format.name, ToolStyle::Format(format))));
    listed_choice(&choices, Some(LISTED_BY))(cell)
}
