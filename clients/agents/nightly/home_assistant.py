"""Home Assistant's integrations of Ollama and Google: their own setup, conversion of messages and tools, and reader of streams.

The newest version needs Python 3.14. Its modules `REAL` run on 3.11 too, but for type aliases and lists of exceptions, which are
rewritten while they are loaded. Everything else of Home Assistant is replaced by stand-ins without behaviour.
"""

import __future__

import asyncio
import importlib.machinery
import importlib.util
import inspect
import re
import sys
import types
import typing
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import AsyncMock, MagicMock

CORE = "homeassistant"
INTEGRATIONS = {"ollama": f"{CORE}.components.ollama", "gemini": f"{CORE}.components.google_generative_ai_conversation"}
CONVERSATION = f"{CORE}.components.conversation"
REAL = [f"{CONVERSATION}.{name}" for name in ("chat_log", "const", "models", "trace")]
REAL += [f"{CORE}.{name}" for name in ("const", "exceptions", "generated.entity_platforms", "helpers.llm", "helpers.json", "util.json")]
REAL += [f"{name}.{part}" for name in INTEGRATIONS.values() for part in ("const", "entity", "helpers", "models")]
REAL += INTEGRATIONS.values()


class StandIns(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return stand_in(name)


def stand_in(name):
    """A class that serves as a base, a function, a value, a decorator, and what makes a decorator."""
    is_function = lambda given: len(given) == 1 and inspect.isfunction(given[0])
    members = {
        "__new__": lambda cls, *given, **_: given[0] if is_function(given) else object.__new__(cls),
        "__init__": lambda self, *_, **__: None,
        "__call__": lambda self, *given, **_: given[0] if given else self,
        "__class_getitem__": classmethod(lambda cls, _: cls),
    }
    return StandIns(name, (), members)


class Module(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self.__name__}.{name}"
        setattr(self, name, importlib.import_module(full) if full in REAL else stand_in(name))
        return vars(self)[name]


class Rewriting(importlib.machinery.SourceFileLoader):
    # Not from bytecode that was compiled without the rewriting.
    def get_code(self, _name):
        text = re.sub(r"^type (\w+) = ", r"\1 = None and ", self.get_data(self.path).decode(), flags=re.MULTILINE)
        text = re.sub(r"\bexcept (\w+, .+):", r"except (\1):", text)
        # Newer versions of Python evaluate annotations only if they are read.
        return compile(text, self.path, "exec", flags=__future__.annotations.compiler_flag, dont_inherit=True)


class Finder:
    """Finds the modules of Home Assistant, and of probatio, its library for schemas, which needs Python 3.12."""

    installed = Path(importlib.machinery.PathFinder.find_spec(CORE).origin).parent.parent

    @classmethod
    def find_spec(cls, name, _path=None, _target=None):
        if name.partition(".")[0] not in (CORE, "probatio"):
            return None
        if name not in REAL:
            return importlib.machinery.ModuleSpec(name, cls, is_package=True)
        place = cls.installed.joinpath(*name.split("."))
        is_package = place.is_dir()
        file = place / "__init__.py" if is_package else place.with_suffix(".py")
        found = [str(place)] if is_package else None
        loader = Rewriting(name, str(file))
        return importlib.util.spec_from_file_location(name, file, loader=loader, submodule_search_locations=found)

    @staticmethod
    def create_module(spec):
        return Module(spec.name)

    @staticmethod
    def exec_module(_module):
        pass


def load():
    """Makes Home Assistant's modules importable."""
    sys.meta_path.insert(0, Finder)
    if not hasattr(typing, "override"):
        typing.override = lambda function: function
    import probatio

    # Schemas are JSON Schema here.
    probatio.Schema = type("Schema", (dict,), {"schema": property(lambda self: self)})
    probatio.to_openapi = lambda schema, **_: schema
    probatio.Invalid = type("Invalid", (Exception,), {})
    conversation = importlib.import_module(CONVERSATION)
    for part in "chat_log", "models", "trace":
        vars(conversation).update(vars(importlib.import_module(f"{CONVERSATION}.{part}")))
    return conversation


class Hass:
    """What the integrations use of Home Assistant's core."""

    def __init__(self):
        self.data = {}
        self.config_entries = SimpleNamespace(async_forward_entry_setups=AsyncMock())

    async def async_add_executor_job(self, function, *given):
        return await asyncio.to_thread(function, *given)

    def async_create_task(self, running, name=None):
        return asyncio.create_task(running, name=name)


async def ask(api, url, key, model, prompt, shell):
    """Sets the integration up and asks twice, so that its own history is sent, with `image.png` if there is one. Returns the answer."""
    conversation = load()
    integration = importlib.import_module(INTEGRATIONS[api])
    entities = importlib.import_module(f"{INTEGRATIONS[api]}.entity")
    from homeassistant.helpers import llm

    class Shell(llm.Tool):
        name, description, integration = "shell", "Runs a command, and returns its output.", "test"
        command = {"type": "string", "description": "The command."}
        parameters = llm.probatio.Schema(type="object", properties={"command": command}, required=["command"])

        async def async_call(self, _hass, given, _context):
            return llm.ToolResult({"output": await asyncio.to_thread(shell, **given.tool_args)})

    hass = Hass()
    # The setup asks for this model, whatever models are used.
    integration.RECOMMENDED_CHAT_MODEL = model
    entry = MagicMock(data={"url": url, "api_key": key}, options={})
    await integration.async_setup_entry(hass, entry)
    base = entities.OllamaBaseLLMEntity if api == "ollama" else entities.GoogleGenerativeAILLMBaseEntity
    entity = base(entry, SimpleNamespace(subentry_id="sub", title="agent", data={"model": model, "chat_model": model}))
    entity.hass, entity.entity_id = hass, "conversation.agent"
    tools = llm.APIInstance(SimpleNamespace(hass=hass), "", None, [Shell()])
    log = conversation.ChatLog(hass, "conversation", [conversation.SystemContent("You have a shell.")], llm_api=tools)
    image = Path("image.png")
    attachments = [conversation.Attachment("image", "image/png", image)] if image.exists() else None
    for text in prompt, "Once more.":
        log.async_add_user_content(conversation.UserContent(text, attachments))
        await entity._async_handle_chat_log(log)
    return log.content[-1].content
