"""The explorer: a lakehouse as pages for people, and each page as JSON for programs."""
