"""seeds_routes.py FOLDER - the requests of the recordings as seeds for fuzz_routes."""
import hashlib
import json
import pathlib
import sys

folder = pathlib.Path(sys.argv[1])
recordings = pathlib.Path(__file__).parent.parent / "conformance"
n = 0


def keep(request):
    global n
    body = request.get("body", "")
    if "json" in request:
        body = json.dumps(request["json"], ensure_ascii=False)
    if not isinstance(body, str) or len(body) > 20000 or "path" not in request:
        return
    seed = f"{request.get('method', 'GET')} {request['path']}\n{body}".encode()
    (folder / f"recorded-{hashlib.sha1(seed).hexdigest()[:16]}").write_bytes(seed)
    n += 1


def requests(value):
    """Every request below a value of a recording."""
    if isinstance(value, dict):
        if isinstance(value.get("request"), dict):
            keep(value["request"])
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            requests(part)


for name in ("native", "openai", "transport"):
    requests(json.loads((recordings / f"{name}.json").read_text()))
print(n, "recorded requests")
