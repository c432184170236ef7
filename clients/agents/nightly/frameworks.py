"""Runs an agent of a framework, which has one tool, a shell: frameworks.py FRAMEWORK API (stream|whole) MODEL PROMPT.

KEY, ROOT_URL and URL in the environment say where toolwire is, and the variables of the SDKs of Ollama and Google, so that some
frameworks need neither. `FRAMEWORKS` lists the frameworks with the APIs that each speaks, and how
it can ask. Each is a function of the API, whether to stream, the model and the prompt, and returns the agent's answer.
"""

import asyncio
import os
import subprocess
import sys

BOTH, STREAM, WHOLE = ("stream", "whole"), ("stream",), ("whole",)
CHAT, CHAT_MESSAGES, CHAT_RESPONSES = ("chat",), ("chat", "messages"), ("chat", "responses")
OLLAMA_GEMINI = ("ollama", "gemini")
ALL = ("chat", "messages", "responses", *OLLAMA_GEMINI)

KEY, ROOT_URL, URL = (os.environ.get(name) for name in ("KEY", "ROOT_URL", "URL"))
OPENAI = {"base_url": URL, "api_key": KEY}
ANTHROPIC = {"base_url": ROOT_URL, "api_key": KEY}


def shell(command: str) -> str:
    """Runs a command, and returns its output.

    Args:
        command: The command.
    """
    return subprocess.run(["sh", "-c", command], capture_output=True, encoding="utf-8").stdout


async def agent_framework(api, stream, model, prompt):
    from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient

    client = OpenAIChatCompletionClient if api == "chat" else OpenAIChatClient
    agent = client(model=model, **OPENAI).as_agent(name="agent", tools=[shell])
    if stream:
        return "".join([update.text async for update in agent.run(prompt, stream=True)])
    return (await agent.run(prompt)).text


def agno(api, stream, model, prompt):
    from agno.agent import Agent
    from agno.models.anthropic import Claude
    from agno.models.google import Gemini
    from agno.models.ollama import Ollama
    from agno.models.openai import OpenAIChat, OpenAIResponses
    from anthropic import Anthropic

    if api == "messages":
        speaking = Claude(id=model, client=Anthropic(**ANTHROPIC))
    elif api in OLLAMA_GEMINI:
        speaking = Ollama(id=model, host=ROOT_URL) if api == "ollama" else Gemini(id=model)
    else:
        speaking = (OpenAIChat if api == "chat" else OpenAIResponses)(id=model, **OPENAI)
    agent = Agent(model=speaking, tools=[shell], telemetry=False)
    if stream:
        return "".join(getattr(event, "content", None) or "" for event in agent.run(prompt, stream=True))
    return agent.run(prompt).content


async def autogen(_api, stream, model, prompt):
    from autogen_agentchat.agents import AssistantAgent
    from autogen_ext.models.openai import OpenAIChatCompletionClient

    able = dict.fromkeys(["vision", "json_output", "structured_output"], False)
    client = OpenAIChatCompletionClient(model=model, model_info=able | {"function_calling": True, "family": "unknown"}, **OPENAI)
    agent = AssistantAgent("agent", client, tools=[shell], max_tool_iterations=8, model_client_stream=stream)
    return (await agent.run(task=prompt)).messages[-1].content


def crewai(_api, stream, model, prompt):
    from crewai import LLM, Agent
    from crewai.tools import tool

    speaking = LLM(model=f"openai/{model}", stream=stream, **OPENAI)
    agent = Agent(role="Reader", goal="Read files.", backstory="It reads.", llm=speaking, tools=[tool("shell")(shell)])
    return agent.kickoff(prompt).raw


def dspy(_api, _stream, model, prompt):
    import dspy

    class Speaking(dspy.LM):
        # It declares tools only for models that its tables know.
        supports_function_calling = True

    speaking = Speaking(f"openai/{model}", api_base=URL, api_key=KEY, cache=False)
    with dspy.context(lm=speaking, adapter=dspy.ChatAdapter(use_native_function_calling=True)):
        return dspy.ReActV2("question -> answer", tools=[shell])(question=prompt).answer


