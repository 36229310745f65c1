# SPDX-License-Identifier: Apache-2.0
"""docs/suites.md: a section for each suite, from what its runs have left in build/suites, and from
causes.toml beside this, which says why something differs."""
import tomllib

from support import mpis

PAGE = mpis.ROOT / "docs/suites.md"
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


def causes(suite, differing):
    """A line for each difference."""
    known = tomllib.loads(CAUSES.read_text())[suite]
    lines = []
    for group, name, native, under in differing:
        cause = known.get(name) or known.get(name.split(".")[0], "not known")
        lines.append(f"- `{name}` ({group}): {native} natively, {under} under Fermata. {cause}")
    return lines or ["No difference."]


def write(suite, body):
    """Replaces the suite's section of the page."""
    page = PAGE.read_text()
    begin = page.index(f"<!-- {suite} -->")
    end = page.index("<!-- end -->", begin)
    text = "\n".join([f"<!-- {suite} -->", *body, ""])
    PAGE.write_text(page[:begin] + text + page[end:])
