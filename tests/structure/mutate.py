#!/usr/bin/env python3
"""Plants the faults of tests/mutants.txt and finds which tests notice them: see tests/mutate.sh.

An entry of the list:

    >>place rmi_plc_drop               room and function; rooms of rockmate_cuda.h begin with cuda/
    - if (a < b) {                     a line of the function, without what it is indented by
    + if (MUTANT ? a <= b : a < b) {   what stands there instead; MUTANT is the switch
    ? why no test can notice it        optional; "equivalent", "slower", "unreached" begin it
"""
import glob
import hashlib
import json
import os
import re
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

LIST, OUT, OBJ = "tests/mutants.txt", "build/mutants", "build/tests/objects"
HEADERS = {"": "rockmate.h", "cuda/": "rockmate_cuda.h"}
SAN = "-O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-sanitize=null,alignment,object-size,pointer-overflow".split()
SWITCH = """
#ifndef RMTEST_MUTANTS
#define RMTEST_MUTANTS
#include <stdio.h>
#include <stdlib.h>
static int rmtest_mutant;
static unsigned char rmtest_reached[1000];
static inline int rmtest_mutant_is(int k) { rmtest_reached[k] = 1; return rmtest_mutant == k; }
static void rmtest_tell(void)
{
    int k;
    FILE *f = getenv("RMTEST_REACHED") ? fopen(getenv("RMTEST_REACHED"), "a") : NULL;
    if (!f) return;
    for (k = 0; k < 1000; k++)
        if (rmtest_reached[k]) fprintf(f, "%d\\n", k);
    fclose(f);
}
__attribute__((constructor)) static void rmtest_begin(void)
{
    rmtest_mutant = getenv("RMTEST_MUTANT") ? atoi(getenv("RMTEST_MUTANT")) : 0;
    atexit(rmtest_tell);
}
#endif
"""


# --- the source: rooms, functions, lines
def functions(text):
    """(room, name, first line, end line) of each function of the implementation."""
    found, room, name, start = [], None, None, 0
    lines = text.split("\n")
    for n, line in enumerate(lines):
        banner = re.match(r"   >>(\w+) - ", line)
        if banner:
            room = banner.group(1)
        head = re.match(r"(?:RMI_(?:FN|INLINE)|RMDEF|RMC_FN) [^;=]*?\b(\w+)\(", line)
        if head:
            name, start = head.group(1), n
        if name and re.search(r"\)\s*;\s*$", line) and "{" not in "".join(lines[start : n + 1]):
            name = None  # a declaration
        if name and (line == "}" or (n == start and line.rstrip().endswith("}"))):
            found.append((room, name, start, n + 1))
            name = None
    return lines, found


# --- proposing
OPERAND = r"[A-Za-z_][\w.]*(?:->[\w.]+|\[[\w.>\-]+\])*"
COMPARE = re.compile(r"(?:(?<=[(!=?] )|(?<=[(!])|(?<=&& )|(?<=\|\| )|(?<=return ))(" + OPERAND + r") (<=|>=|<|>|==|!=) (" + OPERAND + r"|\d+u?)(?=\)| &&| \|\||;| \?)")
OTHER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
SIMPLE = re.compile(r"^(if \(.*\) )?(?!return|break|continue|goto|case|else|if|for|while|do\b|default)[A-Za-z_*(][\w.>\-\[\]+]*(?: [-+|&*]?= .*|\+\+|--|\(.*\));$")


def sites(line):
    """The ways to spoil a line."""
    for m in COMPARE.finditer(line):
        a, op, b = m.groups()
        yield line[: m.start()] + f"(MUTANT ? {a} {OTHER[op]} {b} : {a} {op} {b})" + line[m.end() :]
    for m in re.finditer(r"(?<=[\w)\]] )([+-]) 1u?(?=[);,\] ])", line):
        yield line[: m.start()] + f"{m.group(1)} (MUTANT ? 0 : 1)" + line[m.end() :]
    for m in re.finditer(r"\brmi_(min|max)\(", line):
        yield line[: m.start()] + f"(MUTANT ? rmi_{'max' if m.group(1) == 'min' else 'min'} : rmi_{m.group(1)})(" + line[m.end() :]
    if SIMPLE.match(line) and line.count("(") == line.count(")"):
        yield f"if (!MUTANT) {{ {line} }}"
        m = re.match(r"^([\w.>\-\[\]]+) ([-+])= (.*);$", line)
        if m:
            yield f"if (MUTANT) {m.group(1)} {'-' if m.group(2) == '+' else '+'}= {m.group(3)}; else {line}"


