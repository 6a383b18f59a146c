"""Speed and validity of skillcomp, compared with other packages."""
