"""Human studies: surveys as Label Studio projects and spreadsheets, their answers, and how well people agree."""