def propose(total, known):
    rank = lambda *words: hashlib.sha256("\0".join(words).encode()).hexdigest()
    rooms, taken = {}, {f for _, f, _, _, _ in known}
    for prefix, path in HEADERS.items():
        lines, found = functions(open(path, encoding="utf-8").read())
        for room, name, start, end in found:
            options = []
            body = lines[start + 1 : end]
            for n, raw in enumerate(body):
                line, after = raw.strip(), body[n + 1].strip() if n + 1 < len(body) else ""
                if after.startswith("else") or not raw.startswith("    ") or body[n - 1].rstrip().endswith(("\\", ",", "&&", "||", "=")):
                    continue
                if sum(other.strip() == line for other in body) == 1 and "#" not in line:
                    options += [(rank(name, new), line, new) for new in sites(line)]
            weight = rooms.setdefault(prefix + room, [0, []])
            weight[0] += end - start
            if options and name not in taken:
                best = min(options)
                weight[1].append((rank(name), name, best[1], best[2]))
    whole = sum(w[0] ** 0.5 for w in rooms.values())
    for room, (size, options) in rooms.items():
        for _, name, line, new in sorted(options)[: max(2, round(total * size**0.5 / whole))]:
            print(f">>{room} {name}\n- {line}\n+ {new}\n")


# --- planting
def read_list():
    entries = []
    for block in open(LIST, encoding="utf-8").read().split("\n\n"):
        rows = [r for r in block.strip().split("\n") if r and not r.startswith("#")]
        if rows:
            room, function = rows[0][2:].split()
            why = " ".join(r[2:] for r in rows[3:])
            entries.append((room, function, rows[1][2:].strip(), rows[2][2:].strip(), why))
    return entries


def line_of(old, lines, found, room, function):
    """The number of the line that a fault spoils: in its function; where that has been renamed, the only one in its room, or at all."""
    spans = [(a, z) for r, name, a, z in found if name == function]
    for a, z in spans + [(a, z) for r, name, a, z in found if r == room and not spans] + [(0, len(lines))]:
        at = [n for n in range(a, z) if re.sub(r" */\*.*\*/$", "", lines[n].strip()) == re.sub(r" */\*.*\*/$", "", old)]
        if at and (spans or len(at) == 1):
            return at[0]
    return None


def plant(entries, without=()):
    """Copies of the headers with all faults but some. Which fault spoils which line of which copy."""
    planted = {}
    for prefix, path in HEADERS.items():
        lines, found = functions(open(path, encoding="utf-8").read())
        before = list(lines)
        for k, (room, function, old, new, _) in enumerate(entries, 1):
            n = line_of(old, before, found, room.split("/")[-1], function) if room.startswith("cuda/") == bool(prefix) else None
            if n is not None and k not in without:
                planted[k] = (path, n)
        mark = next(n for n, l in enumerate(lines) if re.match(r"#define (RMI_IMPLEMENTED|ROCKMATE_CUDA_IMPLEMENTED)", l))
        for k, (where, n) in planted.items():
            if where == path and lines[n] == before[n]:  # a line is spoiled in one way
                lines[n] = lines[n].replace(lines[n].strip(), entries[k - 1][3].replace("MUTANT", f"rmtest_mutant_is({k})"))
            elif where == path:
                planted[k] = (None, None)
        lines[mark] += f'{SWITCH}#line {mark + 2} "{OUT}/{path}"'
        text = "\n".join(lines)
        if not os.path.exists(f"{OUT}/{path}") or open(f"{OUT}/{path}", encoding="utf-8").read() != text:
            with open(f"{OUT}/{path}", "w", encoding="utf-8") as f:
                f.write(text)
    return {k: at for k, at in planted.items() if at[0]}


