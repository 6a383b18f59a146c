"""The longest runs that a sequence shares with another, in time linear in both."""

from __future__ import annotations

from collections.abc import Sequence


class SuffixAutomaton:
    """All runs of one sequence, for measuring how far others agree with it.

    Parameters
    ----------
    source : sequence of int
        The sequence.

    Notes
    -----
    Building takes time and memory linear in the source whatever it repeats.

    References
    ----------
    Blumer et al. (1985), doi:10.1016/0304-3975(85)90157-4.

    Examples
    --------
    >>> SuffixAutomaton([1, 2, 3, 1, 2]).runs([1, 2, 1, 2, 3])
    [1, 2, 1, 2, 3]
    """

    def __init__(self, source: Sequence[int]) -> None:
        # For each state, 0 being the empty run: what follows, the longest shorter ending in
        # another state, and its length.
        self._follow: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._size = [0]
        last = 0
        for token in source:
            last = self._append(token, last)

    def _append(self, token: int, last: int) -> int:
        new = self._state({}, 0, self._size[last] + 1)
        state = last
        while state >= 0 and token not in self._follow[state]:
            self._follow[state][token] = new
            state = self._link[state]
        if state >= 0:
            near = self._follow[state][token]
            longer = self._size[near] > self._size[state] + 1
            self._link[new] = self._split(token, state, near) if longer else near
        return new

    def _split(self, token: int, state: int, near: int) -> int:
        """Give the runs of a state that end in more places a state of their own."""
        twin = self._state(dict(self._follow[near]), self._link[near], self._size[state] + 1)
        while state >= 0 and self._follow[state].get(token) == near:
            self._follow[state][token] = twin
            state = self._link[state]
        self._link[near] = twin
        return twin

    def _state(self, follow: dict[int, int], link: int, size: int) -> int:
        self._follow.append(follow)
        self._link.append(link)
        self._size.append(size)
        return len(self._size) - 1

    def runs(self, piece: Sequence[int]) -> list[int]:
        """Return for each place the length of the longest run ending there that is in the source.

        Parameters
        ----------
        piece : sequence of int
            What is compared with the source.

        Returns
        -------
        list of int
            One length for each place; 0 where the number itself is not in the source.
        """
        follow, link, size = self._follow, self._link, self._size
        out, state, length = [], 0, 0
        for token in piece:
            while state and token not in follow[state]:
                state = link[state]
                length = size[state]
            if token in follow[state]:
                state, length = follow[state][token], length + 1
            out.append(length)
        return out
