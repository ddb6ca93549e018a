"""The crawl node: claims, licenses, fetches, archives, publishes, completes."""