def plant_what_compiles(entries):
    """What is planted, and the faults that the compiler refuses, because the line means something else by now."""
    refused = set()
    while True:
        planted = plant(entries, refused)
        done = subprocess.run([os.environ.get("CC", "cc"), "-std=gnu99", "-fsyntax-only", f"-I{OUT}", "-I.", "-w", "tests/linked.c"],
                              capture_output=True, text=True)
        wrong = {(path, int(n) - 1) for path, n in re.findall(r"(rockmate\w*\.h):(\d+):\d+: error", done.stderr)}
        more = {k for k, at in planted.items() if at in wrong}
        if not done.returncode:
            return planted, refused
        if not more:
            sys.exit(done.stderr[-4000:])
        refused |= more


def sh(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(" ".join(command) + "\n" + done.stdout[-2000:] + done.stderr[-4000:])


def made(output, *command):
    """Runs a compiler that makes this file, unless it is newer than every file that the command names, and than the planted headers."""
    sources = [w for w in command if re.search(r"\.(o|c|cpp)$", w)] + [f"{OUT}/{path}" for path in HEADERS.values()]
    if not os.path.exists(output) or os.path.getmtime(output) < max(os.path.getmtime(s) for s in sources):
        sh(*command, "-o", output)


def build(kinds, only):
    """Programs, of these names if names are given, linked with the planted object as it is, and with sanitizers if they are wanted. {name: [commands]}"""
    cc, cxx = os.environ.get("CC", "cc"), os.environ.get("CXX", "c++")
    cuda = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    include = [f"-I{OUT}", "-I.", "-w"]
    programs = {}
    for kind, flags in (("plain", ["-O1"]), ("san", SAN))[:kinds]:
        made(f"{OUT}/linked_{kind}.o", cc, "-std=gnu99", *flags, *include, "-c", "tests/linked.c")
        extra = []
        if os.path.exists(f"{OBJ}/standin.o"):
            made(f"{OUT}/cuda_{kind}.o", cc, "-std=gnu99", *flags, *include, "-isystem", f"{cuda}/include", "-c", "tests/cuda/linked.c")
            extra = [f"{OUT}/cuda_{kind}.o", f"{OBJ}/standin.o"]
        for o in sorted(os.listdir(OBJ)):
            if o.endswith(".o") and o.startswith(("test_", "fuzz_")):
                name, more = o[:-2], [] if o == "test_replay.o" else [f"{OBJ}/replay.o"]
                if name == "test_replay" or (only and name not in only):
                    continue  # of the referee, which shares no code with what is spoiled
                source = glob.glob(f"tests/*/{name}.c*")[0]
                if re.search(r"^#define RM_[A-Z]", open(source, encoding="utf-8").read(), re.M):  # an implementation of its own
                    made(f"{OUT}/{name}_{kind}", cc, "-std=gnu99", *flags, "-O0", *include, source, "-lm", "-lpthread")
                    programs.setdefault(name, []).append([f"{OUT}/{name}_{kind}"])
                    continue
                if name in ("test_cuda", "test_cuda_api", "test_standin"):
                    more += extra
                made(f"{OUT}/{name}_{kind}", cxx, "-fsanitize=address,undefined", f"{OBJ}/{o}", f"{OUT}/linked_{kind}.o", *more, "-lm", "-lpthread")
                programs.setdefault(name, []).append([f"{OUT}/{name}_{kind}"] + (["2000"] if name.startswith("fuzz") else []))
        if only and "rmplan" not in only and "train_gpt" not in only:
            continue
        rmplan = f"{OUT}/rmplan_{kind}"
        made(rmplan, cc, *flags, "-w", "-DRMI_IMPLEMENTED", "examples/rmplan.c", f"{OUT}/linked_{kind}.o", "-lm", "-lpthread")
        programs.setdefault("rmplan", []).append(["sh", "tests/cli/rmplan.sh", rmplan])
        train = f"{OUT}/train_gpt_{kind}"
        made(train, cc, *flags, "-w", "-DRMI_IMPLEMENTED", "examples/train_gpt.c", f"{OUT}/linked_{kind}.o", "-lm", "-lpthread")
        programs.setdefault("train_gpt", []).append(["sh", "tests/cli/train_gpt.test", train])
    return programs


# --- running
def run(command, mutant, reached=None, limit=None):
    """(exit status, processor seconds); past the limit of those it is killed."""
    env = dict(os.environ, RMTEST_MUTANT=str(mutant), ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=1")
    if reached:
        env["RMTEST_REACHED"] = reached
    before = lambda: limit and resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 1, int(limit) + 2))
    with open(os.devnull, "w") as null:
        p = subprocess.Popen(command, stdout=null, stderr=null, env=env, preexec_fn=before, start_new_session=True)
        deadline = time.time() + (20 * limit + 60 if limit else 1e9)  # threads that wait for each other take no time
        while True:
            pid, status, use = os.wait4(p.pid, os.WNOHANG)
            if pid:
                p.returncode = os.waitstatus_to_exitcode(status)
                return p.returncode, use.ru_utime + use.ru_stime
            if time.time() > deadline:
                os.killpg(p.pid, 9)
                deadline = time.time() + 1e9
            time.sleep(0.02)


