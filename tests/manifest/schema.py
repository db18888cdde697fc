"""schema.py FOLDER - every shard of the manifest is what schema.json says."""
import json
import pathlib
import sys

try:
    import jsonschema
except ImportError:
    print("SKIPPED: python3-jsonschema is not installed")
    sys.exit(77)

folder = pathlib.Path(sys.argv[1])
validator = jsonschema.Draft202012Validator(json.loads((folder / "schema.json").read_text()))
wrong = 0
for path in sorted(folder.glob("*.json")):
    if path.name in ("pin.json", "schema.json"):
        continue
    for error in validator.iter_errors(json.loads(path.read_text())):
        print(f"{path.name}: {list(error.path)}: {error.message}")
        wrong += 1
# A schema that accepts anything would prove nothing.
good = {"id": "x", "kind": "route", "state": "served", "test": "t", "notes": "",
        "method": "GET", "path": "/"}
bad = [{**good, "state": "aliased"}, {**good, "state": "deferred"}, {**good, "kind": "thing"},
       {**good, "state": "by_design"}, {**good, "state": "not_applicable"}, {**good, "extra": 1},
       {k: v for k, v in good.items() if k != "test"}]
wrong += not validator.is_valid({"entries": [good]})
wrong += sum(validator.is_valid({"entries": [entry]}) for entry in bad)
print("wrong:", wrong)
sys.exit(wrong != 0)
