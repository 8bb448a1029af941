"""Looks at a picture of rm_plan_svg, or of rmplan --curve --svg: is it whole, and do its colours differ for everyone?
     python3 tests/cli/picture.py FILE.svg [WORD ...]      words that must be in it; !WORD: must not
   Prints what is wrong, and the least distance of two colours (CIEDE2000) as people see it who have three kinds of cones, no
   green-sensitive ones (deuteranopia) or no red-sensitive ones (protanopia; Machado et al. 2009)."""
import math
import re
import sys
import xml.etree.ElementTree as tree

SVG = "{http://www.w3.org/2000/svg}"
VIEWS = {
    "three cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
}
LEAST = 12  # a just noticeable difference is about 1; large patches side by side want 10


def lab(colour, view):
    """A colour #rrggbb in the coordinates of CIELAB, as a view shows it."""
    part = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    part = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in part]
    r, g, b = (min(1, max(0, sum(w * c for w, c in zip(row, part)))) for row in view)
    x, y, z = 0.4124 * r + 0.3576 * g + 0.1805 * b, 0.2126 * r + 0.7152 * g + 0.0722 * b, 0.0193 * r + 0.1192 * g + 0.9505 * b
    x, y, z = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x / 0.95047, y, z / 1.08883))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def distance(one, other):
    """CIEDE2000."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean = (math.hypot(a1, b1) + math.hypot(a2, b2)) / 2
    grow = 1.5 - 0.5 * math.sqrt(mean ** 7 / (mean ** 7 + 25 ** 7))
    c1, c2 = math.hypot(a1 * grow, b1), math.hypot(a2 * grow, b2)
    h1, h2 = (math.degrees(math.atan2(b, a * grow)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = (h2 - h1 + 180) % 360 - 180 if c1 * c2 else 0
    dh, dl, dc = 2 * math.sqrt(c1 * c2) * math.sin(math.radians(turn / 2)), l2 - l1, c2 - c1
    light, chroma = (l1 + l2) / 2, (c1 + c2) / 2
    hue = (h1 + h2) / 2 if abs(h1 - h2) <= 180 else (h1 + h2 + 360) / 2 % 360
    cosine = lambda n, shift: math.cos(math.radians(n * hue + shift))
    t = 1 - 0.17 * cosine(1, -30) + 0.24 * cosine(2, 0) + 0.32 * cosine(3, 6) - 0.2 * cosine(4, -63)
    sl, sc, sh = 1 + 0.015 * (light - 50) ** 2 / math.sqrt(20 + (light - 50) ** 2), 1 + 0.045 * chroma, 1 + 0.015 * chroma * t
    turned = -math.sin(math.radians(60 * math.exp(-((hue - 275) / 25) ** 2))) * 2 * math.sqrt(chroma ** 7 / (chroma ** 7 + 25 ** 7))
    return math.sqrt((dl / sl) ** 2 + (dc / sc) ** 2 + (dh / sh) ** 2 + turned * dc / sc * dh / sh)


def main(path, words):
    text = open(path, encoding="utf-8").read()
    root = tree.fromstring(text)
    wide, tall = map(float, root.get("viewBox").split()[2:])
    wrong = []
    for word in words:
        if (word.lstrip("!") in text) == word.startswith("!"):
            wrong.append(("has '%s'" if word.startswith("!") else "lacks '%s'") % word.lstrip("!"))
    if "prefers-color-scheme:dark" not in text:
        wrong.append("nothing for dark pages")
    for box in root.iter(SVG + "rect"):
        if box.get("x") and not (0 <= float(box.get("x")) and float(box.get("x")) + float(box.get("width")) <= wide and
                                 0 <= float(box.get("y")) and float(box.get("y")) + float(box.get("height")) <= tall):
            wrong.append("a rectangle beyond the edge: " + str(box.attrib))
    for label in root.iter(SVG + "text"):
        size = 40 if label.get("class") == "o" else float(label.get("font-size") or root.get("font-size"))
        x, room = float(label.get("x")), 0.55 * size * len(label.text or "")
        left = x - {None: 0, "start": 0, "middle": room / 2, "end": room}[label.get("text-anchor")]
        if label.get("transform") is None and not (left >= 0 and left + room <= wide and 0 <= float(label.get("y")) <= tall):
            wrong.append("a text beyond the edge: " + label.text)
    for path in root.iter(SVG + "path"):
        steps = [(w, list(map(float, numbers.split()))) for w, numbers in re.findall(r"([MLHV])([^MLHV]*)", path.get("d"))]
        if not all(0 <= n[0] <= (tall if w == "V" else wide) and 0 <= n[-1] <= (wide if w == "H" else tall) for w, n in steps):
            wrong.append("a line beyond the edge: " + path.get("d")[:60])
    colours = dict(re.findall(r"\.([wsivagpktc])\{fill:(#[0-9a-f]{6})\}", text))
    for name, view in VIEWS.items() if len(colours) == 10 else ():
        seen = sorted((distance(lab(colours[a], view), lab(colours[b], view)), a, b) for a in colours for b in colours if a < b)
        print("%s: least distance %.1f, of .%s and .%s" % ((name,) + seen[0]))
        if seen[0][0] < LEAST:
            wrong.append("two colours that look alike: %s, .%s and .%s" % (name, seen[0][1], seen[0][2]))
    print("\n".join(wrong[:5]))
    return 1 if wrong else 0


sys.exit(main(sys.argv[1], sys.argv[2:]))