def baseline(programs, kind, below):
    """Each program without a fault: its seconds and what it reaches; kept while the binaries are the same."""
    path, known = f"{OUT}/baseline_{kind}.json", {}
    if os.path.exists(path):
        known = json.load(open(path))
    todo = {}
    for name, commands in programs.items():
        binary = commands[kind][-1] if name in ("rmplan", "train_gpt") else commands[kind][0]
        key = hashlib.sha256(open(binary, "rb").read()).hexdigest() + os.environ.get("RMTEST_ALL", "")
        was = known.get(name, {})
        if was.get("key") != key or (was["code"] in (-9, -24) and not (below and was["seconds"] >= below)):  # new, or broken off too early
            todo[name] = (commands[kind], key)

    def one(item):
        name, (command, key) = item
        reached = f"{OUT}/reached_{name}"
        if os.path.exists(reached):
            os.remove(reached)
        code, seconds = run(command, 0, reached, 2 * below if below else None)
        hits = sorted({int(l) for l in open(reached)}) if os.path.exists(reached) else []
        return name, {"key": key, "code": code, "seconds": seconds, "reached": hits}

    with ThreadPoolExecutor(int(os.environ.get("JOBS", os.cpu_count() or 1))) as pool:
        for name, result in pool.map(one, todo.items()):
            known[name] = result
            with open(path, "w") as f:
                json.dump(known, f)
            if result["code"]:
                print(f"{name}: exit status {result['code']} without a fault: left out", flush=True)
    return {n: r for n, r in known.items() if n in programs and not r["code"] and not (below and r["seconds"] > below)}


def fault_key(entry):
    return hashlib.sha256("\0".join(entry[:4]).encode()).hexdigest()[:16]


class Known:
    """What is known of faults from earlier runs, by the fault's text: the program that notices it, and those that do not, by their objects."""

    def __init__(self, fresh):
        self.path = f"{OUT}/known.json"
        self.of = {} if fresh or not os.path.exists(self.path) else json.load(open(self.path))
        self.lock = Lock()

    def get(self, entry):
        return self.of.setdefault(fault_key(entry), {"by": None, "asked": []})

    def put(self, entry, by, asked):
        with self.lock:
            known = self.get(entry)
            known["by"] = by or known["by"]
            known["asked"] = sorted(set(known["asked"]) | set(asked))
            with open(self.path + ".part", "w") as f:
                json.dump(self.of, f)
            os.replace(self.path + ".part", self.path)


def object_key(name, kind):
    """Of a test program without the implementation: what it asks."""
    source = f"{OBJ}/{name}.o" if os.path.exists(f"{OBJ}/{name}.o") else {"rmplan": "tests/cli/rmplan.sh", "train_gpt": "tests/cli/train_gpt.test"}.get(name)
    content = open(source, "rb").read() if source else b""
    return f"{name} {kind} {os.environ.get('RMTEST_ALL', '')} " + hashlib.sha256(content).hexdigest()[:12]


