"""The kinds of finding, one table: what each means, for people, for SARIF, and for `docs/audit.md`."""

from __future__ import annotations

CODES: dict[str, str] = {
    "unknown-row": "a skip or an expected failure in the debt of a row that does not exist",
    "vague-reason": "a skip or an expected failure without a reason, or with one that fits any test",
    "no-owner": "a skip or an expected failure that nobody looks after",
    "expired": "a skip or an expected failure whose date has passed",
    "bad-expectation": "a skip or an expected failure that says too little in another way",
    "unmatched-expectation": "a skip or an expected failure that no case of its test fits",
    "raw-skip": "a way of not running a test that says nothing",
    "module-skip": "a whole file that is skipped, or is not collected at all",
    "early-return": "a return before anything was asserted",
    "hidden-continue": "a round of a loop that is left before it has asserted anything",
    "swallowed-failure": "a handler that swallows whatever happens, a failed assertion among it",
    "no-assertion": "a test that asserts nothing",
    "dead-value": "an axis value that no case has",
    "skip-of-passing-row": "a skip in the debt of a row that claims pass",
    "passing-debt": "a skipped case that passes when it is run",
    "grown-skips": "a row with more debts than in the baseline",
    "loose-bound": "a bound above the one that upstream uses",
    "narrower-sibling": "a backend or an encoding that is tried with fewer values than its siblings, without a reason",
    "bad-allow": "an exception to the audit that is not needed, or does not say why",
    "bad-family": "a cases mark that cannot be read",
    "bad-nightly": "a test that is left to the nightly run without a reason",
    "duplicate-case": "two tests that run one case",
    "no-cell": "a case whose evidence no cell of the matrix shows",
    "lost-test": "a test that a hook took away",
    "required": "a case that is in the code and not in the committed list, or the other way round",
    "missing-family": "a family of the committed list that no test runs",
    "unfinished-unit": "a part of an encoding or a method that is missing, or still a stub",
}

ALLOWED_BY_COMMENT = ("early-return", "hidden-continue", "swallowed-failure", "no-assertion", "module-skip")
"""What `# audit: allow(CODE) reason` may excuse."""
ALLOWED_BY_LIST = ("loose-bound", "narrower-sibling")
"""What an entry of `harness/audit/allowed.yaml` may excuse: families have no line of their own to write it on."""
