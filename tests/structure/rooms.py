#!/usr/bin/env python3
"""Is rockmate.h still the house that docs/design.md draws? Rooms in the order of CONTENTS, private names with the prefix of
their room, calls only to rooms before (no forward declarations), functions of a size that one can read. And what can be counted: columns,
parameters, fields, lines, names of one letter, and that nothing sets a level of optimisation.

    rooms.py rockmate.h      prints offences and the share of names of one letter; last line 'N passed, N failed, N skipped'
"""
import re
import sys

PREFIX = {
    "config": "RMI_", "base": "rmi_", "error": "rmi_err_", "graph": "rmi_graph_", "lower": "rmi_low_", "shape": "rmi_shp_",
    "schedule": "rmi_sch_|rmi_sim_", "sequence": "rmi_seq_", "block": "rmi_blk_", "chain": "rmi_chn_", "refine": "rmi_ref_", "bound": "rmi_bnd_", "offload": "rmi_off_",
    "step": "rmi_step_", "cost": "rmi_cost_", "events": "rmi_event_", "search": "rmi_search_",
    "place": "rmi_plc_", "disk": "rmi_disk_", "plan": "rmi_plan_", "curve": "rmi_crv_", "lanes": "rmi_lan_", "threads": "rmi_thr_", "text": "rmi_txt_", "view": "rmi_vue_", "exec": "rmi_exe_", "watch": "rmi_wat_", "check": "rmi_chk_", "public": "rm_|rmi_",
}
CUDA = {room: "rmc_" for room in ("device", "memory", "stream", "profile", "graph", "check")}
CUDA["public"] = "rm_cuda_|rmc_"
LONGEST = 70
COLUMNS, PARAMETERS, FIELDS, LETTERS, LINES = 120, 6, 30, 15, 28648  # LETTERS: percent of all identifiers
# over a limit, and how far: public ones, which stay, and private ones that may only get smaller
PUBLIC = {"rm_place": 7}
KNOWN = {}
WORDS = set("if else for while do return int char void const static struct typedef enum unsigned sizeof break continue switch case default "
            "uint32_t uint64_t uint8_t uint16_t int64_t size_t define include".split())


def parts(listed, separator):
    """How many names a list of parameters or fields declares; what stands in brackets is one name's."""
    while re.search(r"[({\[][^(){}\[\]]*[)}\]]", listed):
        listed = re.sub(r"[({\[][^(){}\[\]]*[)}\]]", "", listed)
    return sum(len(piece.split(",")) for piece in listed.split(separator) if piece.strip() and piece.strip() != "void")


def counted(path, text):
    """Offences against what can be counted, how many things were looked at, and the share of names of one letter in percent."""
    bad, lines = [], text.split("\n")
    code = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.S)
    code = re.sub(r'"(\\.|[^"\\])*"', '""', code)
    limits = {**PUBLIC, **KNOWN}
    functions = list(re.finditer(r"^(?:RMI_FN|RMI_INLINE|RMDEF)[^;{]*?(\w+)\(([^;{]*?)\)\n?\s*\{", code, re.M))
    structs = list(re.finditer(r"^typedef (?:struct|union) (\w+) \{(.*?)^\} ?\w+;", code, re.M | re.S))
    for found, separator, most, what in ((functions, ";", PARAMETERS, "parameters"), (structs, ";", FIELDS, "fields")):
        for m in found:
            k = parts(m.group(2), separator)
            if k > max(most, limits.get(m.group(1), 0)):
                bad.append(f"{path}:{code[:m.start()].count(chr(10)) + 1}: {m.group(1)} has {k} {what}, more than {most}")
    for n, line in enumerate(lines, 1):
        if len(line) > COLUMNS:
            bad.append(f"{path}:{n}: {len(line)} columns, more than {COLUMNS}")
        if re.search(r"#\s*pragma\s+(GCC|clang|optimize)\b.*optimi[sz]e|__attribute__\s*\(\(\s*(__)?(optimize|hot|cold)|#\s*pragma\s+optimize", line):
            bad.append(f"{path}:{n}: a level of optimisation is the user's")
    if len(lines) - 1 > LINES:
        bad.append(f"{path}: {len(lines) - 1} lines, more than {LINES}")
    names = [w for w in re.findall(r"\b[A-Za-z_]\w*\b", code[code.find("defined(ROCKMATE_IMPLEMENTATION)"):]) if w not in WORDS]
    letters = 100 * sum(len(w) == 1 for w in names) / max(len(names), 1)
    if letters > LETTERS:
        bad.append(f"{path}: {letters:.1f} % of the names have one letter, more than {LETTERS} %")
    return bad, len(functions) + len(structs) + 3 - len(bad), letters


def main(path):
    text = open(path, encoding="utf-8").read()
    lines = text.split("\n")
    prefixes, guard = (CUDA, "#ifndef ROCKMATE_CUDA_H") if path.endswith("rockmate_cuda.h") else (PREFIX, "#ifndef ROCKMATE_H")
    head = text[: text.index(guard)]
    contents = re.findall(r"^   >>(\w+)", head, re.M)
    passed, bad = 0, []
    banners = [(n, m.group(1)) for n, l in enumerate(lines) for m in [re.match(r"   >>(\w+) - ", l) or re.match(r"/\* >>(\w+) - ", l)] if m and n > head.count("\n")]  # after the contents and the manual
    order = [b for _, b in banners]
    expected = [c for c in contents if c not in ("manual",)]
    if order != expected:
        bad.append(f"rooms stand as {order}, CONTENTS says {expected}")
    else:
        passed += 1
    starts = [n for n, _ in banners] + [len(lines)]
    for (at, room), end in zip(banners, starts[1:]):
        if room not in prefixes:
            continue
        prefix = prefixes[room]
        body = lines[at:end]
        for n, line in enumerate(body, at + 1):
            m = re.match(r"(?:RMI_FN|RMC_FN|RMDEF)\s+[\w\s\*]+?\b\**(\w+)\(", line)
            if not m:
                continue
            if line.rstrip().endswith(";"):
                bad.append(f"{path}:{n}: forward declaration of {m.group(1)}: something stands in the wrong room")
                continue
            name = m.group(1)
            others = [p for r, p in prefixes.items() if prefixes is PREFIX and r not in (room, "base", "public") for p in p.split("|")]
            if not re.match(prefix, name) or (room in ("base", "public") and any(name.startswith(o) for o in others)):
                bad.append(f"{path}:{n}: {name} stands in room {room}, whose names begin with {prefix}")
            else:
                passed += 1
            if not line.rstrip().endswith("}"):
                close = next((k for k in range(n, min(n + 400, len(lines))) if lines[k] == "}"), n)
                if close - n + 1 > LONGEST:
                    bad.append(f"{path}:{n}: {name} has {close - n + 1} lines, more than {LONGEST}")
    if prefixes is PREFIX:
        offences, fine, letters = counted(path, text)
        bad += offences
        passed += max(fine, 0)
        print(f"names of one letter: {letters:.1f} %")
    for b in bad:
        print(b)
    print(f"{passed} passed, {len(bad)} failed, 0 skipped")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