def hunt(programs, bases, numbers, entries, known):
    """For each fault the program that fails, or None, or "unreached". Cheap programs first, those first that noticed faults of the same room."""
    fruitful = {}

    def cost(name, base, room):
        return base[name]["seconds"] * (0.3 if name in fruitful.get(room, ()) else 1)

    def one(k):
        entry, met = entries[k - 1], False
        was = known.get(entry)
        for kind in (0, 1):
            base = bases[kind] if bases[kind] is not None else {}
            for name in sorted((n for n in base if k in base[n]["reached"]), key=lambda n: cost(n, base, entry[0])):
                met = True
                if was["by"]:
                    break
                if object_key(name, kind) in was["asked"]:
                    continue
                code, _ = run(programs[name][kind], k, None, 3 * base[name]["seconds"] + 5)
                by = f"{name}{' with sanitizers' if kind else ''} ({'by time' if code in (-9, -24) else f'status {code}'})" if code else None
                known.put(entry, by, [object_key(name, kind)])
                if by:
                    fruitful.setdefault(entry[0], set()).add(name)
        return k, was["by"] or (None if met else "unreached")

    results = {}
    with ThreadPoolExecutor(int(os.environ.get("JOBS", os.cpu_count() or 1))) as pool:
        for k, by in pool.map(one, numbers):
            results[k] = by
            print(f"{len(results)} of {len(numbers)}  fault {k} in {entries[k - 1][1]}: {by or 'SURVIVES'}", flush=True)
    return results


def main(words):
    below, numbers = 0, []
    if "--propose" in words:
        return propose(int(words[-1]), read_list() if os.path.exists(LIST) else [])
    if "--all" in words:
        os.environ["RMTEST_ALL"] = "1"
    if "--below" in words:
        below = float(words[words.index("--below") + 1])
        del words[words.index("--below") + 1]
    only = words[words.index("--only") + 1].split(",") if "--only" in words else None
    if only:
        del words[words.index("--only") + 1]
    numbers = [int(w) for w in words if w.isdigit()]
    os.makedirs(OUT, exist_ok=True)
    entries = read_list()
    planted, refused = plant_what_compiles(entries)
    gone = set(range(1, len(entries) + 1)) - set(planted)
    if "--check" not in words:
        known = Known("--fresh" in words)
        sanitizers = "--sanitizers" in words or not below
        programs = {n: c for n, c in build(1 + sanitizers, only).items()}
        plain = baseline(programs, 0, below)
        sanitized = baseline(programs, 1, below) if sanitizers else None
        wanted = [k for k in numbers or range(1, len(entries) + 1) if k not in gone]
        tell(hunt(programs, (plain, sanitized), wanted, entries, known), entries)
    for k in sorted(gone):
        print(f"{'refused by the compiler' if k in refused else 'gone'}: {k} >>{entries[k - 1][0]} {entries[k - 1][1]}: {entries[k - 1][2]}")
    print(f"{len(entries)} faults, {len(gone)} gone with the line that they spoil")
    return 0


def tell(results, entries):
    with open(f"{OUT}/results.txt", "w") as f:
        for k, by in results.items():
            f.write(f"{k}\t{entries[k - 1][0]}\t{entries[k - 1][1]}\t{by or 'survives'}\n")
    print()
    for k in [k for k in results if results[k] in (None, "unreached")]:
        room, function, old, new, why = entries[k - 1]
        print(f"{'survives' if results[k] is None else 'unreached'}: {k} >>{room} {function}: {why or 'no reason known'}\n    - {old}\n    + {new}")
    reached = [k for k in results if results[k] != "unreached"]
    killed = [k for k in reached if results[k]]
    equal = [k for k in reached if not results[k] and entries[k - 1][4].startswith("equivalent")]
    share = 100.0 * len(killed) / max(1, len(reached) - len(equal))
    print(f"\n{len(results)} faults asked, {len(results) - len(reached)} not reached, {len(reached)} reached: {len(killed)} killed, "
          f"{len(equal)} equivalent, {len(reached) - len(killed) - len(equal)} survive; {share:.1f} % of those that are faults are killed")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
