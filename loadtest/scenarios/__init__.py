"""What is measured or shown on whole crawls: the crawler as a user starts it, against a web of `origin`.

- `bench`: speed, memory, start and resume (`make bench`); its parts are `crawling`, `starting` and `known_urls`
- `looking`: what somebody waits who only looks on (`hosts`, `status`, `report`) while a crawl is at work
- `figures`, `calibration`, `procfs`: what is reported, against which machine, read from where
- `performance`: the page of the documentation that shows what was measured
- `demo`: the small web that ships with Limpet, crawled (`make crawl`)
- `fetch_bench`, `store_bench`, `warc_bench`: one part of the crawler at a time
"""
