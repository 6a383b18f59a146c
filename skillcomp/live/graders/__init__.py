"""Graders, which judge whether an answer passes its checks; `skillcomp.live` exports them."""
