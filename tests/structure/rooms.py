#!/usr/bin/env python3
"""Is rockmate.h still the house that docs/design.md draws? Rooms in the order of CONTENTS, private names with the prefix of
their room, calls only to rooms before (no forward declarations), functions of a size that one can read.

    rooms.py rockmate.h      prints offences; last line 'N passed, N failed, N skipped'
"""
import re
import sys

PREFIX = {
    "config": "RMI_", "base": "rmi_", "error": "rmi_err_", "graph": "rmi_graph_", "lower": "rmi_low_", "shape": "rmi_shp_",
    "schedule": "rmi_sch_|rmi_sim_", "sequence": "rmi_seq_", "block": "rmi_blk_", "chain": "rmi_chn_", "refine": "rmi_ref_", "bound": "rmi_bnd_", "offload": "rmi_off_",
    "step": "rmi_step_", "cost": "rmi_cost_", "events": "rmi_event_", "search": "rmi_search_",
    "place": "rmi_plc_", "plan": "rmi_plan_", "curve": "rmi_crv_", "lanes": "rmi_lan_", "threads": "rmi_thr_", "text": "rmi_txt_", "view": "rmi_vue_", "exec": "rmi_exe_", "check": "rmi_chk_", "public": "rm_|rmi_",
}
CUDA = {room: "rmc_" for room in ("device", "memory", "stream", "profile", "graph")}
CUDA["public"] = "rm_cuda_|rmc_"
LONGEST = 70


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
    for b in bad:
        print(b)
    print(f"{passed} passed, {len(bad)} failed, 0 skipped")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
