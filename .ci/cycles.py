"""Finds modules that depend on each other: fails if more than three modules of one folder form a cycle.

The compiler rejects cycles between crates, but not between the modules of a crate. Paths are read from the source text and
followed through re-exports. Tests and macros are ignored.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_CYCLE = 3
USE = re.compile(r"\b(?P<public>pub(?:\([^)]*\))? )?use (?P<path>[^;]+);")
TEST_MODULE = re.compile(r"#\[cfg\((?:all\()?test[^\]]*\]\s*(?:pub(?:\([^)]*\))? )?mod \w+ \{")


def code(text):
    """Removes comments and test modules from source text."""
    text = re.sub(r"//[^\n]*", "", text)
    while found := TEST_MODULE.search(text):
        end, depth = found.end(), 1
        while depth and end < len(text):
            depth += (text[end] == "{") - (text[end] == "}")
            end += 1
        text = text[: found.start()] + text[end:]
    return text


def expanded(path):
    """Splits `a::{b, c::{d}}` into the paths `a::b` and `a::c::d`."""
    prefix, brace, rest = path.strip().partition("{")
    if not brace:
        return [re.sub(r"\s+as\s+\w+$", "", prefix).strip()]
    parts, depth = [""], 0
    for char in rest.rpartition("}")[0]:
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [prefix + path for part in parts if part.strip() for path in expanded(part)]


def sources(folder):
    """Maps each module's path, a tuple, to its code."""
    modules = {}
    for file in folder.rglob("*.rs"):
        path = file.relative_to(folder).with_suffix("").parts
        if "tests" not in path:
            modules[path[:-1] if path[-1] in ("mod", "lib", "main") else path] = code(file.read_text())
    return modules


def edges(modules):
    """Maps each module to the modules that it refers to."""
    known = {path[:length] for path in modules for length in range(len(path) + 1)}

    def absolute(module, parts):
        """Resolves a path to one from the crate's root, or to `None` if it leads into another crate."""
        base = module
        if parts[0] == "crate":
            base, parts = (), parts[1:]
        elif parts[0] == "self":
            parts = parts[1:]
        elif parts[0] != "super" and module + parts[:1] not in known:
            return None
        while parts[:1] == ("super",):
            base, parts = base[:-1], parts[1:]
        return base + parts

    def prefix(path, candidates):
        return next((path[:end] for end in range(len(path), -1, -1) if path[:end] in candidates), None)

    exported, used = {}, defaultdict(set)
    for module, text in modules.items():
        for use in USE.finditer(text):
            for path in expanded(use["path"]):
                used[module].add(parts := tuple(path.split("::")))
                if use["public"] and (target := absolute(module, parts)):
                    exported[(*module, parts[-1])] = target
        body = USE.sub("", text)
        used[module] |= {tuple(path.split("::")) for path in re.findall(r"(?<![\w:])[a-z]\w*(?:::\w+)+", body)}

    found = defaultdict(set)
    for module, paths in used.items():
        for parts in paths:
            path = absolute(module, parts)
            for _ in range(len(known)):
                if path is None or not (name := prefix(path, exported)) or exported[name] == name:
                    break
                path = exported[name] + path[len(name) :]
            if path is not None:
                found[module].add(prefix(path, known))
    return found


def largest_cycle(graph):
    """The largest set of nodes that can all reach each other."""

    def reachable(start):
        seen, open_nodes = set(), [start]
        while open_nodes:
            new = graph.get(open_nodes.pop(), set()) - seen
            seen |= new
            open_nodes += new
        return seen

    reached = {node: reachable(node) for node in graph}
    return max(({other for other in seen if node in reached.get(other, ())} for node, seen in reached.items()), key=len, default=set())


def cycles():
    """The largest cycle in each folder, in descending order of size."""
    for source in [ROOT / "src", *sorted(ROOT.glob("crates/*/src"))]:
        modules = sources(source)
        graph = edges(modules)
        for folder in {path[:length] for path in modules for length in range(len(path))}:
            depth = len(folder) + 1
            siblings = defaultdict(set)
            for module, targets in graph.items():
                if module[: depth - 1] == folder and len(module) >= depth:
                    inside = {path[:depth] for path in targets if path[: depth - 1] == folder and len(path) >= depth}
                    siblings[module[:depth]] |= inside - {module[:depth]}
            if cycle := largest_cycle(siblings):
                yield source.joinpath(*folder).relative_to(ROOT), sorted(path[-1] for path in cycle)


large = [(folder, cycle) for folder, cycle in cycles() if len(cycle) > MAX_CYCLE]
for folder, cycle in large:
    print(f"{folder}: these modules depend on each other: {', '.join(cycle)}", file=sys.stderr)
sys.exit(bool(large))
