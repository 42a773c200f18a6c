"""Text normalisation of the paper's appendix "Transition Consistency Checks": its second paragraph, and the
sentences on enumerations of its ScienceWorld paragraph."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actfirst.environments.normalize import normalize
from actfirst.environments.scienceworld.normalize import normalize_scienceworld, split_enumeration

# No deadline: the machine may be busy, and speed has tests of its own.
quick = settings(max_examples=60, deadline=None)

ROOM = """This room is called the workshop. In it, you see:
\tthe agent
\ta substance called air
\ta table. On the table is: a battery, a bowl (containing a fig, a plum), a switch, which is off.
\ta stove, which is turned off. On the stove is: nothing.
You also see:
\tA door to the hallway (that is open)"""


class TestEveryBenchmark:
    """ "We normalize observation text before comparison by ..." """

    def test_unicode_nfkc(self) -> None:
        assert normalize("\ufb01ve \uff21\u00b2") == "five a2"

    def test_case_folding_goes_further_than_lower_case(self) -> None:
        assert normalize("Straße MUG") == "strasse mug"

    @pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
    def test_line_endings_are_standardised(self, ending: str) -> None:
        assert normalize(f"one{ending}two") == "one\ntwo"

    def test_whitespace_within_a_line_collapses_and_its_ends_are_trimmed(self) -> None:
        assert normalize("\t a \u00a0 b\t\tc  ") == "a b c"

    def test_vertical_whitespace_that_ends_no_line_is_whitespace(self) -> None:
        assert normalize("a\u2028b\x0cc") == "a b c"

    def test_empty_lines_are_removed(self) -> None:
        assert normalize("\n\na\n \t \n\r\nb\n") == "a\nb"

    def test_line_order_is_preserved(self) -> None:
        assert normalize("b\na") == "b\na"

    def test_words_and_punctuation_are_left_alone(self) -> None:
        assert normalize("On the desk 1, you see a pen 2.") == "on the desk 1, you see a pen 2."

    @quick
    @given(st.text())
    @example("\u0345\u1fb3\u0308")  # folding once leaves this one unfinished
    @example("\u00a8\u0390")
    def test_normalising_twice_changes_nothing(self, text: str) -> None:
        assert normalize(normalize(text)) == normalize(text)

    @quick
    @given(
        st.lists(st.text(alphabet="abcXYZ,.[]'1 ", min_size=1).filter(str.strip), min_size=1),
        st.data(),
    )
    def test_spacing_case_and_line_endings_do_not_matter(self, lines: list[str], data: st.DataObject) -> None:
        ending = data.draw(st.sampled_from(["\n", "\r\n", "\r", "\n\n", "\r\n \t\r\n"]))
        space = data.draw(st.sampled_from([" ", "  ", "\t", "\u00a0", "\u2003 "]))
        change = data.draw(st.sampled_from([str.upper, str.lower, str.swapcase, str.title]))
        disguised = ending.join(space + change(line).replace(" ", space) + space for line in lines)
        assert normalize(disguised) == normalize("\n".join(lines))


class TestEnumerations:
    """ "Enumeration parsing ignores commas inside parentheses and retains clauses starting with which or that
    with their preceding item." """

    def test_items_are_separated_by_commas(self) -> None:
        assert split_enumeration("a fork, a cup,a pan") == ["a fork", "a cup", "a pan"]

    def test_commas_inside_parentheses_separate_nothing(self) -> None:
        text = "a jar (containing salt, sugar), a box (containing a tin (containing tea, rice), a pin), a lid"
        assert split_enumeration(text) == [
            "a jar (containing salt, sugar)",
            "a box (containing a tin (containing tea, rice), a pin)",
            "a lid",
        ]

    def test_which_and_that_clauses_stay_with_their_item(self) -> None:
        assert split_enumeration("a lamp, which is on, that is hot, a cup") == [
            "a lamp, which is on, that is hot",
            "a cup",
        ]

    def test_only_the_whole_words_begin_a_clause(self) -> None:
        assert split_enumeration("a lamp, thatch, whichever") == ["a lamp", "thatch", "whichever"]

    def test_a_clause_with_nothing_before_it_is_an_item(self) -> None:
        assert split_enumeration("which is on, a cup") == ["which is on", "a cup"]

    def test_stray_closing_parentheses_do_not_hide_commas(self) -> None:
        assert split_enumeration("a), b, c") == ["a)", "b", "c"]


