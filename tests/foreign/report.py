# SPDX-License-Identifier: Apache-2.0
"""docs/evidence/suites.md: a section for each suite, from what its runs have left in build/suites,
and from causes.toml beside this, which says why something differs."""
import tomllib

from support import mpis

PAGE = mpis.ROOT / "docs/evidence/suites.md"
CAUSES = mpis.ROOT / "tests/foreign/causes.toml"
SKIPPED = ("not run", "skipped")


def by_directory(results):
    """Lines of a table: MPICH's suite."""
    lines = ["| directory | lines | right natively | right under Fermata |", "|---|---|---|---|"]
    total = [0, 0, 0]
    for group, tests in sorted(results.items()):
        outcomes = list(tests.values())
        row = [len(outcomes), sum(native == "ok" for native, _ in outcomes),
               sum(both == ["ok", "ok"] for both in outcomes)]
        total = [a + b for a, b in zip(total, row, strict=True)]
        lines.append(f"| {group.partition(' on ')[0]} | " + " | ".join(map(str, row)) + " |")
    return [*lines, "| all | " + " | ".join(map(str, total)) + " |"]


def not_right(results):
    """How many lines are not right natively, by what happens."""
    counts = {}
    for tests in results.values():
        for native, _ in tests.values():
            if native != "ok":
                counts[native] = counts.get(native, 0) + 1
    words = {"FAIL": "fail", "hung": "hang", "not run": "cannot be built"}
    told = ", ".join(f"{count} {words[kind]}" for kind, count in sorted(counts.items()))
    return f"Not right natively on the machine of these runs, and not compared: {told or 'none'}."


def cause_of(known, name):
    """By the whole name, the module or the last part of it; without one, the name itself."""
    parts = name.split(".")
    return next((known[key] for key in (name, parts[0], parts[-1]) if key in known), None)


def causes(suite, differing):
    """A line for each cause: whose tests they are, and how they differ."""
    known = tomllib.loads(CAUSES.read_text())[suite]
    by_cause = {}
    for group, name, native, under in differing:
        cause = cause_of(known, name)
        tests, sides = by_cause.setdefault((group, cause or name), ([], set()))
        tests.append(name)
        sides.add((native, under))
    lines = []
    for (group, cause), (tests, sides) in by_cause.items():
        shown = ", ".join(f"`{name}`" for name in tests)
        told = "; ".join(f"{native} natively, {under} under Fermata"
                         for native, under in sorted(sides))
        why = "Not known." if cause in tests else cause
        lines.append(f"- {shown} ({group}): {told}. {why}")
    return lines or ["No difference."]


def write(suite, body):
    """Replaces the suite's section of the page."""
    page = PAGE.read_text()
    begin = page.index(f"<!-- {suite} -->")
    end = page.index("<!-- end -->", begin)
    text = "\n".join([f"<!-- {suite} -->", *body, ""])
    PAGE.write_text(page[:begin] + text + page[end:])
