"""Speed and validity of skillcomp, measured beside its peers."""
