"""docs/environment.md names every variable that there is, and docs/when-the-world-changes.md and docs/guarantees.md tests that there are."""

import glob
import os
import re

from conftest import MODULE

ROOT = os.path.join(os.path.dirname(MODULE), "..")


def text(*path):
    with open(os.path.join(ROOT, *path)) as f:
        return f.read()


def test_every_variable_is_documented():
    documented = set(re.findall(r"\b[A-Z][A-Z_]+\b", text("docs", "environment.md")))
    ours = set(re.findall(r"\bBELLOWS_[A-Z_]*[A-Z]\b", text("sdk", "bellows.py")))
    for name in glob.glob(os.path.join(ROOT, "**", "*.go"), recursive=True):
        if not name.endswith("_test.go"):
            ours |= set(re.findall(r'"(BELLOWS_[A-Z_]*[A-Z])[="]', text(os.path.relpath(name, ROOT))))
    ours = {name for name in ours if not name.startswith("BELLOWS_TEST_")}  # which only tests read
    workers = set(re.findall(r'^\t+"([A-Z_]+)":', text("agent", "run", "environment.go"), re.MULTILINE))
    assert len(workers) >= 19 and "BELLOWS_SOCKET" in ours
    assert ours | workers <= documented, sorted((ours | workers) - documented)


def test_tests_that_are_named_exist():
    named = {page: set(re.findall(r"`(Test[A-Z]\w+|test_\w+)`", text("docs", page))) for page in ("when-the-world-changes.md", "guarantees.md")}
    there = set()
    for pattern in ("**/*_test.go", "*/tests/test_*.py"):
        for name in glob.glob(os.path.join(ROOT, pattern), recursive=True):
            there |= set(re.findall(r"^(?:func|def) (\w+)\(", text(os.path.relpath(name, ROOT)), re.MULTILINE))
    assert len(named["when-the-world-changes.md"]) >= 60 and len(named["guarantees.md"]) >= 15
    for page, tests in named.items():
        assert tests <= there, (page, sorted(tests - there))


def test_stories_that_are_named_exist():
    named = set(re.findall(r"`(prepared_\w+|dead_shim)`", text("docs", "guarantees.md")))
    there = {os.path.basename(name)[:-4] for name in glob.glob(os.path.join(ROOT, "*", "testdata", "*.txt"))}
    assert len(named) >= 10 and named <= there, sorted(named - there)
