"""The contrast engine: weighted sums of arm means within the unit, over units with all arms."""
