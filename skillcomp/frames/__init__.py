"""Tidy frames: read from a store or a table, checked, and reduced to outcomes.

Functions load on first use. Each heading below is a file of this package.

    ``clusters_of``: the cluster of each row. Linked cases are in one cluster.

check: the contract of a frame
    ``check``: convert and check a frame of a kind.
    ``empty``: a frame without rows.

estimates: functions that all analyses use
    ``prepared``: check a frame for an analysis; refuse to pool graders or agents.
    ``groups``: the rows of each group.
    ``clusters_of``: the cluster of each row, its case and the cases linked to it.
    ``row``, ``estimates``: one row of an estimates frame, and the frame.

from_frame: a researcher's own table (with table_reader and words)
    ``from_frame``: a table of answers, pairs or passages becomes checked frames.

from_store: a store
    ``cases``, ``checks``, ``attempts``, ``verdicts``, ``gold``, ``pairwise``: one frame each.
    ``invocations``, ``events``, ``commands``, ``runs``: what agents did, and changes between runs.
    ``passages``: labelled texts, read from a file.
    ``coverage``: the cases of each dimension.

outcomes: verdicts aggregated
    ``outcomes``: one row per attempt, grader version and round.

probes: answers of known quality, graded on every check
    ``probes``: the result of the last probe of a store.
    ``probe_rates``: the share of checks that each answer passes, for a figure.

save_frames: the frames of one study, or of several
    ``Frames``: what the door returns; it saves them as a store.
    ``concat``: one set of frames, with the study in a column; nothing is pooled.

study_defaults: graders and conditions that a study is compared by
    ``grader_versions``: a name of its own for each version of a grader.
    ``first_grader``, ``default_reference``: the grader and the condition to compare with.

table_reader: how a table is read
    ``FrameWarning``: the warning that lists how values were converted.
"""

from skillcomp.removed_names import attach_stub

__getattr__, _, _names = attach_stub(__name__, __file__)
# leave out the functions that the top level of skillcomp already lists
__all__ = [name for name in _names if name != "from_frame"]


def __dir__() -> list[str]:
    return __all__
