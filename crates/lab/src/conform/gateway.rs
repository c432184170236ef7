//! Configures a gateway for the cases: which upstream to call for which model.

use std::net::SocketAddr;

use super::case::Case;
use crate::upstream::Api;
use toolwire_pipeline::format::Format;

/// The models that requests name.
#[derive(Debug, Clone, Default)]
pub struct Models {
    /// The model for every case.
    pub all: Option<String>,
    /// The model for the cases of one dialect, by preference.
    pub by_api: Vec<(Api, String)>,
}

impl Models {
    /// The model for `case`.
    pub fn of(&self, case: &Case) -> String {
        let by_api = self.by_api.iter().find(|(api, _)| *api == case.api).map(|(_, name)| name);
        by_api.or(self.all.as_ref()).cloned().unwrap_or_else(|| model(case.api, case.format))
    }
}

/// Returns the name of a model: the dialect of its upstream, and the format in which it writes calls.
fn model(api: Api, format: Option<&Format>) -> String {
    match format {
        Some(format) => format!("conform-{api}-{}", format.name),
        None => format!("conform-{api}"),
    }
}

/// The base URL of the upstreams of a dialect.
pub fn base_url(mock: SocketAddr, api: Api) -> String {
    format!("http://{mock}{}", api.base())
}

/// Returns a configuration of toolwire for these cases.
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
            file += &entry(model(api, Some(format)), format!("detect = [\"{}\"]\n", format.name));
        }
    }
    file
}
