//! [`Options`]: the settings for an upstream of this dialect.

use crate::{Signing, settings::Settings};

/// How to write requests to an upstream.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
pub struct Options {
    /// how `reasoning_effort` is sent: `"thinking"` as a budget for Claude, `"reasoning_config"` for Nova,
    /// `"reasoning_effort"` for models of OpenAI, `"output_config"`, or `"drop"`. `"auto"` goes by the model's
    /// name
    #[setting(word)]
    pub effort: Effort,
    /// send cache points where clients want their prompts cached; `"auto"` to models whose names say that they
    /// accept them (Claude, Nova)
    #[setting(word)]
    pub cache_points: CachePoints,
    /// sign requests (Signature Version 4) with the credentials in `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and
    /// `AWS_SESSION_TOKEN`, instead of sending `api_key`
    #[setting(file_only)]
    pub sign: bool,
    /// the region for which requests are signed
    #[setting(or = "by the host, else `AWS_REGION`")]
    pub region: Option<String>,
    /// How requests are signed, if `sign` is set.
    #[setting(skip)]
    pub signing: Option<Signing>,
}

/// How to send `reasoning_effort`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Effort {
    /// As the model, judging by its name, expects it.
    #[default]
    Auto,
    /// As a budget in `thinking`, a field of Claude.
    Thinking,
    /// As `reasoningConfig`, a field of Nova.
    ReasoningConfig,
    /// As `reasoning_effort`, a field of OpenAI's models.
    ReasoningEffort,
    /// As `outputConfig.effort`.
    OutputConfig,
    /// Not at all.
    Drop,
}

/// When to send cache points.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum CachePoints {
    /// To models that accept them, judging by their names.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}
