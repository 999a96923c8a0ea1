"""Compares manifests for KServe with the types of its client: unknown fields and wrong kinds of values are errors.

    python kserve_manifests.py FILE
"""
import re
import sys

import kserve
import kubernetes.client
import yaml

SCALARS = {"str": str, "int": int, "bool": bool, "object": (str, int)}


def check(value, kind, where):
    if element := re.fullmatch(r"[lL]ist\[(.*)\]", kind):
        for i, v in enumerate(value):
            check(v, element[1], f"{where}[{i}]")
    elif element := re.fullmatch(r"[dD]ict[(\[]str, (.*)[)\]]", kind):
        for k, v in value.items():
            check(v, element[1], f"{where}.{k}")
    elif scalar := SCALARS.get(kind):
        if not isinstance(value, scalar):
            sys.exit(f"{where}: {value!r} is no {kind}")
    else:
        model = getattr(kserve, kind, None) or getattr(kubernetes.client, kind)
        names = {name: attribute for attribute, name in model.attribute_map.items()}
        for k, v in value.items():
            if k not in names:
                sys.exit(f"{where}: {kind} has no {k}")
            check(v, model.openapi_types[names[k]], f"{where}.{k}")


for manifest in yaml.safe_load_all(open(sys.argv[1])):
    version = manifest["apiVersion"].removeprefix("serving.kserve.io/")
    check(manifest, version.capitalize() + manifest["kind"], manifest["kind"])
    print(manifest["kind"], manifest["metadata"]["name"])
