#!/usr/bin/python3
"""readme_config.py README KEY=VALUE...: the configuration that a page of the docs has to paste, with other values (KEY as section.key)."""
import re
import sys

import yaml

blocks = re.findall(r"^```yaml\n(.*?)^```", open(sys.argv[1], encoding="utf-8").read(), re.M | re.S)
config, = [yaml.safe_load(b) for b in blocks if "kubeconfig:" in b]
for change in sys.argv[2:]:
    key, value = change.split("=", 1)
    section, name = key.split(".")
    config[section][name] = value
yaml.safe_dump(config, sys.stdout)
