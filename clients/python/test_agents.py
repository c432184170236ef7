"""Agent frameworks, which run tools themselves. Each must complete a tool loop without errors, streaming and not."""

import asyncio

import agents
import pytest
from langchain_core.messages import AIMessage
from langgraph.prebuilt import create_react_agent
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from sdk import SETTINGS, STAND, model

agents.set_tracing_disabled(True)

QUESTION = "What is the weather in Paris?"
RESULT = "18 °C"
ANSWER = "It is 18 °C."

# Native tools, tools taught in the prompt, Lumo's tool channel, and an upstream that also runs its own tools.
MODELS = ["loop-native", "loop-hermes", "loop-bare", "loop-lumo", "loop-lumo-pre", "searches"]


def get_weather(city: str) -> str:
    """Current weather of a city."""
    assert city == "Paris"
    return RESULT


async def openai_agents(name, stream, speaking=agents.OpenAIChatCompletionsModel, store=None, **options):
    """The OpenAI Agents SDK, which rejects calls to unknown tools."""
    calls = []

    def counted(city: str) -> str:
        calls.append(city)
        return get_weather(city)

    tool = agents.function_tool(counted, name_override="get_weather", description_override=get_weather.__doc__)
    chat = speaking(model=name, openai_client=AsyncOpenAI(**SETTINGS))
    settings = agents.ModelSettings(store=store)
    agent = agents.Agent(name="weather", instructions="Use tools.", model=chat, tools=[tool], model_settings=settings)
    if stream:
        run = agents.Runner.run_streamed(agent, QUESTION, max_turns=4, **options)
        async for _ in run.stream_events():
            pass
    else:
        run = await agents.Runner.run(agent, QUESTION, max_turns=4, **options)
    await chat.close()
    return run.final_output, len(calls)


async def openai_agents_responses(name, stream):
    """The same with OpenAI Responses."""
    return await openai_agents(name, stream, agents.OpenAIResponsesModel)


async def openai_agents_websocket(name, stream):
    """The same over a WebSocket, on which responses that are not stored are continued."""
    return await openai_agents(name, stream, agents.OpenAIResponsesWSModel, store=False, auto_previous_response_id=True)


async def langgraph(name, stream):
    """LangGraph's prebuilt agent."""
    agent = create_react_agent(model({"model": name}), [get_weather], prompt="Use tools.")
    question = {"messages": [("user", QUESTION)]}
    if stream:
        messages = []
        # Use the synchronous API: LangChain reuses connections across event loops, and each test has its own loop.
        for step in agent.stream(question, stream_mode="updates"):
            messages += [message for update in step.values() for message in update["messages"]]
    else:
        messages = agent.invoke(question)["messages"]
    calls = [call for message in messages if isinstance(message, AIMessage) for call in message.tool_calls]
    return messages[-1].text, len(calls)


async def pydantic_ai(name, stream, speaking=OpenAIChatModel):
    """Pydantic AI, which asks the model again after a call to an unknown tool."""
    calls = []

    def counted(city: str) -> str:
        calls.append(city)
        return get_weather(city)

    chat = speaking(name, provider=OpenAIProvider(openai_client=AsyncOpenAI(**SETTINGS)))
    agent = Agent(chat, instructions="Use tools.")
    agent.tool_plain(counted, name="get_weather", retries=0)
    if stream:
        async with agent.run_stream(QUESTION) as run:
            return await run.get_output(), len(calls)
    return (await agent.run(QUESTION)).output, len(calls)


async def pydantic_ai_responses(name, stream):
    """The same with OpenAI Responses."""
    return await pydantic_ai(name, stream, OpenAIResponsesModel)


AGENTS = [openai_agents, openai_agents_responses, openai_agents_websocket, langgraph, pydantic_ai, pydantic_ai_responses]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("agent", AGENTS)
def test_tool_loop_completes_without_errors(agent, name, stream):
    assert asyncio.run(agent(name, stream)) == (ANSWER, 1)


def test_every_model_is_listed_and_served():
    assert set(MODELS) - {"searches"} <= set(STAND["loops"])