async def google_adk(api, stream, model, prompt):
    from google.adk.agents import LlmAgent
    from google.adk.agents.run_config import RunConfig, StreamingMode
    from google.adk.models.google_llm import Gemini
    from google.adk.models.lite_llm import LiteLlm
    from google.adk.runners import InMemoryRunner
    from google.genai.types import Content, Part

    if api == "gemini":
        speaking = Gemini(model=model)
    else:
        name, base_url = ("ollama_chat", ROOT_URL) if api == "ollama" else ("openai", URL)
        speaking = LiteLlm(f"{name}/{model}", api_base=base_url, api_key=KEY)
    runner = InMemoryRunner(LlmAgent(name="agent", model=speaking, tools=[shell]), app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id="user")
    settings = RunConfig(streaming_mode=StreamingMode.SSE if stream else StreamingMode.NONE)
    asked = Content(role="user", parts=[Part(text=prompt)])
    async for event in runner.run_async(user_id="user", session_id=session.id, new_message=asked, run_config=settings):
        last = event
    return "".join(part.text or "" for part in last.content.parts)


def haystack(api, stream, model, prompt):
    from haystack.components.agents import Agent
    from haystack.components.generators.chat import OpenAIChatGenerator, OpenAIResponsesChatGenerator
    from haystack.dataclasses import ChatMessage
    from haystack.tools import create_tool_from_function
    from haystack.utils import Secret
    from haystack_integrations.components.generators.ollama import OllamaChatGenerator

    if api == "ollama":
        speaking = OllamaChatGenerator(model=model, url=ROOT_URL)
    else:
        generator = OpenAIChatGenerator if api == "chat" else OpenAIResponsesChatGenerator
        speaking = generator(model=model, api_base_url=URL, api_key=Secret.from_token(KEY))
    agent = Agent(chat_generator=speaking, tools=[create_tool_from_function(shell)])
    callback = (lambda chunk: None) if stream else None
    return agent.run(messages=[ChatMessage.from_user(prompt)], streaming_callback=callback)["messages"][-1].text


async def home_assistant(api, _stream, model, prompt):
    from home_assistant import ask

    return await ask(api, ROOT_URL, KEY, model, prompt, shell)


def instructor(api, stream, model, prompt):
    """Extracts the arguments of a call, instead of running a loop."""
    import anthropic
    import instructor
    import openai
    from pydantic import BaseModel

    class get_weather(BaseModel):
        city: str
        days: int

    asked = {"model": model, "messages": [{"role": "user", "content": prompt}], "response_model": get_weather, "max_retries": 0}
    if api == "messages":
        client = instructor.from_anthropic(anthropic.Anthropic(**ANTHROPIC), mode=instructor.Mode.TOOLS)
        asked["max_tokens"] = 1000
    else:
        client = instructor.from_openai(openai.OpenAI(**OPENAI), mode=instructor.Mode.TOOLS)
    if stream:
        *_, last = client.chat.completions.create_partial(**asked)
    else:
        last = client.chat.completions.create(**asked)
    return last.model_dump_json()


def langchain(api, stream, model, prompt):
    from langchain.agents import create_agent
    from langchain_anthropic import ChatAnthropic
    from langchain_google_genai import ChatGoogleGenerativeAI
    from langchain_ollama import ChatOllama
    from langchain_openai import ChatOpenAI

    if api == "messages":
        speaking = ChatAnthropic(model=model, max_tokens=100_000, **ANTHROPIC)
    elif api in OLLAMA_GEMINI:
        speaking = (ChatOllama if api == "ollama" else ChatGoogleGenerativeAI)(model=model)
    else:
        speaking = ChatOpenAI(model=model, use_responses_api=api == "responses", **OPENAI)
    agent = create_agent(speaking, [shell])
    asked = {"messages": [("user", prompt)]}
    if stream:
        *_, values = (part for mode, part in agent.stream(asked, stream_mode=["messages", "values"]) if mode == "values")
    else:
        values = agent.invoke(asked)
    return values["messages"][-1].text


async def llama_index(api, stream, model, prompt):
    from llama_index.core.agent.workflow import FunctionAgent

    if api == "ollama":
        from llama_index.llms.ollama import Ollama

        speaking = Ollama(model=model, base_url=ROOT_URL)
    elif api == "gemini":
        from llama_index.llms.google_genai import GoogleGenAI

        speaking = GoogleGenAI(model=model)
    else:
        from llama_index.llms.openai_like import OpenAILike

        able = {"is_chat_model": True, "is_function_calling_model": True, "context_window": 1_000_000}
        speaking = OpenAILike(model=model, api_base=URL, api_key=KEY, **able)
    return str(await FunctionAgent(llm=speaking, tools=[shell], streaming=stream).run(prompt))


