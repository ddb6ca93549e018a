"""The cluster form: every role as a process of its own, over Cassandra, Kafka, seen shards and HDFS.

`limpet init --config F` lays a crawl out, `limpet run ROLE --config F` serves one role, any number of each. A line
belongs here when it says how a role is put together on a cluster, held up and ended; what the role does belongs to it.
"""
