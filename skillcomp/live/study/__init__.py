"""What a study asks: its file, its plan, and the texts of its conditions."""
