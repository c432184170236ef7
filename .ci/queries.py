"""Checks the syntax of the queries in the dashboard and the alerts. crates/gateway/src/observe/metrics/dashboard.rs tests that their
metrics exist."""

import json
import re
import sys
from pathlib import Path

import promql_parser
import yaml

GRAFANA = Path(__file__).resolve().parent.parent / "deploy/grafana"


def queries():
    """Yields each query with the name of its panel or alert."""
    dashboard = json.loads((GRAFANA / "toolwire.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for note in dashboard["annotations"]["list"]:
        yield note["name"], note["expr"]
    for group in yaml.safe_load((GRAFANA / "alerts.yaml").read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


def filled(query):
    """Replaces Grafana's variables: built-in ones (`$__…`) with a duration, all others with a name."""
    return re.sub(r"\$\w+", "value", re.sub(r"\$__\w+", "5m", query))


wrong = 0
for name, query in queries():
    try:
        promql_parser.parse(filled(query))
    except ValueError as error:
        print(f"queries: {name}: {query}: {error}", file=sys.stderr)
        wrong += 1
sys.exit(wrong > 0)
