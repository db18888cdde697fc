"""readers.py SRC - every value that an option fills is read by some room.

A member of a group in options.h counts as read when a file outside src/options
says GROUP.MEMBER, or says ->MEMBER or .MEMBER and takes the group by pointer.
"""
import pathlib
import re
import sys

src = pathlib.Path(sys.argv[1])
header = (src / "options/options.h").read_text()
header = re.sub(r"/\*.*?\*/", "", header, flags=re.S)


def members_of(body):
    """Names declared in a struct's body; anonymous inner structs count as one."""
    body = re.sub(r"struct\s*\{[^{}]*\}", "int", body)
    for declaration in body.split(";"):
        declaration = declaration.strip()
        if not declaration:
            continue
        names = re.sub(r"\[[^]]*\]", "", declaration)
        first = re.search(r"[*\s](\w+)\s*(,|$)", names)
        yield first.group(1)
        for name in re.findall(r",\s*\*?\s*(\w+)", names):
            yield name


groups = {}
for name, body in re.findall(r"struct (\w+_options) \{(.*?)\n\};", header, flags=re.S):
    groups[name] = list(members_of(body))
top = re.search(r"struct options \{(.*?)\n\};", header, flags=re.S).group(1)
uses = re.findall(r"struct (\w+_options) (\w+);", top)

texts = [re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
         for path in sorted(src.glob("*/*.c")) if path.parent.name != "options"]
# What parsing itself settles counts too, where it reads the value by its full name.
settled = re.sub(r"/\*.*?\*/", "", (src / "options/parse.c").read_text(), flags=re.S)
unread = []
total = 0
for struct, group in uses:
    for member in groups[struct]:
        total += 1
        direct = re.compile(rf"\b{group}\.{member}\b")
        indirect = re.compile(rf"(->|\.){member}\b")
        by_pointer = re.compile(rf"struct {struct} \*")
        if not direct.search(settled) and not any(direct.search(t) or (by_pointer.search(t) and indirect.search(t))
                   for t in texts):
            unread.append(f"{group}.{member}")
if total < 100:
    sys.exit(f"only {total} values found in options.h: this script no longer understands it")
for name in unread:
    print(f"nobody reads options.{name}: wire it, or refuse its option")
print(f"{total} values, {len(unread)} without a reader")
sys.exit(bool(unread))
