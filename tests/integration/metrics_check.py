#!/usr/bin/python3
"""Reads a page of /metrics on stdin with the parser of prometheus_client, and judges it.

metrics_check.py DASHBOARD NAME...: the page must parse, keep Prometheus' rules for names, types and histograms, have
every family that DASHBOARD (Grafana's JSON) asks for, with the labels it sums by, and every NAME. Label sets are
bounded: no value looks like an id, and no label has more than LABEL_VALUES of them.
"""
import json
import re
import sys

from prometheus_client.parser import text_string_to_metric_families

LABEL_VALUES = 120
LABEL_NAMES = {"method", "route", "status", "le", "limit", "kind", "cause", "state", "version", "reason", "to",
               "how", "result", "part"}
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-")
failures = []


def fail(text):
    failures.append(text)
    print("FAIL", text)


def read_page(text):
    families = {}
    for family in text_string_to_metric_families(text):
        # The parser takes a counter's _total away.
        name = family.name + ("_total" if family.type == "counter" else "")
        if name in families:
            fail(f"{name} stands there twice")
        families[name] = family
    return families


def check_name(name, family):
    if not re.fullmatch(r"muxd_[a-z0-9_]+", name):
        fail(f"{name}: not muxd_ and small letters")
    if family.type not in ("counter", "gauge", "histogram"):
        fail(f"{name}: is {family.type}")
    if family.type != "counter" and name.endswith("_total"):
        fail(f"{name}: _total, and no counter")
    if re.search(r"_(ms|msec|milliseconds|ns|minutes|kb|mb)(_total)?$", name):
        fail(f"{name}: not in a base unit")
    if family.type == "histogram" and not name.endswith(("_seconds", "_bytes")):
        fail(f"{name}: a histogram without a unit")
    if not family.documentation.endswith("."):
        fail(f"{name}: its help is no sentence")


def check_histogram(name, family):
    series = {}
    for sample in family.samples:
        labels = tuple(sorted((k, v) for k, v in sample.labels.items() if k != "le"))
        one = series.setdefault(labels, {"buckets": [], "sum": None, "count": None})
        if sample.name.endswith("_bucket"):
            one["buckets"].append((float(sample.labels["le"]), sample.value))
        else:
            one[sample.name.rsplit("_", 1)[1]] = sample.value
    for labels, one in series.items():
        ends = [end for end, _ in one["buckets"]]
        counts = [count for _, count in one["buckets"]]
        if ends != sorted(set(ends)) or not ends or ends[-1] != float("inf"):
            fail(f"{name}{labels}: buckets end at {ends}")
        if counts != sorted(counts) or counts[-1:] != [one["count"]] or one["sum"] is None:
            fail(f"{name}{labels}: counts {counts}, of {one['count']}, sum {one['sum']}")


def check_labels(families):
    values = {}
    for name, family in families.items():
        seen = set()
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            if key in seen:
                fail(f"{name}: {key} stands there twice")
            seen.add(key)
            for label, value in sample.labels.items():
                if label not in LABEL_NAMES:
                    fail(f"{name}: the label {label} is new; is its set of values bounded?")
                if UUID.search(value):
                    fail(f"{name}: {label}={value} is an id")
                values.setdefault(label, set()).add(value)
    for label, found in values.items():
        if len(found) > LABEL_VALUES:
            fail(f"label {label} has {len(found)} values")


def expressions(node):
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "expr":
                yield value
            elif key == "query" and isinstance(value, str) and "(" in value:
                yield value
            else:
                yield from expressions(value)
    elif isinstance(node, list):
        for item in node:
            yield from expressions(item)


def check_dashboard(path, families):
    with open(path, encoding="utf-8") as f:
        document = json.load(f)
    asked = 0
    ids = [panel["id"] for panel in document["panels"]]
    if len(ids) != len(set(ids)):
        fail("two panels have one id")
    for expression in expressions(document):
        for name in re.findall(r"\bmuxd_[a-z0-9_]+", expression):
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            family = families.get(name) or families.get(base)
            asked += 1
            if family is None:
                fail(f"the dashboard asks for {name}, which is not there")
                continue
            if name != base and name not in families and family.type != "histogram":
                fail(f"the dashboard asks for {name}, and {base} is a {family.type}")
            if family.type == "counter" and "rate(" not in expression and "increase(" not in expression:
                fail(f"the dashboard shows the counter {name} without rate()")
            for by in re.findall(r"by \(([a-z, ]+)\)", expression):
                have = {label for sample in family.samples for label in sample.labels}
                for label in (word.strip() for word in by.split(",")):
                    if have and label not in have:
                        fail(f"the dashboard sums {name} by {label}, which it does not have")
    return asked


def main():
    families = read_page(sys.stdin.read())
    for name, family in families.items():
        check_name(name, family)
        if family.type == "histogram":
            check_histogram(name, family)
    check_labels(families)
    asked = check_dashboard(sys.argv[1], families)
    for name in sys.argv[2:]:
        if name not in families:
            fail(f"{name} is not there")
    print(f"metrics: {len(families)} families, {asked} uses of them in the dashboard, {len(failures)} failures")
    return 1 if failures or not families or not asked else 0


if __name__ == "__main__":
    sys.exit(main())
