"""Complete agents: each gets the model's responses through toolwire, and runs its own tools until it has an answer."""

import pytest
from programs import AGENTS
from stand import STAND

WRITTEN = STAND["agents"]["written"]

# The agents that are tested with everything.
QUICK = [name for name, agent in AGENTS.items() if not agent.upstreams]


def pairs():
    return [
        pytest.param(agent, upstream, id=f"{name}-{upstream}")
        for name, agent in AGENTS.items()
        for upstream in agent.upstreams or STAND["agents"]["upstreams"]
    ]


@pytest.mark.parametrize(("agent", "upstream"), pairs())
def test_agent_finishes_a_loop_of_parallel_calls_and_long_arguments(agent, upstream, folders):
    home, work = folders
    status, output = agent.run(f"agent-{agent.shell}-{upstream}", home, work)
    assert status == 0, output[-2000:]
    assert (work / "out.txt").read_text() == WRITTEN, "the long command arrived as it was written"
    one, two = ((work / name).read_text().strip() for name in ("one.txt", "two.txt"))
    assert f"Done: {one}, {two}, wrote={len(WRITTEN.encode())}." in output, output[-2000:]


@pytest.mark.parametrize("name", [name for name in QUICK if AGENTS[name].shell in STAND["agents"]["with_fixture"]])
def test_agent_finishes_a_loop_with_toolwire_mock(name, folders):
    home, work = folders
    agent = AGENTS[name]
    status, output = agent.run(f"mock-{agent.shell}", home, work)
    assert status == 0, output[-2000:]
    assert "Both files are read." in output, output[-2000:]


@pytest.mark.parametrize("name", QUICK)
def test_agent_does_not_run_a_call_that_was_cut(name, folders):
    home, work = folders
    agent = AGENTS[name]
    agent.run(f"agent-cut-{agent.shell}-chat", home, work, timeout=20)
    assert not (work / "ran.txt").exists()
