"""What a team pays, job by job, and what it pays it for."""
