"""Does rmplan say every message of the library in words of the command line? Its table `words` is applied to all texts of the rooms
that it asks, from >>graph to >>view; what then still has a name of the C API must be one that no command line leads to.
     python3 tests/cli/words.py rockmate.h examples/rmplan.c"""
import re
import sys

TEXT = r'"(?:[^"\\\n]|\\.)*"'
API = r"\b(rm|RM)_[A-Za-z]"
# Calls of the builder with what no text says: kinds and their masks, NULL, tensors of other graphs.
UNREACHED = [
    r"kind '%s' (has a bit in its mask|names RM_)", r"^RM_DOUT, RM_SAVED", r"^RM_IN\(i\)$", r"it has 0 bytes; give its size, or RM_EMPTY",
    r"desc is NULL|kind or desc is NULL|the kind is NULL|is none or no op makes it in this graph", r"its kind has no usable name",
    r"a flag that means nothing there", r"^rm_(op|variant|barrier)_add$", r"^rm_block_", r"leave one rm_over$",
    r"passes has an unknown bit|off has an unknown bit|steps: an unknown bit",  # names in a text, bits in C only
]


def literals(source):
    """Texts of the source, neighbours as one, each with its line."""
    blank = lambda m: m.group(0) if m.group(0)[0] == '"' else re.sub(r"[^\n]", " ", m.group(0))
    code = re.sub(r"/\*.*?\*/|" + TEXT, blank, source, flags=re.S)
    for m in re.finditer(TEXT + r"(?:\s*" + TEXT + ")*", code):
        yield "".join(part[1:-1] for part in re.findall(TEXT, m.group(0))), code[:m.start()].count("\n") + 1


def in_options(text, words):
    out = ""
    while text:
        api, option = next(((a, o) for a, o in words if text.startswith(a)), (text[0], text[0]))
        out, text = out + option, text[len(api):]
    return out


header, program = (open(path).read() for path in sys.argv[1:3])
table = re.search(r"\} words\[\] = \{\n(.*?)\n\};", program, re.S).group(1)
words = re.findall(r'^    \{"([^"]*)", "([^"]*)"\},', table, re.M)
before, after = header.index("   >>graph - "), header.index("   >>threads - ")
texts = list(literals(header[before:after]))
seen = bad = 0
for text, line in texts:
    if not re.search(API, text):
        continue
    seen += 1
    left = in_options(text, words)
    if re.search(API, left) and not any(re.search(r, text) for r in UNREACHED):
        bad += 1
        print("rockmate.h:%d: rmplan would say: %s" % (line + header.count("\n", 0, before), left))
for api, option in words:
    if not any(api in text.replace("rm_config.%s", "rm_config.keep rm_config.move rm_config.stay rm_config.recompute") for text, _ in texts):
        bad += 1
        print("no message has these words: %s" % api)
print("%d texts with names of the C API, %d words" % (seen, len(words)))
sys.exit(bad > 0 or seen < 50)
