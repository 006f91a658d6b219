"""The summary for a pull request: rows and skips gained and lost, with denominators, and nothing that breaks the page."""

from __future__ import annotations

from harness.audit.changes import passing, row_changes, skip_changes
from harness.audit.markdown import summary
from harness.audit.model import Audit, AuditFinding
from harness.audit.tests.conftest import Audits
from harness.matrix.states import State
from harness.rows.model import Dimension


def showing(audit: Audit, row: str, state: State) -> Audit:
    """The audit with another state of a row's Compute."""
    rows = tuple(
        each.model_copy(update={"dimensions": {**each.dimensions, Dimension.COMPUTE: state}})
        if each.id == row
        else each
        for each in audit.rows
    )
    return audit.model_copy(update={"rows": rows})


def test_a_row_that_was_lost_is_shown_as_gained(audits: Audits) -> None:
    better = showing(audits.after, "QUANT-GGUF-Q4_K", State.PASS)
    (gained,) = row_changes(audits.after, better)
    (lost,) = row_changes(better, audits.after)
    assert (gained.gained, lost.gained) == (True, False)
    page = summary(better, audits.after)
    assert "### Rows gained: 1" in page
    assert "### Rows lost: 0" in page
    assert "| `QUANT-GGUF-Q4_K` | Compute | absent | pass |" in page
    assert passing(better, Dimension.COMPUTE)[0] == 1
    assert f"| Compute | 1 | {passing(better, Dimension.COMPUTE)[1]} | 0 |" in page


def test_a_row_to_which_a_dimension_does_not_apply_is_lost(audits: Audits) -> None:
    without = showing(audits.after, "QUANT-GGUF-Q4_K", State.NOT_APPLICABLE)
    assert row_changes(audits.after, without) == []
    assert passing(without, Dimension.COMPUTE)[1] == passing(audits.after, Dimension.COMPUTE)[1] - 1


def test_a_skip_that_is_gone_is_shown_as_gained(audits: Audits) -> None:
    (gained,) = skip_changes(audits.before, audits.after)
    assert (gained.before, gained.after, gained.gained) == (0, 2, True)
    assert gained.skip.nodeid == "test_grown_skips.py::test_it"
    page = summary(audits.before, audits.after)
    assert ("### Skips gained: 0" in page, "### Skips lost: 1" in page) == (True, True)
    assert "| `QUANT-GGUF-Q5_0` | **missing_kernel** | 2 | 0 | 2 |" in page


def test_without_a_baseline_everything_is_gained(audits: Audits) -> None:
    page = summary(audits.after, None)
    assert "No baseline was given" in page
    assert "gained:" not in page


def test_the_words_of_a_finding_become_markup(audits: Audits) -> None:
    hostile = AuditFinding(
        code="expired", file="a.py", line=1, message="a | b <script>x</script> *bold*\n## title `c`"
    )
    page = summary(audits.after.model_copy(update={"findings": (hostile,)}), None)
    (line,) = (each for each in page.splitlines() if "a.py" in each)
    assert "a \\| b &lt;script&gt;x&lt;/script&gt; \\*bold\\*" in line
    assert "\n## title" not in page
