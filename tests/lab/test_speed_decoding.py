"""`actfirst bench decoding`: both forms are timed in turn on every combination."""

from __future__ import annotations

from actfirst.lab.speed.decoding import measure, to_json


def test_every_combination_is_timed_in_both_forms() -> None:
    told: list[str] = []
    points = measure([1, 20], [40], queries=3, rounds=2, told=lambda done, of, what: told.append(what))
    assert [(point.sequences, point.length, point.queries) for point in points] == [(1, 40, 3), (20, 40, 3)]
    assert told == ["1 sequences of 40", "20 sequences of 40"]
    for point in points:
        assert len(point.torch) == len(point.numpy) == 2
        assert min(*point.torch, *point.numpy) >= 0
        assert point.row()["tokens each"] == "40"
    assert len(to_json(points)["points"]) == 2
