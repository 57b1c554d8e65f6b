"""From operator libraries to a clean, graded set of tasks: crawl, compose, filter, write, audit."""
