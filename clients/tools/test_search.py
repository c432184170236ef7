"""A web search, reading a page, and the response, as seen by the SDKs of three APIs. A test double replaces Serper."""

import json

import pytest
from harness import Handler, Upstream, results, serving, toolwire
from sdks import COMPLETE, SDKS

KEY = "serper-secret-key"
PAGE = "https://weather.example/lyon"


class Serper(Handler):
    """A double of Serper. Every search finds one page, and every page has the same text."""

    def do_POST(self):
        asked = self.read()
        status, answer = 200, {"text": "Rain until noon.", "metadata": {"title": "Lyon"}, "credits": 2}
        if self.headers["X-API-KEY"] != KEY:
            status, answer = 403, {"message": "Unauthorized.", "statusCode": 403}
        elif self.path == "/search":
            page = {"title": "Forecast", "link": PAGE, "snippet": "Rain", "position": 1}
            answer = {"searchParameters": asked, "organic": [page], "credits": 1}
        self.reply(status, "application/json", json.dumps(answer).encode())


def researcher(request):
    """Searches, reads the first page found, and responds with its text."""
    match [json.loads(result) for result in results(request)]:
        case []:
            return "Let me look.", [("web_search", {"query": "rain in Lyon"})], "tool_calls"
        case [found]:
            return "", [("scrape", {"url": found["results"][0]["url"]})], "tool_calls"
        case [_, page]:
            return f"The forecast says: {page['content']}", [], "stop"


def tables(serper, visibility):
    base = f"http://127.0.0.1:{serper.server_port}"
    return f"""
[execution]
visibility = "{visibility}"
[[providers]]
name = "serper"
kind = "serper"
api_key = "{KEY}"
base_url = "{base}"
scrape_url = "{base}/scrape"
"""


# The types of the items or blocks for a search and for reading a page.
SHOWN = {
    "chat": ["tool_results", "tool_results"],
    "responses": ["web_search_call", "mcp_call"],
    "messages": ["server_tool_use", "web_search_tool_result", "mcp_tool_use", "mcp_tool_result"],
}


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("visibility", ["off", "reasoning", "items"])
@pytest.mark.parametrize("sdk", SDKS)
def test_search_scrape_answer(tmp_path, sdk, visibility, stream):
    with serving(Serper) as serper, serving(Upstream, script=researcher) as upstream:
        with toolwire(tmp_path, upstream, tables(serper, visibility)) as gateway:
            client = SDKS[sdk](gateway.url)
            history = client.question("Does it rain in Lyon?")
            answer = client.ask(history, stream)
            assert answer.text.startswith("Let me look.") and answer.text.endswith("The forecast says: Rain until noon.")
            assert answer.finish == COMPLETE[sdk]
            assert answer.calls == [], "hosted calls are not for the client"
            assert answer.tokens == 3 * 13, "of all requests to the model"
            assert [path for path, _ in serper.requests] == ["/search", "/scrape"]
            assert [kind for kind, *_ in answer.hosted] == (SHOWN[sdk] if visibility == "items" else [])
            if visibility == "items":
                check_items(sdk, answer.hosted)
            # The response that the SDK has assembled must be valid as history.
            history += answer.own + client.question("And tomorrow?")
            again = client.ask(history, stream)
            assert again.text.endswith("Rain until noon.") and again.finish == COMPLETE[sdk]
            assert KEY not in json.dumps(upstream.requests)


def check_items(sdk, hosted):
    if sdk == "chat":
        search, page = (item for *_, item in hosted)
        assert PAGE in json.dumps(search) and "Rain until noon." in json.dumps(page)
    elif sdk == "responses":
        (_, _, search), (_, name, page) = hosted
        assert (search.status, search.action.query) == ("completed", "rain in Lyon")
        assert (name, json.loads(page.arguments)) == ("scrape", {"url": PAGE})
        assert page.status == "completed" and "Rain until noon." in page.output
    else:
        (_, _, search), (_, _, found), (_, name, page), (_, _, text) = hosted
        assert (search.name, search.input) == ("web_search", {"query": "rain in Lyon"})
        assert (found.tool_use_id, found.content[0].url) == (search.id, PAGE)
        assert (name, page.input) == ("scrape", {"url": PAGE})
        assert "Rain until noon." in text.model_dump_json()


def test_refused_key_is_a_result_for_the_model(tmp_path):
    def told(request):
        found = results(request)
        return (found[0], [], "stop") if found else ("", [("web_search", {"query": "x"})], "tool_calls")

    with serving(Serper) as serper, serving(Upstream, script=told) as upstream:
        wrong = tables(serper, "off").replace(KEY, "another-key")
        with toolwire(tmp_path, upstream, wrong) as gateway:
            client = SDKS["chat"](gateway.url)
            told = json.loads(client.ask(client.question("?"), True).text)
            assert (told["ok"], told["error"]["code"]) == (False, "auth_failed")
            assert "another-key" not in json.dumps(told)
