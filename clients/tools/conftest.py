"""Prints the suite's closing line."""


def pytest_terminal_summary(terminalreporter):
    count = lambda *outcomes: sum(len(terminalreporter.stats.get(outcome, [])) for outcome in outcomes)
    terminalreporter.write_line(f"tools: {count('passed')} passed, {count('failed', 'error')} failed")
