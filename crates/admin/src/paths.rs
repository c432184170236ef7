//! Paths of the admin API and of the console.

pub(crate) const ADMIN: &str = "/admin/";

/// Path of the console's page without the final slash. It redirects with a relative URL, so that it works behind any
/// path prefix.
pub(crate) const CONSOLE_BARE: &str = "/console";

pub(crate) const CONSOLE: &str = "/console/";

/// Prefix of the console's own API.
pub(crate) const CONSOLE_API: &str = "/console/api/";
