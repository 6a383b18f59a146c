"""Which checks an analysis leaves out."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from skillcomp.errors import FrameError, suggest

__all__ = ["without_checks"]


def without_checks(
    frame: pd.DataFrame, exclude: str | Sequence[str] | None, what: str
) -> pd.DataFrame:
    """Leave out the checks whose id contains one of the texts.

    Parameters
    ----------
    frame : pandas.DataFrame
        Anything with ``check_id``.
    exclude : str or sequence of str, optional
        Texts, such as ``"verbatim"``; upper and lower case differ. Nothing is left out when
        omitted.
    what : str
        The analysis, for the message.

    Returns
    -------
    pandas.DataFrame
        The other rows, with their index.

    Raises
    ------
    FrameError
        If a text is empty or in no check id, or ``check_id`` is missing.

    Examples
    --------
    >>> frame = pd.DataFrame({"check_id": ["no_verbatim_copy", "states_rule"]})
    >>> without_checks(frame, "verbatim", "drift")["check_id"].tolist()
    ['states_rule']
    """
    texts = [exclude] if isinstance(exclude, str) else list(exclude or ())
    if texts and "check_id" not in frame.columns:
        raise FrameError(f"{what}: exclude_checks needs the column 'check_id', which is not there.")
    left_out = pd.Series(False, index=frame.index)
    for text in texts:
        if not isinstance(text, str) or not text:
            raise FrameError(
                f"{what}: exclude_checks: found {text!r}; allowed: part of a check id."
            )
        hit = frame["check_id"].str.contains(text, regex=False).fillna(False).astype(bool)
        if not hit.any():
            raise FrameError(
                f"{what}: exclude_checks '{text}' is in no check id."
                + suggest(text, map(str, frame["check_id"].dropna().unique()))
            )
        left_out |= hit
    return frame[~left_out]
