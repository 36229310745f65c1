#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The form of commits: ./x commits [RANGE]; without RANGE those since SINCE, the commit from which
on the rules hold. Prints every breach as commit: text; exit code 1. Where there is no history (an
archive, a shallow clone) it says so and checks what there is.

    subject   at most 72 characters, `area: imperative ...`, no full stop; areas: a, b
    body      says why, in at most 100 columns, unless the commit changes at most 20 lines of what
              is written by hand
    contents  no commit that only records a status: it belongs to the change it speaks of
"""
import re
import subprocess
import sys

from tidy import MAX_COLUMNS, ROOT, is_generated

SINCE = "b1c7f8194f3d792720e498dbf1d095c36b15b1be"
MAX_SUBJECT, SMALL = 72, 20
STATUS = re.compile(r"(docs/STATUS|ROADMAP)\.md$")
SUBJECT = re.compile(r"([a-z0-9][\w./+-]*(?:, [a-z0-9][\w./+-]*)*): (\S+)(.*)$")
# First words that are none of a command, and commands that look like other forms.
NO_VERBS = set("a an the of in on at to for from with by and or but no not what who how when where "
               "why which this that these those some all each every more less one two new its it "
               "there is are was were has have will also".split())
LOOKS_OTHERWISE = set("embed feed need seed speed shed bleed breed bring ping ring string sting "
                      "bias focus alias".split())


def is_command(word):
    """Whether it may be a verb in the imperative. Machines cannot know; these forms are none."""
    word = word.lower().rstrip(",;:")
    if word in LOOKS_OTHERWISE:
        return True
    other_form = re.search(r"(ed|ing)$", word) or re.search(r"[^s]s$", word)
    return re.match(r"[a-z]", word) and word not in NO_VERBS and not other_form


def wrong(subject, body, changed, lines):
    """What is wrong with a commit. changed: its paths; lines: how many by hand it changes."""
    parts = SUBJECT.match(subject)
    if len(subject) > MAX_SUBJECT:
        yield f"the subject has {len(subject)} characters, at most {MAX_SUBJECT} are read"
    if not parts:
        yield "the subject is not `area: imperative ...`"
    elif not is_command(parts[2]):
        yield f"the subject tells nobody what to do: {parts[2]!r} is no verb in the imperative"
    if subject.endswith("."):
        yield "the subject ends with a full stop"
    if not body and lines > SMALL:
        yield f"{lines} lines change, and no body says why"
    for line in body.split("\n"):
        if len(line) > MAX_COLUMNS and " " in line.strip() and not line.startswith("    "):
            yield f"a line of the body has {len(line)} columns: {line[:40]}..."
    if changed and all(STATUS.match(path) for path in changed):
        yield "it only records a status: that belongs to the change it speaks of"


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60,
                          check=False)


def commits(span):
    """(short id, subject, body, paths, lines by hand) of each commit but merges, oldest first."""
    listed = git("rev-list", "--no-merges", "--reverse", *span).stdout.split()
    for commit in listed:
        text = git("show", "-s", "--format=%s%n%b", commit).stdout
        subject, _, body = text.partition("\n")
        counted = git("show", "--numstat", "--no-renames", "--format=", commit).stdout
        rows = [row.split("\t") for row in counted.split("\n") if row]
        lines = sum(int(added) + int(removed) for added, removed, path in rows
                    if added != "-" and not is_generated(path))
        yield commit[:9], subject, body.strip(), [path for _, _, path in rows], lines


def span_of(arguments):
    """(arguments of rev-list, a note on what is not looked at or why nothing can be)."""
    if git("rev-parse", "--verify", "HEAD").returncode != 0:
        return None, "there is no history here: nothing to check"
    if arguments:
        return arguments, ""
    if git("merge-base", "--is-ancestor", SINCE, "HEAD").returncode == 0:
        return [f"{SINCE}..HEAD"], ""
    if git("rev-parse", "--is-shallow-repository").stdout.strip() == "true":
        return ["HEAD"], "the clone is shallow: only the commits that it has are checked"
    return None, f"{SINCE[:9]}, from which on the rules hold, is not in this history: name a range"


def main():
    span, note = span_of(sys.argv[1:])
    if note:
        print(f"tidy_commits: {note}")
    if span is None:
        return 0
    if git("rev-list", "--max-count=1", *span).returncode != 0:
        print(f"tidy_commits: git knows no commits {' '.join(span)}", file=sys.stderr)
        return 2
    breaches = count = 0
    for commit, subject, body, paths, lines in commits(span):
        count += 1
        for text in wrong(subject, body, paths, lines):
            breaches += 1
            print(f"{commit}: {text}: {subject}")
    print(f"tidy_commits: {breaches or 'no'} breaches in {count} commits")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
