//! The proxies between toolwire and other servers, from the configuration or the environment.

use http::Uri;
use toml::Value;

use super::{
    keys::string,
    mask::masked,
    table::{Cell, Table},
    value::{Origin, referred},
};
pub use toolwire_net::proxied::HttpProxy;
use toolwire_net::proxied::Proxies;

/// Reads `proxy`. The inner `None` means that no proxy is used.
pub(super) fn read(cell: Cell<'_>) -> Option<Option<HttpProxy>> {
    let (written, origin) = referred(cell.clone())?;
    if written == "none" {
        return Some(None);
    }
    match HttpProxy::parse(&written) {
        Ok(proxy) => {
            if proxy.authorization.is_some() && origin == Origin::Here {
                cell.warn("a password in the file itself; `\"env:NAME\"` or `\"file:PATH\"` keeps it out");
            }
            Some(Some(proxy))
        }
        Err(wrong) => cell.wrong(wrong),
    }
}

/// The proxy that environment variables select for `base`. Warns if it cannot be used.
pub(super) fn of_environment(table: &mut Table<'_>, base: &Uri) -> Option<HttpProxy> {
    let cell = table.cell("base_url")?;
    HttpProxy::of_environment(base, cell.context.environment).unwrap_or_else(|(name, wrong)| {
        cell.warn(format!("the environment variable `{name}` is not used: {wrong}; `proxy` sets another"));
        None
    })
}

/// The proxies that environment variables select for any server. Warns at `cell` about unusable ones.
pub(super) fn of_any(cell: &Cell<'_>) -> Proxies {
    let proxies = Proxies::of_environment(cell.context.environment);
    for (name, wrong) in proxies.faults() {
        cell.warn(format!("the environment variable `{name}` is not used: {wrong}; `proxy` sets another"));
    }
    proxies
}

pub(super) fn shown(proxy: Option<&HttpProxy>) -> Value {
    string(
        &proxy.map_or_else(
            || "none".to_owned(),
            |proxy| proxy.shown(&masked(proxy.secret().unwrap_or_default())),
        ),
    )
}

#[cfg(test)]
mod tests {
    use crate::{Overrides, Problems, load};

    /// Returns the upstream's proxy for display, and the messages about it.
    fn shown(key: &str, variables: &[(&str, &str)]) -> (String, String) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = format!(
            "[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\nbase_url = \"https://up.example/v1\"\n{key}\n[[models]]\nname = \"*\"\n"
        );
        std::fs::write(file.path(), text).unwrap();
        let environment = |name: &str| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let overrides = Overrides { file: Some(file.path().to_owned()), ..Overrides::default() };
        let loaded = load(&overrides, &environment).unwrap();
        let secrets: Vec<_> = loaded.config.secrets().map(str::to_owned).collect();
        let shown = loaded.config.to_toml();
        let all = shown.to_string();
        assert!(secrets.iter().all(|secret| !all.contains(secret)) && !all.contains("sesame"), "{all}");
        let shown = shown["upstreams"][0]["proxy"].as_str().unwrap().to_owned();
        (shown, Problems(loaded.warnings).to_string())
    }

    #[test]
    fn configuration_comes_before_the_environment() {
        let variables =
            [("HTTPS_PROXY", "http://user:sesame@env.example:1"), ("MINE", "http://u:sesame@mine.example")];
        let covered = |host: &str| format!("http://********@{host}");
        for (key, proxy, is_warned) in [
            ("", covered("env.example:1"), false),
            ("proxy = \"none\"", "none".to_owned(), false),
            ("proxy = \"http://own.example:2\"", "http://own.example:2".to_owned(), false),
            ("proxy = \"env:MINE\"", covered("mine.example"), false),
            ("proxy = \"http://u:sesame@own.example:2\"", covered("own.example:2"), true),
        ] {
            let (shown, said) = shown(key, &variables);
            assert_eq!(shown, proxy);
            assert_eq!(said.contains("a password in the file itself"), is_warned, "{said}");
        }
        let (shown, said) = shown("", &[("ALL_PROXY", "socks5://u:sesame@p:1")]);
        assert_eq!(shown, "none");
        assert!(said.contains("`ALL_PROXY` is not used") && !said.contains("sesame@"), "{said}");
    }

    #[test]
    fn hosted_tools_have_one_proxy_or_those_of_the_environment() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let environment = |name: &str| match name {
            "https_proxy" => Some("http://u:sesame@env.example:1".to_owned()),
            "ALL_PROXY" => Some("socks5://p:1".to_owned()),
            _ => None,
        };
        let urls = ["https://a.example/", "http://a.example/"].map(http::Uri::from_static);
        for (key, expected, shown) in [
            ("", [Some("http://env.example:1"), None], None),
            ("proxy = \"none\"", [None, None], Some("none")),
            (
                "proxy = \"http://u:sesame@own.example:2\"",
                [Some("http://own.example:2"); 2],
                Some("http://********@own.example:2"),
            ),
        ] {
            let text = format!(
                "[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\nbase_url = \"http://127.0.0.1:1\"\n\
                 [[models]]\nname = \"*\"\n[execution]\n{key}\n"
            );
            std::fs::write(file.path(), text).unwrap();
            let overrides = Overrides { file: Some(file.path().to_owned()), ..Overrides::default() };
            let loaded = load(&overrides, &environment).unwrap();
            let settings = loaded.config.execution.clone().unwrap();
            let found =
                urls.each_ref().map(|url| settings.proxies.proxy_for(url).map(|found| found.to_string()));
            assert_eq!(found.each_ref().map(Option::as_deref), expected, "{key}");
            let is_secret = loaded.config.secrets().any(|secret| secret == "dTpzZXNhbWU=");
            assert_eq!(is_secret, expected[0].is_some(), "{key}");
            let table = loaded.config.to_toml();
            assert_eq!(table["execution"].get("proxy").and_then(toml::Value::as_str), shown, "{key}");
            let said = Problems(loaded.warnings).to_string();
            assert_eq!(said.contains("`ALL_PROXY` is not used"), key.is_empty(), "{said}");
        }
    }
}