class TestScienceWorld:
    """ "Observation normalization additionally sorts lines and object enumerations inside non-nested
    (containing ...) expressions and after the last ` is: ` on each line." """

    def test_lines_are_sorted_and_repeated_lines_kept(self) -> None:
        assert normalize_scienceworld("You see:\n\ta pan\n\ta cup\n\ta pan") == "a cup\na pan\na pan\nyou see:"

    def test_contents_are_sorted(self) -> None:
        assert (
            normalize_scienceworld("a bowl (containing a plum, a fig)") == "a bowl (containing a fig, a plum)"
        )

    def test_every_containing_expression_of_a_line_is_sorted(self) -> None:
        line = "a jar (containing b, a) beside a cup (containing d, c)"
        assert normalize_scienceworld(line) == "a jar (containing a, b) beside a cup (containing c, d)"

    def test_of_nested_containing_expressions_only_the_innermost_is_sorted(self) -> None:
        line = "a box (containing a tin (containing tea, rice), a pin)"
        assert normalize_scienceworld(line) == "a box (containing a tin (containing rice, tea), a pin)"
        assert (
            normalize_scienceworld("x (containing b, a (containing c))") == "x (containing b, a (containing c))"
        )

    def test_other_parentheses_do_not_make_it_nested(self) -> None:
        line = "a shelf (containing a book (Ulysses) by Joyce, a book (Emma) by Austen)"
        assert normalize_scienceworld(line) == (
            "a shelf (containing a book (emma) by austen, a book (ulysses) by joyce)"
        )

    def test_items_after_is_are_sorted_and_the_full_stop_stays_last(self) -> None:
        assert normalize_scienceworld("On the desk is: a pen, a cup.") == "on the desk is: a cup, a pen."
        assert normalize_scienceworld("On the desk is: a pen, a cup") == "on the desk is: a cup, a pen"

    def test_only_what_follows_the_last_is_of_a_line_is_sorted(self) -> None:
        line = "a bed. On the bed is: a rug, a mat. On the mat is: a pillow, a doll.."
        assert (
            normalize_scienceworld(line)
            == "a bed. on the bed is: a rug, a mat. on the mat is: a doll, a pillow."
        )

    def test_an_item_with_its_own_full_stop_is_the_same_in_any_place(self) -> None:
        tree = "a tree. On the tree you see: a flower. "
        assert normalize_scienceworld(f"In it is: {tree}, soil.") == normalize_scienceworld(
            f"In it is: soil, {tree}."
        )
        assert normalize_scienceworld(f"a pot (containing {tree}, soil)") == normalize_scienceworld(
            f"a pot (containing soil, {tree})"
        )

    def test_each_line_has_its_own_last_is(self) -> None:
        assert normalize_scienceworld("A is: d, c\nB is: f, e") == "a is: c, d\nb is: e, f"

    def test_contents_are_sorted_inside_an_enumeration_too(self) -> None:
        line = "On it is: a jar (containing b, a), a cup (containing d, c)."
        assert normalize_scienceworld(line) == "on it is: a cup (containing c, d), a jar (containing a, b)."

    def test_which_clauses_move_with_their_item(self) -> None:
        line = "On it is: a lamp, which is on, a cup, which is full."
        assert normalize_scienceworld(line) == "on it is: a cup, which is full, a lamp, which is on."

    def test_commas_elsewhere_are_left_alone(self) -> None:
        assert normalize_scienceworld("b, a, which is: closed") == "b, a, which is: closed"
        assert normalize_scienceworld("You mix soap, then salt.") == "you mix soap, then salt."

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("a plum", "a pear"),
            ("a battery, ", ""),
            ("which is off", "which is on"),
            ("turned off", "turned on"),
            ("that is open", "that is closed"),
            ("\tthe agent\n", ""),
        ],
    )
    def test_what_is_there_still_matters(self, old: str, new: str) -> None:
        assert old in ROOM
        assert normalize_scienceworld(ROOM.replace(old, new)) != normalize_scienceworld(ROOM)


WORDS = st.sampled_from(["a cup", "an egg", "soap", "a thin rod", "the agent", "a door (that is open)", "salt"])
CLAUSES = st.sampled_from(["", ", which is turned off", ", that is wet"])
LEAVES = st.builds(str.__add__, WORDS, CLAUSES)


@st.composite
def containers(draw: st.DrawFn) -> tuple[str, str]:
    """A container with contents, written in two orders."""
    name = draw(st.sampled_from(["a jar", "a pot", "a box"]))
    items = draw(st.lists(LEAVES, min_size=1, max_size=4))
    other = draw(st.permutations(items))
    return f"{name} (containing {', '.join(items)})", f"{name} (containing {', '.join(other)})"


@st.composite
def listing_lines(draw: st.DrawFn) -> tuple[str, str]:
    """A line with an enumeration of plain things and containers, written in two orders."""
    items = draw(
        st.lists(st.one_of(LEAVES.map(lambda leaf: (leaf, leaf)), containers()), min_size=1, max_size=5)
    )
    other = draw(st.permutations(items))
    head = draw(st.sampled_from(["a table. On the table is: ", "a bed. On it is: a rug. On the rug is: "]))
    stop = draw(st.sampled_from(["", "."]))
    return head + ", ".join(one for one, _ in items) + stop, head + ", ".join(two for _, two in other) + stop


@quick
@given(st.lists(st.one_of(listing_lines(), containers()), min_size=1, max_size=6), st.randoms())
def test_scienceworld_ignores_the_order_of_lines_and_items(
    lines: list[tuple[str, str]], rng: random.Random
) -> None:
    shuffled = list(lines)
    rng.shuffle(shuffled)
    one = "\n\t".join(line for line, _ in lines)
    two = "\r\n\r\n".join(line.upper() for _, line in shuffled)
    assert normalize_scienceworld(one) == normalize_scienceworld(two)
    assert normalize_scienceworld(normalize_scienceworld(one)) == normalize_scienceworld(one)


@quick
@given(st.text())
def test_scienceworld_normalising_twice_changes_nothing(text: str) -> None:
    assert normalize_scienceworld(normalize_scienceworld(text)) == normalize_scienceworld(text)


def test_an_unclosed_parenthesis_costs_no_backtracking() -> None:
    """With backtracking this would not end before the test's time limit."""
    text = "a jar (containing " + "a cup (of tea), " * 6000
    assert normalize_scienceworld(text) == text.strip()
