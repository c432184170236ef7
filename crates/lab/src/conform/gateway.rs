//! Configures a gateway for the cases: which model uses which upstream.

use std::net::SocketAddr;

use super::case::Case;
use crate::upstream::Api;
use toolwire_pipeline::format::Format;

/// The models that requests name.
#[derive(Debug, Clone, Default)]
pub struct Models {
    /// The model for all other cases.
    pub all: Option<String>,
    /// The model for the cases of a dialect.
    pub by_api: Vec<(Api, String)>,
}

impl Models {
    /// The model for `case`.
    pub fn of(&self, case: &Case) -> String {
        let by_api = self.by_api.iter().find(|(api, _)| *api == case.api).map(|(_, name)| name);
        by_api.or(self.all.as_ref()).cloned().unwrap_or_else(|| model(case.api, case.format))
    }
}

/// Returns the name of a model, which consists of its upstream's dialect and its format for calls.
fn model(api: Api, format: Option<&Format>) -> String {
    match format {
        Some(format) => format!("conform-{api}-{}", format.name),
        None => format!("conform-{api}"),
    }
}

/// Returns the base URL of the mock for a dialect.
pub fn base_url(mock: SocketAddr, api: Api) -> String {
    format!("http://{mock}{}", api.base())
}

/// Returns a toolwire configuration with a model for each dialect and format.
pub fn configuration(mock: SocketAddr, apis: &[Api], formats: &[&'static Format]) -> String {
    let mut file = "listen = [\"127.0.0.1:0\"]\n".to_owned();
    for &api in apis {
        file += &format!(
            "\n[[upstreams]]\nname = \"{api}\"\ndialect = \"{api}\"\nbase_url = \"{}\"\napi_key = \"none\"\n",
            base_url(mock, api)
        );
    }
    for &api in apis {
        let entry = |name: String, rest: String| {
            format!("\n[[models]]\nname = \"{name}\"\nupstream = \"{api}\"\n{rest}")
        };
        file += &entry(model(api, None), String::new());
        for &format in formats {
            // The format's name may be that of a family of models that begin with reasoning.
            let rest = format!("detect = [\"{}\"]\nstarts_in_reasoning = false\n", format.name);
            file += &entry(model(api, Some(format)), rest);
        }
    }
    file
}