async def openai_agents(api, stream, model, prompt):
    import agents
    from openai import AsyncOpenAI

    agents.set_tracing_disabled(True)
    speaking = agents.OpenAIChatCompletionsModel if api == "chat" else agents.OpenAIResponsesModel
    client = speaking(model=model, openai_client=AsyncOpenAI(**OPENAI))
    agent = agents.Agent(name="agent", model=client, tools=[agents.function_tool(shell)])
    if not stream:
        return (await agents.Runner.run(agent, prompt)).final_output
    running = agents.Runner.run_streamed(agent, prompt)
    async for _ in running.stream_events():
        pass
    return running.final_output


async def pydantic_ai(api, stream, model, prompt):
    from pydantic_ai import Agent
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.anthropic import AnthropicProvider
    from pydantic_ai.providers.google import GoogleProvider
    from pydantic_ai.providers.openai import OpenAIProvider

    if api == "messages":
        speaking = AnthropicModel(model, provider=AnthropicProvider(**ANTHROPIC), settings={"max_tokens": 100_000})
    elif api == "gemini":
        speaking = GoogleModel(model, provider=GoogleProvider(api_key=KEY))
    else:
        speaking = (OpenAIChatModel if api == "chat" else OpenAIResponsesModel)(model, provider=OpenAIProvider(**OPENAI))
    agent = Agent(speaking, tools=[shell])
    if not stream:
        return (await agent.run(prompt)).output
    async with agent.run_stream_events(prompt) as events:
        async for event in events:
            last = event
    return last.result.output


async def semantic_kernel(_api, stream, model, prompt):
    from openai import AsyncOpenAI
    from semantic_kernel.agents import ChatCompletionAgent
    from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
    from semantic_kernel.functions import KernelPlugin, kernel_function

    service = OpenAIChatCompletion(ai_model_id=model, async_client=AsyncOpenAI(**OPENAI))
    plugin = KernelPlugin("tools", functions=[kernel_function(shell)])
    agent = ChatCompletionAgent(service=service, name="agent", plugins=[plugin])
    if stream:
        return "".join([str(part.message) async for part in agent.invoke_stream(messages=prompt)])
    return str((await agent.get_response(messages=prompt)).message)


def smolagents(_api, stream, model, prompt):
    from smolagents import OpenAIModel, ToolCallingAgent, tool

    speaking = OpenAIModel(model, api_base=URL, api_key=KEY)
    return ToolCallingAgent(tools=[tool(shell)], model=speaking, stream_outputs=stream, max_steps=8).run(prompt)


def strands(api, _stream, model, prompt):
    from strands import Agent, tool

    if api == "messages":
        from strands.models.anthropic import AnthropicModel

        speaking = AnthropicModel(client_args=ANTHROPIC, model_id=model, max_tokens=100_000)
    elif api == "ollama":
        from strands.models.ollama import OllamaModel

        speaking = OllamaModel(ROOT_URL, model_id=model)
    elif api == "gemini":
        from strands.models.gemini import GeminiModel

        speaking = GeminiModel(client_args={"api_key": KEY}, model_id=model)
    else:
        from strands.models.openai import OpenAIModel

        speaking = OpenAIModel(client_args=OPENAI, model_id=model)
    return str(Agent(model=speaking, tools=[tool(shell)], callback_handler=None)(prompt))


FRAMEWORKS = {
    "frameworks": {
        agent_framework: (CHAT_RESPONSES, BOTH),
        agno: (ALL, BOTH),
        autogen: (CHAT, BOTH),
        dspy: (CHAT, WHOLE),
        google_adk: ((*CHAT, *OLLAMA_GEMINI), BOTH),
        # Its client of Gemini merges parallel calls that are streamed in several parts.
        haystack: ((*CHAT_RESPONSES, "ollama"), BOTH),
        langchain: (ALL, BOTH),
        llama_index: (OLLAMA_GEMINI, BOTH),
        openai_agents: (CHAT_RESPONSES, BOTH),
        pydantic_ai: (("chat", "messages", "responses", "gemini"), BOTH),
        semantic_kernel: (CHAT, BOTH),
        smolagents: (CHAT, BOTH),
        strands: (OLLAMA_GEMINI, STREAM),
    },
    # Over OpenAI's APIs they need version 2 of openai.
    "frameworks-older": {
        crewai: (CHAT, BOTH),
        llama_index: (CHAT, BOTH),
        strands: (CHAT_MESSAGES, STREAM),
    },
    "home-assistant": {home_assistant: (OLLAMA_GEMINI, STREAM)},
}

if __name__ == "__main__":
    name, api, way, *asked = sys.argv[1:]
    answer = globals()[name](api, way == "stream", *asked)
    print(asyncio.run(answer) if asyncio.iscoroutine(answer) else answer)
