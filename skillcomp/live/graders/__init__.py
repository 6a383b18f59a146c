"""Graders, which decide about the checks of an answer; `skillcomp.live` exports them."""
