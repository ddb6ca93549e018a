"""How the parts of a role are put together, whatever the form: what the embedded ring and the cluster's roles share.

A line belongs here when both forms need it and it ties services to each other or to the facts of a crawl; what opens
files belongs to `embedded`, what opens connections to `cluster`.
"""
