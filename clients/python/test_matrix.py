"""Every scenario with every upstream dialect and every client: text, calls, reasoning, token counts, failures, disconnects."""

import pytest
from checks import check, check_disconnect, every_case
from gemini import Gemini
from interactions import Interactions
from messages import Messages
from ollama_client import Ollama
from responses import Responses, ResponsesHelper, ResponsesSocket
from sdk import CLIENTS
from stand import STAND

RESPONSES = {"responses": Responses(), "responses-helper": ResponsesHelper(), "responses-socket": ResponsesSocket()}
GOOGLE = {"google-genai": Gemini(), "interactions": Interactions()}
ALL = CLIENTS | GOOGLE | {"anthropic": Messages(), "ollama": Ollama()} | RESPONSES


@every_case(ALL)
def test_scenario(client, case, way):
    check(client, case, way)


@pytest.mark.parametrize("name", STAND["upstreams"])
@pytest.mark.parametrize("client", ALL)
def test_client_disconnect_cancels_the_upstream_request(client, name, upstream):
    check_disconnect(ALL[client], name, upstream)
