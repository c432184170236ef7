"""The page docs/judges.md, in which each judge's figures are between two comments."""

import re

import program

PAGE = program.ROOT / "docs/judges.md"


def section(name):
    return re.compile(rf"(<!-- {name} -->\n)(.*?)(<!-- /{name} -->)", re.DOTALL)


def says(name, figures):
    found = section(name).search(PAGE.read_text("utf-8"))
    return bool(found) and found[2].strip() == "\n".join(figures).strip()


def replace(name, figures):
    text, count = section(name).subn(lambda found: found[1] + "\n".join(figures) + "\n" + found[3], PAGE.read_text("utf-8"))
    if count != 1:
        raise SystemExit(f"docs/judges.md has no section {name}")
    PAGE.write_text(text, "utf-8")
