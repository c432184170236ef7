//! Paths of the admin API and of the console.

/// Prefix of all paths of the admin API.
pub(crate) const ADMIN: &str = "/admin/";

/// Path of the console's page without the final slash. The redirect from it is relative, so that it works behind any
/// prefix.
pub(crate) const CONSOLE_BARE: &str = "/console";

/// Prefix of all paths of the console.
pub(crate) const CONSOLE: &str = "/console/";

/// Prefix of the console's own API, which is not part of the page.
pub(crate) const CONSOLE_API: &str = "/console/api/";
