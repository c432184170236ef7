//! Paths of the admin API and of the console.

/// Prefix of all paths of the admin API.
pub(crate) const ADMIN: &str = "/admin/";

/// The path of the console's page without its slash: the redirect from it is relative, so that it holds behind any prefix.
pub(crate) const CONSOLE_BARE: &str = "/console";

/// Prefix of all paths of the console.
pub(crate) const CONSOLE: &str = "/console/";

/// Prefix of the console's own API, which is not a part of the page.
pub(crate) const CONSOLE_API: &str = "/console/api/";
