"""Complete agents: each gets the model's responses through toolwire, and runs its own tools until it has an answer."""

import secrets

import pytest
from programs import AGENTS
from stand import STAND

WRITTEN = STAND["agents"]["written"]

# opencode takes half a minute per run, so each of its APIs is tested with few upstreams. Other agents are tested with all.
FEW = {"chat": ["chat", "lumo-v1"], "messages": ["ollama"], "responses": ["chat"]}


def pairs():
    return [
        pytest.param(agent, upstream, id=f"{name}-{upstream}")
        for name, agent in AGENTS.items()
        for upstream in STAND["agents"]["upstreams"]
        if agent.shell != "opencode" or upstream in FEW[agent.api]
    ]


@pytest.fixture
def folders(tmp_path):
    """Creates a home folder, and a working folder with two files that have random contents."""
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    for name in "one", "two":
        (work / f"{name}.txt").write_text(f"{name}={secrets.token_hex(4)}\n")
    return home, work


@pytest.mark.parametrize(("agent", "upstream"), pairs())
def test_agent_finishes_a_loop_of_parallel_calls_and_long_arguments(agent, upstream, folders):
    home, work = folders
    status, output = agent.run(f"agent-{agent.shell}-{upstream}", home, work)
    assert status == 0, output[-2000:]
    assert (work / "out.txt").read_text() == WRITTEN, "the long command arrived as it was written"
    one, two = ((work / name).read_text().strip() for name in ("one.txt", "two.txt"))
    assert f"Done: {one}, {two}, wrote={len(WRITTEN.encode())}." in output, output[-2000:]


@pytest.mark.parametrize("name", [name for name, agent in AGENTS.items() if agent.shell in STAND["agents"]["with_fixture"]])
def test_agent_finishes_a_loop_with_toolwire_mock(name, folders):
    home, work = folders
    agent = AGENTS[name]
    status, output = agent.run(f"mock-{agent.shell}", home, work)
    assert status == 0, output[-2000:]
    assert "Both files are read." in output, output[-2000:]


@pytest.mark.parametrize("name", [name for name in AGENTS if not name.startswith("opencode")])
def test_agent_does_not_run_a_call_that_was_cut(name, folders):
    home, work = folders
    agent = AGENTS[name]
    agent.run(f"agent-cut-{agent.shell}-chat", home, work, timeout=20)
    assert not (work / "ran.txt").exists()
