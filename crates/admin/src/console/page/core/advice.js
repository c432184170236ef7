// What people can do about errors, by code. A test compares the codes with those in the program.

import { href } from "./route.js";

const settings = (id, label) => () => [href("settings", id), label];
const tools = (label) => () => [href("tools"), label];
const upstream = (facts) => facts.exchange && [href("live", facts.exchange), "See what was sent"];

// Codes, what happened (nothing if the message says it), what to do, and where to go for it.
const ROWS = [
  // Hosted calls.
  ["invalid_arguments", "The arguments do not fit the tool's schema.", "Compare them with the schema of the tool.", (facts) => [href("tools", facts.tool), "See the schema"]],
  ["unknown_tool", "There is no such tool.", "It may have been switched off, or its provider is not ready.", tools("See the tools")],
  ["permission_denied", "The call was not allowed.", "A person or a remembered rule denied it.", tools("Open the rules")],
  ["permission_timeout", "The call's permission question was not answered in time.", "Ask again, or remember an answer.", tools("Open the rules")],
  ["provider_error", "The provider failed.", "Test it, and read its log.", (facts) => [href("tools", "", { provider: facts.provider }), "See the providers"]],
  ["auth_failed", "The provider rejected its key.", "Give it another key.", (facts) => [href("settings", facts.provider && `providers.${facts.provider}`), "Open its key"]],
  ["blocked_url", "The address may not be opened.", "It is private, or not among the allowed domains.", settings("execution", "Open the settings")],
  ["content_policy", "The service refused the description.", "Try a different one."],
  ["unsupported_content", "The content is of a kind that cannot be read here.", "Use text, an image or a PDF."],
  ["too_large", "It is larger than the limit allows.", "Ask for less."],
  ["max_calls", "The response has as many calls as `max_calls` allows.", "The model was told to answer without more. A higher limit allows more.", settings("execution", "Open the limits")],
  ["max_rounds", "The response has as many rounds as `max_rounds` allows.", "The model was told to answer without more. A higher limit allows more.", settings("execution", "Open the limits")],
  ["max_uses", "The tool was called as often as `max_uses` allows.", "The model was told to answer without it.", settings("execution", "Open the limits")],
  ["loop", "The same call was made again and again.", "The model was told to answer without it. Ask in other words."],
  ["cancelled response_cancelled", "It was cancelled.", "Send it again if you still need it."],
  ["mcp_server_unavailable", "An MCP server that the request names is not available.", "See whether the server runs, and try again."],
  ["id_taken too_many_registrations", "", "Remove a registration of tools, or use another id.", tools("See the registrations")],
  // Limits.
  ["rate_limited rate_limit_exceeded", "Too many requests were sent.", "Wait a moment. If this happens often, raise the limit."],
  ["insufficient_quota", "The budget of this key is used up.", "Raise the budget of the key, or wait for the next month.", settings("keys", "Open the keys")],
  ["limit_exceeded", "A response exceeded one of toolwire's limits.", "Raise the limit that the message names.", settings("limits", "Open the limits")],
  ["request_too_large", "The request is too large.", "Send less, or raise `max_body`.", settings("limits", "Open the limits")],
  ["context_length_exceeded", "The chat is longer than the model can read.", "Begin a new one, or choose another model."],
  ["request_timeout", "The request took too long to arrive.", "Try again."],
  ["stalled", "The client read too slowly.", "See whether its connection is slow."],
  ["websocket_stream_limit_reached websocket_connection_limit_reached", "", "Wait until other responses have ended, or open another connection."],
  // Upstreams.
  ["timeout upstream_timeout", "It took longer than its timeout.", "Try again. If it happens often, allow more time.", (facts) => (facts.tool ? [href("settings", "execution"), "Open the timeouts"] : upstream(facts))],
  ["upstream_unreachable", "The upstream cannot be reached.", "See whether it runs, and whether its address is right.", settings("", "Open the settings")],
  ["upstream_protocol", "The upstream sent what is not its API.", "See whether its dialect is the right one.", upstream],
  ["upstream_truncated", "The upstream ended in the middle.", "Try again.", upstream],
  ["error upstream_error model_error", "The upstream answered with an error.", "Its own log may say more. See what was sent, or try again.", upstream],
  ["overloaded rejected", "The upstream is overloaded.", "Try again in a moment, or choose another model."],
  ["invalid_api_key", "The key was not accepted.", "If it is the upstream's, give the upstream another `api_key`.", settings("upstreams", "Open the upstreams")],
  ["forbidden", "The upstream does not allow this.", "See whether its key may use the model.", upstream],
  ["model_not_found", "There is no such model.", "Choose one of the list.", () => [href("play"), "Open the playground"]],
  ["upstream_not_found", "The upstream has no such model or address.", "See whether its `base_url` and the model's name are right.", settings("upstreams", "Open the upstreams")],
  ["content_filter", "The upstream's filter stopped the response.", "Ask in other words, or choose another model."],
  ["compaction_failed", "The chat could not be summed up.", "Try again, or begin a new chat."],
  ["chat_template", "The chat template could not be used.", "See whether the template is that of the model.", settings("models", "Open the models")],
  ["upstream_decrypt_failed", "The upstream's response cannot be decrypted.", "Try again. If it stays so, update toolwire."],
  ["upstream_app_version", "The upstream refuses this version.", "Update toolwire, or set `app_version`.", settings("upstreams", "Open the upstreams")],
  ["upstream_human_verification", "The upstream wants to see that you are a person.", "Sign in to its web page, then try again."],
  ["upstream_session_required upstream_logged_out upstream_refresh_failed", "The upstream needs a login.", "Log in again: `toolwire lumo login`."],
  // Requests.
  ["request invalid_request invalid_json invalid_type invalid_value missing_messages missing_required_parameter unsupported_parameter unsupported_value unsupported_media_type upgrade_required method method_not_allowed invalid_stream_id response_not_active thread_fingerprint_mismatch unprocessable", "", "Change what the message names, and send it again."],
  ["not_found previous_response_not_found item_not_found interaction_not_found thread_not_found", "", "It may have expired, or its name is wrong."],
  ["not_kept lost reset", "", "Only the newest are kept. Send the request again."],
  ["internal", "toolwire itself failed.", "Its log says more. Please report it."],
  ["shutting_down stopped", "toolwire is stopping.", "Try again when it has started."],
  ["store_unavailable", "The shared store cannot be reached.", "See whether it runs. toolwire connects again by itself."],
  ["unreachable", "toolwire does not answer.", "It may be restarting."],
  // The console itself.
  ["invalid_key", "The key is not valid.", "Use one of `api_keys` in `[admin]` of the configuration."],
  ["unauthorized", "You are not signed in.", "Sign in with an admin key."],
  ["csrf other_origin content_type", "The request does not come from this page.", "Load the page again."],
  ["not_local wrong_host", "Without admin keys, only this machine may use the console.", "Open it under localhost, or add `api_keys` or `hosts` to `[admin]`."],
  ["already_answered", "", "Nothing is left to do."],
  ["no_hosted_tools", "The configuration has no table [execution].", "Add it to run tools for models.", tools("What to add")],
  ["not_testable not_restartable", "", "Its calls and its log show whether it works.", tools("See the providers")],
  ["no_login not_logged_in login_failed", "", "Start the login again from the provider's page.", tools("See the providers")],
  ["not_taught", "", "Choose another format."],
  ["not_captured unanswered too_long", "", "Repeat the request, then try again.", settings("admin", "Open the settings")],
  ["running recording", "", "Wait until it has ended, or stop it."],
  ["no_bench", "", "Measure with `toolwire bench` instead."],
  ["bench_failed", "The measurement failed.", "See whether the upstream runs, and run it again."],
  ["no_state_dir", "", "Set `state_dir` in the configuration, and start toolwire again."],
  ["not_saved", "It could not be saved.", "See whether the disk is full, and whether toolwire may write to `state_dir`."],
  ["changed", "The settings were changed meanwhile.", "Look at them once more, and save again."],
  ["invalid_settings invalid_configuration", "", "Correct the values below, and try again."],
];

const BY_CODE = new Map(ROWS.flatMap(([codes, ...advice]) => codes.split(" ").map((code) => [code, advice])));

// Advice for an error: {what, todo, link?}, the link as [target, label].
export function advice({ code, message, retryable, status }, facts = {}) {
  const [what, todo, lead = null] = BY_CODE.get(code) ?? ["", retryable || status >= 500 || status === 429 ? "Try again in a moment." : "See what was sent, and change what the message names.", upstream];
  return { what: what || message || code, todo, link: lead?.(facts) || null };
}
