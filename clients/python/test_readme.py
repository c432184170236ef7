"""The first example of README.md, run as it is written, with the stand's address, key and a model of it."""

import re
from pathlib import Path

from sdk import SETTINGS

README = Path(__file__).parent.parent.parent / "README.md"


def test_example_prints_the_arguments_of_the_call(capsys):
    example = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[1]
    settings = {'"http://127.0.0.1:8787/v1"': repr(SETTINGS["base_url"]), '"none"': repr(SETTINGS["api_key"]), '"gemma3:4b"': '"bounce"'}
    for written, own in settings.items():
        assert written in example
        example = example.replace(written, own)
    exec(compile(example, README.name, "exec"), {})
    assert capsys.readouterr().out.replace(" ", "") == '{"city":"Paris"}'
